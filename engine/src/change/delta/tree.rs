//! The delta tree of one secondary index: what is pending for it, and what memory knows about that.
//!
//! The tree lies in the index's file, under an index number of its own: the index's with [`DELTA_BIT`] set. So every page still says
//! whose it is, and a descent that strays from one of the two trees into the other is told at once.
//! Its keys are partition number (u16, big-endian) + entry key, its values are drawn in `pending.rs`. New entries go to the newest
//! partition; the older ones are closed: nothing changes in them but merges that take entries out.
//!
//! Order of locks: gate, then (base latches, then) delta latches. The gate is held shared by an append, and by a merge that counts what it
//! has taken out, and exclusively by whoever begins a partition or puts another filter in its place; nobody asks for it with a latch
//! held, so readers do not take it at all.
//!
//! After the engine was opened the tree's content is not known: the first use begins a new partition, and `count_step` (`count.rs`) walks
//! the older ones, in which nothing changes meanwhile, for merges wait so long. Until then nothing is known to be absent.
use crate::base::sync::{Rank, RankedMutex};
use crate::base::{sync_point, Error, IndexId, Result, SyncPoint};
use crate::btree::{Intent, Placed, Seek, Tree, ENTRY_MAX, KEY_MAX};
use crate::change::delta::count::Count;
use crate::change::delta::op_list::{self, Folded, Pending};
use crate::change::delta::partition::Idleness;
use crate::change::delta::progress::Progress;
use crate::change::filter::bloom::Values;
use crate::change::filter::counting::Filter;
use crate::change::merge::backpressure::Help;
use crate::change::policy::change_buffer::{entry_bytes, Buffering, ChangeBuffer, Word, ASK_EVERY};
use crate::change::Op;
use crate::pool::{Pool, Presence};
use parking_lot::RwLock;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

/// Tells a delta tree's pages from those of its index. Index numbers are given one by one from 16 on; none gets here.
pub const DELTA_BIT: IndexId = 1 << 31;

/// Set in `entries` while the older partitions are not counted.
pub(in crate::change) const UNKNOWN: u64 = 1 << 63;
/// Partitions that may be there at a time; while the engine runs no more than half of them are begun.
pub(in crate::change) const PARTITIONS_MAX: u32 = 64;
/// Bytes of a partition number, before a key.
pub(in crate::change) const PARTITION_NUMBER: usize = 2;
/// When the tree is empty and its numbers have come so far, they begin at 0: nobody looks for a partition that he learned of so many ago.
const AGAIN_FROM: u16 = 1 << 14;
/// Bytes of an operation in a list, beyond its value.
const OP_MAX: usize = 24;
/// Shares of resident target leaves: all of them; from which on an index counts as living in memory, and below which on disk.
const ALL: u32 = 1024;
const IN_MEMORY: u32 = 983;
const ON_DISK: u32 = 900;
/// Nothing is known yet: neither.
const UNTOLD: u32 = (IN_MEMORY + ON_DISK) / 2;

/// With fewer entries an index's yield need not be learned.
const LEARN_MIN: u64 = 4096;
/// Of so many reads of leaves with much pending one merges its leaf.
pub const SETTLE_EVERY: u32 = 16;
/// See `yielded`.
const YIELD_ONE: u64 = 1 << 32;

/// Key of the delta tree.
pub(in crate::change) type DeltaKey = SmallVec<[u8; 96]>;

pub(in crate::change) fn delta_key(partition: u16, key: &[u8]) -> DeltaKey {
    let mut out = DeltaKey::new();
    out.extend_from_slice(&partition.to_be_bytes());
    out.extend_from_slice(key);
    out
}
/// The end of a partition's part of the range that ends at `hi`. None: no bound, the last partition.
pub(in crate::change) fn delta_end(partition: u16, hi: Option<&[u8]>) -> Option<DeltaKey> {
    match hi {
        Some(hi) => Some(delta_key(partition, hi)),
        None => partition.checked_add(1).map(|next| delta_key(next, &[])),
    }
}
pub(in crate::change) fn partition_of(key: &[u8]) -> Result<u16> {
    match key.first_chunk::<2>() {
        Some(bytes) => Ok(u16::from_be_bytes(*bytes)),
        None => Err(Error::corrupt("a delta tree holds a key without a partition number")),
    }
}

