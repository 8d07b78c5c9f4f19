//! Data files that cannot be opened when their pages are to be written: too many open files, rights, a file moved away.
//!
//! Nothing was written, so nothing is lost (I6 is about writes that failed): the pages stay dirty, no checkpoint passes them, and every
//! call tries again. People are told. That lasts as long as the log has room for what comes after the oldest of these changes; then writers
//! would wait for nobody knows how long, and the pool is poisoned: the next start recovers from the log, or says which file it needs.
//!
//! A call that writes the oldest changes tries to open such a file once, and sets its pages aside as it comes to them ([`Aside`]): then
//! younger pages of other files are written. When the call ends they are back in the list.
//! Called by flush; the news is fetched by the page cleaner's step.
use super::dirty::{Candidate, Flight};
use super::frame::UNLOGGED;
use super::Pool;
use crate::base::{Error, FileId, LogDedup, Result};

#[derive(Default)]
pub(super) struct UnopenedNews {
    /// Batches meet the same again and again.
    told: LogDedup,
    news: Vec<String>,
}

/// What one call met of files that cannot be opened.
pub(super) struct Aside<'p> {
    pool: &'p Pool,
    files: Vec<FileId>,
    /// Not in the dirty list, in the order in which they came from there.
    pages: Vec<Candidate>,
    /// No checkpoint passes them.
    flights: Vec<Flight>,
    /// Why the last of the files cannot be opened.
    pub why: Option<Error>,
}

impl<'p> Aside<'p> {
    pub fn new(pool: &'p Pool) -> Aside<'p> {
        Aside {
            pool,
            files: Vec::new(),
            pages: Vec::new(),
            flights: Vec::new(),
            why: None,
        }
    }
    /// It could not be opened in this call: nobody tries again before the next.
    pub fn has_file(&self, file: FileId) -> bool {
        self.files.contains(&file)
    }
    pub fn add_file(&mut self, file: FileId, why: Error) {
        self.files.push(file);
        self.why = Some(why);
    }
    /// Called before the flight ends that they were popped in.
    pub fn add_pages(&mut self, unopened: &[Candidate]) {
        // Those that the clock met are still listed.
        let before = self.pages.len();
        self.pages.extend(unopened.iter().filter(|page| page.popped.is_some()));
        let popped = &self.pages[before..];
        if !popped.is_empty() {
            self.flights.push(self.pool.dirty.hold(popped));
        }
    }
    /// How many pages.
    pub fn len(&self) -> usize {
        self.pages.len()
    }
}

impl Drop for Aside<'_> {
    fn drop(&mut self) {
        if self.pages.is_empty() {
            return;
        }
        // The youngest first: each goes to the front, or nearly.
        self.pages.reverse();
        self.pool.dirty.put_back(&self.pool.frames, &self.pages);
        self.flights
            .drain(..)
            .for_each(|flight| self.pool.dirty.end_flight(flight));
        self.pool.clock.notify();
    }
}

impl Pool {
    /// These pages stay dirty, because of `why`. `Err(Poisoned)` if the log cannot hold what comes after them any more.
    pub(super) fn note_unopened(&self, unopened: &[Candidate], why: &Error) -> Result<()> {
        let now_us = self.disk.now_us();
        let text = format!("{why}; its changes stay in memory and in the redo log until it can be opened");
        let mut unopened_news = self.flusher.unopened_news.lock();
        if unopened_news.told.is_news(&text, now_us) {
            unopened_news.news.push(text);
        }
        drop(unopened_news);
        let oldest = unopened.iter().map(|c| self.frames.header(c.frame).oldest());
        let logged = oldest.filter(|lsn| *lsn != 0 && *lsn != UNLOGGED);
        if logged.min().is_some_and(|lsn| self.redo.is_exhausted_from(lsn)) {
            self.poison(&format!("the redo log is full, and {why}"));
        }
        self.check_alive()
    }
    /// What people should know of files that cannot be opened, each once.
    pub fn take_unopened_news(&self) -> Vec<String> {
        std::mem::take(&mut self.flusher.unopened_news.lock().news)
    }
}
