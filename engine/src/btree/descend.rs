//! The way down: from the root to the node that owns a key, and the checks made of every page on the way.
//!
//! Readers couple S latches: the child is latched before its parent is let go, so a split or merge (which X-latches the
//! parent first) is never seen half done. Called by `cursor.rs`, `write.rs`, `estimate.rs`, `check.rs`.
use super::node::Node;
use super::Tree;
use crate::base::{Error, PageNo, Result};
use crate::pool::{PageRead, Pool};

/// Where a descent goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum To<'k> {
    First,
    Last,
    /// The node that owns this key.
    Key(&'k [u8]),
    /// The node that owns the keys just before this one (not the empty key).
    Before(&'k [u8]),
}

impl To<'_> {
    /// Slot of the child to go on with.
    #[inline]
    pub fn child_slot(self, node: Node<'_>) -> usize {
        match self {
            To::First => 0,
            To::Last => node.len() - 1,
            To::Key(key) => node.child_slot(key),
            To::Before(key) => node.child_slot_before(key),
        }
    }
    #[inline]
    fn owned_by(self, node: Node<'_>) -> bool {
        match self {
            To::First => node.lower_fence().is_empty(),
            To::Last => node.upper_fence().is_none(),
            To::Key(key) => node.owns(key),
            To::Before(key) => node.owns_before(key),
        }
    }
}

impl Tree {
    /// S-latched node on `level` (the root itself when the tree is not that high).
    pub(super) fn descend<'p>(&self, pool: &'p Pool, to: To<'_>, level: u8) -> Result<PageRead<'p>> {
        let mut page = self.read(pool, self.root)?;
        self.check_arrival(Node::new(&page), self.root, None)?;
        loop {
            let node = Node::new(&page);
            if node.level() <= level {
                return Ok(page);
            }
            let no = node.child(self.route(node, page.id().no, to)?);
            let child = self.read(pool, no)?;
            self.check_arrival(Node::new(&child), no, Some(node.level() - 1))?;
            page = child;
        }
    }
    /// Is this the page that the parent meant? A wrong one is broken media or a bug, never a race: the parent is latched.
    #[inline]
    pub(super) fn check_arrival(&self, node: Node<'_>, no: PageNo, level: Option<u8>) -> Result<()> {
        if !node.belongs_to(self.index) {
            return Err(self.corrupt(no, "it is not a page of this index"));
        }
        if level.is_some_and(|level| level != node.level()) {
            return Err(self.corrupt(no, "its level does not fit its parent's"));
        }
        if node.level() > 0 && node.is_empty() {
            return Err(self.corrupt(no, "an inner page has no children"));
        }
        Ok(())
    }
    pub(super) fn check_fences(&self, node: Node<'_>, no: PageNo, to: To<'_>) -> Result<()> {
        if !to.owned_by(node) {
            return Err(self.corrupt(no, "its fences do not hold the key its parent routes to it"));
        }
        Ok(())
    }
    /// Slot of the child to go on with. A key that lies between two keys of the node lies between its fences: those are compared (and
    /// their cache lines fetched, at the far end of the page) only for the first and the last child.
    #[inline]
    pub(super) fn route(&self, node: Node<'_>, no: PageNo, to: To<'_>) -> Result<usize> {
        let slot = to.child_slot(node);
        if slot == 0 || slot + 1 == node.len() {
            self.check_fences(node, no, to)?;
        }
        Ok(slot)
    }
    /// `Node::search` in the leaf that a descent ended in; fences as in `route`.
    #[inline]
    pub(super) fn search_leaf(&self, node: Node<'_>, no: PageNo, to: To<'_>) -> Result<(usize, bool)> {
        let (at, found) = match to {
            To::First => (0, false),
            To::Last => (node.len(), false),
            To::Key(key) | To::Before(key) => node.search(key),
        };
        if at == 0 || at == node.len() {
            self.check_fences(node, no, to)?;
        }
        Ok((at, found))
    }
    #[cold]
    pub(super) fn corrupt(&self, no: PageNo, what: &str) -> Error {
        let what = format!("index {} in file {}, page {no}: {what}", self.index, self.file);
        Error::corrupt_page(self.file, no, what).in_index(self.file, self.index)
    }
}
