//! Write-back: which dirty pages are written, and when.
//!
//! Several threads may flush at once: the cleaner, threads that need a frame, and whole-pool
//! flushes. Waits: for I/O and for a slot; never for a page latch, with one exception. The oldest
//! page of all may be so busy that its latch cannot be taken twice in a row. It would hold the
//! checkpoint back for ever. The cleaner, which holds nothing, waits for its latch *before* it
//! takes a slot, and writes that page alone.
//!
//! Every write goes through `batch`, which keeps I1 and I6.
//! Called by: the engine's page cleaner (I7: each step is bounded), checkpoints, switches of the
//! redo log, loads.
use super::batch::{BatchWriter, Oldest};
use super::pace::Pace;
use super::unopened::Quarantined;
use crate::base::sync::holds_no_latch;
use crate::base::{planted, sync_point, FileId, Lsn, Mutant, PageId, Result, SyncPoint};
use crate::pool::frames::frame::{key_id, UNLOGGED};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

/// Above this share of dirty frames unlogged pages are written, too.
const UNLOGGED_FROM_SHARE: f64 = 0.75;

pub struct Flusher {
    writer: BatchWriter,
    pace: Pace,
    /// First change of the oldest page that the last batch could not latch; 0 = none.
    busy: AtomicU64,
}

