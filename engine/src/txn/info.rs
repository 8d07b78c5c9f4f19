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
    /// Those who are in the way.
    pub blockers: Vec<BlockerInfo>,
}

/// Who is in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockerInfo {
    /// 0: it has written nothing yet.
    pub id: TrxId,
    /// 0: it has none (any more).
    pub connection: u64,
    /// XA: what its user calls it.
    pub xid: Option<Xid>,
}

/// One transaction that goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrxInfo {
    /// 0: it has written nothing yet.
    pub id: TrxId,
    /// 0: it has none (any more): it is prepared, and anybody may decide it.
    pub connection: u64,
    /// XA: what its user calls it.
    pub xid: Option<Xid>,
    /// Since its start; unknown of one that was found when the engine was opened.
    pub age_us: Option<u64>,
    /// XA: it waits for its coordinator's decision.
    pub prepared: bool,
    pub rolling_back: bool,
    pub isolation: Isolation,
    /// Of the snapshot that it holds, to the second.
    pub snapshot_age_us: Option<u64>,
    pub waiting_us: Option<u64>,
    pub undo_records: u64,
    pub undo_bytes: u64,
    pub buffered_changes: u64,
    pub row_locks: u64,
    /// Of keys, against inserts.
    pub range_locks: u64,
    pub wait: Option<WaitInfo>,
}

/// Numbers of transactions that have no id yet begin here, behind all ids: an id has six bytes.
const WITHOUT_ID: u64 = 1 << 48;

/// What keeps another one waiting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldInfo {
    pub index: IndexId,
    /// Of a range: a key in it, which the other wants to insert.
    pub key: Vec<u8>,
    /// None: a range.
    pub mode: Option<LockMode>,
    /// False: it only stands before the other in the queue.
    pub granted: bool,
}

/// One of those in a deadlock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadlockParty {
    pub trx: TrxInfo,
    /// What it was doing when it began to wait; empty if it had nobody to tell.
    pub statement: String,
    /// What the one before it in the circle waits for.
    pub holds: Option<HeldInfo>,
}

/// Transactions that waited in a circle, each for the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadlockInfo {
    pub at_us: u64,
    pub circle: Vec<DeadlockParty>,
    /// Which of them was rolled back.
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
    /// Tells it from every other one of the same time, also before it has an id.
    pub fn number(&self) -> u64 {
        match self.id {
            0 => WITHOUT_ID + self.connection,
            id => id,
        }
    }
    /// What a rollback would cost: decides who is the victim of a deadlock.
    pub fn weight(&self) -> u64 {
        self.undo_records + self.row_locks
    }
}
