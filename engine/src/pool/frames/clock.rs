//! The clock: the list of free frames, and the hand that looks for frames to free.
//!
//! It knows frames by number only; `evict` decides which of them may leave.
//! Locks: `Rank::FreeList`, and one of rank `Leaf` for threads that wait for a frame.
//! Called by: `evict`, `store`, and threads that wait until some page was written or evicted.
use crate::base::sync::{Rank, RankedMutex};
use crate::base::{planted, Mutant};
use parking_lot::Condvar;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Longest time of one wait.
const WAIT_MS: u64 = 2;

pub(in crate::pool) struct Clock {
    hand: AtomicUsize,
    free: RankedMutex<FreeList>,
    free_count: AtomicUsize,
    free_target: AtomicUsize,
    waiting: RankedMutex<()>,
    freed: Condvar,
}

struct FreeList {
    frames: Vec<u32>,
    /// Frames from this number on are not added.
    limit: usize,
}

impl Clock {
    /// The list is empty, and accepts no frame yet.
    pub fn new() -> Clock {
        let free = FreeList {
            frames: Vec::new(),
            limit: 0,
        };
        Clock {
            hand: AtomicUsize::new(0),
            free: RankedMutex::new(Rank::FreeList, free),
            free_count: AtomicUsize::new(0),
            free_target: AtomicUsize::new(1),
            waiting: RankedMutex::new(Rank::Leaf, ()),
            freed: Condvar::new(),
        }
    }
    /// From now on the list has only frames below `limit`. Returns those that it removed.
    pub fn set_limit(&self, limit: usize) -> Vec<u32> {
        self.free_target.store((limit / 32).clamp(1, 1024), Ordering::Relaxed);
        let mut free = self.free.lock();
        free.limit = limit;
        if planted(Mutant::WithdrawnFrameStaysFree) {
            return free
                .frames
                .iter()
                .copied()
                .filter(|index| *index as usize >= limit)
                .collect();
        }
        let (kept, given_up) = free.frames.iter().partition(|index| (**index as usize) < limit);
        free.frames = kept;
        self.free_count.store(free.frames.len(), Ordering::Relaxed);
        given_up
    }
    /// Adds frames, all of which are below the limit. `pop` returns the last one first.
    pub fn extend(&self, frames: Vec<u32>) {
        let mut free = self.free.lock();
        debug_assert!(
            frames.iter().all(|index| (*index as usize) < free.limit),
            "W2: the free list has only frames that may get a page"
        );
        free.frames.extend(frames);
        debug_assert!(free.frames.len() <= free.limit, "a frame is free once");
        self.free_count.store(free.frames.len(), Ordering::Relaxed);
    }
    /// Frames that the cleaner keeps free.
    pub fn free_target(&self) -> usize {
        self.free_target.load(Ordering::Relaxed)
    }
    pub fn free_count(&self) -> usize {
        self.free_count.load(Ordering::Relaxed)
    }
    /// How many frames are missing from the free list.
    pub fn deficit(&self) -> usize {
        self.free_target().saturating_sub(self.free_count())
    }
    /// The position of the hand: its steps since the start.
    pub fn hand(&self) -> usize {
        self.hand.load(Ordering::Relaxed)
    }
    /// Moves the hand by one frame; returns where it was.
    pub fn advance(&self) -> usize {
        self.hand.fetch_add(1, Ordering::Relaxed)
    }
    /// Wakes threads that wait for a frame, because frames may have become evictable.
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
    /// False: the frame is not below the limit, and was not added.
    #[must_use]
    pub fn push(&self, index: u32) -> bool {
        let mut free = self.free.lock();
        if index as usize >= free.limit {
            return false;
        }
        debug_assert!(
            free.frames.len() < free.limit,
            "a frame that becomes free is in no list yet"
        );
        free.frames.push(index);
        self.free_count.store(free.frames.len(), Ordering::Relaxed);
        true
    }
    /// A free frame, and how many are left.
    pub fn pop(&self) -> Option<(u32, usize)> {
        let mut free = self.free.lock();
        let index = free.frames.pop()?;
        debug_assert!(
            (index as usize) < free.limit || planted(Mutant::WithdrawnFrameStaysFree),
            "W2: no thread takes a frame that is withdrawn"
        );
        self.free_count.store(free.frames.len(), Ordering::Relaxed);
        Some((index, free.frames.len()))
    }
}
