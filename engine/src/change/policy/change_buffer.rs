//! The change buffer of an engine: its settings, and what its delta trees share.
//!
//! | state of the target leaf and the key | a change is |
//! |---|---|
//! | something is pending for the key | appended, always (I3) |
//! | buffering is off for this kind of operation | applied directly |
//! | the leaf is not in the pool | appended: this spares the read |
//! | the leaf is in the pool and dirty | applied directly: its write is due anyway |
//! | the leaf is in the pool and clean, the index lives in memory | applied directly |
//! | the leaf is in the pool and clean, the index lives on disk | appended |
//!
//! Called by: every file of `change` above `policy`; the engine and the table layer set it and
//! report its figures.
use super::buffering::{kind, Buffering};
use super::totals::Totals;
use crate::change::filter::{BloomLimits, MemoryBudget, SlotBudget, UniqueLeaves};
use crate::change::op::Op;
use crate::pool::{GeometryObserver, PageHasher, PoolGeometry};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicU8, Ordering};
use std::sync::Arc;

/// The bound on disk is this many times the bytes of the newest partitions, or less, as the user
/// sets it. The partition numbers do not last for more (N1).
pub const DISK_TIMES: u64 = 10;

/// Test modes.
const HOLD: u8 = 3;
const STEADY: u8 = 4;

/// Settings and totals of all delta trees of an engine.
pub struct ChangeBuffer {
    /// Kinds of operations that are buffered.
    bits: AtomicU8,
    /// Bytes that the newest partitions may have together.
    memory_max: AtomicU64,
    /// The same as the user sets it: percent of the pool.
    max_size_percent: AtomicU32,
    /// Bytes that may be pending in all; 0 = [`DISK_TIMES`] times `memory_max`.
    disk_max: AtomicU64,
    /// For tests. 0: off. 1: every change that may be buffered is, and the worker merges at random
    /// moments, too. 2: as 1, for every other key. 3: as 1, but neither chance nor idleness is a
    /// reason to merge. 4: as 1, without merges at random moments.
    test_mode: AtomicU8,
    /// The number of the drain request that is under way; 0 = none.
    draining: AtomicU64,
    /// Drain requests so far.
    drains: AtomicU64,
    /// The user stopped the last drain.
    drain_stopped: AtomicBool,
    /// Some index has, or had, changes that cannot be merged.
    unmergeable: AtomicBool,
    /// Age from which on entries are merged although the engine is busy, microseconds; 0 = none.
    age_max_us: AtomicU64,
    pub(in crate::change) totals: Totals,
    pub(in crate::change) slots: SlotBudget,
    pub(in crate::change) unique_leaves: Arc<UniqueLeaves>,
    bloom_memory: Arc<MemoryBudget>,
}

impl ChangeBuffer {
    /// `pool_size` in bytes.
    pub fn new(buffering: Buffering, max_size_percent: u32, pool_size: u64, test_mode: u8) -> ChangeBuffer {
        let buffer = ChangeBuffer {
            bits: AtomicU8::new(buffering.bits()),
            memory_max: AtomicU64::new(0),
            max_size_percent: AtomicU32::new(max_size_percent),
            disk_max: AtomicU64::new(0),
            test_mode: AtomicU8::new(test_mode),
            draining: AtomicU64::new(0),
            drains: AtomicU64::new(0),
            drain_stopped: AtomicBool::new(false),
            unmergeable: AtomicBool::new(false),
            age_max_us: AtomicU64::new(0),
            totals: Totals::default(),
            slots: SlotBudget::new(pool_size),
            unique_leaves: Arc::default(),
            bloom_memory: MemoryBudget::new(pool_size / 16),
        };
        buffer.set_max_size(max_size_percent, pool_size);
        buffer
    }
    /// Tells the pool of which leaves to make absence filters: for
    /// `pool::AbsenceFilters::set_hasher`.
    pub fn page_hasher(&self) -> Arc<dyn PageHasher> {
        self.unique_leaves.clone()
    }

    // ---- settings ----

