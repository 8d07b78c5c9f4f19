//! Commits that are visible, and that a crash may still take back.
//!
//! A commit is such from the append of its end marker until the log is as safe as
//! `flush_log_at_trx_commit` asks. From then on it is called *durable* here.
//!
//! A transaction that writes may build on such commits: its own end marker comes later in the log.
//! A transaction that only reads may not end on them. Its client would learn of a commit that the
//! crash undoes; another client would then write over it, which is a lost update. So:
//! 1. A view knows what was durable when it was made, and notes when it shows anything else
//!    ([`NotDurable`]).
//! 2. A transaction that wrote nothing waits at its end until all that such a view sees is durable.
//!    That is rare, since a row must be read during its writer's sync, and it delays no other
//!    transaction.
//! 3. A locking read shows the newest versions, not those of a view. If one of them may not be
//!    durable, the end of its transaction waits for all commits before that end.
//!
//! A view cannot note that a row is *missing*. So purge takes no records of a deletion that is not
//! durable (`undo/purge.rs`).
//!
//! A prepared transaction's commit counts as durable: the log of the coordinator (the binary log,
//! or another one) decides it. Plain data under the mutex of
//! [`Visibility`](super::visibility::Visibility).
use super::numbers::Numbers;
use crate::base::{Lsn, TrxId};
use crate::redo::FlushMode;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::Arc;

/// The transactions that had ended at some moment, and the LSN that makes all their ends durable.
#[derive(Default, Debug)]
struct Ended {
    low: TrxId,
    high: TrxId,
    active: Vec<TrxId>,
    /// As [`ReadView::commit_no`](super::ReadView::commit_no).
    commit_no: u64,
    lsn: Lsn,
}

impl Ended {
    fn now(numbers: &Numbers, lsn: Lsn) -> Ended {
        debug_assert!(
            numbers.oldest_active() <= numbers.next(),
            "an id that was given is below the next"
        );
        debug_assert!(
            numbers.commit_no() <= numbers.next(),
            "an end under way has drawn its number"
        );
        Ended {
            low: numbers.oldest_active(),
            high: numbers.next(),
            active: numbers.active().to_vec(),
            commit_no: numbers.commit_no(),
            lsn,
        }
    }
    /// No transaction has begun or ended since: each begin draws a number, each end leaves the
    /// active list.
    fn is_now(&self, numbers: &Numbers) -> bool {
        self.high == numbers.next() && self.active.len() == numbers.active().len()
    }
    fn has(&self, trx: TrxId) -> bool {
        trx < self.low || (trx < self.high && self.active.binary_search(&trx).is_err())
    }
}

/// How far ends are durable.
#[derive(Default)]
pub(super) struct DurableEnds {
    durable: Arc<Ended>,
    /// Durable as soon as the log is safe up to its LSN.
    next: Arc<Ended>,
    /// End of the newest end marker of a commit.
    newest: Lsn,
}

impl DurableEnds {
    /// The end marker of a commit was written; `lsn`: its end.
    pub fn note_commit(&mut self, lsn: Lsn) {
        self.newest = self.newest.max(lsn);
    }
    pub fn newest(&self) -> Lsn {
        self.newest
    }
    /// Every transaction with a lower id has ended, durably.
    pub fn low(&self) -> TrxId {
        self.durable.low
    }
    /// No crash takes back an end with a lower number.
    pub fn commit_no(&self) -> u64 {
        self.durable.commit_no
    }
    /// Moves on to what the log has made durable since.
    pub fn advance(&mut self, numbers: &Numbers, is_safe: impl Fn(Lsn) -> bool) {
        if !is_safe(self.next.lsn) {
            return;
        }
        if !self.next.is_now(numbers) {
            let now = Arc::new(Ended::now(numbers, self.newest));
            self.durable = std::mem::replace(&mut self.next, now);
            if !is_safe(self.newest) {
                return;
            }
        }
        if !Arc::ptr_eq(&self.durable, &self.next) {
            self.durable = self.next.clone();
        }
        debug_assert!(self.durable.lsn <= self.newest);
        debug_assert!(
            self.durable.low <= self.next.low && self.durable.high <= self.next.high,
            "what is durable is a beginning of what ended"
        );
        debug_assert!(
            self.durable.commit_no <= self.next.commit_no,
            "purge goes by the durable commit number, which only grows"
        );
    }
    /// For a view made now, after [`DurableEnds::advance`]. None: all that the view sees is
    /// durable.
    pub fn missing(&self, numbers: &Numbers) -> Option<NotDurable> {
        debug_assert!(self.durable.high <= numbers.next(), "what is durable has ended before");
        (!self.durable.is_now(numbers)).then(|| NotDurable {
            durable: self.durable.clone(),
            lsn: self.newest,
            shown: Arc::default(),
        })
    }
}

/// Part of a view that sees commits which were not durable when it was made.
#[derive(Clone, Debug)]
pub(super) struct NotDurable {
    durable: Arc<Ended>,
    /// The log must be safe up to here for all that the view sees to be durable.
    lsn: Lsn,
    /// The view has shown a version, or the end of one, that was not durable. Shared by the copies
    /// of a view.
    shown: Arc<AtomicBool>,
}

impl NotDurable {
    /// The view shows what `trx` did.
    pub fn note(&self, trx: TrxId) {
        if !self.durable.has(trx) {
            self.shown.store(true, Ordering::Relaxed);
        }
    }
    /// The LSN that the end of the reader must wait for; 0: the view has shown nothing of the kind.
    pub fn shown_lsn(&self) -> Lsn {
        match self.shown.load(Ordering::Relaxed) {
            true => self.lsn,
            false => 0,
        }
    }
}

/// How safe the log makes a commit: a setting.
#[derive(Default)]
pub(super) struct Safety(AtomicU8);

impl Safety {
    /// None: nothing is written at commit.
    pub fn get(&self) -> Option<FlushMode> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(FlushMode::Sync),
            _ => Some(FlushMode::Write),
        }
    }
    pub fn set(&self, mode: Option<FlushMode>) {
        let number = match mode {
            None => 0,
            Some(FlushMode::Sync) => 1,
            Some(FlushMode::Write) => 2,
        };
        self.0.store(number, Ordering::Relaxed);
    }
}
