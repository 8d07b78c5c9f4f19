//! Pages written past the pool and past the log: what a load builds, in pieces as large as an extent, once.
//!
//! The rules of unlogged pages (`docs/decisions/2026-11-21-unlogged-loads.md`):
//! 1. They are given to the load by a logged Mtr with a GIVEN record, and that is durable before the first of them is written. Their
//!    LSN is that group's end: so I1 holds for them as for all pages, and recovery applies nothing older to them.
//! 2. Nothing refers to them until they are *forced*: written and synced. Only then may an Mtr link them ([`Direct::force`] is the
//!    only way to a [`Forced`]). A crash before leaves pages that nothing refers to; the list of the load's extents gives them back.
//! 3. The pool holds none of them while they are written, nor an older copy afterwards.
//! 4. What is thrown away for that is known to be free, but the disk may not know it yet. Of pages that somebody names who may come again
//!    after a crash (the head of a chain, a root, a list of extents) it must know it before they are given ([`Pool::write_freed`]): the
//!    load may never write them, or not in time.
//!
//! No doublewrite: until they are linked nobody reads them, and after that they are whole. Called by `btree::load`; holds no latch.
use super::page::{seal, set_page_lsn, PAGE_SIZE};
use super::Pool;
use crate::base::{moment, planted, FileId, Lsn, Moment, Mutant, PageId, PageNo, Result};
use crate::io::files::OpenFile;
use crate::redo::FlushMode;
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// Memory that [`Direct::write`] takes.
pub use crate::io::AlignedBuf as PageBuffer;

/// Pages of one file on their way past the pool.
pub struct Direct {
    pool: Arc<Pool>,
    open: OpenFile,
    given: Vec<(PageNo, u32)>,
}

/// Loads going on in each file; [`WALKED`]: there is none, and none may begin.
#[derive(Default)]
pub(super) struct Loads {
    files: Mutex<HashMap<FileId, i64>>,
    ended: Condvar,
    given: AtomicU64,
}
const WALKED: i64 = -1;

impl Loads {
    /// Waits while the file is walked.
    fn begin(&self, file: FileId) {
        let mut files = self.files.lock();
        while files.get(&file) == Some(&WALKED) {
            self.ended.wait(&mut files);
        }
        *files.entry(file).or_default() += 1;
    }
    fn end(&self, file: FileId) {
        let mut files = self.files.lock();
        match files.get_mut(&file) {
            Some(loads) if *loads > 1 => *loads -= 1,
            _ => drop(files.remove(&file)),
        }
        self.ended.notify_all();
    }
}

/// While it lives no load gets pages of the file, or writes some.
pub struct LoadsOff<'a> {
    pool: &'a Pool,
    file: FileId,
}

impl Drop for LoadsOff<'_> {
    fn drop(&mut self) {
        self.pool.loads.end(self.file);
    }
}

/// All pages written are durable: they may be linked now.
pub struct Forced(());

