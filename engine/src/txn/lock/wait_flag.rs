//! The decision of one lock wait: `TrxShared::wait_flag`, and the marks of a wait's beginning and
//! end.
//!
//! `sleep.rs` gives the protocol. The first decision stays, but for a grant, which replaces any
//! other. Called by the queues' owners: `sys.rs` and `range.rs` under a queue's mutex, `sleep.rs`
//! and `deadlock.rs` without one.
use super::held::WaitPlace;
use crate::txn::shared::TrxShared;
use smallvec::SmallVec;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::Arc;

pub(super) const WAIT_GRANTED: u32 = 1;
pub(super) const WAIT_DEADLOCK: u32 = 2;
pub(super) const WAIT_CANCELLED: u32 = 3;
pub(super) const WAIT_TIMED_OUT: u32 = 4;
/// No decision, but the sleeper is blocked by one more transaction ([`ask_to_recheck_blockers`]).
pub(super) const WAIT_RECHECK_BLOCKERS: u32 = 5;

/// Transactions to be woken once the mutex is let go.
pub(super) type WakeList = SmallVec<[Arc<TrxShared>; 4]>;

/// A request was placed before those of the sleepers: its transaction blocks them too now. Their
/// waiters ([`Waiter`](super::wait::Waiter)) do not know that. Each sleeper's own thread reports it
/// to the waiter: no other thread knows whether the wait goes on. Called with no latch and no mutex
/// held, once the request is in place.
pub(super) fn ask_to_recheck_blockers(sleepers: &WakeList) {
    for trx in sleepers {
        // If that wait has ended, the next one's beginning removes the mark. Or the next wait
        // rechecks once more than it must.
        if trx
            .wait_flag
            .compare_exchange(0, WAIT_RECHECK_BLOCKERS, AcqRel, Acquire)
            .is_ok()
        {
            trx.waiter.wake();
        }
    }
}

/// Removes the request to recheck; false: there is none.
pub(super) fn take_recheck(me: &TrxShared) -> bool {
    me.wait_flag
        .compare_exchange(WAIT_RECHECK_BLOCKERS, 0, AcqRel, Acquire)
        .is_ok()
}

/// Ends a wait with a decision; false: another came first.
pub(super) fn decide(trx: &TrxShared, decision: u32) -> bool {
    debug_assert!(is_decision(decision));
    let open = |flag| (!is_decision(flag)).then_some(decision);
    trx.wait_flag.fetch_update(AcqRel, Acquire, open).is_ok()
}

/// Of a `wait_flag`.
fn is_decision(flag: u32) -> bool {
    flag != 0 && flag != WAIT_RECHECK_BLOCKERS
}

/// The wait is decided, though its request may still be queued: it is part of no deadlock.
pub(super) fn is_decided(trx: &TrxShared) -> bool {
    is_decision(trx.wait_flag.load(Acquire))
}

pub(super) fn begin_wait(me: &TrxShared, place: WaitPlace) {
    debug_assert!(me.wait_place().is_none(), "a transaction waits for one lock at a time");
    me.wait_flag.store(0, Release);
    me.wait_no.fetch_add(1, Relaxed);
    me.waiting_on.store(place.pack(), Release);
}

pub(super) fn end_wait(me: &TrxShared) {
    debug_assert!(me.wait_place().is_some(), "a wait ends that had begun");
    me.wait_started_us.store(0, Relaxed);
    me.waiting_on.store(0, Release);
}

/// Under the queue's mutex: the sleeper's look at its request comes after.
pub(super) fn mark_granted(wake: &WakeList) {
    for trx in wake {
        trx.wait_flag.store(WAIT_GRANTED, Release);
    }
}

pub(super) fn wake_all(wake: WakeList) {
    for trx in wake {
        trx.waiter.wake();
    }
}
