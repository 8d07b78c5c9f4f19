//! For which unique values something may be pending: a Bloom filter for each partition of a delta tree.
//!
//! Never wrong about "nothing": an append adds its value before it writes. Nothing is ever taken out; a filter goes with its partition, when
//! that is empty, or with the index. (A count of one byte a slot, as for keys, would take ten times the memory to say "nothing" as often: there may be six
//! entries for each of its slots, which costs keys nothing, for they are appended then, and here would cost the read.)
//!
//! Memory is bounded for all indexes together. A partition that got none has everything, perhaps. Lock: `partitions`, of no rank, under which
//! nothing is taken. Called by `delta` and `unique`.
use super::policy::ChangeBuffer;
use crate::base::bytes::mixed;
use parking_lot::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

const PROBES: u32 = 4;
/// Bytes of a small entry (key and value): a partition gets a byte of filter for as many.
const ENTRY_BYTES: u64 = 24;

/// Bytes of all filters.
pub(super) struct Memory {
    taken: AtomicU64,
    max: u64,
}

impl Memory {
    pub fn new(max: u64) -> Memory {
        Memory {
            taken: AtomicU64::new(0),
            max,
        }
    }
    #[cfg(test)]
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}

struct Bloom {
    words: Box<[AtomicU64]>,
    memory: Arc<Memory>,
}

impl Bloom {
    /// None: there is no memory for it.
    fn new(bytes: u64, memory: &Arc<Memory>) -> Option<Bloom> {
        let words = bytes.div_ceil(8).max(64);
        let taken = memory.taken.fetch_add(words * 8, Ordering::Relaxed);
        let bloom = Bloom {
            words: if taken + words * 8 <= memory.max {
                (0..words).map(|_| AtomicU64::new(0)).collect()
            } else {
                Box::default()
            },
            memory: memory.clone(),
        };
        if bloom.words.is_empty() {
            memory.taken.fetch_sub(words * 8, Ordering::Relaxed);
            return None;
        }
        Some(bloom)
    }
    fn places(&self, hash: u32) -> impl Iterator<Item = (usize, u64)> + '_ {
        // Two halves make as many places as are wanted.
        let h = mixed(hash);
        let (first, step) = (h as u32, (h >> 32) as u32 | 1);
        let bits = self.words.len() as u64 * 64;
        (0..PROBES).map(move |i| {
            let place = (first.wrapping_add(step.wrapping_mul(i)) as u64 * bits) >> 32;
            ((place / 64) as usize, 1 << (place % 64))
        })
    }
    fn add(&self, hash: u32) {
        for (word, bit) in self.places(hash) {
            self.words[word].fetch_or(bit, Ordering::Relaxed);
        }
    }
    fn may_have(&self, hash: u32) -> bool {
        self.places(hash)
            .all(|(word, bit)| self.words[word].load(Ordering::Relaxed) & bit != 0)
    }
}

impl Drop for Bloom {
    fn drop(&mut self) {
        self.memory
            .taken
            .fetch_sub(self.words.len() as u64 * 8, Ordering::Relaxed);
    }
}

/// What a delta tree knows about the unique values of its index.
#[derive(Default)]
pub(super) struct Values {
    /// Length of the clustered keys, 0 = it varies. Unset: the index is not unique.
    pk_len: OnceLock<usize>,
    /// Partitions that something was added to. None: no memory was left.
    partitions: RwLock<Vec<(u16, Option<Bloom>)>>,
    pub asked: AtomicU32,
    /// The imprinter knows the index.
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
        let Some(hash) = self.of(key).map(hash_of) else {
            return;
        };
        let is_its = |(no, _): &&(u16, Option<Bloom>)| *no == partition;
        if let Some((_, bloom)) = self.partitions.read().iter().find(is_its) {
            bloom.iter().for_each(|bloom| bloom.add(hash));
            return;
        }
        let mut partitions = self.partitions.write();
        if !partitions.iter().any(|(no, _)| *no == partition) {
            let bytes = buffer.memory_max() / 2 / ENTRY_BYTES;
            partitions.push((partition, Bloom::new(bytes, &buffer.values_memory)));
        }
        for (_, bloom) in partitions.iter().filter(|(no, _)| *no == partition) {
            bloom.iter().for_each(|bloom| bloom.add(hash));
        }
    }
    /// False: none of these partitions, which hold all that is pending, has anything for the value.
    pub fn may_have(&self, value: &[u8], live: &[u16]) -> bool {
        if self.pk_len().is_none() {
            return true;
        }
        let hash = hash_of(value);
        let partitions = self.partitions.read();
        let mut of_live = partitions.iter().filter(|(no, _)| live.contains(no));
        of_live.any(|(_, bloom)| bloom.as_ref().is_none_or(|bloom| bloom.may_have(hash)))
    }
    /// The partitions before `oldest` are empty, and closed. The caller keeps everybody from appending.
    pub fn forget_before(&self, oldest: u16) {
        self.partitions.write().retain(|(no, _)| *no >= oldest);
    }
    /// All are.
    pub fn clear(&self) {
        self.partitions.write().clear();
    }
}

pub(super) fn hash_of(value: &[u8]) -> u32 {
    crc32c::crc32c(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Buffering;

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
        let entries = (buffer.memory_max() / 2 / ENTRY_BYTES) as u32;
        (0..entries).for_each(|n| values.add(&key(n), 3, &buffer));
        assert!((0..entries).all(|n| values.may_have(&n.to_be_bytes(), &[2, 3])));
        let wrong = (entries..entries + 10_000).filter(|n| values.may_have(&n.to_be_bytes(), &[3]));
        assert!((50..500).contains(&wrong.count()));
        assert!(!values.may_have(&1u32.to_be_bytes(), &[4]));
        // More partitions than there is memory for.
        (4..200).for_each(|partition| values.add(&key(5), partition, &buffer));
        assert!(buffer.values_memory.taken() <= buffer.values_memory.max);
        assert!(
            values.may_have(&77_777_777u32.to_be_bytes(), &[199]),
            "it has none, and everything perhaps"
        );
        values.forget_before(199);
        assert!(values.may_have(&77_777_777u32.to_be_bytes(), &[199]));
        values.clear();
        assert_eq!(buffer.values_memory.taken(), 0);
        assert!(!values.may_have(&1u32.to_be_bytes(), &[3, 199]));
    }
}
