//! For which unique values something may be pending: Bloom filters for each partition of a delta
//! tree.
//!
//! A filter never answers "nothing" wrongly: an append adds its value before it writes. Values are
//! never removed. A filter goes with its partition, when that is empty, or with the index. A
//! counting filter, as for keys, would take twenty times the memory to answer "nothing" as often.
//! Each of its slots may stand for six entries. For a key "perhaps" costs an append; for a value it
//! costs a read.
//!
//! A partition begins with a small filter. When that is half full a larger filter is added beside
//! it, and further values go to the larger one. A lookup asks all filters of a partition, so
//! nothing has to be added again.
//!
//! Memory is bounded for all indexes together. A partition without a filter answers "perhaps" for
//! every value. A partition that gets no larger filter goes on with the filters it has.
//!
//! Locks: `partitions`, of no rank. Under it no other lock is taken and no filter is made. Called
//! by: `delta::summary`, `delta::tree`.
use super::memory::{MemoryBudget, Reservation};
use crate::base::bytes::hash_wide;
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::base::sync::{Arc, OnceLock, RwLock};

const PROBES: u64 = 4;
/// Bytes of a small entry. A partition gets a byte of filter for each of this many bytes.
const ENTRY_BYTES: u64 = 48;
/// Bytes of a partition's first filter. A pool of 256 MiB has room for a thousand unique indexes.
const FIRST: u64 = 4 << 10;
/// The next filter has this many times the bytes.
const STEP: u64 = 16;
/// Bytes for each value of a filter that is followed by a larger one. So full a filter answers
/// "perhaps" for one absent value in four hundred.
const BYTES_A_VALUE: u64 = 2;

/// The memory of all Bloom filters of an engine, and the largest size of one.
#[derive(Clone, Copy)]
pub struct BloomLimits<'a> {
    pub memory: &'a Arc<MemoryBudget>,
    /// Bytes of delta tree pages that all newest partitions may have together.
    pub partition_bytes: u64,
}

impl BloomLimits<'_> {
    /// Bytes of a partition's largest filter.
    fn bytes_max(&self) -> u64 {
        (self.partition_bytes / ENTRY_BYTES).max(512)
    }
}

struct Bloom {
    words: Box<[AtomicU64]>,
    /// Distinct values added, about.
    added: AtomicU64,
    /// From this number of values on a larger filter is wanted. `u64::MAX`: this is the largest.
    full_from: AtomicU64,
    _reservation: Reservation,
}

