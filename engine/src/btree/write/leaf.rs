//! [`LeafWrite`]: an X-latched leaf inside an Mtr, and the changes of its entries.
//!
//! Made by `latch`. A change that has no room splits the leaf (`split`). A removal that leaves the
//! leaf sparse merges it (`merge_nodes`). Both need an intent that latched the path. Called by:
//! `change`, and `table` for clustered indexes.
use super::merge_nodes::{merge_up, sparseness, Sparse};
use super::split::{Item, SplitPlan};
use crate::base::{Error, PageNo, Result};
use crate::btree::node::edit::{self, MtrPage};
use crate::btree::node::Node;
use crate::btree::read::descent::To;
use crate::btree::tree::Tree;
use crate::pool::{Mtr, PageHandle};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Intent {
    /// Change the leaf in place.
    Leaf,
    /// Place an entry of this many bytes (key + value): splits are allowed.
    Grow(usize),
    /// Remove an entry: merges of nodes are allowed.
    Merge,
}

/// What a change of a leaf came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placed {
    Done,
    /// Nothing was changed: the leaf has no room, and the intent allows no split. The caller starts
    /// a new Mtr and comes back with `Intent::Grow`.
    NoRoom,
}

/// An X-latched leaf inside an Mtr and the place of a key in it. Two changes keep it valid:
/// `set_value` that returned `Done` under `Intent::Leaf`, and `patch_value`. After any other change
/// of the leaf it is stale.
#[derive(Clone, Debug)]
pub struct LeafWrite {
    pub page: PageHandle,
    pub slot: usize,
    /// The entry at `slot` has the key looked for; else `slot` is where it would be inserted.
    pub found: bool,
    pub(crate) tree: Tree,
    /// X-latched ancestors still held (Grow, Merge), root first.
    pub(crate) path: Vec<PageHandle>,
    pub(crate) intent: Intent,
}

