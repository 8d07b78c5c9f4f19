//! [`Tree`]: the data file, the root page and the index number of one tree.
//!
//! This file makes trees, and knows the sizes of their nodes. `read` adds the ways down, `write`
//! the latches for changes. Called by: all code that reads or changes an index.
use super::limits::WIDE_BIT;
use super::node::NewNode;
use super::nodes::Nodes;
use crate::base::{FileId, IndexId, PageId, PageNo, Result};
use crate::pool::Mtr;
use crate::space;

/// One tree. Plain data: copies are the same tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    pub file: FileId,
    pub root: PageNo,
    pub index: IndexId,
}

impl Tree {
    /// Allocates and formats an empty root leaf.
    pub fn create(mtr: &mut Mtr<'_>, file: FileId, index: IndexId) -> Result<Tree> {
        let root = Nodes { file, index }.allocate(mtr, 0, 1)?[0];
        Tree::format(mtr, file, root, index)
    }
    /// Creates several trees: all of them, or (`Error::Full`) nothing is changed. A wide tree is
    /// created alone.
    pub fn create_many(mtr: &mut Mtr<'_>, file: FileId, indexes: &[IndexId]) -> Result<Vec<Tree>> {
        if let [index] = indexes {
            return Ok(vec![Tree::create(mtr, file, *index)?]);
        }
        assert!(
            indexes.iter().all(|index| index & WIDE_BIT == 0),
            "a wide tree is created alone"
        );
        let roots = space::allocate_many(mtr, file, 0, indexes.len())?;
        let make = |(root, index): (&PageNo, &IndexId)| Tree::format(mtr, file, *root, *index);
        roots.iter().zip(indexes).map(make).collect()
    }
    fn format(mtr: &mut Mtr<'_>, file: FileId, root: PageNo, index: IndexId) -> Result<Tree> {
        let tree = Tree { file, root, index };
        debug_assert!(
            index != 0 && root != 0,
            "I10: a tree has a number, and a page of its own"
        );
        tree.nodes().create_with(mtr, root, &NewNode::EMPTY)?;
        Ok(tree)
    }

    /// The tree's nodes as pages of its file.
    #[inline]
    pub(super) fn nodes(&self) -> Nodes {
        Nodes {
            file: self.file,
            index: self.index,
        }
    }
    #[inline]
    pub fn page_id(&self, no: PageNo) -> PageId {
        PageId::new(self.file, no)
    }
    pub fn is_wide(&self) -> bool {
        self.nodes().are_wide()
    }
    /// Longest key, in bytes.
    pub fn key_max(&self) -> usize {
        self.nodes().key_max()
    }
    /// Longest key + value, in bytes.
    pub fn entry_max(&self) -> usize {
        self.nodes().entry_max()
    }
    /// Pages of a node.
    pub fn node_pages(&self) -> u32 {
        self.nodes().pages_each()
    }
    /// The pages of the node that begins in page `no`.
    pub fn pages_of(&self, no: PageNo) -> impl Iterator<Item = PageId> {
        self.nodes().pages_of(no)
    }
}
