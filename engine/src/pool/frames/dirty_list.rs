//! The dirty list: which frames have changes that their data file lacks, oldest change first; and
//! the checkpoint bound.
//!
//! A frame enters when it turns from clean to dirty, with the redo LSN of that time. The LSN is
//! read *inside* the list's mutex and *before* the change's redo group is appended. So the list is
//! sorted as it grows and costs nothing for pages that are dirty already. Each frame's LSN bounds
//! its first unwritten change from below.
//!
//! Writing a page does not remove its entry; the entry is recognised as stale later: an entry (lsn,
//! frame) is valid while `frame.oldest_lsn == lsn`. A batch on its way to disk is a *flight* with a
//! bound of its own.
//!
//! Why [`DirtyList::bound`] is safe. Let a group start at LSN s < bound, and let P be a page that
//! it changed. The group's marks came before its append, and `redo.lsn()` is read inside the mutex.
//! So every mark of a group appended by then has been made. One of three cases holds.
//! (a) P's frame is on the list with an LSN <= s. Then bound <= s: a contradiction.
//! (b) P's entry is stale or was popped. Then a flusher claimed the page in a flight, whose bound
//!     was registered under this mutex before the claim and is <= P's LSN <= s. While the flight
//!     lasts, bound <= s: a contradiction.
//! (c) So the flight has ended, and the change is durable in place.
//!
//! A page that a flusher popped but did not claim comes back to the list before its flight ends. Or
//! another flight ([`DirtyList::hold`]) takes it over before that, with a bound <= the page's LSN,
//! and the page comes back before the other flight ends.
//!
//! A flight's bound holds for every page claimed in it. Since the flight began, a frame may have
//! got another page: a logged page instead of an unlogged one. A mark made since then has an LSN of
//! at least `redo.lsn()` at that time, so no bound is higher.
//!
//! Lock: `Rank::DirtyList`; inside it only atomics are read and `redo.lsn()` is called.
//! Called by: `store` (marks), `batch` (flights), `flush` (the bound), recovery.
use super::frame::{Frame, Frames, UNLOGGED};
use crate::base::sync::{Rank, RankedGuard, RankedMutex};
use crate::base::Lsn;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A frame that a flusher may write.
#[derive(Clone, Copy, Debug)]
pub(in crate::pool) struct Candidate {
    pub frame: u32,
    /// Its entry's LSN if it was popped from the list. None: the clock hand met it, and its entry
    /// is still listed.
    pub popped: Option<Lsn>,
}

/// A batch between the claim of its pages and their durability.
#[derive(Debug)]
pub(in crate::pool) struct Flight {
    number: u64,
}

#[derive(Default)]
struct Inner {
    logged: VecDeque<(Lsn, u32)>,
    unlogged: VecDeque<u32>,
    /// What recovery made dirty, in the order of pages, until `sort_recovered`. Only cold pages are
    /// written meanwhile, and no checkpoint.
    recovered: Vec<(Lsn, u32)>,
    flights: Vec<(u64, Lsn)>,
    next_flight: u64,
}

pub(in crate::pool) struct DirtyList {
    inner: RankedMutex<Inner>,
    /// Dirty frames, those in flight not counted.
    count: AtomicUsize,
}

