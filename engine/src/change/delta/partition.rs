//! When the newest partition of a delta tree is closed, and the next begun. Two things must last: the memory of all newest partitions, and the
//! numbers of each tree, of which so many may be in use at a time: every partition is one more place to look into, too.
//!
//! Who appends closes his own when the memory is used up and this one has half of an even share, or more. The worker closes those of indexes
//! that nobody writes any more: they would leave the written ones too little, whose partitions would be closed while they are small.
//!
//! **C1** The worker does so in goes: one begins when idle partitions have a half of the memory, and ends when they have an eighth. Those too
//! small to be closed have an eighth at most, so it ends when each idle one has been looked at; and before the next one 3/8 of the memory
//! have become idle. So the numbers of an index last for what may be pending on disk (31 times 3/8 are more than ten), in however small
//! bursts it is written.
//!
//! Locks: the gate, alone by whoever closes, shared by whoever counts what is idle; no latch is held.
use crate::base::{planted, sync_point, Mutant, SyncPoint};
use crate::change::delta::tree::{Delta, PARTITIONS_MAX};
use crate::change::policy::change_buffer::ChangeBuffer;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Parts (1/n) of the memory: what idle partitions have when a go begins, and when it ends; together at most, those too small to be closed.
const BEGIN: u64 = 2;
const END: u64 = 8;

#[cfg(test)]
thread_local! {
    /// Partitions that this thread has closed because they were full, and because they were idle.
    pub(crate) static CLOSED: std::cell::Cell<(u64, u64)> = const { std::cell::Cell::new((0, 0)) };
}

/// Of one tree.
#[derive(Default)]
pub(in crate::change) struct Idleness {
    /// Bytes of the newest partition at the last look.
    seen: AtomicU64,
    /// What it has in the sum of all.
    idle: AtomicU64,
}

/// Of all trees.
#[derive(Default)]
pub(in crate::change) struct Idle {
    /// Bytes of newest partitions that nobody appends to.
    bytes: AtomicU64,
    /// A go is under way.
    closes: AtomicBool,
}

impl Idle {
    /// One had so many of them, and has so many now.
    fn count(&self, before: u64, now: u64) -> u64 {
        let change = now.wrapping_sub(before);
        self.bytes.fetch_add(change, Ordering::Relaxed).wrapping_add(change)
    }
    #[cfg(test)]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl ChangeBuffer {
    /// C1: is a go under way?
    fn closes_idle(&self, bytes: u64) -> bool {
        let most = self.memory_max();
        if bytes >= most / BEGIN || bytes <= most / END {
            self.idle.closes.store(bytes > most / END, Ordering::Relaxed);
        }
        self.idle.closes.load(Ordering::Relaxed)
    }
}

impl Delta {
    /// The memory of all newest partitions is full, and this one has half of an even share at least. So an index has half as many partitions as
    /// there may be, or fewer, when as much is pending as may be.
    fn is_newest_full(&self) -> bool {
        let most = self.buffer.memory_max() as i64;
        let enough = most / (2 * self.buffer.newest_count());
        self.buffer.newest_sum() >= most && self.newest_bytes.load(Ordering::Relaxed) as i64 >= enough
    }
    pub(in crate::change) fn begin_partition_if_due(&self) {
        if self.is_newest_full() && may_begin(self.range()) {
            sync_point(SyncPoint::PartitionDue);
            let _closed = self.gate.write();
            // Of several who found it full at once the first has closed it, and the next one is nearly empty.
            if self.is_newest_full() {
                self.begin_next();
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
    pub fn begin_partition(&self) {
        let _closed = self.gate.write();
        self.begin_next();
    }
    /// Called now and then, by one: the newest partition is idle if it has not changed since the last call.
    pub fn close_if_idle(&self) {
        let mine = self.newest_bytes.load(Ordering::Relaxed);
        let idle = self.idleness.seen.swap(mine, Ordering::Relaxed) == mine;
        // What cannot be closed would keep a go from its end.
        let mine = if idle && may_begin(self.range()) { mine } else { 0 };
        let all = {
            let _open = self.open();
            self.count_idle(mine)
        };
        let enough = self.buffer.memory_max() / (END * self.buffer.newest_count() as u64);
        if self.buffer.closes_idle(all) && mine > enough {
            self.begin_partition();
            #[cfg(test)]
            CLOSED.set((CLOSED.get().0, CLOSED.get().1 + 1));
            if planted(Mutant::IdlePartitionForgotten) {
                let newest = self.range().1;
                self.set_range(newest, newest);
            }
        }
    }
    /// So many bytes are idle here. So many are in all.
    pub(in crate::change) fn count_idle(&self, bytes: u64) -> u64 {
        let mine = if self.sums().is_some() { bytes } else { 0 };
        let before = self.idleness.idle.swap(mine, Ordering::Relaxed);
        self.buffer.idle.count(before, mine)
    }
    /// The gate is held alone.
    fn begin_next(&self) {
        let (oldest, newest) = self.range();
        if may_begin((oldest, newest)) {
            self.close_newest();
            self.set_range(oldest, newest + 1);
        }
    }
    /// As `begin_next`.
    pub(in crate::change) fn close_newest(&self) {
        let bytes = self.newest_bytes.load(Ordering::Relaxed) as i64;
        self.grow_newest(-bytes);
        self.idleness.seen.store(0, Ordering::Relaxed);
        self.count_idle(0);
    }
}

/// With what a restart adds there are never more than there may be.
fn may_begin((oldest, newest): (u16, u16)) -> bool {
    newest < u16::MAX && ((newest - oldest) as u32) < PARTITIONS_MAX / 2 - 1
}
