//! Changing a leaf: find and X-latch it, then insert, set, patch, remove.
//!
//! Latches: under `Intent::Leaf` S coupling down to the level above the leaves, then X on the leaf while its parent is still
//! S-latched. Under `Grow` and `Shrink` X from the root, letting go of every ancestor above a node that the change cannot get past.
//! Called by `change` and by the table layer for clustered indexes.
use super::descend::To;
use super::edit::{self, MtrPage};
use super::node::{item_size, Node, OVERHEAD};
use super::shrink::{sparseness, Sparse};
use super::split::Item;
use super::{Intent, LeafWrite, Placed, Tree};
use crate::base::{PageId, PageNo, Result};
use crate::pool::{Mtr, PageHandle, PageRead};

/// A page on the way down: S-latched, or one that the Mtr holds already.
enum Step<'p> {
    Shared(PageRead<'p>),
    Own(PageHandle),
}

impl<'p> Step<'p> {
    #[inline]
    fn read(mtr: &Mtr<'p>, tree: &Tree, no: PageNo) -> Result<Step<'p>> {
        Ok(match mtr.find(tree.page_id(no)) {
            Some(page) => Step::Own(page),
            None => Step::Shared(tree.read(mtr.pool(), no)?),
        })
    }
    #[inline]
    fn node<'a>(&'a self, mtr: &'a Mtr<'p>) -> Node<'a> {
        match self {
            Step::Shared(page) => Node::new(page),
            Step::Own(page) => Node::new(mtr.bytes(*page)),
        }
    }
}

