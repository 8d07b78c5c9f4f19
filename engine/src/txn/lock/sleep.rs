//! How a transaction sleeps while its request is queued, and how that ends.
//!
//! Under the shard's mutex the request is queued and `wait_flag` zeroed. The thread that ends the
//! wait puts its decision into the flag, and then wakes the sleeper:
//! - [`WAIT_GRANTED`](super::wait_flag::WAIT_GRANTED), under the same mutex, by the thread that
//!   made room;
//! - [`WAIT_DEADLOCK`](super::wait_flag::WAIT_DEADLOCK), by a deadlock search that chose this
//!   victim;
//! - [`WAIT_CANCELLED`], by KILL; and by the sleeper itself, as its waiter says.
//!
//! The first decision stays, but for a grant, which replaces any other. A decided wait is part of
//! no deadlock, though its request is still queued. [`WAIT_RECHECK_BLOCKERS`] decides nothing: the
//! sleeper looks for the transactions that it waits for now, reports them to its waiter, and sleeps
//! on. Only the sleeper takes its request off the queue, under the mutex. What it finds there
//! decides: a lock that was granted meanwhile is taken, whatever the flag says.
//!
//! Called by `sys.rs` with no latch and no mutex held.
use super::deadlock::{Clock, DeadlockSearch};
use super::table::LockTable;
use super::wait::WaitOutcome;
use super::wait_flag::{decide, take_recheck};
use super::wait_flag::{WAIT_CANCELLED, WAIT_DEADLOCK, WAIT_GRANTED, WAIT_RECHECK_BLOCKERS, WAIT_TIMED_OUT};
use crate::base::sync::holds_no_latch;
use crate::base::{Counters, Error};
use crate::txn::lock::wait_flag::is_decided;
use crate::txn::shared::TrxShared;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::Arc;

/// At most so many holders are noted while a request is being queued, since hundreds of
/// transactions may want the mutex of a hot row. The rest is looked up once the mutex is free
/// again.
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

/// Lock waits of the engine: they are timed, counted, and searched for deadlocks.
pub(super) struct LockWaits {
    pub deadlocks: DeadlockSearch,
    clock: Clock,
    pub counters: Arc<Counters>,
}

impl LockWaits {
    pub fn new(counters: Arc<Counters>, clock: Clock) -> LockWaits {
        LockWaits {
            deadlocks: DeadlockSearch::new(counters.clone()),
            clock,
            counters,
        }
    }
    /// Monotonic microseconds.
    pub fn now_us(&self) -> u64 {
        (self.clock)()
    }
    pub fn find_deadlock(&self, table: &LockTable, start: &Arc<TrxShared>) {
        self.deadlocks.find(table, start, &self.clock);
    }
    /// The error of a request that must wait, and may not. It is in no queue, stops no transaction,
    /// and no deadlock search looks at it.
    pub fn time_is_up(&self) -> Error {
        self.counters.lock_wait_timeouts.inc();
        Error::LockWaitTimeout
    }

    /// Sleeps until the queued request is decided. The caller has called `begin_wait`, and holds no
    /// mutex. `holders`: the transactions that it waits for, the first [`HOLDERS_NOTED_MAX`] at
    /// least.
    pub fn sleep(
        &self,
        table: &LockTable,
        me: &Arc<TrxShared>,
        holders: &[Arc<TrxShared>],
        timeout_us: u64,
    ) -> SleepEnd {
        debug_assert!(me.wait_place().is_some(), "the request is queued");
        debug_assert!(holds_no_latch(), "I5: a lock is waited for with no latch held");
        let counters = &self.counters;
        if !may_wait(me, holders) || !name_the_rest(table, me, holders) {
            return give_up(me);
        }
        counters.row_lock_waits.inc();
        counters.row_lock_current_waits.inc();
        let started = self.now_us();
        me.wait_started_us.store(started, Relaxed);
        let may_be_in_circle = me.may_be_waited_for();
        if may_be_in_circle {
            let mut statement = std::mem::take(&mut *me.statement.lock());
            me.waiter.statement(&mut statement);
            *me.statement.lock() = statement;
        }
        let end = self.sleep_until(table, me, started, timeout_us);
        if may_be_in_circle {
            // A search that finds the next circle before the next statement is noted shows none,
            // not this one.
            me.statement.lock().clear();
        }
        let waited = self.now_us() - started;
        debug_assert!(is_decided(me), "a sleep ends with a decision, and each has one");
        counters.row_lock_current_waits.sub(1);
        counters.row_lock_time_us.add(waited);
        counters.row_lock_time_max_us.raise(waited);
        if end == SleepEnd::Timeout {
            counters.lock_wait_timeouts.inc();
        }
        end
    }

