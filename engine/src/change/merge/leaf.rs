//! Merging: pending changes go to their leaf. One Mtr edits the leaf and takes the entries out of the delta tree (I4), so that a crash finds
//! each entry in exactly one place.
//!
//! Latches: the base leaf (X, with its ancestors if it has to be split), then delta leaves (X) from left to right, which is from the
//! oldest partition to the newest. The first is reached by a descent. Those of later partitions are remembered by number before
//! any delta latch is held, for a second descent would go against the order, and latched without waiting; one that cannot be had
//! ends the collecting: the partitions before it are older, and merging only the older part is always right.
//!
//! A sweep, which brings all leaves of a stretch something, lets a leaf that has no room for it be spread over its neighbours (`spread.rs`).
//!
//! Called by readers that met a dense leaf, by appends whose list is full, by appenders near the bound, by sweeps; with no
//! latch held.
use crate::base::{planted, sync_point, Mutant, Result, SyncPoint};
use crate::btree::{Intent, LeafWrite, Placed, RememberedLeaf, Tree};
use crate::change::delta::op_list::Operations;
use crate::change::delta::tree::{delta_end, delta_key, Delta, DeltaKey};
use crate::change::policy::change_buffer::entry_bytes;
use crate::change::{IndexTrees, Pending};
use crate::pool::{Mtr, Pool};

/// Entries that one Mtr takes, about.
const ENTRIES_MAX: usize = 512;
/// Delta leaves that it latches, about.
const LEAVES_MAX: usize = 8;
/// Mtrs for one leaf in a row that merged nothing, because a latch could not be had.
const FRUITLESS_MAX: usize = 64;

/// Applies everything pending for the leaf that owns `key`. Called with no latch held. Number of entries merged; 0 while the delta tree
/// is not counted yet.
pub fn merge_leaf(pool: &Pool, index: &IndexTrees, key: &[u8]) -> Result<usize> {
    match &index.delta {
        Some(delta) if !delta.is_empty() && delta.is_known() => {
            let merged = merge_at(pool, &index.tree, delta, key, false)?.entries;
            delta.tidy();
            Ok(merged)
        }
        _ => Ok(0),
    }
}

/// As `merge_leaf`, of a delta tree that is counted; false: others had a part of it latched, and that is left.
pub(in crate::change) fn merge_leaf_whole(pool: &Pool, index: &IndexTrees, key: &[u8]) -> Result<bool> {
    let Some(delta) = index.delta.as_deref().filter(|delta| !delta.is_empty()) else {
        return Ok(true);
    };
    let merged = merge_at(pool, &index.tree, delta, key, false)?;
    delta.tidy();
    Ok(merged.whole)
}

pub(in crate::change) struct Merged {
    pub entries: usize,
    pub leaves: usize,
    /// Where the leaf ended; None = it was the last.
    pub end: Option<Vec<u8>>,
    /// Entries that fit nothing and stay.
    pub stuck: usize,
    /// False: a latch could not be had; more than those is left.
    pub whole: bool,
}

impl Merged {
    /// Nothing was pending for the leaf: others had merged it.
    pub fn found_nothing(&self) -> bool {
        self.entries == 0 && self.stuck == 0 && self.whole
    }
}

/// `sweeping`: the neighbours to the right are next.
pub(in crate::change) fn merge_at(
    pool: &Pool,
    tree: &Tree,
    delta: &Delta,
    key: &[u8],
    sweeping: bool,
) -> Result<Merged> {
    merge_by(Merge::new(pool, tree, delta, sweeping), key)
}
/// As `merge_at`, by an appender near the bound.
pub(in crate::change) fn merge_helping(pool: &Pool, tree: &Tree, delta: &Delta, key: &[u8]) -> Result<Merged> {
    let mut merge = Merge::new(pool, tree, delta, false);
    merge.loses_all = planted(Mutant::BackpressureEntriesLost);
    merge_by(merge, key)
}
/// As `merge_at`, of one key alone, which others of its leaf may need room for. False: nothing was merged.
pub(in crate::change) fn merge_key(pool: &Pool, tree: &Tree, delta: &Delta, key: &[u8]) -> Result<bool> {
    let mut merge = Merge::new(pool, tree, delta, false);
    let ended = merge.run(key, Next::Key);
    merge.tell();
    delta.tidy();
    ended.map(|_| merge.entries > 0)
}
fn merge_by(mut merge: Merge<'_>, key: &[u8]) -> Result<Merged> {
    let ended = merge.run(key, Next::Leaf);
    // With an error, too: the Mtrs before have merged something.
    merge.tell();
    let next = ended?;
    Ok(Merged {
        entries: merge.entries,
        leaves: merge.leaves,
        end: merge.end.flatten(),
        stuck: merge.stuck,
        whole: next == Next::Done && !merge.left_younger,
    })
}

