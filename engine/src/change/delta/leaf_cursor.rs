//! The position from which appenders near the bound take the leaves that they merge (H1 in
//! `merge::backpressure`).
//!
//! The position goes round the index. It is not the pass of the sweeps (`delta::progress`). A pass
//! knows the outcome of each leaf, and an appender may take long over its leaf.
//!
//! Locks: the position's mutex, held for moments; no latch is taken under it. Called by:
//! `merge::backpressure`.
use crate::base::sync::RankedMutex;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Default)]
pub struct LeafCursor {
    /// Appends so far, of which some merge a leaf.
    appends: AtomicU64,
    /// The next leaf is the first from this key on for which something is pending.
    from: RankedMutex<Vec<u8>>,
}

impl LeafCursor {
    /// Is this append the one in `every` that merges a leaf?
    pub fn is_turn(&self, every: u64) -> bool {
        debug_assert!(every > 0, "0 stands for no merge at all");
        self.appends.fetch_add(1, Ordering::Relaxed) % every == 0
    }
    pub fn position(&self) -> Vec<u8> {
        self.from.lock().clone()
    }
    /// Moves on from `from` to `to`. False: another caller moved first.
    pub fn advance(&self, from: &[u8], to: Vec<u8>) -> bool {
        let mut now = self.from.lock();
        let is_first = *now == from;
        if is_first {
            *now = to;
        }
        is_first
    }
}