impl Pool {
    /// For whoever reads all pages of a file, whatever they are: those of a load look like what they were before. None: a load,
    /// or another walk, is going on.
    pub fn keep_loads_off(&self, file: FileId) -> Option<LoadsOff<'_>> {
        let mut files = self.loads.files.lock();
        if files.contains_key(&file) {
            return None;
        }
        files.insert(file, WALKED);
        Some(LoadsOff { pool: self, file })
    }
    /// How often pages have been given to loads. It grows before the pool lets go of them: a page that was remembered at the same count, and is in
    /// the pool, is what it was remembered for or what its header says. Else it may be an old state that a reader has brought back from disk.
    pub fn given_to_loads(&self) -> u64 {
        self.loads.given.load(Ordering::SeqCst)
    }
    /// May the pages be given to a load: does the disk show of none of them what somebody could take for its own? Waits for nothing: the
    /// caller holds the file's allocation latch, so that nobody frees one meanwhile.
    pub fn is_past_written(&self, first: PageId, count: u32) -> bool {
        let (dirty, in_flight) = self.with_past(first, count);
        dirty.is_empty() && !in_flight
    }
    /// Makes it so. The caller holds no latch.
    pub fn write_freed(&self, first: PageId, count: u32) -> Result<()> {
        loop {
            self.check_alive()?;
            let (dirty, in_flight) = self.with_past(first, count);
            if dirty.is_empty() && !in_flight {
                return Ok(());
            }
            let mut written = 0;
            for batch in dirty.chunks(self.flusher.batch_max) {
                written += self.write_wanted(batch)?;
            }
            if written == 0 {
                self.clock.wait();
            }
        }
    }
    /// Frames of such pages that are to be written; and is one of the pages on its way?
    fn with_past(&self, first: PageId, count: u32) -> (Vec<u32>, bool) {
        let mut dirty = Vec::new();
        let mut in_flight = false;
        for no in first.no..first.no + count {
            let key = PageId::new(first.file, no).as_u64();
            let shard = self.table.lock(&self.frames, key);
            let Some(index) = shard.find() else { continue };
            let frame = self.frames.header(index);
            // In this order: see `Frame::needs_disk`.
            if frame.oldest() != 0 && frame.past_on_disk.load(Ordering::Acquire) {
                dirty.push(index);
            }
            moment(Moment::PastAsked);
            in_flight |= frame.in_flight.load(Ordering::Acquire);
        }
        (dirty, in_flight)
    }
}

impl Direct {
    pub fn begin(pool: &Arc<Pool>, file: FileId) -> Result<Direct> {
        let open = pool.files().get(file)?;
        pool.loads.begin(file);
        Ok(Direct {
            pool: pool.clone(),
            open,
            given: Vec::new(),
        })
    }
    /// The group that gave `count` pages from `first` on to this load ends at `lsn`.
    pub fn given(&mut self, first: PageNo, count: u32, lsn: Lsn) -> Result<()> {
        self.pool.redo.flush(lsn, FlushMode::Sync)?;
        self.given.push((first, count));
        self.pool.loads.given.fetch_add(1, Ordering::SeqCst);
        for no in first..first + count {
            self.pool.forget(PageId::new(self.open.id, no));
        }
        Ok(())
    }
    /// Seals and writes pages given before, `first` and those behind it. `lsn`: of the group that gave them.
    pub fn write(&self, first: PageNo, pages: &mut [u8], lsn: Lsn) -> Result<()> {
        self.pool.check_alive()?;
        assert!(
            self.pool.redo.durable_lsn() >= lsn || self.pool.redo.is_off(),
            "I1: no page before its redo is durable"
        );
        for page in pages.chunks_exact_mut(PAGE_SIZE) {
            set_page_lsn(page, lsn);
            seal(page);
        }
        let written = self.open.file.write_at(pages, first as u64 * PAGE_SIZE as u64);
        self.pool.synced(written)?;
        // Not before: whoever reads a page of the time before by an old number would take it for a lost write.
        let ids = (first..).map(|no| (PageId::new(self.open.id, no), lsn));
        self.pool.written.note(ids.take(pages.len() / PAGE_SIZE));
        self.pool.counters.data_writes.inc();
        self.pool.counters.data_written.add(pages.len() as u64);
        self.pool
            .counters
            .bulk_pages_written
            .add((pages.len() / PAGE_SIZE) as u64);
        Ok(())
    }
    /// Makes all that was written durable, and forgets what readers with an old page number may have brought in meanwhile.
    pub fn force(self) -> Result<Forced> {
        if !planted(Mutant::LoadNotForced) {
            self.pool.synced(self.open.file.sync())?;
        }
        self.pool.counters.data_fsyncs.inc();
        for (first, count) in &self.given {
            for no in *first..first + count {
                self.pool.forget(PageId::new(self.open.id, no));
            }
        }
        Ok(Forced(()))
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        self.pool.loads.end(self.open.id);
    }
}