impl Bloom {
    /// None: there is no memory for it. Called with no lock held: zeroing the memory takes a while.
    fn first(limits: BloomLimits<'_>) -> Option<Bloom> {
        let bytes_max = limits.bytes_max();
        let bytes = FIRST.min(bytes_max).next_multiple_of(8);
        Some(Bloom::new(bytes, bytes_max, limits.memory.reserve_first(bytes)?))
    }
    /// As `first`, of the next size after `bytes` bytes.
    fn larger(bytes: u64, limits: BloomLimits<'_>) -> Option<Bloom> {
        let bytes_max = limits.bytes_max();
        let bytes = (bytes * STEP).min(bytes_max).next_multiple_of(8);
        Some(Bloom::new(bytes, bytes_max, limits.memory.reserve_larger(bytes)?))
    }
    fn new(bytes: u64, bytes_max: u64, reservation: Reservation) -> Bloom {
        debug_assert!(bytes > 0 && bytes % 8 == 0, "a filter is made of whole words");
        let full_from = match bytes < bytes_max {
            true => bytes / BYTES_A_VALUE,
            false => u64::MAX,
        };
        Bloom {
            words: (0..bytes / 8).map(|_| AtomicU64::new(0)).collect(),
            added: AtomicU64::new(0),
            full_from: AtomicU64::new(full_from),
            _reservation: reservation,
        }
    }
    fn bytes(&self) -> u64 {
        self.words.len() as u64 * 8
    }
    fn places(&self, hash: u64) -> impl Iterator<Item = (usize, u64)> + '_ {
        let bits = self.words.len() as u64 * 64;
        places(hash, bits).map(|place| ((place / 64) as usize, 1 << (place % 64)))
    }
    /// True: the filter has become too small.
    fn add(&self, hash: u64) -> bool {
        let mut was_there = true;
        for (word, bit) in self.places(hash) {
            was_there &= self.words[word].fetch_or(bit, Ordering::Relaxed) & bit != 0;
        }
        !was_there && self.added.fetch_add(1, Ordering::Relaxed) + 1 >= self.full_from.load(Ordering::Relaxed)
    }
    fn may_have(&self, hash: u64) -> bool {
        self.places(hash)
            .all(|(word, bit)| self.words[word].load(Ordering::Relaxed) & bit != 0)
    }
    /// True for one caller: the filter is too small, and that caller asks for a larger one. True
    /// again when the number of values has doubled.
    fn claims_growth(&self) -> bool {
        let full_from = self.full_from.load(Ordering::Relaxed);
        let next = full_from.saturating_mul(2);
        self.added.load(Ordering::Relaxed) >= full_from
            && self
                .full_from
                .compare_exchange(full_from, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

/// The filters of a partition that has values.
struct PartitionBlooms {
    partition: u16,
    /// From the smallest to the largest; values are added to the largest. Empty: no memory was
    /// left.
    blooms: Vec<Bloom>,
}

/// The Bloom filters of one delta tree. They are in use only if the index is unique.
#[derive(Default)]
pub struct BloomFilters {
    /// Bytes of a clustered key, 0 = the length varies. Unset: the index is not unique.
    pk_len: OnceLock<usize>,
    partitions: RwLock<Vec<PartitionBlooms>>,
    /// Some filter has become too small.
    wants_growth: AtomicBool,
}

impl BloomFilters {
    /// The index is unique. `pk_len`: bytes of a clustered key, 0 = the length varies.
    pub fn set(&self, pk_len: usize) {
        let set = *self.pk_len.get_or_init(|| pk_len);
        debug_assert_eq!(set, pk_len, "an index belongs to one table");
    }
    pub fn is_set(&self) -> bool {
        self.pk_len.get().is_some()
    }
    /// Bytes of every clustered key, so a key tells where its value ends. None: the index is not
    /// unique, or the length varies.
    pub fn pk_len(&self) -> Option<usize> {
        self.pk_len.get().copied().filter(|len| *len > 0)
    }
    fn value_of<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        key.get(..key.len().checked_sub(self.pk_len()?)?)
    }
    /// Adds the value of `key`, before an entry for `key` is written to this partition.
    pub fn add(&self, key: &[u8], partition: u16, limits: BloomLimits<'_>) {
        let Some(hash) = self.value_of(key).map(hash_wide) else {
            return;
        };
        if self.add_to(partition, hash) {
            return;
        }
        let first = Bloom::first(limits);
        let mut partitions = self.partitions.write();
        if !partitions.iter().any(|its| its.partition == partition) {
            let blooms = first.into_iter().collect();
            partitions.push(PartitionBlooms { partition, blooms });
        }
        drop(partitions);
        self.add_to(partition, hash);
    }
    /// False: the partition has no filters yet.
    fn add_to(&self, partition: u16, hash: u64) -> bool {
        let partitions = self.partitions.read();
        let Some(its) = partitions.iter().find(|its| its.partition == partition) else {
            return false;
        };
        if its.blooms.last().is_some_and(|bloom| bloom.add(hash)) {
            self.wants_growth.store(true, Ordering::Relaxed);
        }
        true
    }
    /// Partitions whose filters have become too small get larger ones, if there is memory. Called
    /// with no lock held: zeroing the memory takes a while.
    pub fn grow(&self, limits: BloomLimits<'_>) {
        if !self.wants_growth.load(Ordering::Relaxed) || !self.wants_growth.swap(false, Ordering::Relaxed) {
            return;
        }
        let full: Vec<(u16, u64)> = (self.partitions.read().iter())
            .filter_map(|its| {
                Some((
                    its.partition,
                    its.blooms.last().filter(|last| last.claims_growth())?.bytes(),
                ))
            })
            .collect();
        for (partition, bytes) in full {
            let larger = Bloom::larger(bytes, limits);
            let mut partitions = self.partitions.write();
            let its = partitions.iter_mut().find(|its| its.partition == partition);
            if let (Some(its), Some(larger)) = (its, larger) {
                if its.blooms.last().is_some_and(|last| last.bytes() < larger.bytes()) {
                    its.blooms.push(larger);
                }
            }
        }
    }
    /// False: none of the partitions `live` has an entry for the value.
    pub fn may_have(&self, value: &[u8], live: &[u16]) -> bool {
        if self.pk_len().is_none() {
            return true;
        }
        let hash = hash_wide(value);
        let partitions = self.partitions.read();
        let mut of_live = partitions.iter().filter(|its| live.contains(&its.partition));
        of_live.any(|its| its.blooms.is_empty() || its.blooms.iter().any(|bloom| bloom.may_have(hash)))
    }
    /// Drops the filters of the partitions before `oldest`: they are empty and closed. The caller
    /// holds the gate exclusively, so no append is under way.
    pub fn forget_before(&self, oldest: u16) {
        self.partitions.write().retain(|its| its.partition >= oldest);
    }
    /// Drops all filters: every partition is empty. The gate as in `forget_before`.
    pub fn clear(&self) {
        self.partitions.write().clear();
    }
}

/// The bits that stand for a value. `bits`: of the filter; a pool of some hundred GiB has filters
/// of more than 2^32.
fn places(hash: u64, bits: u64) -> impl Iterator<Item = u64> {
    // Double hashing: the two halves of the hash make any number of places.
    let step = hash.rotate_left(32) | 1;
    (0..PROBES).map(move |i| {
        let at = hash.wrapping_add(step.wrapping_mul(i));
        ((at as u128 * bits as u128) >> 64) as u64
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 32 bits of hash times more than 2^32 bits overflowed: of a filter of 1 GiB all values used
    /// the same half.
    #[test]
    fn a_filter_of_any_size_is_used_from_end_to_end() {
        for bits in [64, 1 << 20, 1 << 31, 1 << 32, 1 << 33, 3 << 33, 1 << 40] {
            let (values, parts) = (10_000u32, 16);
            let mut found = vec![0; parts];
            let mut low = [0; 2];
            for place in (0..values).flat_map(|n| places(hash_wide(&n.to_be_bytes()), bits)) {
                assert!(place < bits);
                found[(place as u128 * parts as u128 / bits as u128) as usize] += 1;
                low[place as usize % 2] += 1;
            }
            let all = values as usize * PROBES as usize;
            let even = |count: &usize, parts: usize| (all / parts * 9 / 10..all / parts * 11 / 10).contains(count);
            assert!(found.iter().all(|count| even(count, parts)), "{bits}: {found:?}");
            assert!(low.iter().all(|count| even(count, 2)), "{bits}: {low:?}");
        }
    }

    #[test]
    fn a_partition_has_the_values_added_and_few_others_and_memory_is_bounded() {
        let memory = MemoryBudget::new(4 << 20);
        let limits = BloomLimits {
            memory: &memory,
            partition_bytes: (64 << 20) / 100 * 25,
        };
        let values = BloomFilters::default();
        let key = |n: u32| [&n.to_be_bytes()[..], &[0; 4]].concat();
        values.add(&key(1), 3, limits);
        assert!(
            values.may_have(&1u32.to_be_bytes(), &[3]),
            "an index that is not unique answers perhaps"
        );
        values.set(4);
        assert!(!values.may_have(&1u32.to_be_bytes(), &[3]));
        values.add(&key(1), 3, limits);
        assert_eq!(memory.taken(), FIRST);
        let entries = (limits.partition_bytes / ENTRY_BYTES) as u32;
        for n in 0..entries {
            values.add(&key(n), 3, limits);
            values.grow(limits);
        }
        assert!((0..entries).all(|n| values.may_have(&n.to_be_bytes(), &[2, 3])));
        let wrong = (entries..entries + 10_000).filter(|n| values.may_have(&n.to_be_bytes(), &[3]));
        assert!((50..500).contains(&wrong.count()));
        assert!(!values.may_have(&1u32.to_be_bytes(), &[4]));
        // There are more partitions than memory for filters.
        (4..2000).for_each(|partition| values.add(&key(5), partition, limits));
        assert!(memory.taken() <= memory.max());
        assert!(
            values.may_have(&77_777_777u32.to_be_bytes(), &[1999]),
            "a partition without a filter answers perhaps"
        );
        values.forget_before(1999);
        assert!(values.may_have(&77_777_777u32.to_be_bytes(), &[1999]));
        values.clear();
        assert_eq!(memory.taken(), 0);
        assert!(!values.may_have(&1u32.to_be_bytes(), &[3, 1999]));
    }
}
