//! A base leaf and what is pending for it, read as one run of entries (I3). Point and prefix reads
//! are built on such runs.
//!
//! A reader of a secondary index latches the base leaf (S). While it holds the latch it collects
//! what is pending for its part of the range. A merge needs the X latch of the same leaf. So a
//! reader meets an entry in the base tree or in the delta tree, never in both or in neither. An
//! entry that is appended meanwhile may be met or not. It is the change of a transaction that the
//! reader does not wait for.
//!
//! Latches: the base leaf, then (inside `Delta::pending_in`) leaves of the delta tree. With nothing
//! pending in the index each function here costs one load. Called by: `index::scan`, the table
//! layer, `check`.
use crate::base::bytes::prefix_successor;
use crate::base::sync::holds_no_latch;
use crate::base::Result;
use crate::btree::{LeafRead, Seek};
use crate::change::delta::{Delta, Pending};
use crate::change::IndexTrees;
use crate::pool::Pool;
use std::ops::Range;

/// Walks a part of one leaf, in either direction. Buffers are kept from leaf to leaf.
#[derive(Default)]
pub struct Merging {
    pending: Pending,
    /// Base slots and pending keys still to come.
    slots: Range<usize>,
    keys: Range<usize>,
    /// Where `start_some` stopped short of the range's end: the first base slot that was left
    /// (backward: the last taken).
    cut: Option<usize>,
    /// A unique value: entries of other values need not be right.
    only: Option<Vec<u8>>,
    value: Vec<u8>,
}

/// A range of keys, [lo, hi), and the direction of the scan.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    pub lo: &'a [u8],
    pub hi: Option<&'a [u8]>,
    pub backward: bool,
}

/// An entry with everything applied.
pub struct Merged<'a> {
    pub key: &'a [u8],
    pub value: &'a [u8],
    /// Slot in the base leaf; None: something is pending for the key.
    pub slot: Option<usize>,
}

/// Where the next entry comes from.
enum From {
    Base(usize),
    Pending(usize),
}

impl Merging {
    /// Collects what is pending in the part of [lo, hi) that `leaf` owns.
    pub fn start(
        &mut self,
        pool: &Pool,
        delta: &Delta,
        leaf: &LeafRead<'_>,
        lo: &[u8],
        hi: Option<&[u8]>,
    ) -> Result<()> {
        let run = Run {
            lo,
            hi,
            backward: false,
        };
        self.start_some(pool, delta, leaf, run, usize::MAX).map(|_| ())
    }
    /// As `start`, of the part's first `most` base entries and what is pending among them. If that
    /// is not all, `cut` tells where it ends. Returns the expected number of keys with something
    /// pending in the whole part.
    pub fn start_some(
        &mut self,
        pool: &Pool,
        delta: &Delta,
        leaf: &LeafRead<'_>,
        run: Run<'_>,
        most: usize,
    ) -> Result<usize> {
        let mut lo = run.lo.max(leaf.lower_fence());
        let (to, mut hi) = match (leaf.upper_fence(), run.hi) {
            (Some(upper), Some(hi)) if hi < upper => (leaf.search(hi).0, Some(hi)),
            (None, Some(hi)) => (leaf.search(hi).0, Some(hi)),
            (upper, _) => (leaf.len(), upper),
        };
        let from = leaf.search(lo).0;
        debug_assert!(to <= leaf.len() && most > 0, "slots of the leaf, and some of them");
        self.slots = from..to.max(from);
        let all = self.slots.len();
        self.cut = None;
        if all > most {
            let cut = if run.backward {
                self.slots.end - most
            } else {
                from + most
            };
            self.cut = Some(cut);
            if run.backward {
                self.slots.start = cut;
                lo = leaf.key_at(cut);
            } else {
                self.slots.end = cut;
                hi = Some(leaf.key_at(cut));
            }
        }
        debug_assert!(
            self.slots.len() <= most,
            "a part has no more base entries than were asked for"
        );
        self.keys = 0..0;
        delta.pending_of(pool, lo, hi, self.only.as_deref(), &mut self.pending)?;
        self.keys = 0..self.pending.len();
        Ok(match self.cut {
            None => self.keys.len(),
            Some(_) => self.keys.len() * all / self.slots.len(),
        })
    }
    pub fn cut(&self) -> Option<usize> {
        self.cut
    }
    /// The next entry from the front of what is still to come (`backward`: from its end). `leaf` is
    /// the one given to `start`, latched since.
    pub fn next<'a>(&'a mut self, leaf: &'a LeafRead<'_>, backward: bool) -> Result<Option<Merged<'a>>> {
        Ok(match self.step(leaf, backward)? {
            None => None,
            Some(From::Base(slot)) => {
                let (key, value) = leaf.entry_at(slot);
                let slot = Some(slot);
                Some(Merged { key, value, slot })
            }
            Some(From::Pending(i)) => Some(Merged {
                key: self.pending.key(i),
                value: &self.value,
                slot: None,
            }),
        })
    }
    fn step(&mut self, leaf: &LeafRead<'_>, backward: bool) -> Result<Option<From>> {
        while !self.keys.is_empty() {
            let i = if backward { self.keys.end - 1 } else { self.keys.start };
            let mut base = None;
            if !self.slots.is_empty() {
                let slot = if backward { self.slots.end - 1 } else { self.slots.start };
                let order = leaf.key_at(slot).cmp(self.pending.key(i));
                if order.is_eq() {
                    base = Some(leaf.value_at(slot));
                    take(&mut self.slots, backward);
                } else if order.is_lt() != backward {
                    take(&mut self.slots, backward);
                    return Ok(Some(From::Base(slot)));
                }
            }
            take(&mut self.keys, backward);
            if self.pending.evaluate(i, base, &mut self.value)? {
                return Ok(Some(From::Pending(i)));
            }
        }
        Ok(take(&mut self.slots, backward).map(From::Base))
    }
    /// The border between base entries that were met and those that were not: the first slot to
    /// come; `backward`: one above it.
    pub fn border(&self, backward: bool) -> usize {
        if backward {
            self.slots.end
        } else {
            self.slots.start
        }
    }
    pub fn first_pending_key(&self) -> Option<&[u8]> {
        (!self.pending.is_empty()).then(|| self.pending.key(0))
    }
}

