//! When to buffer, and how much: what the delta trees of an engine share.
//!
//! | | |
//! |---|---|
//! | something is pending for the key | append, always (I3) |
//! | buffering is off for this kind of operation | direct |
//! | the target leaf is not in the pool | append: the read is what is spared |
//! | it is there and dirty | direct: the write is paid for |
//! | it is there and clean | direct if the index lives in memory, else append |
//!
//! An index that lives on disk is asked about its leaf only once in [`ASK_EVERY`] times: an append needs no descent of the base tree.
//! Bytes are those that entries take in the pages of the delta tree ([`entry_bytes`]).
use crate::btree::ENTRY_OVERHEAD;
use crate::change::delta::partition::Idle;
use crate::change::delta::tree::PARTITION_NUMBER;
use crate::change::filter::counting::Filters;
use crate::change::filter::memory::Memory;
use crate::change::unique::Uniques;
use crate::change::Op;
use crate::pool::{GeometryObserver, PageHasher, PoolGeometry};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicU8, Ordering};
use std::sync::Arc;

/// An index that lives on disk is asked about its target leaf once in so many changes.
pub const ASK_EVERY: u32 = 16;
/// On disk there may be so many times the bytes of the newest partitions, or fewer, as the user says; the numbers of partitions last for no more (C1).
pub const DISK_TIMES: u64 = 10;

/// Bytes that an entry with a key and a value of so many takes, about. Leaves that are filled in random order are full to ln 2 (Yao, "On random
/// 2-3 trees", 1978), and so many stay while sweeps take out ranges.
pub(in crate::change) fn entry_bytes(key_and_value: usize) -> usize {
    (PARTITION_NUMBER + key_and_value + ENTRY_OVERHEAD) * 10 / 7
}

/// Test modes.
const HOLD: u8 = 3;
const STEADY: u8 = 4;

/// Kinds of operations, as bits.
const INSERTS: u8 = 1;
const DELETES: u8 = 2;
const PURGES: u8 = 4;

/// Which operations are buffered; the names are InnoDB's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Buffering {
    #[default]
    None,
    Inserts,
    /// Delete marks.
    Deletes,
    /// Inserts and delete marks.
    Changes,
    /// Delete marks and removals.
    Purges,
    All,
}

impl Buffering {
    /// The numbers of the variable's values, in the order above.
    pub fn from_number(n: u64) -> Buffering {
        use Buffering::*;
        [None, Inserts, Deletes, Changes, Purges, All][n.min(5) as usize]
    }
    pub fn number(self) -> u64 {
        self as u64
    }
    pub fn word(self) -> &'static str {
        ["none", "inserts", "deletes", "changes", "purges", "all"][self as usize]
    }
    fn bits(self) -> u8 {
        match self {
            Buffering::None => 0,
            Buffering::Inserts => INSERTS,
            Buffering::Deletes => DELETES,
            Buffering::Changes => INSERTS | DELETES,
            Buffering::Purges => DELETES | PURGES,
            Buffering::All => INSERTS | DELETES | PURGES,
        }
    }
}

/// Rollback's operations count as what they are in effect: marks and removals.
fn kind(op: &Op<'_>) -> u8 {
    match op {
        Op::Put { .. } => INSERTS,
        Op::Mark { .. } | Op::Kill { .. } | Op::Unmark { .. } => DELETES,
        Op::Remove { .. } => PURGES,
    }
}

/// Set in a [`Word`]: the delta tree has no room for more, whatever the table says.
const REFUSES: u8 = 1 << 7;

/// What a table says about its own indexes, before what holds for all tables. One byte: 0 = nothing, else the number + 1; with [`REFUSES`].
#[derive(Debug, Default)]
pub(in crate::change) struct Word(AtomicU8);