impl Flusher {
    pub(in crate::pool) fn new(writer: BatchWriter, pace: Pace) -> Flusher {
        Flusher {
            writer,
            pace,
            busy: AtomicU64::new(0),
        }
    }
    #[inline]
    pub(in crate::pool) fn writer(&self) -> &BatchWriter {
        &self.writer
    }
    /// One bounded piece of the page cleaner's work (I7): fills the free list, for which it may
    /// have to write a batch of cold pages. Then it writes the oldest changes, until it has written
    /// `pages_max`. Returns how many it wrote.
    pub fn step(&self, pages_max: usize) -> Result<usize> {
        self.writer.check_alive()?;
        let store = &self.writer.store;
        let batch_max = self.writer.batch_max();
        let mut written = 0;
        let cold = store.refill_free(batch_max);
        if !cold.is_empty() {
            written += self.writer.write_cold(&cold)?;
            store.free_cold(&cold);
        }
        let mut quarantined = Quarantined::new(store);
        while written < pages_max {
            let oldest = Oldest {
                pages_max: (pages_max - written).min(batch_max),
                below: Lsn::MAX,
                unlogged: store.dirty_share() > UNLOGGED_FROM_SHARE,
            };
            let before = quarantined.len();
            let n = self.write_oldest(oldest, &mut quarantined)?;
            if n == 0 && quarantined.len() == before {
                break;
            }
            written += n;
        }
        Ok(written)
    }
    /// Writes everything dirty at the time of the call. When a file cannot be opened: everything
    /// else that is not latched right then, and that error.
    pub fn flush_all(&self) -> Result<()> {
        let store = &self.writer.store;
        let target = self.writer.redo.lsn();
        let mut unlogged_left = store.frames.mapped();
        let mut quarantined = Quarantined::new(store);
        let mut since_quarantine = 0;
        loop {
            self.writer.check_alive()?;
            let before = quarantined.len();
            let oldest = Oldest {
                pages_max: self.writer.batch_max(),
                below: target,
                unlogged: unlogged_left > 0,
            };
            let n = self.write_oldest(oldest, &mut quarantined)?;
            unlogged_left = unlogged_left.saturating_sub(n);
            since_quarantine += n;
            if n == 0 && quarantined.len() == before {
                if self.writer.checkpoint_lsn() >= target {
                    return Ok(());
                }
                if let Some(why) = quarantined.why.take() {
                    if since_quarantine == 0 {
                        return Err(why);
                    }
                    // A batch may have held all descriptors that there are. They are free again, so
                    // another round may write what is left.
                    (quarantined, since_quarantine) = (Quarantined::new(store), 0);
                    continue;
                }
                // The rest is latched, or in flight elsewhere.
                store.clock.wait();
            }
        }
    }
    /// Writes back all dirty pages of one file and syncs it. The caller holds no latch.
    pub fn flush_file(&self, file: FileId) -> Result<()> {
        debug_assert!(
            holds_no_latch(),
            "I5: a page that another thread has latched is waited for"
        );
        let frames = &self.writer.store.frames;
        let target = self.writer.redo.lsn();
        loop {
            self.writer.check_alive()?;
            let moves = self.writer.store.moves();
            let mut in_flight = false;
            let mut dirty = Vec::new();
            for index in 0..frames.mapped() as u32 {
                let frame = frames.header(index);
                let oldest = frame.oldest();
                if key_id(frame.key()).file != file {
                    continue;
                }
                if oldest != 0 && (oldest <= target || oldest == UNLOGGED) {
                    dirty.push(index);
                } else {
                    in_flight |= frame.in_flight.load(Ordering::Acquire);
                }
            }
            if dirty.is_empty() && !in_flight {
                if self.writer.store.moves() == moves {
                    break;
                }
                continue;
            }
            self.write_or_wait(&dirty)?;
        }
        let written = self.writer.files.get(file)?.file.sync();
        self.writer.poison_if_failed(written)
    }
    /// Writes `dirty` frames in batches. If it could write none, waits a little for other threads.
    fn write_or_wait(&self, dirty: &[u32]) -> Result<()> {
        let mut written = 0;
        for batch in dirty.chunks(self.writer.batch_max()) {
            written += self.writer.write_wanted(batch)?;
        }
        if written == 0 {
            self.writer.store.clock.wait();
        }
        Ok(())
    }
    /// A batch of the `oldest` changes: how many pages. Pages of files that cannot be opened are
    /// `quarantined` then. The caller holds no latch.
    fn write_oldest(&self, oldest: Oldest, quarantined: &mut Quarantined<'_>) -> Result<usize> {
        debug_assert!(holds_no_latch(), "I5: the latch of a busy page is waited for");
        let written = self.writer.write_batch(&[], oldest, quarantined)?;
        let pages = written.pages;
        let skipped = written.skipped.iter().min_by_key(|c| c.popped);
        let lsn = skipped.and_then(|c| c.popped).unwrap_or(0);
        let before = self.busy.swap(lsn, Ordering::Relaxed);
        match skipped {
            Some(busy) if before == lsn => Ok(pages + self.write_busy(busy.frame)?),
            _ => Ok(pages),
        }
    }
    /// Waits for the page's latch and writes it. The caller holds no latch.
    fn write_busy(&self, index: u32) -> Result<usize> {
        let store = &self.writer.store;
        let key = store.frames.header(index).key();
        let Some(pin) = store.table.lock(&store.frames, key).pin() else {
            return Ok(0);
        };
        let page = store.frames.read(pin.index);
        // The next batch meets a page again whose file cannot be opened.
        let Ok(Some(file)) = self.writer.files.find(key_id(key).file) else {
            return Ok(0);
        };
        self.writer.write_latched(page, key, file)
    }
    /// Opens, in turn, each file that has something to be written or synced: an error stops nothing
    /// yet.
    pub fn open_changed_files(&self) -> Result<()> {
        let frames = &self.writer.store.frames;
        let mut files = self.writer.unsynced_files();
        loop {
            let moves = self.writer.store.moves();
            for index in 0..frames.mapped() as u32 {
                let frame = frames.header(index);
                if frame.oldest() != 0 {
                    files.insert(key_id(frame.key()).file);
                }
            }
            if self.writer.store.moves() == moves {
                break;
            }
        }
        let files: BTreeSet<FileId> = files;
        files
            .into_iter()
            .try_for_each(|file| self.writer.files.find(file).map(drop))
    }
    /// Syncs the data files whose pages were written while the log was off. A file that cannot be
    /// opened, and those after it, are left for the next call. No thread adds a file meanwhile.
    pub fn sync_files(&self) -> Result<()> {
        for file in self.writer.unsynced_files() {
            // A file that is not known any more was dropped.
            let open = self.writer.files.find(file)?;
            if let Some(open) = open.filter(|_| !planted(Mutant::LogOnUnsynced)) {
                self.writer.poison_if_failed(open.file.sync())?;
                self.writer.counters.data_fsyncs.inc();
            }
            self.writer.note_synced(file);
        }
        Ok(())
    }
    /// May the pages be given to a load: does the disk show of none of them what a reader could
    /// take for its own? Waits for nothing. The caller holds the file's allocation latch, so that
    /// no thread frees one of them meanwhile.
    pub fn is_past_written(&self, first: PageId, count: u32) -> bool {
        let (dirty, in_flight) = self.with_unwritten_freed_image(first, count);
        dirty.is_empty() && !in_flight
    }
    /// Writes pages until [`Flusher::is_past_written`] is true. The caller holds no latch.
    pub fn write_freed(&self, first: PageId, count: u32) -> Result<()> {
        debug_assert!(
            holds_no_latch(),
            "I5: a page that another thread has latched is waited for"
        );
        loop {
            self.writer.check_alive()?;
            let (dirty, in_flight) = self.with_unwritten_freed_image(first, count);
            if dirty.is_empty() && !in_flight {
                return Ok(());
            }
            self.write_or_wait(&dirty)?;
        }
    }
    /// Frames of the pages whose freed image must still be written. Also: is a copy of one of the
    /// pages on its way?
    fn with_unwritten_freed_image(&self, first: PageId, count: u32) -> (Vec<u32>, bool) {
        let store = &self.writer.store;
        let mut dirty = Vec::new();
        let mut in_flight = false;
        for no in first.no..first.no + count {
            let key = PageId::new(first.file, no).as_u64();
            let shard = store.table.lock(&store.frames, key);
            let Some(index) = shard.find() else { continue };
            let frame = store.frames.header(index);
            // In this order: see `Frame::needs_disk`.
            if frame.oldest() != 0 && frame.must_write_freed_image.load(Ordering::Acquire) {
                dirty.push(index);
            }
            sync_point(SyncPoint::PastAsked);
            in_flight |= frame.in_flight.load(Ordering::Acquire);
        }
        (dirty, in_flight)
    }
    /// How many of the oldest pages the cleaner should write in this round. 0 within a round,
    /// unless writers wait.
    pub fn target(&self) -> usize {
        self.pace.target(&self.writer)
    }
    /// Are frames missing from the free list?
    pub fn is_short(&self) -> bool {
        self.writer.store.clock.deficit() > 0
    }
    /// Pages a second in the background: without pressure, and under it.
    pub fn io_capacity(&self) -> (u32, u32) {
        self.pace.io_capacity()
    }
    /// Raises the maximum, too, if that is lower.
    pub fn set_io_capacity(&self, pages_per_second: u32) {
        self.pace.set_io_capacity(pages_per_second);
    }
    /// Not below the usual capacity.
    pub fn set_io_capacity_max(&self, pages_per_second: u32) {
        self.pace.set_io_capacity_max(pages_per_second);
    }
    /// Holds from the next batch on. Turning it on makes the file if there is none yet
    /// (`Error::Full`).
    pub fn set_doublewrite(&self, on: bool) -> Result<()> {
        self.writer.set_doublewrite(on)
    }
    /// Blocks the page cleaner until there is something to do or the timeout ends.
    pub fn wait_for_work(&self, timeout_ms: u64) {
        self.writer.store.cleaner.wait(timeout_ms);
    }
    pub fn wake_cleaner(&self) {
        self.writer.store.cleaner.wake();
    }
    /// Messages for the error log about files that cannot be opened, each once.
    pub fn take_unopened_news(&self) -> Vec<String> {
        self.writer.take_unopened_news()
    }
}
