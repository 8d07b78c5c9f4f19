//! Row locks and key ranges: taken, queued up for, given back.
//!
//! A row lock is named by (index, key), and hashed into a shard with FIFO queues. Deadlocks are
//! found at the wait. A row whose newest version an active transaction made is locked by it
//! implicitly. Another transaction that meets the row makes that lock explicit first.
//!
//! The other files: `shard.rs` and `range.rs` keep the queues, `table.rs` holds them all,
//! `sleep.rs` sleeps, `deadlock.rs` searches the wait-for graph, `implicit.rs` makes locks
//! explicit. Called by the table layer, mostly without latches.
//!
//! How the table layer locks a row: `lock`, then latch the leaf and look at the row. If another
//! active transaction made its newest version:
//! - `make_explicit` for that owner *under the latch*. Without the latch the owner may have rolled
//!   the row back, and would get a lock beside its next holder.
//! - Let go of the latch, and give the own lock back.
//! - `search_after_explicit`, and `lock` again, which waits.
//!
//! Locks: shard mutexes (`Rank::LockShard`, one at a time), under them a transaction's lock list
//! (`Rank::Leaf`). The deadlock search holds `Rank::DeadlockSearch` over shards. No thread sleeps,
//! or calls a [`Waiter`](super::wait::Waiter), with one of them held (I5).
use super::deadlock::{Clock, DeadlockListener};
use super::held::{Granted, LockMode, LockPolicy, LockRef, WaitPlace};
use super::shard::{hash_name, Admitted, Entry, Request, Shard};
use super::sleep::{cancel_wait, LockWaits, SleepEnd, HOLDERS_NOTED_MAX};
use super::table::{LockTable, SHARDS};
use super::wait_flag::{ask_to_recheck_blockers, begin_wait, end_wait, mark_granted, wake_all, WakeList};
use crate::base::sync::RankedGuard;
use crate::base::{Counters, Error, IndexId, Result, TrxId};
use crate::txn::info::DeadlockInfo;
use crate::txn::isolation::Isolation;
use crate::txn::shared::TrxShared;
use crate::txn::trx::Trx;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

/// Newest locks among which `leave_to_version` looks for its own.
const LATEST_LOOKED_AT: usize = 8;

pub struct LockSys {
    pub(in crate::txn) table: LockTable,
    pub(super) waits: LockWaits,
}

impl LockSys {
    pub(in crate::txn) fn new(counters: Arc<Counters>, clock: Clock) -> LockSys {
        LockSys {
            table: LockTable::new(),
            waits: LockWaits::new(counters, clock),
        }
    }

    /// Takes the lock, or waits for it. Called with no latch held. Errors: `LockWaitTimeout` (at
    /// once if the timeout is 0), `Deadlock`, `Interrupted`, `Locked`.
    pub fn lock(
        &self,
        trx: &mut Trx,
        index: IndexId,
        key: &[u8],
        mode: LockMode,
        policy: LockPolicy,
    ) -> Result<Granted> {
        let hash = hash_name(index, key);
        let shard_no = hash as usize % SHARDS;
        let mut shard = self.table.shards[shard_no].lock();
        let at = LockRef {
            shard: shard_no as u32,
            slot: shard.find_or_add(hash, index, key),
        };
        match shard.entry(at.slot).admit(&trx.shared, mode) {
            Admitted::Held => Ok(Granted::Held),
            Admitted::Upgraded => {
                let newly_blocked = shard.entry(at.slot).readers_waiting();
                drop(shard);
                ask_to_recheck_blockers(&newly_blocked);
                Ok(Granted::Upgraded)
            }
            Admitted::GrantedAheadOfWaiters => {
                let newly_blocked = shard.entry(at.slot).passed(&trx.shared, mode);
                drop(shard);
                remember(&trx.shared, at);
                ask_to_recheck_blockers(&newly_blocked);
                Ok(Granted::New)
            }
            Admitted::New => {
                drop(shard);
                remember(&trx.shared, at);
                Ok(Granted::New)
            }
            Admitted::MustWait if policy == LockPolicy::NoWait => Err(Error::Locked),
            Admitted::MustWait if trx.lock_wait_timeout_ms == 0 => Err(self.waits.time_is_up()),
            Admitted::MustWait => self.wait_for_row(trx, shard, at, mode),
        }
    }