/// What the next Mtr is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::change) enum Next {
    /// The whole leaf that owns the key.
    Leaf,
    /// It and its neighbours.
    Spread,
    /// The whole leaf after all, by itself.
    Alone,
    /// What is left of that leaf, from the key on.
    From,
    /// The key alone.
    Key,
    /// It too: its leaf is split to make room for so many bytes, if that is enough still.
    Grow(usize),
    Done,
}

/// Neighbouring entries of a delta leaf.
pub(in crate::change) struct Run {
    leaf: LeafWrite,
    partition: u16,
    from: usize,
    to: usize,
}

/// What a collecting came to.
pub(in crate::change) enum Reach {
    All,
    /// Only keys below this one.
    Below(Vec<u8>),
    /// Not every partition.
    Older,
}

pub(in crate::change) struct Merge<'a> {
    pub pool: &'a Pool,
    pub tree: &'a Tree,
    pub delta: &'a Delta,
    sweeping: bool,
    /// Upper fence of the leaf as it was first met, or of the last of those it was spread over.
    pub end: Option<Option<Vec<u8>>>,
    entries: usize,
    /// Base leaves.
    pub leaves: usize,
    /// What one Mtr takes, about: entries, and leaves of the delta tree.
    pub entries_max: usize,
    pub leaves_max: usize,
    pub stuck: usize,
    /// It went on behind keys of which only the older partitions could be had.
    left_younger: bool,
    /// A planted bug: what is taken out is not applied.
    loses_all: bool,
    pub pending: Pending,
    runs: Vec<Run>,
    pub value: Vec<u8>,
}