    pub fn set_buffering(&self, buffering: Buffering) {
        self.bits.store(buffering.bits(), Ordering::Relaxed);
    }
    /// The setting for all tables.
    pub fn buffering(&self) -> Buffering {
        Buffering::from_bits(self.bits.load(Ordering::Relaxed))
    }
    /// May the operation be buffered by the setting for all tables?
    #[inline]
    pub(in crate::change) fn allows(&self, op: &Op<'_>) -> bool {
        self.bits.load(Ordering::Relaxed) & kind(op) != 0
    }
    /// Bounds the newest partitions. `percent` of the pool, at most 50; `pool_size` in bytes.
    pub fn set_max_size(&self, percent: u32, pool_size: u64) {
        self.max_size_percent.store(percent, Ordering::Relaxed);
        let bytes = pool_size / 100 * percent.min(50) as u64;
        self.memory_max.store(bytes.max(64 << 10), Ordering::Relaxed);
    }
    /// Bounds all that is pending. 0: [`DISK_TIMES`] times what the newest partitions may have.
    pub fn set_max_disk_size(&self, bytes: u64) {
        self.disk_max.store(bytes, Ordering::Relaxed);
    }
    /// Less than a server allows, so that a few changes reach the bound.
    #[cfg(test)]
    pub fn set_memory_max(&self, bytes: u64) {
        self.memory_max.store(bytes, Ordering::Relaxed);
    }
    /// Bytes that the newest partitions may have together.
    pub fn memory_max(&self) -> u64 {
        self.memory_max.load(Ordering::Relaxed)
    }
    /// The bound of `bytes`: at least what the newest partitions may have, and at most
    /// [`DISK_TIMES`] times that.
    pub fn bytes_max(&self) -> u64 {
        let (least, most) = (self.memory_max(), self.memory_max() * DISK_TIMES);
        match self.disk_max.load(Ordering::Relaxed) {
            0 => most,
            bytes => bytes.clamp(least, most),
        }
    }
    /// 0 = no limit.
    pub fn set_age_max(&self, seconds: u64) {
        self.age_max_us
            .store(seconds.saturating_mul(1_000_000), Ordering::Relaxed);
    }
    /// Must entries of this age be merged although the engine is busy?
    pub fn is_too_old(&self, age_us: u64) -> bool {
        let max = self.age_max_us.load(Ordering::Relaxed);
        max > 0 && age_us >= max
    }

    // ---- test modes ----

    pub fn set_test_mode(&self, mode: u8) {
        self.test_mode.store(mode, Ordering::Relaxed);
    }
    /// For tests: is a change of this key buffered whatever the state of its leaf?
    #[inline]
    pub(in crate::change) fn forces(&self, key: &[u8]) -> bool {
        match self.test_mode.load(Ordering::Relaxed) {
            0 => false,
            1 | HOLD | STEADY => true,
            _ => crc32c::crc32c(key) & 1 == 0,
        }
    }
    /// For tests: changes are buffered even where that does not pay.
    pub fn is_forced(&self) -> bool {
        self.test_mode.load(Ordering::Relaxed) != 0
    }
    /// For tests: merges come at random moments, too.
    pub fn merges_at_random(&self) -> bool {
        matches!(self.test_mode.load(Ordering::Relaxed), 1 | 2)
    }
    /// For tests: merges come only on request.
    pub fn holds(&self) -> bool {
        self.test_mode.load(Ordering::Relaxed) == HOLD
    }

    // ---- drains, and what stands in their way ----

    /// Requests a drain, or stops it.
    pub fn set_draining(&self, on: bool) {
        let request = if on {
            self.drains.fetch_add(1, Ordering::Relaxed) + 1
        } else {
            0
        };
        let before = self.draining.swap(request, Ordering::Relaxed);
        if on || before != 0 {
            self.drain_stopped.store(!on, Ordering::Relaxed);
        }
    }
    /// Did the user stop the last drain?
    pub fn was_drain_stopped(&self) -> bool {
        self.drain_stopped.load(Ordering::Relaxed)
    }
    pub fn is_draining(&self) -> bool {
        self.drain_asked_for() != 0
    }
    /// The number of the drain request that is under way; 0: none.
    pub fn drain_asked_for(&self) -> u64 {
        self.draining.load(Ordering::Relaxed)
    }
    /// The request with this number is fulfilled. A later request is still under way.
    pub fn drained(&self, request: u64) {
        // Err: a later request.
        let _ = self
            .draining
            .compare_exchange(request, 0, Ordering::Relaxed, Ordering::Relaxed);
    }
    pub(in crate::change) fn note_unmergeable(&self) {
        self.unmergeable.store(true, Ordering::Relaxed);
    }
    /// Is it worth a look for changes that cannot be merged?
    pub fn has_unmergeable(&self) -> bool {
        self.unmergeable.load(Ordering::Relaxed)
    }

    // ---- totals ----

