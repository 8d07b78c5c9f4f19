//! The leaf at whose end the latest row was placed: rows whose keys rise come to the same one, and need no descent.
//!
//! A remembered leaf is judged by its header and fences (`Tree::leaf_for_write`), which tell whatever an ordinary page has become
//! meanwhile. They do not tell a leaf of a load that is not linked: that has the header of a leaf of the tree, and stands in none; and when
//! the load is taken back it stays as it is until somebody else gets the page. So what is remembered counts only until the next load begins
//! ([`Table::loads`], which grows before a load gets its first page), and that is asked once more under the leaf's latch: a leaf that the
//! tree had when it was noted, with no load since, is the tree's as long as its header says so.
use crate::base::PageNo;
use crate::table::catalog::table::Table;
use std::sync::atomic::{AtomicU64, Ordering};

/// Both in one word: the loads that had begun (modulo 2^32), and the leaf; 0: the latest row went elsewhere.
#[derive(Default)]
pub(in crate::table) struct RisingLeaf(AtomicU64);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::table) struct Rising {
    loads: u32,
    leaf: PageNo,
}

impl Rising {
    pub fn leaf(self) -> Option<PageNo> {
        (self.leaf != 0).then_some(self.leaf)
    }
}

impl Table {
    /// To be tried, and then asked about by `is_still_rising`.
    pub(in crate::table) fn rising(&self) -> Rising {
        let word = self.rising_leaf.0.load(Ordering::Relaxed);
        let (loads, leaf) = ((word >> 32) as u32, word as u32);
        let now = self.loads_now();
        match loads == now {
            true => Rising { loads, leaf },
            false => Rising { loads: now, leaf: 0 },
        }
    }
    /// Under the latch of the leaf that was found with it: no load has begun since it was noted.
    pub(in crate::table) fn is_still_rising(&self, rising: Rising) -> bool {
        rising.leaf == 0 || rising.loads == self.loads_now()
    }
    /// Under the latch of `leaf`, which is the tree's (0: the row went elsewhere).
    pub(in crate::table) fn note_rising(&self, known: Rising, leaf: PageNo) {
        let loads = self.loads_now();
        if known != (Rising { loads, leaf }) {
            self.rising_leaf
                .0
                .store((loads as u64) << 32 | leaf as u64, Ordering::Relaxed);
        }
    }
    fn loads_now(&self) -> u32 {
        self.loads.load(Ordering::SeqCst) as u32
    }
}
