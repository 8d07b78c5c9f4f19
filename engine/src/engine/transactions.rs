//! Transactions through the engine: begin, prepare, commit, roll back, decide.
//!
//! Adds to `txn` what a commit needs from the log ([`CommitFlush`]), and to `table` what a rollback
//! leaves to be done later. No latch is held. Called by: `ffi`, [`Database`](super::Database),
//! tests.
use super::config::CommitFlush;
use super::instance::Engine;
use crate::base::{planted, Lsn, Mutant, Result};
use crate::redo::FlushMode;
use crate::txn::{Isolation, Trx, Waiter, Xid};
use std::sync::atomic::Ordering;
use std::sync::Arc;

impl Engine {
    pub fn new_trx(&self, waiter: Arc<dyn Waiter>, connection: u64) -> Trx {
        self.store.trx_sys.new_trx(waiter, connection)
    }
    pub fn start(&self, trx: &mut Trx, isolation: Isolation, lock_wait_timeout_ms: u32) {
        if !trx.is_started() {
            trx.snapshot_isolation = self.store.snapshot_isolation.load(Ordering::Relaxed);
        }
        self.store.trx_sys.start(trx, isolation, lock_wait_timeout_ms);
    }
    pub fn commit(&self, trx: &mut Trx, durable: bool) -> Result<()> {
        let lsn = self.store.trx_sys.commit(trx);
        if let Err(why) = trx.check_not_doomed() {
            // A statement of the transaction could be undone only in part, or its end cannot be
            // written.
            self.rollback(trx)?;
            return Err(why);
        }
        debug_assert!(!trx.is_started(), "a commit ends the transaction");
        debug_assert_eq!(trx.id(), 0, "an ended transaction has no id");
        debug_assert!(
            lsn != Lsn::MAX || self.check_alive().is_err(),
            "only an engine that has stopped cannot log a commit (I6)"
        );
        if durable {
            self.flush_to(lsn)
        } else {
            Ok(())
        }
    }
    pub fn prepare(&self, trx: &mut Trx, xid: &Xid) -> Result<()> {
        let lsn = self.store.trx_sys.prepare(trx, xid)?;
        debug_assert!(
            trx.is_prepared() || trx.undo_top().is_none(),
            "a transaction that has written is prepared"
        );
        self.flush_to(lsn)
    }
    fn flush_to(&self, lsn: Lsn) -> Result<()> {
        if lsn == 0 {
            return Ok(());
        }
        // A poisoned log gives LSNs that are never durable.
        debug_assert!(
            lsn <= self.lsn() || self.check_alive().is_err(),
            "what is made durable is in the log"
        );
        match CommitFlush::from_number(self.commit_flush.load(Ordering::Relaxed)) {
            CommitFlush::Lazy => self.store.pool.check_alive(),
            CommitFlush::Write => self.redo().flush(lsn, FlushMode::Write),
            CommitFlush::Sync if planted(Mutant::CommitBeforeDurable) => self.redo().flush(lsn, FlushMode::Write),
            CommitFlush::Sync => self.redo().flush(lsn, FlushMode::Sync),
        }
    }
    /// For a connection, which continues after any result. If the rollback cannot be done now, it
    /// is retried later, and `trx` is a new transaction.
    pub fn rollback(&self, trx: &mut Trx) -> Result<()> {
        let was_prepared = trx.is_prepared() && !planted(Mutant::PreparedRollbackNotDurable);
        self.store.rollbacks().rollback(trx).inspect_err(|e| {
            if trx.is_prepared() {
                self.store.rollbacks().let_rollback_wait(trx, e);
            }
        })?;
        debug_assert!(!trx.is_started() && trx.id() == 0, "a rollback ends the transaction");
        // After a crash the transaction must not be prepared again, with its locks: its coordinator
        // would not decide it a second time.
        match was_prepared {
            true => self.flush_to(self.lsn()),
            false => Ok(()),
        }
    }

    /// Commits or rolls back a prepared transaction in doubt. `NotFound` if unknown.
    pub fn decide(&self, xid: &Xid, commit: bool) -> Result<()> {
        self.decide_at(xid, commit, &[])
    }
    /// The same, with the replication position that a commit carries.
    pub fn decide_at(&self, xid: &Xid, commit: bool, position: &[u8]) -> Result<()> {
        let mut trx = self.in_doubt.take(xid)?;
        debug_assert!(trx.is_started(), "a transaction in doubt has not ended");
        trx.set_position(position.to_vec());
        let ended = match commit {
            true => self.commit(&mut trx, true),
            false => self.roll_back_in_doubt(xid, trx),
        };
        if ended.is_err() && self.store.pool.check_alive().is_err() {
            self.in_doubt.note_cut_short(xid);
        }
        ended
    }
    /// Stores a replication position without a change of rows. It is durable on return, whatever
    /// the flush mode is, and so is every commit before it.
    pub fn set_position(&self, position: &[u8]) -> Result<()> {
        let lsn = self.store.trx_sys.set_position(position)?;
        debug_assert!(lsn != 0, "a position has an end marker of its own");
        if planted(Mutant::PositionNotFlushed) {
            return Ok(());
        }
        self.redo().flush(lsn, FlushMode::Sync)
    }
    /// The same. It becomes durable with the next flush of the log.
    pub fn set_position_lazily(&self, position: &[u8]) -> Result<()> {
        self.store.trx_sys.set_position(position).map(|_| ())
    }
    fn roll_back_in_doubt(&self, xid: &Xid, mut trx: Trx) -> Result<()> {
        if let Err(e) = self.store.rollbacks().rollback(&mut trx) {
            if trx.is_prepared() {
                // The rollback has not begun (the disk is full): the decision can be given again.
                self.in_doubt.keep(xid.clone(), trx);
            }
            return Err(e);
        }
        debug_assert!(!trx.is_started(), "a rollback ends the transaction");
        self.flush_log()
    }
}