impl DirtyList {
    pub fn new() -> DirtyList {
        DirtyList {
            inner: RankedMutex::new(Rank::DirtyList, Inner::default()),
            count: AtomicUsize::new(0),
        }
    }
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
    /// Locks the list, to mark several frames under one lock.
    pub fn lock(&self) -> Marker<'_> {
        Marker {
            inner: self.inner.lock(),
            count: &self.count,
        }
    }
    /// Recovery: the X-latched, clean frame becomes dirty with a change at or after `lsn`. Callers
    /// come in any order.
    pub fn mark_recovered(&self, frame: &Frame, index: u32, lsn: Lsn) {
        assert!(lsn != 0, "LSN 0 means clean");
        let mut inner = self.inner.lock();
        let old = frame.oldest_lsn.swap(lsn, Ordering::Release);
        debug_assert!(old == 0, "only a clean frame enters the dirty list");
        inner.recovered.push((lsn, index));
        self.count.fetch_add(1, Ordering::Relaxed);
    }
    /// Recovery: what was marked since the last call joins the list.
    pub fn sort_recovered(&self) {
        let mut inner = self.inner.lock();
        let recovered = std::mem::take(&mut inner.recovered);
        inner.logged.extend(recovered);
        inner.logged.make_contiguous().sort_unstable();
    }
    /// The frame becomes clean: its copy is on the way to disk, or its page is thrown away. The
    /// head of `frame` says which thread may do that.
    pub fn clear(&self, frame: &Frame) {
        if frame.oldest_lsn.swap(0, Ordering::Release) != 0 {
            let before = self.count.fetch_sub(1, Ordering::Relaxed);
            debug_assert!(before > 0, "a frame that becomes clean was counted as dirty");
        }
    }
    /// The page of `old` moves to `new`, whose number is `index`, with its changes. Both are
    /// X-latched, and no copy of the page is on its way to disk.
    ///
    /// The bound stays what it was: the page is on the list with its LSN, under one lock. If a
    /// flusher has popped the old entry, that is stale from now on (case (a)).
    pub fn transfer(&self, old: &Frame, new: &Frame, index: u32) {
        let mut inner = self.inner.lock();
        let lsn = old.oldest_lsn.load(Ordering::Acquire);
        debug_assert_eq!(new.oldest(), 0, "W4: the frame that takes the page is clean");
        if lsn != 0 {
            // The new frame first, so that the page never looks clean.
            new.oldest_lsn.store(lsn, Ordering::Release);
            inner.insert(lsn, index);
            old.oldest_lsn.store(0, Ordering::Release);
        }
    }
    /// Every change below the result is durable in place. `redo_lsn` gives the next LSN.
    pub fn bound(&self, frames: &Frames, redo_lsn: impl FnOnce() -> Lsn) -> Lsn {
        let mut inner = self.inner.lock();
        assert!(
            inner.recovered.is_empty(),
            "no checkpoint while recovery applies the log"
        );
        let mut bound = redo_lsn();
        inner.drop_stale_front(frames);
        if let Some((lsn, _)) = inner.logged.front() {
            bound = bound.min(*lsn);
        }
        inner.flights.iter().fold(bound, |bound, (_, lsn)| bound.min(*lsn))
    }
    /// Listed frames whose first change is older than `lsn` (stale entries may be counted).
    pub fn older_than(&self, lsn: Lsn) -> usize {
        self.inner.lock().logged.partition_point(|(l, _)| *l < lsn)
    }
    /// Begins a flight for `cold`, whose entries stay listed, and up to `pages_max` of the oldest
    /// entries older than `below`. With `unlogged`, unlogged pages fill up the rest. `redo_lsn`
    /// gives the next LSN.
    pub fn begin_flight(
        &self,
        frames: &Frames,
        cold: &[u32],
        pages_max: usize,
        below: Lsn,
        unlogged: bool,
        redo_lsn: impl FnOnce() -> Lsn,
    ) -> (Flight, Vec<Candidate>) {
        let mut inner = self.inner.lock();
        let mut bound = redo_lsn();
        let mut candidates = Vec::with_capacity(cold.len() + pages_max);
        for &frame in cold {
            let oldest = frames.header(frame).oldest();
            if oldest != 0 {
                bound = bound.min(oldest);
                candidates.push(Candidate { frame, popped: None });
            }
        }
        for _ in 0..pages_max {
            inner.drop_stale_front(frames);
            match inner.logged.front() {
                Some(&(lsn, frame)) if lsn < below => {
                    inner.logged.pop_front();
                    bound = bound.min(lsn);
                    let popped = Some(lsn);
                    candidates.push(Candidate { frame, popped });
                }
                _ => break,
            }
        }
        let left = if unlogged {
            pages_max + cold.len() - candidates.len()
        } else {
            0
        };
        for _ in 0..left {
            let Some(frame) = inner.unlogged.pop_front() else { break };
            if frames.header(frame).oldest() == UNLOGGED {
                let popped = Some(UNLOGGED);
                candidates.push(Candidate { frame, popped });
            }
        }
        debug_assert!(
            candidates
                .iter()
                .all(|candidate| candidate.popped.is_none_or(|lsn| bound <= lsn)),
            "no checkpoint passes a page that is in flight"
        );
        (inner.begin(bound), candidates)
    }
    /// A flight for candidates that were popped and will not be claimed: no checkpoint passes them
    /// until they are put back. It begins before the flight ends in which they were popped.
    pub fn hold(&self, candidates: &[Candidate]) -> Flight {
        debug_assert!(
            candidates.iter().all(|c| c.popped.is_some()),
            "what is still listed needs no hold"
        );
        let oldest = candidates.iter().filter_map(|c| c.popped).min();
        // (UNLOGGED bounds nothing.)
        let mut inner = self.inner.lock();
        debug_assert!(
            oldest.is_none_or(|lsn| lsn == UNLOGGED || inner.is_held(lsn)),
            "a flight takes pages over before the other one ends"
        );
        inner.begin(oldest.unwrap_or(Lsn::MAX))
    }
    /// Puts candidates that were not claimed back, before their flight ends.
    pub fn put_back(&self, frames: &Frames, candidates: &[Candidate]) {
        let mut inner = self.inner.lock();
        for candidate in candidates {
            let Some(lsn) = candidate.popped else { continue };
            debug_assert!(
                lsn == UNLOGGED || inner.is_held(lsn),
                "a page that was popped is listed again before its flight ends"
            );
            if frames.header(candidate.frame).oldest() == lsn {
                inner.insert(lsn, candidate.frame);
            }
        }
    }
    /// Every page claimed in the flight is durable in place. After a failed write the flight never
    /// ends (I6).
    pub fn end_flight(&self, flight: Flight) {
        let mut inner = self.inner.lock();
        debug_assert!(
            inner.flights.iter().any(|(number, _)| *number == flight.number),
            "a flight ends once"
        );
        inner.flights.retain(|(number, _)| *number != flight.number);
    }
}