    fn wait_for_row(
        &self,
        trx: &mut Trx,
        mut shard: RankedGuard<'_, Shard>,
        at: LockRef,
        mode: LockMode,
    ) -> Result<Granted> {
        let me = &trx.shared;
        let entry = shard.entry(at.slot);
        let upgrade = entry.granted().iter().any(|r| Arc::ptr_eq(&r.trx, me));
        let readers = upgrade.then(|| entry.readers_waiting());
        entry.enqueue(me, mode);
        let newly_blocked = readers.unwrap_or_else(|| entry.passed(me, mode));
        begin_wait(me, WaitPlace::Row(at));
        let holders: Vec<Arc<TrxShared>> = entry.blockers(me).take(HOLDERS_NOTED_MAX).cloned().collect();
        drop(shard);
        ask_to_recheck_blockers(&newly_blocked);
        drop(newly_blocked);
        let end = self
            .waits
            .sleep(&self.table, me, &holders, trx.lock_wait_timeout_ms as u64 * 1000);
        drop(holders);

        let mut wake = WakeList::new();
        let mut shard = self.table.shards[at.shard as usize].lock();
        let entry = shard.entry(at.slot);
        let refused = entry.remove_waiting(me);
        debug_assert!(
            refused
                || entry
                    .granted()
                    .iter()
                    .any(|r| Arc::ptr_eq(&r.trx, me) && r.mode >= mode),
            "a request leaves the queue by a grant, or by its own thread"
        );
        if refused {
            // The requests after it may be granted now.
            entry.grant(&mut wake);
            mark_granted(&wake);
            shard.free_if_unused(at.slot);
        }
        end_wait(me);
        drop(shard);
        wake_all(wake);
        if refused {
            assert!(end != SleepEnd::Granted, "a granted request does not wait any more");
            return Err(end.error());
        }
        if upgrade {
            return Ok(Granted::Upgraded);
        }
        if is_remembered(me, at) {
            // Another thread made an implicit lock of this transaction explicit during the sleep.
            return Ok(Granted::Held);
        }
        remember(me, at);
        Ok(Granted::New)
    }

    /// True if no other transaction holds a conflicting lock and no conflicting request is queued.
    /// Takes nothing. May be called under page latches.
    pub fn is_free(&self, trx: &Trx, index: IndexId, key: &[u8], mode: LockMode) -> bool {
        let hash = hash_name(index, key);
        let mut shard = self.table.shards[hash as usize % SHARDS].lock();
        match shard.find(hash, index, key) {
            Some(slot) => shard.entry(slot).would_admit(&trx.shared, mode),
            None => true,
        }
    }

    /// Gives one lock back before the transaction ends.
    pub fn unlock(&self, trx: &mut Trx, index: IndexId, key: &[u8]) {
        self.unlock_if(trx, index, key, |_| true);
    }
    /// The same for a row that a cursor does not want, unless another cursor has asked for the lock
    /// since. The server may say so late, when the other cursor stands on the row. The row then
    /// stays locked to the end, also if neither cursor wants it. That happens to two cursors of an
    /// index merge, or of a join of the table with itself. It is too rare to pay for a count of
    /// cursors for each lock.
    pub fn unlock_unwanted(&self, trx: &mut Trx, index: IndexId, key: &[u8]) {
        let own = trx.shared.clone();
        self.unlock_if(trx, index, key, |entry| !entry.was_asked_again(&own));
    }
    fn unlock_if(&self, trx: &mut Trx, index: IndexId, key: &[u8], may_go: impl FnOnce(&Entry) -> bool) {
        trx.forget_cached_leaf();
        let hash = hash_name(index, key);
        let shard_no = hash as usize % SHARDS;
        let mut shard = self.table.shards[shard_no].lock();
        let Some(slot) = shard.find(hash, index, key) else {
            return;
        };
        if !may_go(shard.entry(slot)) {
            return;
        }
        let at = LockRef {
            shard: shard_no as u32,
            slot,
        };
        let wake = give_back(&mut shard, at, &trx.shared);
        drop(shard);
        wake_all(wake);
        let mut list = trx.shared.locks.lock();
        if let Some(i) = list.rows.iter().rposition(|r| *r == at) {
            list.rows.swap_remove(i);
            trx.shared.lock_count.fetch_sub(1, Relaxed);
        }
    }

    /// Locks taken from now on need not outlast a rollback to here.
    pub fn savepoint(&self, trx: &Trx) {
        let mut list = trx.shared.locks.lock();
        list.savepoint = list.rows.len();
    }

