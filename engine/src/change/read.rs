//! The way to a leaf for readers: everything above `change` gets its leaves here, so that none has a pending entry (I3). Today
//! nothing is ever pending, and each function passes through to the tree. Clustered indexes may be read through it as well.
use crate::base::{Lsn, PageNo, Result};
use crate::btree::{LeafRead, Seek, Tree};
use crate::pool::Pool;

/// See [`Tree::seek`].
pub fn seek<'p>(pool: &'p Pool, tree: &Tree, seek: Seek, key: &[u8]) -> Result<Option<LeafRead<'p>>> {
    tree.seek(pool, seek, key)
}
/// See [`Tree::get`].
pub fn get<'p>(pool: &'p Pool, tree: &Tree, key: &[u8]) -> Result<Option<LeafRead<'p>>> {
    tree.get(pool, key)
}
/// See [`Tree::next_leaf`].
pub fn next_leaf<'p>(pool: &'p Pool, tree: &Tree, leaf: LeafRead<'p>) -> Result<Option<LeafRead<'p>>> {
    tree.next_leaf(pool, leaf)
}
/// See [`Tree::prev_leaf`].
pub fn prev_leaf<'p>(pool: &'p Pool, tree: &Tree, leaf: LeafRead<'p>) -> Result<Option<LeafRead<'p>>> {
    tree.prev_leaf(pool, leaf)
}
/// See [`Tree::revisit`].
pub fn revisit<'p>(pool: &'p Pool, tree: &Tree, page: PageNo, version: Lsn, slot: usize) -> Option<LeafRead<'p>> {
    tree.revisit(pool, page, version, slot)
}
/// See [`Tree::read_ahead`].
pub fn read_ahead(pool: &Pool, tree: &Tree, key: Option<&[u8]>, backward: bool, pages_max: usize) -> Result<usize> {
    tree.read_ahead(pool, key, backward, pages_max)
}
