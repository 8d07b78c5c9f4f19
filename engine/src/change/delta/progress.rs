//! How far the merging of an index's pending changes is: how old the oldest is, where the sweeps stand, what they could not merge.
//!
//! A sweep goes through the index from its first key to its last (a *pass*), in steps of several callers. When a pass has ended,
//! nothing that was pending when it began still is, so the oldest is at most that old. What a pass had to leave (a change that
//! fits no entry: a corrupt index) is *stuck*: it is no reason for another pass, or a drain would never end. What waits for a page that
//! cannot be read is *unmerged*: a pass goes on behind it, and the table layer sees to it that it does not become too much.
//! Locks: the pass's mutex and that of the reason, held for moments, no latch taken under them.
use crate::base::sync::{Rank, RankedMutex};
use crate::base::Error;
use crate::change::Delta;
use crate::pool::Pool;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// After an error (a page that cannot be read, no room) an index is left alone so long.
const RETRY_US: u64 = 10 * 1_000_000;
/// What the disk fails to read so often in a row, over such a time, will hardly come back by itself.
const TRIES_LASTING: u32 = 3;
const LASTING_US: u64 = 2 * RETRY_US;

#[derive(Debug)]
pub(in crate::change) struct Progress {
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
    pass: RankedMutex<Pass>,
    unmerged: RankedMutex<Failures>,
    /// People know that something cannot be merged.
    told: AtomicBool,
}

impl Default for Progress {
    fn default() -> Progress {
        Progress {
            since_us: AtomicU64::new(0),
            stuck: AtomicU64::new(0),
            left_stuck: AtomicBool::new(false),
            retry_us: AtomicU64::new(0),
            merged: AtomicU64::new(0),
            pass: RankedMutex::new(Rank::MergePass, Pass::default()),
            unmerged: RankedMutex::new(Rank::MergeFailures, Failures::default()),
            told: AtomicBool::new(false),
        }
    }
}

/// Why something is unmerged, other than for want of space.
#[derive(Clone, Debug)]
struct Failure {
    why: Error,
    /// When it was met first.
    since_us: u64,
    /// Passes in a row that met it, or steps that could not be begun.
    tries: u32,
    /// Bytes that the last pass had to leave for it, about.
    bytes: u64,
}

/// By what may become of it.
#[derive(Debug, Default)]
struct Failures {
    /// Pages that are broken.
    broken: Option<Failure>,
    /// Pages that the disk failed to read: that may be over the next time.
    failed: Option<Failure>,
    /// The last step of a sweep could not even be begun: all of the index waits.
    halted: Option<Failure>,
}

/// Met (again), for this reason.
fn note<'a>(slot: &'a mut Option<Failure>, pool: &Pool, why: Error) -> &'a mut Failure {
    let failure = slot.get_or_insert_with(|| Failure {
        why: why.clone(),
        since_us: pool.disk().now_us(),
        tries: 0,
        bytes: 0,
    });
    failure.why = why;
    failure
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
pub(in crate::change) struct Pass {
    number: u64,
    /// Where it goes on; empty = it has not begun.
    pub from: Vec<u8>,
    began_us: u64,
    stuck: u64,
    /// Every leaf that it met is merged, but for what is stuck still.
    whole: bool,
    /// Leaves that it passed over.
    left: usize,
    /// Bytes that wait for pages that are broken, about; for pages that the disk failed to read. None: it has met none.
    broken: Option<u64>,
    failed: Option<u64>,
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
    pub fn leaf_unread(&mut self, why: &Error, bytes: u64) {
        self.left += 1;
        let sum = if why.is_corrupt() {
            &mut self.broken
        } else {
            &mut self.failed
        };
        *sum.get_or_insert(0) += bytes;
    }
    pub fn has_left_some(&self) -> bool {
        self.left > 0
    }
}

