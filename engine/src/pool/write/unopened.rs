//! Data files that cannot be opened when their pages are to be written: too many open files,
//! missing rights, a file moved away.
//!
//! Nothing was written, so nothing is lost (I6 is about writes that failed). The pages stay dirty,
//! no checkpoint passes them, every call tries again, and the error log gets the reason. That lasts
//! as long as the log has room for what comes after the oldest of these changes. Then writers would
//! wait without end, so the pool is poisoned: the next start recovers from the log, or names the
//! file that it needs.
//!
//! A call that writes the oldest changes tries to open such a file once. From then on the pages of
//! the file are [`Quarantined`]: younger pages of other files are written. When the call ends, the
//! quarantined pages are back in the list.
//!
//! Lock: the dirty list's.
//! Called by: `flush` and `batch`. The page cleaner's step fetches the news.
use crate::base::{Error, FileId, LogDedup};
use crate::pool::frames::dirty_list::{Candidate, Flight};
use crate::pool::frames::store::FrameStore;

/// Messages about files that could not be opened, each once.
#[derive(Default)]
pub(in crate::pool) struct UnopenedNews {
    /// Batches meet the same files again and again.
    log_dedup: LogDedup,
    news: Vec<String>,
}

impl UnopenedNews {
    pub fn note(&mut self, text: String, now_us: u64) {
        if self.log_dedup.is_news(&text, now_us) {
            self.news.push(text);
        }
    }
    /// The messages since the last call.
    pub fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.news)
    }
}

/// Pages of files that one call could not open.
pub(in crate::pool) struct Quarantined<'p> {
    store: &'p FrameStore,
    files: Vec<FileId>,
    /// Not in the dirty list, in the order in which they were popped from it.
    pages: Vec<Candidate>,
    /// No checkpoint passes the pages.
    flights: Vec<Flight>,
    /// Why the last of the files cannot be opened.
    pub why: Option<Error>,
}

impl<'p> Quarantined<'p> {
    pub fn new(store: &'p FrameStore) -> Quarantined<'p> {
        Quarantined {
            store,
            files: Vec::new(),
            pages: Vec::new(),
            flights: Vec::new(),
            why: None,
        }
    }
    /// The file could not be opened in this call; the next try is the next call's.
    pub fn has_file(&self, file: FileId) -> bool {
        self.files.contains(&file)
    }
    pub fn add_file(&mut self, file: FileId, why: Error) {
        debug_assert!(!self.has_file(file), "a call tries once to open a file");
        self.files.push(file);
        self.why = Some(why);
    }
    /// Called before the flight ends in which the pages were popped.
    pub fn add_pages(&mut self, unopened: &[Candidate]) {
        // The pages that the clock hand met are still listed.
        let before = self.pages.len();
        self.pages.extend(unopened.iter().filter(|page| page.popped.is_some()));
        let popped = &self.pages[before..];
        if !popped.is_empty() {
            self.flights.push(self.store.dirty.hold(popped));
        }
    }
    /// Number of pages.
    pub fn len(&self) -> usize {
        self.pages.len()
    }
}

impl Drop for Quarantined<'_> {
    fn drop(&mut self) {
        debug_assert_eq!(
            self.pages.is_empty(),
            self.flights.is_empty(),
            "no checkpoint passes pages that are quarantined"
        );
        if self.pages.is_empty() {
            return;
        }
        // The youngest first: each goes to the front of the list, or nearly.
        self.pages.reverse();
        self.store.dirty.put_back(&self.store.frames, &self.pages);
        self.flights
            .drain(..)
            .for_each(|flight| self.store.dirty.end_flight(flight));
        self.store.clock.notify();
    }
}
