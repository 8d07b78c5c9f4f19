//! The leaf at whose end the latest row was placed. A row with an ascending key goes to the same
//! leaf and needs no descent.
//!
//! A remembered leaf is judged by its header and fences (`Tree::leaf_for_write`), which show what
//! an ordinary page has become meanwhile. They do not show a leaf of a load that is not linked.
//! Such a leaf has the header of a leaf of the tree, but stands in no tree. After the load is taken
//! back, the leaf stays as it is until its page is given out again.
//!
//! So a remembered leaf counts only until the next load begins. `Table::loads` grows before a load
//! gets its first page, and is read once more under the leaf's latch. A leaf that the tree had when
//! it was noted, with no load since, is the tree's as long as its header says so.
//!
//! Called by `table` only; takes no latch.
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::base::PageNo;

/// Both in one word: the loads that had begun (modulo 2^32), and the leaf. Leaf 0: the latest row
/// went to another place.
#[derive(Default)]
pub(in crate::table) struct AppendHint(AtomicU64);

/// A remembered leaf: valid as long as no further load has begun.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::table) struct Hint {
    loads: u32,
    leaf: PageNo,
}

impl Hint {
    pub fn leaf(self) -> Option<PageNo> {
        (self.leaf != 0).then_some(self.leaf)
    }
    /// `loads`: those that have begun by now.
    pub fn holds(self, loads: u32) -> bool {
        self.leaf == 0 || self.loads == loads
    }
}

impl AppendHint {
    /// `loads`: those that have begun by now.
    pub fn recall(&self, loads: u32) -> Hint {
        let word = self.0.load(Ordering::Relaxed);
        let (noted, leaf) = ((word >> 32) as u32, word as u32);
        match noted == loads {
            true => Hint { loads, leaf },
            false => Hint { loads, leaf: 0 },
        }
    }
    /// `known`: the hint that was recalled before. Writes only when the new hint differs from it.
    pub fn note(&self, known: Hint, loads: u32, leaf: PageNo) {
        if known != (Hint { loads, leaf }) {
            self.0.store((loads as u64) << 32 | leaf as u64, Ordering::Relaxed);
        }
    }
}