impl Delta {
    pub(in crate::change) fn first_pending(&self, pool: &Pool) {
        self.progress.since_us.store(pool.disk().now_us(), Ordering::Relaxed);
    }
    /// Where the present pass stands; it begins now if it has not yet.
    pub(in crate::change) fn pass(&self, pool: &Pool) -> Pass {
        let mut pass = self.progress.pass.lock();
        if pass.from.is_empty() {
            pass.began_us = pool.disk().now_us();
            pass.whole = true;
            pass.stuck = 0;
            (pass.left, pass.broken, pass.failed) = (0, None, None);
        }
        pass.clone()
    }
    /// The pass has come so far; `from` is empty if that was its end. Somebody else may have ended it meanwhile.
    pub(in crate::change) fn keep_pass(&self, mut pass: Pass) {
        let mut kept = self.progress.pass.lock();
        let mut unmerged = self.progress.unmerged.lock();
        unmerged.halted = None;
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
            let Failures { broken, failed, .. } = &mut *unmerged;
            for (slot, bytes) in [(broken, pass.broken), (failed, pass.failed)] {
                match (slot.as_mut(), bytes) {
                    (Some(failure), Some(bytes)) => {
                        failure.tries = failure.tries.saturating_add(1);
                        failure.bytes = bytes.min(self.bytes());
                    }
                    _ => *slot = None,
                }
            }
        }
        *kept = pass;
    }
    /// The next step begins at the index's first key.
    pub(in crate::change) fn restart_pass(&self) {
        let mut pass = self.progress.pass.lock();
        let number = pass.number + 1;
        *pass = Pass {
            number,
            ..Pass::default()
        };
        self.progress.retry_us.store(0, Ordering::Relaxed);
    }
    pub(in crate::change) fn merged_some(&self, entries: u64) {
        self.progress.merged.fetch_add(entries, Ordering::Relaxed);
        if entries > 0 && self.progress.stuck.load(Ordering::Relaxed) > 0 {
            self.progress.stuck.store(0, Ordering::Relaxed);
        }
    }
    /// A merge leaves something stuck. Called while it has the delta leaf latched: who puts it right comes later.
    pub(in crate::change) fn left_stuck(&self) {
        self.progress.left_stuck.store(true, Ordering::Relaxed);
    }
    /// A Put stands in the place of what was pending for its key. If that was stuck it is not any more, and no pass is to say so.
    pub(in crate::change) fn put_in_place(&self) {
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
    /// People want it merged now: what was in the way may be gone.
    pub fn retry_now(&self) {
        self.progress.retry_us.store(0, Ordering::Relaxed);
    }
    /// A leaf, or more, could not be merged for this reason.
    pub(in crate::change) fn note_unmerged(&self, pool: &Pool, why: Error) {
        self.buffer().note_unmerged();
        let Failures { broken, failed, .. } = &mut *self.progress.unmerged.lock();
        note(if why.is_corrupt() { broken } else { failed }, pool, why);
    }
    /// Nothing of it can be merged, or not even be counted, for this reason; it is left alone for a while.
    pub fn cannot_go_on(&self, pool: &Pool, why: Error) {
        self.retry_later(pool);
        if !matches!(why, Error::Full(_)) {
            self.buffer().note_unmerged();
            let failure = &mut self.progress.unmerged.lock().halted;
            let failure = note(failure, pool, why);
            failure.tries = failure.tries.saturating_add(1);
        }
    }
    /// What cannot be merged, for want of pages that can be read.
    pub fn unmerged(&self, now_us: u64) -> Vec<Unmerged> {
        let tell = |failure: &Failure, bytes: u64| Unmerged {
            why: failure.why.clone(),
            bytes,
            is_lasting: failure.why.is_corrupt()
                || failure.tries >= TRIES_LASTING && now_us.saturating_sub(failure.since_us) >= LASTING_US,
        };
        let failures = self.progress.unmerged.lock();
        if let Some(halted) = &failures.halted {
            // What could not be counted for it is a part of the bound, too.
            let uncounted = self.uncounted.load(Ordering::Relaxed);
            let all = tell(halted, self.bytes().saturating_add(uncounted));
            if all.is_lasting {
                return vec![all];
            }
        }
        let parts = failures.broken.iter().chain(&failures.failed);
        parts.map(|failure| tell(failure, failure.bytes)).collect()
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