impl LeafWrite {
    /// The place of `key` in an X-latched leaf that owns it.
    pub(super) fn of(tree: &Tree, mtr: &Mtr<'_>, page: PageHandle, key: &[u8]) -> Result<LeafWrite> {
        let node = Node::new(mtr.bytes(page));
        debug_assert!(
            node.belongs_to(tree.index) && node.level() == 0,
            "it is a leaf of the tree"
        );
        let (slot, found) = tree.nodes().search_leaf(node, mtr.id(page).no, To::Key(key))?;
        Ok(LeafWrite {
            page,
            slot,
            found,
            tree: *tree,
            path: Vec::new(),
            intent: Intent::Leaf,
        })
    }
    #[inline]
    fn node<'m>(&self, mtr: &'m Mtr<'_>) -> Node<'m> {
        Node::new(mtr.bytes(self.page))
    }
    pub fn key<'m>(&self, mtr: &'m Mtr<'_>) -> &'m [u8] {
        self.node(mtr).key(self.slot)
    }
    pub fn value<'m>(&self, mtr: &'m Mtr<'_>) -> &'m [u8] {
        self.node(mtr).value(self.slot)
    }
    /// Key and value of the entry in any slot of the leaf.
    pub fn entry<'m>(&self, mtr: &'m Mtr<'_>, slot: usize) -> (&'m [u8], &'m [u8]) {
        self.node(mtr).entry(slot)
    }
    /// First slot with a key >= `key` (any key), and whether it is equal.
    pub fn search(&self, mtr: &Mtr<'_>, key: &[u8]) -> (usize, bool) {
        self.node(mtr).search(key)
    }
    /// Entries in the leaf.
    pub fn entries(&self, mtr: &Mtr<'_>) -> usize {
        self.node(mtr).len()
    }
    /// Bytes that can still be placed in the leaf.
    pub fn free(&self, mtr: &Mtr<'_>) -> usize {
        self.node(mtr).free()
    }
    /// The range that the leaf owns; None = no bound.
    pub fn fences<'m>(&self, mtr: &'m Mtr<'_>) -> (&'m [u8], Option<&'m [u8]>) {
        let node = self.node(mtr);
        (node.lower_fence(), node.upper_fence())
    }
    /// The place is after all entries of the leaf.
    pub fn is_at_end(&self, mtr: &Mtr<'_>) -> bool {
        self.slot == self.node(mtr).len()
    }
    /// `insert` or `set_value` will return `Done` (Grow: always). Valid while the Mtr has changed
    /// nothing.
    pub fn has_room(&self, mtr: &Mtr<'_>, key_len: usize, value_len: usize) -> bool {
        let node = self.node(mtr);
        match self.intent {
            Intent::Grow(_) => true,
            _ if self.found => edit::value_fits(node, self.slot, value_len),
            _ => node.has_room(key_len, value_len),
        }
    }

    /// Inserts an entry here (not found). Splits under Grow. After a split the Mtr holds space
    /// latches: it must latch no tree or undo page any more. A failed allocation (`Error::Full`)
    /// comes before any change.
    pub fn insert(&self, mtr: &mut Mtr<'_>, key: &[u8], value: &[u8]) -> Result<Placed> {
        assert!(!self.found, "insert goes where the key is not");
        assert!(
            key.len() <= self.tree.key_max() && key.len() + value.len() <= self.tree.entry_max(),
            "the table layer keeps entries small enough"
        );
        let node = self.node(mtr);
        debug_assert!(
            node.owns(key) && node.search(key) == (self.slot, false),
            "the leaf owns the key, and lacks it"
        );
        if node.has_room(key.len(), value.len()) {
            edit::insert(&mut MtrPage { mtr, page: self.page }, self.slot, key, value);
            return Ok(Placed::Done);
        }
        let replace = false;
        self.place_or_refuse(
            mtr,
            Item {
                slot: self.slot,
                key,
                value,
                replace,
            },
        )
    }
    /// Sets the value of the entry here (found). A value of the same length logs only the bytes
    /// that differ.
    pub fn set_value(&self, mtr: &mut Mtr<'_>, value: &[u8]) -> Result<Placed> {
        assert!(self.found, "there is an entry to change");
        let node = self.node(mtr);
        assert!(
            node.key(self.slot).len() + value.len() <= self.tree.entry_max(),
            "the table layer keeps entries small enough"
        );
        if edit::value_fits(node, self.slot, value.len()) {
            edit::set_value(&mut MtrPage { mtr, page: self.page }, self.slot, value);
            return Ok(Placed::Done);
        }
        let key = node.key(self.slot).to_vec();
        let (slot, replace) = (self.slot, true);
        self.place_or_refuse(
            mtr,
            Item {
                slot,
                key: &key,
                value,
                replace,
            },
        )
    }
    fn place_or_refuse(&self, mtr: &mut Mtr<'_>, item: Item<'_>) -> Result<Placed> {
        if !matches!(self.intent, Intent::Grow(_)) {
            return Ok(Placed::NoRoom);
        }
        let plan = SplitPlan::new(self.tree, mtr, self.page, &self.path, item);
        let near = mtr.id(self.page).no;
        let pages = self.tree.nodes().allocate(mtr, near, plan.pages_needed(mtr))?;
        plan.carry_out(mtr, &pages, item.value)?;
        Ok(Placed::Done)
    }
    /// Overwrites part of the value here: `offset + data.len() <= value length`.
    pub fn patch_value(&self, mtr: &mut Mtr<'_>, offset: usize, data: &[u8]) {
        assert!(self.found, "there is an entry to change");
        let node = self.node(mtr);
        assert!(
            offset + data.len() <= node.value_len(self.slot),
            "a patch stays inside the value"
        );
        let value_at = node.value_at(self.slot);
        edit::edit_difference(&mut MtrPage { mtr, page: self.page }, value_at + offset, data);
    }
    /// Removes the entry here (found). Under Merge it merges a sparse leaf with a neighbour of the
    /// same parent; the Mtr then holds space latches, as after a split.
    ///
    /// True: the leaf became so empty that a caller under another intent should call
    /// `Tree::merge_nodes`. A removal returns true when it crosses a threshold, not each time below
    /// it: a leaf that cannot be merged costs few attempts.
    pub fn remove(&self, mtr: &mut Mtr<'_>) -> Result<bool> {
        assert!(self.found, "there is an entry to remove");
        let before = sparseness(self.node(mtr));
        edit::remove(&mut MtrPage { mtr, page: self.page }, self.slot);
        let after = sparseness(self.node(mtr));
        if mtr.id(self.page).no == self.tree.root || after == Sparse::No {
            return Ok(false);
        }
        if self.intent == Intent::Merge {
            merge_up(self.tree, mtr, &self.path, self.page)?;
            return Ok(false);
        }
        Ok(before != after)
    }
    /// Removes the entries in the slots [from, to). True: the leaf is empty now, and the caller
    /// should call `Tree::merge_nodes`.
    pub fn remove_run(&self, mtr: &mut Mtr<'_>, from: usize, to: usize) -> bool {
        edit::remove_run(&mut MtrPage { mtr, page: self.page }, from, to);
        self.node(mtr).is_empty() && mtr.id(self.page).no != self.tree.root
    }

    /// X-latches the right neighbour; waits for it (left to right, I5). None: this is the last
    /// leaf.
    pub fn next_leaf(&self, mtr: &mut Mtr<'_>) -> Result<Option<LeafWrite>> {
        let node = self.node(mtr);
        let (Some(no), Some(upper)) = (node.right(), node.upper_fence().map(<[u8]>::to_vec)) else {
            return Ok(None);
        };
        let page = self.tree.nodes().latch(mtr, no)?;
        let node = Node::new(mtr.bytes(page));
        if !node.belongs_to(self.tree.index) || node.level() != 0 || node.lower_fence() != upper {
            return Err(self.not_next(no));
        }
        Ok(Some(LeafWrite::of(&self.tree, mtr, page, &upper)?))
    }
    #[cold]
    fn not_next(&self, no: PageNo) -> Error {
        let what = "its left neighbour points to it, but it is not the next leaf of this index";
        self.tree.nodes().corrupt(no, what)
    }
}
