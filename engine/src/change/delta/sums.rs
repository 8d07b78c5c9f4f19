//! What an engine's delta trees hold together (`policy::ChangeBuffer`), and the part that one tree has in it until it is discarded.
//!
//! Locks: a tree is discarded with its count mutex and its gate held; whoever changes its figures holds one of them.
use crate::change::delta::tree::{Delta, UNKNOWN};
use crate::change::policy::change_buffer::ChangeBuffer;
use parking_lot::RwLockReadGuard;
use std::sync::atomic::Ordering;

impl Delta {
    /// The sums of which this tree is a part; None: not any more.
    pub(in crate::change) fn sums(&self) -> Option<&ChangeBuffer> {
        (!self.discarded.load(Ordering::Relaxed)).then_some(&*self.buffer)
    }
    /// While this is held nobody begins a partition or discards the tree. Not to be asked for with a latch held.
    pub(in crate::change) fn open(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read()
    }
    pub(in crate::change) fn grow(&self, bytes: i64, newest: bool) {
        // Two's complement: adding a negative number takes away.
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        if newest {
            self.grow_newest(bytes);
        }
        if let Some(sums) = self.sums() {
            sums.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }
    pub(in crate::change) fn grow_newest(&self, bytes: i64) {
        let before = self.newest_bytes.fetch_add(bytes as u64, Ordering::Relaxed) as i64;
        let Some(sums) = self.sums() else { return };
        sums.newest_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        sums.count_newest(before, before + bytes);
    }
    /// So many bytes are there, about, that are not counted yet. The count mutex is held; so in `expect_less`.
    pub(in crate::change) fn expect_uncounted(&self, bytes: u64) {
        self.expect_less(u64::MAX);
        if let Some(sums) = self.sums() {
            self.uncounted.store(bytes, Ordering::Relaxed);
            sums.uncounted.fetch_add(bytes, Ordering::Relaxed);
        }
    }
    /// So many of them are counted, or all (`u64::MAX`).
    pub(in crate::change) fn expect_less(&self, bytes: u64) {
        let before = self.uncounted.load(Ordering::Relaxed);
        let less = bytes.min(before);
        if less > 0 {
            self.uncounted.store(before - less, Ordering::Relaxed);
            self.buffer.uncounted.fetch_sub(less, Ordering::Relaxed);
        }
    }
    /// The index goes, or is set aside, and with it what is pending for it: the sums forget it. Number of entries. A statement that began
    /// before an index was set aside may still append and merge here, so what the tree knows of itself stays right.
    pub fn discard(&self) -> u64 {
        let _count = self.count.lock();
        let _closed = self.gate.write();
        if self.discarded.swap(true, Ordering::Relaxed) {
            return 0;
        }
        self.expect_less(u64::MAX);
        let entries = self.entries();
        let newest_bytes = self.newest_bytes.load(Ordering::Relaxed);
        self.buffer.entries.fetch_sub(entries, Ordering::Relaxed);
        self.buffer
            .bytes
            .fetch_sub(self.bytes.load(Ordering::Relaxed), Ordering::Relaxed);
        self.buffer.newest_bytes.fetch_sub(newest_bytes, Ordering::Relaxed);
        self.buffer.count_newest(newest_bytes as i64, 0);
        self.count_idle(0);
        self.buffer.uniques.remove(self);
        entries
    }
    /// Of a tree that was discarded: its memory goes now, for the table keeps its old layouts.
    ///
    /// Nobody changes or reads the index any more when this is called, or ever will: the caller holds the table's gate alone, behind
    /// which purge, rollbacks, sweeps and merges for readers look for the index in the new layout; statements are kept out by
    /// their users; and next the index's pages are somebody else's. Whoever came all the same is told that something is pending, perhaps.
    pub fn give_back_memory(&self) {
        let _closed = self.gate.write();
        self.entries.fetch_or(UNKNOWN, Ordering::SeqCst);
        self.values.clear();
        self.filter.clear();
    }
}