    /// Bytes pending in all, as far as they are counted.
    pub fn bytes(&self) -> u64 {
        self.totals.bytes()
    }
    /// Entries pending in all, as far as they are counted.
    pub fn entries(&self) -> u64 {
        self.totals.entries()
    }
    /// Bytes pending, in thousandths of the bound. After a restart an estimate stands for the bytes
    /// that are not counted yet.
    pub fn fill(&self) -> u64 {
        let all = self.bytes().saturating_add(self.totals.uncounted());
        all.saturating_mul(1000) / self.bytes_max()
    }
    /// Backpressure: an appender merges a leaf once in this many appends; 0 = never. The rate grows
    /// smoothly from 7/8 of the bound to every append at the bound.
    pub(in crate::change) fn appends_per_merge(&self) -> u64 {
        match self.fill() {
            0..=874 => 0,
            fill @ 875..=999 => (1000 - fill) * (1000 - fill) / 32 + 1,
            _ => 1,
        }
    }
    pub(in crate::change) fn bloom_limits(&self) -> BloomLimits<'_> {
        BloomLimits {
            memory: &self.bloom_memory,
            partition_bytes: self.memory_max(),
        }
    }
    /// Bytes of the Bloom filters, and of the counting filters.
    #[cfg(test)]
    pub fn filter_memory(&self) -> (u64, u64) {
        (self.bloom_memory.taken(), self.slots.taken())
    }
}

impl GeometryObserver for ChangeBuffer {
    fn geometry_changed(&self, geometry: &PoolGeometry) {
        let bytes = geometry.bytes();
        self.set_max_size(self.max_size_percent.load(Ordering::Relaxed), bytes);
        self.slots.set_pool_size(bytes);
        self.bloom_memory.set_max(bytes / 16);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::policy::TableBuffering;

    /// A reader took a sum below zero for 16 EiB: the bound was passed, and the thousandths
    /// overflowed.
    #[test]
    fn a_sum_below_zero_is_zero() {
        let buffer = ChangeBuffer::new(Buffering::default(), 25, 1 << 20, 0);
        buffer.totals.add_bytes(-40);
        assert_eq!((buffer.bytes(), buffer.appends_per_merge()), (0, 0));
    }

    /// A drain was requested while a round, which had found nothing left, was about to report the
    /// end.
    #[test]
    fn a_second_drain_request_outlives_the_end_of_the_first() {
        let buffer = ChangeBuffer::new(Buffering::default(), 25, 1 << 20, 0);
        buffer.set_draining(true);
        let first = buffer.drain_asked_for();
        buffer.set_draining(true);
        buffer.drained(first);
        assert!(buffer.is_draining());
        buffer.drained(buffer.drain_asked_for());
        assert!(!buffer.is_draining());
        buffer.drained(0);
        buffer.set_draining(true);
        assert!(!buffer.was_drain_stopped());
        buffer.set_draining(false);
        assert!(!buffer.is_draining() && buffer.was_drain_stopped());
        buffer.set_draining(true);
        buffer.drained(buffer.drain_asked_for());
        // No drain is under way, so none is stopped.
        buffer.set_draining(false);
        assert!(!buffer.was_drain_stopped());
    }

    #[test]
    fn each_setting_buffers_its_kinds_of_operations() {
        let key: &[u8] = &[];
        let put = Op::Put { key, value: &[] };
        let mark = Op::Mark { key, stamp: 1 };
        let remove = Op::Remove {
            key,
            if_stamp: 1,
            marked: true,
        };
        let buffer = ChangeBuffer::new(Buffering::None, 25, 1 << 30, 0);
        let table = [
            (Buffering::None, [false, false, false]),
            (Buffering::Inserts, [true, false, false]),
            (Buffering::Deletes, [false, true, false]),
            (Buffering::Changes, [true, true, false]),
            (Buffering::Purges, [false, true, true]),
            (Buffering::All, [true, true, true]),
        ];
        for (word, expected) in table {
            buffer.set_buffering(word);
            assert_eq!([put, mark, remove].map(|op| buffer.allows(&op)), expected, "{word:?}");
            assert_eq!(Buffering::from_number(word.number()), word);
            // The table option overrides the setting.
            for (own, kinds) in table {
                let option = TableBuffering::default();
                option.set(Some(own));
                assert_eq!(option.get(), Some(own));
                assert_eq!([put, mark, remove].map(|op| option.allows(&op)), kinds.map(Some));
                option.set(None);
                assert_eq!([put, mark, remove].map(|op| option.allows(&op)), [None; 3]);
            }
        }
    }

    #[test]
    fn backpressure_grows_towards_the_bound() {
        let buffer = ChangeBuffer::new(Buffering::All, 10, 100 << 20, 0);
        let bound = buffer.memory_max() * DISK_TIMES;
        let mut last = u64::MAX;
        for percent in [0, 74, 75, 80, 90, 95, 99, 100, 150] {
            let bytes = bound * percent / 100;
            buffer.totals.add_bytes(bytes as i64 - buffer.bytes() as i64);
            let every = buffer.appends_per_merge();
            match percent {
                0..=87 => assert_eq!(every, 0),
                _ => {
                    assert!(every >= 1 && every <= last, "{percent} %: {every}");
                    last = every;
                }
            }
        }
        assert_eq!(last, 1);
    }
}
