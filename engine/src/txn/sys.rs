//! The transaction system: ids, the active set, read views, commit numbers, the oldest view.
use super::{Isolation, LockSys, Trx, TrxShared, Waiter, Xid};
use crate::base::{Counters, Lsn, Result, TrxId, UndoPtr};
use crate::pool::{Mtr, Pool};
use std::sync::Arc;

/// What undo is about, as read back. `payload` is the table layer's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndoRecord {
    pub trx: TrxId,
    /// The record this transaction wrote before and did not roll back yet (NONE at its start).
    pub prev: UndoPtr,
    pub payload: Vec<u8>,
}

/// One record of a [`PurgeJob`].
pub struct PurgeRecord {
    pub at: UndoPtr,
    pub record: UndoRecord,
    /// It was rolled back (with the whole transaction, or to a savepoint): it is on no `prev` chain from the transaction's end.
    pub undone: bool,
}

/// An ended transaction (committed or rolled back) at the head of an undo stream, old enough for everyone: all its records, in the
/// order they were written.
pub struct PurgeJob {
    pub trx: TrxId,
    pub records: Vec<PurgeRecord>,
    /// False: more records of this transaction follow in the next job (bounded steps, I7).
    pub last: bool,
    /// Private to `sys`/`undo`.
    pub(crate) stream: usize,
    pub(crate) next: UndoPtr,
}

/// A transaction found in the undo streams at open.
pub struct RecoveredTrx {
    pub id: TrxId,
    /// Some: prepared (XA): survives until decided. None: a loser, to be rolled back.
    pub xid: Option<Xid>,
}

pub struct TrxSys {
    _private: (),
}

impl TrxSys {
    /// Formats the undo file and the transaction system page (fresh engine).
    pub fn create(_pool: &Arc<Pool>) -> Result<()> {
        todo!()
    }
    /// Reads the undo streams (after redo): ids continue above all seen; losers and prepared ones are active again, with
    /// their implicit locks.
    pub fn open(_pool: Arc<Pool>, _counters: Arc<Counters>) -> Result<(Arc<TrxSys>, Vec<RecoveredTrx>)> {
        todo!()
    }
    /// A Trx for a recovered transaction, so that it can be rolled back or committed by the ordinary path.
    pub fn adopt(&self, _recovered: &RecoveredTrx, _waiter: Arc<dyn Waiter>) -> Result<Trx> {
        todo!()
    }
    pub fn locks(&self) -> &LockSys {
        todo!()
    }
    pub fn new_trx(&self, _waiter: Arc<dyn Waiter>, _connection: u64) -> Trx {
        todo!()
    }
    /// Idempotent while started.
    pub fn start(&self, _trx: &mut Trx, _isolation: Isolation, _lock_wait_timeout_ms: u32) {
        todo!()
    }
    /// Gives the transaction its id and an undo stream, at its first write. Called with no latch held.
    pub fn ensure_id(&self, _trx: &mut Trx) -> Result<TrxId> {
        todo!()
    }
    pub fn is_active(&self, _id: TrxId) -> bool {
        todo!()
    }
    /// The active transaction of that id. O(1) "no" for old ids.
    pub fn active(&self, _id: TrxId) -> Option<Arc<TrxShared>> {
        todo!()
    }
    /// Makes the consistent-read view if there is none.
    pub fn open_view(&self, _trx: &mut Trx) -> Arc<super::ReadView> {
        todo!()
    }
    pub fn close_view(&self, _trx: &mut Trx) {
        todo!()
    }
    /// Every transaction below this id is committed and visible to every present and future view.
    pub fn all_see_below(&self) -> TrxId {
        todo!()
    }
    /// Appends an undo record in `mtr` (undo page latches come after tree latches) and moves `trx.undo_top` to it.
    /// The stream is this transaction's alone. Errors (Full) come before any change.
    pub fn append_undo(&self, _trx: &mut Trx, _mtr: &mut Mtr<'_>, _payload: &[u8]) -> Result<UndoPtr> {
        todo!()
    }
    /// Makes sure that the next `append_undo` of up to `bytes` cannot fail (allocates stream pages in an Mtr of its own if needed).
    pub fn reserve_undo(&self, _trx: &mut Trx, _bytes: usize) -> Result<()> {
        todo!()
    }
    pub fn read_undo(&self, _at: UndoPtr) -> Result<UndoRecord> {
        todo!()
    }
    /// Rollback went back to `to`: later records are undone and will be skipped, also after a crash (once the next record or end marker is written).
    pub fn rolled_back_to(&self, trx: &mut Trx, to: UndoPtr) {
        let _ = self;
        trx.undo_top = to;
    }
    pub fn prepare(&self, _trx: &mut Trx, _xid: &Xid) -> Result<Lsn> {
        todo!()
    }
    /// Writes the end marker (in memory), gives the commit number, makes it visible. No I/O, cannot fail. Locks are still held.
    pub fn commit_ordered(&self, _trx: &mut Trx) {
        todo!()
    }
    /// commit_ordered if not done; releases locks; the Trx is ready for the next transaction. Returns the LSN to be made durable
    /// (0: nothing was written); the caller flushes per its mode.
    pub fn commit(&self, _trx: &mut Trx) -> Lsn {
        todo!()
    }
    /// After all undo records were applied: end marker "rolled back", inactive, locks released.
    pub fn end_rollback(&self, _trx: &mut Trx) -> Result<()> {
        todo!()
    }
    /// Next piece of purge work, at most `records_max` records; None: nothing is old enough.
    pub fn next_purge(&self, _records_max: usize) -> Result<Option<PurgeJob>> {
        todo!()
    }
    /// The job's records were applied: moves the stream's head, frees whole pages.
    pub fn purged(&self, _job: PurgeJob) -> Result<()> {
        todo!()
    }
    /// Committed transactions not yet purged.
    pub fn history_length(&self) -> u64 {
        todo!()
    }
}