impl Word {
    pub fn set(&self, buffering: Option<Buffering>) {
        let byte = buffering.map_or(0, |b| b.number() as u8 + 1);
        self.change(|old| old & REFUSES | byte);
    }
    pub fn get(&self) -> Option<Buffering> {
        let byte = self.0.load(Ordering::Relaxed) & !REFUSES;
        byte.checked_sub(1).map(|n| Buffering::from_number(n as u64))
    }
    pub fn refuse(&self, on: bool) {
        self.change(|old| if on { old | REFUSES } else { old & !REFUSES });
    }
    pub fn refuses(&self) -> bool {
        self.0.load(Ordering::Relaxed) & REFUSES != 0
    }
    fn change(&self, new: impl Fn(u8) -> u8) {
        // Never Err: there is always a new value.
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| Some(new(old)));
    }
    #[inline]
    pub fn takes(&self, op: &Op<'_>, buffer: &ChangeBuffer) -> bool {
        match self.0.load(Ordering::Relaxed) {
            0 => buffer.takes(op),
            byte if byte & REFUSES != 0 => false,
            byte => Buffering::from_number(byte as u64 - 1).bits() & kind(op) != 0,
        }
    }
}

/// Settings and sums of all delta trees of an engine.
pub struct ChangeBuffer {
    bits: AtomicU8,
    /// Bytes that the newest partitions may have together.
    memory_max: AtomicU64,
    /// The same as the user sets it: percent of the pool.
    max_size_percent: AtomicU32,
    /// Bytes that may wait in all; 0 = [`DISK_TIMES`] those.
    disk_max: AtomicU64,
    /// Tests: each change that may be buffered is (1), or every other one, by its key (2), and the worker merges at random moments, too; 3 = as 1,
    /// but neither chance nor idleness is a reason to merge; 4 = as 1, without chance.
    test_mode: AtomicU8,
    /// The user wants all of it merged: the number of his request; 0 = he does not, or it is done.
    draining: AtomicU64,
    drains: AtomicU64,
    /// The last drain was told to stop.
    drain_stopped: AtomicBool,
    /// Some index has, or had, something that cannot be merged.
    unmerged: AtomicBool,
    /// Age from which on entries are merged though the engine is busy, microseconds; 0 = none.
    age_max_us: AtomicU64,
    /// The indexes' filters of keys have their memory from here.
    pub(in crate::change) filters: Filters,
    /// Bytes pending in all, and in newest partitions.
    pub(in crate::change) bytes: AtomicU64,
    pub(in crate::change) newest_bytes: AtomicU64,
    pub(in crate::change) idle: Idle,
    /// Indexes whose newest partition holds something.
    newest_count: AtomicU64,
    /// Bytes pending that are not counted yet after a restart, about.
    pub(in crate::change) uncounted: AtomicU64,
    /// Entries pending, as far as they are counted.
    pub(in crate::change) entries: AtomicU64,
    pub(in crate::change) uniques: Arc<Uniques>,
    pub(in crate::change) values_memory: Arc<Memory>,
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
            unmerged: AtomicBool::new(false),
            age_max_us: AtomicU64::new(0),
            filters: Filters::new(pool_size),
            bytes: AtomicU64::new(0),
            newest_bytes: AtomicU64::new(0),
            idle: Idle::default(),
            newest_count: AtomicU64::new(0),
            uncounted: AtomicU64::new(0),
            entries: AtomicU64::new(0),
            uniques: Arc::default(),
            values_memory: Memory::new(pool_size / 16),
        };
        buffer.set_max_size(max_size_percent, pool_size);
        buffer
    }
    /// What the pool is to take down of unique leaves as they leave: for `pool::AbsenceFilters::set_hasher`.
    pub fn page_hasher(&self) -> Arc<dyn PageHasher> {
        self.uniques.clone()
    }
    pub fn set_buffering(&self, buffering: Buffering) {
        self.bits.store(buffering.bits(), Ordering::Relaxed);
    }
    /// The word that holds for all tables.
    pub fn buffering(&self) -> Buffering {
        let bits = self.bits.load(Ordering::Relaxed);
        (0..=5)
            .map(Buffering::from_number)
            .find(|b| b.bits() == bits)
            .unwrap_or_default()
    }
    /// Bytes of the filters of values, and of those of keys.
    #[cfg(test)]
    pub fn filter_memory(&self) -> (u64, u64) {
        (self.values_memory.taken(), self.filters.taken())
    }
    pub fn set_max_size(&self, percent: u32, pool_size: u64) {
        self.max_size_percent.store(percent, Ordering::Relaxed);
        let bytes = pool_size / 100 * percent.min(50) as u64;
        self.memory_max.store(bytes.max(64 << 10), Ordering::Relaxed);
    }
    /// 0: [`DISK_TIMES`] what newest partitions may have.
    pub fn set_max_disk_size(&self, bytes: u64) {
        self.disk_max.store(bytes, Ordering::Relaxed);
    }
    /// Less than a server can have: the bound is then in the reach of a few changes.
    #[cfg(test)]
    pub fn set_memory_max(&self, bytes: u64) {
        self.memory_max.store(bytes, Ordering::Relaxed);
    }
    pub fn set_test_mode(&self, mode: u8) {
        self.test_mode.store(mode, Ordering::Relaxed);
    }
    #[inline]
    pub(in crate::change) fn takes(&self, op: &Op<'_>) -> bool {
        self.bits.load(Ordering::Relaxed) & kind(op) != 0
    }
    /// Tests: buffer this one whatever its leaf says.
    #[inline]
    pub(in crate::change) fn forced(&self, key: &[u8]) -> bool {
        match self.test_mode.load(Ordering::Relaxed) {
            0 => false,
            1 | HOLD | STEADY => true,
            _ => crc32c::crc32c(key) & 1 == 0,
        }
    }
    /// Tests: what is buffered is not what pays.
    pub fn is_forced(&self) -> bool {
        self.test_mode.load(Ordering::Relaxed) != 0
    }
    /// Tests: something is merged now and then, whatever the reasons.
    pub fn merges_at_random(&self) -> bool {
        matches!(self.test_mode.load(Ordering::Relaxed), 1 | 2)
    }
    /// Tests: only who is asked to merges.
    pub fn holds(&self) -> bool {
        self.test_mode.load(Ordering::Relaxed) == HOLD
    }
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
    /// Did the last drain end because somebody said so?
    pub fn was_drain_stopped(&self) -> bool {
        self.drain_stopped.load(Ordering::Relaxed)
    }
    pub fn is_draining(&self) -> bool {
        self.drain_asked_for() != 0
    }
    /// The number of the request that is not fulfilled yet; 0: none.
    pub fn drain_asked_for(&self) -> u64 {
        self.draining.load(Ordering::Relaxed)
    }
    /// That request is fulfilled; one that came since is not.
    pub fn drained(&self, request: u64) {
        // Err: another stands there.
        let _ = self
            .draining
            .compare_exchange(request, 0, Ordering::Relaxed, Ordering::Relaxed);
    }
    pub(in crate::change) fn note_unmerged(&self) {
        self.unmerged.store(true, Ordering::Relaxed);
    }
    /// Is it of any use to look for what cannot be merged?
    pub fn has_unmerged(&self) -> bool {
        self.unmerged.load(Ordering::Relaxed)
    }
    /// 0 = no limit.
    pub fn set_age_max(&self, seconds: u64) {
        self.age_max_us
            .store(seconds.saturating_mul(1_000_000), Ordering::Relaxed);
    }
    /// Is something of this age due whatever else is to do?
    pub fn is_too_old(&self, age_us: u64) -> bool {
        let max = self.age_max_us.load(Ordering::Relaxed);
        max > 0 && age_us >= max
    }
    pub fn memory_max(&self) -> u64 {
        self.memory_max.load(Ordering::Relaxed)
    }
    /// Bytes of all newest partitions; see `bytes`.
    pub(in crate::change) fn newest_sum(&self) -> i64 {
        self.newest_bytes.load(Ordering::Relaxed) as i64
    }
    /// Indexes whose newest partition holds something; at least 1.
    pub(in crate::change) fn newest_count(&self) -> i64 {
        (self.newest_count.load(Ordering::Relaxed) as i64).max(1)
    }
    /// One of them had so many bytes, and has so many now.
    pub(in crate::change) fn count_newest(&self, before: i64, now: i64) {
        if (before > 0) != (now > 0) {
            let one = if now > 0 { 1 } else { -1i64 };
            self.newest_count.fetch_add(one as u64, Ordering::Relaxed);
        }
    }
    /// Who appends counts after its Mtr, so a merge may count the same entry down first: for a moment the sum can be below nothing.
    pub fn bytes(&self) -> u64 {
        (self.bytes.load(Ordering::Relaxed) as i64).max(0) as u64
    }
    pub fn entries(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }
    /// The bound of `bytes`; never less than what newest partitions may have, nor more than [`DISK_TIMES`] that.
    pub fn bytes_max(&self) -> u64 {
        let (least, most) = (self.memory_max(), self.memory_max() * DISK_TIMES);
        match self.disk_max.load(Ordering::Relaxed) {
            0 => most,
            bytes => bytes.clamp(least, most),
        }
    }
    /// Bytes pending, in thousandths of the bound; after a restart with an estimate of those that are not counted yet.
    pub fn fill(&self) -> u64 {
        let all = self.bytes().saturating_add(self.uncounted.load(Ordering::Relaxed));
        all.saturating_mul(1000) / self.bytes_max()
    }
    /// An appender merges a leaf once in so many appends; 0 = need not. Rises smoothly from 7/8 of the bound to every time at the bound.
    pub(in crate::change) fn help_every(&self) -> u64 {
        match self.fill() {
            0..=874 => 0,
            fill @ 875..=999 => (1000 - fill) * (1000 - fill) / 32 + 1,
            _ => 1,
        }
    }
}

