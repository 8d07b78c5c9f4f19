//! How a transaction sleeps while its request is queued, and how that ends. Called by `lock.rs` with no latch and no mutex held.
//!
//! A wait: the request is queued and `wait_flag` zeroed under the shard's mutex; whoever ends the wait gives it its verdict in the flag
//! ([`WAIT_GRANTED`] under the same mutex by who made room, [`WAIT_DEADLOCK`] by a deadlock search that chose this
//! victim, [`WAIT_CANCELLED`] by KILL; by the sleeper itself what its waiter says) and then wakes the sleeper. The first verdict stays, but for
//! a grant, which comes before all; from then on the wait is part of no deadlock, though the request is still in its queue.
//! [`WAIT_LOOK`] decides nothing: the sleeper looks whom it waits for now, tells its waiter, and sleeps on. Only the sleeper takes its request
//! off the queue, under the mutex; what it finds there decides: a lock that was granted meanwhile is taken, whatever the flag says.
use super::lock::{LockSys, WaitPlace};
use super::lock_table::WakeList;
use super::{TrxShared, WaitOutcome};
use crate::base::Error;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::Arc;

pub(super) const WAIT_GRANTED: u32 = 1;
pub(super) const WAIT_DEADLOCK: u32 = 2;
pub(super) const WAIT_CANCELLED: u32 = 3;
pub(super) const WAIT_TIMED_OUT: u32 = 4;
/// Not decided, but somebody has come before the sleeper ([`ask_to_look`]).
pub(super) const WAIT_LOOK: u32 = 5;
/// At most so many holders are noted while a request is being queued: the mutex of a row that hundreds wait for is wanted by all of them. The
/// rest is looked up once it is free again.
pub(super) const HOLDERS_NOTED_MAX: usize = 64;

/// How a sleep ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SleepEnd {
    Granted,
    Deadlock,
    Cancelled,
    Timeout,
}

impl SleepEnd {
    pub fn error(self) -> Error {
        match self {
            SleepEnd::Deadlock => Error::Deadlock,
            SleepEnd::Timeout => Error::LockWaitTimeout,
            SleepEnd::Cancelled | SleepEnd::Granted => Error::Interrupted,
        }
    }
}

impl LockSys {
    /// Sleeps until the queued request is decided. The caller has called `begin_wait`, and holds no mutex. `holders`: whom it waits for, the first
    /// [`HOLDERS_NOTED_MAX`] at least.
    pub(super) fn sleep(&self, me: &Arc<TrxShared>, holders: &[Arc<TrxShared>], timeout_us: u64) -> SleepEnd {
        let counters = &self.counters;
        if !may_wait(me, holders) || !self.name_the_rest(me, holders) {
            return give_up(me);
        }
        counters.row_lock_waits.inc();
        counters.row_lock_current_waits.inc();
        let started = (self.clock)();
        me.wait_started_us.store(started, Relaxed);
        let may_be_in_circle = me.may_be_waited_for();
        if may_be_in_circle {
            let mut statement = std::mem::take(&mut *me.statement.lock());
            me.waiter.statement(&mut statement);
            *me.statement.lock() = statement;
        }
        let end = self.sleep_until(me, started, timeout_us);
        if may_be_in_circle {
            // Whoever finds the next circle before the next statement is told shows none, not this one.
            me.statement.lock().clear();
        }
        let waited = (self.clock)() - started;
        counters.row_lock_current_waits.sub(1);
        counters.row_lock_time_us.add(waited);
        counters.row_lock_time_max_us.raise(waited);
        if end == SleepEnd::Timeout {
            counters.lock_wait_timeouts.inc();
        }
        end
    }

