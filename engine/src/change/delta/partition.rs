//! The partitions of a delta tree: which numbers are in use, and when the newest is closed and the
//! next begun.
//!
//! New entries go to the newest partition. The older ones are closed: merges take entries out of
//! them, and nothing else changes in them.
//!
//! Two things must last: the memory of all newest partitions, and the partition numbers of each
//! tree. Only [`PARTITIONS_MAX`] may be in use at a time, and every partition is one more place to
//! look into.
//!
//! When the memory is used up an appender closes the newest partition of its tree. The partition
//! must have half of an even share or more. The worker closes the newest partitions of indexes
//! that are not written any more. Otherwise these would leave too little memory for the written
//! ones, whose partitions would be closed while they are small.
//!
//! **N1** The worker closes idle partitions in rounds. A round begins when idle partitions have a
//! half of the memory, and ends when they have an eighth. The partitions too small to be closed
//! have an eighth at most, so a round ends once every idle partition was visited. Before the next
//! round 3/8 of the memory must become idle. So the numbers of an index last for all that may be
//! pending on disk, even if the index is written in small bursts. 31 partitions (half of
//! [`PARTITIONS_MAX`], less one) hold more than `DISK_TIMES` times the memory: 31 * 3/8 > 10.
//!
//! Locks: the gate. An append holds it shared, and so does a merge while it counts what it took
//! out. A closing, a new filter, and the discard of the tree hold it exclusively. No latch is held
//! when the gate is requested, so readers do not take it at all. Called by: `delta::summary`,
//! `delta::tree`.
use super::sums::Sums;
use crate::base::sync::holds_no_latch;
use crate::base::{planted, sync_point, Mutant, SyncPoint};
use crate::change::policy::ROUND_ENDS;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Partitions that may be in use at a time. While the engine runs no more than half of them are
/// begun.
pub const PARTITIONS_MAX: u32 = 64;
/// When the tree is empty and its numbers have come so far, they begin at 0. A reader or a merge
/// that learned of a partition looks into it long before sixteen thousand more are begun.
const AGAIN_FROM: u16 = 1 << 14;

#[cfg(test)]
thread_local! {
    /// Partitions that this thread has closed because they were full, and because they were idle.
    pub(crate) static CLOSED: std::cell::Cell<(u64, u64)> = const { std::cell::Cell::new((0, 0)) };
}

/// Numbers of partitions, oldest first.
pub type Numbers = SmallVec<[u16; 8]>;

pub struct Partitions {
    gate: RwLock<()>,
    /// Number of the oldest (high half) and of the newest partition.
    range: AtomicU32,
    /// Entries of each partition, by number modulo [`PARTITIONS_MAX`].
    entries: [AtomicU64; PARTITIONS_MAX as usize],
    /// Bytes of the newest partition at the worker's last look.
    seen_bytes: AtomicU64,
}

impl Default for Partitions {
    fn default() -> Partitions {
        Partitions {
            gate: RwLock::new(()),
            range: AtomicU32::new(0),
            entries: [const { AtomicU64::new(0) }; PARTITIONS_MAX as usize],
            seen_bytes: AtomicU64::new(0),
        }
    }
}

