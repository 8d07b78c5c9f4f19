//! Finding a frame for a page: the free list, then the clock hand.
//!
//! A page enters with a reference count of 0: the next visit of the hand evicts it. Each further
//! use adds one, up to 3; each visit of the hand subtracts one. The hand evicts clean, unlatched,
//! unpinned pages at 0. More reads of a page by one scan do not count. Nor does the first use of
//! a page that was read ahead. So pages read by one scan are evicted before pages
//! in steady use. Dirty pages at 0 are *cold*: the cleaner writes them, or a thread that found
//! nothing clean. The cleaner keeps a few frames free, so that a miss seldom has to look for one.
//!
//! Latches: only try-latches on victims. A thread that needs a frame may hold page latches of its
//! own (the parent during a descent), so it waits for no latch here. Locks: the page table's shard
//! and the free list.
//! Called by: `take_frame`, `prefetch`, `flush`, `store`.
use super::frame::{PageWrite, KEY_FREE, KEY_NONE, KEY_WITHDRAWN};
use super::store::FrameStore;
use crate::base::sync::holds_no_latch;
use std::sync::atomic::Ordering;

/// Cold dirty pages that a thread in need of a frame collects, at most.
const COLD_MAX: usize = 32;

impl FrameStore {
    /// An empty frame, if there is one without writing or waiting.
    pub fn take_clean_frame(&self) -> Option<PageWrite<'_>> {
        self.pop_free()
            .or_else(|| self.sweep(256.min(self.lap()), &mut Vec::new()))
    }
    /// Steps after which the hand has found every evictable page at 0.
    pub fn lap(&self) -> usize {
        5 * self.frames.len()
    }
    /// A frame of the free list, X-latched, its key `KEY_NONE`.
    pub fn pop_free(&self) -> Option<PageWrite<'_>> {
        let (index, left) = self.clock.pop()?;
        if left == self.clock.free_target() / 2 {
            self.cleaner.wake();
        }
        // Only a reader that followed an outdated hint can hold this latch, and only briefly.
        let frame = self.frames.write(index);
        assert_eq!(frame.key(), KEY_FREE, "W1: the free list holds free frames");
        debug_assert!(!frame.frame().needs_disk(), "W1: a free frame has nothing to write");
        frame.set_key(KEY_NONE);
        Some(frame)
    }
    /// Moves the hand until it evicts a page, at most `steps_max` steps. Collects cold dirty pages
    /// on its way, and stops early once it has enough of them.
    pub fn sweep(&self, steps_max: usize, cold: &mut Vec<u32>) -> Option<PageWrite<'_>> {
        for _ in 0..steps_max {
            // The last frames are left alone while they are withdrawn.
            let index = (self.clock.advance() % self.frames.len()) as u32;
            let frame = self.frames.header(index);
            if frame.key() == KEY_FREE || !frame.age() {
                continue;
            }
            if frame.oldest() != 0 {
                cold.push(index);
                if cold.len() >= COLD_MAX {
                    return None;
                }
            } else if let Some(frame) = self.try_evict(index) {
                return Some(frame);
            }
        }
        None
    }
    /// Empties the frame if no thread uses it and the data file has all of its page.
    pub fn try_evict(&self, index: u32) -> Option<PageWrite<'_>> {
        if self.frames.header(index).needs_disk() {
            return None;
        }
        self.evict_latched(self.frames.try_write(index)?)
    }
    /// The same for a frame that is X-latched already.
    pub(super) fn evict_latched<'p>(&'p self, page: PageWrite<'p>) -> Option<PageWrite<'p>> {
        let index = page.index();
        // While the latch is held, the key cannot change.
        if page.frame().needs_disk() || [KEY_FREE, KEY_WITHDRAWN].contains(&page.key()) {
            return None;
        }
        if page.key() == KEY_NONE {
            // Its page was thrown away while some thread waited for it.
            return (page.frame().pins.load(Ordering::Acquire) == 0).then_some(page);
        }
        let filter = self.absence_filters.make(page.bytes());
        debug_assert!(!page.frame().needs_disk(), "a page that is evicted is on disk as it is");
        let shard = self.table.lock(&self.frames, page.key());
        if page.frame().pins.load(Ordering::Acquire) != 0 {
            return None;
        }
        shard.remove(index);
        if let Some(filter) = filter {
            self.absence_filters.keep(page.key(), filter);
        }
        page.set_key(KEY_NONE);
        drop(shard);
        self.counters.buffer_pool_pages_evicted.inc();
        Some(page)
    }
    /// An empty X-latched frame goes to the free list. If a thread still waits for it or writes
    /// from it, the hand will find it later. If it is to be withdrawn, that will find it.
    pub fn give_back(&self, frame: PageWrite<'_>) {
        debug_assert_eq!(frame.key(), KEY_NONE, "only an empty frame becomes free");
        if frame.frame().pins.load(Ordering::Acquire) == 0 && !frame.frame().needs_disk() {
            let index = frame.index();
            frame.set_key(KEY_FREE);
            frame.frame().set_refs(0);
            drop(frame);
            if !self.clock.push(index) {
                // On no list, so no other thread changes the key.
                self.frames.write(index).set_key(KEY_NONE);
            }
            self.clock.notify();
        }
    }
    /// The cleaner's part: fills the free list from clean pages. Returns the cold dirty pages that
    /// the hand met, at most `cold_max`.
    pub fn refill_free(&self, cold_max: usize) -> Vec<u32> {
        debug_assert!(
            holds_no_latch(),
            "the page cleaner holds no latch while it frees frames"
        );
        let mut cold = Vec::new();
        let mut steps_left = self.lap().min(16 * self.clock.free_target() + 1024);
        while self.clock.deficit() > 0 && steps_left > 0 && cold.len() < cold_max {
            let mut met = Vec::new();
            let steps = steps_left.min(64);
            steps_left -= steps;
            if let Some(frame) = self.sweep(steps, &mut met) {
                self.give_back(frame);
            }
            cold.append(&mut met);
        }
        if !cold.is_empty() {
            self.look_ahead(&mut cold, cold_max);
        }
        cold.sort_unstable();
        cold.dedup();
        cold.truncate(cold_max);
        cold
    }
    /// Adds cold dirty pages that the hand will visit next. A larger batch costs as few syncs, and
    /// the hand will find these pages clean.
    fn look_ahead(&self, cold: &mut Vec<u32>, cold_max: usize) {
        let hand = self.clock.hand();
        for step in 0..self.frames.len() / 4 {
            if cold.len() >= cold_max {
                break;
            }
            let index = ((hand + step) % self.frames.len()) as u32;
            let frame = self.frames.header(index);
            if frame.refs() == 0 && frame.oldest() != 0 {
                cold.push(index);
            }
        }
    }
    /// Evicts those of `frames` that can be, while the free list is short.
    pub fn free_cold(&self, frames: &[u32]) {
        for index in frames {
            if self.clock.deficit() == 0 {
                break;
            }
            if self.frames.header(*index).refs() == 0 {
                if let Some(frame) = self.try_evict(*index) {
                    self.give_back(frame);
                }
            }
        }
    }
    /// Tests: evicts every clean page that no thread uses.
    #[cfg(test)]
    pub fn evict_clean(&self) {
        for index in 0..self.frames.mapped() as u32 {
            if let Some(frame) = self.try_evict(index) {
                self.give_back(frame);
            }
        }
    }
}
