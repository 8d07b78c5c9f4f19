//! Reports of all transactions: for SHOW ENGINE STATUS and INFORMATION_SCHEMA.
//!
//! Called by the engine's status text and lock tables, with no latch held.
use super::info::TrxInfo;
use super::lock::report::{LockDetail, LockReport};
use super::sys::TrxSys;
use std::sync::atomic::Ordering::Relaxed;

impl TrxSys {
    /// Transactions, locks and waits of one moment (`lock/report.rs`).
    pub fn lock_report(&self, detail: LockDetail) -> LockReport {
        let now_us = self.pool.disk().now_us();
        self.locks.table.report(self.everyone(), now_us, detail)
    }

    /// The transactions that go on, those of [`TrxSys::lock_report`]. Those that have written come
    /// in the order of their ids. Before them come the others, which may hold locks or a snapshot.
    /// Takes each shard's mutex for a moment.
    pub fn transactions(&self) -> Vec<TrxInfo> {
        let now_us = self.pool.disk().now_us();
        let everyone = self.everyone();
        let at_work = everyone.iter().filter(|trx| trx.is_active());
        let mut all: Vec<TrxInfo> = at_work.map(|trx| self.locks.table.info(trx, now_us)).collect();
        all.sort_by_key(|trx| (trx.id, trx.connection));
        all
    }

    /// Undo records still to be undone, of all transactions that are being rolled back.
    pub fn rollback_records_left(&self) -> u64 {
        let all = self.everyone();
        let rolling_back = all.iter().filter(|trx| trx.rolling_back.load(Relaxed));
        rolling_back.map(|trx| trx.undo_records.load(Relaxed)).sum()
    }
}
