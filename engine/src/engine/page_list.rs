//! [`PageLists`]: dumps and loads of the buffer pool's page list, and texts about their progress.
//!
//! The thread that asks for a dump writes it. A worker loads a list in bounded steps (I7). While
//! other threads miss pages, it reads at most `io_capacity_max` pages a second. A list that cannot
//! be used is ignored, with a warning that names it.
//!
//! One list is loaded at a time. A thread that loads a list itself (`load_now`) waits for the load
//! that runs, and never leaves its list to the worker.
//!
//! Lock: one of rank `Leaf`, not held while the disk is used.
//! Called by: `pool_control`, `workers`.
use super::config::{Level, LogSink};
use crate::base::sync::{Rank, RankedCondvar, RankedMutex};
use crate::base::{Error, Result};
use crate::io::local_time;
use crate::pool::page_list::{dump::dump, load::PageListLoad};
use crate::pool::Pool;
use crate::table::Store;
use std::sync::atomic::{AtomicBool, Ordering};

/// Dumps and loads of one engine.
pub(super) struct PageLists {
    state: RankedMutex<State>,
    /// A load has ended.
    ended: RankedCondvar,
    abort: AtomicBool,
}

struct State {
    dump_status: String,
    load_status: String,
    /// The list that the worker is to load next.
    wanted: Option<String>,
    /// A thread loads a list.
    is_loading: bool,
    /// A load was asked for and has not ended, so the pool lacks pages of the list.
    is_incomplete: bool,
}

impl State {
    /// A load that is wanted has not ended. For asserts.
    fn is_sound(&self) -> bool {
        self.is_incomplete || self.wanted.is_none()
    }
}
/// The right to load a list. Its end lets the next load begin.
struct Turn<'l>(&'l PageLists);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.state.lock().is_loading = false;
        self.0.ended.notify_all();
    }
}

/// How a load ended.
enum LoadEnd {
    Done,
    Full,
    Aborted,
    Stopped,
}

