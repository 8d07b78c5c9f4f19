//! The way down from the root to the node that owns a key, with a check of every page on it.
//!
//! Also what a parent knows of a leaf that is not read.
//!
//! Readers couple S latches: the child is latched before its parent is released. A split or merge
//! X-latches the parent first, so no reader sees it half done (I5). Called by: the other files of
//! `read`, `write`, and the change buffer, which asks where a leaf lies without reading it.
use crate::base::{Error, PageId, PageNo, Result};
use crate::btree::node::Node;
use crate::btree::nodes::Nodes;
use crate::btree::tree::Tree;
use crate::pool::{PageRead, Pool};

/// Where a descent goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum To<'k> {
    First,
    Last,
    /// The node that owns this key.
    Key(&'k [u8]),
    /// The node that owns the keys just before this one (not the empty key).
    Before(&'k [u8]),
}

impl To<'_> {
    /// Slot of the child to continue with.
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

/// Steps of a descent. A page that fails a check is broken media or a bug, never a race: its parent
/// is latched.
impl Nodes {
    /// Checks that the page is the node that its parent meant.
    #[inline]
    pub fn check_arrival(&self, node: Node<'_>, no: PageNo, level: Option<u8>) -> Result<()> {
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
    /// Checks that the node owns the key that led to it.
    #[inline]
    pub fn check_fences(&self, node: Node<'_>, no: PageNo, to: To<'_>) -> Result<()> {
        if !to.owned_by(node) {
            return Err(self.corrupt(no, "its fences do not hold the key its parent routes to it"));
        }
        Ok(())
    }
    /// Slot of the child to continue with. A key between two keys of the node lies between its
    /// fences. So the fences are compared for the first and the last child only. Their bytes are in
    /// other cache lines, at the far end of the page.
    #[inline]
    pub fn route(&self, node: Node<'_>, no: PageNo, to: To<'_>) -> Result<usize> {
        let slot = to.child_slot(node);
        debug_assert!(slot < node.len(), "a descent goes on to a child");
        if slot == 0 || slot + 1 == node.len() {
            self.check_fences(node, no, to)?;
        }
        Ok(slot)
    }
    /// `Node::search` in the leaf that a descent ended in. Fences are compared as in `route`.
    #[inline]
    pub fn search_leaf(&self, node: Node<'_>, no: PageNo, to: To<'_>) -> Result<(usize, bool)> {
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
    /// S-latches the child in `slot` of `parent`, whose latch the caller still holds, and checks
    /// the child.
    #[inline]
    pub fn read_child<'p>(&self, pool: &'p Pool, parent: Node<'_>, slot: usize) -> Result<PageRead<'p>> {
        debug_assert!(parent.level() > 0, "a leaf has no children");
        let no = parent.child(slot);
        let child = self.read(pool, no)?;
        self.check_arrival(Node::new(&child), no, Some(parent.level() - 1))?;
        Ok(child)
    }
}

/// A leaf of which no latch is kept.
#[derive(Clone, Copy, Debug)]
pub struct RememberedLeaf {
    pub(in crate::btree) no: PageNo,
    /// `Loads::given_count` before the leaf was found.
    pub(in crate::btree) given: u64,
}

impl Tree {
    /// S-latches the root.
    #[inline]
    pub(in crate::btree) fn read_root<'p>(&self, pool: &'p Pool) -> Result<PageRead<'p>> {
        let page = self.nodes().read(pool, self.root)?;
        self.nodes().check_arrival(Node::new(&page), self.root, None)?;
        Ok(page)
    }
    /// S-latches the node on `level`, or the root when the tree is not that high.
    pub(in crate::btree) fn descend<'p>(&self, pool: &'p Pool, to: To<'_>, level: u8) -> Result<PageRead<'p>> {
        let nodes = self.nodes();
        let mut page = self.read_root(pool)?;
        loop {
            let node = Node::new(&page);
            if node.level() <= level {
                return Ok(page);
            }
            let child = nodes.read_child(pool, node, nodes.route(node, page.id().no, to)?)?;
            page = child;
        }
    }
    /// Number of the leaf that owns `key` at this moment. No latch is kept.
    pub fn leaf_number(&self, pool: &Pool, key: &[u8]) -> Result<PageNo> {
        Ok(self.descend(pool, To::Key(key), 0)?.id().no)
    }
    /// The leaf that owns `key`, to come back to with `try_leaf`.
    pub fn remember_leaf(&self, pool: &Pool, key: &[u8]) -> Result<RememberedLeaf> {
        let given = pool.loads().given_count();
        let no = self.leaf_number(pool, key)?;
        Ok(RememberedLeaf { no, given })
    }
    /// The leaf that owns `key`, and where it ends (None: it is the last), as its parent has it:
    /// the leaf is not read. None: the root is a leaf.
    pub fn leaf_place(&self, pool: &Pool, key: &[u8]) -> Result<Option<(PageId, Option<Vec<u8>>)>> {
        self.by_parent(pool, key, 1, |leaf, end| (leaf, end.map(<[u8]>::to_vec)))
    }
    /// Where the unreadable part that holds `key` ends: a leaf, or an inner page and all below it.
    /// The lowest readable page tells the end; None: the part reaches to the last key. Err: not
    /// even the root is readable.
    pub fn end_of_unreadable(&self, pool: &Pool, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut level = 1;
        loop {
            match self.by_parent(pool, key, level, |_, end| end.map(<[u8]>::to_vec)) {
                Err(Error::Corrupt(_) | Error::Io(_))
                    if level < Node::new(&self.nodes().read(pool, self.root)?).level() =>
                {
                    level += 1
                }
                place => return Ok(place?.flatten()),
            }
        }
    }
    /// Asks about the leaf that owns all keys in [lo, hi), under its parent's S latch and without
    /// reading the leaf. Meanwhile no split or merge moves keys. None: the range takes several
    /// leaves, or the root is the leaf.
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
    /// Calls `each` with the page below `level` (1: a leaf) that owns `key`, and with the end of
    /// that page's range. End None: it is the last page. The parent is S-latched meanwhile.
    /// Returns None if the tree has no such level.
    fn by_parent<T>(
        &self,
        pool: &Pool,
        key: &[u8],
        level: u8,
        each: impl FnOnce(PageId, Option<&[u8]>) -> T,
    ) -> Result<Option<T>> {
        debug_assert!(level > 0, "a leaf is no parent");
        let page = self.descend(pool, To::Key(key), level)?;
        let node = Node::new(&page);
        if node.level() < level {
            return Ok(None);
        }
        let slot = self.nodes().route(node, page.id().no, To::Key(key))?;
        let end = match slot + 1 < node.len() {
            true => Some(node.key(slot + 1)),
            false => node.upper_fence(),
        };
        Ok(Some(each(self.page_id(node.child(slot)), end)))
    }
}
