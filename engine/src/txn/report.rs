//! What SHOW ENGINE STATUS shows of transactions: who is at work, who waits for whom.
use super::deadlock::WaitInfo;
use super::{TrxShared, TrxSys};
use crate::base::TrxId;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

/// One transaction that holds or waits for something, or has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrxInfo {
    /// 0: it has written nothing yet.
    pub id: TrxId,
    pub connection: u64,
    /// Since its start.
    pub age_us: u64,
    pub undo_records: u64,
    pub row_locks: u64,
    pub wait: Option<WaitInfo>,
}

impl TrxSys {
    /// The transactions that hold or wait for a lock or have written, oldest id first. Takes each shard's mutex for a moment.
    pub fn transactions(&self) -> Vec<TrxInfo> {
        let now = self.pool.disk().now_us();
        let info = |trx: &Arc<TrxShared>| TrxInfo {
            id: trx.id(),
            connection: trx.connection,
            age_us: match trx.started_us.load(Relaxed) {
                0 => 0,
                started => now.saturating_sub(started),
            },
            undo_records: trx.undo_records.load(Relaxed),
            row_locks: trx.lock_count.load(Relaxed),
            wait: self.locks.wait_of(trx),
        };
        let mut all: Vec<TrxInfo> = self.everyone().iter().map(info).collect();
        all.retain(|trx| trx.id != 0 || trx.row_locks != 0 || trx.wait.is_some());
        all.sort_by_key(|trx| (trx.id, trx.connection));
        all
    }
}
