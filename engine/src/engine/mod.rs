//! The engine as one object: opened on a disk, closed, and in between the transactions and tables of its users.
//!
//! `open` = create or recover (`open.rs`), then the page cleaner and the checkpointer run; `start_background` lets purge and the
//! rollback of losers run too (a server first finishes its own DDL recovery). Embedded users start at [`Database`].
pub mod config;
pub mod database;
mod deadlocks;
mod drain;
mod locks;
pub mod open;
pub mod status;
mod purge_lag;
mod redo_switch;
mod steps;
mod undecided;
mod verdict;
mod unnamed;
mod workers;

#[cfg(test)]
mod tests;

pub use config::{CommitFlush, Config, KeyText, Level, LogSink};
pub use database::{Database, Transaction};
pub use locks::{LockedIndex, NamedLocks};

use crate::base::{planted, Counters, Error, Lsn, Mutant, Result, Told};
use crate::change::Buffering;
use crate::redo::{FlushMode, Redo};
use crate::table::Store;
use crate::txn::{Isolation, RecoveredTrx, Trx, Waiter, Xid};
use deadlocks::Teller;
use drain::DrainNotes;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use workers::Workers;

pub struct Engine {
    store: Arc<Store>,
    log: LogSink,
    /// Number of the setting `flush_log_at_trx_commit`.
    commit_flush: AtomicU64,
    workers: Mutex<Option<Workers>>,
    purge_threads: u32,
    /// Losers found at open, until the background rolls them back.
    losers: Mutex<Vec<RecoveredTrx>>,
    /// Prepared transactions found at open and not decided yet.
    prepared: Mutex<Vec<RecoveredTrx>>,
    /// Held while the log is turned off or on.
    switching: Mutex<()>,
    /// Held while gauges are brought up to date and read. Taken with no latch held.
    publishing: Mutex<()>,
    /// Prepared transactions that may outlive their connections.
    parked: Mutex<Vec<(Xid, Trx)>>,
    /// Those of which a verdict was begun and could not be made durable: the engine has stopped, and the next start finds them prepared or ended.
    cut_short: Mutex<Vec<Xid>>,
    undecided: undecided::Undecided,
    teller: Teller,
    /// Every deadlock goes to the log.
    print_all_deadlocks: Arc<AtomicBool>,
    /// What the time of day was (microseconds) when the disk's clock began, so that a moment is told the same whenever one asks.
    day_at_zero_us: u64,
}

/// How much a close does first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Close {
    /// Purge everything, merge every buffered change, write all pages: the next start has nothing to do.
    Slow,
    /// Write all pages.
    Fast,
    /// Only the log is made durable: as after a crash.
    LogOnly,
}