impl GeometryObserver for ChangeBuffer {
    fn geometry_changed(&self, geometry: &PoolGeometry) {
        let bytes = geometry.bytes();
        self.set_max_size(self.max_size_percent.load(Ordering::Relaxed), bytes);
        self.filters.set_pool_size(bytes);
        self.values_memory.set_max(bytes / 16);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader of the sum met it at that moment, and took it for 16 EiB: the bound was passed, and the thousandths overflowed.
    #[test]
    fn a_sum_below_nothing_is_nothing() {
        let buffer = ChangeBuffer::new(Buffering::default(), 25, 1 << 20, 0);
        buffer.bytes.fetch_sub(40, Ordering::Relaxed);
        assert_eq!((buffer.bytes(), buffer.help_every()), (0, 0));
    }

    /// It was asked for while a round, which had found nothing left, was about to say so.
    #[test]
    fn a_drain_that_is_asked_for_again_is_not_done_with_the_first() {
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
        // Nothing is stopped.
        buffer.set_draining(false);
        assert!(!buffer.was_drain_stopped());
    }

    #[test]
    fn words_mean_what_they_say() {
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
            assert_eq!([put, mark, remove].map(|op| buffer.takes(&op)), expected, "{word:?}");
            assert_eq!(Buffering::from_number(word.number()), word);
            // A table's own word goes before, whatever it is.
            for (own, kinds) in table {
                let one = Word::default();
                one.set(Some(own));
                assert_eq!(one.get(), Some(own));
                assert_eq!([put, mark, remove].map(|op| one.takes(&op, &buffer)), kinds);
                one.set(None);
                assert_eq!([put, mark, remove].map(|op| one.takes(&op, &buffer)), expected);
            }
        }
    }

    #[test]
    fn appenders_help_more_and_more_as_the_bound_comes_near() {
        let buffer = ChangeBuffer::new(Buffering::All, 10, 100 << 20, 0);
        let bound = buffer.memory_max() * DISK_TIMES;
        let mut last = u64::MAX;
        for percent in [0, 74, 75, 80, 90, 95, 99, 100, 150] {
            buffer.bytes.store(bound * percent / 100, Ordering::Relaxed);
            let every = buffer.help_every();
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
