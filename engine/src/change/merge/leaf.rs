//! The merge of one leaf: pending changes go to their leaf.
//!
//! **I4** One mini-transaction edits the leaf and takes the entries out of the delta tree. So a
//! crash finds each entry in exactly one place.
//!
//! A merge is a chain of mini-transactions. Each takes as many entries as its limits allow. If the
//! leaf has no room for a key, the next one splits the leaf. A sweep, which brings something to all
//! leaves of a stretch, redistributes such a leaf over its neighbours instead
//! (`merge::multi_leaf`).
//!
//! Latches: the base leaf (X; with its ancestors if it must be split), then delta leaves as
//! `merge::batch` says. Called with no latch held, by: readers that met a dense leaf, appends whose
//! list is full, appenders near the bound (`merge::backpressure`), sweeps (`merge::sweep`).
use super::batch::{successor, Batch, Limits, Reach};
use super::multi_leaf;
use crate::base::sync::holds_no_latch;
use crate::base::{planted, sync_point, Error, Mutant, Result, SyncPoint};
use crate::btree::{Intent, LeafWrite, Placed, Tree};
use crate::change::delta::key::DELTA_BIT;
use crate::change::delta::Delta;
use crate::change::IndexTrees;
use crate::pool::{Mtr, Pool};

/// What one mini-transaction takes, about.
const LIMITS: Limits = Limits {
    entries: 512,
    leaves: 8,
};
/// Mini-transactions in a row that may merge nothing because a latch could not be had.
const FRUITLESS_MAX: usize = 64;

/// Applies everything pending for the leaf that owns `key`. Called with no latch held. Returns the
/// number of entries merged; 0 while the delta tree is not counted yet.
pub fn merge_leaf(pool: &Pool, index: &IndexTrees, key: &[u8]) -> Result<usize> {
    match &index.delta {
        Some(delta) if !delta.is_empty() && delta.is_known() => {
            let merged = merge_at(pool, &index.tree, delta, key, false)?.entries;
            delta.summary.reclaim();
            Ok(merged)
        }
        _ => Ok(0),
    }
}

/// As `merge_leaf`, of a delta tree that is counted. False: other threads had a part of it latched,
/// and that part is left.
pub fn merge_leaf_whole(pool: &Pool, index: &IndexTrees, key: &[u8]) -> Result<bool> {
    let Some(delta) = index.delta.as_deref().filter(|delta| !delta.is_empty()) else {
        return Ok(true);
    };
    let merged = merge_at(pool, &index.tree, delta, key, false)?;
    delta.summary.reclaim();
    Ok(merged.whole)
}

/// The outcome of a merge.
pub struct Merged {
    pub entries: usize,
    pub leaves: usize,
    /// Where the leaf ended; None = it was the last.
    pub end: Option<Vec<u8>>,
    /// Entries that fit no entry of the leaf and stay.
    pub stuck: usize,
    /// False: a latch could not be had, and more than the stuck entries is left.
    pub whole: bool,
}

impl Merged {
    /// Nothing was pending for the leaf: another thread had merged it.
    pub fn found_nothing(&self) -> bool {
        self.entries == 0 && self.stuck == 0 && self.whole
    }
}

/// Merges the leaf that owns `key`. `sweeping`: the neighbours to the right are next.
pub fn merge_at(pool: &Pool, tree: &Tree, delta: &Delta, key: &[u8], sweeping: bool) -> Result<Merged> {
    merge_by(LeafMerge::new(pool, tree, delta, sweeping), key)
}
/// As `merge_at`, by an appender near the bound.
pub fn merge_as_appender(pool: &Pool, tree: &Tree, delta: &Delta, key: &[u8]) -> Result<Merged> {
    let mut merge = LeafMerge::new(pool, tree, delta, false);
    merge.loses_all = planted(Mutant::BackpressureEntriesLost);
    merge_by(merge, key)
}
/// As `merge_at`, of one key alone: the other keys of its leaf may need room. False: nothing was
/// merged.
pub fn merge_key(pool: &Pool, tree: &Tree, delta: &Delta, key: &[u8]) -> Result<bool> {
    let mut merge = LeafMerge::new(pool, tree, delta, false);
    let ended = merge.run(key, Next::Key);
    merge.report();
    delta.summary.reclaim();
    ended.map(|_| merge.batch.entries > 0)
}
fn merge_by(mut merge: LeafMerge<'_>, key: &[u8]) -> Result<Merged> {
    let ended = merge.run(key, Next::Leaf);
    // After an error, too: the mini-transactions before it have merged something.
    merge.report();
    let next = ended?;
    Ok(Merged {
        entries: merge.batch.entries,
        leaves: merge.leaves,
        end: merge.end.flatten(),
        stuck: merge.batch.stuck,
        whole: next == Next::Done && !merge.left_younger,
    })
}

/// Can the next leaves be merged after this error of one leaf's merge?
pub fn concerns_one_leaf(e: &Error) -> bool {
    matches!(e, Error::Corrupt(_) | Error::Io(_) | Error::Full(_))
}

