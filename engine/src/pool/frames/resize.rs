//! Adds and withdraws frames: W1 to W3 of `docs/decisions/2026-11-28-buffer-pool-resize.md`.
//!
//! One thread at a time resizes (`pool::Pool::resize`); it holds no latch. Latches: those of free
//! and of withdrawn frames, which only threads with outdated guesses hold. All other frames are
//! try-latched. Locks: the free list's, the page table's. Called by: `store` (the first frames),
//! `write::shrink`, the pool.
use super::frame::{PageWrite, KEY_FREE, KEY_NONE, KEY_WITHDRAWN};
use super::store::FrameStore;
use crate::base::sync::holds_no_latch;
use crate::base::{sync_point, Result, SyncPoint};
use std::sync::atomic::Ordering;

/// The result of one try to withdraw a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::pool) enum Withdrawal {
    Done,
    /// It was withdrawn before.
    DoneBefore,
    /// Its page must be written first.
    Dirty,
    /// Latched, on its way to disk, or about to get a page.
    Busy,
}

impl FrameStore {
    /// Adds frames, up to `count`. After an error (`Full`) nothing is changed.
    pub fn grow(&self, count: usize) -> Result<()> {
        let old = self.frames.mapped();
        assert!(old == self.frames.len(), "one resize at a time");
        debug_assert!(old <= count, "a pool that grows keeps its frames");
        self.frames.map(count)?;
        self.table.resize(&self.frames, count);
        self.absence_filters.resize(count);
        self.frames.set_len(count);
        self.free_new(old);
        Ok(())
    }
    /// Puts the withdrawn frames from `from` on into the free list.
    pub(super) fn free_new(&self, from: usize) {
        debug_assert!(holds_no_latch(), "W7: the latches of withdrawn frames are waited for");
        let count = self.frames.len();
        self.clock.set_limit(count);
        let free = |index: &u32| {
            // Frames with pages are left alone. No other thread withdraws frames, or undoes that.
            if self.frames.header(*index).key() != KEY_WITHDRAWN {
                return false;
            }
            let frame = self.frames.write(*index);
            frame.frame().set_refs(0);
            // A pinned frame gets no page (W7). The hand finds it later.
            let is_pinned = frame.frame().pins.load(Ordering::Acquire) > 0;
            frame.set_key(if is_pinned { KEY_NONE } else { KEY_FREE });
            !is_pinned
        };
        self.clock
            .extend((from as u32..count as u32).rev().filter(free).collect());
        self.clock.notify();
    }
    /// From now on no thread takes a frame from `count` on. Threads that have taken one may still
    /// fill it.
    pub fn begin_withdrawal(&self, count: usize) {
        debug_assert!(holds_no_latch(), "W2: the latches of withdrawn frames are waited for");
        self.frames.set_len(count);
        for index in self.clock.set_limit(count) {
            let frame = self.frames.write(index);
            assert_eq!(frame.key(), KEY_FREE, "W2: the free list holds free frames");
            frame.set_key(KEY_WITHDRAWN);
        }
    }
    /// All frames may get pages again.
    pub fn cancel_withdrawal(&self) {
        let from = self.frames.len();
        self.frames.set_len(self.frames.mapped());
        self.free_new(from);
    }
    /// All frames from `len` on are withdrawn: gives their memory back.
    pub fn end_withdrawal(&self) {
        let count = self.frames.len();
        self.table.resize(&self.frames, count);
        self.absence_filters.resize(count);
        self.frames.unmap(count);
    }
    /// Tries to empty and withdraw one frame. A page in use moves to a frame below `len`, if
    /// `moves_left` is above 0. Any other page is evicted.
    pub fn withdraw(&self, index: u32, moves_left: &mut usize) -> Withdrawal {
        debug_assert!(
            index as usize >= self.frames.len(),
            "W2: only frames past the end are withdrawn"
        );
        let frame = self.frames.header(index);
        if frame.key() == KEY_WITHDRAWN {
            return Withdrawal::DoneBefore;
        }
        let moves = *moves_left > 0 && frame.refs() > 0;
        if frame.in_flight.load(Ordering::Acquire) {
            return Withdrawal::Busy;
        }
        if frame.oldest() != 0 && !moves {
            return Withdrawal::Dirty;
        }
        // Whether the page can move is checked again under its latch.
        let to = if moves { self.frame_below() } else { None };
        let done = match (self.frames.try_write(index), to) {
            (None, to) => {
                to.into_iter().for_each(|to| self.give_back(to));
                return Withdrawal::Busy;
            }
            (Some(page), Some(to)) if self.is_movable(&page) => {
                self.relocate(&page, to);
                *moves_left -= 1;
                Some(page)
            }
            (Some(page), to) => {
                to.into_iter().for_each(|to| self.give_back(to));
                if page.frame().oldest() != 0 {
                    return Withdrawal::Dirty;
                }
                self.evict_latched(page)
            }
        };
        sync_point(SyncPoint::FrameEmptied);
        match done {
            None => Withdrawal::Busy,
            Some(frame) => {
                assert!(
                    frame.key() == KEY_NONE && !frame.frame().needs_disk(),
                    "W2: only an empty frame is withdrawn"
                );
                frame.set_key(KEY_WITHDRAWN);
                Withdrawal::Done
            }
        }
    }
    /// An empty frame below `len`, if one can be had without a wait.
    fn frame_below(&self) -> Option<PageWrite<'_>> {
        let frame = self.take_clean_frame()?;
        if (frame.index() as usize) < self.frames.len() {
            return Some(frame);
        }
        // The sweep began before the pool began to shrink.
        self.give_back(frame);
        None
    }
    /// Has the frame a page that no thread writes to disk right now?
    fn is_movable(&self, page: &PageWrite<'_>) -> bool {
        ![KEY_FREE, KEY_NONE, KEY_WITHDRAWN].contains(&page.key()) && !page.frame().in_flight.load(Ordering::Acquire)
    }
}
