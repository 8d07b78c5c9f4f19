//! ALTER TABLE while writers go on.
//!
//! # Safety
//! The contract of `lib.rs`. `slc_online *` is a `Box` from `slc_online_begin`, which
//! `slc_online_end` takes back. The two transactions of a round are different handles.
use super::abi::*;
use super::engine::{check_writable, enter};
use super::table::slc_table;
use super::trx::slc_trx;
use sluice::base::Error;
use sluice::engine::Engine;
use sluice::table::{Followed, OnlineAlter, Pass};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// What `slc_online *` points to.
pub struct slc_online {
    engine: Arc<Engine>,
    alter: OnlineAlter,
}

#[repr(C)]
pub struct slc_online_report {
    keys: u64,
    changed: u64,
    again: u64,
}

#[repr(C)]
pub struct slc_online_change {
    pk: slc_bytes,
    was: slc_bytes,
    is: slc_bytes,
    is_second_pass: c_int,
    older_row_only: c_int,
}

pub type slc_online_cb = Option<unsafe extern "C" fn(ctx: *mut c_void, change: *mut slc_online_change) -> c_int>;

#[no_mangle]
pub unsafe extern "C" fn slc_online_begin(
    table: *mut slc_table,
    base: *mut slc_trx,
    out: *mut *mut slc_online,
) -> slc_err {
    let (table, (engine, base)) = unsafe { (slc_table::of(table), slc_trx::of(base)) };
    enter(engine, || {
        check_writable(table.read_only)?;
        let alter = engine.store().begin_online(&table.table, base)?;
        let engine = engine.clone();
        unsafe { *out = Box::into_raw(Box::new(slc_online { engine, alter })) };
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_online_round(
    online: *mut slc_online,
    older: *mut slc_trx,
    newer: *mut slc_trx,
    each: slc_online_cb,
    ctx: *mut c_void,
    out: *mut slc_online_report,
) -> slc_err {
    let slc_online { engine, alter } = unsafe { &*online };
    let ((_, older), (_, newer)) = unsafe { (slc_trx::of(older), slc_trx::of(newer)) };
    enter(engine, || {
        let bytes = |row: Option<&[u8]>| row.map_or(slc_bytes::EMPTY, slc_bytes::of);
        let done = alter.round(older, newer, &mut |change| {
            let each = each.ok_or(Error::RowNotMade)?;
            let mut change = slc_online_change {
                pk: slc_bytes::of(change.key),
                was: bytes(change.was),
                is: bytes(change.is),
                is_second_pass: (change.pass == Pass::Second) as c_int,
                older_row_only: 0,
            };
            // SAFETY: the callback has the header's signature.
            match unsafe { each(ctx, &mut change) } {
                0 if change.older_row_only != 0 => Ok(Followed::OlderRowOnly),
                0 => Ok(Followed::Whole),
                _ => Err(Error::RowNotMade),
            }
        })?;
        unsafe {
            *out = slc_online_report {
                keys: done.keys,
                changed: done.changed,
                again: done.again,
            }
        };
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_online_end(online: *mut slc_online) {
    if !online.is_null() {
        // SAFETY: the caller gives the pointer up.
        std::mem::drop(unsafe { Box::from_raw(online) });
    }
}
