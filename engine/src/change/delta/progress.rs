//! How far the merging of an index's pending changes is: where the sweeps stand, and what they
//! could not merge.
//!
//! A sweep goes through the index from its first key to its last (a *pass*), in steps of several
//! callers. When a pass has ended, everything that was pending at its beginning is merged, so the
//! oldest entry is at most that old.
//!
//! A pass has two kinds of leftovers. An entry that fits no entry of the base tree (the index is
//! corrupt) is *stuck*. Stuck entries are no reason for another pass, or a drain would never end.
//! Entries whose pages cannot be read are *unmergeable*. The pass goes on after them, and the table
//! layer sees to it that they do not become too many.
//!
//! Locks: the pass's mutex, then that of the failures; held for moments, no latch is taken under
//! them. Called by: `merge`, the worker and the reports in the table layer.
use super::sums::Sums;
use crate::base::sync::{Rank, RankedMutex};
use crate::base::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// After an error (a page that cannot be read, no room) an index is not swept for this long.
const RETRY_US: u64 = 10 * 1_000_000;
/// A read that failed this often in a row, over this long, will hardly succeed by itself.
const TRIES_LASTING: u32 = 3;
const LASTING_US: u64 = 2 * RETRY_US;

#[derive(Debug)]
pub struct Progress {
    /// Entries that the last pass left stuck, while nothing has been merged since.
    stuck: AtomicU64,
    /// A merge has left an entry stuck since a Put last looked at this flag.
    left_stuck: AtomicBool,
    /// No sweep before this time.
    retry_us: AtomicU64,
    /// Entries merged since the engine was opened.
    merged: AtomicU64,
    pass: RankedMutex<Pass>,
    failures: RankedMutex<Failures>,
    /// The error log names what cannot be merged.
    logged: AtomicBool,
}

impl Default for Progress {
    fn default() -> Progress {
        Progress {
            stuck: AtomicU64::default(),
            left_stuck: AtomicBool::default(),
            retry_us: AtomicU64::default(),
            merged: AtomicU64::default(),
            pass: RankedMutex::new(Rank::MergePass, Pass::default()),
            failures: RankedMutex::new(Rank::MergeFailures, Failures::default()),
            logged: AtomicBool::default(),
        }
    }
}

/// Why entries are unmergeable, other than for want of space.
#[derive(Clone, Debug)]
struct Failure {
    why: Error,
    /// When it was first met.
    since_us: u64,
    /// Passes in a row that met it, or steps that could not begin.
    tries: u32,
    /// Bytes that the last pass left for it, about.
    bytes: u64,
}

/// Failures by what may become of them.
#[derive(Debug, Default)]
struct Failures {
    /// Pages that are broken.
    broken: Option<Failure>,
    /// Pages that the disk failed to read: the next read may succeed.
    failed: Option<Failure>,
    /// The last step of a sweep could not begin: the whole index waits.
    halted: Option<Failure>,
}

/// Notes that a failure was met (again).
fn note(slot: &mut Option<Failure>, now_us: u64, why: Error) -> &mut Failure {
    let failure = slot.get_or_insert_with(|| Failure {
        why: why.clone(),
        since_us: now_us,
        tries: 0,
        bytes: 0,
    });
    failure.why = why;
    failure
}

/// Entries of an index that cannot be merged, because a page cannot be read.
#[derive(Debug)]
pub struct Unmergeable {
    pub why: Error,
    /// Bytes that wait, about.
    pub bytes: u64,
    /// A page is broken, or the disk failed to read it again and again.
    pub is_lasting: bool,
}

/// A pass, as far as it has come.
#[derive(Clone, Debug, Default)]
pub struct Pass {
    number: u64,
    /// Where the pass goes on; empty = it has not begun.
    pub from: Vec<u8>,
    began_us: u64,
    stuck: u64,
    /// Everything is merged in the leaves that the pass met, except for what is stuck.
    whole: bool,
    /// Leaves that were passed over.
    left: usize,
    /// Bytes that wait for broken pages, about; None: the pass met none.
    broken: Option<u64>,
    /// The same for pages that the disk failed to read.
    failed: Option<u64>,
}

