//! B+trees over pages. Knows nothing of transactions, rows or pending changes: keys and values are bytes (I8).
//!
//! The root page number never changes (a root split pushes its content down). Every node stores its fence keys
//! [lower, upper): the range its parent routes to it; each descent checks them. Leaves are doubly linked.
//! Writers: optimistic = S down, X on the leaf only; when the leaf has no room (or would become too empty) the caller comes
//! back with [`Intent::Grow`] / [`Intent::Shrink`], which X-latches the path from the root, letting go of the ancestors that
//! cannot be touched. Latches are taken down and left to right (I5).
pub mod build;
pub mod check;
pub mod cursor;
pub mod node;
pub mod overflow;
pub mod shrink;
pub mod split;

use crate::base::{FileId, IndexId, Lsn, PageId, PageNo, Result};
use crate::pool::{Mtr, PageHandle, PageRead, Pool, PAGE_SIZE};

/// Longest key + value a leaf takes: three entries fit in every page. Longer values go to overflow pages (table layer).
pub const ENTRY_MAX: usize = PAGE_SIZE / 3 - 64;
/// Longest key.
pub const KEY_MAX: usize = if PAGE_SIZE >= 16 * 1024 { 3500 } else { PAGE_SIZE / 8 };

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seek {
    First,
    Last,
    /// First entry with key >= / > the given.
    Ge,
    Gt,
    /// Last entry with key <= / < the given.
    Le,
    Lt,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Intent {
    /// Change the leaf in place.
    Leaf,
    /// An entry of this many bytes (key + value) may have to be placed: splits allowed.
    Grow(usize),
    /// An entry may be removed and pages merged.
    Shrink,
}

/// What a change of a leaf came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placed {
    Done,
    /// Nothing was changed: no room under `Intent::Leaf`. Take a new Mtr and come back with `Intent::Grow`.
    NoRoom,
}

/// One tree. Plain data: copies are the same tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    pub file: FileId,
    pub root: PageNo,
    pub index: IndexId,
}

/// An S-latched leaf and an entry in it. `slot == len()` never comes out of `seek`.
pub struct LeafRead<'p> {
    pub(crate) page: PageRead<'p>,
    pub(crate) slot: usize,
}

impl LeafRead<'_> {
    pub fn key(&self) -> &[u8] {
        todo!()
    }
    pub fn value(&self) -> &[u8] {
        todo!()
    }
    pub fn slot(&self) -> usize {
        self.slot
    }
    pub fn set_slot(&mut self, slot: usize) {
        self.slot = slot;
    }
    /// Entries in the leaf.
    pub fn len(&self) -> usize {
        todo!()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    pub fn key_at(&self, _slot: usize) -> &[u8] {
        todo!()
    }
    pub fn value_at(&self, _slot: usize) -> &[u8] {
        todo!()
    }
    pub fn page_no(&self) -> PageNo {
        self.page.id().no
    }
    /// See `PageRead::version`.
    pub fn version(&self) -> Lsn {
        self.page.version()
    }
    pub fn lower_fence(&self) -> &[u8] {
        todo!()
    }
    /// None = the rightmost leaf.
    pub fn upper_fence(&self) -> Option<&[u8]> {
        todo!()
    }
    pub fn right(&self) -> Option<PageNo> {
        todo!()
    }
}

