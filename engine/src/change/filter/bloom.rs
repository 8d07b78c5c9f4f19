//! For which unique values something may be pending: Bloom filters for each partition of a delta tree.
//!
//! Never wrong about "nothing": an append adds its value before it writes. Nothing is ever taken out; a filter goes with its partition, when
//! that is empty, or with the index. (A count of two bytes a slot, as for keys, would take twenty times the memory to say "nothing" as often: there may be six
//! entries for each of its slots, which costs keys nothing, for they are appended then, and here would cost the read.)
//!
//! A partition begins with a small filter; when that is half full a larger one comes beside it, to which values are added from then on, and
//! all of the partition are asked: nothing has to be added anew.
//!
//! Memory is bounded for all indexes together. A partition that got no filter has everything, perhaps; one that got no larger one goes on with
//! what it has. Lock: `partitions`, of no rank, under which nothing is taken, no filter made. Called by `delta` and `unique`.
use crate::base::bytes::hash_wide;
use crate::change::filter::memory::{Memory, Share};
use crate::change::policy::change_buffer::ChangeBuffer;
use parking_lot::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

const PROBES: u64 = 4;
/// Bytes of a small entry: a partition gets a byte of filter for as many.
const ENTRY_BYTES: u64 = 48;
/// Bytes of a partition's first filter: of which there is room for a thousand unique indexes in a pool of 256 MiB.
const FIRST: u64 = 4 << 10;
/// The next has so many times as many.
const STEP: u64 = 16;
/// Values for each byte of a filter that is followed by a larger one: 1/2. So full it says "perhaps" of one value in four hundred.
const BYTES_A_VALUE: u64 = 2;

struct Bloom {
    words: Box<[AtomicU64]>,
    /// Values added that were not there yet, about.
    added: AtomicU64,
    /// With so many a larger filter is to be had. u64::MAX: it is the largest.
    full_from: AtomicU64,
    _share: Share,
}