fn take(range: &mut Range<usize>, backward: bool) -> Option<usize> {
    if backward {
        range.next_back()
    } else {
        range.next()
    }
}

/// The delta tree, if there may be something in it.
#[inline]
pub fn in_use(index: &IndexTrees) -> Option<&Delta> {
    index.delta.as_deref().filter(|delta| !delta.is_empty())
}

/// Copies the value of the entry `key` into `value`. False: there is no such entry. Called with no
/// latch held.
pub fn get(pool: &Pool, index: &IndexTrees, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
    debug_assert!(
        holds_no_latch(),
        "I5: a base leaf is latched before leaves of the delta tree"
    );
    let leaf = index.tree.leaf_owning(pool, key)?;
    // The filter is asked under the latch: from here on no merge of this leaf takes anything out.
    if let Some(delta) = in_use(index).filter(|delta| delta.maybe_pending(key)) {
        let behind = [key, &[0]].concat();
        let mut merging = Merging::default();
        merging.start(pool, delta, &leaf, key, Some(&behind))?;
        let found = merging.next(&leaf, false)?;
        debug_assert!(
            found.as_ref().is_none_or(|found| found.key == key),
            "the range has room for one key"
        );
        return Ok(found.is_some_and(|found| copy(found.value, value)));
    }
    let there = leaf.slot() < leaf.len() && leaf.key() == key;
    Ok(there && copy(leaf.value(), value))
}
fn copy(from: &[u8], to: &mut Vec<u8>) -> bool {
    to.clear();
    to.extend_from_slice(from);
    true
}

/// Takes (key, value); false ends the visit.
pub type Visitor<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<bool>;

/// Calls `each` with every entry whose key begins with `prefix`, in order, until it returns false.
/// `each` runs under latches.
pub fn visit_prefix(pool: &Pool, index: &IndexTrees, prefix: &[u8], each: Visitor<'_>) -> Result<()> {
    visit_prefix_from(pool, index, prefix, prefix, each)
}
/// The same, of those alone that are not below `from`, which begins with `prefix`.
pub fn visit_prefix_from(pool: &Pool, index: &IndexTrees, prefix: &[u8], from: &[u8], each: Visitor<'_>) -> Result<()> {
    debug_assert!(from.starts_with(prefix), "the visit begins inside its range");
    debug_assert!(
        holds_no_latch(),
        "I5: a base leaf is latched before leaves of the delta tree"
    );
    if let Some(delta) = in_use(index) {
        return visit_merged(pool, index, delta, (prefix, from), Merging::default(), each);
    }
    let mut leaf = index.tree.seek(pool, Seek::Ge, from)?;
    while let Some(at) = leaf {
        for slot in at.slot()..at.len() {
            let (key, value) = at.entry_at(slot);
            if !key.starts_with(prefix) || !each(key, value)? {
                return Ok(());
            }
        }
        leaf = index.tree.next_leaf(pool, at)?;
    }
    Ok(())
}
/// Calls `each` with every entry of a unique value, as `visit_prefix`. Entries of values that begin
/// with it may come too, as they are or as they were. Partitions that have nothing for the value
/// are not read.
pub fn visit_value(pool: &Pool, index: &IndexTrees, value: &[u8], each: Visitor<'_>) -> Result<()> {
    let Some(delta) = in_use(index) else {
        return visit_prefix(pool, index, value, each);
    };
    let merging = Merging {
        only: Some(value.to_vec()),
        ..Merging::default()
    };
    visit_merged(pool, index, delta, (value, value), merging, each)
}
fn visit_merged(
    pool: &Pool,
    index: &IndexTrees,
    delta: &Delta,
    (prefix, from): (&[u8], &[u8]),
    mut merging: Merging,
    each: Visitor<'_>,
) -> Result<()> {
    let end = prefix_successor(prefix);
    let mut leaf = index.tree.leaf_owning(pool, from)?;
    loop {
        merging.start(pool, delta, &leaf, from, end.as_deref())?;
        while let Some(found) = merging.next(&leaf, false)? {
            debug_assert!(
                found.key >= from && end.as_deref().is_none_or(|end| found.key < end),
                "a visit keeps to its range"
            );
            if !each(found.key, found.value)? {
                return Ok(());
            }
        }
        let ends_here = match (leaf.upper_fence(), &end) {
            (Some(upper), Some(end)) => end[..] <= *upper,
            _ => false,
        };
        if ends_here {
            return Ok(());
        }
        match index.tree.step_right(pool, leaf)? {
            Some(right) => leaf = right,
            None => return Ok(()),
        }
    }
}
