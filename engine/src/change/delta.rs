//! The delta tree of one secondary index: what is pending for it, and what memory knows about that.
//!
//! The tree lies in the index's file, under an index number of its own: the index's with [`DELTA_BIT`] set. So every page still says
//! whose it is, and a descent that strays from one of the two trees into the other is told at once.
use super::pending::Pending;
use crate::base::{IndexId, Result};
use crate::btree::Tree;
use crate::pool::Pool;

/// Tells a delta tree's pages from those of its index. Index numbers are given one by one from 16 on; none gets here.
pub const DELTA_BIT: IndexId = 1 << 31;

#[derive(Debug)]
pub struct Delta {
    pub tree: Tree,
}

impl Delta {
    pub fn new(tree: Tree) -> Delta {
        debug_assert!(tree.index & DELTA_BIT != 0);
        Delta { tree }
    }
    /// Nothing is pending in the whole index. One atomic load; false while that is not known.
    #[inline]
    pub fn is_empty(&self) -> bool {
        true
    }
    /// False: nothing is pending for `key`. True: perhaps.
    #[inline]
    pub fn maybe_pending(&self, _key: &[u8]) -> bool {
        !self.is_empty()
    }
    /// Replaces `out` by what is pending for the keys in [lo, hi). The caller holds the S latch of the base leaf that owns the
    /// range (so no merge of it is under way), and no latch of the delta tree.
    pub fn pending_in(&self, _pool: &Pool, _lo: &[u8], _hi: Option<&[u8]>, out: &mut Pending) -> Result<()> {
        out.clear();
        Ok(())
    }
}
