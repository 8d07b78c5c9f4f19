//! Loads of new tables.
//!
//! # Safety
//! The contract of `lib.rs`. A load handle is a `Box` from `slc_load_begin`, which `slc_load_end`
//! takes back. What `slc_load_duplicate_row` points to lives until that end.
use super::abi::*;
use super::engine::{check_writable, enter};
use super::row::with_entries;
use super::table::slc_table;
use super::trx::slc_trx;
use sluice::engine::Engine;
use sluice::table::TableLoad;
use std::sync::Arc;

/// What `slc_load *` points to.
pub struct slc_load {
    engine: Arc<Engine>,
    load: TableLoad,
    finished: bool,
}

#[no_mangle]
pub unsafe extern "C" fn slc_load_begin(table: *mut slc_table, out: *mut *mut slc_load) -> slc_err {
    let table = unsafe { slc_table::of(table) };
    enter(&table.engine, || {
        check_writable(table.read_only)?;
        let engine = table.engine.clone();
        let begun = engine.store().loads().begin_load(&table.table)?;
        let load = begun.map(|load| slc_load {
            engine,
            load,
            finished: false,
        });
        unsafe { *out = load.map_or(std::ptr::null_mut(), |load| Box::into_raw(Box::new(load))) };
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_load_add(
    load: *mut slc_load,
    pk: slc_bytes,
    row: slc_bytes,
    entries: *const slc_entry,
    entry_count: u32,
) -> slc_err {
    let slc_load { engine, load, .. } = unsafe { &mut *load };
    enter(engine, || unsafe {
        with_entries(entries, entry_count, |list| load.add(pk.get(), row.get(), list))
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_load_finish(load: *mut slc_load, trx: *mut slc_trx) -> slc_err {
    let (handle, (_, trx)) = unsafe { (&mut *load, slc_trx::of(trx)) };
    let slc_load { engine, load, finished } = handle;
    enter(engine, || {
        load.finish(trx)?;
        *finished = true;
        Ok(())
    })
}

/// Valid until the load ends.
#[no_mangle]
pub unsafe extern "C" fn slc_load_duplicate_row(load: *const slc_load) -> slc_bytes {
    slc_bytes::of(unsafe { &*load }.load.duplicate_row())
}

#[no_mangle]
pub unsafe extern "C" fn slc_load_end(load: *mut slc_load) {
    if load.is_null() {
        return;
    }
    // SAFETY: the caller gives the pointer up.
    let slc_load { engine, load, finished } = *unsafe { Box::from_raw(load) };
    if !finished {
        // After an error the pages stay allocated until the table's file is dropped.
        enter(&engine, || load.abort());
    }
}
