//! The delta tree of one secondary index: what is pending for it. Reads and appends.
//!
//! Keys are drawn in `delta::key`, values in `delta::op_list`. New entries go to the newest
//! partition. The older ones are closed: merges take entries out of them, and nothing else changes
//! in them.
//!
//! After the engine was opened the tree's content is not known. The first use begins a new
//! partition. Then `count_step` counts the older ones. Nothing changes in them meanwhile, because
//! merges wait for the end of the count. Until then no key is known to have nothing pending.
//!
//! Latches: those of the delta tree's pages, which come after latches of the base tree. Locks: the
//! count mutex and the gate (order in `delta`). Called by: `apply`, `read`, `merge`, `unique`,
//! `estimate`; the table layer asks for figures.
use super::count::{Count, Counted};
use super::key::{delta_end, delta_key, entry_bytes, entry_key, partition_of, DELTA_BIT, PARTITION_NUMBER};
use super::leaf_cursor::LeafCursor;
use super::op_list::{self, Folded};
use super::partition::Numbers;
use super::pending::Pending;
use super::progress::{Progress, Unmergeable};
use super::summary::Summary;
use super::sums::Sums;
use crate::base::sync::holds_no_latch;
use crate::base::{Error, Result};
use crate::btree::{Intent, Placed, Seek, Tree, ENTRY_MAX, KEY_MAX};
use crate::change::op::Op;
use crate::change::policy::{Buffering, ChangeBuffer, MergeYield, Residency, TableBuffering};
use crate::pool::Pool;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

/// Bytes of an operation in a list, beyond its value.
const OP_MAX: usize = 24;

pub struct Delta {
    pub tree: Tree,
    pub(in crate::change) summary: Summary,
    count: Count,
    table_buffering: TableBuffering,
    pub(in crate::change) residency: Residency,
    pub merge_yield: MergeYield,
    pub progress: Progress,
    /// The leaves that appenders near the bound merge.
    pub(in crate::change) leaf_cursor: LeafCursor,
    /// The pool makes absence filters of the index's leaves.
    pub(in crate::change) has_absence_filters: AtomicBool,
}

impl std::fmt::Debug for Delta {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Delta").field(&self.tree).finish()
    }
}

impl Delta {
    /// Of an index that was just made: nothing is pending.
    pub fn fresh(tree: Tree, buffer: &Arc<ChangeBuffer>) -> Delta {
        let delta = Delta {
            count: Count::of_new_index(),
            residency: Residency::of_new_index(),
            ..Delta::found(tree, buffer)
        };
        delta.summary.sums.end_count();
        delta
    }
    /// Of an index in the catalog. The tree's pages are read at its first use.
    pub fn found(tree: Tree, buffer: &Arc<ChangeBuffer>) -> Delta {
        debug_assert!(tree.index & DELTA_BIT != 0, "a delta tree has a number of its own");
        Delta {
            tree,
            summary: Summary::new(Sums::unknown(buffer.clone())),
            count: Count::default(),
            table_buffering: TableBuffering::default(),
            residency: Residency::default(),
            merge_yield: MergeYield::default(),
            progress: Progress::default(),
            leaf_cursor: LeafCursor::default(),
            has_absence_filters: AtomicBool::new(false),
        }
    }
    pub fn buffer(&self) -> &Arc<ChangeBuffer> {
        self.summary.sums.buffer()
    }

    // ---- settings of the index ----

    /// Sets the table option; None: the setting for all tables holds.
    pub fn set_buffering(&self, buffering: Option<Buffering>) {
        self.table_buffering.set(buffering);
    }
    /// The table option.
    pub fn buffering(&self) -> Option<Buffering> {
        self.table_buffering.get()
    }
    /// May an operation of this kind be buffered?
    #[inline]
    pub(in crate::change) fn takes(&self, op: &Op<'_>) -> bool {
        let allows = || {
            self.table_buffering
                .allows(op)
                .unwrap_or_else(|| self.buffer().allows(op))
        };
        !self.takes_no_more() && allows()
    }
    /// The partition numbers are used up. Until the tree is empty, only keys with something pending
    /// are appended.
    pub fn takes_no_more(&self) -> bool {
        self.summary.partitions.are_used_up()
    }
    /// The index is unique. `pk_fixed_len`: bytes of a clustered key, 0 = the length varies. Called
    /// before the first use.
    pub fn set_unique(&self, pk_fixed_len: usize) {
        let values = &self.summary.values;
        assert!(
            values.is_set() || self.is_empty() || !self.is_known(),
            "what is pending was not added to the Bloom filters"
        );
        values.set(pk_fixed_len);
    }
    /// Were nearly all recent target leaves of the index resident?
    pub fn lives_in_memory(&self) -> bool {
        self.residency.lives_in_memory()
    }
    #[cfg(test)]
    pub fn was_found(&self, leaf: crate::pool::Presence, times: usize) {
        for _ in 0..times {
            self.residency.note(leaf);
        }
    }