impl Inner {
    fn begin(&mut self, bound: Lsn) -> Flight {
        let number = self.next_flight;
        self.next_flight += 1;
        self.flights.push((number, bound));
        Flight { number }
    }
    /// Does a flight keep checkpoints below `lsn`?
    fn is_held(&self, lsn: Lsn) -> bool {
        self.flights.iter().any(|(_, bound)| *bound <= lsn)
    }
    fn drop_stale_front(&mut self, frames: &Frames) {
        while let Some(&(lsn, frame)) = self.logged.front() {
            if frames.header(frame).oldest() == lsn {
                return;
            }
            self.logged.pop_front();
        }
    }
    fn insert(&mut self, lsn: Lsn, frame: u32) {
        if lsn == UNLOGGED {
            self.unlogged.push_back(frame);
        } else if self.logged.back().is_none_or(|(last, _)| *last <= lsn) {
            self.logged.push_back((lsn, frame));
        } else {
            let at = self.logged.partition_point(|(l, _)| *l < lsn);
            self.logged.insert(at, (lsn, frame));
        }
    }
    /// Stale entries are dropped for good once they may be the majority.
    fn compact(&mut self, frames: &Frames) {
        let entries_max = 2 * frames.mapped() + 1024;
        if self.logged.len() > entries_max {
            self.logged
                .retain(|(lsn, frame)| frames.header(*frame).oldest() == *lsn);
            // The same LSN can stand twice for a frame that was written in between.
            let mut seen = std::collections::HashSet::with_capacity(frames.mapped());
            self.logged.retain(|(_, frame)| seen.insert(*frame));
        }
        if self.unlogged.len() > entries_max {
            let mut seen = std::collections::HashSet::with_capacity(frames.mapped());
            self.unlogged
                .retain(|frame| frames.header(*frame).oldest() == UNLOGGED && seen.insert(*frame));
        }
    }
}

/// The list, locked for entering frames.
pub(in crate::pool) struct Marker<'l> {
    inner: RankedGuard<'l, Inner>,
    count: &'l AtomicUsize,
}

impl Marker<'_> {
    /// The X-latched, clean frame becomes dirty with a change at or after `lsn`, which was read
    /// under this lock.
    pub fn mark(&mut self, frames: &Frames, index: u32, lsn: Lsn) {
        assert!(lsn != 0, "LSN 0 means clean");
        self.inner.compact(frames);
        debug_assert!(
            lsn == UNLOGGED || self.inner.logged.back().is_none_or(|(last, _)| *last <= lsn),
            "frames enter the list in the order of the log"
        );
        let old = frames.header(index).oldest_lsn.swap(lsn, Ordering::Release);
        debug_assert!(old == 0, "only a clean frame enters the dirty list");
        self.inner.insert(lsn, index);
        self.count.fetch_add(1, Ordering::Relaxed);
    }
}
