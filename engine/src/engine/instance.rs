//! The engine as one object: what it holds, how it closes, and what it does by request in between.
//!
//! `start/open.rs` makes it. Locks: one mutex around the threads; one around gauges while they are
//! read. Called by: `ffi`, [`Database`](super::Database), tests.
use super::backup::control::BackupControl;
use super::config::{Level, LogSink};
use super::drain::DrainNotes;
use super::in_doubt::InDoubt;
use super::page_list::PageLists;
use super::pool_rates::PoolRates;
use super::redo_switch::RedoSwitch;
use super::report::deadlocks::DeadlockTexts;
use super::report::rates::LastReport;
use super::start::checkpoint::write_checkpoint;
use super::steps::PURGE_RECORDS;
use super::workers::{stopped, Workers};
use crate::base::sync::holds_nothing;
use crate::base::sync::RankedMutex;
use crate::base::{Counters, Error, LogDedup, Lsn, Result};
use crate::redo::{FlushMode, Redo};
use crate::table::Store;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::Arc;

pub struct Engine {
    pub(super) store: Arc<Store>,
    pub(super) log: LogSink,
    /// Number of the setting `flush_log_at_trx_commit`.
    pub(super) commit_flush: AtomicU64,
    pub(super) workers: RankedMutex<Option<Workers>>,
    pub(super) purge_threads: u32,
    pub(super) redo_switch: RedoSwitch,
    /// Held while gauges are brought up to date and read. Taken with no latch held.
    pub(super) publishing: RankedMutex<()>,
    /// Transactions in doubt, which no connection executes.
    pub in_doubt: InDoubt,
    /// The state of the engine's backup.
    pub backup: Arc<BackupControl>,
    pub(super) deadlocks: DeadlockTexts,
    pub(super) page_lists: Arc<PageLists>,
    pub(super) pool_rates: PoolRates,
    /// Write every deadlock to the error log.
    pub(super) print_all_deadlocks: Arc<AtomicBool>,
    /// Time of day (microseconds) when the disk's clock began, so that a moment is shown the same
    /// whenever a user asks.
    pub(super) day_at_zero_us: u64,
    pub(super) last_report: LastReport,
}

