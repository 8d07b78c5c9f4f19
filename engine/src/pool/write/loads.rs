//! Which files have loads: jobs that write pages past the pool (`direct`).
//!
//! A file is either loaded, by any number of loads, or *walked*: read page by page, whatever the
//! pages are. A walk would take the pages of a load for what they were before.
//!
//! While a backup runs, loads log the pages that they write (B4).
//!
//! Locks: one of rank `Leaf`; one for readers and a writer, held by a load while it writes pages.
//! Called by: `direct` (begins and ends loads), `btree::free` (walks), `btree::run` (compares the
//! number of gifts).
use crate::base::sync::{Rank, RankedMutex, RwLock};
use crate::base::{planted, FileId, Mutant};
use parking_lot::Condvar;
use parking_lot::RwLockReadGuard;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

pub struct Loads {
    /// Number of loads in each file, or [`WALKED`].
    files: RankedMutex<HashMap<FileId, i64>>,
    ended: Condvar,
    given: AtomicU64,
    logged: RwLock<bool>,
}

/// The file has no load, and none may begin.
const WALKED: i64 = -1;

impl Loads {
    pub(in crate::pool) fn new() -> Loads {
        Loads {
            files: RankedMutex::new(Rank::Leaf, HashMap::new()),
            ended: Condvar::new(),
            given: AtomicU64::new(0),
            logged: RwLock::new(false),
        }
    }
    /// A load of the file begins. Waits while the file is walked.
    pub(in crate::pool) fn begin(&self, file: FileId) {
        let mut files = self.files.lock();
        while files.get(&file) == Some(&WALKED) {
            self.ended.wait(files.raw());
        }
        let loads = files.entry(file).or_default();
        *loads += 1;
        debug_assert!(*loads > 0, "a file is not loaded while it is walked");
    }
    /// One load of the file ends, or its walk.
    pub(in crate::pool) fn end(&self, file: FileId) {
        let mut files = self.files.lock();
        debug_assert!(files.contains_key(&file), "a load ends once, and so does a walk");
        match files.get_mut(&file) {
            Some(loads) if *loads > 1 => *loads -= 1,
            _ => drop(files.remove(&file)),
        }
        self.ended.notify_all();
    }
    /// Has loads log the pages that they write, or not. On return no write is under way that
    /// followed the old rule.
    pub fn set_logged(&self, logged: bool) {
        *self.logged.write() = logged && !planted(Mutant::BackupLoadsNotLogged);
    }
    /// Whether a load has to log the pages that it writes. The answer holds as long as the result
    /// lives.
    pub(in crate::pool) fn logged(&self) -> RwLockReadGuard<'_, bool> {
        self.logged.read()
    }
    /// Pages have been given to a load; the pool has not forgotten them yet.
    pub(in crate::pool) fn note_given(&self) {
        self.given.fetch_add(1, Ordering::SeqCst);
    }
    /// How often pages have been given to loads. The count grows before the pool forgets the pages.
    ///
    /// So a page remembered at the same count, and in the pool, is the page that was remembered, or
    /// its header says otherwise. At another count it may be an old state that a reader has brought
    /// back from disk.
    pub fn given_count(&self) -> u64 {
        self.given.load(Ordering::SeqCst)
    }
    /// For a reader of all pages of a file, whatever the pages are. None: a load, or another walk,
    /// is going on.
    pub fn keep_off(&self, file: FileId) -> Option<LoadsOff<'_>> {
        let mut files = self.files.lock();
        if files.contains_key(&file) {
            return None;
        }
        files.insert(file, WALKED);
        Some(LoadsOff { loads: self, file })
    }
}

/// While it lives, no load of the file begins.
pub struct LoadsOff<'a> {
    loads: &'a Loads,
    file: FileId,
}

impl Drop for LoadsOff<'_> {
    fn drop(&mut self) {
        debug_assert_eq!(
            self.loads.files.lock().get(&self.file),
            Some(&WALKED),
            "no load of the file began during the walk"
        );
        self.loads.end(self.file);
    }
}
