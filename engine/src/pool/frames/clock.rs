//! The clock: the list of free frames, and the hand that looks for frames to free.
//!
//! It knows frames by number only; `evict` decides which of them may leave.
//! Locks: `Rank::FreeList`, and one of rank `Leaf` for threads that wait for a frame.
//! Called by: `evict`, `store`, and threads that wait until some page was written or evicted.
use crate::base::sync::{Rank, RankedMutex};
use crate::pool::frames::frame::{Frames, KEY_FREE};
use parking_lot::Condvar;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Longest time of one wait.
const WAIT_MS: u64 = 2;

pub(in crate::pool) struct Clock {
    hand: AtomicUsize,
    free: RankedMutex<Vec<u32>>,
    free_count: AtomicUsize,
    /// Frames that the cleaner keeps free.
    pub free_target: usize,
    waiting: RankedMutex<()>,
    freed: Condvar,
}

impl Clock {
    /// All frames are free.
    pub fn new(frames: &Frames) -> Clock {
        let count = frames.len();
        for index in 0..count as u32 {
            frames.write(index).set_key(KEY_FREE);
        }
        Clock {
            hand: AtomicUsize::new(0),
            free: RankedMutex::new(Rank::FreeList, (0..count as u32).rev().collect()),
            free_count: AtomicUsize::new(count),
            free_target: (count / 32).clamp(1, 1024),
            waiting: RankedMutex::new(Rank::Leaf, ()),
            freed: Condvar::new(),
        }
    }
    pub fn free_count(&self) -> usize {
        self.free_count.load(Ordering::Relaxed)
    }
    /// How many frames are missing from the free list.
    pub fn deficit(&self) -> usize {
        self.free_target.saturating_sub(self.free_count())
    }
    /// Where the hand is: steps since the start.
    pub fn hand(&self) -> usize {
        self.hand.load(Ordering::Relaxed)
    }
    /// Moves the hand by one frame; returns where it was.
    pub fn advance(&self) -> usize {
        self.hand.fetch_add(1, Ordering::Relaxed)
    }
    /// Frames may have become evictable.
    pub fn notify(&self) {
        self.freed.notify_all();
    }
    /// Waits for [`Clock::notify`], a few milliseconds at most. True: the time ended first.
    pub fn wait(&self) -> bool {
        let mut guard = self.waiting.lock();
        self.freed
            .wait_for(guard.raw(), Duration::from_millis(WAIT_MS))
            .timed_out()
    }
    pub fn push(&self, index: u32) {
        let mut free = self.free.lock();
        free.push(index);
        self.free_count.store(free.len(), Ordering::Relaxed);
    }
    /// A free frame, and how many are left.
    pub fn pop(&self) -> Option<(u32, usize)> {
        let mut free = self.free.lock();
        let index = free.pop()?;
        self.free_count.store(free.len(), Ordering::Relaxed);
        Some((index, free.len()))
    }
}
