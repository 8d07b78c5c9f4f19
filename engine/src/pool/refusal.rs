//! Data files that cannot be opened when their pages are to be written: too many open files, rights, a file moved away.
//!
//! Nothing was written, so nothing is lost (I6 is about writes that failed): the pages stay dirty, no checkpoint passes them, and every
//! batch tries again. People are told. That lasts as long as the log has room for what comes after the oldest of these changes; then writers
//! would wait for nobody knows how long, and the pool is poisoned: the next start recovers from the log, or says which file it needs.
//! Called by flush, after a batch; the news is fetched by the page cleaner's step.
use super::dirty::Candidate;
use super::frame::UNLOGGED;
use super::Pool;
use crate::base::{Error, Result, Told};

#[derive(Default)]
pub(super) struct Refusals {
    /// Batches meet the same again and again.
    told: Told,
    news: Vec<String>,
}

impl Pool {
    /// The pages stay dirty, because of `why`. `Err(Poisoned)` if the log cannot hold what comes after them any more.
    pub(super) fn note_refusal(&self, refused: &[Candidate], why: &Error) -> Result<()> {
        let now_us = self.disk.now_us();
        let text = format!("{why}; its changes stay in memory and in the redo log until it can be opened");
        let mut refusals = self.flusher.refusals.lock();
        if refusals.told.is_news(&text, now_us) {
            refusals.news.push(text);
        }
        drop(refusals);
        let oldest = refused.iter().map(|c| self.frames.header(c.frame).oldest());
        let logged = oldest.filter(|lsn| *lsn != 0 && *lsn != UNLOGGED);
        if logged.min().is_some_and(|lsn| self.redo.is_exhausted_from(lsn)) {
            self.poison(&format!("the redo log is full, and {why}"));
        }
        self.check_alive()
    }
    /// What people should know of files that cannot be opened, each once.
    pub fn take_refusals(&self) -> Vec<String> {
        std::mem::take(&mut self.flusher.refusals.lock().news)
    }
}
