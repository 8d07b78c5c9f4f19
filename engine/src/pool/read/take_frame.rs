//! A frame for a page that is read: from `evict`, or by writing cold pages when no clean one is
//! left.
//!
//! A thread that needs a frame may hold page latches of its own (the parent during a descent). It
//! waits for no latch here, and flushers take only try-latches, so no circle of waits can close.
//! When all frames are latched by other threads for too long the answer is `Error::Full`, not a
//! hang.
//!
//! Called by: `fetch`.
use super::fetch::Reader;
use crate::base::{Error, Result};
use crate::pool::frames::frame::PageWrite;

/// Steps of the hand before a thread in need prefers writing cold pages to looking on.
const QUICK_STEPS: usize = 4096;
/// Waits without any progress before a thread gives up: 10 s. In tests 2 s: a flusher that a busy
/// machine runs under the thread sanitizer takes more than half a second.
const WAITS_MAX: usize = if cfg!(test) { 1000 } else { 5000 };

impl Reader {
    /// An empty frame, X-latched, its key `KEY_NONE`.
    pub(super) fn take_frame(&self) -> Result<PageWrite<'_>> {
        let store = self.store();
        if let Some(frame) = store.pop_free() {
            return Ok(frame);
        }
        store.cleaner.wake();
        let mut cold = Vec::new();
        match store.sweep(QUICK_STEPS.min(store.lap()), &mut cold) {
            Some(frame) => Ok(frame),
            None => self.take_frame_slow(cold),
        }
    }
    #[cold]
    fn take_frame_slow(&self, mut cold: Vec<u32>) -> Result<PageWrite<'_>> {
        let store = self.store();
        self.counters().buffer_pool_wait_free.inc();
        let mut waits = 0;
        while waits < WAITS_MAX {
            let tried = !cold.is_empty();
            let mut written = 0;
            if tried {
                written = self.writer().write_cold(&cold)?;
                if let Some(frame) = cold.iter().find_map(|index| store.try_evict(*index)) {
                    return Ok(frame);
                }
            }
            cold.clear();
            if let Some(frame) = store.pop_free().or_else(|| store.sweep(store.lap(), &mut cold)) {
                return Ok(frame);
            }
            // Nothing to write, or all of it latched or in flight: other threads must get on first.
            if cold.is_empty() || (tried && written == 0) {
                store.poison.check()?;
                waits += store.clock.wait() as usize;
            }
        }
        Err(Error::Full(format!(
            "all {} pages of the buffer pool are in use at once; raise sluice_buffer_pool_size",
            store.frames.len()
        )))
    }
}
