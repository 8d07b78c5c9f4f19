//! [`RoomWaiters`]: the threads that wait for room in the ring.
//!
//! One leaf lock. Called by: `reserve.rs` (waits), `checkpoint.rs`, `on_off.rs`, `log.rs` (wake).
use crate::base::sync::holds_no_latch;
use crate::base::sync::{RankedCondvar, RankedMutex};
use crate::base::{sync_point, SyncPoint};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Covers a resize of the ring that comes between a waiter's check and its sleep.
const TIMEOUT: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(super) struct RoomWaiters {
    lock: RankedMutex<()>,
    made: RankedCondvar,
    count: AtomicUsize,
}

impl RoomWaiters {
    /// At least one thread waits.
    pub fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }
    /// Waits for one wake-up, or the timeout.
    pub fn wait_once(&self) {
        let mut first = true;
        self.wait_while(|| std::mem::take(&mut first));
    }
    /// Waits while there is no room. The caller holds no latch.
    pub fn wait_while(&self, mut no_room: impl FnMut() -> bool) {
        debug_assert!(holds_no_latch(), "I5: room in the log is waited for with no latch held");
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut guard = self.lock.lock();
        while no_room() {
            sync_point(SyncPoint::RoomAwaited);
            self.made.wait_for(&mut guard, TIMEOUT);
        }
        drop(guard);
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
    pub fn wake_all(&self) {
        let _guard = self.lock.lock();
        self.made.notify_all();
    }
}
