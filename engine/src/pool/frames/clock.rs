//! Finding a frame for a page: the free list, the clock hand, and what to do when neither has one.
//!
//! Pages enter with a reference count of 0, which gives them one lap of the hand; each further use adds one up to 3, each pass of the
//! hand takes one away; the hand evicts clean, unlatched, unpinned pages at 0. So pages read once, or a scan's, touched once or twice, go
//! before pages in steady use. Dirty pages at 0 are *cold*: the cleaner, or a thread that found nothing clean, writes them.
//! The cleaner keeps a few frames free, so that a miss seldom has to look for one.
//!
//! Latches: only try-latches on victims. A thread that needs a frame may hold page latches of its own (the parent during a
//! descent): it waits for no latch here, flushers take only try-latches, so nobody waits for it in a circle. When all
//! frames are latched by others for too long the answer is `Error::Full`, not a hang.
use crate::base::sync::{Rank, RankedMutex};
use crate::base::{Error, Result};
use crate::pool::frames::frame::{Frames, PageWrite, KEY_FREE, KEY_NONE};
use crate::pool::Pool;
use parking_lot::Condvar;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Cold dirty pages that a thread in need of a frame writes at once.
const COLD_MAX: usize = 32;
/// Steps of the hand before a thread in need prefers writing cold pages to looking on.
const QUICK_STEPS: usize = 4096;
const WAIT_MS: u64 = 2;
/// Waits in which nothing happened before a thread gives up: 10 s.
const WAITS_MAX: usize = if cfg!(test) { 200 } else { 5000 };

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
    /// Frames may have become evictable.
    pub fn notify(&self) {
        self.freed.notify_all();
    }
    /// Until [`Clock::notify`], or a moment; true: the moment passed.
    pub fn wait(&self) -> bool {
        let mut guard = self.waiting.lock();
        self.freed
            .wait_for(guard.raw(), Duration::from_millis(WAIT_MS))
            .timed_out()
    }
    fn push(&self, index: u32) {
        let mut free = self.free.lock();
        free.push(index);
        self.free_count.store(free.len(), Ordering::Relaxed);
    }
    /// And how many are left.
    fn pop(&self) -> Option<(u32, usize)> {
        let mut free = self.free.lock();
        let index = free.pop()?;
        self.free_count.store(free.len(), Ordering::Relaxed);
        Some((index, free.len()))
    }
}

