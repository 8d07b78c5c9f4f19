//! What a delta tree holds is learned after the engine was opened: which partitions there are, at the first use, and then, in steps, every entry
//! of the older ones, in which nothing changes meanwhile.
//!
//! So long an estimate, from a few leaves, stands for them in the bound.
//!
//! Locks: the count mutex, which may be taken under base latches; under it only delta pages are read.
use crate::base::{Error, Result};
use crate::btree::{LeafRead, Seek};
use crate::change::delta::tree::{partition_of, Delta, PARTITIONS_MAX, PARTITION_NUMBER, UNKNOWN};
use crate::change::policy::change_buffer::entry_bytes;
use crate::pool::Pool;
use std::sync::atomic::Ordering;

/// Leaves counted at a time: after each time the filters of values may grow, which begin with two thousand values.
const AT_ONCE: usize = 4;

/// Leaves from which it is estimated how much there is to be counted: right to a tenth or so.
const SAMPLE: u64 = 8;

/// How far the older partitions are counted.
#[derive(Debug, Default)]
pub(in crate::change) struct Count {
    /// Last key counted.
    at: Vec<u8>,
    /// The first partition that need not be counted; None: all of them have to be.
    until: Option<u16>,
}

impl Delta {
    /// First use: which partitions are there?
    pub fn load(&self, pool: &Pool) -> Result<()> {
        if self.loaded.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut count = self.count.lock();
        if self.loaded.load(Ordering::Acquire) {
            return Ok(());
        }
        let first = self.tree.seek(pool, Seek::First, &[])?;
        let first = first.map(|leaf| partition_of(leaf.key())).transpose()?;
        match first {
            None => self.all_counted(),
            Some(first) => {
                let last = self.tree.seek(pool, Seek::Last, &[])?;
                let last = last.map(|leaf| partition_of(leaf.key())).transpose()?.unwrap_or(first);
                if (last - first) as u32 >= PARTITIONS_MAX {
                    return Err(Error::corrupt("a delta tree holds more partitions than there may be"));
                }
                self.first_pending(pool);
                // The filter does not grow while entries are counted.
                let (entries, bytes) = self.tree.estimate_sums(pool, SAMPLE, &size_of).unwrap_or_default();
                self.filter.begin(entries, &self.buffer.filters);
                // Something is counted already if this was begun before, and failed.
                self.expect_uncounted(bytes.saturating_sub(self.bytes()));
                let may_begin = last < u16::MAX && ((last - first) as u32) < PARTITIONS_MAX - 1;
                if may_begin {
                    count.until = Some(last + 1);
                    self.set_range(first, last + 1);
                } else {
                    // So many openings without a merge in between: what appends would change is counted first.
                    self.set_range(first, last);
                    while !self.count_some(pool, &mut count, AT_ONCE)? {
                        self.values.grow(&self.buffer);
                    }
                }
            }
        }
        self.loaded.store(true, Ordering::Release);
        Ok(())
    }
    pub fn is_loaded(&self) -> bool {
        self.loaded.load(Ordering::Acquire)
    }
    /// Counts the entries of about `leaves_max` leaves. True: all are counted. No latch is held.
    pub fn count_step(&self, pool: &Pool, leaves_max: usize) -> Result<bool> {
        self.load(pool)?;
        let mut left = leaves_max;
        while left > 0 && !self.is_known() {
            let mut count = self.count.lock();
            if !self.is_known() {
                self.count_some(pool, &mut count, left.min(AT_ONCE))?;
            }
            drop(count);
            self.values.grow(&self.buffer);
            left = left.saturating_sub(AT_ONCE);
        }
        Ok(self.is_known())
    }
    /// Counts everything. Before a merge that cannot wait.
    pub(in crate::change) fn know(&self, pool: &Pool) -> Result<()> {
        while !self.count_step(pool, usize::MAX)? {}
        Ok(())
    }
    fn count_some(&self, pool: &Pool, count: &mut Count, leaves_max: usize) -> Result<bool> {
        let mut leaf = self.tree.seek(pool, Seek::Gt, &count.at)?;
        for _ in 0..leaves_max {
            let Some(at) = leaf else {
                self.all_counted();
                return Ok(true);
            };
            for slot in at.slot()..at.len() {
                let (key, value) = at.entry_at(slot);
                let partition = partition_of(key)?;
                if count.until.is_some_and(|until| partition >= until) {
                    self.all_counted();
                    return Ok(true);
                }
                self.count_up(pool, &key[2..], partition);
                let bytes = entry_bytes(key.len() - PARTITION_NUMBER + value.len());
                // As `taken` takes them away: the newest may be among those counted (`load`).
                self.grow(bytes as i64, partition == self.range().1);
                self.expect_less(bytes as u64);
            }
            count.at.clear();
            count.at.extend_from_slice(at.key_at(at.len() - 1));
            leaf = self.tree.next_leaf(pool, at)?;
        }
        Ok(false)
    }
    fn all_counted(&self) {
        self.expect_less(u64::MAX);
        self.entries.fetch_sub(UNKNOWN, Ordering::SeqCst);
    }
}

/// Entries, and their bytes.
fn size_of(leaf: &LeafRead<'_>) -> (u64, u64) {
    let bytes = |slot| {
        let (key, value) = leaf.entry_at(slot);
        entry_bytes(key.len().saturating_sub(PARTITION_NUMBER) + value.len()) as u64
    };
    (leaf.len() as u64, (0..leaf.len()).map(bytes).sum())
}
