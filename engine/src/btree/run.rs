//! Runs: neighbouring entries of a leaf that are looked at, and taken out, together, and several leaves latched by one Mtr. For merges
//! of the change buffer, which move entries from leaves of one tree to a leaf of another.
//!
//! Latches: from a leaf that it holds an Mtr goes right, waiting; to a leaf whose number was only remembered it goes without waiting,
//! because such a page may have become anything (its place in the order is not known before it is looked at).
use super::edit::{self, MtrPage};
use super::node::Node;
use super::{descend::To, LeafWrite, Tree};
use crate::base::{sync_point, Error, PageId, PageNo, Result, SyncPoint};
use crate::pool::{Mtr, Pool};

/// A leaf of which no latch is kept.
#[derive(Clone, Copy, Debug)]
pub struct RememberedLeaf {
    no: PageNo,
    /// `Loads::given_count` before it was found.
    given: u64,
}

impl Tree {
    /// The leaf that owns `key` at this moment; no latch is left.
    pub fn leaf_number(&self, pool: &Pool, key: &[u8]) -> Result<PageNo> {
        Ok(self.descend(pool, To::Key(key), 0)?.id().no)
    }
    /// To come back to, by `try_leaf`.
    pub fn remember_leaf(&self, pool: &Pool, key: &[u8]) -> Result<RememberedLeaf> {
        let given = pool.loads().given_count();
        let no = self.leaf_number(pool, key)?;
        Ok(RememberedLeaf { no, given })
    }
    /// The leaf that owns `key`, and where it ends (None: it is the last), as its parent has it: the leaf is not read. None: the root is
    /// a leaf.
    pub fn leaf_place(&self, pool: &Pool, key: &[u8]) -> Result<Option<(PageId, Option<Vec<u8>>)>> {
        self.by_parent(pool, key, 1, |leaf, end| (leaf, end.map(<[u8]>::to_vec)))
    }
    /// Something on the way to `key` could not be read: a leaf, or an inner page and so all that is below it. Where that ends (None: it reaches to
    /// the last key), as the lowest page that can be read has it. An error: that is not even the root.
    pub fn end_of_unreadable(&self, pool: &Pool, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut level = 1;
        loop {
            match self.by_parent(pool, key, level, |_, end| end.map(<[u8]>::to_vec)) {
                Err(Error::Corrupt(_) | Error::Io(_)) if level < Node::new(&self.read(pool, self.root)?).level() => {
                    level += 1
                }
                place => return Ok(place?.flatten()),
            }
        }
    }
    /// Shows the page below `level` that owns `key` (1: the leaf) and where it ends (None: it is the last), under its parent's S latch.
    /// None: the tree has no such level.
    fn by_parent<T>(
        &self,
        pool: &Pool,
        key: &[u8],
        level: u8,
        each: impl FnOnce(PageId, Option<&[u8]>) -> T,
    ) -> Result<Option<T>> {
        let page = self.descend(pool, To::Key(key), level)?;
        let node = Node::new(&page);
        if node.level() < level {
            return Ok(None);
        }
        let slot = self.route(node, page.id().no, To::Key(key))?;
        let end = match slot + 1 < node.len() {
            true => Some(node.key(slot + 1)),
            false => node.upper_fence(),
        };
        Ok(Some(each(self.page_id(node.child(slot)), end)))
    }
    /// Asks about the leaf that owns all keys in [lo, hi), under its parent's S latch and without reading it: meanwhile no split or merge moves
    /// keys. None: it takes several leaves, or the root is the leaf.
    pub fn ask_leaf<T>(
        &self,
        pool: &Pool,
        lo: &[u8],
        hi: Option<&[u8]>,
        ask: impl FnOnce(PageId) -> T,
    ) -> Result<Option<T>> {
        let asked = self.by_parent(pool, lo, 1, |leaf, end| {
            let owns_all = end.is_none_or(|end| hi.is_some_and(|hi| hi <= end));
            owns_all.then(|| ask(leaf))
        })?;
        Ok(asked.flatten())
    }
    /// X-latches the leaf if the pool has it, it (still) owns `key` and that needs no waiting. The Mtr may hold leaves of this tree to the left.
    pub fn try_leaf(&self, mtr: &mut Mtr<'_>, key: &[u8], leaf: RememberedLeaf) -> Result<Option<LeafWrite>> {
        let id = self.page_id(leaf.no);
        let held = mtr.find(id).is_some();
        sync_point(SyncPoint::LeafToBeTried);
        let Some(page) = mtr.try_write_resident(id)? else {
            return Ok(None);
        };
        // Under the latch. A load may have got the page, and a reader of all pages brought back what it was before.
        let is_known = held || mtr.pool().loads().given_count() == leaf.given;
        self.join_write(mtr, page)?;
        let node = Node::new(mtr.bytes(page));
        if is_known && node.belongs_to(self.index) && node.level() == 0 && node.owns(key) {
            return Ok(Some(self.leaf_write(mtr, page, key)?));
        }
        if !held {
            mtr.release(page);
        }
        Ok(None)
    }
    /// X-latches the right neighbour of a leaf.
    pub fn next_leaf_for_write(&self, mtr: &mut Mtr<'_>, at: &LeafWrite) -> Result<Option<LeafWrite>> {
        let node = Node::new(mtr.bytes(at.page));
        let (Some(no), Some(upper)) = (node.right(), node.upper_fence().map(<[u8]>::to_vec)) else {
            return Ok(None);
        };
        let page = self.latch(mtr, no)?;
        let node = Node::new(mtr.bytes(page));
        if !node.belongs_to(self.index) || node.level() != 0 || node.lower_fence() != upper {
            return Err(self.corrupt(
                no,
                "its left neighbour points to it, but it is not the next leaf of this index",
            ));
        }
        Ok(Some(self.leaf_write(mtr, page, &upper)?))
    }
    /// The range that the leaf owns; None = no bound.
    pub fn fences<'m>(&self, mtr: &'m Mtr<'_>, at: &LeafWrite) -> (&'m [u8], Option<&'m [u8]>) {
        let node = Node::new(mtr.bytes(at.page));
        (node.lower_fence(), node.upper_fence())
    }
    pub fn leaf_len(&self, mtr: &Mtr<'_>, at: &LeafWrite) -> usize {
        Node::new(mtr.bytes(at.page)).len()
    }
    /// Bytes that could still be placed in the leaf.
    pub fn leaf_free(&self, mtr: &Mtr<'_>, at: &LeafWrite) -> usize {
        Node::new(mtr.bytes(at.page)).free()
    }
    pub fn entry_in<'m>(&self, mtr: &'m Mtr<'_>, at: &LeafWrite, slot: usize) -> (&'m [u8], &'m [u8]) {
        Node::new(mtr.bytes(at.page)).entry(slot)
    }
    /// First slot with a key >= `key` (any key), and whether it is equal.
    pub fn search_in(&self, mtr: &Mtr<'_>, at: &LeafWrite, key: &[u8]) -> (usize, bool) {
        Node::new(mtr.bytes(at.page)).search(key)
    }
    /// Takes out the entries in the slots [from, to). True: the leaf is empty now (come back with `shrink`).
    pub fn remove_run(&self, mtr: &mut Mtr<'_>, at: &LeafWrite, from: usize, to: usize) -> bool {
        edit::remove_run(&mut MtrPage { mtr, page: at.page }, from, to);
        Node::new(mtr.bytes(at.page)).is_empty() && mtr.id(at.page).no != self.root
    }
}
