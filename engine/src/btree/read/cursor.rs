//! Seeks, exact lookups, and steps from leaf to leaf.
//!
//! A step to the right latches the neighbour before it releases the leaf (left to right, I5). A
//! step to the left releases the leaf and descends again to the keys before the lower fence. Called
//! by: `change`, `index::scan`, and the clustered index's users in `table`.
use super::descent::To;
use super::leaf::LeafRead;
use crate::base::sync::holds_no_latch;
use crate::base::{Lsn, PageId, PageNo, Result};
use crate::btree::node::Node;
use crate::btree::tree::Tree;
use crate::pool::Pool;

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

/// Most leaves that one call of `read_ahead` asks for.
pub const READ_AHEAD_MAX: usize = 64;

impl Tree {
    /// The entry that `seek` names, its leaf S-latched. Crosses leaf borders and skips empty
    /// leaves. None: there is no such entry.
    pub fn seek<'p>(&self, pool: &'p Pool, seek: Seek, key: &[u8]) -> Result<Option<LeafRead<'p>>> {
        let to = match seek {
            Seek::First => To::First,
            Seek::Last => To::Last,
            Seek::Lt if key.is_empty() => return Ok(None),
            Seek::Lt => To::Before(key),
            Seek::Ge | Seek::Gt | Seek::Le => To::Key(key),
        };
        let page = self.descend(pool, to, 0)?;
        let node = Node::new(&page);
        let (at, found) = self.nodes().search_leaf(node, page.id().no, to)?;
        // Entries before `at` (backward) or from `at` on (forward) qualify.
        let (at, forward) = match seek {
            Seek::First | Seek::Ge => (at, true),
            Seek::Last | Seek::Lt => (at, false),
            Seek::Gt => (at + found as usize, true),
            Seek::Le => (at + found as usize, false),
        };
        let len = node.len();
        let leaf = LeafRead { page, slot: at };
        match (forward, at) {
            (true, at) if at < len => Ok(Some(leaf)),
            (true, _) => self.next_leaf(pool, leaf),
            (false, 0) => self.prev_leaf(pool, leaf),
            (false, at) => Ok(Some(LeafRead { slot: at - 1, ..leaf })),
        }
    }
    /// The tree is a root without entries.
    pub fn is_empty(&self, pool: &Pool) -> Result<bool> {
        let root = self.read_root(pool)?;
        let node = Node::new(&root);
        Ok(node.level() == 0 && node.is_empty())
    }
    /// Exact match.
    pub fn get<'p>(&self, pool: &'p Pool, key: &[u8]) -> Result<Option<LeafRead<'p>>> {
        let to = To::Key(key);
        let page = self.descend(pool, to, 0)?;
        let (slot, found) = self.nodes().search_leaf(Node::new(&page), page.id().no, to)?;
        Ok(found.then_some(LeafRead { page, slot }))
    }
    /// The leaf that owns `key`, at the first slot with a key >= `key`. The slot may be `len()`,
    /// and the leaf may be empty.
    pub fn leaf_owning<'p>(&self, pool: &'p Pool, key: &[u8]) -> Result<LeafRead<'p>> {
        self.leaf_at(pool, To::Key(key))
    }
    /// The leaf that owns the keys just before `key` (not the empty key; None: the last leaf). The
    /// entries before its slot are those before `key`.
    pub fn leaf_before<'p>(&self, pool: &'p Pool, key: Option<&[u8]>) -> Result<LeafRead<'p>> {
        debug_assert!(
            key.is_none_or(|key| !key.is_empty()),
            "no leaf owns keys before the empty one"
        );
        self.leaf_at(pool, key.map_or(To::Last, To::Before))
    }
    fn leaf_at<'p>(&self, pool: &'p Pool, to: To<'_>) -> Result<LeafRead<'p>> {
        let page = self.descend(pool, to, 0)?;
        let (slot, _) = self.nodes().search_leaf(Node::new(&page), page.id().no, to)?;
        Ok(LeafRead { page, slot })
    }
    /// The first entry of the next leaf to the right that is not empty, latched before `leaf` is
    /// released.
    pub fn next_leaf<'p>(&self, pool: &'p Pool, leaf: LeafRead<'p>) -> Result<Option<LeafRead<'p>>> {
        let mut leaf = leaf;
        while let Some(next) = self.step_right(pool, leaf)? {
            if !next.is_empty() {
                debug_assert_eq!(next.slot, 0, "a step to the right stands on the first entry");
                return Ok(Some(next));
            }
            leaf = next;
        }
        Ok(None)
    }
    /// The neighbour to the right, empty or not, latched before `leaf` is released.
    pub fn step_right<'p>(&self, pool: &'p Pool, leaf: LeafRead<'p>) -> Result<Option<LeafRead<'p>>> {
        let node = leaf.node();
        let Some(no) = node.right() else {
            return Ok(None);
        };
        let page = self.nodes().read(pool, no)?;
        let right = Node::new(&page);
        if !right.belongs_to(self.index) || right.level() != 0 {
            return Err(self.nodes().corrupt(
                no,
                "its left neighbour points to it, but it is not a leaf of this index",
            ));
        }
        if Some(right.lower_fence()) != node.upper_fence() {
            return Err(self
                .nodes()
                .corrupt(no, "its lower fence is not its left neighbour's upper fence"));
        }
        Ok(Some(LeafRead { page, slot: 0 }))
    }
    /// The last entry of the next leaf to the left. Releases `leaf` and descends again by its lower
    /// fence.
    pub fn prev_leaf<'p>(&self, pool: &'p Pool, leaf: LeafRead<'p>) -> Result<Option<LeafRead<'p>>> {
        let mut fence = leaf.lower_fence().to_vec();
        drop(leaf);
        while !fence.is_empty() {
            let to = To::Before(&fence);
            let page = self.descend(pool, to, 0)?;
            // The border may have moved: only entries before the fence lie left of the caller's
            // place.
            let node = Node::new(&page);
            let at = self.nodes().search_leaf(node, page.id().no, to)?.0;
            debug_assert!(at <= node.len(), "a place in this leaf");
            if at > 0 {
                return Ok(Some(LeafRead { page, slot: at - 1 }));
            }
            debug_assert!(node.lower_fence() < &fence[..], "each step goes to the left");
            fence.clear();
            fence.extend_from_slice(node.lower_fence());
        }
        Ok(None)
    }
    /// Latches a leaf again that was remembered by (page, version): Some if it is in the pool and
    /// unchanged. A page that was merged away is marked free, which changes its version.
    pub fn revisit<'p>(&self, pool: &'p Pool, page: PageNo, version: Lsn, slot: usize) -> Option<LeafRead<'p>> {
        let mut page = pool.read_again(self.page_id(page))?;
        if page.version() != version {
            return None;
        }
        self.nodes().join_read(pool, &mut page).ok()?;
        debug_assert!(
            slot <= Node::new(&page).len(),
            "an unchanged leaf has the slot that was remembered"
        );
        Some(LeafRead { page, slot })
    }
    /// Asks the pool for up to `pages_max` leaves after (`backward`: before) the leaf that owns
    /// `key`. None: the first or last leaf. Asks no further than one parent knows leaves. Called
    /// with no latch held. Returns the number of leaves.
    pub fn read_ahead(&self, pool: &Pool, key: Option<&[u8]>, backward: bool, pages_max: usize) -> Result<usize> {
        debug_assert!(holds_no_latch(), "I5: a read-ahead descends from the root");
        let to = match key {
            Some(key) => To::Key(key),
            None if backward => To::Last,
            None => To::First,
        };
        let page = self.descend(pool, to, 1)?;
        let node = Node::new(&page);
        if node.level() != 1 {
            return Ok(0);
        }
        let at = self.nodes().route(node, page.id().no, to)?;
        let mut ids: [PageId; READ_AHEAD_MAX] = [self.page_id(0); READ_AHEAD_MAX];
        let pages_max = pages_max.min(READ_AHEAD_MAX);
        let mut n = 0;
        let mut ask = |slot: usize| {
            ids[n] = self.page_id(node.child(slot));
            n += 1;
        };
        if backward {
            (0..at).rev().take(pages_max).for_each(&mut ask);
        } else {
            (at + 1..node.len()).take(pages_max).for_each(&mut ask);
        }
        drop(page);
        pool.prefetch(&ids[..n]);
        Ok(n)
    }
}