    /// The row's newest version is the transaction's own now, and that locks the row implicitly.
    /// The entry is given back, so that a transaction may change any number of rows. The entry
    /// stays
    /// - if a request waits in the queue;
    /// - if the lock is older than the latest savepoint: a rollback to there would leave the row
    ///   with no lock at all;
    /// - if the transaction is serializable. Such a transaction must keep what it has read locked
    ///   to its end, whatever it takes back. (It has a lock for every row that it reads, too.)
    pub fn leave_to_version(&self, trx: &mut Trx, index: IndexId, key: &[u8]) {
        // A change that had to wait has noted the row once more.
        trx.forget_cached_leaf();
        if trx.isolation == Isolation::Serializable {
            return;
        }
        let hash = hash_name(index, key);
        let shard_no = hash as usize % SHARDS;
        let mut shard = self.table.shards[shard_no].lock();
        let Some(slot) = shard.find(hash, index, key) else {
            return;
        };
        let at = LockRef {
            shard: shard_no as u32,
            slot,
        };
        let entry = shard.entry(slot);
        if entry.granted().len() != 1 || !entry.waiting().is_empty() {
            return;
        }
        {
            let mut list = trx.shared.locks.lock();
            // Almost always the last one. More are not looked at, so that this stays cheap.
            let from = list.rows.len().saturating_sub(LATEST_LOOKED_AT).max(list.savepoint);
            let Some(i) = list.rows.iter().skip(from).rposition(|r| *r == at) else {
                return;
            };
            list.rows.swap_remove(from + i);
        }
        trx.shared.lock_count.fetch_sub(1, Relaxed);
        let held = entry.remove_granted(&trx.shared);
        debug_assert!(held, "a transaction holds the locks that it remembers");
        shard.free_if_unused(slot);
    }

    /// From now on implicit locks of `id` may be made explicit. Called when the transaction gets
    /// its id.
    pub(in crate::txn) fn accept_implicit(&self, trx: &TrxShared, id: TrxId) {
        trx.locks.lock().implicit_of = id;
    }

    /// Gives all locks back; wakes the transactions that can go on.
    pub fn release_all(&self, trx: &Arc<TrxShared>) {
        let (mut rows, ranges) = {
            let mut list = trx.locks.lock();
            list.implicit_of = 0;
            debug_assert_eq!(
                trx.lock_count.load(Relaxed),
                list.rows.len() as u64,
                "the reports count what the transaction remembers"
            );
            list.savepoint = 0;
            (std::mem::take(&mut list.rows), std::mem::take(&mut list.ranges))
        };
        for at in rows.drain(..) {
            let mut shard = self.table.shards[at.shard as usize].lock();
            let wake = give_back(&mut shard, at, trx);
            drop(shard);
            wake_all(wake);
        }
        for index in ranges {
            wake_all(self.table.ranges.release(trx, index));
        }
        trx.lock_count.store(0, Relaxed);
        if rows.capacity() <= 1024 {
            // No thread has added to the list meanwhile: `implicit_of` is 0, and this is the
            // owner's thread.
            let mut list = trx.locks.lock();
            debug_assert!(list.rows.is_empty(), "no thread has added a lock, which would be lost");
            list.rows = rows;
        }
    }

    /// Gives shared locks and ranges back, and keeps the locks of rows that the transaction may
    /// have changed: it is prepared, and reads no more. Wakes the transactions that can go on.
    pub fn release_reads(&self, trx: &Arc<TrxShared>) {
        let (rows, ranges) = {
            let mut list = trx.locks.lock();
            list.savepoint = 0;
            (list.rows.clone(), std::mem::take(&mut list.ranges))
        };
        for at in rows {
            let mut shard = self.table.shards[at.shard as usize].lock();
            let is_shared = |request: &Request| Arc::ptr_eq(&request.trx, trx) && request.mode == LockMode::Shared;
            if !shard.entry(at.slot).granted().iter().any(is_shared) {
                continue;
            }
            let wake = give_back(&mut shard, at, trx);
            drop(shard);
            wake_all(wake);
            trx.locks.lock().rows.retain(|held| *held != at);
            trx.lock_count.fetch_sub(1, Relaxed);
        }
        for index in ranges {
            wake_all(self.table.ranges.release(trx, index));
        }
    }

    /// Locks the keys [lo, hi) against inserts (`Trx::locks_gaps`); `hi` None = to the end.
    /// Conflicts only with inserts of other transactions. Taken before the leaf is read: an insert
    /// either is seen there or sees the range. Called with no latch held, as `lock_whole` is.
    pub fn lock_range(&self, trx: &mut Trx, index: IndexId, lo: &[u8], hi: Option<&[u8]>) {
        let (first, newly_blocked) = self.table.ranges.add(&trx.shared, index, lo, hi);
        if first {
            trx.shared.locks.lock().ranges.push(index);
        }
        ask_to_recheck_blockers(&newly_blocked);
    }