    fn sleep_until(&self, table: &LockTable, me: &Arc<TrxShared>, started: u64, timeout_us: u64) -> SleepEnd {
        if me.holds_locks() {
            self.find_deadlock(table, me);
        }
        loop {
            match me.wait_flag.load(Acquire) {
                WAIT_GRANTED => return SleepEnd::Granted,
                WAIT_DEADLOCK => return SleepEnd::Deadlock,
                WAIT_CANCELLED => return SleepEnd::Cancelled,
                WAIT_TIMED_OUT => return SleepEnd::Timeout,
                WAIT_RECHECK_BLOCKERS if !look_again(table, me) => return give_up(me),
                _ => {}
            }
            let waited = self.now_us() - started;
            match me.waiter.wait(&me.wait_flag, timeout_us.saturating_sub(waited)) {
                WaitOutcome::Woken => {}
                // Unless another decision has come first.
                WaitOutcome::Killed => drop(decide(me, WAIT_CANCELLED)),
                WaitOutcome::Timeout => drop(decide(me, WAIT_TIMED_OUT)),
            }
        }
    }
}

/// Ends the wait of `trx` from another thread (KILL). A grant that came first stays.
pub(super) fn cancel_wait(trx: &TrxShared) {
    if trx.wait_place().is_some() && decide(trx, WAIT_CANCELLED) {
        trx.waiter.wake();
    }
}

/// Names the transactions that the sleeper waits for now to its waiter; false: it must give up.
fn look_again(table: &LockTable, me: &Arc<TrxShared>) -> bool {
    // First: a request that comes after this look asks for another one.
    if !take_recheck(me) {
        return true;
    }
    let Some(place) = me.wait_place() else { return true };
    let holders = table.blockers(me, place);
    may_wait(me, &holders)
}

/// Names to the waiter the holders that were not noted ([`HOLDERS_NOTED_MAX`]). False: the sleeper
/// must give up. These holders come after the last of `noted` in the list of blockers. If that one
/// has left the list, or is in it twice, some holders are named twice, which does no harm.
fn name_the_rest(table: &LockTable, me: &Arc<TrxShared>, noted: &[Arc<TrxShared>]) -> bool {
    let last = noted.last().filter(|_| noted.len() >= HOLDERS_NOTED_MAX);
    let (Some(last), Some(place)) = (last, me.wait_place()) else {
        return true;
    };
    let all = table.blockers(me, place);
    let from = all.iter().position(|b| Arc::ptr_eq(b, last)).map_or(0, |at| at + 1);
    may_wait(me, &all[from..])
}

/// Tells the waiter the transactions that it is about to wait for; false: it must not.
fn may_wait(me: &TrxShared, holders: &[Arc<TrxShared>]) -> bool {
    holders.iter().all(|holder| me.waiter.about_to_wait(&*holder.waiter))
}

/// The waiter refuses the wait.
fn give_up(me: &TrxShared) -> SleepEnd {
    decide(me, WAIT_DEADLOCK);
    debug_assert!(
        is_decided(me),
        "a request that is given up is decided, if not by this then by another thread"
    );
    SleepEnd::Deadlock
}
