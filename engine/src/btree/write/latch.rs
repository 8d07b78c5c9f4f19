//! The way down to a leaf that is to be changed: find it and X-latch it.
//!
//! Latches under `Intent::Leaf`: S coupled down to the level above the leaves, then X on the leaf
//! while its parent is still S-latched. Under `Grow` and `Merge`: X from the root, releasing every
//! ancestor above a node that stops the change. Called by: `change`, `table` for clustered indexes,
//! and the sorted build.
use super::leaf::{Intent, LeafWrite};
use super::merge_nodes::{self, merge_up};
use crate::base::{sync_point, Error, PageId, PageNo, Result, SyncPoint};
use crate::btree::node::{item_size, Node, OVERHEAD};
use crate::btree::pages::begin;
use crate::btree::read::descent::To;
use crate::btree::read::RememberedLeaf;
use crate::btree::tree::Tree;
use crate::pool::{Mtr, PageHandle, PageRead, Pool};

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
            None => Step::Shared(tree.nodes().read(mtr.pool(), no)?),
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
    /// The way down starts at the root. That is against the latch order if the Mtr already holds
    /// pages of this tree. Such an Mtr may call only while no other thread writes to the tree: the
    /// catalog's tree, under its mutex.
    pub fn leaf_for_write(
        &self,
        mtr: &mut Mtr<'_>,
        key: &[u8],
        intent: Intent,
        hint: Option<PageNo>,
    ) -> Result<LeafWrite> {
        let nodes = self.nodes();
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
                    item_size(nodes.key_max(), 4) <= node.free()
                }
            })?,
            Intent::Merge => self.descend_path(mtr, key, |node, child| {
                merge_nodes::is_safe(node, child, nodes.entry_max())
            })?,
        };
        let at = LeafWrite::of(self, mtr, page, key)?;
        Ok(LeafWrite { path, intent, ..at })
    }
    /// X-latches the leaf that owns `key`, for `Intent::Leaf`, if it is `wanted`. `wanted` is asked
    /// before the leaf is read. (A root that is a leaf is taken without asking.)
    pub fn leaf_if(&self, mtr: &mut Mtr<'_>, key: &[u8], wanted: &dyn Fn(PageId) -> bool) -> Result<Option<LeafWrite>> {
        let Some(page) = self.descend_to_leaf(mtr, key, wanted)? else {
            return Ok(None);
        };
        Ok(Some(LeafWrite::of(self, mtr, page, key)?))
    }
    /// X-latches a remembered leaf if it is in the pool, needs no waiting, and still owns `key`.
    /// The Mtr may hold leaves of this tree to the left. Waiting is out of the question: the page
    /// may have become anything, and its place in the latch order shows only under the latch (I5).
    pub fn try_leaf(&self, mtr: &mut Mtr<'_>, key: &[u8], leaf: RememberedLeaf) -> Result<Option<LeafWrite>> {
        let id = self.page_id(leaf.no);
        let held = mtr.find(id).is_some();
        sync_point(SyncPoint::LeafToBeTried);
        let Some(page) = mtr.try_write_resident(id)? else {
            return Ok(None);
        };
        // Asked under the latch. A load may have got the page since, and a reader of all pages may
        // have brought back its old content.
        let is_known = held || mtr.pool().loads().given_count() == leaf.given;
        self.nodes().join_write(mtr, page)?;
        let node = Node::new(mtr.bytes(page));
        if is_known && node.belongs_to(self.index) && node.level() == 0 && node.owns(key) {
            return Ok(Some(LeafWrite::of(self, mtr, page, key)?));
        }
        if !held {
            mtr.release(page);
        }
        Ok(None)
    }
    /// The hinted leaf, X-latched, if it still owns `key`. Its header and fences show whether the
    /// page has become another one.
    fn try_hint(&self, mtr: &mut Mtr<'_>, key: &[u8], no: PageNo) -> Option<PageHandle> {
        let id = self.page_id(no);
        if mtr.find(id).is_some() {
            return None;
        }
        let page = mtr.write_resident(id).ok()??;
        let node = Node::new(mtr.bytes(page));
        let is_leaf = node.belongs_to(self.index) && node.level() == 0;
        let whole = is_leaf && self.nodes().join_write(mtr, page).is_ok();
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
        let nodes = self.nodes();
        let to = To::Key(key);
        loop {
            let mut step = Step::read(mtr, self, self.root)?;
            nodes.check_arrival(step.node(mtr), self.root, None)?;
            let mut at = self.root;
            if step.node(mtr).level() == 0 {
                // A latch is never upgraded. S is released, X is taken, and the level is read
                // again: the root may have been split in between.
                drop(step);
                let page = nodes.latch(mtr, self.root)?;
                if Node::new(mtr.bytes(page)).level() == 0 {
                    return Ok(Some(page));
                }
                mtr.release(page);
                continue;
            }
            loop {
                let node = step.node(mtr);
                let (level, no) = (node.level(), node.child(nodes.route(node, at, to)?));
                if level == 1 {
                    if !wanted(self.page_id(no)) {
                        return Ok(None);
                    }
                    let page = nodes.latch(mtr, no)?;
                    drop(step);
                    nodes.check_arrival(Node::new(mtr.bytes(page)), no, Some(0))?;
                    return Ok(Some(page));
                }
                let child = Step::read(mtr, self, no)?;
                nodes.check_arrival(child.node(mtr), no, Some(level - 1))?;
                (step, at) = (child, no);
            }
        }
    }
    /// X-latches the leaf and its ancestors (root first), from the root down. `safe(node, slot of
    /// the child to go to)`: the change will not get past this node. Its ancestors are then
    /// released.
    pub(in crate::btree) fn descend_path(
        &self,
        mtr: &mut Mtr<'_>,
        key: &[u8],
        safe: impl Fn(Node<'_>, usize) -> bool,
    ) -> Result<(PageHandle, Vec<PageHandle>)> {
        let nodes = self.nodes();
        let to = To::Key(key);
        let mut path: Vec<PageHandle> = Vec::new();
        let mut no = self.root;
        let mut level = None;
        loop {
            let page = nodes.latch(mtr, no)?;
            let node = Node::new(mtr.bytes(page));
            nodes.check_arrival(node, no, level)?;
            nodes.check_fences(node, no, to)?;
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

    /// Merges the leaf that owns `key` with a neighbour if it is sparse, in an Mtr of its own.
    /// False: nothing was merged.
    pub fn merge_nodes(&self, pool: &Pool, key: &[u8]) -> Result<bool> {
        let mut mtr = begin(pool)?;
        let at = self.leaf_for_write(&mut mtr, key, Intent::Merge, None)?;
        let merged = merge_up(*self, &mut mtr, &at.path, at.page)?;
        mtr.commit();
        Ok(merged)
    }
    /// Merges each sparse leaf with a neighbour, from left to right. `watch` is asked before each
    /// leaf; its error ends the walk. Returns the number of merges.
    pub fn merge_sparse(&self, pool: &Pool, watch: &dyn Fn() -> Result<()>) -> Result<u64> {
        let (mut key, mut merges) = (Vec::new(), 0);
        loop {
            watch()?;
            while self.merge_nodes(pool, &key)? {
                merges += 1;
            }
            match self.leaf_place(pool, &key)? {
                Some((_, Some(end))) => key = end,
                _ => return Ok(merges),
            }
        }
    }
    /// As `merge_nodes`, but an obstacle, for example a neighbour that cannot be read, is no error.
    /// For callers whose change is done: it must not fail for a merge. The next use of that
    /// neighbour reports the error.
    pub fn try_merge_nodes(&self, pool: &Pool, key: &[u8]) -> Result<()> {
        match self.merge_nodes(pool, key) {
            Err(e @ Error::Poisoned(_)) => Err(e),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btree::tests::fixture::{check, fixture_with_tree, put};

    /// Removals without a merge after them leave sparse leaves.
    #[test]
    fn sparse_leaves_are_merged_in_one_walk() {
        let (fixture, tree) = fixture_with_tree(7, 400);
        let keys: Vec<[u8; 4]> = (0..4000u32).map(|n| n.to_be_bytes()).collect();
        keys.iter()
            .for_each(|key| assert!(put(&fixture.pool, &tree, key, &[9; 200])));
        for key in keys.iter().enumerate().filter(|(n, _)| n % 20 != 0).map(|(_, key)| key) {
            let mut mtr = begin(&fixture.pool).unwrap();
            let at = tree.leaf_for_write(&mut mtr, key, Intent::Leaf, None).unwrap();
            at.remove(&mut mtr).unwrap();
            mtr.commit();
        }
        let before = tree.stats(&fixture.pool).unwrap().leaf_pages;
        let stopped = tree.merge_sparse(&fixture.pool, &|| Err(Error::Interrupted));
        assert_eq!(stopped, Err(Error::Interrupted));
        let merges = tree.merge_sparse(&fixture.pool, &|| Ok(())).unwrap();
        let after = tree.stats(&fixture.pool).unwrap().leaf_pages;
        assert_eq!(before - after, merges);
        assert!(after * 4 < before, "{before} leaves, {after} after {merges} merges");
        assert_eq!(check(&fixture.pool, &tree, true).entries, 200);
        assert_eq!(tree.merge_sparse(&fixture.pool, &|| Ok(())), Ok(0));
    }
}
