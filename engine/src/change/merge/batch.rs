//! What one mini-transaction of a merge takes from the delta tree: the collected entries, and their
//! removal (I4).
//!
//! Latches: the caller holds the base leaf or leaves (X). Here the delta leaves follow (X), from
//! left to right, which is from the oldest partition to the newest. The first partition's leaf is
//! reached by a descent. A second descent under a delta latch would violate the latch order (I5).
//! So the leaves of later partitions are remembered by number before any delta latch is held, and
//! latched without waiting. A latch that cannot be had ends the collecting. The partitions before
//! it are older, and merging only the older part is always right.
//!
//! Called by: `merge::leaf`, `merge::multi_leaf`.
use crate::base::sync::holds_no_latch;
use crate::base::{planted, Mutant, Result};
use crate::btree::{Intent, LeafWrite, RememberedLeaf, Tree};
use crate::change::delta::key::{delta_end, delta_key, entry_bytes, entry_key, DeltaKey};
use crate::change::delta::op_list::OpCounts;
use crate::change::delta::{Delta, Pending};
use crate::pool::{Mtr, Pool};

/// What one mini-transaction takes, about.
#[derive(Clone, Copy)]
pub struct Limits {
    pub entries: usize,
    /// Leaves of the delta tree.
    pub leaves: usize,
}

/// Neighbouring entries of a delta leaf.
struct Run {
    leaf: LeafWrite,
    partition: u16,
    from: usize,
    to: usize,
}

/// What a mini-transaction has taken out of the delta tree.
#[derive(Default)]
pub struct TakenOut {
    entries: usize,
    /// A key of each delta leaf that is empty now.
    empty: Vec<Vec<u8>>,
}

/// How far a collecting came.
pub enum Reach {
    All,
    /// Only keys below this one.
    Below(Vec<u8>),
    /// Not every partition: the older ones.
    Older,
}

/// The collected entries of one mini-transaction, and sums over all mini-transactions of a merge.
pub struct Batch<'a> {
    pub pool: &'a Pool,
    /// The base tree.
    pub tree: &'a Tree,
    pub delta: &'a Delta,
    pub pending: Pending,
    runs: Vec<Run>,
    /// The value of one key with everything applied.
    pub value: Vec<u8>,
    /// Entries merged so far.
    pub entries: usize,
    /// Entries met so far that fit no entry of the base tree and stay.
    pub stuck: usize,
}

