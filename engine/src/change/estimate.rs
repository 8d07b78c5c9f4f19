//! What the optimizer and CHECK TABLE ask about a delta tree: how much is pending in a range, how large it is, where its
//! partitions begin; and whether everything pending fits the entries it is for.
use crate::base::{Error, PageNo, Result};
use crate::btree::Seek;
use crate::change::delta::op_list::{entries_added, is_valid};
use crate::change::delta::tree::{delta_end, delta_key, Delta};
use crate::change::{IndexTrees, Merging};
use crate::pool::Pool;
use std::collections::BTreeSet;

/// Of a range that has so many entries in the base, and no fewer than are pending for the whole index, an estimate does without: it is
/// too small by a half at most, and usually by the share that is pending.
const LARGE_RANGE: u64 = 1000;
/// Pending changes that are looked at for what the others of a range are like.
const SAMPLE: usize = 128;

impl Delta {
    /// Can what is pending change an estimate for the optimizer, or would the answer be nearly the same?
    pub fn matters_beside(&self, entries_in_base: u64) -> bool {
        entries_in_base < LARGE_RANGE || self.entries() > entries_in_base || !self.is_known()
    }
    /// Estimated number of entries that the changes pending in [lo, hi) will add to the index (negative: take away). Exact for what ends in
    /// the first leaf; of more, what each of them adds is known from the first few.
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
    /// Bytes pending for the keys in [lo, hi), about; all there are if that cannot be told.
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
    /// What precedes the keys of each partition in the delta tree, oldest first.
    pub fn partition_prefixes(&self) -> Vec<[u8; 2]> {
        self.partitions().into_iter().map(u16::to_be_bytes).collect()
    }
    /// Does this pending change (a value of the delta tree) give the index an entry that it lacks?
    pub fn adds_an_entry(pending: &[u8]) -> bool {
        is_valid(pending) && entries_added(pending) > 0
    }
}

/// Is called for each leaf that is read; its error ends the check.
pub type Step<'a> = &'a mut dyn FnMut() -> Result<()>;

/// Every change that is pending finds the entry that it is for, and the filter knows of it. Findings go to `report`. The delta tree's pages.
/// While something is pending, every leaf of the index is read.
pub fn check(
    pool: &Pool,
    index: &IndexTrees,
    step: Step<'_>,
    report: &mut dyn FnMut(&str),
) -> Result<BTreeSet<PageNo>> {
    let Some(delta) = &index.delta else {
        return Ok(BTreeSet::new());
    };
    let each = &mut |key: &[u8], value: &[u8]| {
        if key.len() < 2 || !is_valid(value) {
            return Some("a pending change that cannot be decoded".into());
        }
        (!delta.maybe_pending(&key[2..])).then(|| "a pending change that the filter does not know".into())
    };
    let tree = delta.tree.verify_with(pool, each, step)?;
    tree.findings.iter().for_each(|finding| report(finding));
    if !tree.findings.is_empty() || tree.entries == 0 {
        return Ok(tree.pages);
    }
    match check_each(pool, index, delta, step, report) {
        // Of the index: that is told by its own check.
        Ok(()) | Err(Error::Corrupt(_)) => Ok(tree.pages),
        Err(e) => Err(e),
    }
}
fn check_each(
    pool: &Pool,
    index: &IndexTrees,
    delta: &Delta,
    step: Step<'_>,
    report: &mut dyn FnMut(&str),
) -> Result<()> {
    let mut merging = Merging::default();
    let mut leaf = Some(index.tree.leaf_owning(pool, &[])?);
    while let Some(at) = leaf {
        step()?;
        merging.start(pool, delta, &at, &[], None)?;
        loop {
            match merging.next(&at, false) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(Error::Corrupt(damage)) => report(&damage.what),
                Err(e) => return Err(e),
            }
        }
        leaf = index.tree.step_right(pool, at)?;
    }
    Ok(())
}