    // ---- figures ----

    /// Nothing is pending in the whole index. One atomic load; false while that is not known.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.summary.sums.is_empty()
    }
    /// False: nothing is pending for `key`. True: perhaps.
    #[inline]
    pub fn maybe_pending(&self, key: &[u8]) -> bool {
        self.summary.may_have(key)
    }
    /// Is every entry counted?
    pub fn is_known(&self) -> bool {
        self.summary.sums.is_known()
    }
    /// Entries pending, as far as they are counted.
    pub fn entries(&self) -> u64 {
        self.summary.sums.entries()
    }
    /// Bytes of pages that the pending entries take, about, as far as they are counted.
    pub fn bytes(&self) -> u64 {
        self.summary.sums.bytes()
    }
    /// Age of the oldest entry, microseconds, at most; after a restart at least since then. 0:
    /// nothing is pending.
    pub fn age_us(&self, now_us: u64) -> u64 {
        self.summary.sums.age_us(now_us)
    }
    /// Partitions that may hold something, oldest first.
    pub(in crate::change) fn partitions(&self) -> Numbers {
        self.summary.live()
    }
    /// Number of partitions that may hold something.
    pub fn partition_count(&self) -> u64 {
        self.partitions().len() as u64
    }
    /// Entries that the merge of one more leaf can be expected to take out. A leaf costs the same
    /// whatever it gets, so the index with the largest yield is swept first.
    pub fn expected_yield(&self) -> u64 {
        self.merge_yield.expected(self.entries())
    }
    /// Is a sweep of any use just now?
    pub fn is_worth_a_sweep(&self, now_us: u64) -> bool {
        self.progress.is_worth_a_sweep(now_us, &self.summary.sums)
    }
    /// The entries that cannot be merged, because pages cannot be read.
    pub fn unmergeable(&self, now_us: u64) -> Vec<Unmergeable> {
        self.progress.unmergeable(now_us, &self.summary.sums)
    }
    /// No entry can be merged, or not even counted, for this reason. No sweep comes for a while.
    pub fn cannot_go_on(&self, pool: &Pool, why: Error) {
        let now_us = pool.disk().now_us();
        self.progress.retry_later(now_us);
        if !matches!(why, Error::Full(_)) {
            self.buffer().note_unmergeable();
            self.progress.halt(now_us, why);
        }
    }

    // ---- the count after a restart ----

    fn counted<'a>(&'a self, pool: &'a Pool) -> Counted<'a> {
        Counted {
            pool,
            tree: &self.tree,
            summary: &self.summary,
        }
    }
    /// First use: finds which partitions there are.
    pub fn load(&self, pool: &Pool) -> Result<()> {
        self.count.load(self.counted(pool))
    }
    pub fn is_loaded(&self) -> bool {
        self.count.is_loaded()
    }
    /// Counts the entries of about `leaves_max` leaves. True: all are counted. No latch is held.
    pub fn count_step(&self, pool: &Pool, leaves_max: usize) -> Result<bool> {
        self.count.step(self.counted(pool), leaves_max)
    }
    /// Counts everything, for a merge that cannot wait.
    pub(in crate::change) fn count_all(&self, pool: &Pool) -> Result<()> {
        while !self.count_step(pool, usize::MAX)? {}
        Ok(())
    }

    // ---- partitions, and the end of the index ----

    /// Closes the newest partition and begins the next, if there may be one more.
    pub fn begin_partition(&self) {
        self.summary.partitions.begin(&self.summary.sums);
    }
    /// Closes the newest partition if it is idle and the memory is needed (N1). Called from time to
    /// time, by one thread.
    pub fn close_if_idle(&self) {
        self.summary.partitions.close_if_idle(&self.summary.sums);
    }
    /// The index is dropped or quarantined, and its pending entries with it: they leave the totals.
    /// Returns the number of entries. A statement that began before the quarantine may still append
    /// and merge here, so the tree's own figures stay right.
    pub fn discard(&self) -> u64 {
        let _count = self.count.hold();
        let _closed = self.summary.partitions.hold_closed();
        let entries = self.summary.sums.discard();
        let id = self.tree.index & !DELTA_BIT;
        self.buffer().unique_leaves.remove(self.tree.file, id);
        entries
    }
    /// Of a tree that was discarded: returns the memory of its filters now, for the table keeps its
    /// old layouts.
    ///
    /// No thread changes or reads the index any more, now or later. The caller holds the table's
    /// gate exclusively; after it, purge, rollbacks, sweeps and merges for readers look for the
    /// index in the new layout. Statements are kept out by the table's users. Next the index's
    /// pages are given away. A question that comes all the same is answered "perhaps".
    pub fn give_back_memory(&self) {
        self.summary.give_back_memory();
    }

    // ---- reading ----

    /// Replaces `out` by what is pending for the keys in [lo, hi). The caller holds the S latch of
    /// the base leaf that owns the range, so no merge of it is under way. The caller holds no latch
    /// of the delta tree.
    pub fn pending_in(&self, pool: &Pool, lo: &[u8], hi: Option<&[u8]>, out: &mut Pending) -> Result<()> {
        self.pending_of(pool, lo, hi, None, out)
    }
    /// As `pending_in`; with `value`, what is pending for other unique values may be left out.
    pub(in crate::change) fn pending_of(
        &self,
        pool: &Pool,
        lo: &[u8],
        hi: Option<&[u8]>,
        value: Option<&[u8]>,
        out: &mut Pending,
    ) -> Result<()> {
        out.clear();
        self.load(pool)?;
        let value = value.filter(|_| self.is_known());
        for partition in self.partitions() {
            if value.is_some_and(|value| !self.summary.values.may_have(value, &[partition])) {
                continue;
            }
            let end = delta_end(partition, hi);
            let mut leaf = self.tree.seek(pool, Seek::Ge, &delta_key(partition, lo))?;
            while let Some(at) = leaf {
                let to = end.as_ref().map_or(at.len(), |end| at.search(end).0);
                for slot in at.slot()..to {
                    let (key, value) = at.entry_at(slot);
                    out.push(partition, entry_key(key), value);
                }
                if to < at.len() {
                    break;
                }
                leaf = self.tree.next_leaf(pool, at)?;
            }
        }
        out.group();
        Ok(())
    }
    /// Is anything pending for this key? Called with no latch held.
    pub(in crate::change) fn is_pending(&self, pool: &Pool, base: &Tree, key: &[u8]) -> Result<bool> {
        debug_assert!(
            holds_no_latch(),
            "I5: a base leaf is latched before leaves of the delta tree"
        );
        let _leaf = base.leaf_owning(pool, key)?;
        self.finds_pending(pool, key)
    }
    /// As `is_pending`. The base leaf, which may have to be read, is latched only where nothing is
    /// found.
    pub(in crate::change) fn is_surely_pending(&self, pool: &Pool, base: &Tree, key: &[u8]) -> Result<bool> {
        // Without the latch a merge may hide an entry (which is in the leaf then), but what is
        // found is there.
        Ok(self.finds_pending(pool, key)? || self.is_pending(pool, base, key)?)
    }
    fn finds_pending(&self, pool: &Pool, key: &[u8]) -> Result<bool> {
        let mut found = Pending::default();
        self.pending_in(pool, key, Some(&[key, &[0]].concat()), &mut found)?;
        Ok(!found.is_empty())
    }
    /// The first key >= `from` for which something is pending.
    pub(in crate::change) fn next_key(&self, pool: &Pool, from: &[u8]) -> Result<Option<Vec<u8>>> {
        self.load(pool)?;
        let mut first: Option<Vec<u8>> = None;
        for partition in self.partitions() {
            if let Some(leaf) = self.tree.seek(pool, Seek::Ge, &delta_key(partition, from))? {
                let found = leaf.key();
                let in_partition = partition_of(found)? == partition;
                let key = entry_key(found);
                if in_partition && first.as_ref().is_none_or(|f| key < &f[..]) {
                    first = Some(key.to_vec());
                }
            }
        }
        debug_assert!(
            first.as_ref().is_none_or(|key| key[..] >= *from),
            "the next key is not before the key that was asked about"
        );
        Ok(first)
    }

    // ---- appending ----

    /// Can an entry for `op` be in the delta tree at all?
    pub(in crate::change) fn fits(&self, op: &Op<'_>) -> bool {
        let key_len = PARTITION_NUMBER + op.key().len();
        key_len <= KEY_MAX && key_len + op.size() + OP_MAX <= ENTRY_MAX
    }
    /// Makes `op` pending, after everything that is pending for its key. False: the key's list is
    /// full; nothing was done. Called with no latch held.
    pub(in crate::change) fn append(&self, pool: &Pool, op: &Op<'_>) -> Result<bool> {
        self.load(pool)?;
        pool.redo().reserve_to_go_on()?;
        let (summary, key) = (&self.summary, op.key());
        let wrote = {
            let _open = summary.partitions.hold_open();
            let newest = summary.partitions.newest();
            summary.count_up(pool, key, newest);
            let wrote = self.write(pool, newest, op);
            match &wrote {
                Ok(Wrote::New(bytes)) => summary.sums.grow(*bytes as i64, true),
                Ok(Wrote::Folded(grown)) => {
                    summary.sums.grow(*grown, true);
                    pool.counters().change_buffer_reads_avoided.inc();
                    summary.count_down(key, newest);
                    if let Op::Put { .. } = op {
                        self.progress.note_replaced();
                    }
                }
                Ok(Wrote::Nothing) | Err(_) => summary.count_down(key, newest),
            }
            wrote?
        };
        if let Wrote::New(_) = wrote {
            summary.partitions.begin_if_due(&summary.sums);
            summary.grow_filters();
        }
        Ok(!matches!(wrote, Wrote::Nothing))
    }
    fn write(&self, pool: &Pool, partition: u16, op: &Op<'_>) -> Result<Wrote> {
        debug_assert!(
            self.fits(op),
            "a change that fits no entry of the tree is applied directly"
        );
        let key = delta_key(partition, op.key());
        let mut value = Vec::new();
        let mut intent = Intent::Leaf;
        loop {
            let mut mtr = pool.begin();
            let at = self.tree.leaf_for_write(&mut mtr, &key, intent, None)?;
            let (placed, wrote) = if at.found {
                let old = at.value(&mtr);
                let before = entry_bytes(op.key().len() + old.len());
                match op_list::fold(old, op, &mut value) {
                    Some(Folded::Done) if key.len() + value.len() <= ENTRY_MAX => {}
                    Some(Folded::Done | Folded::Full) => return Ok(Wrote::Nothing),
                    Some(Folded::Missing) => return Err(missing_entry(&self.tree, op.key())),
                    None => return Err(Error::corrupt("a buffered change cannot be decoded; check the table")),
                }
                let grown = entry_bytes(op.key().len() + value.len()) as i64 - before as i64;
                (at.set_value(&mut mtr, &value)?, Wrote::Folded(grown))
            } else {
                op_list::start(op, &mut value);
                let bytes = entry_bytes(op.key().len() + value.len());
                (at.insert(&mut mtr, &key, &value)?, Wrote::New(bytes))
            };
            mtr.commit();
            match placed {
                Placed::Done => return Ok(wrote),
                Placed::NoRoom => intent = Intent::Grow(key.len() + value.len() + OP_MAX),
            }
        }
    }
}

/// The outcome of an append.
enum Wrote {
    /// A new entry, of this many bytes.
    New(usize),
    /// An existing entry, which grew by this many bytes.
    Folded(i64),
    Nothing,
}

/// The error of a Mark that met no entry. `tree`: of the index, or its delta tree.
#[cold]
pub fn missing_entry(tree: &Tree, key: &[u8]) -> Error {
    Error::corrupt(format!(
        "index {} in file {}: an entry that its row needs is missing (key of {} bytes)",
        tree.index & !DELTA_BIT,
        tree.file,
        key.len()
    ))
    .in_index(tree.file, tree.index)
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