/// An X-latched leaf inside an Mtr and the place of a key in it.
#[derive(Clone, Debug)]
pub struct LeafWrite {
    pub page: PageHandle,
    pub slot: usize,
    /// The entry at `slot` has the key looked for; else `slot` is where it would be inserted.
    pub found: bool,
    /// X-latched ancestors still held (Grow, Shrink), root first.
    pub(crate) path: Vec<PageHandle>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct TreeStats {
    pub leaf_pages: u64,
    pub inner_pages: u64,
    pub height: u32,
}

impl Tree {
    /// Allocates and formats an empty root leaf.
    pub fn create(_mtr: &mut Mtr<'_>, _file: FileId, _index: IndexId) -> Result<Tree> {
        todo!()
    }
    /// The entry that `seek` names, its leaf S-latched; crosses leaf borders, skips empty leaves. None: there is none.
    pub fn seek<'p>(&self, _pool: &'p Pool, _seek: Seek, _key: &[u8]) -> Result<Option<LeafRead<'p>>> {
        todo!()
    }
    /// Exact match.
    pub fn get<'p>(&self, _pool: &'p Pool, _key: &[u8]) -> Result<Option<LeafRead<'p>>> {
        todo!()
    }
    /// The first entry of the next leaf to the right (skipping empty ones), latched before `leaf` is let go. Used by scans; also
    /// prefetches the leaves that follow when `read_ahead`.
    pub fn next_leaf<'p>(
        &self,
        _pool: &'p Pool,
        _leaf: LeafRead<'p>,
        _read_ahead: bool,
    ) -> Result<Option<LeafRead<'p>>> {
        todo!()
    }
    /// The last entry of the next leaf to the left: lets go and descends again by the lower fence (latches go left to right only).
    pub fn prev_leaf<'p>(&self, _pool: &'p Pool, _leaf: LeafRead<'p>) -> Result<Option<LeafRead<'p>>> {
        todo!()
    }
    /// Re-latches a leaf remembered by (page, version): Some if it is resident and unchanged since.
    pub fn revisit<'p>(&self, _pool: &'p Pool, _page: PageNo, _version: Lsn, _slot: usize) -> Option<LeafRead<'p>> {
        todo!()
    }
    /// The X-latched leaf that owns `key`. `hint`: a leaf (page, version) to try first under Intent::Leaf.
    pub fn leaf_for_write(
        &self,
        _mtr: &mut Mtr<'_>,
        _key: &[u8],
        _intent: Intent,
        _hint: Option<PageNo>,
    ) -> Result<LeafWrite> {
        todo!()
    }
    pub fn key<'m>(&self, _mtr: &'m Mtr<'_>, _at: &LeafWrite) -> &'m [u8] {
        todo!()
    }
    pub fn value<'m>(&self, _mtr: &'m Mtr<'_>, _at: &LeafWrite) -> &'m [u8] {
        todo!()
    }
    /// Would `insert`/`set_value` succeed without a split? (Grow: always true.) Ask before anything else is written in the Mtr.
    pub fn has_room(&self, _mtr: &Mtr<'_>, _at: &LeafWrite, _key_len: usize, _value_len: usize) -> bool {
        todo!()
    }
    /// Inserts at `at` (not found). Splits under Grow. Allocation failure (`Error::Full`) comes before any change.
    pub fn insert(&self, _mtr: &mut Mtr<'_>, _at: &LeafWrite, _key: &[u8], _value: &[u8]) -> Result<Placed> {
        todo!()
    }
    /// New value for the entry at `at` (found). Logs only the bytes that differ when the length stays.
    pub fn set_value(&self, _mtr: &mut Mtr<'_>, _at: &LeafWrite, _value: &[u8]) -> Result<Placed> {
        todo!()
    }
    /// Overwrites part of the value at `at`: `offset + data.len() <= value length`.
    pub fn patch_value(&self, _mtr: &mut Mtr<'_>, _at: &LeafWrite, _offset: usize, _data: &[u8]) {
        todo!()
    }
    /// Removes the entry at `at` (found). Under Shrink merges an under-full leaf with a neighbour of the same parent.
    /// Returns true if the leaf is now so empty that a caller under Intent::Leaf should come back with `shrink`.
    pub fn remove(&self, _mtr: &mut Mtr<'_>, _at: &LeafWrite) -> Result<bool> {
        todo!()
    }
    /// Merges the leaf that owns `key` with a neighbour if it is under-full. An Mtr of its own.
    pub fn shrink(&self, _pool: &Pool, _key: &[u8]) -> Result<()> {
        todo!()
    }
    /// Frees all pages, in bounded Mtrs; the root last. Restartable.
    pub fn free_all(&self, _pool: &Pool) -> Result<()> {
        todo!()
    }
    /// Exact: walks the inner level above the leaves.
    pub fn stats(&self, _pool: &Pool) -> Result<TreeStats> {
        todo!()
    }
    /// Estimated number of entries in [lo, hi); None = open. Two descents and interpolation per level, at most a few leaves read.
    pub fn estimate_range(&self, _pool: &Pool, _lo: Option<&[u8]>, _hi: Option<&[u8]>) -> Result<u64> {
        todo!()
    }
    /// A leaf reached by random child choices.
    pub fn random_leaf<'p>(&self, _pool: &'p Pool) -> Result<Option<LeafRead<'p>>> {
        todo!()
    }
    pub fn page_id(&self, no: PageNo) -> PageId {
        PageId::new(self.file, no)
    }
}