/// The subject of the next mini-transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Next {
    /// The whole leaf that owns the key.
    Leaf,
    /// That leaf and its neighbours.
    Stretch,
    /// The whole leaf after all, by itself.
    Alone,
    /// The rest of that leaf, from the key on.
    From,
    /// The key alone.
    Key,
    /// The key alone, too: its leaf is split to make room for this many bytes, if that is still
    /// enough.
    Grow(usize),
    Done,
}

/// The merge of one leaf, or of a stretch that begins with it.
struct LeafMerge<'a> {
    batch: Batch<'a>,
    sweeping: bool,
    /// Upper fence of the leaf as it was first met, or of the last leaf of the stretch.
    end: Option<Option<Vec<u8>>>,
    /// Base leaves.
    leaves: usize,
    /// Other threads had the younger partitions latched. The merge took the changes of some keys
    /// out of the older ones alone, and went on to later keys.
    left_younger: bool,
    /// A planted bug: what is taken out is not applied.
    loses_all: bool,
}

impl<'a> LeafMerge<'a> {
    fn new(pool: &'a Pool, tree: &'a Tree, delta: &'a Delta, sweeping: bool) -> LeafMerge<'a> {
        debug_assert!(delta.is_known(), "F2: merges wait for the end of the count");
        debug_assert_eq!(
            delta.tree.index,
            tree.index | DELTA_BIT,
            "what is pending goes to the tree of its own index"
        );
        LeafMerge {
            batch: Batch::new(pool, tree, delta),
            sweeping,
            end: None,
            leaves: 1,
            left_younger: false,
            loses_all: false,
        }
    }
    /// One mini-transaction after the other. Returns `Done`, or what was to be next when latches
    /// could not be had for too long, or when the one key is done.
    fn run(&mut self, key: &[u8], first: Next) -> Result<Next> {
        let mut next = first;
        let mut at = key.to_vec();
        let mut fruitless = 0;
        loop {
            debug_assert!(
                holds_no_latch(),
                "I5: each mini-transaction latches with nothing latched before"
            );
            let before = self.batch.entries;
            next = match next {
                Next::Stretch => self.merge_stretch(&mut at)?,
                _ => self.step(&mut at, next)?,
            };
            fruitless = if self.batch.entries == before { fruitless + 1 } else { 0 };
            let key_done = first == Next::Key && !matches!(next, Next::Grow(_));
            if next == Next::Done || key_done || fruitless > FRUITLESS_MAX {
                return Ok(next);
            }
        }
    }
    /// Adds the merge to the counters.
    fn report(&self) {
        let (counters, entries) = (self.batch.pool.counters(), self.batch.entries as u64);
        if entries > 0 {
            counters.change_buffer_merged_leaves.add(self.leaves as u64);
        }
        // Each leaf was read once, for all its entries.
        counters
            .change_buffer_reads_avoided
            .add(entries.saturating_sub(self.leaves as u64));
        self.batch.delta.progress.note_merged(entries);
    }
    /// One mini-transaction for the leaf that owns `at` and its right neighbours. `at` becomes the
    /// key to go on with.
    fn merge_stretch(&mut self, at: &mut Vec<u8>) -> Result<Next> {
        let Some(merged) = multi_leaf::merge_stretch(&mut self.batch, at)? else {
            return Ok(Next::Alone);
        };
        self.leaves += merged.leaves - 1;
        self.end = Some(merged.end);
        Ok(match merged.rest {
            None => Next::Done,
            Some(key) => {
                *at = key;
                Next::From
            }
        })
    }
    /// One mini-transaction. `at`: the key it is about, then the key to go on with.
    fn step(&mut self, at: &mut Vec<u8>, what: Next) -> Result<Next> {
        debug_assert!(
            !matches!(what, Next::Done | Next::Stretch),
            "a step is about one leaf, or one key"
        );
        let (pool, tree) = (self.batch.pool, self.batch.tree);
        pool.redo().reserve_to_go_on()?;
        let mut mtr = pool.begin();
        let intent = match what {
            Next::Grow(bytes) => Intent::Grow(bytes),
            _ => Intent::Leaf,
        };
        let leaf = tree.leaf_for_write(&mut mtr, at, intent, None)?;
        let (lo, hi) = self.range_of(&mtr, &leaf, at, what);
        debug_assert!(hi.as_ref().is_none_or(|hi| lo <= *hi), "a merge goes on in key order");
        let reach = self.batch.collect(&mut mtr, &lo, hi.as_deref(), LIMITS)?;
        let has_room = || self.batch.pending.put_bytes() <= leaf.free(&mtr);
        if what == Next::Leaf && self.sweeping && !has_room() {
            return Ok(Next::Stretch);
        }
        if let Next::Grow(bytes) = what {
            // The path to the leaf is latched for that many bytes only. Since they were counted
            // more may have become pending for the key.
            let needed = self.needed(&mtr, &leaf);
            if needed > bytes {
                return Ok(Next::Grow(needed));
            }
        }
        let stuck = self.batch.stuck;
        if let Some((key, bytes)) = self.apply_and_take(mtr, &leaf)? {
            self.left_younger |= match &reach {
                Reach::All => false,
                Reach::Below(below) => key > *below,
                Reach::Older => key > lo,
            };
            *at = key;
            return Ok(Next::Grow(bytes));
        }
        let ends_here = Some(&hi) == self.end.as_ref();
        *at = match reach {
            Reach::Older => {
                // The stuck entries are met again.
                self.batch.stuck = stuck;
                lo
            }
            Reach::Below(key) => key,
            Reach::All => match hi {
                Some(hi) if !ends_here => hi,
                _ => return Ok(Next::Done),
            },
        };
        Ok(Next::From)
    }
    /// The range of keys, [lo, hi), that a step merges in the latched leaf. Notes where the whole
    /// leaf ends.
    fn range_of(&mut self, mtr: &Mtr<'_>, leaf: &LeafWrite, at: &[u8], what: Next) -> (Vec<u8>, Option<Vec<u8>>) {
        let (lower, upper) = leaf.fences(mtr);
        let hi = upper.map(<[u8]>::to_vec);
        match what {
            Next::Leaf | Next::Alone => {
                self.end = Some(hi.clone());
                (lower.to_vec(), hi)
            }
            Next::Key | Next::Grow(_) => (at.to_vec(), Some(successor(at))),
            _ => {
                let end = self.end.clone().flatten();
                let ends_before = end.as_ref().is_some_and(|end| Some(end) < hi.as_ref());
                let hi = if hi.is_none() || ends_before { end } else { hi };
                (at.to_vec(), hi)
            }
        }
    }
    /// Bytes that the first key takes in the leaf with everything applied.
    fn needed(&mut self, mtr: &Mtr<'_>, leaf: &LeafWrite) -> usize {
        let batch = &mut self.batch;
        if batch.pending.is_empty() {
            return 0;
        }
        let key = batch.pending.key(0);
        let (slot, found) = leaf.search(mtr, key);
        let base = found.then(|| leaf.entry(mtr, slot).1);
        match batch.pending.evaluate(0, base, &mut batch.value) {
            Ok(true) => key.len() + batch.value.len(),
            _ => 0,
        }
    }
    /// Applies the collected entries and ends the mini-transaction (I4). Some: the merge stopped at
    /// that key, which needs this many bytes; the keys before it are merged.
    fn apply_and_take(&mut self, mut mtr: Mtr<'_>, leaf: &LeafWrite) -> Result<Option<(Vec<u8>, usize)>> {
        let mut kept = Vec::new();
        let mut sparse = None;
        let mut stopped = None;
        for i in 0..self.batch.pending.len() {
            if self.loses_all || i == 0 && planted(Mutant::BufferedEntryLost) {
                continue;
            }
            match apply(&mut self.batch, &mut mtr, leaf, i)? {
                Applied::Done => {}
                Applied::Sparse => sparse = Some(i),
                Applied::Kept => kept.push(i),
                Applied::NoRoom => {
                    stopped = Some(i);
                    break;
                }
            }
        }
        let batch = &mut self.batch;
        let done = stopped.unwrap_or(batch.pending.len());
        debug_assert!(
            kept.iter().all(|i| *i < done),
            "the keys that stay are among those that were met"
        );
        let taken = batch.take_out(&mut mtr, done, &kept);
        mtr.commit();
        sync_point(SyncPoint::MergedToBeCounted);
        batch.count_merged(done, &kept, &taken);
        if let Some(i) = sparse {
            batch.tree.try_merge_nodes(batch.pool, batch.pending.key(i))?;
        }
        batch.free_empty(taken)?;
        Ok(stopped.map(|i| {
            let key = batch.pending.key(i).to_vec();
            let bytes = key.len() + batch.value.len();
            (key, bytes)
        }))
    }
}

/// The outcome for one key.
enum Applied {
    Done,
    /// Done, and the leaf has become sparse.
    Sparse,
    NoRoom,
    /// The pending change fits no entry: the index is corrupt. The change stays, so that CHECK
    /// TABLE reports it.
    Kept,
}

/// Applies what is pending for key `i` to the base leaf. An error comes before any change.
fn apply(batch: &mut Batch<'_>, mtr: &mut Mtr<'_>, leaf: &LeafWrite, i: usize) -> Result<Applied> {
    let key = batch.pending.key(i);
    let (slot, found) = leaf.search(mtr, key);
    let base = found.then(|| leaf.entry(mtr, slot).1);
    let Ok(present) = batch.pending.evaluate(i, base, &mut batch.value) else {
        return Ok(Applied::Kept);
    };
    let same = found && present && base == Some(&batch.value[..]);
    let at = LeafWrite {
        slot,
        found,
        ..leaf.clone()
    };
    let placed = match (found, present) {
        _ if same => Placed::Done,
        (true, true) => at.set_value(mtr, &batch.value)?,
        (false, true) => at.insert(mtr, key, &batch.value)?,
        (true, false) if at.remove(mtr)? => return Ok(Applied::Sparse),
        _ => Placed::Done,
    };
    Ok(match placed {
        Placed::Done => Applied::Done,
        Placed::NoRoom => Applied::NoRoom,
    })
}

#[cfg(test)]
#[path = "leaf_tests.rs"]
mod tests;