impl Partitions {
    /// Holds the gate shared: no partition begins, no filter is replaced, the tree is not
    /// discarded. Must not be called with a latch held.
    pub fn hold_open(&self) -> RwLockReadGuard<'_, ()> {
        debug_assert!(holds_no_latch(), "I5: the gate comes before all latches");
        self.gate.read()
    }
    /// Holds the gate exclusively: no append is under way. Must not be called with a latch held.
    pub fn hold_closed(&self) -> RwLockWriteGuard<'_, ()> {
        debug_assert!(holds_no_latch(), "I5: the gate comes before all latches");
        self.gate.write()
    }

    /// Some thread holds the gate. For asserts.
    pub fn is_held(&self) -> bool {
        self.gate.is_locked()
    }

    // ---- numbers ----

    /// Number of the oldest and of the newest partition.
    pub fn range(&self) -> (u16, u16) {
        let both = self.range.load(Ordering::Acquire);
        ((both >> 16) as u16, both as u16)
    }
    pub fn newest(&self) -> u16 {
        self.range().1
    }
    pub fn set_range(&self, oldest: u16, newest: u16) {
        debug_assert!(oldest <= newest, "the oldest partition is no younger than the newest");
        debug_assert!(
            ((newest - oldest) as u32) < PARTITIONS_MAX,
            "each partition in use has a place for its count"
        );
        self.range
            .store((oldest as u32) << 16 | newest as u32, Ordering::Release);
    }
    /// There is no number for another partition. Until the tree is empty, when numbers begin at 0,
    /// only keys with something pending are appended.
    #[inline]
    pub fn are_used_up(&self) -> bool {
        self.newest() == u16::MAX
    }
    /// Partitions that may hold something. `known`: every entry is counted.
    pub fn live(&self, known: bool) -> Numbers {
        let (oldest, newest) = self.range();
        let found = (oldest..=newest)
            .filter(|p| !known || self.entries_of(*p).load(Ordering::SeqCst) > 0)
            .collect();
        sync_point(SyncPoint::PartitionsLearned);
        found
    }
    fn entries_of(&self, partition: u16) -> &AtomicU64 {
        &self.entries[(partition as u32 % PARTITIONS_MAX) as usize]
    }
    pub fn count_up(&self, partition: u16) {
        debug_assert!(
            self.range().0 <= partition && partition <= self.range().1,
            "F1: an entry is counted in a partition that readers look into"
        );
        self.entries_of(partition).fetch_add(1, Ordering::SeqCst);
    }
    pub fn count_down(&self, partition: u16) {
        let before = self.entries_of(partition).fetch_sub(1, Ordering::SeqCst);
        debug_assert!(before > 0, "F1: an entry is counted up before it is counted down");
    }
    /// Is the oldest partition empty, and not the newest?
    pub fn is_oldest_empty(&self) -> bool {
        let (oldest, newest) = self.range();
        oldest < newest && self.entries_of(oldest).load(Ordering::SeqCst) == 0
    }
    /// Gives the numbers of empty old partitions up. The gate is held exclusively. Returns the
    /// number of the oldest partition left.
    pub fn drop_empty(&self) -> u16 {
        debug_assert!(
            self.gate.is_locked_exclusive(),
            "no append is under way while numbers go"
        );
        let (mut oldest, newest) = self.range();
        while oldest < newest && self.entries_of(oldest).load(Ordering::SeqCst) == 0 {
            oldest += 1;
        }
        self.set_range(oldest, newest);
        oldest
    }
    /// The tree is empty: it goes on with one partition. The gate is held exclusively.
    pub fn restart(&self, sums: &Sums) {
        debug_assert!(
            self.entries.iter().all(|count| count.load(Ordering::SeqCst) == 0),
            "F4: a tree begins anew when nothing is counted in it"
        );
        self.close_newest(sums);
        let newest = self.newest();
        // Not 0 again: a reader or a merge may have learned which partitions there are, and look
        // into them only now. It must find nothing in partition 1, rather than the younger of the
        // entries that were appended since.
        let next = if newest < AGAIN_FROM { newest + 1 } else { 0 };
        self.set_range(next, next);
    }

    // ---- closing ----

    /// The memory of all newest partitions is used up, and this one has half of an even share at
    /// least. So when as much is pending as may be, an index has half of [`PARTITIONS_MAX`] or
    /// fewer.
    fn is_newest_full(&self, sums: &Sums) -> bool {
        let most = sums.buffer().memory_max() as i64;
        let totals = &sums.buffer().totals;
        let enough = most / (2 * totals.newest_count());
        totals.newest_bytes() >= most && sums.newest_bytes() as i64 >= enough
    }
    /// Closes the newest partition if it is full, and begins the next.
    pub fn begin_if_due(&self, sums: &Sums) {
        if self.is_newest_full(sums) && may_begin(self.range()) {
            sync_point(SyncPoint::PartitionDue);
            let _closed = self.hold_closed();
            // Of several appenders that found the partition full the first has closed it. The next
            // partition is nearly empty.
            if self.is_newest_full(sums) {
                self.begin_next(sums);
                #[cfg(test)]
                CLOSED.set((CLOSED.get().0 + 1, CLOSED.get().1));
                if planted(Mutant::OldestPartitionForgotten) {
                    let (oldest, newest) = self.range();
                    self.set_range(newest.min(oldest + 1), newest);
                }
            }
        }
    }
    /// Closes the newest partition and begins the next, if there may be one more.
    pub fn begin(&self, sums: &Sums) {
        let _closed = self.hold_closed();
        self.begin_next(sums);
    }
    /// N1. Called from time to time, by one thread: the newest partition is idle if it has not
    /// changed since the last call.
    pub fn close_if_idle(&self, sums: &Sums) {
        let mine = sums.newest_bytes();
        let idle = self.seen_bytes.swap(mine, Ordering::Relaxed) == mine;
        // A partition that cannot be closed would keep a round from its end.
        let mine = if idle && may_begin(self.range()) { mine } else { 0 };
        let all = {
            let _open = self.hold_open();
            sums.count_idle(mine)
        };
        let buffer = sums.buffer();
        let memory_max = buffer.memory_max();
        let enough = memory_max / (ROUND_ENDS * buffer.totals.newest_count() as u64);
        if buffer.totals.closes_idle(all, memory_max) && mine > enough {
            self.begin(sums);
            #[cfg(test)]
            CLOSED.set((CLOSED.get().0, CLOSED.get().1 + 1));
            if planted(Mutant::IdlePartitionForgotten) {
                let newest = self.newest();
                self.set_range(newest, newest);
            }
        }
    }
    /// The gate is held exclusively.
    fn begin_next(&self, sums: &Sums) {
        let (oldest, newest) = self.range();
        if may_begin((oldest, newest)) {
            self.close_newest(sums);
            self.set_range(oldest, newest + 1);
        }
    }
    /// As `begin_next`.
    fn close_newest(&self, sums: &Sums) {
        debug_assert!(
            self.gate.is_locked_exclusive(),
            "no append is under way while a partition is closed"
        );
        self.seen_bytes.store(0, Ordering::Relaxed);
        sums.close_newest();
    }
}

/// May the running engine begin another partition? With those that a restart adds there are never
/// more than [`PARTITIONS_MAX`].
fn may_begin((oldest, newest): (u16, u16)) -> bool {
    newest < u16::MAX && ((newest - oldest) as u32) < PARTITIONS_MAX / 2 - 1
}

#[cfg(test)]
#[path = "partition_tests.rs"]
mod tests;