impl Bloom {
    /// None: there is no memory for it. Called with no lock held: it takes a while.
    fn first(bytes_max: u64, memory: &Arc<Memory>) -> Option<Bloom> {
        let bytes = FIRST.min(bytes_max).next_multiple_of(8);
        Some(Bloom::new(bytes, bytes_max, memory.take_first(bytes)?))
    }
    /// As `first`, of the next size after so many bytes.
    fn larger(bytes: u64, bytes_max: u64, memory: &Arc<Memory>) -> Option<Bloom> {
        let bytes = (bytes * STEP).min(bytes_max).next_multiple_of(8);
        Some(Bloom::new(bytes, bytes_max, memory.take_more(bytes)?))
    }
    fn new(bytes: u64, bytes_max: u64, share: Share) -> Bloom {
        let full_from = match bytes < bytes_max {
            true => bytes / BYTES_A_VALUE,
            false => u64::MAX,
        };
        Bloom {
            words: (0..bytes / 8).map(|_| AtomicU64::new(0)).collect(),
            added: AtomicU64::new(0),
            full_from: AtomicU64::new(full_from),
            _share: share,
        }
    }
    fn bytes(&self) -> u64 {
        self.words.len() as u64 * 8
    }
    fn places(&self, hash: u64) -> impl Iterator<Item = (usize, u64)> + '_ {
        let bits = self.words.len() as u64 * 64;
        places(hash, bits).map(|place| ((place / 64) as usize, 1 << (place % 64)))
    }
    /// True: it has become too small.
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
    /// It is too small, and nobody else has been told so: who was asks for a larger one. Told again when as much has come once more.
    fn tell_full(&self) -> bool {
        let full_from = self.full_from.load(Ordering::Relaxed);
        let next = full_from.saturating_mul(2);
        self.added.load(Ordering::Relaxed) >= full_from
            && self
                .full_from
                .compare_exchange(full_from, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

/// A partition that something was added to.
struct Partition {
    no: u16,
    /// From the smallest to the largest, which is the one added to. None at all: no memory was left.
    blooms: Vec<Bloom>,
}

/// What a delta tree knows about the unique values of its index.
#[derive(Default)]
pub(in crate::change) struct Values {
    /// Length of the clustered keys, 0 = it varies. Unset: the index is not unique.
    pk_len: OnceLock<usize>,
    partitions: RwLock<Vec<Partition>>,
    /// Some filter has become too small.
    grows: AtomicBool,
    pub asked: AtomicU32,
    /// The page_hasher knows the index.
    pub known: AtomicBool,
}

impl Values {
    pub fn set(&self, pk_len: usize) {
        let set = *self.pk_len.get_or_init(|| pk_len);
        debug_assert_eq!(set, pk_len, "an index belongs to one table");
    }
    pub fn is_set(&self) -> bool {
        self.pk_len.get().is_some()
    }
    /// The length of all clustered keys: so a key tells where its value ends. None: it does not.
    pub fn pk_len(&self) -> Option<usize> {
        self.pk_len.get().copied().filter(|len| *len > 0)
    }
    fn of<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        key.get(..key.len().checked_sub(self.pk_len()?)?)
    }
    /// Something is going to be pending for `key` in this partition.
    pub fn add(&self, key: &[u8], partition: u16, buffer: &ChangeBuffer) {
        let Some(hash) = self.of(key).map(hash_wide) else {
            return;
        };
        if self.add_to(partition, hash) {
            return;
        }
        let first = Bloom::first(bytes_max(buffer), &buffer.values_memory);
        let mut partitions = self.partitions.write();
        if !partitions.iter().any(|its| its.no == partition) {
            let blooms = first.into_iter().collect();
            partitions.push(Partition { no: partition, blooms });
        }
        drop(partitions);
        self.add_to(partition, hash);
    }
    /// False: nothing was added to this partition before.
    fn add_to(&self, partition: u16, hash: u64) -> bool {
        let partitions = self.partitions.read();
        let Some(its) = partitions.iter().find(|its| its.no == partition) else {
            return false;
        };
        if its.blooms.last().is_some_and(|bloom| bloom.add(hash)) {
            self.grows.store(true, Ordering::Relaxed);
        }
        true
    }
    /// Partitions whose filters have become too small get larger ones, if there is memory. Nothing need be held: it takes a while.
    pub fn grow(&self, buffer: &ChangeBuffer) {
        if !self.grows.load(Ordering::Relaxed) || !self.grows.swap(false, Ordering::Relaxed) {
            return;
        }
        let full: Vec<(u16, u64)> = (self.partitions.read().iter())
            .filter_map(|its| Some((its.no, its.blooms.last().filter(|last| last.tell_full())?.bytes())))
            .collect();
        for (no, bytes) in full {
            let larger = Bloom::larger(bytes, bytes_max(buffer), &buffer.values_memory);
            let mut partitions = self.partitions.write();
            let its = partitions.iter_mut().find(|its| its.no == no);
            if let (Some(its), Some(larger)) = (its, larger) {
                if its.blooms.last().is_some_and(|last| last.bytes() < larger.bytes()) {
                    its.blooms.push(larger);
                }
            }
        }
    }
    /// False: none of these partitions, which hold all that is pending, has anything for the value.
    pub fn may_have(&self, value: &[u8], live: &[u16]) -> bool {
        if self.pk_len().is_none() {
            return true;
        }
        let hash = hash_wide(value);
        let partitions = self.partitions.read();
        let mut of_live = partitions.iter().filter(|its| live.contains(&its.no));
        of_live.any(|its| its.blooms.is_empty() || its.blooms.iter().any(|bloom| bloom.may_have(hash)))
    }
    /// The partitions before `oldest` are empty, and closed. The caller keeps everybody from appending.
    pub fn forget_before(&self, oldest: u16) {
        self.partitions.write().retain(|its| its.no >= oldest);
    }
    /// All are.
    pub fn clear(&self) {
        self.partitions.write().clear();
    }
}

/// Of a partition's largest filter.
fn bytes_max(buffer: &ChangeBuffer) -> u64 {
    (buffer.memory_max() / ENTRY_BYTES).max(512)
}
/// Of a value, in a filter of so many bits: of any number, a pool of some hundred GiB has more than 2^32.
fn places(hash: u64, bits: u64) -> impl Iterator<Item = u64> {
    // Two halves make as many places as are wanted.
    let step = hash.rotate_left(32) | 1;
    (0..PROBES).map(move |i| {
        let at = hash.wrapping_add(step.wrapping_mul(i));
        ((at as u128 * bits as u128) >> 64) as u64
    })
}
/// For imprints, which are of one page each.
pub(in crate::change) fn hash_of(value: &[u8]) -> u32 {
    crc32c::crc32c(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Buffering;

    /// 32 bits of hash times more than 2^32 bits went over the edge: of a filter of 1 GiB the same half was used for all values.
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
    fn a_partition_has_what_was_added_and_little_else_and_memory_is_bounded() {
        let buffer = ChangeBuffer::new(Buffering::All, 25, 64 << 20, 0);
        let values = Values::default();
        let key = |n: u32| [&n.to_be_bytes()[..], &[0; 4]].concat();
        values.add(&key(1), 3, &buffer);
        assert!(
            values.may_have(&1u32.to_be_bytes(), &[3]),
            "nobody has said that it is unique"
        );
        values.set(4);
        assert!(!values.may_have(&1u32.to_be_bytes(), &[3]));
        values.add(&key(1), 3, &buffer);
        assert_eq!(buffer.values_memory.taken(), FIRST);
        let entries = (buffer.memory_max() / ENTRY_BYTES) as u32;
        for n in 0..entries {
            values.add(&key(n), 3, &buffer);
            values.grow(&buffer);
        }
        assert!((0..entries).all(|n| values.may_have(&n.to_be_bytes(), &[2, 3])));
        let wrong = (entries..entries + 10_000).filter(|n| values.may_have(&n.to_be_bytes(), &[3]));
        assert!((50..500).contains(&wrong.count()));
        assert!(!values.may_have(&1u32.to_be_bytes(), &[4]));
        // More partitions than there is memory for.
        (4..2000).for_each(|partition| values.add(&key(5), partition, &buffer));
        assert!(buffer.values_memory.taken() <= buffer.values_memory.max());
        assert!(
            values.may_have(&77_777_777u32.to_be_bytes(), &[1999]),
            "it has none, and everything perhaps"
        );
        values.forget_before(1999);
        assert!(values.may_have(&77_777_777u32.to_be_bytes(), &[1999]));
        values.clear();
        assert_eq!(buffer.values_memory.taken(), 0);
        assert!(!values.may_have(&1u32.to_be_bytes(), &[3, 1999]));
    }
}
