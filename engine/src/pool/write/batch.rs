//! One batch of dirty pages on its way to disk: log before page (I1), checked here.
//!
//! 1. Candidates (cold ones, and the oldest changes) are sorted by place. Each is copied under a
//!    try-S latch into the batch's buffer, and claimed (`in_flight`).
//! 2. The copies are sealed, and redo is made durable up to the newest LSN copied.
//! 3. Logged pages that the log cannot make whole are copied to the batch's doublewrite slot, and
//!    the slot is synced.
//! 4. All pages are written in place, neighbours in one write, and the touched files are synced.
//! 5. The claims end.
//!
//! Changes go on meanwhile: they make the page dirty again with a new LSN.
//!
//! Two kinds of pages are written once, not twice. A page of which an image was logged since it was
//! last clean may be torn. While it is in flight no checkpoint passes the image (`dirty_list`), so
//! a recovery finds the image and does not read the page. Most pages that a load appends are such.
//! A page whose changes since it was last clean were plain writes is mended from the log on top of
//! whatever is in place (`recovery::torn`). Of these the slot has a list.
//!
//! Any failed write or sync poisons the pool (I6) and leaves the flight in the dirty list: no
//! checkpoint passes it. A file that cannot be opened is no such failure: its pages stay dirty
//! (`unopened`).
//!
//! Several threads may write batches at once, each with a slot of its own. Waits: for a slot and
//! for I/O; never for a page latch. So a thread that holds page latches may write a batch.
//! Called by: `flush`, `read::take_frame`.
use super::doublewrite::{Doublewrite, RepairSource, PAGES_PER_SLOT};
use super::slots::Slots;
use super::unopened::{Quarantined, UnopenedNews};
use super::written::WrittenVersions;
use crate::base::sync::{Rank, RankedMutex};
use crate::base::{planted, Counters, Error, FileId, Lsn, Mutant, PageId, Result};
use crate::io::files::OpenFile;
use crate::io::{Disk, Files, WriteOp};
use crate::pool::frames::dirty_list::{Candidate, Flight};
use crate::pool::frames::frame::{key_id, PageRead, UNLOGGED};
use crate::pool::frames::store::FrameStore;
use crate::pool::page::{seal, PAGE_SIZE};
use crate::redo::{FlushMode, Redo};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// A page copied into the batch's buffer.
pub(in crate::pool) struct ClaimedPage {
    frame: u32,
    id: PageId,
    file: OpenFile,
    lsn: Lsn,
    /// What makes the page whole again, should its write be torn.
    repair: RepairSource,
}

/// What became of a batch's candidates.
#[derive(Default)]
pub(in crate::pool) struct Claims {
    pub claimed: Vec<ClaimedPage>,
    /// Latched, in flight elsewhere, or clean by now.
    pub skipped: Vec<Candidate>,
    /// Their files cannot be opened.
    pub unopened: Vec<Candidate>,
    /// Why not, of each file that was tried.
    pub why: Vec<(FileId, Error)>,
}

/// What came of a batch.
pub(super) struct BatchResult {
    pub pages: usize,
    pub skipped: Vec<Candidate>,
}

/// Which of the oldest changes a batch takes.
#[derive(Clone, Copy)]
pub(in crate::pool) struct Oldest {
    pub pages_max: usize,
    /// Only changes older than this LSN.
    pub below: Lsn,
    /// Unlogged pages fill up the rest.
    pub unlogged: bool,
}

impl Oldest {
    /// None of them.
    pub const NONE: Oldest = Oldest {
        pages_max: 0,
        below: Lsn::MAX,
        unlogged: false,
    };
}

