//! [`TouchedKeys`]: the clustered keys of the rows that were changed while an ALTER TABLE runs.
//!
//! **L2** A row change adds its key after the mini-transaction that makes the change, and before
//! its transaction ends. Proof that this is enough: `docs/decisions/2026-11-28-online-alter.md`.
//!
//! Keys are kept in 16 parts, each with a mutex. The hash of a key chooses its part. A full part
//! drops repeated keys. If it stays full, it takes no more keys and sets a flag: the ALTER TABLE
//! fails, and writers go on.
//!
//! Locks: the mutex of one part. Called by row changes, and by `bulk/online.rs`.
use crate::base::sync::{Rank, RankedMutex};
use crate::base::{planted, Mutant};
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};

const PARTS: usize = 16;
/// A key takes its length and so many bytes more.
const KEY_OVERHEAD: usize = 24;

#[derive(Default)]
struct Part {
    keys: Vec<Box<[u8]>>,
    bytes: usize,
}

impl Part {
    fn drop_repeated(&mut self) {
        let before = self.bytes;
        let distinct: HashSet<Box<[u8]>> = std::mem::take(&mut self.keys).into_iter().collect();
        self.keys = distinct.into_iter().collect();
        self.bytes = self.keys.iter().map(|key| size_of_key(key)).sum();
        debug_assert!(self.bytes <= before, "keys are dropped, and none comes");
    }
}

fn size_of_key(key: &[u8]) -> usize {
    key.len() + KEY_OVERHEAD
}

/// The keys added since the list was taken last.
pub struct TouchedKeys {
    parts: [RankedMutex<Part>; PARTS],
    part_bytes_max: usize,
    is_full: AtomicBool,
    hasher: RandomState,
}

impl TouchedKeys {
    /// `bytes_max`: memory of all keys.
    pub fn new(bytes_max: u64) -> TouchedKeys {
        TouchedKeys {
            parts: std::array::from_fn(|_| RankedMutex::new(Rank::Leaf, Part::default())),
            part_bytes_max: (bytes_max as usize / PARTS).max(4 * KEY_OVERHEAD),
            is_full: AtomicBool::new(false),
            hasher: RandomState::new(),
        }
    }
    /// Adds the clustered key of a changed row (L2).
    pub fn add(&self, key: &[u8]) {
        if self.is_full() || (planted(Mutant::TouchedKeyForgotten) && key.last().is_some_and(|byte| byte % 4 == 0)) {
            return;
        }
        let mut part = self.parts[self.hasher.hash_one(key) as usize % PARTS].lock();
        let size = size_of_key(key);
        if part.bytes + size > self.part_bytes_max {
            part.drop_repeated();
            // After dropping repeated keys it would soon be full again.
            if part.bytes + size > self.part_bytes_max / 8 * 7 {
                self.is_full.store(true, Ordering::Release);
                return;
            }
        }
        part.bytes += size;
        part.keys.push(key.into());
        debug_assert!(part.bytes >= part.keys.len() * KEY_OVERHEAD, "each key is counted");
        debug_assert!(part.bytes <= self.part_bytes_max, "a part keeps to its memory");
    }
    /// A key was lost: the ALTER TABLE must fail.
    pub fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Acquire)
    }
    /// Removes the keys, and returns them in order, each once.
    pub fn take(&self) -> Vec<Box<[u8]>> {
        let mut all = Vec::new();
        for part in &self.parts {
            let taken = std::mem::take(&mut *part.lock());
            all.extend(taken.keys);
        }
        all.sort_unstable();
        all.dedup();
        debug_assert!(all.is_sorted(), "the rows come in the order of their keys");
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_in_order_and_once() {
        let touched = TouchedKeys::new(1 << 20);
        for key in [&b"b"[..], b"a", b"", b"b", b"aa"] {
            touched.add(key);
        }
        let taken = touched.take();
        assert_eq!(
            Vec::from_iter(taken.iter().map(|key| &key[..])),
            [&b""[..], b"a", b"aa", b"b"]
        );
        assert!(touched.take().is_empty());
    }
    #[test]
    fn a_hot_row_does_not_fill_the_list_and_many_rows_do() {
        let touched = TouchedKeys::new(1 << 16);
        (0..100_000u32).for_each(|_| touched.add(b"hot"));
        assert!(!touched.is_full());
        assert_eq!(touched.take().len(), 1);
        (0..100_000u32).for_each(|n| touched.add(&n.to_be_bytes()));
        assert!(touched.is_full());
    }
}
