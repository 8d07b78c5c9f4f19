//! The buffer pool: pages in memory. Pin, latch, evict, flush; and [`Mtr`], the only source of a writable page (I2).
//!
//! Latch protocol (I5). Page latches are taken: tree pages from the root down and, on one level, left to right; then
//! undo pages; then a file's space pages (page 0, then its bitmaps). A thread that holds a page latch waits for no row
//! lock, calls no server function, and takes only the [`crate::base::sync::Rank`]s from `LockShard` up.
//! The pool calls nothing above it: a page read never merges or interprets what it read beyond the page header.
//!
//! Reading order: `page` (format), `frame` (memory and latch), `table` (page -> frame), `fetch` (hit and miss), `mtr`,
//! `dirty` (what must be written, the checkpoint bound), `evict`, `imprint`, `flush`, `dblwr`, `mend` (torn pages), `written` (lost writes), `direct`, `cut`,
//! `pace`, `prefetch`, `gather`, `recover`.
pub mod direct;
mod frames;
mod joined;
pub mod mtr;
#[cfg(test)]
mod mtr_tests;
pub mod page;
mod read;
mod recovery;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod write;

pub use frames::absence_filter::Imprinter;
pub use frames::frame::PageRead;
pub use joined::joined_len;
pub use mtr::{Mtr, PageHandle};
pub use page::{PageType, PAGE_BODY, PAGE_SIZE};
pub use read::fetch::Presence;
pub use recovery::apply::Void;
pub use recovery::gather::{split, Gathered, Piece};

use frames::{absence_filter, clock, dirty_list, frame, page_table};
use read::{prefetch, requests};
use write::{flush, pace, written};

use crate::base::sync::{Rank, RankedMutex};
use crate::base::{planted, Counters, FileId, Lsn, Mutant, PageId, Poison, Result};
use crate::io::{Disk, Files};
use crate::redo::{FlushMode, Redo};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// See [`PoolConfig::check_body`].
pub type CheckBody = fn(&[u8]) -> std::result::Result<(), String>;

#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// Bytes of frames (rounded down to whole pages). Overhead on top: under 1 % for frame headers and the page table,
    /// and up to 6 MiB of batch buffers.
    pub size: u64,
    pub doublewrite: bool,
    /// Pages a second the cleaner writes when nothing presses, and when something does.
    pub io_capacity: u32,
    pub io_capacity_max: u32,
    /// 0: no read-ahead.
    pub read_io_threads: u32,
    /// Whether the body of a page just read can be followed without leaving the page, or why not. Given by the layer that knows what the pages
    /// hold. A checksum does not tell: it is right for bytes, too, that were damaged in memory before they were written.
    pub check_body: CheckBody,
}

/// Fewer frames cannot hold the latched pages of a few splits at once.
const FRAMES_MIN: usize = 16;

pub struct Pool {
    config: PoolConfig,
    disk: Arc<dyn Disk>,
    files: Arc<Files>,
    redo: Arc<Redo>,
    counters: Arc<Counters>,
    frames: frame::Frames,
    table: page_table::PageTable,
    clock: clock::Clock,
    imprints: absence_filter::Imprints,
    dirty: dirty_list::DirtyList,
    flusher: flush::Flusher,
    written: written::Written,
    pace: pace::Pace,
    requests: requests::Requests,
    prefetch: Arc<prefetch::Prefetch>,
    /// Version given last to a changed page of an unlogged file.
    unlogged_version: AtomicU64,
    /// Pages that recovery could not read, and that the log has not made anew yet.
    unread: RankedMutex<HashSet<PageId>>,
    /// What recovery knew of the log.
    void: RankedMutex<Void>,
    loads: direct::Loads,
    /// Number of the database: every data file bears it. 0: it was made before there was one.
    database: AtomicU64,
    /// The redo log's: a log that cannot be written ends the pool's work too.
    poison: Arc<Poison>,
}

impl Pool {
    pub fn new(
        config: PoolConfig,
        disk: Arc<dyn Disk>,
        files: Arc<Files>,
        redo: Arc<Redo>,
        counters: Arc<Counters>,
    ) -> Result<Arc<Pool>> {
        let count = (config.size as usize / PAGE_SIZE).max(FRAMES_MIN);
        let frames = frame::Frames::new(count)?;
        let pool = Arc::new(Pool {
            poison: redo.poison_state().clone(),
            disk,
            files,
            redo,
            counters,
            table: page_table::PageTable::new(count),
            clock: clock::Clock::new(&frames),
            imprints: absence_filter::Imprints::new(count),
            dirty: dirty_list::DirtyList::new(),
            flusher: flush::Flusher::new(count),
            written: written::Written::new(count),
            pace: pace::Pace::new(config.io_capacity, config.io_capacity_max),
            requests: requests::Requests::default(),
            prefetch: Arc::new(prefetch::Prefetch::new()),
            unlogged_version: AtomicU64::new(0),
            unread: RankedMutex::new(Rank::Leaf, HashSet::new()),
            void: RankedMutex::new(Rank::Leaf, Void::default()),
            loads: direct::Loads::default(),
            database: AtomicU64::new(0),
            frames,
            config,
        });
        pool.set_doublewrite(pool.config.doublewrite)?;
        pool.start_workers()?;
        Ok(pool)
    }
    pub fn database(&self) -> u64 {
        self.database.load(Ordering::Relaxed)
    }
    pub fn set_database(&self, number: u64) {
        self.database.store(number, Ordering::Relaxed);
    }
    pub fn begin(&self) -> Mtr<'_> {
        Mtr::new(self)
    }
    /// Forgets all pages of a file without writing them (drop, truncate). No page of it is pinned or latched by anyone
    /// but read-ahead; the file is not in the file table any more, or nobody will ask for its pages.
    pub fn discard_file(&self, file: FileId) {
        self.prefetch.forget_file(file);
        for index in 0..self.frames.len() as u32 {
            if frame::key_id(self.frames.header(index).key()).file != file {
                continue;
            }
            // The caller holds no latch, so waiting for whatever took over this frame meanwhile is harmless.
            let page = self.frames.write(index);
            if frame::key_id(page.key()).file == file {
                self.discard(page);
            }
        }
        self.imprints.forget_file(file);
    }
    /// A bound: every change below it is durable in place. min(oldest change of a dirty or in-flight page, redo LSN at the
    /// call's start); see `dirty` for the proof.
    pub fn checkpoint_lsn(&self) -> Lsn {
        if planted(Mutant::CheckpointAheadOfDirtyPages) {
            return self.redo.lsn();
        }
        self.dirty.bound(&self.frames, || self.redo.lsn())
    }
    /// Bytes of pages it holds.
    pub fn size(&self) -> u64 {
        (self.frames.len() * PAGE_SIZE) as u64
    }
    /// The change of that LSN outlives a crash from now on.
    pub fn sync_log(&self, lsn: Lsn) -> Result<()> {
        self.redo.flush(lsn, FlushMode::Sync)
    }
    pub fn redo(&self) -> &Arc<Redo> {
        &self.redo
    }
    pub fn files(&self) -> &Arc<Files> {
        &self.files
    }
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }
    /// I6: refuses all further writes. Every layer that meets a failed write or a broken invariant calls this. The first
    /// reason is kept.
    pub fn poison(&self, why: &str) {
        self.redo.poison(why);
        self.clock.notify();
    }
    #[inline]
    fn is_poisoned(&self) -> bool {
        self.poison.is_set()
    }
    /// `Err(Poisoned)` after [`Pool::poison`].
    #[inline]
    pub fn check_alive(&self) -> Result<()> {
        self.poison.check()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shutdown();
    }
}