impl Engine {
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }
    pub fn counters(&self) -> &Arc<Counters> {
        &self.store.counters
    }
    fn redo(&self) -> &Arc<Redo> {
        &self.store.redo
    }
    pub fn lsn(&self) -> Lsn {
        self.redo().lsn()
    }
    pub fn durable_lsn(&self) -> Lsn {
        self.redo().durable_lsn()
    }
    /// It works: it was not closed, and nothing has stopped it (I6).
    pub fn check_alive(&self) -> Result<()> {
        self.store.pool.check_alive()
    }
    /// A note for people.
    pub fn note(&self, level: Level, text: &str) {
        (self.log)(level, text);
    }
    /// I6: stops all writing. Called at the ABI border too, when a panic was caught.
    pub fn poison(&self, why: &str) {
        self.store.pool.poison(why);
        if self.redo().poison_state().is_news() {
            (self.log)(Level::Error, &stopped(why));
        }
    }

    /// Purge, rollback of losers, and the freeing of dropped indexes.
    pub fn start_background(&self) {
        let losers = std::mem::take(&mut *self.losers.lock());
        if let Some(workers) = &mut *self.workers.lock() {
            workers.start_background(&self.store, &self.log, losers, self.purge_threads);
        }
    }

    /// Whoever still holds the engine, or waits in it, gets [`Error::Closed`] from here on, or why
    /// the engine stopped before.
    pub fn close(&self, how: Close) -> Result<()> {
        let closed = self.finish(how);
        self.redo().poison_state().close();
        closed
    }

    fn finish(&self, how: Close) -> Result<()> {
        let mut workers = self.workers.lock().take();
        if let Some(workers) = &mut workers {
            workers.stop_background();
        }
        let settled = match how {
            Close::Slow => self.settle(),
            _ => Ok(()),
        };
        let settled = settled.and_then(|()| match how {
            Close::LogOnly => Ok(()),
            _ => self.store.statistics_keeper().save_all_statistics(),
        });
        if let Some(workers) = workers {
            workers.stop();
        }
        settled?;
        self.store.pool.check_alive()?;
        match (how, self.store.change.entries()) {
            (Close::Slow, _) | (_, 0) => {}
            (_, left) => self.note(
                Level::Info,
                &format!("change buffer: {left} entries stay for the next start, which merges them in its own time"),
            ),
        }
        // Without its log nothing but the pages can be durable.
        self.set_redo_log(true)?;
        let result = match how {
            Close::LogOnly => self.flush_log(),
            _ => self.checkpoint(),
        };
        self.store.pool.shutdown();
        result
    }

    /// Leaves nothing deferred: no old versions, no buffered changes.
    fn settle(&self) -> Result<()> {
        self.store.pool.check_alive()?;
        self.purge_all()?;
        let mut notes = DrainNotes::default();
        notes.look(&self.store, &self.log, false);
        notes.look(&self.store, &self.log, true);
        let drained = self
            .store
            .merge_scheduler()
            .drain_changes_telling(&mut || notes.look(&self.store, &self.log, true));
        notes.look(&self.store, &self.log, false);
        drained
    }

    /// As far as that is possible: neither a page that cannot be read nor a full disk keeps the rest from being written. A stream that fails
    /// is let alone: each fails once.
    fn purge_all(&self) -> Result<()> {
        let mut told = Told::default();
        self.store.trx_sys.begin_last_purge();
        loop {
            match self.store.purger().purge_step(PURGE_RECORDS) {
                Ok(true) => {}
                Ok(false) => break,
                Err(e @ (Error::Corrupt(_) | Error::Full(_) | Error::Io(_)))
                    if self.store.pool.check_alive().is_ok() =>
                {
                    let is_full = matches!(e, Error::Full(_));
                    let text = format!("purge: {}", self.store.name_damage(e));
                    if told.is_news(&text, self.store.pool.disk().now_us()) {
                        self.note(Level::Error, &text);
                    }
                    if is_full {
                        break;
                    }
                }
                Err(e) => return Err(e),
            }
        }
        if let Err(e) = self.store.trx_sys.save_heads() {
            self.store.pool.check_alive()?;
            let text = self.store.name_damage(e).to_string();
            self.note(
                Level::Error,
                &format!("the next start will purge some transactions once more: {text}"),
            );
        }
        // Also what an open view, or what is not durable yet, holds back.
        match self.store.trx_sys.history_length() {
            0 => {}
            left => self.note(
                Level::Warning,
                &format!("purge ends early: {left} transactions stay for the next start"),
            ),
        }
        Ok(())
    }

    pub fn flush_log(&self) -> Result<()> {
        self.redo().flush(self.redo().lsn(), FlushMode::Sync)
    }

    /// Writes all dirty pages and moves the checkpoint.
    pub fn checkpoint(&self) -> Result<()> {
        self.flush_log()?;
        self.store.pool.flush_all()?;
        open::write_checkpoint(&self.store.pool, self.store.pool.checkpoint_lsn())
    }

    // ---- transactions ----

    pub fn new_trx(&self, waiter: Arc<dyn Waiter>, connection: u64) -> Trx {
        self.store.trx_sys.new_trx(waiter, connection)
    }
    pub fn start(&self, trx: &mut Trx, isolation: Isolation, lock_wait_timeout_ms: u32) {
        if !trx.started {
            trx.snapshot_isolation = self.store.snapshot_isolation.load(Ordering::Relaxed);
        }
        self.store.trx_sys.start(trx, isolation, lock_wait_timeout_ms);
    }
    pub fn commit(&self, trx: &mut Trx, durable: bool) -> Result<()> {
        let lsn = self.store.trx_sys.commit(trx);
        if let Err(why) = trx.check_not_doomed() {
            // A statement of it could be undone only in part, or its end cannot be written.
            self.rollback(trx)?;
            return Err(why);
        }
        if durable {
            self.flush_to(lsn)
        } else {
            Ok(())
        }
    }
    pub fn prepare(&self, trx: &mut Trx, xid: &Xid) -> Result<()> {
        let lsn = self.store.trx_sys.prepare(trx, xid)?;
        self.flush_to(lsn)
    }
    fn flush_to(&self, lsn: Lsn) -> Result<()> {
        if lsn == 0 {
            return Ok(());
        }
        match CommitFlush::from_number(self.commit_flush.load(Ordering::Relaxed)) {
            CommitFlush::Lazy => self.store.pool.check_alive(),
            CommitFlush::Write => self.redo().flush(lsn, FlushMode::Write),
            CommitFlush::Sync if planted(Mutant::CommitBeforeDurable) => self.redo().flush(lsn, FlushMode::Write),
            CommitFlush::Sync => self.redo().flush(lsn, FlushMode::Sync),
        }
    }
    fn set_commit_flush(&self, flush: CommitFlush) {
        self.commit_flush.store(flush.number(), Ordering::Relaxed);
        self.store.trx_sys.set_commit_safety(match flush {
            CommitFlush::Lazy => None,
            CommitFlush::Write => Some(FlushMode::Write),
            CommitFlush::Sync => Some(FlushMode::Sync),
        });
    }
    /// For a connection, which goes on whatever comes out: what cannot be rolled back now waits, and `trx` is a fresh one.
    pub fn rollback(&self, trx: &mut Trx) -> Result<()> {
        let was_prepared = trx.is_prepared() && !planted(Mutant::PreparedRollbackNotDurable);
        self.store.rollbacks().rollback(trx).inspect_err(|e| {
            if trx.is_prepared() {
                self.store.rollbacks().let_rollback_wait(trx, e);
            }
        })?;
        // A crash must not bring back, locks and all, what its coordinator was told to be gone: nobody would decide it again.
        match was_prepared {
            true => self.flush_to(self.lsn()),
            false => Ok(()),
        }
    }

    /// A bound of the change buffer was set, and more than that waits.
    fn note_if_above_bound(&self) {
        let (bytes, max) = (self.store.change.bytes(), self.store.change.bytes_max());
        if bytes > max {
            let text = format!(
                "change buffer: {bytes} bytes are pending, the bound is {max} from now on: the background and writers merge until they fit"
            );
            self.note(Level::Warning, &text);
        }
    }

    /// Changes a setting at run time; names as the server's variables without prefix.
    pub fn set(&self, name: &str, value: u64) -> Result<()> {
        let narrow = |value: u64| value.min(u32::MAX as u64) as u32;
        match name {
            "flush_log_at_trx_commit" => self.set_commit_flush(CommitFlush::from_number(value.min(2))),
            "io_capacity" => self.store.pool.set_io_capacity(narrow(value)),
            "io_capacity_max" => self.store.pool.set_io_capacity_max(narrow(value)),
            "redo_log_capacity" => return self.redo().set_capacity(value),
            "redo_log" => return self.set_redo_log(value != 0),
            "doublewrite" => return self.store.pool.set_doublewrite(value != 0),
            "stats_sample_pages" => {
                (self.store.statistics_keeper().settings.sample_pages).store(narrow(value), Ordering::Relaxed)
            }
            "stats_persistent" => {
                (self.store.statistics_keeper().settings.persistent).store(value != 0, Ordering::Relaxed)
            }
            "stats_auto_recalc" => {
                (self.store.statistics_keeper().settings.auto_recalc).store(value != 0, Ordering::Relaxed)
            }
            "sort_buffer_size" => self.store.sort_buffer_size.store(value, Ordering::Relaxed),
            "snapshot_isolation" => self.store.snapshot_isolation.store(value != 0, Ordering::Relaxed),
            "change_buffering" => self.store.change.set_buffering(Buffering::from_number(value)),
            "change_buffer_max_size" => {
                self.store.change.set_max_size(narrow(value), self.store.pool.size());
                self.note_if_above_bound();
            }
            "change_buffer_max_disk_size" => {
                self.store.change.set_max_disk_size(value);
                self.note_if_above_bound();
            }
            "change_buffer_test_mode" => self.store.change.set_test_mode(value.min(4) as u8),
            "change_buffer_drain" => self.store.change.set_draining(value != 0),
            "change_buffer_max_age" => self.store.change.set_age_max(value),
            "print_all_deadlocks" => self.print_all_deadlocks.store(value != 0, Ordering::Relaxed),
            "purge_lag_warning" => self.store.trx_sys.purge_lag_warning.store(value, Ordering::Relaxed),
            "verify" => self.store.verify.store(value != 0, Ordering::Relaxed),
            _ => return Err(Error::Unsupported(format!("setting {name} at run time"))),
        }
        Ok(())
    }
}

/// For the error log: why the engine stopped, what that means, and the way out.
fn stopped(why: &str) -> String {
    format!("{why}; every statement of the engine fails from now on, reads too: restart the server, which recovers")
}

/// Undo records of one purge step.
const PURGE_RECORDS: usize = 256;

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some(workers) = self.workers.lock().take() {
            workers.stop();
            self.store.pool.shutdown();
        }
    }
}