    /// True if the key lies in no range of another transaction. Waits for nothing. To be asked
    /// under the leaf's X latch, just before the insert. If false: let go of the latch,
    /// `check_insert`, and come back.
    pub fn insert_is_free(&self, trx: &Trx, index: IndexId, key: &[u8]) -> bool {
        self.table.ranges.is_free(&trx.shared, index, Some(key))
    }

    /// An insert's check against other transactions' ranges: waits until free. O(1) when the index
    /// has no ranges.
    pub fn check_insert(&self, trx: &mut Trx, index: IndexId, key: &[u8]) -> Result<()> {
        self.wait_until_free(trx, index, Some(key))
    }

    fn wait_until_free(&self, trx: &mut Trx, index: IndexId, key: Option<&[u8]>) -> Result<()> {
        // Clock of the first range met. A range may come at any time, and without one the clock is
        // not asked.
        let mut started = None;
        while self.table.ranges.any(index) {
            let me = &trx.shared;
            let now = self.waits.now_us();
            let waited = now - *started.get_or_insert(now);
            let timeout = (trx.lock_wait_timeout_ms as u64 * 1000).saturating_sub(waited);
            if timeout == 0 {
                // Free: the caller looks again before it inserts.
                let free = self.table.ranges.is_free(me, index, key);
                return if free { Ok(()) } else { Err(self.waits.time_is_up()) };
            }
            let Some(owners) = self
                .table
                .ranges
                .enqueue(me, index, key, || begin_wait(me, WaitPlace::Range(index)))
            else {
                break;
            };
            let end = self.waits.sleep(&self.table, me, &owners, timeout);
            let decided = self.table.ranges.leave(me, index);
            end_wait(me);
            if decided && end != SleepEnd::Granted {
                return Err(end.error());
            }
        }
        Ok(())
    }

    // ---- loads: a range that is the whole index, and an insert of any key ----

    /// Keeps other transactions from inserting into the index. False, and nothing is taken: the
    /// caller has ranges in the index already, which `unlock_whole` would give back.
    pub fn lock_whole(&self, trx: &mut Trx, index: IndexId) -> bool {
        if trx.shared.locks.lock().ranges.contains(&index) {
            return false;
        }
        let (_, newly_blocked) = self.table.ranges.add(&trx.shared, index, &[], None);
        trx.shared.locks.lock().ranges.push(index);
        ask_to_recheck_blockers(&newly_blocked);
        true
    }
    /// Does nothing if the transaction has ended since.
    pub fn unlock_whole(&self, trx: &mut Trx, index: IndexId) {
        let mut list = trx.shared.locks.lock();
        let Some(at) = list.ranges.iter().position(|held| *held == index) else {
            return;
        };
        list.ranges.swap_remove(at);
        drop(list);
        wake_all(self.table.ranges.release(&trx.shared, index));
    }
    /// True if no other transaction has a range in the index. As `insert_is_free`: to be asked
    /// under the latch of the page to be changed.
    pub fn whole_is_free(&self, trx: &Trx, index: IndexId) -> bool {
        self.table.ranges.is_free(&trx.shared, index, None)
    }
    pub fn wait_for_whole(&self, trx: &mut Trx, index: IndexId) -> Result<()> {
        self.wait_until_free(trx, index, None)
    }

    /// Ends the wait of `trx` from another thread (KILL). A grant that came first stays.
    pub fn cancel_wait(&self, trx: &Arc<TrxShared>) {
        cancel_wait(trx);
    }

    /// Row locks held and waited for, in the whole engine.
    pub fn names_in_use(&self) -> usize {
        self.table.names_in_use()
    }

    /// For SHOW ENGINE STATUS; newest first.
    pub fn latest_deadlocks(&self) -> Vec<DeadlockInfo> {
        self.waits.deadlocks.latest()
    }
    /// To be called once. The listener is called without latches and locks, by the thread that
    /// found the deadlock.
    pub fn on_deadlock(&self, listener: DeadlockListener) {
        self.waits.deadlocks.listen(listener);
    }
}

/// Linear, so for the end of a wait only.
fn is_remembered(trx: &TrxShared, at: LockRef) -> bool {
    trx.locks.lock().rows.contains(&at)
}

fn remember(trx: &TrxShared, at: LockRef) {
    trx.locks.lock().rows.push(at);
    trx.lock_count.fetch_add(1, Relaxed);
}

fn give_back(shard: &mut Shard, at: LockRef, trx: &Arc<TrxShared>) -> WakeList {
    let mut wake = WakeList::new();
    let entry = shard.entry(at.slot);
    entry.remove_granted(trx);
    if !entry.waiting().is_empty() {
        entry.grant(&mut wake);
        mark_granted(&wake);
    }
    shard.free_if_unused(at.slot);
    wake
}
