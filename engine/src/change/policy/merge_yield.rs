//! What merges of an index bring: how many entries a leaf's merge takes out, and which reads of
//! dense leaves merge them.
//!
//! Locks: none. Called by: `merge` counts; the worker in the table layer and `index::scan` ask.
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// With fewer entries the yield of an index need not be learned.
const LEARN_MIN: u64 = 4096;
/// One in this many reads of leaves with much pending merges its leaf.
pub const DENSE_READS_PER_MERGE: u32 = 16;
/// The unit of [`MergeYield::share`].
const ONE: u64 = 1 << 32;

/// The yield of one index.
#[derive(Default)]
pub struct MergeYield {
    /// The part of the pending entries that one leaf's merge took out lately, in units of
    /// 1/[`ONE`]. 0 = no merge yet.
    share: AtomicU64,
    dense_reads: AtomicU32,
}

impl MergeYield {
    /// Merges took `entries` of `pending` entries out, for `leaves` leaves.
    pub fn note(&self, entries: usize, leaves: usize, pending: u64) {
        debug_assert!(leaves > 0 || entries == 0, "entries are merged into leaves");
        if leaves > 0 && pending > 0 {
            let now = entries as u64 * ONE / (leaves as u64 * pending);
            let old = self.share.load(Ordering::Relaxed);
            let new = if old == 0 { now } else { old - old / 4 + now / 4 };
            self.share.store(new.max(1), Ordering::Relaxed);
        }
    }
    /// Entries that the merge of one more leaf can be expected to take out, of `pending`. Before
    /// the first merge of many entries all of them are expected, so that the first sweep comes
    /// soon.
    pub fn expected(&self, pending: u64) -> u64 {
        match self.share.load(Ordering::Relaxed) {
            0 if pending < LEARN_MIN => 1,
            0 => pending,
            share => ((pending as u128 * share as u128) / ONE as u128) as u64,
        }
    }
    /// A reader met a dense leaf: does this reader merge it? A leaf that is rarely read is not
    /// worth its write; a leaf that is read again and again is soon merged.
    pub fn is_turn_to_merge(&self) -> bool {
        self.dense_reads.fetch_add(1, Ordering::Relaxed) % DENSE_READS_PER_MERGE == DENSE_READS_PER_MERGE - 1
    }
}
