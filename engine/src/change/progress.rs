//! How far the merging of an index's pending changes is: how old the oldest is, where the sweeps stand, what they could not merge.
//!
//! A sweep goes through the index from its first key to its last (a *pass*), in steps of several callers. When a pass has ended,
//! nothing that was pending when it began still is, so the oldest is at most that old. What a pass had to leave (a change that
//! fits no entry: a corrupt index) is *stuck*: it is no reason for another pass, or a drain would never end. What waits for a page that
//! cannot be read is *unmerged*: a pass goes on behind it, and the table layer sees to it that it does not become too much.
//! Locks: the pass's mutex and that of the reason, held for moments, no latch taken under them.
use super::Delta;
use crate::base::Error;
use crate::pool::Pool;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// After an error (a page that cannot be read, no room) an index is left alone so long.
const RETRY_US: u64 = 10 * 1_000_000;
/// What the disk fails to read so often in a row, over such a time, will hardly come back by itself.
const TRIES_LASTING: u32 = 3;
const LASTING_US: u64 = 2 * RETRY_US;

#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Not after the oldest of what is pending came, microseconds of the clock `Disk::now_us`; 0 = nothing ever was.
    since_us: AtomicU64,
    /// Entries that the last pass had to leave, while nothing has been merged since.
    stuck: AtomicU64,
    /// A merge has left something stuck since a Put was last looked at for that.
    left_stuck: AtomicBool,
    /// Not swept before.
    retry_us: AtomicU64,
    /// Entries merged since the engine was opened.
    merged: AtomicU64,
    pass: Mutex<Pass>,
    /// What kept something from being merged, other than want of space.
    unmerged: Mutex<Option<Failure>>,
    /// Bytes that the last pass had to leave for that, about.
    unmerged_bytes: AtomicU64,
    /// The last step of a sweep could not even be begun.
    halted: AtomicBool,
    /// People know that something cannot be merged.
    told: AtomicBool,
}

/// Why something is unmerged.
#[derive(Clone, Debug)]
struct Failure {
    why: Error,
    /// When it was met first.
    since_us: u64,
    /// Passes in a row that met it, and steps that could not be begun.
    tries: u32,
}

/// What cannot be merged of an index, for want of a page that can be read.
#[derive(Debug)]
pub struct Unmerged {
    pub why: Error,
    /// That wait so, about.
    pub bytes: u64,
    /// A page is broken, or the disk failed to read it again and again.
    pub is_lasting: bool,
}

/// A pass, as far as it has come.
#[derive(Clone, Debug, Default)]
pub(super) struct Pass {
    number: u64,
    /// Where it goes on; empty = it has not begun.
    pub from: Vec<u8>,
    began_us: u64,
    stuck: u64,
    /// Every leaf that it met is merged, but for what is stuck still.
    whole: bool,
    /// Leaves that it passed over; of those that cannot be read, bytes that wait for them, about.
    left: usize,
    unmerged_bytes: u64,
    is_broken: bool,
}

impl Pass {
    /// One leaf is done. `stuck`: entries left there; `whole`: nothing else is.
    pub fn leaf(&mut self, stuck: usize, whole: bool) {
        self.stuck += stuck as u64;
        self.whole &= whole;
    }
    /// One leaf has no room, and none can be had.
    pub fn leaf_full(&mut self) {
        self.left += 1;
        self.whole = false;
    }
    /// One leaf cannot be merged, so many bytes wait for it. They make the pass no less whole: nothing is gained by coming back for them.
    pub fn leaf_broken(&mut self, bytes: u64) {
        self.left += 1;
        self.is_broken = true;
        self.unmerged_bytes += bytes;
    }
    pub fn has_left_some(&self) -> bool {
        self.left > 0
    }
}

