//! B+trees over pages. Knows nothing of transactions, rows or pending changes: keys and values are bytes (I8).
//!
//! The root page number never changes (a root split pushes its content down). Every node stores its fence keys
//! [lower, upper): the range its parent routes to it; each descent checks them. Nodes of a level are linked to the right;
//! there are no left links (a step to the left descends again by the lower fence), so splits and merges touch no third page.
//! Writers: optimistic = S down, X on the leaf only; when the leaf has no room (or would become too empty) the caller comes
//! back with [`Intent::Grow`] / [`Intent::Shrink`], which X-latches the path from the root, letting go of the ancestors that
//! cannot be touched. Latches are taken down and left to right (I5).
//!
//! Reading order: `node` (the format), `edit` (changes of one node), `descend`, `cursor` (reading), `write`, `run`, `split`, `spread`, `shrink`,
//! `strip`, `wide`, then `build`, `bulk` with `extents`, `estimate`, `check`, `overflow`.
pub mod build;
pub mod bulk;
pub mod check;
pub mod cursor;
mod descend;
mod edit;
mod estimate;
pub mod extents;
mod free;
pub mod leaf_map;
mod node;
pub mod overflow;
mod run;
mod shrink;
mod split;
mod spread;
pub mod strip;
mod wide;
mod write;

#[cfg(test)]
pub(crate) mod tests;

use crate::base::{FileId, IndexId, Lsn, PageId, PageNo, Result};
use crate::pool::{Mtr, PageHandle, PageRead, Pool, PAGE_SIZE};
use crate::space;
pub use node::{check_body, leaf_entries};
use node::{write_node, NewNode, Node, NO_SLOT};
pub use run::RememberedLeaf;
pub use wide::{WIDE_BIT, WIDE_ENTRY_MAX, WIDE_KEY_MAX};

/// Longest key; of wide trees [`WIDE_KEY_MAX`].
pub const KEY_MAX: usize = if PAGE_SIZE >= 16 * 1024 { 3500 } else { PAGE_SIZE / 8 };
/// Longest key + value a leaf takes. Chosen so that one split always makes room: with the split nearest to the middle each half
/// has at most (capacity + entry) / 2 bytes besides half an entry and a new fence, so entry + key must fit in half a
/// page. Longer values go to overflow pages (table layer).
pub const ENTRY_MAX: usize = {
    let third = PAGE_SIZE / 3 - 64;
    let split = PAGE_SIZE / 2 - KEY_MAX - 64;
    if third < split {
        third
    } else {
        split
    }
};

/// What an entry takes of its leaf beside key and value.
pub const ENTRY_OVERHEAD: usize = node::OVERHEAD;

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
    #[inline]
    fn node(&self) -> Node<'_> {
        Node::new(&self.page)
    }
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.node().key(self.slot)
    }
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.node().value(self.slot)
    }
    pub fn slot(&self) -> usize {
        self.slot
    }
    pub fn set_slot(&mut self, slot: usize) {
        self.slot = slot;
    }
    /// Entries in the leaf.
    #[inline]
    pub fn len(&self) -> usize {
        self.node().len()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    #[inline]
    pub fn key_at(&self, slot: usize) -> &[u8] {
        self.node().key(slot)
    }
    #[inline]
    pub fn value_at(&self, slot: usize) -> &[u8] {
        self.node().value(slot)
    }
    /// Key and value, cheaper than one after the other.
    #[inline]
    pub fn entry_at(&self, slot: usize) -> (&[u8], &[u8]) {
        self.node().entry(slot)
    }
    /// Key and value in one piece, and the length of the key.
    #[inline]
    pub fn bytes_at(&self, slot: usize) -> (&[u8], usize) {
        self.node().entry_bytes(slot)
    }
    /// First slot of this leaf with a key >= `key` (any key), and whether it is equal.
    pub fn search(&self, key: &[u8]) -> (usize, bool) {
        self.node().search(key)
    }
    pub fn page_no(&self) -> PageNo {
        self.page.id().no
    }
    /// See `PageRead::version`.
    pub fn version(&self) -> Lsn {
        self.page.version()
    }
    pub fn lower_fence(&self) -> &[u8] {
        self.node().lower_fence()
    }
    /// None = the rightmost leaf.
    pub fn upper_fence(&self) -> Option<&[u8]> {
        self.node().upper_fence()
    }
    pub fn right(&self) -> Option<PageNo> {
        self.node().right()
    }
}