impl<'a> Batch<'a> {
    pub fn new(pool: &'a Pool, tree: &'a Tree, delta: &'a Delta) -> Batch<'a> {
        Batch {
            pool,
            tree,
            delta,
            pending: Pending::default(),
            runs: Vec::new(),
            value: Vec::new(),
            entries: 0,
            stuck: 0,
        }
    }
    /// X-latches the delta leaves that hold the range, partition by partition, and copies what is
    /// pending.
    pub fn collect(&mut self, mtr: &mut Mtr<'_>, lo: &[u8], hi: Option<&[u8]>, limits: Limits) -> Result<Reach> {
        debug_assert!(
            limits.entries > 0 && limits.leaves > 0,
            "a mini-transaction takes something"
        );
        debug_assert!(hi.is_none_or(|hi| lo <= hi), "a range of keys");
        self.pending.clear();
        self.runs.clear();
        let reach = self.collect_partitions(mtr, lo, hi, limits)?;
        self.pending.group();
        debug_assert!(self.is_within(lo, hi), "I4: only entries of the latched leaves");
        Ok(reach)
    }
    fn is_within(&self, lo: &[u8], hi: Option<&[u8]>) -> bool {
        let Some(last) = self.pending.len().checked_sub(1) else {
            return true;
        };
        self.pending.key(0) >= lo && hi.is_none_or(|hi| self.pending.key(last) < hi)
    }
    fn collect_partitions(&mut self, mtr: &mut Mtr<'_>, lo: &[u8], hi: Option<&[u8]>, limits: Limits) -> Result<Reach> {
        let delta = &self.delta.tree;
        let partitions = self.delta.partitions();
        let Some((first, later)) = partitions.split_first() else {
            return Ok(Reach::All);
        };
        debug_assert!(partitions.is_sorted(), "older partitions first (I5)");
        let mut remembered: Vec<(u16, DeltaKey, RememberedLeaf)> = Vec::with_capacity(later.len());
        for partition in later {
            let key = delta_key(*partition, lo);
            let leaf = delta.remember_leaf(self.pool, &key)?;
            remembered.push((*partition, key, leaf));
        }
        let leaf = delta.leaf_for_write(mtr, &delta_key(*first, lo), Intent::Leaf, None)?;
        let mut below = self.collect_partition(mtr, leaf, *first, hi, limits)?;
        for (partition, key, leaf) in remembered {
            let Some(leaf) = delta.try_leaf(mtr, &key, leaf)? else {
                return Ok(Reach::Older);
            };
            let hi = below.as_deref().or(hi);
            if let Some(nearer) = self.collect_partition(mtr, leaf, partition, hi, limits)? {
                below = Some(nearer);
            }
        }
        Ok(below.map_or(Reach::All, Reach::Below))
    }
    /// Some(key): the limits ended the collecting before that key.
    fn collect_partition(
        &mut self,
        mtr: &mut Mtr<'_>,
        mut leaf: LeafWrite,
        partition: u16,
        hi: Option<&[u8]>,
        limits: Limits,
    ) -> Result<Option<Vec<u8>>> {
        let end = delta_end(partition, hi);
        loop {
            let len = leaf.entries(mtr);
            let from = leaf.slot;
            let to = end.as_ref().map_or(len, |end| leaf.search(mtr, end).0);
            debug_assert!(from <= to, "a partition's entries stand in key order");
            for slot in from..to {
                let (key, value) = leaf.entry(mtr, slot);
                self.pending.push(partition, entry_key(key), value);
            }
            let upper = leaf.fences(mtr).1;
            let over = to < len || upper.is_none_or(|upper| end.as_ref().is_some_and(|end| upper >= &end[..]));
            debug_assert!(to <= len, "slots of the leaf");
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
            if from < to && (self.pending.entries() >= limits.entries || self.runs.len() >= limits.leaves) {
                return Ok(Some(successor(entry_key(leaf.entry(mtr, to - 1).0))));
            }
            match leaf.next_leaf(mtr)? {
                Some(next) => leaf = next,
                None => return Ok(None),
            }
        }
    }
    /// I4: takes the first `done` keys out of the delta leaves, except those in `kept`. The same
    /// mini-transaction has applied them.
    pub fn take_out(&self, mtr: &mut Mtr<'_>, done: usize, kept: &[usize]) -> TakenOut {
        debug_assert!(
            done <= self.pending.len() && kept.is_sorted(),
            "I4: what is taken out was collected, and what stays is known"
        );
        let mut taken = TakenOut::default();
        if !kept.is_empty() {
            self.delta.progress.note_stuck();
        }
        if planted(Mutant::BufferedEntryMergedTwice) {
            return taken;
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
                    taken.entries += to - (slot + 1);
                    run.leaf.remove_run(mtr, slot + 1, to);
                }
                to = slot;
            }
            taken.entries += to.saturating_sub(run.from);
            if run.from < to && run.leaf.remove_run(mtr, run.from, to) {
                taken.empty.push(run.leaf.fences(mtr).0.to_vec());
            }
        }
        debug_assert!(
            taken.entries <= self.pending.entries(),
            "I4: nothing is taken out but what was collected"
        );
        taken
    }
    /// Counts down what `take_out` took, after the end of the mini-transaction. No latch is held.
    pub fn count_merged(&mut self, done: usize, kept: &[usize], taken: &TakenOut) {
        debug_assert!(holds_no_latch(), "F2: a merge counts down after its mini-transaction");
        let counters = self.pool.counters();
        let before = self.entries;
        let mut operations = OpCounts::default();
        let summary = &self.delta.summary;
        let _open = summary.partitions.hold_open();
        for i in 0..done {
            for (partition, value) in self.pending.items_of(i) {
                if kept.contains(&i) {
                    self.stuck += 1;
                    continue;
                }
                let key = self.pending.key(i);
                operations.count(value);
                summary.count_merged(key, partition, entry_bytes(key.len() + value.len()));
                self.entries += 1;
            }
        }
        debug_assert!(
            taken.entries == self.entries - before
                || planted(Mutant::BufferedEntryMergedTwice)
                || planted(Mutant::RedistributedEntryMergedTwice),
            "I4: every entry that is applied is taken out"
        );
        counters.change_buffer_merged_inserts.add(operations.inserts);
        counters.change_buffer_merged_delete_marks.add(operations.delete_marks);
        counters.change_buffer_merged_deletes.add(operations.deletes);
        counters
            .change_buffer_merged_entries
            .add((self.entries - before) as u64);
        counters.change_buffer_merges.inc();
        counters.change_buffer_missing.add(kept.len() as u64);
    }
    /// Frees the delta leaves that `take_out` emptied. No latch is held.
    pub fn free_empty(&self, taken: TakenOut) -> Result<()> {
        debug_assert!(
            holds_no_latch(),
            "I5: leaves are freed after the mini-transaction that emptied them"
        );
        for key in taken.empty {
            self.delta.tree.try_merge_nodes(self.pool, &key)?;
        }
        Ok(())
    }
}

/// The first key after `key`.
pub fn successor(key: &[u8]) -> Vec<u8> {
    let mut out = key.to_vec();
    out.push(0);
    out
}
