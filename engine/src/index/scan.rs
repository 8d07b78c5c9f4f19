//! Batches of entries in key order, both directions, for the table layer's cursors.
//!
//! A [`Scan`] holds no latch between calls. It remembers leaf, version and slot; when the leaf has changed since it finds its
//! place again by the last key it handed out. One `fill` copies entries out of a leaf under one hold of its S latch, so that the
//! caller may then wait for locks, read undo or call the server at leisure (I5).
//!
//! While something is pending in the index a `fill` goes the way of `merged`; else, for one load, that of the plain tree (I3).
mod merged;
#[cfg(test)]
mod merged_tests;
#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;

use crate::base::{Lsn, PageNo, Result};
use crate::btree::READ_AHEAD_MAX;
use crate::btree::{LeafRead, Seek, Tree};
use crate::change::in_use;
use crate::index::Index;
use crate::pool::Pool;
use merged::{set_bound, Merge};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    Forward,
    Backward,
}
use Direction::{Backward, Forward};

/// Where an entry stood when it was copied. While the page has this version the entry is unchanged, and so are its
/// neighbours in the leaf: `Tree::revisit` finds it without a search. Changes may be pending: see `Scan::is_unchanged`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    pub page: PageNo,
    pub version: Lsn,
    pub slot: usize,
}

/// For [`Copied::slot`]: the entry is not in its leaf as it was copied.
const NO_SLOT: u16 = u16::MAX;

/// Copied entries, flat in one buffer that is used again and again.
#[derive(Default)]
pub struct Batch {
    bytes: Vec<u8>,
    entries: Vec<Copied>,
    leaves: Vec<(PageNo, Lsn)>,
}

#[derive(Clone, Copy)]
struct Copied {
    at: u32,
    key_len: u16,
    value_len: u16,
    slot: u16,
    leaf: u16,
}

impl Batch {
    pub fn new() -> Batch {
        Batch::default()
    }
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.leaves.clear();
    }
    #[inline]
    pub fn len(&self) -> usize {
        self.entries.len()
    }
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
    pub fn key(&self, i: usize) -> &[u8] {
        self.entry(i).0
    }
    pub fn value(&self, i: usize) -> &[u8] {
        self.entry(i).1
    }
    #[inline]
    pub fn entry(&self, i: usize) -> (&[u8], &[u8]) {
        let copied = self.entries[i];
        let at = copied.at as usize;
        self.bytes[at..at + copied.key_len as usize + copied.value_len as usize].split_at(copied.key_len as usize)
    }
    /// None: a change of the entry was pending when it was copied.
    pub fn place(&self, i: usize) -> Option<Place> {
        let copied = self.entries[i];
        let (page, version) = self.leaves[copied.leaf as usize];
        let slot = copied.slot as usize;
        (copied.slot != NO_SLOT).then_some(Place { page, version, slot })
    }
    #[inline]
    fn push(&mut self, key: &[u8], value: &[u8], slot: u16) {
        self.note(key.len(), value.len(), slot);
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
    }
    /// Key and value in one piece.
    #[inline]
    fn push_whole(&mut self, (bytes, key_len): (&[u8], usize), slot: u16) {
        self.note(key_len, bytes.len() - key_len, slot);
        self.bytes.extend_from_slice(bytes);
    }
    #[inline]
    fn note(&mut self, key_len: usize, value_len: usize, slot: u16) {
        self.entries.push(Copied {
            at: self.bytes.len() as u32,
            key_len: key_len as u16,
            value_len: value_len as u16,
            slot,
            leaf: self.leaves.len() as u16 - 1,
        });
    }
    fn has_room(&self, limit: Limit) -> bool {
        self.entries.len() < limit.entries && self.bytes.len() < limit.bytes && self.leaves.len() < u16::MAX as usize
    }
}

/// A batch is full when it has this many entries or (then the last one may reach over) bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    pub entries: usize,
    pub bytes: usize,
}

/// Where the scan goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    /// At a bound of the range.
    Start,
    /// At `Scan::last`: with it or beyond it.
    Key { inclusive: bool },
    /// In a leaf, just behind `Scan::last`. Forward: the first slot to come; backward: one above it.
    Leaf { place: Place, direction: Direction },
    /// The range ends here. `told`: the caller knows, for a `fill` brought nothing; then a turn begins at the bound, else at `Scan::last`.
    End { direction: Direction, told: bool },
}

/// A resumable scan of the keys in [lo, hi).
pub struct Scan {
    index: Index,
    lo: Vec<u8>,
    hi: Option<Vec<u8>>,
    at: At,
    last: Vec<u8>,
    /// Leaf borders crossed since the scan began or turned.
    crossed: u32,
    /// Read-ahead is asked for when `crossed` gets here...
    ahead_at: u32,
    /// ...for this many leaves.
    ahead: usize,
    /// Buffers of the merged way, once it was gone.
    merge: Option<Box<Merge>>,
}

