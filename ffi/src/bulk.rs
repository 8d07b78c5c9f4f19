//! Statements that fill an empty table (INSERT ... SELECT, LOAD DATA).
//!
//! # Safety
//! The contract of `lib.rs`. A bulk handle is a `Box` from `slc_bulk_begin`, which `slc_bulk_end`
//! takes back. Each call with it has the transaction of the statement. What `slc_bulk_refused`
//! points to lives until that end.
use super::abi::*;
use super::engine::{check_writable, enter, enter_value};
use super::row::with_entries;
use super::table::slc_table;
use super::trx::slc_trx;
use sluice::table::BulkInsert;

/// What `slc_bulk *` points to.
pub struct slc_bulk(BulkInsert);

#[no_mangle]
pub unsafe extern "C" fn slc_bulk_begin(table: *mut slc_table, out: *mut *mut slc_bulk) -> slc_err {
    let table = unsafe { slc_table::of(table) };
    enter(&table.engine, || {
        check_writable(table.read_only)?;
        let begun = table.engine.store().loads().begin_bulk_insert(&table.table)?;
        let bulk = begun.map_or(std::ptr::null_mut(), |bulk| Box::into_raw(Box::new(slc_bulk(bulk))));
        unsafe { *out = bulk };
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_bulk_add(
    bulk: *mut slc_bulk,
    trx: *mut slc_trx,
    pk: slc_bytes,
    row: slc_bytes,
    entries: *const slc_entry,
    entry_count: u32,
) -> slc_err {
    let (slc_bulk(bulk), (engine, trx)) = unsafe { (&mut *bulk, slc_trx::of(trx)) };
    enter(engine, || unsafe {
        with_entries(entries, entry_count, |list| bulk.add(trx, pk.get(), row.get(), list))
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_bulk_finish(bulk: *mut slc_bulk, trx: *mut slc_trx) -> slc_err {
    let (slc_bulk(bulk), (engine, trx)) = unsafe { (&mut *bulk, slc_trx::of(trx)) };
    enter(engine, || bulk.finish(trx))
}

/// The result is valid until `slc_bulk_end`. 0: the refused row is the one given last.
#[no_mangle]
pub unsafe extern "C" fn slc_bulk_refused(bulk: *const slc_bulk, pk: *mut slc_bytes, row: *mut slc_bytes) -> i32 {
    let slc_bulk(bulk) = unsafe { &*bulk };
    let Some((key, bytes)) = bulk.refused() else { return 0 };
    unsafe { (*pk, *row) = (slc_bytes::of(key), slc_bytes::of(bytes)) };
    1
}

#[no_mangle]
pub unsafe extern "C" fn slc_bulk_end(bulk: *mut slc_bulk, trx: *mut slc_trx) {
    if bulk.is_null() {
        return;
    }
    // SAFETY: the caller gives the pointer up.
    let (slc_bulk(bulk), (engine, trx)) = unsafe { (*Box::from_raw(bulk), slc_trx::of(trx)) };
    enter_value(engine, (), || bulk.end(trx));
}