pub(in crate::pool) struct BatchWriter {
    pub store: FrameStore,
    pub disk: Arc<dyn Disk>,
    pub files: Arc<Files>,
    pub redo: Arc<Redo>,
    pub counters: Arc<Counters>,
    pub written: WrittenVersions,
    slots: Slots,
    doublewrite: RankedMutex<Option<Arc<Doublewrite>>>,
    doublewrite_on: AtomicBool,
    /// Files with pages written while the log was off.
    unsynced: RankedMutex<BTreeSet<FileId>>,
    unopened_news: RankedMutex<UnopenedNews>,
}

impl BatchWriter {
    pub fn new(
        store: FrameStore,
        disk: Arc<dyn Disk>,
        files: Arc<Files>,
        redo: Arc<Redo>,
        counters: Arc<Counters>,
    ) -> BatchWriter {
        let geometry = store.frames.geometry();
        BatchWriter {
            written: WrittenVersions::new(&geometry),
            slots: Slots::new(),
            doublewrite: RankedMutex::new(Rank::Files, None),
            doublewrite_on: AtomicBool::new(false),
            unsynced: RankedMutex::new(Rank::Leaf, BTreeSet::new()),
            unopened_news: RankedMutex::new(Rank::Leaf, UnopenedNews::default()),
            store,
            disk,
            files,
            redo,
            counters,
        }
    }
    /// Pages of one batch, at most. A small pool is not put in flight as a whole.
    pub fn batch_max(&self) -> usize {
        (self.store.frames.len() / 4).clamp(1, PAGES_PER_SLOT)
    }
    /// I6: refuses all further work. The first reason is kept.
    pub fn poison(&self, why: &str) {
        self.redo.poison(why);
        self.store.clock.notify();
    }
    /// I6: the first failed write or sync is the last.
    pub fn poison_if_failed<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.poison(&format!("writing pages failed: {error}"));
        }
        result
    }
    /// `Err(Poisoned)` after [`BatchWriter::poison`].
    #[inline]
    pub fn check_alive(&self) -> Result<()> {
        self.store.poison.check()
    }
    /// A bound: every change below it is durable in place. It is the lesser of the oldest change of
    /// a dirty or in-flight page and the redo LSN at the call's start. `dirty_list` has the proof.
    pub fn checkpoint_lsn(&self) -> Lsn {
        if planted(Mutant::CheckpointAheadOfDirtyPages) {
            return self.redo.lsn();
        }
        self.store.dirty.bound(&self.store.frames, || self.redo.lsn())
    }
    /// Writes those of `frames` that are dirty and not latched exclusively. Returns how many.
    pub fn write_cold(&self, frames: &[u32]) -> Result<usize> {
        let mut quarantined = Quarantined::new(&self.store);
        Ok(self.write_batch(frames, Oldest::NONE, &mut quarantined)?.pages)
    }
    /// The same; an error when one of their files cannot be opened.
    pub fn write_wanted(&self, frames: &[u32]) -> Result<usize> {
        let mut quarantined = Quarantined::new(&self.store);
        let written = self.write_batch(frames, Oldest::NONE, &mut quarantined)?;
        quarantined.why.take().map_or(Ok(written.pages), Err)
    }
    /// One batch: `cold`, and the `oldest` changes. Pages of files that cannot be opened are
    /// `quarantined` then.
    pub(super) fn write_batch(
        &self,
        cold: &[u32],
        oldest: Oldest,
        quarantined: &mut Quarantined<'_>,
    ) -> Result<BatchResult> {
        self.check_alive()?;
        assert!(
            cold.len() + oldest.pages_max <= PAGES_PER_SLOT,
            "a slot has room for the batch"
        );
        self.with_slot(|slot, buffer| {
            let (flight, candidates) = self.begin_flight(cold, oldest);
            let claims = self.claim(candidates, buffer, quarantined);
            self.store.dirty.put_back(&self.store.frames, &claims.skipped);
            quarantined.add_pages(&claims.unopened);
            let pages = self.write_flight(slot, buffer, &claims.claimed, flight)?;
            for (file, why) in claims.why {
                self.note_unopened(&claims.unopened, &why)?;
                quarantined.add_file(file, why);
            }
            Ok(BatchResult {
                pages,
                skipped: claims.skipped,
            })
        })
    }
    /// Writes one page, whose S latch the caller passes, as a batch of its own. Returns the number
    /// of pages written: 0 if another thread has written it.
    pub(super) fn write_latched(&self, page: PageRead<'_>, key: u64, file: OpenFile) -> Result<usize> {
        // Slots are given back by threads that wait for no latch, so waiting for one with the latch
        // held ends.
        self.with_slot(|slot, buffer| {
            let (flight, _) = self.begin_flight(&[page.index()], Oldest::NONE);
            let claimed = self.claim_page(&page, key, file, &mut buffer[..PAGE_SIZE]);
            drop(page);
            self.write_flight(slot, buffer, claimed.as_slice(), flight)
        })
    }
    /// See `DirtyList::begin_flight`.
    pub fn begin_flight(&self, cold: &[u32], oldest: Oldest) -> (Flight, Vec<Candidate>) {
        let Oldest {
            pages_max,
            below,
            unlogged,
        } = oldest;
        let redo_lsn = || self.redo.lsn();
        self.store
            .dirty
            .begin_flight(&self.store.frames, cold, pages_max, below, unlogged, redo_lsn)
    }
    /// Runs `run` with a slot's number and buffer. A panic in it poisons the pool.
    fn with_slot<R>(&self, run: impl FnOnce(usize, &mut [u8]) -> Result<R>) -> Result<R> {
        let poison = || self.poison("writing pages: a bug was caught");
        let result = self.slots.with(&poison, |number, buffer| {
            // The batch that had the slot may have failed while this one waited for it.
            self.check_alive().and_then(|()| run(number, buffer))
        });
        self.store.clock.notify();
        result
    }
    /// Makes the claimed pages durable in place, and ends their claims.
    fn write_flight(&self, slot: usize, buffer: &mut [u8], claimed: &[ClaimedPage], flight: Flight) -> Result<usize> {
        let written = self.write_claimed(slot, buffer, claimed);
        self.poison_if_failed(written)?;
        let logged = claimed.iter().filter(|page| page.file.logged);
        self.written.note(logged.map(|page| (page.id, page.lsn)));
        for page in claimed {
            let frame = self.store.frames.header(page.frame);
            debug_assert!(frame.in_flight.load(Ordering::Relaxed), "a claim ends once");
            frame.in_flight.store(false, Ordering::Release);
        }
        self.store.dirty.end_flight(flight);
        self.counters.buffer_pool_pages_flushed.add(claimed.len() as u64);
        Ok(claimed.len())
    }
    /// Copies the candidates that can be latched into the buffer, in the order of their places,
    /// logged files first.
    pub fn claim(&self, candidates: Vec<Candidate>, buffer: &mut [u8], quarantined: &Quarantined<'_>) -> Claims {
        let frames = &self.store.frames;
        let all = candidates.len();
        let mut sorted: Vec<(u64, Candidate)> = (candidates.into_iter())
            .map(|c| (frames.header(c.frame).key(), c))
            .collect();
        sorted.sort_unstable_by_key(|(key, c)| (*key, c.frame));
        let mut claims = Claims::default();
        let mut known = Vec::with_capacity(sorted.len());
        for same_file in sorted.chunk_by(|a, b| key_id(a.0).file == key_id(b.0).file) {
            let candidates = same_file.iter().map(|(_, c)| *c);
            let file = key_id(same_file[0].0).file;
            if quarantined.has_file(file) {
                claims.unopened.extend(candidates);
                continue;
            }
            match self.files.find(file) {
                Ok(Some(file)) => known.extend(same_file.iter().map(|(key, c)| (*key, *c, file.clone()))),
                // A file that is not known is being dropped: its pages are about to be discarded.
                Ok(None) => claims.skipped.extend(candidates),
                Err(why) => {
                    claims.unopened.extend(candidates);
                    claims.why.push((file, why));
                }
            }
        }
        // Pages that need no copy together, as far as that shows before they are latched. The key
        // is computed once for each: the answers change meanwhile, and a sort whose keys change
        // panics.
        known.sort_by_cached_key(|(_, c, file)| {
            let frame = frames.header(c.frame);
            let needs_copy = !frame.imaged.load(Ordering::Relaxed) && frame.base_lsn.load(Ordering::Relaxed) == 0;
            (!file.logged, !needs_copy)
        });
        for (key, candidate, file) in known {
            let place = &mut buffer[claims.claimed.len() * PAGE_SIZE..][..PAGE_SIZE];
            let page = frames.try_read(candidate.frame);
            match page.and_then(|page| self.claim_page(&page, key, file, place)) {
                Some(page) => claims.claimed.push(page),
                None => claims.skipped.push(candidate),
            }
        }
        debug_assert_eq!(
            claims.claimed.len() + claims.skipped.len() + claims.unopened.len(),
            all,
            "a page that was popped is written, or comes back to the dirty list"
        );
        claims
    }
    /// Under the S latch: copy, claim, clean.
    fn claim_page(&self, page: &PageRead<'_>, key: u64, file: OpenFile, place: &mut [u8]) -> Option<ClaimedPage> {
        let frame = page.frame();
        if frame.key() != key || frame.oldest() == 0 || frame.in_flight.swap(true, Ordering::AcqRel) {
            return None;
        }
        if frame.oldest() == 0 {
            // Another flusher was done with it between our two looks.
            frame.in_flight.store(false, Ordering::Release);
            return None;
        }
        place.copy_from_slice(page);
        self.store.dirty.clear(frame);
        // Release: a thread that finds it false finds `in_flight` true.
        frame.must_write_freed_image.store(false, Ordering::Release);
        debug_assert_eq!(file.logged, page.is_logged(), "a page is logged if its file is");
        let lsn = page.version();
        let imaged = frame
            .imaged
            .fetch_and(planted(Mutant::ImageTrustedForGood), Ordering::Relaxed);
        let base = frame.base_lsn.swap(lsn, Ordering::Relaxed);
        let repair = match (imaged, base) {
            (true, _) => RepairSource::Image,
            (false, 0) => RepairSource::Copy,
            (false, base) => RepairSource::Log { base },
        };
        Some(ClaimedPage {
            frame: page.index(),
            id: key_id(key),
            file,
            lsn,
            repair,
        })
    }
    fn write_claimed(&self, slot: usize, buffer: &mut [u8], claimed: &[ClaimedPage]) -> Result<()> {
        if claimed.is_empty() {
            return Ok(());
        }
        let logged = claimed.partition_point(|p| p.file.logged);
        debug_assert!(
            claimed[logged..].iter().all(|page| !page.file.logged),
            "the pages of logged files come first"
        );
        for page in buffer.chunks_exact_mut(PAGE_SIZE).take(claimed.len()) {
            seal(page);
        }
        // Asked after the copies were made: pages copied since the log is on again get all that is
        // due.
        let log_off = self.redo.is_off();
        if let Some(lsn) = claimed[..logged].iter().map(|p| p.lsn).max().filter(|_| !log_off) {
            if !planted(Mutant::PageBeforeLog) {
                self.redo.flush(lsn, FlushMode::Sync)?;
                assert!(
                    self.redo.durable_lsn() >= lsn || self.redo.is_off(),
                    "I1: no page before its redo is durable"
                );
            }
            if let Some(doublewrite) = self.doublewrite().filter(|_| !planted(Mutant::DoublewriteSkipped)) {
                let sources: Vec<RepairSource> = claimed[..logged].iter().map(|p| p.repair).collect();
                doublewrite.write(slot, buffer, &sources, &self.counters)?;
            }
        }
        let ops = in_place(claimed, buffer);
        debug_assert_eq!(
            ops.iter().map(|op| op.data.len()).sum::<usize>(),
            claimed.len() * PAGE_SIZE,
            "each claimed page is written in place once"
        );
        self.disk.write_many(&ops)?;
        self.counters.data_writes.add(ops.len() as u64);
        self.counters.data_written.add((claimed.len() * PAGE_SIZE) as u64);
        // Unlogged pages are written, too, for eviction must read back what it wrote; that needs no
        // sync. Nor do logged pages while the log is off: turning it on syncs all files.
        if log_off {
            let mut unsynced = self.unsynced.lock();
            unsynced.extend(claimed[..logged].iter().map(|page| page.id.file));
        }
        let logged = if log_off { 0 } else { logged };
        let mut synced = Vec::new();
        for page in &claimed[..logged] {
            if !synced.contains(&page.id.file) && !planted(Mutant::PageSyncSkipped) {
                synced.push(page.id.file);
                page.file.file.sync()?;
                self.counters.data_fsyncs.inc();
            }
        }
        Ok(())
    }
    /// These pages stay dirty, because of `why`. `Err(Poisoned)` if the log has no room left for
    /// what comes after them.
    pub fn note_unopened(&self, unopened: &[Candidate], why: &Error) -> Result<()> {
        let text = format!("{why}; its changes stay in memory and in the redo log until it can be opened");
        let now_us = self.disk.now_us();
        self.unopened_news.lock().note(text, now_us);
        let oldest = (unopened.iter()).map(|c| self.store.frames.header(c.frame).oldest());
        let logged = oldest.filter(|lsn| *lsn != 0 && *lsn != UNLOGGED);
        if logged.min().is_some_and(|lsn| self.redo.is_exhausted_from(lsn)) {
            self.poison(&format!("the redo log is full, and {why}"));
        }
        self.check_alive()
    }
    /// Messages for the error log about files that cannot be opened, each once.
    pub(super) fn take_unopened_news(&self) -> Vec<String> {
        self.unopened_news.lock().take()
    }
    /// Files with pages that were written while the log was off, and not synced.
    pub(super) fn unsynced_files(&self) -> BTreeSet<FileId> {
        self.unsynced.lock().clone()
    }
    pub(super) fn note_synced(&self, file: FileId) {
        self.unsynced.lock().remove(&file);
    }
    /// Holds from the next batch on. Turning it on makes the file if there is none yet
    /// (`Error::Full`).
    pub(super) fn set_doublewrite(&self, on: bool) -> Result<()> {
        let mut open = self.doublewrite.lock();
        if on && open.is_none() {
            *open = Some(Arc::new(Doublewrite::open(&*self.disk)?));
        }
        self.doublewrite_on.store(on, Ordering::Release);
        Ok(())
    }
    fn doublewrite(&self) -> Option<Arc<Doublewrite>> {
        let on = self.doublewrite_on.load(Ordering::Acquire);
        if on {
            self.doublewrite.lock().clone()
        } else {
            None
        }
    }
}

/// Neighbours in file and buffer go in one write.
fn in_place<'a>(claimed: &'a [ClaimedPage], buffer: &'a [u8]) -> Vec<WriteOp<'a>> {
    let mut ops = Vec::new();
    let mut start = 0;
    for end in 1..=claimed.len() {
        let joined = end < claimed.len()
            && claimed[end].id.file == claimed[start].id.file
            && claimed[end].id.no as usize == claimed[start].id.no as usize + (end - start);
        if !joined {
            ops.push(WriteOp {
                file: &*claimed[start].file.file,
                offset: claimed[start].id.no as u64 * PAGE_SIZE as u64,
                data: &buffer[start * PAGE_SIZE..end * PAGE_SIZE],
            });
            start = end;
        }
    }
    ops
}