pub struct Delta {
    pub tree: Tree,
    pub(in crate::change) buffer: Arc<ChangeBuffer>,
    /// Entries pending, counted up before they are written; with [`UNKNOWN`].
    pub(in crate::change) entries: AtomicU64,
    pub(in crate::change) bytes: AtomicU64,
    pub(in crate::change) newest_bytes: AtomicU64,
    pub(in crate::change) idleness: Idleness,
    /// Bytes that are there and not counted yet, about (`count.rs`).
    pub(in crate::change) uncounted: AtomicU64,
    /// Oldest (high half) and newest partition.
    range: AtomicU32,
    /// Entries of the partitions, by number modulo their most.
    in_partition: [AtomicU64; PARTITIONS_MAX as usize],
    pub(in crate::change) filter: Filter,
    pub(in crate::change) values: Values,
    pub(in crate::change) gate: RwLock<()>,
    pub(in crate::change) loaded: AtomicBool,
    pub(in crate::change) count: RankedMutex<Count>,
    /// Moving share of target leaves that were resident, of `ALL`.
    residency: AtomicU32,
    asked: AtomicU32,
    pub(in crate::change) help: Help,
    dense_reads: AtomicU32,
    /// What sweeps found lately: which part of the entries then pending one leaf's merge took out, in units of 1/[`YIELD_ONE`]. 0 = none yet.
    yielded: AtomicU64,
    pub(in crate::change) progress: Progress,
    /// What the table says about buffering.
    word: Word,
    /// See `sums.rs`.
    pub(in crate::change) discarded: AtomicBool,
}

impl std::fmt::Debug for Delta {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Delta").field(&self.tree).finish()
    }
}

impl Delta {
    /// Of an index that was just made: nothing is pending.
    pub fn fresh(tree: Tree, buffer: &Arc<ChangeBuffer>) -> Delta {
        let delta = Delta::found(tree, buffer);
        delta.entries.store(0, Ordering::Relaxed);
        delta.residency.store(ALL, Ordering::Relaxed);
        delta.loaded.store(true, Ordering::Release);
        delta
    }
    /// Of an index that stands in the catalog; its pages are looked at when it is first used.
    pub fn found(tree: Tree, buffer: &Arc<ChangeBuffer>) -> Delta {
        debug_assert!(tree.index & DELTA_BIT != 0);
        Delta {
            tree,
            buffer: buffer.clone(),
            entries: AtomicU64::new(UNKNOWN),
            bytes: AtomicU64::new(0),
            newest_bytes: AtomicU64::new(0),
            idleness: Idleness::default(),
            uncounted: AtomicU64::new(0),
            range: AtomicU32::new(0),
            in_partition: [const { AtomicU64::new(0) }; PARTITIONS_MAX as usize],
            filter: Filter::default(),
            values: Values::default(),
            gate: RwLock::new(()),
            loaded: AtomicBool::new(false),
            count: RankedMutex::new(Rank::DeltaCount, Count::default()),
            residency: AtomicU32::new(UNTOLD),
            asked: AtomicU32::new(0),
            help: Help::default(),
            dense_reads: AtomicU32::new(0),
            yielded: AtomicU64::new(0),
            progress: Progress::default(),
            word: Word::default(),
            discarded: AtomicBool::new(false),
        }
    }
    pub fn buffer(&self) -> &Arc<ChangeBuffer> {
        &self.buffer
    }
    /// The table's own word; None: that of all tables holds.
    pub fn set_buffering(&self, buffering: Option<Buffering>) {
        self.word.set(buffering);
    }
    pub fn buffering(&self) -> Option<Buffering> {
        self.word.get()
    }
    /// There is no number for another partition: until it is empty, and numbers begin at 0, only keys go on for which something is pending.
    pub fn takes_no_more(&self) -> bool {
        self.word.refuses()
    }
    /// May a change of this kind be buffered?
    #[inline]
    pub(in crate::change) fn takes(&self, op: &Op<'_>) -> bool {
        self.word.takes(op, &self.buffer)
    }

