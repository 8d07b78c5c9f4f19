//! Row locks: named by (index, key), hashed in shards; FIFO queues; deadlocks found at the wait. A row whose newest
//! version was made by an active transaction is locked by it implicitly: whoever meets it makes that lock explicit first.
use super::{Trx, TrxShared};
use crate::base::{IndexId, Result, TrxId};
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LockMode {
    Shared,
    Exclusive,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockPolicy {
    Wait,
    /// `Error::Locked` instead of waiting (NOWAIT and SKIP LOCKED alike; the caller tells them apart).
    NoWait,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Granted {
    /// This call took it: `unlock` may give it back.
    New,
    /// The transaction had it (or a stronger one) before.
    Held,
}

pub struct LockSys {
    _private: (),
}

impl LockSys {
    /// Takes or waits for the lock. Called with no latch held. Errors: LockWaitTimeout, Deadlock, Interrupted, Locked.
    pub fn lock(
        &self,
        _trx: &mut Trx,
        _index: IndexId,
        _key: &[u8],
        _mode: LockMode,
        _policy: LockPolicy,
    ) -> Result<Granted> {
        todo!()
    }
    /// True if nobody else holds a conflicting lock and no conflicting waiter is queued; takes nothing. May be called under page latches.
    pub fn is_free(&self, _trx: &Trx, _index: IndexId, _key: &[u8], _mode: LockMode) -> bool {
        todo!()
    }
    /// Makes the implicit lock of `owner` explicit (X), if it is still active. Callable with no latch held.
    pub fn make_explicit(&self, _owner: &Arc<TrxShared>, _owner_id: TrxId, _index: IndexId, _key: &[u8]) {
        todo!()
    }
    /// Gives one lock back before the transaction ends.
    pub fn unlock(&self, _trx: &mut Trx, _index: IndexId, _key: &[u8]) {
        todo!()
    }
    /// Gives all back; wakes who can go on.
    pub fn release_all(&self, _trx: &Arc<TrxShared>) {
        todo!()
    }
    /// Ends the wait of `trx` from another thread (KILL).
    pub fn cancel_wait(&self, _trx: &Arc<TrxShared>) {
        todo!()
    }
    /// Range locks (SERIALIZABLE): [lo, hi), hi None = to the end. Conflicts only with inserts of others into it.
    pub fn lock_range(&self, _trx: &mut Trx, _index: IndexId, _lo: &[u8], _hi: Option<&[u8]>) -> Result<()> {
        todo!()
    }
    /// An insert's check against other transactions' ranges: waits until free. O(1) when the index has no ranges.
    pub fn check_insert(&self, _trx: &mut Trx, _index: IndexId, _key: &[u8]) -> Result<()> {
        todo!()
    }
}
