//! The engine's threads. Each runs a loop around a bounded step (`steps.rs`, I7): stopping a thread
//! between two steps loses nothing.
//!
//! From open on:
//! - the page cleaner;
//! - the checkpointer, since recovery may fill the log;
//! - the log syncer, which also writes the log before commits need it.
//!
//! From `start_background` on:
//! - purge;
//! - the truncation of free undo;
//! - statistics;
//! - the merging of buffered changes;
//! - the load of the buffer pool's page list;
//! - the rollback of losers, which ends when they are all undone.
//!
//! The second group stops first. A slow close still purges and merges, and needs the first group
//! for that: it makes room in the log.
use super::config::{Level, LogSink};
use super::drain::DrainNotes;
use super::page_list::PageLists;
use super::purge_lag::PurgeLag;
use super::steps::{self, Checkpointer, LoserRollback, PURGE_RECORDS};
use crate::base::observer::{progress, run_thread, Stage};
use crate::base::sync::holds_nothing;
use crate::base::sync::{RankedCondvar, RankedMutex};
use crate::base::{Error, LogDedup, Result};
use crate::pool::Void;
use crate::table::{Chance, Rounds, Store, ROUNDS};
use crate::txn::RecoveredTrx;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes of a thread's name.
const THREAD_NAME_MAX: usize = 15;
const CLEANER_TICK_MS: u64 = 100;
const CHECKPOINT_TICK_MS: u64 = 200;
const SYNC_TICK_MS: u64 = 1000;
const PAGE_LIST_TICK_MS: u64 = 100;
const PURGE_IDLE_MS: u64 = 100;
const STATISTICS_TICK_MS: u64 = 1000;
/// Pause after a failure, so that work which fails at once does not take a processor.
const PURGE_AGAIN_MS: u64 = 10;
/// In the test modes something is merged at random moments, at most this far from each other.
const RANDOM_MERGE_MS: u64 = 40;
/// Undo records of one rollback step.
const ROLLBACK_RECORDS: usize = 64;

/// Asks threads to end; idle ones wait on it.
#[derive(Default)]
struct Stop {
    asked: AtomicBool,
    mutex: RankedMutex<()>,
    changed: RankedCondvar,
}

impl Stop {
    fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }
    fn sleep(&self, ms: u64) {
        debug_assert!(holds_nothing(), "I7: a worker between two steps holds nothing");
        let mut guard = self.mutex.lock();
        if !self.is_asked() {
            self.changed.wait_for(&mut guard, Duration::from_millis(ms));
        }
    }
    fn ask(&self) {
        self.asked.store(true, Ordering::Release);
        let _guard = self.mutex.lock();
        self.changed.notify_all();
    }
}

/// Threads that end together.
#[derive(Default)]
struct Group {
    stop: Arc<Stop>,
    threads: Vec<JoinHandle<()>>,
}

impl Group {
    fn join(&mut self) {
        debug_assert!(
            self.stop.is_asked(),
            "threads are asked to end before they are waited for"
        );
        for thread in self.threads.drain(..) {
            // A panic in the thread has poisoned the engine already.
            let _ = thread.join();
        }
    }
}

pub(super) struct Workers {
    store: Arc<Store>,
    /// The threads that keep pages and log going.
    base: Group,
    background: Group,
}

impl Workers {
    pub fn start(store: &Arc<Store>, log: &LogSink) -> Workers {
        let mut base = Group::default();
        base.spawn(store, "sluice-cleaner", log, clean_loop);
        let (note, capacity) = (log.clone(), store.redo.capacity());
        base.spawn(store, "sluice-checkpt", log, move |store, stop| {
            checkpoint_loop(store, stop, capacity, &note)
        });
        let note = log.clone();
        base.spawn(store, "sluice-logsync", log, move |store, stop| {
            sync_loop(store, stop, &note)
        });
        Workers {
            store: store.clone(),
            base,
            background: Group::default(),
        }
    }