/// An X-latched leaf inside an Mtr and the place of a key in it. Stale after a change of the leaf other than `set_value` and
/// `patch_value` that returned `Done` under `Intent::Leaf`.
#[derive(Clone, Debug)]
pub struct LeafWrite {
    pub page: PageHandle,
    pub slot: usize,
    /// The entry at `slot` has the key looked for; else `slot` is where it would be inserted.
    pub found: bool,
    /// X-latched ancestors still held (Grow, Shrink), root first.
    pub(crate) path: Vec<PageHandle>,
    pub(crate) intent: Intent,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeStats {
    pub leaf_pages: u64,
    pub inner_pages: u64,
    pub height: u32,
}

impl Tree {
    /// Allocates and formats an empty root leaf.
    pub fn create(mtr: &mut Mtr<'_>, file: FileId, index: IndexId) -> Result<Tree> {
        let tree = Tree { file, root: 0, index };
        let root = tree.allocate(mtr, 0, 1)?[0];
        Tree::format(mtr, file, root, index)
    }
    /// Several at once: all of them, or (`Error::Full`) nothing is changed. A wide one comes alone.
    pub fn create_many(mtr: &mut Mtr<'_>, file: FileId, indexes: &[IndexId]) -> Result<Vec<Tree>> {
        if let [index] = indexes {
            return Ok(vec![Tree::create(mtr, file, *index)?]);
        }
        assert!(indexes.iter().all(|index| index & WIDE_BIT == 0));
        let roots = space::allocate_many(mtr, file, 0, indexes.len())?;
        let make = |(root, index): (&PageNo, &IndexId)| Tree::format(mtr, file, *root, *index);
        roots.iter().zip(indexes).map(make).collect()
    }
    fn format(mtr: &mut Mtr<'_>, file: FileId, root: PageNo, index: IndexId) -> Result<Tree> {
        let tree = Tree { file, root, index };
        let page = tree.create_node(mtr, root, 0)?;
        let empty = NewNode {
            level: 0,
            lower: &[],
            upper: None,
            right: 0,
            items: &[],
            last: NO_SLOT,
        };
        mtr.rewrite(page, &mut |bytes| write_node(bytes, &empty));
        Ok(tree)
    }
    pub fn page_id(&self, no: PageNo) -> PageId {
        PageId::new(self.file, no)
    }
    /// S-latches a page of the tree. A page that cannot be read says nothing of whose it is: the error names the index.
    #[inline]
    fn read<'p>(&self, pool: &'p Pool, no: PageNo) -> Result<PageRead<'p>> {
        let mut page = pool
            .read(self.page_id(no))
            .map_err(|e| e.in_index(self.file, self.index))?;
        if self.is_wide() {
            self.join_read(pool, &mut page)?;
        }
        Ok(page)
    }
    /// X-latches one.
    #[inline]
    fn latch(&self, mtr: &mut Mtr<'_>, no: PageNo) -> Result<PageHandle> {
        let page = mtr
            .write(self.page_id(no))
            .map_err(|e| e.in_index(self.file, self.index))?;
        if self.is_wide() {
            self.join_write(mtr, page)?;
        }
        Ok(page)
    }
}

/// A new Mtr for changes, once the log has room for them. No latch is held.
pub(crate) fn begin(pool: &Pool) -> Result<Mtr<'_>> {
    pool.redo().reserve_to_go_on()?;
    Ok(pool.begin())
}
