//! What reports say of transactions, waits and deadlocks: copies, in plain data.
//!
//! The lock table and the deadlock search fill these in; SHOW ENGINE STATUS and INFORMATION_SCHEMA
//! show them.
use super::isolation::Isolation;
use super::lock::held::LockMode;
use super::shared::TrxShared;
use super::xid::Xid;
use crate::base::{IndexId, TrxId};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// What a transaction waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitInfo {
    pub index: IndexId,
    pub key: Vec<u8>,
    /// None: an insert into a locked range.
    pub mode: Option<LockMode>,
    /// The transactions in the way.
    pub blockers: Vec<BlockerInfo>,
}

/// A transaction in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockerInfo {
    /// 0: it has written nothing yet.
    pub id: TrxId,
    /// 0: the transaction has none (any more).
    pub connection: u64,
    /// XA: the user's name of the transaction.
    pub xid: Option<Xid>,
}

/// One transaction at work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrxInfo {
    /// 0: it has written nothing yet.
    pub id: TrxId,
    /// 0: the transaction has none (any more). It is prepared, and any connection may decide it.
    pub connection: u64,
    /// XA: the user's name of the transaction.
    pub xid: Option<Xid>,
    /// Since its start; unknown of a transaction that was found when the engine was opened.
    pub age_us: Option<u64>,
    /// XA: the transaction waits for its coordinator's decision.
    pub prepared: bool,
    pub rolling_back: bool,
    pub isolation: Isolation,
    /// Of the snapshot that the transaction holds, to the second.
    pub snapshot_age_us: Option<u64>,
    pub waiting_us: Option<u64>,
    pub undo_records: u64,
    pub undo_bytes: u64,
    pub buffered_changes: u64,
    pub row_locks: u64,
    /// Key ranges locked against inserts.
    pub range_locks: u64,
    pub wait: Option<WaitInfo>,
}

/// Numbers of transactions that have no id yet begin here, above all ids: an id has six bytes.
const WITHOUT_ID: u64 = 1 << 48;

/// A lock that keeps another transaction waiting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldInfo {
    pub index: IndexId,
    /// Of a range: a key in it, which the other transaction wants to insert.
    pub key: Vec<u8>,
    /// None: a range.
    pub mode: Option<LockMode>,
    /// False: the request only stands before the other one in the queue.
    pub granted: bool,
}

/// One transaction of a deadlock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadlockParty {
    pub trx: TrxInfo,
    /// The statement at work when the wait began; empty if the waiter gives none.
    pub statement: String,
    /// The lock that the transaction before it in the circle waits for.
    pub holds: Option<HeldInfo>,
}

/// Transactions that waited in a circle, each for the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadlockInfo {
    pub at_us: u64,
    pub circle: Vec<DeadlockParty>,
    /// Place in the circle of the one that was rolled back.
    pub victim: usize,
}

impl TrxInfo {
    /// Takes one mutex, a leaf.
    pub(super) fn without_wait(trx: &TrxShared, now_us: u64) -> TrxInfo {
        let since = |clock: &AtomicU64| match clock.load(Relaxed) {
            0 => None,
            then => Some(now_us.saturating_sub(then)),
        };
        TrxInfo {
            id: trx.id(),
            connection: trx.connection(),
            xid: trx.xid.lock().clone(),
            age_us: since(&trx.started_us),
            prepared: trx.prepared.load(Relaxed),
            rolling_back: trx.rolling_back.load(Relaxed),
            isolation: Isolation::from_number(trx.isolation.load(Relaxed).into()),
            snapshot_age_us: since(&trx.snapshot_us),
            waiting_us: since(&trx.wait_started_us),
            undo_records: trx.undo_records.load(Relaxed),
            undo_bytes: trx.undo_bytes.load(Relaxed),
            buffered_changes: trx.buffered_changes.load(Relaxed),
            row_locks: trx.lock_count.load(Relaxed),
            range_locks: trx.range_count.load(Relaxed),
            wait: None,
        }
    }
    /// A number that no other transaction has at the same time, also before it has an id.
    pub fn number(&self) -> u64 {
        match self.id {
            0 => WITHOUT_ID + self.connection,
            id => id,
        }
    }
    /// The cost of a rollback: decides which transaction is the victim of a deadlock.
    pub fn weight(&self) -> u64 {
        self.undo_records + self.row_locks
    }
}