    pub fn start_background(
        &mut self,
        store: &Arc<Store>,
        log: &LogSink,
        losers: Vec<RecoveredTrx>,
        purge_threads: u32,
        page_lists: &Arc<PageLists>,
    ) {
        debug_assert!(Arc::ptr_eq(store, &self.store));
        debug_assert!(self.background.threads.is_empty(), "the background starts once");
        let group = &mut self.background;
        let logged = Arc::<RankedMutex<LogDedup>>::default();
        for _ in 0..purge_threads.max(1) {
            let logged = logged.clone();
            group.spawn(store, "sluice-purge", log, move |store, stop| {
                purge_loop(store, stop, &logged)
            });
        }
        group.spawn(store, "sluice-undo", log, truncate_loop);
        group.spawn(store, "sluice-stats", log, statistics_loop);
        let note = log.clone();
        group.spawn(store, "sluice-change", log, move |store, stop| {
            merge_loop(store, stop, &note)
        });
        let (note, lists) = (log.clone(), page_lists.clone());
        group.spawn(store, "sluice-pages", log, move |store, stop| {
            page_list_loop(store, stop, &lists, &note)
        });
        let note = log.clone();
        group.spawn(store, "sluice-rollback", log, move |store, stop| {
            store.indexes().resume_freeing();
            roll_back(store, stop, losers, &note)
        });
    }

    /// Ends what `start_background` began.
    pub fn stop_background(&mut self) {
        self.background.stop.ask();
        self.background.join();
    }
    /// The threads that make room in the log end last: the others may wait for room.
    pub fn stop(mut self) {
        self.stop_background();
        self.base.stop.ask();
        self.store.pool.flusher().wake_cleaner();
        self.store.redo.wake_ahead();
        self.base.join();
    }
}

impl Group {
    /// A worker that fails, or panics, poisons the engine (I6): a page cleaner that is silently
    /// gone would stop all other threads.
    fn spawn(
        &mut self,
        store: &Arc<Store>,
        name: &str,
        log: &LogSink,
        body: impl FnOnce(&Store, &Stop) -> Result<()> + Send + 'static,
    ) {
        assert!(name.len() <= THREAD_NAME_MAX, "the system truncates longer names");
        assert!(!self.stop.is_asked(), "a group that stops gets no further thread");
        let (shared, log) = (store.clone(), log.clone());
        let (store, stop) = (shared.clone(), self.stop.clone());
        let label = name.to_string();
        let work = move || {
            let why = match catch_unwind(AssertUnwindSafe(|| body(&store, &stop))) {
                Ok(Ok(())) => return,
                Ok(Err(Error::Poisoned(why))) => why,
                Ok(Err(e)) => format!("{label}: {e}"),
                Err(_) => format!("{label}: a bug was caught"),
            };
            store.pool.poison(&why);
            // The thread that poisoned the engine may have had no log to write to. Of all workers
            // that end now, one writes why.
            if store.redo.poison_state().is_news() {
                log(Level::Error, &stopped(&why));
            }
        };
        let thread_name = name.to_string();
        let run = move || run_thread(&thread_name, work);
        match std::thread::Builder::new().name(name.to_string()).spawn(run) {
            Ok(thread) => self.threads.push(thread),
            Err(e) => shared.pool.poison(&format!("thread {name} cannot be started: {e}")),
        }
    }
}

/// For the error log: why the engine stopped, what that means, and the way out.
pub(super) fn stopped(why: &str) -> String {
    format!("{why}; every statement of the engine fails from now on, reads too: restart the server, which recovers")
}

fn page_list_loop(store: &Store, stop: &Stop, lists: &PageLists, log: &LogSink) -> Result<()> {
    while !stop.is_asked() {
        let has_loaded = lists.load_wanted(store, log, &|due_ms| {
            if due_ms > 0 {
                stop.sleep(due_ms);
            }
            !stop.is_asked()
        })?;
        if !has_loaded {
            stop.sleep(PAGE_LIST_TICK_MS);
        }
    }
    Ok(())
}

