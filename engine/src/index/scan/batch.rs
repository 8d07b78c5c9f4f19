//! [`Batch`]: the entries that a scan copied, and where each of them stood.
//!
//! Called by: the two ways of a scan, which fill it, and the table layer's cursors, which read it.
use crate::base::{Lsn, PageNo};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    Forward,
    Backward,
}

/// Where an entry stood when it was copied. While the page has this version, the entry and its
/// neighbours in the leaf are unchanged: `Tree::revisit` finds it without a search. Changes may be
/// pending: see `Scan::is_unchanged`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    pub page: PageNo,
    pub version: Lsn,
    pub slot: usize,
}

/// A batch is full when it has this many entries or bytes. The last entry may exceed the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    pub entries: usize,
    pub bytes: usize,
}

/// Copied entries, in one buffer that is reused.
#[derive(Default)]
pub struct Batch {
    bytes: Vec<u8>,
    entries: Vec<Copied>,
    leaves: Vec<(PageNo, Lsn)>,
}

/// For [`Copied::slot`]: the leaf does not hold the entry as it was copied.
const NO_SLOT: u16 = u16::MAX;

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
    /// Key and value.
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

    /// The entries pushed from here on come from this leaf.
    #[inline]
    pub(super) fn begin_leaf(&mut self, page: PageNo, version: Lsn) {
        debug_assert!(self.leaves.len() < u16::MAX as usize, "has_room was asked");
        self.leaves.push((page, version));
    }
    /// `slot` None: a change of the entry is pending.
    #[inline]
    pub(super) fn push(&mut self, key: &[u8], value: &[u8], slot: Option<usize>) {
        debug_assert!(
            slot.is_none_or(|slot| slot < NO_SLOT as usize),
            "a node has fewer slots"
        );
        self.note(key.len(), value.len(), slot.map_or(NO_SLOT, |slot| slot as u16));
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
    }
    /// Key and value in one piece.
    #[inline]
    pub(super) fn push_whole(&mut self, (bytes, key_len): (&[u8], usize), slot: usize) {
        debug_assert!(slot < NO_SLOT as usize, "a node has fewer slots");
        self.note(key_len, bytes.len() - key_len, slot as u16);
        debug_assert!(key_len <= bytes.len(), "the key is the first part of an entry");
        self.bytes.extend_from_slice(bytes);
    }
    #[inline]
    fn note(&mut self, key_len: usize, value_len: usize, slot: u16) {
        debug_assert!(!self.leaves.is_empty(), "an entry comes from a leaf");
        debug_assert!(
            key_len <= u16::MAX as usize && value_len <= u16::MAX as usize,
            "an entry fits a node"
        );
        self.entries.push(Copied {
            at: self.bytes.len() as u32,
            key_len: key_len as u16,
            value_len: value_len as u16,
            slot,
            leaf: self.leaves.len() as u16 - 1,
        });
    }
    #[inline]
    pub(super) fn has_room(&self, limit: Limit) -> bool {
        self.entries.len() < limit.entries && self.bytes.len() < limit.bytes && self.leaves.len() < u16::MAX as usize
    }
}

/// One call of `Scan::fill`: the batch to fill, in which direction, and how far.
pub(super) struct Fill<'b> {
    pub batch: &'b mut Batch,
    pub direction: Direction,
    pub limit: Limit,
}

impl Fill<'_> {
    #[inline]
    pub fn has_room(&self) -> bool {
        self.batch.has_room(self.limit)
    }
    pub fn is_backward(&self) -> bool {
        self.direction == Direction::Backward
    }
}