impl PageLists {
    pub fn new() -> PageLists {
        let state = State {
            dump_status: "Dumping of buffer pool not started".into(),
            load_status: "Loading of buffer pool not started".into(),
            wanted: None,
            is_loading: false,
            is_incomplete: false,
        };
        PageLists {
            state: RankedMutex::new(Rank::Leaf, state),
            ended: RankedCondvar::new(),
            abort: AtomicBool::new(false),
        }
    }
    /// Writes the list of the `percent` hottest pages of the pool to the file `name`.
    pub fn dump(&self, pool: &Pool, log: &LogSink, name: &str, percent: u32) -> Result<()> {
        pool.check_alive()?;
        let done = check_name(name).and_then(|()| dump(pool, name, percent));
        let now = local_time(pool.disk().wall_s());
        self.state.lock().dump_status = match &done {
            Ok(_) => format!("Buffer pool(s) dump completed at {now}"),
            Err(why) => format!("Buffer pool(s) dump failed at {now}: {why}"),
        };
        match &done {
            Ok(pages) => log(Level::Info, &format!("buffer pool: {pages} pages are listed in {name}")),
            Err(why) => log(
                Level::Warning,
                &format!("the page list of the buffer pool could not be written to {name}: {why}"),
            ),
        }
        done.map(drop)
    }
    /// True while the pool lacks pages of the list, because a load has not ended.
    pub fn is_incomplete(&self) -> bool {
        let state = self.state.lock();
        debug_assert!(state.is_sound(), "a list that is to be loaded is not in the pool yet");
        state.is_incomplete
    }
    /// Has the worker load the list next.
    pub fn request(&self, name: &str) -> Result<()> {
        check_name(name)?;
        self.abort.store(false, Ordering::Release);
        let mut state = self.state.lock();
        state.is_incomplete = true;
        state.wanted = Some(name.into());
        state.load_status = "Loading of buffer pool begins".into();
        Ok(())
    }
    /// Makes the current load end at its next step.
    pub fn abort(&self) {
        self.abort.store(true, Ordering::Release);
    }
    /// Texts about the current or the latest dump, and load.
    pub fn status_texts(&self) -> (String, String) {
        let state = self.state.lock();
        (state.dump_status.clone(), state.load_status.clone())
    }
    /// For the worker: loads the list that was asked for. False: none was, or another thread loads.
    /// Between steps it calls `pause` with the milliseconds to wait. `pause` returns false to end
    /// the load.
    pub fn load_wanted(&self, store: &Store, log: &LogSink, pause: &dyn Fn(u64) -> bool) -> Result<bool> {
        let (turn, name) = {
            let mut state = self.state.lock();
            if state.is_loading {
                return Ok(false);
            }
            let Some(name) = state.wanted.take() else {
                return Ok(false);
            };
            state.is_loading = true;
            (Turn(self), name)
        };
        self.load(&turn, store, log, &name, pause)?;
        Ok(true)
    }
    /// Loads the list in this thread, at full speed, after a load that another thread runs.
    pub fn load_now(&self, store: &Store, log: &LogSink, name: &str) -> Result<()> {
        check_name(name)?;
        let turn = {
            let mut state = self.state.lock();
            while state.is_loading {
                self.ended.wait(&mut state);
            }
            state.is_loading = true;
            state.is_incomplete = true;
            Turn(self)
        };
        self.abort.store(false, Ordering::Release);
        self.load(&turn, store, log, name, &|_| true)
    }
    fn set_load_status(&self, status: String) {
        self.state.lock().load_status = status;
    }
    fn load(
        &self,
        _turn: &Turn<'_>,
        store: &Store,
        log: &LogSink,
        name: &str,
        pause: &dyn Fn(u64) -> bool,
    ) -> Result<()> {
        let pool = &store.pool;
        let mut load = match PageListLoad::begin(pool, name) {
            Ok(load) => load,
            Err(error @ Error::Poisoned(_)) => return Err(error),
            Err(error) => {
                let text = format!(
                    "the page list of the buffer pool is not used: {error}; the pool fills as pages are needed"
                );
                self.end_load(&format!("Buffer pool(s) load failed: {error}"));
                log(Level::Warning, &text);
                return Ok(());
            }
        };
        let began_us = pool.disk().now_us();
        let end = self.run(store, &mut load, pause)?;
        debug_assert!(
            !matches!(end, LoadEnd::Done) || load.tried == load.listed,
            "a load that is done has tried every page of its list"
        );
        let (read, listed) = (load.read, load.listed);
        let status = match end {
            LoadEnd::Stopped => return Ok(()),
            LoadEnd::Done => format!("Buffer pool(s) load completed at {}", local_time(pool.disk().wall_s())),
            LoadEnd::Full => format!(
                "Buffer pool(s) load completed at {}: the pool is full",
                local_time(pool.disk().wall_s())
            ),
            LoadEnd::Aborted => format!("Buffer pool(s) load aborted: {}/{listed} pages", load.tried),
        };
        let ms = (pool.disk().now_us() - began_us) / 1000;
        self.end_load(&status);
        log(
            Level::Info,
            &format!("{status}; {read} pages of the {listed} of {name} were read in {ms} ms"),
        );
        Ok(())
    }
    fn end_load(&self, status: &str) {
        let mut state = self.state.lock();
        state.load_status = status.to_string();
        state.is_incomplete = state.wanted.is_some();
        debug_assert!(state.is_sound(), "a load that ends leaves the next one wanted");
    }
    fn run(&self, store: &Store, load: &mut PageListLoad, pause: &dyn Fn(u64) -> bool) -> Result<LoadEnd> {
        let pool = &store.pool;
        let mut misses = pool.counters().buffer_pool_reads.get();
        loop {
            if self.abort.load(Ordering::Acquire) {
                return Ok(LoadEnd::Aborted);
            }
            debug_assert!(
                load.read <= load.tried && load.tried <= load.listed,
                "of the list's pages"
            );
            let before = load.read;
            if !load.step(pool)? {
                return Ok(if load.is_full { LoadEnd::Full } else { LoadEnd::Done });
            }
            self.set_load_status(format!("Loaded {}/{} pages", load.tried, load.listed));
            let missed = pool.counters().buffer_pool_reads.get();
            let in_use = std::mem::replace(&mut misses, missed) != missed;
            let rate = pool.flusher().io_capacity().1.max(1) as u64;
            let due_ms = if in_use {
                ((load.read - before) as u64 * 1000).div_ceil(rate)
            } else {
                0
            };
            if !pause(due_ms) {
                return Ok(LoadEnd::Stopped);
            }
        }
    }
}

/// Checks the name of a page list. `Error::Invalid`: it is not a plain file name, or another file
/// of the engine has it.
pub(super) fn check_name(name: &str) -> Result<()> {
    let is_plain = !name.is_empty() && !name.contains('/') && !name.starts_with('.');
    let is_ours = name.ends_with(".slu")
        || ["redo_", "tmp_", "doublewrite", "sluice.lock"]
            .iter()
            .any(|own| name.starts_with(own));
    if is_plain && !is_ours {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "sluice_buffer_pool_filename is {name:?}: it must be a plain file name, which no other file of the engine has"
    )))
}
