//! The count of a delta tree's content after the engine was opened.
//!
//! The first use finds which partitions there are, and begins a new one. Then every entry of the
//! older partitions is counted, in steps. Nothing changes in them meanwhile: merges wait for the
//! end of the count. Until an entry is counted, an estimate from a few leaves stands for it in the
//! bound.
//!
//! Locks: the count mutex, which may be taken under latches of the base tree. Under it only delta
//! pages are read. Called by: `delta::tree`.
use super::key::{entry_bytes, entry_key, partition_of, PARTITION_NUMBER};
use super::partition::PARTITIONS_MAX;
use super::summary::Summary;
use crate::base::sync::{holds, holds_no_latch, Rank, RankedGuard, RankedMutex};
use crate::base::{Error, Result};
use crate::btree::{LeafRead, Seek, Tree};
use crate::pool::Pool;
use std::sync::atomic::{AtomicBool, Ordering};

/// Leaves counted at a time. After each time the Bloom filters may grow, which begin with two
/// thousand values.
const AT_ONCE: usize = 4;
/// Leaves in the sample from which the bytes to be counted are estimated: right to a tenth or so.
const SAMPLE: u64 = 8;

/// How far the content is known.
pub struct Count {
    /// The range of partitions is known.
    loaded: AtomicBool,
    position: RankedMutex<Position>,
}

impl Default for Count {
    fn default() -> Count {
        Count {
            loaded: AtomicBool::default(),
            position: RankedMutex::new(Rank::DeltaCount, Position::default()),
        }
    }
}

/// How far the older partitions are counted.
#[derive(Debug, Default)]
pub struct Position {
    /// Last key counted.
    at: Vec<u8>,
    /// The first partition that need not be counted; None: all of them must be.
    until: Option<u16>,
}

/// A delta tree, and what memory knows about it.
#[derive(Clone, Copy)]
pub struct Counted<'a> {
    pub pool: &'a Pool,
    pub tree: &'a Tree,
    pub summary: &'a Summary,
}

impl Count {
    /// Of an index that was just made: there is nothing to count.
    pub fn of_new_index() -> Count {
        Count {
            loaded: AtomicBool::new(true),
            ..Count::default()
        }
    }
    pub fn is_loaded(&self) -> bool {
        self.loaded.load(Ordering::Acquire)
    }
    /// While this is held no entry is counted.
    pub fn hold(&self) -> RankedGuard<'_, Position> {
        self.position.lock()
    }
    /// First use: finds which partitions there are. Error (`Corrupt`): more than there may be.
    pub fn load(&self, of: Counted<'_>) -> Result<()> {
        if self.is_loaded() {
            return Ok(());
        }
        let mut position = self.position.lock();
        if self.is_loaded() {
            return Ok(());
        }
        let first = of.tree.seek(of.pool, Seek::First, &[])?;
        match first.map(|leaf| partition_of(leaf.key())).transpose()? {
            None => of.summary.sums.end_count(),
            Some(first) => {
                let last = of.tree.seek(of.pool, Seek::Last, &[])?;
                let last = last.map(|leaf| partition_of(leaf.key())).transpose()?.unwrap_or(first);
                of.load_range(&mut position, first, last)?;
            }
        }
        self.loaded.store(true, Ordering::Release);
        Ok(())
    }
    /// Counts the entries of about `leaves_max` leaves. True: all are counted. No latch is held.
    pub fn step(&self, of: Counted<'_>, leaves_max: usize) -> Result<bool> {
        debug_assert!(leaves_max > 0, "I7: a step counts something");
        debug_assert!(holds_no_latch(), "I7: a step begins with no latch held");
        self.load(of)?;
        let sums = &of.summary.sums;
        let mut left = leaves_max;
        while left > 0 && !sums.is_known() {
            let mut position = self.position.lock();
            if !sums.is_known() {
                of.count_some(&mut position, left.min(AT_ONCE))?;
            }
            drop(position);
            of.summary.values.grow(sums.buffer().bloom_limits());
            left = left.saturating_sub(AT_ONCE);
        }
        Ok(sums.is_known())
    }
}

impl Counted<'_> {
    /// `first`, `last`: partitions in the tree.
    fn load_range(&self, position: &mut Position, first: u16, last: u16) -> Result<()> {
        debug_assert!(first <= last, "partitions are in key order");
        debug_assert!(holds(Rank::DeltaCount), "one thread finds which partitions there are");
        debug_assert!(!self.summary.sums.is_known(), "what is loaded is not counted yet");
        if (last - first) as u32 >= PARTITIONS_MAX {
            return Err(Error::corrupt("a delta tree holds more partitions than there may be"));
        }
        let (sums, partitions) = (&self.summary.sums, &self.summary.partitions);
        sums.begin_age(self.pool.disk().now_us());
        // The counting filter does not grow while entries are counted.
        let (entries, bytes) = self.tree.estimate_sums(self.pool, SAMPLE, &size_of).unwrap_or_default();
        self.summary.keys.begin(entries, &sums.buffer().slots);
        // A load that failed earlier has counted some already.
        sums.expect_uncounted(bytes.saturating_sub(sums.bytes()));
        let may_begin = last < u16::MAX && ((last - first) as u32) < PARTITIONS_MAX - 1;
        if may_begin {
            position.until = Some(last + 1);
            partitions.set_range(first, last + 1);
        } else {
            // The engine was opened this often without a merge in between. Appends would change the
            // last partition, so everything is counted first.
            partitions.set_range(first, last);
            while !self.count_some(position, AT_ONCE)? {
                self.summary.values.grow(sums.buffer().bloom_limits());
            }
        }
        Ok(())
    }
    /// True: all entries are counted.
    fn count_some(&self, position: &mut Position, leaves_max: usize) -> Result<bool> {
        debug_assert!(!self.summary.sums.is_known(), "an entry is counted once");
        let (sums, partitions) = (&self.summary.sums, &self.summary.partitions);
        let mut leaf = self.tree.seek(self.pool, Seek::Gt, &position.at)?;
        for _ in 0..leaves_max {
            let Some(at) = leaf else {
                sums.end_count();
                return Ok(true);
            };
            for slot in at.slot()..at.len() {
                let (key, value) = at.entry_at(slot);
                let partition = partition_of(key)?;
                if position.until.is_some_and(|until| partition >= until) {
                    sums.end_count();
                    return Ok(true);
                }
                self.summary.count_up(self.pool, entry_key(key), partition);
                let bytes = entry_bytes(key.len() - PARTITION_NUMBER + value.len());
                // As `count_merged` takes them away: the newest partition may be among those
                // counted (`load_range`).
                sums.grow(bytes as i64, partition == partitions.newest());
                sums.reduce_uncounted(bytes as u64);
            }
            debug_assert!(at.key_at(at.len() - 1) > &position.at[..], "each entry is counted once");
            position.at.clear();
            position.at.extend_from_slice(at.key_at(at.len() - 1));
            leaf = self.tree.next_leaf(self.pool, at)?;
        }
        Ok(false)
    }
}

/// Entries of a leaf, and their bytes.
fn size_of(leaf: &LeafRead<'_>) -> (u64, u64) {
    let bytes = |slot| {
        let (key, value) = leaf.entry_at(slot);
        entry_bytes(key.len().saturating_sub(PARTITION_NUMBER) + value.len()) as u64
    };
    (leaf.len() as u64, (0..leaf.len()).map(bytes).sum())
}

#[cfg(test)]
#[path = "count_tests.rs"]
mod tests;
