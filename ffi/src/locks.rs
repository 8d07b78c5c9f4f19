//! The lock report for INFORMATION_SCHEMA, row by row through callbacks.
//!
//! # Safety
//! The contract of `lib.rs`. A row, and the texts in it, live through the call of the callback that
//! gets it.
use super::abi::*;
use super::engine::{enter, slc_engine};
use sluice::engine::NamedLocks;
use sluice::txn::{LockDetail, LockKind, LockMode, TrxInfo};
use std::ffi::c_void;

fn text(text: &str) -> slc_bytes {
    slc_bytes::of(text.as_bytes())
}

fn us(time: Option<u64>) -> i64 {
    time.map_or(-1, |us| us as i64)
}

fn transaction(trx: &TrxInfo, xid: &str, requested_lock: &str, locked: (u64, u64)) -> slc_trx_info {
    let (tables_locked, indexes_locked) = locked;
    slc_trx_info {
        number: trx.number(),
        connection: trx.connection,
        age_us: us(trx.age_us),
        waiting_us: us(trx.waiting_us),
        snapshot_age_us: us(trx.snapshot_age_us),
        undo_records: trx.undo_records,
        undo_bytes: trx.undo_bytes,
        buffered_changes: trx.buffered_changes,
        row_locks: trx.row_locks,
        range_locks: trx.range_locks,
        tables_locked,
        indexes_locked,
        weight: trx.weight(),
        requested_lock: text(requested_lock),
        xid: text(xid),
        isolation: trx.isolation as u8,
        has_id: (trx.id != 0) as u8,
        prepared: trx.prepared as u8,
        rolling_back: trx.rolling_back as u8,
    }
}

fn send_lock(locks: &NamedLocks, at: usize, each: &mut dyn FnMut(&slc_lock_info)) {
    let (lock, id) = (&locks.report.locks[at], locks.report.lock_id(at));
    let name = locks.name(lock);
    let (kind, to) = match &lock.kind {
        LockKind::Row if name.index.is_none() && !name.table.is_empty() => (SLC_LOCKED_COUNTER, None),
        LockKind::Row => (SLC_LOCKED_ROW, None),
        LockKind::Range { to } => (SLC_LOCKED_RANGE, to.as_deref()),
        LockKind::Insert => (SLC_LOCKED_INSERT, None),
    };
    each(&slc_lock_info {
        id: text(&id),
        trx: locks.report.transactions[lock.trx].number(),
        table: text(&name.table),
        index: text(name.index.as_deref().unwrap_or("")),
        index_number: name.ordinal,
        kind,
        key: slc_bytes::of(&lock.key),
        key_to: to.map_or(slc_bytes::EMPTY, slc_bytes::of),
        exclusive: (lock.mode == LockMode::Exclusive) as u8,
        granted: lock.granted as u8,
    });
}

#[no_mangle]
pub unsafe extern "C" fn slc_lock_report(engine: *mut slc_engine, detail: u32, sink: *const slc_lock_sink) -> slc_err {
    let (engine, sink) = unsafe { (slc_engine::of(engine), &*sink) };
    enter(engine, || {
        let locks = engine.named_locks(match detail {
            SLC_LOCKS_WAITED_FOR => LockDetail::Nothing,
            SLC_LOCKS_COUNTED => LockDetail::Indexes,
            _ => LockDetail::Locks,
        });
        let report = &locks.report;
        let (tables, indexes) = (locks.tables_locked(), locks.indexes_locked());
        for (at, trx) in report.transactions.iter().enumerate() {
            let requested = report.requested[at].map_or(String::new(), |lock| report.lock_id(lock));
            let xid = trx.xid.as_ref().map_or(String::new(), |xid| xid.to_string());
            if let Some(cb) = sink.trx {
                unsafe { cb(sink.ctx, &transaction(trx, &xid, &requested, (tables[at], indexes[at]))) }
            }
        }
        if let Some(cb) = sink.lock {
            for at in 0..report.locks.len() {
                send_lock(&locks, at, &mut |row| unsafe { cb(sink.ctx, row) });
            }
        }
        for (waiting, in_the_way) in &report.waits {
            let number = |lock: usize| report.transactions[report.locks[lock].trx].number();
            let (requested, blocking) = (report.lock_id(*waiting), report.lock_id(*in_the_way));
            let row = slc_lock_wait {
                requesting_trx: number(*waiting),
                blocking_trx: number(*in_the_way),
                requested_lock: text(&requested),
                blocking_lock: text(&blocking),
            };
            if let Some(cb) = sink.wait {
                unsafe { cb(sink.ctx, &row) }
            }
        }
        Ok(())
    })
}

/// As in the header.
#[repr(C)]
pub struct slc_lock_sink {
    ctx: *mut c_void,
    trx: Option<unsafe extern "C" fn(*mut c_void, *const slc_trx_info)>,
    lock: Option<unsafe extern "C" fn(*mut c_void, *const slc_lock_info)>,
    wait: Option<unsafe extern "C" fn(*mut c_void, *const slc_lock_wait)>,
}