impl Tree {
    /// The X-latched leaf that owns `key`. `hint`: a leaf to try first under Intent::Leaf.
    ///
    /// An Mtr that already holds pages of this tree may come again only while nobody else writes to the tree (the catalog's
    /// tree under its mutex): the way down starts at the root, against the latch order.
    pub fn leaf_for_write(
        &self,
        mtr: &mut Mtr<'_>,
        key: &[u8],
        intent: Intent,
        hint: Option<PageNo>,
    ) -> Result<LeafWrite> {
        let (page, path) = match intent {
            Intent::Leaf => match hint.and_then(|no| self.try_hint(mtr, key, no)) {
                Some(page) => (page, Vec::new()),
                None => {
                    let page = self.descend_to_leaf(mtr, key, &|_| true)?;
                    (page.expect("every leaf is wanted"), Vec::new())
                }
            },
            Intent::Grow(bytes) => self.descend_path(mtr, key, |node, _| {
                if node.level() == 0 {
                    OVERHEAD + bytes <= node.free()
                } else {
                    item_size(self.key_max(), 4) <= node.free()
                }
            })?,
            Intent::Shrink => self.descend_path(mtr, key, |node, child| {
                super::shrink::is_safe(node, child, self.entry_max())
            })?,
        };
        let (slot, found) = self.search_leaf(Node::new(mtr.bytes(page)), mtr.id(page).no, To::Key(key))?;
        Ok(LeafWrite {
            page,
            slot,
            found,
            path,
            intent,
        })
    }
    /// The leaf that owns `key`, X-latched for `Intent::Leaf`, if it is `wanted`; asked before it is read. (A root that is a leaf is taken unasked.)
    pub fn leaf_if(&self, mtr: &mut Mtr<'_>, key: &[u8], wanted: &dyn Fn(PageId) -> bool) -> Result<Option<LeafWrite>> {
        let Some(page) = self.descend_to_leaf(mtr, key, wanted)? else {
            return Ok(None);
        };
        Ok(Some(self.leaf_write(mtr, page, key)?))
    }
    /// The place of `key` in an X-latched leaf that owns it.
    pub(super) fn leaf_write(&self, mtr: &Mtr<'_>, page: PageHandle, key: &[u8]) -> Result<LeafWrite> {
        let (slot, found) = self.search_leaf(Node::new(mtr.bytes(page)), mtr.id(page).no, To::Key(key))?;
        Ok(LeafWrite {
            page,
            slot,
            found,
            path: Vec::new(),
            intent: Intent::Leaf,
        })
    }
    /// The remembered leaf, if it is still the one that owns `key`. Whatever the page has become meanwhile is told by its header and fences.
    fn try_hint(&self, mtr: &mut Mtr<'_>, key: &[u8], no: PageNo) -> Option<PageHandle> {
        let id = self.page_id(no);
        if mtr.find(id).is_some() {
            return None;
        }
        let page = mtr.write_resident(id).ok()??;
        let node = Node::new(mtr.bytes(page));
        let is_leaf = node.belongs_to(self.index) && node.level() == 0;
        let whole = is_leaf && self.join_write(mtr, page).is_ok();
        if whole && Node::new(mtr.bytes(page)).owns(key) {
            return Some(page);
        }
        mtr.release(page);
        None
    }
    /// None: the leaf is not `wanted`.
    fn descend_to_leaf(
        &self,
        mtr: &mut Mtr<'_>,
        key: &[u8],
        wanted: &dyn Fn(PageId) -> bool,
    ) -> Result<Option<PageHandle>> {
        let to = To::Key(key);
        loop {
            let mut step = Step::read(mtr, self, self.root)?;
            self.check_arrival(step.node(mtr), self.root, None)?;
            let mut at = self.root;
            if step.node(mtr).level() == 0 {
                // A latch is never upgraded: let go, take X, and look again, for the root may have been split in between.
                drop(step);
                let page = self.latch(mtr, self.root)?;
                if Node::new(mtr.bytes(page)).level() == 0 {
                    return Ok(Some(page));
                }
                mtr.release(page);
                continue;
            }
            loop {
                let node = step.node(mtr);
                let (level, no) = (node.level(), node.child(self.route(node, at, to)?));
                if level == 1 {
                    if !wanted(self.page_id(no)) {
                        return Ok(None);
                    }
                    let page = self.latch(mtr, no)?;
                    drop(step);
                    self.check_arrival(Node::new(mtr.bytes(page)), no, Some(0))?;
                    return Ok(Some(page));
                }
                let child = Step::read(mtr, self, no)?;
                self.check_arrival(child.node(mtr), no, Some(level - 1))?;
                (step, at) = (child, no);
            }
        }
    }
    /// X latches from the root; `safe(node, slot of the child to go to)`: the change will not get past this node, so its ancestors are let go.
    pub(super) fn descend_path(
        &self,
        mtr: &mut Mtr<'_>,
        key: &[u8],
        safe: impl Fn(Node<'_>, usize) -> bool,
    ) -> Result<(PageHandle, Vec<PageHandle>)> {
        let to = To::Key(key);
        let mut path: Vec<PageHandle> = Vec::new();
        let mut no = self.root;
        let mut level = None;
        loop {
            let page = self.latch(mtr, no)?;
            let node = Node::new(mtr.bytes(page));
            self.check_arrival(node, no, level)?;
            self.check_fences(node, no, to)?;
            let child = if node.level() > 0 { to.child_slot(node) } else { 0 };
            if safe(node, child) {
                for ancestor in path.drain(..) {
                    if !mtr.is_changed(ancestor) {
                        mtr.release(ancestor);
                    }
                }
            }
            let node = Node::new(mtr.bytes(page));
            if node.level() == 0 {
                return Ok((page, path));
            }
            (no, level) = (node.child(child), Some(node.level() - 1));
            path.push(page);
        }
    }
    pub fn key<'m>(&self, mtr: &'m Mtr<'_>, at: &LeafWrite) -> &'m [u8] {
        Node::new(mtr.bytes(at.page)).key(at.slot)
    }
    pub fn value<'m>(&self, mtr: &'m Mtr<'_>, at: &LeafWrite) -> &'m [u8] {
        Node::new(mtr.bytes(at.page)).value(at.slot)
    }
    /// Would `insert`/`set_value` succeed without a split? (Grow: always true.) Ask before anything else is written in the Mtr.
    pub fn has_room(&self, mtr: &Mtr<'_>, at: &LeafWrite, key_len: usize, value_len: usize) -> bool {
        let node = Node::new(mtr.bytes(at.page));
        match at.intent {
            Intent::Grow(_) => true,
            _ if at.found => edit::value_fits(node, at.slot, value_len),
            _ => node.has_room(key_len, value_len),
        }
    }
    /// Behind all entries of the leaf.
    pub fn is_at_end(&self, mtr: &Mtr<'_>, at: &LeafWrite) -> bool {
        at.slot == Node::new(mtr.bytes(at.page)).len()
    }
    /// Inserts at `at` (not found). Splits under Grow; then the Mtr holds space latches, so it latches no tree or undo page any more.
    /// Allocation failure (`Error::Full`) comes before any change.
    pub fn insert(&self, mtr: &mut Mtr<'_>, at: &LeafWrite, key: &[u8], value: &[u8]) -> Result<Placed> {
        assert!(!at.found, "insert goes where the key is not");
        assert!(
            key.len() <= self.key_max() && key.len() + value.len() <= self.entry_max(),
            "the table layer keeps entries small enough"
        );
        let node = Node::new(mtr.bytes(at.page));
        debug_assert!(node.owns(key) && node.search(key) == (at.slot, false));
        if node.has_room(key.len(), value.len()) {
            edit::insert(&mut MtrPage { mtr, page: at.page }, at.slot, key, value);
            return Ok(Placed::Done);
        }
        let replace = false;
        self.place_or_refuse(
            mtr,
            at,
            Item {
                slot: at.slot,
                key,
                value,
                replace,
            },
        )
    }
    /// New value for the entry at `at` (found). Logs only the bytes that differ when the length stays.
    pub fn set_value(&self, mtr: &mut Mtr<'_>, at: &LeafWrite, value: &[u8]) -> Result<Placed> {
        assert!(at.found, "there is an entry to change");
        let node = Node::new(mtr.bytes(at.page));
        assert!(
            node.key(at.slot).len() + value.len() <= self.entry_max(),
            "the table layer keeps entries small enough"
        );
        if edit::value_fits(node, at.slot, value.len()) {
            edit::set_value(&mut MtrPage { mtr, page: at.page }, at.slot, value);
            return Ok(Placed::Done);
        }
        let key = node.key(at.slot).to_vec();
        let (slot, replace) = (at.slot, true);
        self.place_or_refuse(
            mtr,
            at,
            Item {
                slot,
                key: &key,
                value,
                replace,
            },
        )
    }
    fn place_or_refuse(&self, mtr: &mut Mtr<'_>, at: &LeafWrite, item: Item<'_>) -> Result<Placed> {
        if !matches!(at.intent, Intent::Grow(_)) {
            return Ok(Placed::NoRoom);
        }
        self.split_and_place(mtr, at.page, &at.path, item)?;
        Ok(Placed::Done)
    }
    /// Overwrites part of the value at `at`: `offset + data.len() <= value length`.
    pub fn patch_value(&self, mtr: &mut Mtr<'_>, at: &LeafWrite, offset: usize, data: &[u8]) {
        assert!(at.found, "there is an entry to change");
        let node = Node::new(mtr.bytes(at.page));
        assert!(
            offset + data.len() <= node.value_len(at.slot),
            "a patch stays inside the value"
        );
        let value_at = node.value_at(at.slot);
        edit::edit_difference(&mut MtrPage { mtr, page: at.page }, value_at + offset, data);
    }
    /// Removes the entry at `at` (found). Under Shrink merges an under-full leaf with a neighbour of the same parent.
    /// Returns true if the leaf is now so empty that a caller under Intent::Leaf should come back with `shrink`: said
    /// when a removal crosses a threshold, not at each one below it, so that a leaf that cannot be merged costs few attempts.
    /// A merge leaves the Mtr with space latches, as a split does.
    pub fn remove(&self, mtr: &mut Mtr<'_>, at: &LeafWrite) -> Result<bool> {
        assert!(at.found, "there is an entry to remove");
        let before = sparseness(Node::new(mtr.bytes(at.page)));
        edit::remove(&mut MtrPage { mtr, page: at.page }, at.slot);
        let after = sparseness(Node::new(mtr.bytes(at.page)));
        if mtr.id(at.page).no == self.root || after == Sparse::No {
            return Ok(false);
        }
        if at.intent == Intent::Shrink {
            self.merge_up(mtr, &at.path, at.page)?;
            return Ok(false);
        }
        Ok(before != after)
    }
}
