//! Transactions of connections.
//!
//! # Safety
//! The contract of `lib.rs`. A transaction handle is a `Box` from `slc_trx_new`, which
//! `slc_trx_free` takes back. Its connection's thread alone makes a `&mut` of the handle or of its
//! fields. `slc_trx_cancel_wait` may come from any thread at the same time: it refers to the fields
//! `engine` and `shared` alone, which the owner's calls never replace.
use super::abi::*;
use super::engine::{enter, enter_value, slc_engine};
use super::waiter::CallbackWaiter;
use sluice::base::sync::{Rank, RankedMutex};
use sluice::base::{Result, UndoPtr};
use sluice::engine::Engine;
use sluice::txn::{Isolation, Trx, TrxShared, Xid};
use std::sync::Arc;

/// What `slc_trx *` points to.
pub struct slc_trx {
    pub engine: Arc<Engine>,
    pub trx: Trx,
    /// Its XID between prepare and commit or rollback.
    prepared: Option<Xid>,
    /// The prepared transaction, if it may outlive the connection. The engine owns it until this
    /// connection, or another one, ends it, and `trx` is a fresh one.
    in_doubt: Option<Arc<TrxShared>>,
    /// The part of `trx` that other threads use.
    shared: RankedMutex<Arc<TrxShared>>,
    waiter: Arc<CallbackWaiter>,
}

impl slc_trx {
    /// # Safety
    /// `trx` is a live pointer from `slc_trx_new`, used by one thread at a time.
    pub unsafe fn of<'a>(trx: *mut slc_trx) -> (&'a Arc<Engine>, &'a mut Trx) {
        // SAFETY: the caller's promise.
        let handle = unsafe { &mut *trx };
        (&handle.engine, &mut handle.trx)
    }
}

#[no_mangle]
pub unsafe extern "C" fn slc_trx_new(
    engine: *mut slc_engine,
    waiter: *const slc_waiter,
    connection: u64,
) -> *mut slc_trx {
    let engine = unsafe { slc_engine::of(engine) };
    enter_value(engine, std::ptr::null_mut(), || {
        let calls = unsafe { *waiter };
        let waiter = Arc::new(CallbackWaiter::new(calls));
        let trx = engine.new_trx(waiter.clone(), connection);
        Box::into_raw(Box::new(slc_trx {
            engine: engine.clone(),
            shared: RankedMutex::new(Rank::Leaf, trx.shared.clone()),
            trx,
            prepared: None,
            in_doubt: None,
            waiter,
        }))
    })
}

/// Ends a transaction that its connection leaves.
fn roll_back_left(engine: &Engine, trx: &mut Trx) {
    if !trx.is_started() {
        return;
    }
    // A rollback that must wait leaves a fresh transaction in `trx`.
    if let Err(e) = engine.rollback(trx) {
        if trx.is_started() {
            engine.poison(&format!("a rollback failed: {e}"));
        }
    }
}

#[no_mangle]
pub unsafe extern "C" fn slc_trx_free(trx: *mut slc_trx) {
    // SAFETY: the caller gives the pointer up.
    let handle = *unsafe { Box::from_raw(trx) };
    let slc_trx {
        engine,
        mut trx,
        prepared,
        in_doubt,
        waiter,
        ..
    } = handle;
    enter_value(&engine, (), || match (prepared, in_doubt) {
        (Some(xid), None) => {
            trx.shared.detach();
            engine.in_doubt.keep(xid, trx);
        }
        (_, in_doubt) => {
            in_doubt.inspect(|prepared| prepared.detach());
            roll_back_left(&engine, &mut trx);
        }
    });
    // The caller frees the connection when this returns.
    waiter.leave();
}

#[no_mangle]
pub unsafe extern "C" fn slc_trx_start(trx: *mut slc_trx, isolation: u32, lock_wait_timeout_ms: u32) {
    let (engine, trx) = unsafe { slc_trx::of(trx) };
    let isolation = Isolation::from_number(isolation);
    enter_value(engine, (), || engine.start(trx, isolation, lock_wait_timeout_ms));
}