impl Delta {
    pub(super) fn first_pending(&self, pool: &Pool) {
        self.progress.since_us.store(pool.disk().now_us(), Ordering::Relaxed);
    }
    /// Where the present pass stands; it begins now if it has not yet.
    pub(super) fn pass(&self, pool: &Pool) -> Pass {
        let mut pass = self.progress.pass.lock();
        if pass.from.is_empty() {
            pass.began_us = pool.disk().now_us();
            pass.whole = true;
            pass.stuck = 0;
            (pass.left, pass.unmerged_bytes, pass.is_broken) = (0, 0, false);
        }
        pass.clone()
    }
    /// The pass has come so far; `from` is empty if that was its end. Somebody else may have ended it meanwhile.
    pub(super) fn keep_pass(&self, mut pass: Pass) {
        let mut kept = self.progress.pass.lock();
        if self.progress.halted.swap(false, Ordering::Relaxed) && !pass.is_broken {
            self.nothing_unmerged();
        }
        if kept.number != pass.number {
            return;
        }
        pass.whole &= kept.whole;
        if pass.from.is_empty() {
            pass.number += 1;
            if pass.whole {
                self.progress.since_us.fetch_max(pass.began_us, Ordering::Relaxed);
                self.progress.stuck.store(pass.stuck, Ordering::Relaxed);
            }
            let bytes = pass.unmerged_bytes.min(self.bytes());
            self.progress.unmerged_bytes.store(bytes, Ordering::Relaxed);
            match pass.is_broken {
                true => self.failed_again(),
                false => self.nothing_unmerged(),
            }
        }
        *kept = pass;
    }
    fn nothing_unmerged(&self) {
        *self.progress.unmerged.lock() = None;
        self.progress.unmerged_bytes.store(0, Ordering::Relaxed);
    }
    fn failed_again(&self) {
        if let Some(failure) = &mut *self.progress.unmerged.lock() {
            failure.tries = failure.tries.saturating_add(1);
        }
    }
    /// The next step begins at the index's first key.
    pub(super) fn restart_pass(&self) {
        let mut pass = self.progress.pass.lock();
        let number = pass.number + 1;
        *pass = Pass {
            number,
            ..Pass::default()
        };
        self.progress.retry_us.store(0, Ordering::Relaxed);
    }
    pub(super) fn merged_some(&self, entries: u64) {
        self.progress.merged.fetch_add(entries, Ordering::Relaxed);
        if entries > 0 && self.progress.stuck.load(Ordering::Relaxed) > 0 {
            self.progress.stuck.store(0, Ordering::Relaxed);
        }
    }
    /// A merge leaves something stuck. Called while it has the delta leaf latched: who puts it right comes later.
    pub(super) fn left_stuck(&self) {
        self.progress.left_stuck.store(true, Ordering::Relaxed);
    }
    /// A Put stands in the place of what was pending for its key. If that was stuck it is not any more, and no pass is to say so.
    pub(super) fn put_in_place(&self) {
        let progress = &self.progress;
        if progress.left_stuck.load(Ordering::Relaxed) {
            progress.left_stuck.store(false, Ordering::Relaxed);
            let mut pass = progress.pass.lock();
            pass.whole = false;
            progress.stuck.store(0, Ordering::Relaxed);
        }
    }
    /// A step of a sweep failed.
    pub fn retry_later(&self, pool: &Pool) {
        self.progress
            .retry_us
            .store(pool.disk().now_us() + RETRY_US, Ordering::Relaxed);
    }
    /// Something of it could not be merged, or not even be counted, for this reason.
    pub(super) fn note_unmerged(&self, pool: &Pool, why: Error) {
        self.buffer().note_unmerged();
        let mut unmerged = self.progress.unmerged.lock();
        let (since_us, tries) = match &*unmerged {
            Some(before) => (before.since_us, before.tries),
            None => (pool.disk().now_us(), 0),
        };
        *unmerged = Some(Failure { why, since_us, tries });
    }
    /// As `note_unmerged`: nothing of it can be merged, and it is left alone for a while.
    pub fn cannot_go_on(&self, pool: &Pool, why: Error) {
        self.retry_later(pool);
        if !matches!(why, Error::Full(_)) {
            self.progress.unmerged_bytes.store(self.bytes(), Ordering::Relaxed);
            self.progress.halted.store(true, Ordering::Relaxed);
            self.note_unmerged(pool, why);
            self.failed_again();
        }
    }
    /// What cannot be merged, for want of a page that can be read.
    pub fn unmerged(&self, now_us: u64) -> Option<Unmerged> {
        let Failure { why, since_us, tries } = self.progress.unmerged.lock().clone()?;
        let bytes = match self.is_known() {
            true => self.progress.unmerged_bytes.load(Ordering::Relaxed),
            false => self.bytes(),
        };
        let is_lasting = why.is_corrupt() || tries >= TRIES_LASTING && now_us.saturating_sub(since_us) >= LASTING_US;
        Some(Unmerged { why, bytes, is_lasting })
    }
    /// True from the second time on.
    pub fn told_of_unmerged(&self) -> bool {
        self.progress.told.swap(true, Ordering::Relaxed)
    }
    /// Is a sweep of any use just now?
    pub fn is_worth_a_sweep(&self, now_us: u64) -> bool {
        let all_stuck = self.is_known() && self.entries() <= self.progress.stuck.load(Ordering::Relaxed);
        !self.is_empty() && !all_stuck && self.progress.retry_us.load(Ordering::Relaxed) <= now_us
    }
    /// Age of the oldest entry, at the most; after a restart at least since then. 0: nothing is pending.
    pub fn age_us(&self, now_us: u64) -> u64 {
        let since = self.progress.since_us.load(Ordering::Relaxed);
        match since == 0 || self.is_empty() {
            true => 0,
            false => now_us.saturating_sub(since),
        }
    }
    /// Entries merged since the engine was opened.
    pub fn merged(&self) -> u64 {
        self.progress.merged.load(Ordering::Relaxed)
    }
}