    // ---- what is pending ----

    /// Nothing is pending in the whole index. One atomic load; false while that is not known.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries.load(Ordering::SeqCst) == 0
    }
    /// False: nothing is pending for `key`. True: perhaps.
    #[inline]
    pub fn maybe_pending(&self, key: &[u8]) -> bool {
        let entries = self.entries.load(Ordering::SeqCst);
        entries != 0 && (entries & UNKNOWN != 0 || self.filter.may_have(key))
    }
    /// Every entry is counted.
    pub fn is_known(&self) -> bool {
        self.entries.load(Ordering::Acquire) & UNKNOWN == 0
    }
    /// Entries pending, as far as they are counted.
    pub fn entries(&self) -> u64 {
        self.entries.load(Ordering::Relaxed) & !UNKNOWN
    }
    pub fn bytes(&self) -> u64 {
        (self.bytes.load(Ordering::Relaxed) as i64).max(0) as u64 // as `ChangeBuffer::bytes`
    }
    /// Oldest and newest.
    pub(in crate::change) fn range(&self) -> (u16, u16) {
        let both = self.range.load(Ordering::Acquire);
        ((both >> 16) as u16, both as u16)
    }
    /// Partitions that may hold something, oldest first.
    pub(in crate::change) fn partitions(&self) -> SmallVec<[u16; 8]> {
        let (oldest, newest) = self.range();
        let known = self.is_known();
        let found = (oldest..=newest)
            .filter(|p| !known || self.in_partition[slot(*p)].load(Ordering::SeqCst) > 0)
            .collect();
        sync_point(SyncPoint::PartitionsLearned);
        found
    }
    /// Partitions that may hold something.
    pub fn partition_count(&self) -> u64 {
        self.partitions().len() as u64
    }

    /// Replaces `out` by what is pending for the keys in [lo, hi). The caller holds the S latch of the base leaf that owns the
    /// range (so no merge of it is under way), and no latch of the delta tree.
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
            if value.is_some_and(|value| !self.values.may_have(value, &[partition])) {
                continue;
            }
            let end = delta_end(partition, hi);
            let mut leaf = self.tree.seek(pool, Seek::Ge, &delta_key(partition, lo))?;
            while let Some(at) = leaf {
                let to = end.as_ref().map_or(at.len(), |end| at.search(end).0);
                for slot in at.slot()..to {
                    let (key, value) = at.entry_at(slot);
                    out.push(partition, &key[2..], value);
                }
                if to < at.len() {
                    break;
                }
                leaf = self.tree.next_leaf(pool, at)?;
            }
        }
        out.settle();
        Ok(())
    }
    /// Is anything pending for this key? Called with no latch held.
    pub(in crate::change) fn is_pending(&self, pool: &Pool, base: &Tree, key: &[u8]) -> Result<bool> {
        let _leaf = base.leaf_owning(pool, key)?;
        let mut found = Pending::default();
        self.pending_in(pool, key, Some(&[key, &[0]].concat()), &mut found)?;
        Ok(!found.is_empty())
    }
    /// As `is_pending`; the base leaf, which may have to be read, is not looked at where something is.
    pub(in crate::change) fn is_pending_indeed(&self, pool: &Pool, base: &Tree, key: &[u8]) -> Result<bool> {
        // Without the latch a merge may hide something (which is in the leaf then), but not make something up.
        let mut found = Pending::default();
        self.pending_in(pool, key, Some(&[key, &[0]].concat()), &mut found)?;
        Ok(!found.is_empty() || self.is_pending(pool, base, key)?)
    }
    /// The first key >= `from` for which something is pending.
    pub(in crate::change) fn next_key(&self, pool: &Pool, from: &[u8]) -> Result<Option<Vec<u8>>> {
        self.load(pool)?;
        let mut first: Option<Vec<u8>> = None;
        for partition in self.partitions() {
            if let Some(leaf) = self.tree.seek(pool, Seek::Ge, &delta_key(partition, from))? {
                let found = leaf.key();
                let key = &found[2..];
                if partition_of(found)? == partition && first.as_ref().is_none_or(|f| key < &f[..]) {
                    first = Some(key.to_vec());
                }
            }
        }
        Ok(first)
    }

    // ---- appending ----

    /// Can an entry of this kind be in the delta tree at all?
    pub(in crate::change) fn fits(&self, op: &Op<'_>) -> bool {
        2 + op.key().len() <= KEY_MAX && 2 + op.key().len() + op.size() + OP_MAX <= ENTRY_MAX
    }
    /// Makes `op` pending, behind everything that is pending for its key. False: the key's list is full; nothing was done.
    pub(in crate::change) fn append(&self, pool: &Pool, op: &Op<'_>) -> Result<bool> {
        self.load(pool)?;
        pool.redo().reserve_to_go_on()?;
        let wrote = {
            let _open = self.gate.read();
            let newest = self.range().1;
            // Before it is written: whoever can see it finds it counted.
            self.count_up(pool, op.key(), newest);
            let wrote = self.write(pool, newest, op);
            match &wrote {
                Ok(Wrote::New(bytes)) => self.grow(*bytes as i64, true),
                Ok(Wrote::Folded(grown)) => {
                    self.grow(*grown, true);
                    pool.counters().change_buffer_reads_avoided.inc();
                    self.count_down(op.key(), newest);
                    if let Op::Put { .. } = op {
                        self.put_in_place();
                    }
                }
                Ok(Wrote::Nothing) | Err(_) => self.count_down(op.key(), newest),
            }
            wrote?
        };
        if let Wrote::New(_) = wrote {
            self.begin_partition_if_due();
            self.grow_filters();
        }
        Ok(!matches!(wrote, Wrote::Nothing))
    }
    fn write(&self, pool: &Pool, partition: u16, op: &Op<'_>) -> Result<Wrote> {
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
                    Some(Folded::Missing) => return Err(crate::change::apply::missing(&self.tree, op.key())),
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
    /// What has become too small for what is pending is made larger. No latch is held, and not the gate.
    pub(in crate::change) fn grow_filters(&self) {
        self.values.grow(&self.buffer);
        let larger = match self.is_known() {
            true => self.filter.larger(self.entries(), &self.buffer.filters),
            false => None,
        };
        if let Some(larger) = larger {
            let _closed = self.gate.write();
            self.filter.grow(larger, &self.buffer.filters);
        }
    }
    pub(in crate::change) fn count_up(&self, pool: &Pool, key: &[u8], partition: u16) {
        self.filter.up(key, &self.buffer.filters);
        self.values.add(key, partition, &self.buffer);
        self.in_partition[slot(partition)].fetch_add(1, Ordering::SeqCst);
        if self.entries.fetch_add(1, Ordering::SeqCst) == 0 {
            // Whatever comes of the append: of several at once this is the one that says since when something is pending.
            self.first_pending(pool);
        }
        if let Some(sums) = self.sums() {
            sums.entries.fetch_add(1, Ordering::Relaxed);
        }
    }
    fn count_down(&self, key: &[u8], partition: u16) {
        // `entries` last: who finds it 0 with the gate closed may empty the filter.
        self.filter.down(key);
        self.in_partition[slot(partition)].fetch_sub(1, Ordering::SeqCst);
        if let Some(sums) = self.sums() {
            sums.entries.fetch_sub(1, Ordering::Relaxed);
        }
        self.entries.fetch_sub(1, Ordering::SeqCst);
    }
    /// A merge has taken an entry out, and its mini-transaction has ended.
    pub(in crate::change) fn taken(&self, key: &[u8], partition: u16, bytes: usize) {
        self.grow(-(bytes as i64), partition == self.range().1);
        self.count_down(key, partition);
    }
    pub(in crate::change) fn set_range(&self, oldest: u16, newest: u16) {
        self.range
            .store((oldest as u32) << 16 | newest as u32, Ordering::Release);
        self.word.refuse(newest == u16::MAX);
    }
    /// After a merge: forgets partitions that are empty, and (nothing is pending) that the filter lost count. No latch is held.
    pub(in crate::change) fn tidy(&self) {
        let (oldest, newest) = self.range();
        let emptied = oldest < newest && self.in_partition[slot(oldest)].load(Ordering::SeqCst) == 0;
        if !self.is_known() || !(emptied || self.is_empty()) {
            return;
        }
        let _closed = self.gate.write();
        let (mut oldest, newest) = self.range();
        while oldest < newest && self.in_partition[slot(oldest)].load(Ordering::SeqCst) == 0 {
            oldest += 1;
        }
        self.set_range(oldest, newest);
        self.values.forget_before(oldest);
        if self.is_empty() {
            self.filter.clear();
            self.values.clear();
            self.close_newest();
            // Not 0 again: whoever has learned which partitions there are, and looks into them only now, is to find nothing there, and
            // not the younger of what was appended since.
            let next = if newest < AGAIN_FROM { newest + 1 } else { 0 };
            self.set_range(next, next);
        }
    }

    // ---- where the index lives ----

    /// Nearly all leaves that were lately asked for were resident.
    pub fn lives_in_memory(&self) -> bool {
        self.residency.load(Ordering::Relaxed) >= IN_MEMORY
    }
    #[cfg(test)]
    pub fn was_found(&self, leaf: Presence, times: usize) {
        for _ in 0..times {
            self.note(leaf);
        }
    }
    /// It lives on disk, and it is not the turn of the one change in many whose leaf is asked for.
    pub(in crate::change) fn need_not_ask(&self) -> bool {
        self.residency.load(Ordering::Relaxed) < ON_DISK && !self.turn_to_ask()
    }
    /// It is the turn of the one change in many whose leaf is asked for.
    pub(in crate::change) fn turn_to_ask(&self) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed) % ASK_EVERY == 0
    }
    /// A sweep took `entries` of `pending` out for so many leaves.
    pub(in crate::change) fn note_yield(&self, entries: usize, leaves: usize, pending: u64) {
        if leaves > 0 && pending > 0 {
            let now = entries as u64 * YIELD_ONE / (leaves as u64 * pending);
            let old = self.yielded.load(Ordering::Relaxed);
            let new = if old == 0 { now } else { old - old / 4 + now / 4 };
            self.yielded.store(new.max(1), Ordering::Relaxed);
        }
    }
    /// Entries that the merge of one more leaf can be expected to take out. A leaf costs the same whatever it gets, so the index with most
    /// is swept first. Unknown: all of them, if there are many: the first sweep will tell.
    pub fn expected_yield(&self) -> u64 {
        match self.yielded.load(Ordering::Relaxed) {
            0 if self.entries() < LEARN_MIN => 1,
            0 => self.entries(),
            share => ((self.entries() as u128 * share as u128) / YIELD_ONE as u128) as u64,
        }
    }
    /// A reader met a dense leaf: is it the one in many that merges it? A leaf that is read seldom is not worth its write; one that is read
    /// over and over is soon merged.
    pub fn turn_to_settle(&self) -> bool {
        self.dense_reads.fetch_add(1, Ordering::Relaxed) % SETTLE_EVERY == SETTLE_EVERY - 1
    }
    /// A change's target leaf was found so.
    pub(in crate::change) fn note(&self, leaf: Presence) {
        let old = self.residency.load(Ordering::Relaxed);
        let new = old - old / 32 + if leaf == Presence::Absent { 0 } else { 32 };
        let new = new.min(ALL);
        if new != old {
            self.residency.store(new, Ordering::Relaxed);
        }
    }
    /// Does a change whose target leaf is so go there at once?
    pub(in crate::change) fn goes_direct(&self, leaf: Presence) -> bool {
        match leaf {
            Presence::Absent => false,
            Presence::Clean => self.lives_in_memory(),
            Presence::Dirty => true,
        }
    }
}

fn slot(partition: u16) -> usize {
    (partition as u32 % PARTITIONS_MAX) as usize
}

/// What an append came to.
enum Wrote {
    /// A new entry, of so many bytes.
    New(usize),
    /// An entry that was there, which grew by so many bytes.
    Folded(i64),
    Nothing,
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