#[no_mangle]
pub unsafe extern "C" fn slc_trx_snapshot_by_locking(trx: *mut slc_trx, on: i32) {
    unsafe { &mut (*trx).trx }.snapshot_by_locking = on != 0;
}

#[no_mangle]
pub unsafe extern "C" fn slc_trx_snapshot_isolation(trx: *mut slc_trx, on: i32) {
    unsafe { &mut (*trx).trx }.snapshot_isolation = on != 0;
}

/// The XID that its user gave it, for reports.
#[no_mangle]
pub unsafe extern "C" fn slc_trx_name(trx: *mut slc_trx, xid: *const slc_xid) {
    let (engine, trx) = unsafe { slc_trx::of(trx) };
    enter_value(engine, (), || trx.name(&unsafe { &*xid }.to_xid()));
}

#[no_mangle]
pub unsafe extern "C" fn slc_trx_is_started(trx: *const slc_trx) -> i32 {
    unsafe { (*trx).trx.is_started() as i32 }
}

#[no_mangle]
pub unsafe extern "C" fn slc_trx_has_writes(trx: *const slc_trx) -> i32 {
    (unsafe { &(*trx).trx }.id() != 0) as i32
}

#[no_mangle]
pub unsafe extern "C" fn slc_trx_has_locks(trx: *const slc_trx) -> i32 {
    unsafe { &(*trx).trx }.shared.may_be_waited_for() as i32
}

#[no_mangle]
pub unsafe extern "C" fn slc_trx_id(trx: *const slc_trx) -> u64 {
    unsafe { &(*trx).trx }.id()
}

