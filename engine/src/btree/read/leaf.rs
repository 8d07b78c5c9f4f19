//! [`LeafRead`]: an S-latched leaf and a slot in it.
//!
//! Made by `cursor` and `estimate`. Called by: every reader of trees above `btree`.
use crate::base::{Lsn, PageNo};
use crate::btree::node::Node;
use crate::pool::PageRead;

/// An S-latched leaf and an entry in it. The slot may be `len()` only where the function that
/// returned the leaf says so.
pub struct LeafRead<'p> {
    pub(super) page: PageRead<'p>,
    pub(super) slot: usize,
}

impl LeafRead<'_> {
    #[inline]
    pub(super) fn node(&self) -> Node<'_> {
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
        debug_assert!(slot <= self.len(), "a place in this leaf");
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