fn clean_loop(store: &Store, stop: &Stop) -> Result<()> {
    while !stop.is_asked() {
        store.pool.flusher().wait_for_work(CLEANER_TICK_MS);
        steps::clean(store)?;
    }
    Ok(())
}

/// `logged`: the log's capacity that the error log has named.
fn checkpoint_loop(store: &Store, stop: &Stop, mut logged: u64, log: &LogSink) -> Result<()> {
    let mut checkpointer = Checkpointer::default();
    while !stop.is_asked() {
        stop.sleep(if store.redo.wanted() { 5 } else { CHECKPOINT_TICK_MS });
        checkpointer.step(store)?;
        let capacity = store.redo.capacity();
        if capacity != logged && store.redo.has_all_segments() {
            let text = format!("redo log: resized from {} to {} MiB", logged >> 20, capacity >> 20);
            log(Level::Info, &text);
            logged = capacity;
        }
    }
    Ok(())
}

fn sync_loop(store: &Store, stop: &Stop, log: &LogSink) -> Result<()> {
    let mut lag = PurgeLag::default();
    while !stop.is_asked() {
        store.redo.wait_for_backlog(SYNC_TICK_MS);
        store.trx_sys.visibility.tick();
        lag.look(store, log);
        steps::sync_log(store)?;
    }
    Ok(())
}

