//! [`WaitingRollbacks`]: transactions whose rollback cannot be finished now, because a page cannot
//! be read or there is no room. They stay active until the rollback is finished: no view sees their
//! changes, and their rows stay locked.
//!
//! One leaf mutex, held for a few words. Called by `rollback` and `retry`.
use crate::base::sync::{Rank, RankedMutex};
use crate::base::{TrxId, UndoPtr};
use crate::txn::Trx;
use std::collections::VecDeque;

#[derive(Default)]
struct Queue {
    /// The next to be tried again first.
    waiting: VecDeque<Trx>,
    /// The one that is being tried, as it was before.
    tried: Option<(TrxId, UndoPtr)>,
}

/// Transactions whose rollback waits.
pub(in crate::table) struct WaitingRollbacks(RankedMutex<Queue>);

impl Default for WaitingRollbacks {
    fn default() -> WaitingRollbacks {
        WaitingRollbacks(RankedMutex::new(Rank::Leaf, Queue::default()))
    }
}

impl WaitingRollbacks {
    pub fn add(&self, trx: Trx) {
        debug_assert!(
            trx.id() != 0,
            "what waits to be undone was written by a transaction with an id"
        );
        debug_assert!(trx.view().is_none(), "a rollback that waits holds no purge back");
        self.0.lock().waiting.push_back(trx);
    }
    /// Takes the next one, to be tried until `done`, `first` or `last`. None: there is none, or
    /// another thread tries one.
    pub fn take(&self) -> Option<Trx> {
        let mut queue = self.0.lock();
        if queue.tried.is_some() {
            return None;
        }
        let trx = queue.waiting.pop_front()?;
        debug_assert!(
            queue.waiting.iter().all(|other| other.id() != trx.id()),
            "a transaction waits once"
        );
        queue.tried = Some((trx.id(), trx.undo_top()));
        Some(trx)
    }
    /// The one that was tried is finished.
    pub fn done(&self) {
        let tried = self.0.lock().tried.take();
        debug_assert!(tried.is_some(), "what is done was taken before");
    }
    /// The one that was tried goes on.
    pub fn first(&self, trx: Trx) {
        let mut queue = self.0.lock();
        debug_assert!(
            queue.tried.is_some_and(|(id, _)| id == trx.id()),
            "what goes on was taken before"
        );
        queue.tried = None;
        queue.waiting.push_front(trx);
    }
    /// The one that was tried still cannot go on: the others are tried before it.
    pub fn last(&self, trx: Trx) {
        let mut queue = self.0.lock();
        debug_assert!(queue.tried.is_some(), "what goes back was taken before");
        queue.tried = None;
        queue.waiting.push_back(trx);
    }
    pub fn len(&self) -> usize {
        self.0.lock().waiting.len()
    }
    /// With the one that is being tried; each with the newest record that may not be undone yet.
    pub fn list(&self) -> Vec<(TrxId, UndoPtr)> {
        let queue = self.0.lock();
        let waiting = queue.waiting.iter().map(|trx| (trx.id(), trx.undo_top()));
        waiting.chain(queue.tried).collect()
    }
}
