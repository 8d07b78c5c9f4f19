//! Recovery's view of the pool, and what of recovery outlives one call.
//!
//! `apply` and `torn` have the steps. Locks: two of rank `Leaf`.
//! Called by: the pool, which keeps the state; the engine's start.
use super::void::Void;
use crate::base::sync::{Rank, RankedMutex};
use crate::base::PageId;
use crate::pool::read::fetch::Reader;
use std::collections::HashSet;

/// What recovery keeps in the pool.
pub(in crate::pool) struct RecoveryState {
    /// Pages that recovery could not read, and that the log has not made anew yet.
    pub(super) unread: RankedMutex<HashSet<PageId>>,
    /// What recovery knew of the log.
    void: RankedMutex<Void>,
}

impl RecoveryState {
    pub fn new() -> RecoveryState {
        RecoveryState {
            unread: RankedMutex::new(Rank::Leaf, HashSet::new()),
            void: RankedMutex::new(Rank::Leaf, Void::default()),
        }
    }
}

/// Makes the pages what the log says, after a crash.
///
/// In this order: [`Recovery::restore_torn`], [`Recovery::apply`] for each round of the log,
/// [`Recovery::finish`], [`Recovery::keep_void`].
#[derive(Clone, Copy)]
pub struct Recovery<'p> {
    pub(super) reader: &'p Reader,
    pub(super) state: &'p RecoveryState,
    /// Threads that apply the log, at most.
    pub(super) threads_max: usize,
}

impl<'p> Recovery<'p> {
    pub(in crate::pool) fn new(reader: &'p Reader, state: &'p RecoveryState, threads_max: usize) -> Recovery<'p> {
        Recovery {
            reader,
            state,
            threads_max,
        }
    }
    /// Recovery is done. What it knew of the log is kept for [`Recovery::was_given`], until the
    /// loads that the crash interrupted are taken back (`Void::default()`).
    pub fn keep_void(&self, void: Void) {
        *self.state.void.lock() = void;
    }
    /// Was the page given to a load between the last checkpoint and the crash?
    ///
    /// Then only the load used it. The load's writes, which the crash may have interrupted, need no
    /// doublewrite: a broken page is no damage there.
    pub fn was_given(&self, id: PageId) -> bool {
        self.state.void.lock().given(id).is_some()
    }
}
