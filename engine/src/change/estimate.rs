//! Estimates of what is pending in a range, for the optimizer and for sweeps.
//!
//! Latches: those of single descents of the delta tree. Called by: `table::statistics`,
//! `merge::sweep`.
use crate::base::Result;
use crate::btree::Seek;
use crate::change::delta::key::{delta_end, delta_key};
use crate::change::delta::op_list::{entries_added, is_valid};
use crate::change::delta::Delta;
use crate::pool::Pool;

/// A range is large if it has this many entries in the base tree, and no fewer than are pending for
/// the whole index. Its estimate does without the delta tree. So the estimate is too small by a
/// half at most, and usually by the share that is pending.
const LARGE_RANGE: u64 = 1000;
/// Pending changes from which the others of a range are estimated.
const SAMPLE: usize = 128;

impl Delta {
    /// Can what is pending change an estimate for the optimizer by much?
    pub fn matters_beside(&self, entries_in_base: u64) -> bool {
        entries_in_base < LARGE_RANGE || self.entries() > entries_in_base || !self.is_known()
    }
    /// Estimated number of entries that the changes pending in [lo, hi) will add to the index
    /// (negative: take away). Exact for a range that ends in its first leaf. In a larger range the
    /// first changes stand for all.
    pub fn estimate_range(&self, pool: &Pool, lo: Option<&[u8]>, hi: Option<&[u8]>) -> Result<i64> {
        self.load(pool)?;
        let mut added = 0;
        for partition in self.partitions() {
            let lo = delta_key(partition, lo.unwrap_or_default());
            let end = delta_end(partition, hi);
            let (mut seen, mut net) = (0, 0);
            if let Some(leaf) = self.tree.seek(pool, Seek::Ge, &lo)? {
                let to = end.as_ref().map_or(leaf.len(), |end| leaf.search(end).0);
                let ends_here = to < leaf.len();
                let to = if ends_here { to } else { to.min(leaf.slot() + SAMPLE) };
                for slot in leaf.slot()..to {
                    net += entries_added(leaf.value_at(slot));
                    seen += 1;
                }
                debug_assert!(
                    net.abs() <= seen,
                    "a pending change adds one entry to the index, or takes one away"
                );
                if ends_here {
                    added += net;
                    continue;
                }
            }
            if seen > 0 {
                let entries = self.tree.estimate_range(pool, Some(&lo), end.as_deref())? as i64;
                added += entries.max(seen) * net / seen;
            }
        }
        Ok(added)
    }
    /// Bytes pending for the keys in [lo, hi), about; of the whole index if a page cannot be read.
    pub(in crate::change) fn estimate_bytes(&self, pool: &Pool, lo: &[u8], hi: Option<&[u8]>) -> u64 {
        let mut entries = 0;
        for partition in self.partitions() {
            let (lo, end) = (delta_key(partition, lo), delta_end(partition, hi));
            match self.tree.estimate_range(pool, Some(&lo), end.as_deref()) {
                Ok(found) => entries += found,
                Err(_) => return self.bytes(),
            }
        }
        entries * (self.bytes() / self.entries().max(1))
    }
    /// The prefix of the keys of each partition in the delta tree, oldest first.
    pub fn partition_prefixes(&self) -> Vec<[u8; 2]> {
        self.partitions().into_iter().map(u16::to_be_bytes).collect()
    }
    /// Does this pending change (a value of the delta tree) add an entry to the index?
    pub fn adds_an_entry(pending: &[u8]) -> bool {
        is_valid(pending) && entries_added(pending) > 0
    }
}