/// `logged`: of all purge threads, which meet the same damage.
fn purge_loop(store: &Store, stop: &Stop, logged: &RankedMutex<LogDedup>) -> Result<()> {
    while !stop.is_asked() {
        match store.purger().purge_step(PURGE_RECORDS) {
            Ok(true) => {}
            Ok(false) => stop.sleep(PURGE_IDLE_MS),
            // The disk is full: purge tries again later.
            Err(Error::Full(_)) => stop.sleep(SYNC_TICK_MS),
            // Corrupt is undo itself: other streams can be purged.
            Err(e) if can_go_on(store, &e) => {
                let text = format!("purge: {}", store.name_damage(e));
                let now_us = store.pool.disk().now_us();
                let is_news = logged.lock().is_news(&text, now_us);
                if is_news {
                    store.tell(&text);
                }
                // The stream that failed is left out for a while; the next may be purged.
                stop.sleep(PURGE_AGAIN_MS);
            }
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// The error is a page or file that cannot be read. The worker's loop goes on, and tries again.
fn can_go_on(store: &Store, e: &Error) -> bool {
    matches!(e, Error::Corrupt(_) | Error::Io(_)) && store.pool.check_alive().is_ok()
}

fn truncate_loop(store: &Store, stop: &Stop) -> Result<()> {
    let mut logged = false;
    while !stop.is_asked() {
        match steps::truncate_undo(store) {
            Ok(true) => {}
            Ok(false) => stop.sleep(SYNC_TICK_MS),
            // A page of the undo file is broken: the file is not made shorter.
            Err(e) if e.is_corrupt() => {
                store.tell(&format!("undo file: {}", store.name_damage(e)));
                return Ok(());
            }
            Err(e) if can_go_on(store, &e) => {
                if !std::mem::replace(&mut logged, true) {
                    store.tell(&format!("undo file: {e}; it is not made shorter until it can be read"));
                }
                stop.sleep(SYNC_TICK_MS);
            }
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Statements report bad pages and a full disk: the worker comes back later.
fn statistics_loop(store: &Store, stop: &Stop) -> Result<()> {
    while !stop.is_asked() {
        match store.statistics_keeper().statistics_step() {
            Ok(true) => continue,
            Ok(false) => {}
            Err(e) if can_go_on(store, &e) => {}
            Err(e) => return Err(e),
        }
        stop.sleep(STATISTICS_TICK_MS);
    }
    Ok(())
}

fn merge_loop(store: &Store, stop: &Stop, log: &LogSink) -> Result<()> {
    let mut rounds = Rounds::default();
    let mut notes = DrainNotes::default();
    let mut chance = Chance(1);
    while !stop.is_asked() {
        let start = store.pool.disk().now_us();
        notes.look(store, log, store.change.is_draining());
        match store.merge_scheduler().merge_round(&mut rounds) {
            Err(e) if !e.is_corrupt() => return Err(e),
            // Statements that need the index report it.
            _ => {}
        }
        // A drain may have begun and ended in this one round.
        notes.look(store, log, rounds.was_draining());
        notes.look(store, log, store.change.is_draining());
        let took = store.pool.disk().now_us().saturating_sub(start) / 1000;
        let mut rest = (1000 / ROUNDS as u64).saturating_sub(took).max(1);
        while store.change.merges_at_random() && rest > RANDOM_MERGE_MS && !stop.is_asked() {
            let some = 1 + chance.below(RANDOM_MERGE_MS);
            debug_assert!(some <= rest, "a pause of chance ends within its round");
            stop.sleep(some);
            rest -= some;
            store.merge_scheduler().merge_at_random(&mut chance)?;
        }
        stop.sleep(rest);
    }
    Ok(())
}

fn roll_back(store: &Store, stop: &Stop, losers: Vec<RecoveredTrx>, log: &LogSink) -> Result<()> {
    if losers.is_empty() {
        store.pool.recovery().keep_void(Void::default());
        return retry_rollbacks(store, stop, LoserRollback::new(losers));
    }
    log(
        Level::Info,
        &format!("rolling back transactions that had not committed: {}", losers.len()),
    );
    let (count, began_us) = (losers.len(), store.pool.disk().now_us());
    let mut rollback = LoserRollback::new(losers);
    let total = store.trx_sys.rollback_records_left();
    // Asked to stop: the next open finds the rest.
    while !stop.is_asked() {
        let left = store.trx_sys.rollback_records_left().min(total);
        progress(Stage::RollbackAtStart, total - left, total.max(1));
        match rollback.step(store, ROLLBACK_RECORDS) {
            Ok(true) => {}
            Ok(false) => {
                let seconds = (store.pool.disk().now_us() - began_us) / 1_000_000;
                let waiting = match store.rollbacks().rollbacks_waiting() + rollback.put_off() {
                    0 => {
                        store.pool.recovery().keep_void(Void::default());
                        String::new()
                    }
                    n => format!("; {n} wait until they can be rolled back (see above)"),
                };
                progress(Stage::RollbackAtStart, 1, 1);
                let text = format!("rollback of uncommitted transactions is done: {count} in {seconds} s{waiting}");
                log(Level::Info, &text);
                break;
            }
            // The record is undone once there is room.
            Err(Error::Full(_)) => stop.sleep(SYNC_TICK_MS),
            Err(e) if store.rollbacks().can_wait(&e) => rollback.put_off_current(store, &e),
            Err(e) => return Err(e),
        }
    }
    retry_rollbacks(store, stop, rollback)
}

/// Rollbacks that had to wait: for space, for a disk that failed, or for a broken table to be
/// dropped.
fn retry_rollbacks(store: &Store, stop: &Stop, mut losers: LoserRollback) -> Result<()> {
    while !stop.is_asked() {
        let of_losers = match losers.step(store, ROLLBACK_RECORDS) {
            Err(e) if store.rollbacks().can_wait(&e) => {
                losers.put_off_current(store, &e);
                true
            }
            more => more?,
        };
        if !of_losers && !store.rollbacks().retry_rollback(ROLLBACK_RECORDS)? {
            stop.sleep(SYNC_TICK_MS);
            losers.take_up_again();
        }
    }
    Ok(())
}
