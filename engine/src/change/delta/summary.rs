//! What memory knows about the content of one delta tree: how much is pending, in which partitions,
//! and perhaps for which keys and unique values. No pages.
//!
//! After the engine was opened the content is not known: until it is counted (`delta::count`) the
//! answer for every key is "perhaps".
//!
//! Locks: the gate (`delta::partition`). Called by: `delta::tree`, `delta::count`, `merge`.
use super::partition::{Numbers, Partitions};
use super::sums::Sums;
use crate::base::sync::{holds, holds_no_latch, Rank};
use crate::base::{planted, Mutant};
use crate::change::filter::{BloomFilters, CountingFilter};
use crate::pool::Pool;

pub struct Summary {
    pub sums: Sums,
    pub partitions: Partitions,
    /// Keys with something pending.
    pub(super) keys: CountingFilter,
    /// Unique values with something pending.
    pub values: BloomFilters,
}

impl Summary {
    pub fn new(sums: Sums) -> Summary {
        Summary {
            sums,
            partitions: Partitions::default(),
            keys: CountingFilter::default(),
            values: BloomFilters::default(),
        }
    }

    // ---- questions ----

    /// False: nothing is pending for `key`. True: perhaps.
    #[inline]
    pub fn may_have(&self, key: &[u8]) -> bool {
        match self.sums.known_entries() {
            Some(0) => false,
            Some(_) => self.keys.may_have(key),
            None => true,
        }
    }
    /// False: nothing is pending for the unique value.
    pub fn may_have_value(&self, value: &[u8]) -> bool {
        if self.sums.is_empty() || planted(Mutant::PendingValueOverlooked) {
            return false;
        }
        !self.sums.is_known() || self.values.may_have(value, &self.live())
    }
    /// Partitions that may hold something, oldest first.
    pub fn live(&self) -> Numbers {
        self.partitions.live(self.sums.is_known())
    }

    // ---- counts ----

    /// Counts an entry up, before it is written: a reader that sees the entry finds it counted
    /// (F1). The gate is held shared, or the entry is counted after a restart (F2).
    pub fn count_up(&self, pool: &Pool, key: &[u8], partition: u16) {
        debug_assert!(
            self.partitions.is_held() || holds(Rank::DeltaCount),
            "F2: a count up excludes a replacement of the filter"
        );
        self.keys.up(key, &self.sums.buffer().slots);
        self.values.add(key, partition, self.sums.buffer().bloom_limits());
        self.partitions.count_up(partition);
        self.sums.add_entry(|| pool.disk().now_us());
    }
    /// Counts an entry down. The gate is held shared.
    pub fn count_down(&self, key: &[u8], partition: u16) {
        debug_assert!(
            self.partitions.is_held(),
            "F2: a count down excludes a replacement of the filter"
        );
        self.keys.down(key);
        self.partitions.count_down(partition);
        self.sums.remove_entry();
    }
    /// Counts an entry down that a merge has taken out, after its mini-transaction. `bytes` as
    /// [`super::key::entry_bytes`] gives them. The gate is held shared.
    pub fn count_merged(&self, key: &[u8], partition: u16, bytes: usize) {
        self.sums.grow(-(bytes as i64), partition == self.partitions.newest());
        self.count_down(key, partition);
    }

    // ---- memory ----

    /// Makes filters larger that have become too small for what is pending. Neither a latch nor the
    /// gate is held.
    pub fn grow_filters(&self) {
        debug_assert!(holds_no_latch(), "I5: the gate comes before all latches");
        let buffer = self.sums.buffer();
        self.values.grow(buffer.bloom_limits());
        let larger = match self.sums.is_known() {
            true => self.keys.larger(self.sums.entries(), &buffer.slots),
            false => None,
        };
        if let Some(larger) = larger {
            let _closed = self.partitions.hold_closed();
            self.keys.grow(larger, &buffer.slots);
        }
    }
    /// After a merge: gives up the numbers of empty partitions and, if nothing is pending, the
    /// memory of the filters (F4). No latch is held.
    pub fn reclaim(&self) {
        debug_assert!(
            holds_no_latch(),
            "F4: memory is given up after a merge, with its latches"
        );
        if !self.sums.is_known() || !(self.partitions.is_oldest_empty() || self.sums.is_empty()) {
            return;
        }
        let _closed = self.partitions.hold_closed();
        let oldest = self.partitions.drop_empty();
        self.values.forget_before(oldest);
        if self.sums.is_empty() {
            self.keys.clear();
            self.values.clear();
            self.partitions.restart(&self.sums);
        }
    }
    /// Of a tree that was discarded: returns the memory of the filters now. From then on the answer
    /// for every key is "perhaps".
    pub fn give_back_memory(&self) {
        let _closed = self.partitions.hold_closed();
        self.sums.forget();
        self.values.clear();
        self.keys.clear();
    }
}
