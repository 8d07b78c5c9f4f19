//! What SHOW ENGINE STATUS shows of transactions: who is at work, who waits for whom, who was in the latest deadlock.
use super::lock::LockSys;
use super::{LockMode, TrxShared, TrxSys};
use crate::base::{IndexId, TrxId};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

/// What a transaction waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitInfo {
    pub index: IndexId,
    pub key: Vec<u8>,
    /// None: an insert into a locked range.
    pub mode: Option<LockMode>,
    /// (transaction id, connection) of those who are in the way.
    pub blockers: Vec<(u64, u64)>,
}

/// One transaction that holds or waits for something, or has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrxInfo {
    /// 0: it has written nothing yet.
    pub id: TrxId,
    pub connection: u64,
    /// Since its start; unknown of one that was found when the engine was opened.
    pub age_us: Option<u64>,
    /// XA: it waits for its coordinator's decision.
    pub prepared: bool,
    pub undo_records: u64,
    pub row_locks: u64,
    pub wait: Option<WaitInfo>,
}

/// Transactions that waited in a circle, each for the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadlockInfo {
    pub at_us: u64,
    pub circle: Vec<TrxInfo>,
    /// Which of them was rolled back.
    pub victim: usize,
}

impl TrxInfo {
    pub(super) fn of(trx: &Arc<TrxShared>, locks: &LockSys, now_us: u64) -> TrxInfo {
        TrxInfo {
            id: trx.id(),
            connection: trx.connection,
            age_us: match trx.started_us.load(Relaxed) {
                0 => None,
                started => Some(now_us.saturating_sub(started)),
            },
            prepared: trx.prepared.load(Relaxed),
            undo_records: trx.undo_records.load(Relaxed),
            row_locks: trx.lock_count.load(Relaxed),
            wait: locks.wait_of(trx),
        }
    }
}

impl TrxSys {
    /// The transactions that hold or wait for a lock or have written, oldest id first. Takes each shard's mutex for a moment.
    pub fn transactions(&self) -> Vec<TrxInfo> {
        let now = self.pool.disk().now_us();
        let info = |trx: &Arc<TrxShared>| TrxInfo::of(trx, &self.locks, now);
        let mut all: Vec<TrxInfo> = self.everyone().iter().map(info).collect();
        all.retain(|trx| trx.id != 0 || trx.row_locks != 0 || trx.wait.is_some());
        all.sort_by_key(|trx| (trx.id, trx.connection));
        all
    }
}