/// A scan that has crossed this many borders is taken for a long one.
const AHEAD_AFTER: u32 = 2;
const AHEAD_FIRST: usize = 8;

impl Scan {
    /// `hi` None: no bound.
    pub fn new(index: &Index, lo: &[u8], hi: Option<&[u8]>) -> Scan {
        let mut scan = Scan {
            index: index.clone(),
            lo: Vec::new(),
            hi: None,
            at: At::Start,
            last: Vec::new(),
            crossed: 0,
            ahead_at: AHEAD_AFTER,
            ahead: AHEAD_FIRST,
            merge: None,
        };
        scan.restart(lo, hi);
        scan
    }
    /// A new range in the same index; buffers are kept.
    pub fn restart(&mut self, lo: &[u8], hi: Option<&[u8]>) {
        self.lo.clear();
        self.lo.extend_from_slice(lo);
        set_bound(&mut self.hi, hi);
        self.at = At::Start;
        self.begin_run();
    }
    /// The next `fill` goes on at `key` (with it if `inclusive`), in either direction: after a batch of which only a part was used.
    pub fn go_on_from(&mut self, key: &[u8], inclusive: bool) {
        self.last.clear();
        self.last.extend_from_slice(key);
        self.at = At::Key { inclusive };
    }
    /// Is entry `i` of the batch, copied by this scan, still as it was copied? False: perhaps not.
    pub fn is_unchanged(&self, pool: &Pool, batch: &Batch, i: usize) -> bool {
        let Some(place) = batch.place(i) else {
            return false;
        };
        let Some(_latched) = self.index.tree.revisit(pool, place.page, place.version, place.slot) else {
            return false;
        };
        // Asked under the latch: no merge that takes a change out of the delta can pass between the two questions.
        in_use(&self.index).is_none_or(|delta| !delta.maybe_pending(batch.key(i)))
    }
    pub fn tree(&self) -> &Tree {
        &self.index.tree
    }
    fn begin_run(&mut self) {
        (self.crossed, self.ahead_at, self.ahead) = (0, AHEAD_AFTER, AHEAD_FIRST);
    }