/// How much a close does first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Close {
    /// Purge everything, merge every buffered change, write all pages: the next start has nothing
    /// to do.
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
    pub(super) fn redo(&self) -> &Arc<Redo> {
        &self.store.redo
    }
    pub fn lsn(&self) -> Lsn {
        self.redo().lsn()
    }
    pub fn durable_lsn(&self) -> Lsn {
        self.redo().durable_lsn()
    }
    /// The engine works: it was not closed, and nothing has stopped it (I6).
    pub fn check_alive(&self) -> Result<()> {
        self.store.pool.check_alive()
    }
    /// A note for the error log.
    pub fn note(&self, level: Level, text: &str) {
        (self.log)(level, text);
    }
    /// I6: stops all writing. Called at the ABI border too, when a panic was caught.
    pub fn poison(&self, why: &str) {
        self.store.pool.poison(why);
        debug_assert!(
            self.check_alive().is_err(),
            "I6: an engine that has stopped refuses all work"
        );
        if self.redo().poison_state().is_news() {
            (self.log)(Level::Error, &stopped(why));
        }
    }

    /// Purge, rollback of losers, and the freeing of dropped indexes.
    pub fn start_background(&self) {
        let losers = self.in_doubt.take_losers();
        if let Some(workers) = &mut *self.workers.lock() {
            workers.start_background(&self.store, &self.log, losers, self.purge_threads, &self.page_lists);
        }
    }

    /// Callers that still hold the engine, or wait in it, get [`Error::Closed`] from here on, or
    /// the reason why the engine stopped before.
    pub fn close(&self, how: Close) -> Result<()> {
        let closed = self.finish(how);
        self.redo().poison_state().close();
        debug_assert!(self.check_alive().is_err(), "a closed engine refuses all work");
        closed
    }

    pub(super) fn finish(&self, how: Close) -> Result<()> {
        self.backup.cancel("the engine is closed");
        let mut workers = self.workers.lock().take();
        if let Some(workers) = &mut workers {
            workers.stop_background();
        }
        let done = match how {
            Close::Slow => self.finish_deferred_work(),
            _ => Ok(()),
        };
        let done = done.and_then(|()| match how {
            Close::LogOnly => Ok(()),
            _ => self.store.statistics_keeper().save_all_statistics(),
        });
        if let Some(workers) = workers {
            workers.stop();
        }
        debug_assert!(
            self.workers.lock().is_none(),
            "no thread of the engine changes a page from here on"
        );
        done?;
        self.store.pool.check_alive()?;
        match (how, self.store.change.entries()) {
            (Close::Slow, _) | (_, 0) => {}
            (_, left) => self.note(
                Level::Info,
                &format!("change buffer: {left} entries stay for the next start, which merges them in the background"),
            ),
        }
        // While the redo log is off, changes are durable only in their pages.
        self.redo_switch.set(true)?;
        debug_assert!(self.redo_log_is_on(), "an engine closes with its log on");
        let result = match how {
            Close::LogOnly => self.flush_log(),
            _ => self.checkpoint(),
        };
        self.store.pool.shutdown();
        result
    }

    /// Purges all old versions, and merges all buffered changes.
    fn finish_deferred_work(&self) -> Result<()> {
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

    /// Purges as much as possible. A page that cannot be read, or a full disk, does not stop the
    /// close. An undo stream that fails is not tried again.
    fn purge_all(&self) -> Result<()> {
        debug_assert!(holds_nothing(), "I7: purge steps begin and end with nothing held");
        let mut logged = LogDedup::default();
        self.store.trx_sys.undo.begin_last_purge();
        loop {
            match self.store.purger().purge_step(PURGE_RECORDS) {
                Ok(true) => {}
                Ok(false) => break,
                Err(e @ (Error::Corrupt(_) | Error::Full(_) | Error::Io(_)))
                    if self.store.pool.check_alive().is_ok() =>
                {
                    let is_full = matches!(e, Error::Full(_));
                    let text = format!("purge: {}", self.store.name_damage(e));
                    if logged.is_news(&text, self.store.pool.disk().now_us()) {
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
        // Open views may hold some back, and so may commits that are not durable yet.
        match self.store.trx_sys.undo.history_length() {
            0 => {}
            left => self.note(
                Level::Warning,
                &format!("purge ends early: {left} transactions stay for the next start"),
            ),
        }
        Ok(())
    }

    pub fn flush_log(&self) -> Result<()> {
        let lsn = self.redo().lsn();
        self.redo().flush(lsn, FlushMode::Sync)?;
        debug_assert!(
            self.redo().is_flushed(lsn, FlushMode::Sync),
            "all that was logged before is durable"
        );
        Ok(())
    }

    /// With `true`, writes a checkpoint and then holds off all writes to the engine's files, so
    /// that another program can copy them. Threads that have to write wait until a call with
    /// `false`.
    ///
    /// Writes are held off also if the checkpoint fails: the program may copy the files all the
    /// same. Its copy then has more to recover.
    pub fn hold_writes(&self, hold: bool) -> Result<()> {
        debug_assert!(
            holds_nothing(),
            "I5: others wait for writes, so their holder holds nothing else"
        );
        let written = if hold { self.checkpoint() } else { Ok(()) };
        self.store.pool.disk().hold_writes(hold);
        written
    }

    /// Writes all dirty pages and moves the checkpoint.
    pub fn checkpoint(&self) -> Result<()> {
        self.flush_log()?;
        let flushed = self.durable_lsn();
        self.store.pool.flush_all()?;
        debug_assert!(self.durable_lsn() >= flushed, "the durable LSN never goes back");
        debug_assert!(
            self.store.pool.checkpoint_lsn() >= flushed,
            "no page lacks on disk what was logged before the flush"
        );
        write_checkpoint(&self.store.pool, self.store.pool.checkpoint_lsn())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some(workers) = self.workers.lock().take() {
            workers.stop();
            self.store.pool.shutdown();
        }
    }
}
