//! The signal that wakes the page cleaner before its next round.
//!
//! Lock: one of rank `Leaf`.
//! Called by: `evict` (wakes), `flush` (waits and wakes).
use crate::base::sync::{Rank, RankedMutex};
use parking_lot::Condvar;
use std::time::Duration;

pub(in crate::pool) struct CleanerSignal {
    /// Set until the cleaner has seen it, so that no call of `wake` is lost.
    woken: RankedMutex<bool>,
    wake: Condvar,
}

impl CleanerSignal {
    pub fn new() -> CleanerSignal {
        CleanerSignal {
            woken: RankedMutex::new(Rank::Leaf, false),
            wake: Condvar::new(),
        }
    }
    /// Blocks until `wake` is called, or was called since the last wait, or the timeout ends.
    pub fn wait(&self, timeout_ms: u64) {
        let mut woken = self.woken.lock();
        if !*woken {
            self.wake.wait_for(woken.raw(), Duration::from_millis(timeout_ms));
        }
        *woken = false;
    }
    pub fn wake(&self) {
        let mut woken = self.woken.lock();
        if !*woken {
            *woken = true;
            self.wake.notify_all();
        }
    }
}