impl Pass {
    /// One leaf is done. `stuck`: entries left there; `whole`: there are no others left.
    pub fn leaf(&mut self, stuck: usize, whole: bool) {
        self.stuck += stuck as u64;
        self.whole &= whole;
    }
    /// One leaf has no room, and the disk is full.
    pub fn leaf_full(&mut self) {
        self.left += 1;
        self.whole = false;
    }
    /// One leaf cannot be read, and `bytes` bytes wait for it. The pass still counts as whole:
    /// another pass would not merge them either.
    pub fn leaf_unread(&mut self, why: &Error, bytes: u64) {
        debug_assert!(!matches!(why, Error::Full(_)), "a leaf without room was read");
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

impl Progress {
    // ---- passes ----

    /// The present pass, which begins now if it has not yet.
    pub fn pass(&self, now_us: u64) -> Pass {
        let mut pass = self.pass.lock();
        if pass.from.is_empty() {
            pass.began_us = now_us;
            pass.whole = true;
            pass.stuck = 0;
            (pass.left, pass.broken, pass.failed) = (0, None, None);
        }
        pass.clone()
    }
    /// Keeps how far the pass has come; `from` is empty at its end. Another caller may have ended
    /// the pass meanwhile.
    pub fn keep_pass(&self, mut pass: Pass, sums: &Sums) {
        let mut kept = self.pass.lock();
        let mut failures = self.failures.lock();
        failures.halted = None;
        debug_assert!(pass.number <= kept.number, "passes are numbered in turn");
        if kept.number != pass.number {
            return;
        }
        pass.whole &= kept.whole;
        if pass.from.is_empty() {
            pass.number += 1;
            if pass.whole {
                sums.raise_age(pass.began_us);
                self.stuck.store(pass.stuck, Ordering::Relaxed);
            }
            let Failures { broken, failed, .. } = &mut *failures;
            for (slot, bytes) in [(broken, pass.broken), (failed, pass.failed)] {
                match (slot.as_mut(), bytes) {
                    (Some(failure), Some(bytes)) => {
                        failure.tries = failure.tries.saturating_add(1);
                        failure.bytes = bytes.min(sums.bytes());
                    }
                    _ => *slot = None,
                }
            }
        }
        *kept = pass;
    }
    /// The next step begins at the index's first key.
    pub fn restart_pass(&self) {
        let mut pass = self.pass.lock();
        let number = pass.number + 1;
        *pass = Pass {
            number,
            ..Pass::default()
        };
        self.retry_now();
    }
    /// Is a sweep of any use just now?
    pub fn is_worth_a_sweep(&self, now_us: u64, sums: &Sums) -> bool {
        let all_stuck = sums.is_known() && sums.entries() <= self.stuck.load(Ordering::Relaxed);
        !sums.is_empty() && !all_stuck && self.retry_us.load(Ordering::Relaxed) <= now_us
    }

    // ---- merged and stuck entries ----

    /// Merges have taken out `entries` entries.
    pub fn note_merged(&self, entries: u64) {
        self.merged.fetch_add(entries, Ordering::Relaxed);
        if entries > 0 && self.stuck.load(Ordering::Relaxed) > 0 {
            self.stuck.store(0, Ordering::Relaxed);
        }
    }
    /// Entries merged since the engine was opened.
    pub fn merged(&self) -> u64 {
        self.merged.load(Ordering::Relaxed)
    }
    /// A merge leaves an entry stuck. Called with the delta leaf latched, so a Put that replaces
    /// the entry comes later.
    pub fn note_stuck(&self) {
        self.left_stuck.store(true, Ordering::Relaxed);
    }
    /// A Put has replaced what was pending for its key. If that was stuck, it is not stuck any
    /// more, and no pass may say so.
    pub fn note_replaced(&self) {
        if self.left_stuck.load(Ordering::Relaxed) {
            self.left_stuck.store(false, Ordering::Relaxed);
            let mut pass = self.pass.lock();
            pass.whole = false;
            self.stuck.store(0, Ordering::Relaxed);
        }
    }

    // ---- failures ----

    /// A step of a sweep failed.
    pub fn retry_later(&self, now_us: u64) {
        self.retry_us.store(now_us + RETRY_US, Ordering::Relaxed);
    }
    /// The user wants the entries merged now: the cause of a failure may be gone.
    pub fn retry_now(&self) {
        self.retry_us.store(0, Ordering::Relaxed);
    }
    /// One leaf or more could not be read.
    pub fn note_unmergeable(&self, now_us: u64, why: Error) {
        let Failures { broken, failed, .. } = &mut *self.failures.lock();
        note(if why.is_corrupt() { broken } else { failed }, now_us, why);
    }
    /// No entry can be merged, or not even counted.
    pub fn halt(&self, now_us: u64, why: Error) {
        let halted = &mut self.failures.lock().halted;
        let failure = note(halted, now_us, why);
        failure.tries = failure.tries.saturating_add(1);
    }
    /// The entries that cannot be merged, because pages cannot be read.
    pub fn unmergeable(&self, now_us: u64, sums: &Sums) -> Vec<Unmergeable> {
        let of = |failure: &Failure, bytes: u64| Unmergeable {
            why: failure.why.clone(),
            bytes,
            is_lasting: failure.why.is_corrupt()
                || failure.tries >= TRIES_LASTING && now_us.saturating_sub(failure.since_us) >= LASTING_US,
        };
        let failures = self.failures.lock();
        if let Some(halted) = &failures.halted {
            // What could not be counted is a part of the bound, too.
            let all = of(halted, sums.bytes().saturating_add(sums.uncounted()));
            if all.is_lasting {
                return vec![all];
            }
        }
        let parts = failures.broken.iter().chain(&failures.failed);
        parts.map(|failure| of(failure, failure.bytes)).collect()
    }
    /// False for the first caller, which then logs what cannot be merged.
    pub fn is_unmergeable_logged(&self) -> bool {
        self.logged.swap(true, Ordering::Relaxed)
    }
}