impl<'a> Merge<'a> {
    fn new(pool: &'a Pool, tree: &'a Tree, delta: &'a Delta, sweeping: bool) -> Merge<'a> {
        Merge {
            pool,
            tree,
            delta,
            sweeping,
            end: None,
            entries: 0,
            leaves: 1,
            entries_max: ENTRIES_MAX,
            leaves_max: LEAVES_MAX,
            stuck: 0,
            left_younger: false,
            loses_all: false,
            pending: Pending::default(),
            runs: Vec::new(),
            value: Vec::new(),
        }
    }
    /// Mtr after Mtr; `Done`, or what was to be next when latches could not be had for too long, or when the one key is done.
    fn run(&mut self, key: &[u8], first: Next) -> Result<Next> {
        let mut next = first;
        let mut at = key.to_vec();
        let mut fruitless = 0;
        loop {
            let before = self.entries;
            next = match next {
                Next::Spread => self.spread(&mut at)?,
                _ => self.step(&mut at, next)?,
            };
            fruitless = if self.entries == before { fruitless + 1 } else { 0 };
            let key_done = first == Next::Key && !matches!(next, Next::Grow(_));
            if next == Next::Done || key_done || fruitless > FRUITLESS_MAX {
                return Ok(next);
            }
        }
    }
    /// Into the counters.
    fn tell(&self) {
        let counters = self.pool.counters();
        if self.entries > 0 {
            counters.change_buffer_merged_leaves.add(self.leaves as u64);
        }
        // Each leaf was brought in once, for all of its own.
        counters
            .change_buffer_reads_avoided
            .add((self.entries as u64).saturating_sub(self.leaves as u64));
        self.delta.merged_some(self.entries as u64);
    }
    /// One Mtr. `at`: the key it is about, then the one to go on with.
    fn step(&mut self, at: &mut Vec<u8>, what: Next) -> Result<Next> {
        self.pool.redo().reserve_to_go_on()?;
        let mut mtr = self.pool.begin();
        let intent = match what {
            Next::Grow(bytes) => Intent::Grow(bytes),
            _ => Intent::Leaf,
        };
        let leaf = self.tree.leaf_for_write(&mut mtr, at, intent, None)?;
        let (lower, upper) = leaf.fences(&mtr);
        let mut lo = at.clone();
        let mut hi = upper.map(<[u8]>::to_vec);
        match what {
            Next::Leaf | Next::Alone => {
                lo = lower.to_vec();
                self.end = Some(hi.clone());
            }
            Next::Key | Next::Grow(_) => hi = Some(successor(at)),
            _ => {
                let end = self.end.clone().flatten();
                if hi.is_none() || end.as_ref().is_some_and(|end| Some(end) < hi.as_ref()) {
                    hi = end;
                }
            }
        }
        let reach = self.collect(&mut mtr, &lo, hi.as_deref())?;
        self.pending.settle();
        if what == Next::Leaf && self.sweeping && self.pending.put_bytes() > leaf.free(&mtr) {
            return Ok(Next::Spread);
        }
        if let Next::Grow(bytes) = what {
            // The path to the leaf is latched for so many only, and since they were counted more may have become pending for the key.
            let needed = self.needed(&mtr, &leaf);
            if needed > bytes {
                return Ok(Next::Grow(needed));
            }
        }
        let stuck = self.stuck;
        let stopped = self.apply_and_take(mtr, &leaf)?;
        if let Some((key, bytes)) = stopped {
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
                // They are met again.
                self.stuck = stuck;
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

    /// X-latches the delta leaves that hold the range, partition by partition, and copies what is pending.
    pub(in crate::change) fn collect(&mut self, mtr: &mut Mtr<'_>, lo: &[u8], hi: Option<&[u8]>) -> Result<Reach> {
        self.pending.clear();
        self.runs.clear();
        let delta = &self.delta.tree;
        let partitions = self.delta.partitions();
        let Some((first, later)) = partitions.split_first() else {
            return Ok(Reach::All);
        };
        let mut remembered: Vec<(u16, DeltaKey, RememberedLeaf)> = Vec::with_capacity(later.len());
        for partition in later {
            let key = delta_key(*partition, lo);
            let leaf = delta.remember_leaf(self.pool, &key)?;
            remembered.push((*partition, key, leaf));
        }
        let leaf = delta.leaf_for_write(mtr, &delta_key(*first, lo), Intent::Leaf, None)?;
        let mut below = self.collect_partition(mtr, leaf, *first, hi)?;
        for (partition, key, leaf) in remembered {
            let Some(leaf) = delta.try_leaf(mtr, &key, leaf)? else {
                return Ok(Reach::Older);
            };
            let hi = below.as_deref().or(hi);
            if let Some(nearer) = self.collect_partition(mtr, leaf, partition, hi)? {
                below = Some(nearer);
            }
        }
        Ok(below.map_or(Reach::All, Reach::Below))
    }
    /// Some(key): it was too much, and stopped before that key.
    fn collect_partition(
        &mut self,
        mtr: &mut Mtr<'_>,
        leaf: LeafWrite,
        partition: u16,
        hi: Option<&[u8]>,
    ) -> Result<Option<Vec<u8>>> {
        let end = delta_end(partition, hi);
        let mut leaf = leaf;
        loop {
            let len = leaf.entries(mtr);
            let from = leaf.slot;
            let to = end.as_ref().map_or(len, |end| leaf.search(mtr, end).0);
            for slot in from..to {
                let (key, value) = leaf.entry(mtr, slot);
                self.pending.push(partition, &key[2..], value);
            }
            let upper = leaf.fences(mtr).1;
            let over = to < len || upper.is_none_or(|upper| end.as_ref().is_some_and(|end| upper >= &end[..]));
            if from < to {
                let leaf = leaf.clone();
                self.runs.push(Run {
                    leaf,
                    partition,
                    from,
                    to,
                });
            }
            if over {
                return Ok(None);
            }
            if from < to && (self.pending.entries() >= self.entries_max || self.runs.len() >= self.leaves_max) {
                return Ok(Some(successor(&leaf.entry(mtr, to - 1).0[2..])));
            }
            match leaf.next_leaf(mtr)? {
                Some(next) => leaf = next,
                None => return Ok(None),
            }
        }
    }

    /// Bytes that the first key takes in the leaf with everything applied.
    fn needed(&mut self, mtr: &Mtr<'_>, leaf: &LeafWrite) -> usize {
        if self.pending.is_empty() {
            return 0;
        }
        let key = self.pending.key(0);
        let (slot, found) = leaf.search(mtr, key);
        let base = found.then(|| leaf.entry(mtr, slot).1);
        match self.pending.evaluate(0, base, &mut self.value) {
            Ok(true) => key.len() + self.value.len(),
            _ => 0,
        }
    }

    /// Ends the Mtr. Some: stopped at that key, which needs so many bytes; those before it are merged.
    fn apply_and_take(&mut self, mut mtr: Mtr<'_>, leaf: &LeafWrite) -> Result<Option<(Vec<u8>, usize)>> {
        let mut kept = Vec::new();
        let mut sparse = None;
        let mut stopped = None;
        for i in 0..self.pending.len() {
            if self.loses_all || i == 0 && planted(Mutant::BufferedEntryLost) {
                continue;
            }
            match self.apply(&mut mtr, leaf, i)? {
                Applied::Done => {}
                Applied::Sparse => sparse = Some(i),
                Applied::Kept => kept.push(i),
                Applied::NoRoom => {
                    stopped = Some(i);
                    break;
                }
            }
        }
        let done = stopped.unwrap_or(self.pending.len());
        let empty = self.take_out(&mut mtr, done, &kept);
        mtr.commit();
        sync_point(SyncPoint::MergedToBeCounted);
        self.account(done, &kept);
        if let Some(i) = sparse {
            self.tree.try_merge_nodes(self.pool, self.pending.key(i))?;
        }
        for key in empty {
            self.delta.tree.try_merge_nodes(self.pool, &key)?;
        }
        Ok(stopped.map(|i| {
            let key = self.pending.key(i).to_vec();
            let bytes = key.len() + self.value.len();
            (key, bytes)
        }))
    }
    /// Evaluates key `i` on the base leaf. An error comes before any change.
    fn apply(&mut self, mtr: &mut Mtr<'_>, leaf: &LeafWrite, i: usize) -> Result<Applied> {
        let key = self.pending.key(i);
        let (slot, found) = leaf.search(mtr, key);
        let base = found.then(|| leaf.entry(mtr, slot).1);
        let Ok(present) = self.pending.evaluate(i, base, &mut self.value) else {
            return Ok(Applied::Kept);
        };
        let same = found && present && base == Some(&self.value[..]);
        let at = LeafWrite {
            slot,
            found,
            ..leaf.clone()
        };
        let placed = match (found, present) {
            _ if same => Placed::Done,
            (true, true) => at.set_value(mtr, &self.value)?,
            (false, true) => at.insert(mtr, key, &self.value)?,
            (true, false) if at.remove(mtr)? => return Ok(Applied::Sparse),
            _ => Placed::Done,
        };
        Ok(match placed {
            Placed::Done => Applied::Done,
            Placed::NoRoom => Applied::NoRoom,
        })
    }
    /// Takes the first `done` keys out of the delta leaves, but those kept. Keys of leaves that are empty now.
    pub(in crate::change) fn take_out(&self, mtr: &mut Mtr<'_>, done: usize, kept: &[usize]) -> Vec<Vec<u8>> {
        let mut empty = Vec::new();
        if !kept.is_empty() {
            self.delta.left_stuck();
        }
        if planted(Mutant::BufferedEntryMergedTwice) {
            return empty;
        }
        // From the right: a run before another in one leaf keeps its slots.
        for run in self.runs.iter().rev() {
            let mut to = run.to;
            if done < self.pending.len() {
                let stop = delta_key(run.partition, self.pending.key(done));
                to = to.min(run.leaf.search(mtr, &stop).0);
            }
            let stays: Vec<usize> = (kept.iter())
                .map(|i| run.leaf.search(mtr, &delta_key(run.partition, self.pending.key(*i))))
                .filter(|(slot, found)| *found && (run.from..to).contains(slot))
                .map(|(slot, _)| slot)
                .collect();
            for slot in stays.into_iter().rev() {
                if slot + 1 < to {
                    run.leaf.remove_run(mtr, slot + 1, to);
                }
                to = slot;
            }
            if run.from < to && run.leaf.remove_run(mtr, run.from, to) {
                empty.push(run.leaf.fences(mtr).0.to_vec());
            }
        }
        empty
    }
    pub(in crate::change) fn account(&mut self, done: usize, kept: &[usize]) {
        let counters = self.pool.counters();
        let before = self.entries;
        let mut operations = Operations::default();
        let _open = self.delta.open();
        for i in 0..done {
            for (partition, value) in self.pending.items_of(i) {
                if kept.contains(&i) {
                    self.stuck += 1;
                    continue;
                }
                let key = self.pending.key(i);
                operations.count(value);
                self.delta.taken(key, partition, entry_bytes(key.len() + value.len()));
                self.entries += 1;
            }
        }
        counters.change_buffer_merged_inserts.add(operations.inserts);
        counters.change_buffer_merged_delete_marks.add(operations.delete_marks);
        counters.change_buffer_merged_deletes.add(operations.deletes);
        counters
            .change_buffer_merged_entries
            .add((self.entries - before) as u64);
        counters.change_buffer_merges.inc();
        counters.change_buffer_missing.add(kept.len() as u64);
    }
}

/// What became of a key.
enum Applied {
    Done,
    /// Done, and the leaf has become sparse.
    Sparse,
    NoRoom,
    /// It does not fit the entry it meets: the index is corrupt. It stays, so that CHECK TABLE tells it.
    Kept,
}

/// The first key behind `key`.
fn successor(key: &[u8]) -> Vec<u8> {
    let mut out = key.to_vec();
    out.push(0);
    out
}

#[cfg(test)]
#[path = "leaf_tests.rs"]
mod tests;