impl Pool {
    /// An empty frame, X-latched, its key `KEY_NONE`.
    pub(in crate::pool) fn take_frame(&self) -> Result<PageWrite<'_>> {
        if let Some(frame) = self.pop_free() {
            return Ok(frame);
        }
        self.wake_cleaner();
        let mut cold = Vec::new();
        match self.sweep(QUICK_STEPS.min(self.lap()), &mut cold) {
            Some(frame) => Ok(frame),
            None => self.take_frame_slow(cold),
        }
    }
    /// An empty frame if one is to be had without writing or waiting.
    pub(in crate::pool) fn take_clean_frame(&self) -> Option<PageWrite<'_>> {
        self.pop_free()
            .or_else(|| self.sweep(256.min(self.lap()), &mut Vec::new()))
    }
    /// Steps after which every evictable page has been met at 0.
    fn lap(&self) -> usize {
        5 * self.frames.len()
    }
    pub(in crate::pool) fn pop_free(&self) -> Option<PageWrite<'_>> {
        let (index, left) = self.clock.pop()?;
        if left == self.clock.free_target / 2 {
            self.wake_cleaner();
        }
        // Only a reader with an outdated guess can hold this latch, for a moment.
        let frame = self.frames.write(index);
        assert_eq!(frame.key(), KEY_FREE, "the free list holds free frames");
        frame.set_key(KEY_NONE);
        Some(frame)
    }
    #[cold]
    fn take_frame_slow(&self, mut cold: Vec<u32>) -> Result<PageWrite<'_>> {
        self.counters.buffer_pool_wait_free.inc();
        let mut waits = 0;
        while waits < WAITS_MAX {
            let tried = !cold.is_empty();
            let mut written = 0;
            if tried {
                written = self.write_cold(&cold)?;
                if let Some(frame) = cold.iter().find_map(|index| self.try_evict(*index)) {
                    return Ok(frame);
                }
            }
            cold.clear();
            if let Some(frame) = self.pop_free().or_else(|| self.sweep(self.lap(), &mut cold)) {
                return Ok(frame);
            }
            // Nothing to write, or all of it latched or in flight: others must get on first.
            if cold.is_empty() || (tried && written == 0) {
                self.check_alive()?;
                waits += self.clock.wait() as usize;
            }
        }
        Err(Error::Full(format!(
            "all {} pages of the buffer pool are in use at once; raise sluice_buffer_pool_size",
            self.frames.len()
        )))
    }
    /// Moves the hand until it evicts a page, at most `steps_max` steps; collects cold dirty pages on its way, and stops
    /// early once it has enough of them.
    fn sweep(&self, steps_max: usize, cold: &mut Vec<u32>) -> Option<PageWrite<'_>> {
        for _ in 0..steps_max {
            let index = (self.clock.hand.fetch_add(1, Ordering::Relaxed) % self.frames.len()) as u32;
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
    /// Empties the frame if nobody uses it and the data file has all of it.
    fn try_evict(&self, index: u32) -> Option<PageWrite<'_>> {
        if self.frames.header(index).needs_disk() {
            return None;
        }
        let page = self.frames.try_write(index)?;
        // Again, now that the latch freezes it.
        if page.frame().needs_disk() || page.key() == KEY_FREE {
            return None;
        }
        if page.key() == KEY_NONE {
            // Its page was thrown away while somebody waited for it.
            return (page.frame().pins.load(Ordering::Acquire) == 0).then_some(page);
        }
        let imprint = self.imprints.make(page.bytes());
        let shard = self.table.lock(&self.frames, page.key());
        if page.frame().pins.load(Ordering::Acquire) != 0 {
            return None;
        }
        shard.remove(index);
        if let Some(imprint) = imprint {
            self.imprints.keep(page.key(), imprint);
        }
        page.set_key(KEY_NONE);
        drop(shard);
        self.counters.buffer_pool_pages_evicted.inc();
        Some(page)
    }
    /// An empty X-latched frame goes to the free list; if somebody still waits for it or writes from it, the hand will find
    /// it later.
    pub(in crate::pool) fn give_back(&self, frame: PageWrite<'_>) {
        debug_assert_eq!(frame.key(), KEY_NONE);
        if frame.frame().pins.load(Ordering::Acquire) == 0 && !frame.frame().needs_disk() {
            let index = frame.index();
            frame.set_key(KEY_FREE);
            frame.frame().set_refs(0);
            drop(frame);
            self.clock.push(index);
            self.clock.notify();
        }
    }
    /// The cleaner's part: fills the free list from clean pages, and names cold dirty ones in the way, at most `cold_max`.
    pub(in crate::pool) fn refill_free(&self, cold_max: usize) -> Vec<u32> {
        let mut cold = Vec::new();
        let mut steps_left = self.lap().min(16 * self.clock.free_target + 1024);
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
    /// Cold dirty pages that the hand will meet next: with them a batch is worth its syncs, and the hand will find them clean.
    fn look_ahead(&self, cold: &mut Vec<u32>, cold_max: usize) {
        let hand = self.clock.hand.load(Ordering::Relaxed);
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
    /// Tests: every page that is clean and nobody's leaves.
    #[cfg(test)]
    pub(crate) fn evict_clean(&self) {
        for index in 0..self.frames.len() as u32 {
            if let Some(frame) = self.try_evict(index) {
                self.give_back(frame);
            }
        }
    }
    /// Evicts those of `frames` that can be, while the free list is short.
    pub(in crate::pool) fn free_cold(&self, frames: &[u32]) {
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
}