    fn sleep_until(&self, me: &Arc<TrxShared>, started: u64, timeout_us: u64) -> SleepEnd {
        if me.holds_locks() {
            self.find_deadlock(me);
        }
        loop {
            match me.wait_flag.load(Acquire) {
                WAIT_GRANTED => return SleepEnd::Granted,
                WAIT_DEADLOCK => return SleepEnd::Deadlock,
                WAIT_CANCELLED => return SleepEnd::Cancelled,
                WAIT_TIMED_OUT => return SleepEnd::Timeout,
                WAIT_LOOK if !self.look_again(me) => return give_up(me),
                _ => {}
            }
            let waited = (self.clock)() - started;
            match me.waiter.wait(&me.wait_flag, timeout_us.saturating_sub(waited)) {
                WaitOutcome::Woken => {}
                // Unless another verdict has come first.
                WaitOutcome::Killed => drop(decide(me, WAIT_CANCELLED)),
                WaitOutcome::Timeout => drop(decide(me, WAIT_TIMED_OUT)),
            }
        }
    }

    /// Names those whom the sleeper waits for now to its waiter; false: it must give up.
    fn look_again(&self, me: &Arc<TrxShared>) -> bool {
        // First: whoever comes behind the look asks for another one.
        if me.wait_flag.compare_exchange(WAIT_LOOK, 0, AcqRel, Acquire).is_err() {
            return true;
        }
        let Some(place) = WaitPlace::of(me) else { return true };
        let holders = self.blockers(me, place);
        may_wait(me, &holders)
    }

    /// Names those behind the ones noted; false: it must give up. (Whoever is behind the last one noted has not been named. If that one is
    /// gone, or stands there twice, some are named twice.)
    fn name_the_rest(&self, me: &Arc<TrxShared>, noted: &[Arc<TrxShared>]) -> bool {
        let last = noted.last().filter(|_| noted.len() >= HOLDERS_NOTED_MAX);
        let (Some(last), Some(place)) = (last, WaitPlace::of(me)) else {
            return true;
        };
        let all = self.blockers(me, place);
        let from = all.iter().position(|b| Arc::ptr_eq(b, last)).map_or(0, |at| at + 1);
        may_wait(me, &all[from..])
    }

    /// Ends the wait of `trx` from another thread (KILL). A grant that came first, stays.
    pub fn cancel_wait(&self, trx: &Arc<TrxShared>) {
        if WaitPlace::of(trx).is_some() && decide(trx, WAIT_CANCELLED) {
            trx.waiter.wake();
        }
    }
}

/// The waiter is told whom it is about to wait for; false: it must not.
fn may_wait(me: &TrxShared, holders: &[Arc<TrxShared>]) -> bool {
    holders.iter().all(|holder| me.waiter.about_to_wait(&*holder.waiter))
}

/// Somebody has come before those sleepers. They wait for him too now, and none of them has looked: each tells its waiter, by its own thread,
/// since only that knows that the wait goes on. Called with no latch and no mutex held, once he is where they will look.
pub(super) fn ask_to_look(sleepers: &WakeList) {
    for trx in sleepers {
        // If that wait has ended, the mark is gone with the next one's beginning, or that one looks once more than it must.
        if trx.wait_flag.compare_exchange(0, WAIT_LOOK, AcqRel, Acquire).is_ok() {
            trx.waiter.wake();
        }
    }
}

/// The waiter will not have it.
fn give_up(me: &TrxShared) -> SleepEnd {
    decide(me, WAIT_DEADLOCK);
    SleepEnd::Deadlock
}

/// Ends a wait with a verdict; false: another came first.
pub(super) fn decide(trx: &TrxShared, verdict: u32) -> bool {
    let undecided = |flag| (!is_verdict(flag)).then_some(verdict);
    trx.wait_flag.fetch_update(AcqRel, Acquire, undecided).is_ok()
}
/// Of a `wait_flag`.
pub(super) fn is_verdict(flag: u32) -> bool {
    flag != 0 && flag != WAIT_LOOK
}

pub(super) fn begin_wait(me: &TrxShared, place: WaitPlace) {
    me.wait_flag.store(0, Release);
    me.wait_no.fetch_add(1, Relaxed);
    me.waiting_on.store(place.pack(), Release);
}

pub(super) fn end_wait(me: &TrxShared) {
    me.wait_started_us.store(0, Relaxed);
    me.waiting_on.store(0, Release);
}

/// Under the shard's mutex: the sleeper's look at its request comes after.
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
