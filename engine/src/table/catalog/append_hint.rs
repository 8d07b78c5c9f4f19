//! The leaf at whose end the latest row was placed. A row with an ascending key goes to the same
//! leaf and needs no descent.
//!
//! A remembered leaf is judged by its header and fences (`Tree::leaf_for_write`), which show what
//! an ordinary page has become meanwhile. They do not show a leaf of a load that is not linked.
//! Such a leaf has the header of a leaf of the tree, but stands in no tree. After the load is taken
//! back, the leaf stays as it is until its page is given out again.
//!
//! So a remembered leaf counts only until the next load begins. The count of loads grows before a
//! load gets its first page, and is read once more under the leaf's latch. A leaf that the tree had
//! when it was noted, with no load since, is the tree's as long as its header says so.
//!
//! Called by `table` only; takes no latch.
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::base::PageNo;

/// A remembered leaf: valid as long as no further load has begun.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::table) struct Hint {
    /// The loads that had begun, modulo 2^32.
    loads: u32,
    /// 0: the latest row went to another place.
    leaf: PageNo,
}

impl Hint {
    pub fn leaf(self) -> Option<PageNo> {
        (self.leaf != 0).then_some(self.leaf)
    }
}

/// The remembered leaf of a table, and the count of its loads.
#[derive(Default)]
pub(in crate::table) struct AppendHint {
    /// A [`Hint`] in one word: the loads in the upper half, the leaf in the lower.
    word: AtomicU64,
    /// The loads that have begun.
    loads: AtomicU64,
}

impl AppendHint {
    /// Called when a load past the pool begins, for an index too, before the load gets its first
    /// page. Called again before and after the load links its trees, or gives them back.
    pub fn begin_load(&self) {
        self.loads.fetch_add(1, Ordering::SeqCst);
    }
    /// How often loads have begun, linked their trees, or given them back.
    pub fn loads_begun(&self) -> u64 {
        self.loads.load(Ordering::SeqCst)
    }
    fn loads_now(&self) -> u32 {
        self.loads_begun() as u32
    }
    /// The leaf that the latest row was appended to. The caller tries it, and then asks
    /// [`AppendHint::holds`].
    pub fn recall(&self) -> Hint {
        let loads = self.loads_now();
        let word = self.word.load(Ordering::Relaxed);
        let (noted, leaf) = ((word >> 32) as u32, word as u32);
        match noted == loads {
            true => Hint { loads, leaf },
            false => Hint { loads, leaf: 0 },
        }
    }
    /// Asked under the latch of the leaf that was found with the hint: no load has begun since the
    /// hint was noted.
    pub fn holds(&self, hint: Hint) -> bool {
        hint.leaf == 0 || hint.loads == self.loads_now()
    }
    /// Under the latch of `leaf`, which is the tree's (0: the row went elsewhere). `known`: the
    /// hint that was recalled before. Writes only when the new hint differs from it.
    pub fn note(&self, known: Hint, leaf: PageNo) {
        let loads = self.loads_now();
        if known != (Hint { loads, leaf }) {
            self.word.store((loads as u64) << 32 | leaf as u64, Ordering::Relaxed);
        }
    }
}