    /// Replaces the batch by the entries that come next; their number, 0 = the range ends here. In the other direction than before the
    /// scan turns at the last key it handed out (see `go_on_from` when not all of that batch was used).
    pub fn fill(&mut self, pool: &Pool, batch: &mut Batch, direction: Direction, limit: Limit) -> Result<usize> {
        assert!(limit.entries > 0 && limit.bytes > 0, "a batch takes something");
        batch.clear();
        if in_use(&self.index).is_some() {
            self.fill_merged(pool, batch, direction, limit)?;
        } else {
            self.fill_plain(pool, batch, direction, limit)?;
        }
        if batch.is_empty() {
            self.at = At::End { direction, told: true };
        }
        self.keep_last(batch);
        Ok(batch.len())
    }
    fn fill_plain(&mut self, pool: &Pool, batch: &mut Batch, direction: Direction, limit: Limit) -> Result<()> {
        let Some(mut leaf) = self.resume(pool, direction)? else {
            return Ok(());
        };
        loop {
            if !self.copy(&mut leaf, batch, direction, limit) {
                break;
            }
            self.crossed += 1;
            if self.crossed >= self.ahead_at {
                let stood = (leaf.page_no(), leaf.version());
                leaf = match self.read_ahead(pool, leaf, batch, direction)? {
                    Some(leaf) => leaf,
                    None => break,
                };
                if (leaf.page_no(), leaf.version()) != stood {
                    // Changed while it was let go: what follows the last key may be in this leaf now.
                    continue;
                }
            }
            let next = match direction {
                Forward => self.index.tree.next_leaf(pool, leaf)?,
                Backward => self.index.tree.prev_leaf(pool, leaf)?,
            };
            match next {
                Some(next) => leaf = start_in(next, direction),
                None => {
                    self.end(direction);
                    break;
                }
            }
        }
        Ok(())
    }
    fn end(&mut self, direction: Direction) {
        let told = false;
        self.at = At::End { direction, told };
    }
    fn keep_last(&mut self, batch: &Batch) {
        if !batch.is_empty() {
            self.last.clear();
            self.last.extend_from_slice(batch.key(batch.len() - 1));
        }
    }
    /// The leaf to go on with; its slot is the border of what is still to come (see `At::Leaf`).
    fn resume<'p>(&mut self, pool: &'p Pool, direction: Direction) -> Result<Option<LeafRead<'p>>> {
        let (seek, key): (Seek, &[u8]) = match (self.at, direction) {
            (At::End { direction: before, .. }, _) if before == direction => return Ok(None),
            (
                At::Leaf {
                    place,
                    direction: before,
                },
                _,
            ) if before == direction => {
                if let Some(leaf) = self.index.tree.revisit(pool, place.page, place.version, place.slot) {
                    return Ok(Some(leaf));
                }
                match direction {
                    Forward => (Seek::Gt, &self.last),
                    Backward => (Seek::Lt, &self.last),
                }
            }
            (At::Start | At::End { told: true, .. }, Forward) => (Seek::Ge, &self.lo),
            (At::Start | At::End { told: true, .. }, Backward) => match &self.hi {
                Some(hi) => (Seek::Lt, hi),
                None => (Seek::Last, &[]),
            },
            (At::Key { inclusive: true }, Forward) => (Seek::Ge, &self.last),
            (At::Key { inclusive: true }, Backward) => (Seek::Le, &self.last),
            (_, Forward) => (Seek::Gt, &self.last),
            (_, Backward) => (Seek::Lt, &self.last),
        };
        let found = self.index.tree.seek(pool, seek, key)?;
        self.note_turn(direction);
        Ok(found.map(|leaf| start_in(leaf, direction)))
    }
    fn note_turn(&mut self, direction: Direction) {
        if matches!(self.at, At::Leaf { direction: before, .. } | At::End { direction: before, .. } if before != direction)
        {
            self.begin_run();
        }
    }
    /// Copies from `leaf` what fits, and remembers the place. True: the leaf is done and the scan goes on in the next one.
    fn copy(&mut self, leaf: &mut LeafRead<'_>, batch: &mut Batch, direction: Direction, limit: Limit) -> bool {
        batch.leaves.push((leaf.page_no(), leaf.version()));
        let mut slot = leaf.slot();
        let (bound, range_ends) = self.bound_in(leaf, direction);
        match direction {
            Forward => {
                while slot < bound && batch.has_room(limit) {
                    batch.push_whole(leaf.bytes_at(slot), slot as u16);
                    slot += 1;
                }
            }
            Backward => {
                while slot > bound && batch.has_room(limit) {
                    slot -= 1;
                    batch.push_whole(leaf.bytes_at(slot), slot as u16);
                }
            }
        }
        leaf.set_slot(slot);
        let (page, version) = (leaf.page_no(), leaf.version());
        let place = Place { page, version, slot };
        self.at = At::Leaf { place, direction };
        let more_in_leaf = match direction {
            Forward => slot < bound,
            Backward => slot > bound,
        };
        if more_in_leaf {
            return false;
        }
        if range_ends {
            self.end(direction);
        }
        !range_ends && batch.has_room(limit)
    }
    /// Where the range ends (backward: begins) in this leaf, and whether it does. Most leaves lie inside with both fences, so that
    /// no key of theirs is compared with a bound.
    fn bound_in(&self, leaf: &LeafRead<'_>, direction: Direction) -> (usize, bool) {
        match (direction, &self.hi) {
            (Forward, None) => (leaf.len(), false),
            (Forward, Some(hi)) if leaf.upper_fence().is_some_and(|upper| upper < &hi[..]) => (leaf.len(), false),
            (Forward, Some(hi)) => (leaf.search(hi).0.max(leaf.slot()), true),
            (Backward, _) if self.lo[..] < *leaf.lower_fence() => (0, false),
            (Backward, _) => (leaf.search(&self.lo).0.min(leaf.slot()), true),
        }
    }
    fn asked_ahead(&mut self, asked: usize) {
        self.ahead = (self.ahead * 2).min(READ_AHEAD_MAX);
        self.ahead_at = self.crossed + (asked as u32 / 2).max(1);
    }
    /// Asks for the leaves to come. That takes a descent, so the leaf is let go and found again. None: it had changed, and
    /// nothing follows (the place is kept).
    fn read_ahead<'p>(
        &mut self,
        pool: &'p Pool,
        leaf: LeafRead<'p>,
        batch: &Batch,
        direction: Direction,
    ) -> Result<Option<LeafRead<'p>>> {
        drop(leaf);
        self.keep_last(batch);
        let asked = self
            .index
            .tree
            .read_ahead(pool, Some(&self.last), direction == Backward, self.ahead)?;
        self.asked_ahead(asked);
        let leaf = self.resume(pool, direction)?;
        if leaf.is_none() {
            self.end(direction);
        }
        Ok(leaf)
    }
}

/// `seek` names an entry; going backward the border lies above it.
fn start_in(mut leaf: LeafRead<'_>, direction: Direction) -> LeafRead<'_> {
    if direction == Backward {
        leaf.set_slot(leaf.slot() + 1);
    }
    leaf
}