#[no_mangle]
pub unsafe extern "C" fn slc_trx_open_snapshot(trx: *mut slc_trx) -> slc_err {
    let (engine, trx) = unsafe { slc_trx::of(trx) };
    enter(engine, || {
        engine.store().trx_sys.visibility.open_view(trx);
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_trx_close_snapshot(trx: *mut slc_trx) {
    let (engine, trx) = unsafe { slc_trx::of(trx) };
    enter_value(engine, (), || engine.store().trx_sys.visibility.close_view(trx));
}

/// An undo pointer as one number: page in the upper 32 bits, offset below.
fn savepoint_number(at: UndoPtr) -> u64 {
    ((at.page as u64) << 32) | at.offset as u64
}

#[no_mangle]
pub unsafe extern "C" fn slc_trx_savepoint(trx: *mut slc_trx) -> u64 {
    let (engine, trx) = unsafe { slc_trx::of(trx) };
    enter_value(engine, savepoint_number(trx.undo_top()), || {
        savepoint_number(engine.store().rollbacks().savepoint(trx))
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_trx_rollback_to(trx: *mut slc_trx, savepoint: u64) -> slc_err {
    let (engine, trx) = unsafe { slc_trx::of(trx) };
    let to = UndoPtr {
        page: (savepoint >> 32) as u32,
        offset: savepoint as u16,
    };
    enter(engine, || engine.store().rollbacks().rollback_to(trx, to))
}

#[no_mangle]
pub unsafe extern "C" fn slc_trx_prepare(trx: *mut slc_trx, xid: *const slc_xid, may_outlive: i32) -> slc_err {
    let handle = unsafe { &mut *trx };
    let (engine, trx, xid) = (handle.engine.clone(), &mut handle.trx, unsafe { &*xid }.to_xid());
    enter(&engine, || {
        engine.prepare(trx, &xid)?;
        if !trx.is_prepared() {
            // It has written nothing, and it will not read any more.
            engine.store().trx_sys.visibility.close_view(trx);
            return Ok(());
        }
        handle.prepared = Some(xid.clone());
        if may_outlive == 0 {
            return Ok(());
        }
        // As in InnoDB: what is prepared by a client has read all that it will read.
        engine.store().trx_sys.locks().release_reads(&trx.shared);
        engine.in_doubt.may_outlive_connection(trx);
        let left = engine.store().trx_sys.leave(trx);
        *handle.shared.lock() = trx.shared.clone();
        handle.in_doubt = Some(left.shared.clone());
        engine.in_doubt.keep(xid, left);
        Ok(())
    })
}

/// The server has let go of the connection's prepared transaction without ending it.
#[no_mangle]
pub unsafe extern "C" fn slc_trx_leave(trx: *mut slc_trx) {
    let handle = unsafe { &mut *trx };
    handle.prepared = None;
    handle.in_doubt.take().inspect(|prepared| prepared.detach());
    let (engine, trx) = (&handle.engine, &mut handle.trx);
    enter_value(engine, (), || roll_back_left(engine, trx));
}

#[no_mangle]
pub unsafe extern "C" fn slc_trx_commit_ordered(trx: *mut slc_trx) {
    let handle = unsafe { &mut *trx };
    let (engine, trx, is_in_doubt) = (&handle.engine, &mut handle.trx, handle.in_doubt.is_some());
    enter_value(engine, (), || match &handle.prepared {
        Some(xid) if is_in_doubt => engine.in_doubt.commit_ordered(xid),
        _ => engine.store().trx_sys.commit_ordered(trx),
    });
}

/// Ends a transaction. Afterwards the handle has no prepared one, even after an error.
unsafe fn end(trx: *mut slc_trx, body: impl FnOnce(&Engine, &mut Trx) -> Result<()>) -> slc_err {
    let handle = unsafe { &mut *trx };
    let (engine, trx, prepared) = (&handle.engine, &mut handle.trx, handle.prepared.take());
    let is_in_doubt = handle.in_doubt.take().is_some();
    enter(engine, || match prepared {
        Some(xid) if is_in_doubt => body(engine, &mut engine.in_doubt.take(&xid)?),
        _ => body(engine, trx),
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_trx_commit(trx: *mut slc_trx, durable: i32) -> slc_err {
    unsafe { end(trx, |engine, trx| engine.commit(trx, durable != 0)) }
}

#[no_mangle]
pub unsafe extern "C" fn slc_trx_rollback(trx: *mut slc_trx) -> slc_err {
    unsafe { end(trx, |engine, trx| engine.rollback(trx)) }
}

#[no_mangle]
pub unsafe extern "C" fn slc_trx_cancel_wait(trx: *mut slc_trx) {
    // The owner may be inside a call, so nothing but these two fields is touched.
    let (engine, shared) = unsafe { (&(*trx).engine, &(*trx).shared) };
    enter_value(engine, (), || {
        let shared = shared.lock().clone();
        engine.store().trx_sys.locks().cancel_wait(&shared);
    });
}

#[no_mangle]
pub unsafe extern "C" fn slc_trx_begin_writing(trx: *mut slc_trx) -> slc_err {
    let (engine, trx) = unsafe { slc_trx::of(trx) };
    enter(engine, || engine.store().trx_sys.begin_writing(trx))
}

#[no_mangle]
pub unsafe extern "C" fn slc_trx_set_place(trx: *mut slc_trx, place: u64) {
    let (_, trx) = unsafe { slc_trx::of(trx) };
    trx.set_place(place);
}

#[no_mangle]
pub unsafe extern "C" fn slc_trx_note_changes_that_stay(trx: *mut slc_trx) {
    let (_, trx) = unsafe { slc_trx::of(trx) };
    trx.note_changes_that_stay();
}

#[no_mangle]
pub unsafe extern "C" fn slc_trx_set_position(trx: *mut slc_trx, position: *const u8, len: usize) {
    let (_, trx) = unsafe { slc_trx::of(trx) };
    trx.set_position(unsafe { std::slice::from_raw_parts(position, len) }.to_vec());
}
