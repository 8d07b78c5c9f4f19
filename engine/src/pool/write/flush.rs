//! Write-back: batches of dirty pages through the doublewrite file, log before page (I1) checked here, once.
//!
//! A batch: candidates (cold ones first, then the oldest changes) sorted by place; each copied under a try-S latch into the
//! batch's buffer and claimed (`in_flight`), sealed; redo made durable up to the newest LSN copied; the logged pages
//! written to the batch's doublewrite slot and synced, as far as the log cannot make them whole (see below); all written in place, neighbours in one write; the touched files
//! synced; then the claims end. Changes go on meanwhile: they make the page dirty again with a new LSN.
//!
//! Several threads may flush at once (cleaner, threads in need of a frame), each with a slot of its own. Waits: for a
//! slot and for I/O; never for a page latch, so a thread that holds page latches may flush. One exception: a page so busy
//! that its latch could not be had twice in a row, and oldest of all, would hold the checkpoint back for ever. The cleaner,
//! which holds nothing, waits for its latch *before* it takes a slot, and writes that page alone.
//! A page of which an image was logged since it was last clean may be torn: while it is in flight no checkpoint passes the image
//! (`dirty`), so a recovery finds it and does not read the page. So what a load appends is written once, not twice. So is a page whose changes
//! since then were plain writes, which can be done again on top of whatever is in place: of these the slot has a list (`mend`).
//! Any failed write or sync poisons the pool (I6) and leaves the flight in the dirty list: no checkpoint passes it.
//! A file that cannot be opened (too many open files, rights) is no such failure: its pages stay dirty (`unopened`).
use crate::base::sync::{Rank, RankedMutex};
use crate::base::{planted, Error, FileId, Lsn, Mutant, PageId, Result};
use crate::io::files::OpenFile;
use crate::io::{AlignedBuf, WriteOp};
use crate::pool::frames::dirty_list::{Candidate, Flight};
use crate::pool::frames::frame::{key_id, PageRead};
use crate::pool::page::{seal, PAGE_SIZE};
use crate::pool::write::doublewrite::{Doublewrite, Guard, PAGES_PER_SLOT, SLOTS};
use crate::pool::write::unopened::{Aside, UnopenedNews};
use crate::pool::Pool;
use crate::redo::FlushMode;
use parking_lot::Condvar;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

/// One batch's place in the doublewrite file, and its buffer.
struct Slot {
    number: usize,
    /// Made at the first use.
    buffer: Option<AlignedBuf>,
}

pub(in crate::pool) struct Flusher {
    slots: RankedMutex<Vec<Slot>>,
    slot_freed: Condvar,
    doublewrite: RankedMutex<Option<Arc<Doublewrite>>>,
    doublewrite_on: AtomicBool,
    /// Pages of one batch, at most.
    pub batch_max: usize,
    /// First change of the oldest page that the last batch could not latch; 0 = none.
    busy: AtomicU64,
    /// Files with pages written while the log was off.
    unsynced: RankedMutex<BTreeSet<FileId>>,
    pub unopened_news: RankedMutex<UnopenedNews>,
}

impl Flusher {
    pub fn new(frames: usize) -> Flusher {
        let slot = |number| Slot { number, buffer: None };
        Flusher {
            slots: RankedMutex::new(Rank::Leaf, (0..SLOTS).map(slot).collect()),
            slot_freed: Condvar::new(),
            doublewrite: RankedMutex::new(Rank::Files, None),
            doublewrite_on: AtomicBool::new(false),
            // A small pool is not put in flight as a whole.
            batch_max: (frames / 4).clamp(1, PAGES_PER_SLOT),
            busy: AtomicU64::new(0),
            unsynced: RankedMutex::new(Rank::Leaf, BTreeSet::new()),
            unopened_news: RankedMutex::new(Rank::Leaf, UnopenedNews::default()),
        }
    }
    fn take_slot(&self) -> Slot {
        let mut slots = self.slots.lock();
        loop {
            if let Some(slot) = slots.pop() {
                return slot;
            }
            self.slot_freed.wait(slots.raw());
        }
    }
    fn put_slot(&self, slot: Slot) {
        self.slots.lock().push(slot);
        self.slot_freed.notify_one();
    }
}

/// A slot in use. A panic in its batch poisons the pool before others get the slot: the copies in it may be the only whole ones.
struct SlotInUse<'p> {
    pool: &'p Pool,
    slot: Option<Slot>,
    /// The batch has returned.
    is_done: bool,
}

impl Drop for SlotInUse<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.pool.poison("writing pages: a bug was caught");
        }
        if let Some(slot) = self.slot.take() {
            self.pool.flusher.put_slot(slot);
        }
        self.pool.clock.notify();
    }
}

/// A page copied into the batch's buffer.
pub(in crate::pool) struct Claimed {
    frame: u32,
    id: PageId,
    file: OpenFile,
    lsn: Lsn,
    /// What makes it whole again, should it be torn.
    guard: Guard,
}

/// What a batch could get of its candidates.
#[derive(Default)]
pub(in crate::pool) struct Taken {
    pub claimed: Vec<Claimed>,
    /// Latched, in flight elsewhere, or clean by now.
    pub skipped: Vec<Candidate>,
    /// Their files cannot be opened.
    pub unopened: Vec<Candidate>,
    /// Why not, of each file that was tried.
    pub why: Vec<(FileId, Error)>,
}

/// What came of a batch.
struct Written {
    pages: usize,
    skipped: Vec<Candidate>,
}

impl Pool {
    /// One bounded piece of the page cleaner's work (I7): fills the free list, for which it may have to write a batch of cold pages;
    /// then writes the oldest changes, until it has written `pages_max`. Returns how many it wrote.
    pub fn flush_step(&self, pages_max: usize) -> Result<usize> {
        self.check_alive()?;
        let batch_max = self.flusher.batch_max;
        let mut written = 0;
        let cold = self.refill_free(batch_max);
        if !cold.is_empty() {
            written += self.write_cold(&cold)?;
            self.free_cold(&cold);
        }
        let mut aside = Aside::new(self);
        while written < pages_max {
            let unlogged = self.dirty_share() > 0.75;
            let batch = (pages_max - written).min(batch_max);
            let aside_before = aside.len();
            let n = self.write_oldest(batch, Lsn::MAX, unlogged, &mut aside)?;
            if n == 0 && aside.len() == aside_before {
                break;
            }
            written += n;
        }
        Ok(written)
    }
    /// Writes everything dirty at the time of the call. When a file cannot be opened: all else that is not latched right then, and that error.
    pub fn flush_all(&self) -> Result<()> {
        let target = self.redo.lsn();
        let mut unlogged_left = self.frames.len();
        let mut aside = Aside::new(self);
        let mut since_aside = 0;
        loop {
            self.check_alive()?;
            let aside_before = aside.len();
            let n = self.write_oldest(self.flusher.batch_max, target, unlogged_left > 0, &mut aside)?;
            unlogged_left = unlogged_left.saturating_sub(n);
            since_aside += n;
            if n == 0 && aside.len() == aside_before {
                if self.checkpoint_lsn() >= target {
                    return Ok(());
                }
                if let Some(why) = aside.why.take() {
                    if since_aside == 0 {
                        return Err(why);
                    }
                    // A batch may hold all descriptors that there are: they are free again, so another round may write what is left.
                    (aside, since_aside) = (Aside::new(self), 0);
                    continue;
                }
                // The rest is latched, or in flight elsewhere.
                self.clock.wait();
            }
        }
    }
    /// Writes back all dirty pages of one file and syncs it. The caller holds no latch.
    pub fn flush_file(&self, file: FileId) -> Result<()> {
        let target = self.redo.lsn();
        loop {
            self.check_alive()?;
            let mut in_flight = false;
            let mut dirty = Vec::new();
            for index in 0..self.frames.len() as u32 {
                let frame = self.frames.header(index);
                let oldest = frame.oldest();
                if key_id(frame.key()).file != file {
                    continue;
                }
                if oldest != 0 && (oldest <= target || !self.is_logged(index)) {
                    dirty.push(index);
                } else {
                    in_flight |= frame.in_flight.load(Ordering::Acquire);
                }
            }
            if dirty.is_empty() && !in_flight {
                break;
            }
            let mut written = 0;
            for batch in dirty.chunks(self.flusher.batch_max) {
                written += self.write_wanted(batch)?;
            }
            if written == 0 {
                self.clock.wait();
            }
        }
        self.synced(self.files.get(file)?.file.sync())
    }
    /// Opens, in turn, each file that has something to be written or synced: an error stops nothing yet.
    pub fn open_changed_files(&self) -> Result<()> {
        let mut files: BTreeSet<FileId> = self.flusher.unsynced.lock().iter().copied().collect();
        for index in 0..self.frames.len() as u32 {
            let frame = self.frames.header(index);
            if frame.oldest() != 0 {
                files.insert(key_id(frame.key()).file);
            }
        }
        files.into_iter().try_for_each(|file| self.files.find(file).map(drop))
    }
    /// Syncs the data files whose pages were written while the log was off. One that cannot be opened, and those behind it, are left for the
    /// next call. Nobody adds one meanwhile.
    pub fn sync_files(&self) -> Result<()> {
        let files = self.flusher.unsynced.lock().clone();
        for file in files {
            // One that is not known any more was dropped.
            if let Some(open) = self.files.find(file)?.filter(|_| !planted(Mutant::LogOnUnsynced)) {
                self.synced(open.file.sync())?;
                self.counters.data_fsyncs.inc();
            }
            self.flusher.unsynced.lock().remove(&file);
        }
        Ok(())
    }
    fn is_logged(&self, index: u32) -> bool {
        self.frames.header(index).oldest() != crate::pool::frames::frame::UNLOGGED
    }
    /// Writes those of `frames` that are dirty and not latched exclusively.
    pub(in crate::pool) fn write_cold(&self, frames: &[u32]) -> Result<usize> {
        Ok(self
            .write_batch(frames, 0, Lsn::MAX, false, &mut Aside::new(self))?
            .pages)
    }
    /// Same; an error when one of their files cannot be opened.
    pub(in crate::pool) fn write_wanted(&self, frames: &[u32]) -> Result<usize> {
        let mut aside = Aside::new(self);
        let written = self.write_batch(frames, 0, Lsn::MAX, false, &mut aside)?;
        aside.why.take().map_or(Ok(written.pages), Err)
    }
    /// A batch of the oldest changes older than `below`: how many pages. Those of files that cannot be opened are `aside` then. The
    /// caller holds no latch.
    fn write_oldest(&self, pages_max: usize, below: Lsn, unlogged: bool, aside: &mut Aside<'_>) -> Result<usize> {
        let written = self.write_batch(&[], pages_max, below, unlogged, aside)?;
        let pages = written.pages;
        let oldest = written.skipped.iter().min_by_key(|c| c.popped);
        let lsn = oldest.and_then(|c| c.popped).unwrap_or(0);
        let before = self.flusher.busy.swap(lsn, Ordering::Relaxed);
        match oldest {
            Some(busy) if before == lsn => Ok(pages + self.write_busy(busy.frame)?),
            _ => Ok(pages),
        }
    }
    /// One batch: `cold`, and up to `oldest_max` of the oldest changes older than `below`.
    fn write_batch(
        &self,
        cold: &[u32],
        oldest_max: usize,
        below: Lsn,
        unlogged: bool,
        aside: &mut Aside<'_>,
    ) -> Result<Written> {
        self.check_alive()?;
        assert!(cold.len() + oldest_max <= PAGES_PER_SLOT);
        self.with_slot(|slot, buffer| {
            let (flight, candidates) = self.begin_flight(cold, oldest_max, below, unlogged);
            let taken = self.claim(candidates, buffer, aside);
            self.dirty.put_back(&self.frames, &taken.skipped);
            aside.add_pages(&taken.unopened);
            let pages = self.fly(slot, buffer, &taken.claimed, flight)?;
            for (file, why) in taken.why {
                self.note_unopened(&taken.unopened, &why)?;
                aside.add_file(file, why);
            }
            Ok(Written {
                pages,
                skipped: taken.skipped,
            })
        })
    }
    /// Waits for the page's latch and writes it. The caller holds no latch.
    fn write_busy(&self, index: u32) -> Result<usize> {
        let key = self.frames.header(index).key();
        let Some(pin) = self.table.lock(&self.frames, key).pin() else {
            return Ok(0);
        };
        let page = self.frames.read(pin.index);
        // One that cannot be opened is met again by the next batch.
        let Ok(Some(file)) = self.files.find(key_id(key).file) else {
            return Ok(0);
        };
        // Slots are given back by threads that wait for no latch, so waiting for one with the latch held ends.
        self.with_slot(|slot, buffer| {
            let (flight, _) = self.begin_flight(&[page.index()], 0, Lsn::MAX, false);
            let claimed = self.claim_page(&page, key, file, &mut buffer[..PAGE_SIZE]);
            drop(page);
            self.fly(slot, buffer, claimed.as_slice(), flight)
        })
    }
    /// See [`crate::pool::frames::dirty_list::DirtyList::begin_flight`].
    pub(in crate::pool) fn begin_flight(
        &self,
        cold: &[u32],
        pages_max: usize,
        below: Lsn,
        unlogged: bool,
    ) -> (Flight, Vec<Candidate>) {
        let redo_lsn = || self.redo.lsn();
        self.dirty
            .begin_flight(&self.frames, cold, pages_max, below, unlogged, redo_lsn)
    }
    fn with_slot<R>(&self, run: impl FnOnce(usize, &mut [u8]) -> Result<R>) -> Result<R> {
        let mut slot = self.flusher.take_slot();
        let number = slot.number;
        let mut buffer = slot
            .buffer
            .take()
            .unwrap_or_else(|| AlignedBuf::new(PAGES_PER_SLOT * PAGE_SIZE));
        let mut in_use = SlotInUse {
            pool: self,
            slot: Some(slot),
            is_done: false,
        };
        // The batch that had the slot may have failed while this one waited for it.
        let result = self.check_alive().and_then(|()| run(number, &mut buffer));
        in_use.is_done = true;
        if let Some(slot) = &mut in_use.slot {
            slot.buffer = Some(buffer);
        }
        result
    }
    /// Makes the claimed pages durable in place, and ends their claims.
    fn fly(&self, slot: usize, buffer: &mut [u8], claimed: &[Claimed], flight: Flight) -> Result<usize> {
        let written = self.write_claimed(slot, buffer, claimed);
        self.synced(written)?;
        let logged = claimed.iter().filter(|page| page.file.logged);
        self.written.note(logged.map(|page| (page.id, page.lsn)));
        for page in claimed {
            let frame = self.frames.header(page.frame);
            frame.in_flight.store(false, Ordering::Release);
        }
        self.dirty.end_flight(flight);
        self.counters.buffer_pool_pages_flushed.add(claimed.len() as u64);
        Ok(claimed.len())
    }
    /// Copies the candidates that can be had into the buffer, in the order of their places, logged files first.
    pub(in crate::pool) fn claim(&self, candidates: Vec<Candidate>, buffer: &mut [u8], aside: &Aside<'_>) -> Taken {
        let mut sorted: Vec<(u64, Candidate)> = candidates
            .into_iter()
            .map(|c| (self.frames.header(c.frame).key(), c))
            .collect();
        sorted.sort_unstable_by_key(|(key, c)| (*key, c.frame));
        let mut taken = Taken::default();
        let mut known = Vec::with_capacity(sorted.len());
        for same_file in sorted.chunk_by(|a, b| key_id(a.0).file == key_id(b.0).file) {
            let candidates = same_file.iter().map(|(_, c)| *c);
            let file = key_id(same_file[0].0).file;
            if aside.has_file(file) {
                taken.unopened.extend(candidates);
                continue;
            }
            match self.files.find(file) {
                Ok(Some(file)) => known.extend(same_file.iter().map(|(key, c)| (*key, *c, file.clone()))),
                // A file that is not known is being dropped: its pages are about to be discarded.
                Ok(None) => taken.skipped.extend(candidates),
                Err(why) => {
                    taken.unopened.extend(candidates);
                    taken.why.push((file, why));
                }
            }
        }
        // Those that need no copy together, as far as one can tell before they are latched. Asked once of each: the answers change
        // meanwhile, and a sort whose keys do so panics.
        known.sort_by_cached_key(|(_, c, file)| {
            let frame = self.frames.header(c.frame);
            let needs_copy = !frame.imaged.load(Ordering::Relaxed) && frame.base_lsn.load(Ordering::Relaxed) == 0;
            (!file.logged, !needs_copy)
        });
        for (key, candidate, file) in known {
            let place = &mut buffer[taken.claimed.len() * PAGE_SIZE..][..PAGE_SIZE];
            let page = self.frames.try_read(candidate.frame);
            match page.and_then(|page| self.claim_page(&page, key, file, place)) {
                Some(page) => taken.claimed.push(page),
                None => taken.skipped.push(candidate),
            }
        }
        taken
    }
    /// Under the S latch: copy, claim, clean.
    fn claim_page(&self, page: &PageRead<'_>, key: u64, file: OpenFile, place: &mut [u8]) -> Option<Claimed> {
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
        self.dirty.clear(frame);
        // Release: whoever finds it false finds `in_flight` true.
        frame.past_on_disk.store(false, Ordering::Release);
        debug_assert_eq!(file.logged, page.is_logged());
        let lsn = page.version();
        let imaged = frame
            .imaged
            .fetch_and(planted(Mutant::ImageTrustedForGood), Ordering::Relaxed);
        let base = frame.base_lsn.swap(lsn, Ordering::Relaxed);
        let guard = match (imaged, base) {
            (true, _) => Guard::Image,
            (false, 0) => Guard::Copy,
            (false, base) => Guard::Log { base },
        };
        Some(Claimed {
            frame: page.index(),
            id: key_id(key),
            file,
            lsn,
            guard,
        })
    }
    fn write_claimed(&self, slot: usize, buffer: &mut [u8], claimed: &[Claimed]) -> Result<()> {
        if claimed.is_empty() {
            return Ok(());
        }
        let logged = claimed.partition_point(|p| p.file.logged);
        for page in buffer.chunks_exact_mut(PAGE_SIZE).take(claimed.len()) {
            seal(page);
        }
        // Asked after the copies were made: what was copied since the log is on again gets all that is due.
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
                let guards: Vec<Guard> = claimed[..logged].iter().map(|p| p.guard).collect();
                doublewrite.write(slot, buffer, &guards, &self.counters)?;
            }
        }
        let ops = in_place(claimed, buffer);
        self.disk.write_many(&ops)?;
        self.counters.data_writes.add(ops.len() as u64);
        self.counters.data_written.add((claimed.len() * PAGE_SIZE) as u64);
        // Unlogged pages too: eviction must read back what it wrote, a sync is not needed for that. Nor while the
        // log is off: turning it on syncs all files.
        if log_off {
            let mut unsynced = self.flusher.unsynced.lock();
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
    /// From the next batch on. Turning it on makes the file if there is none yet (`Error::Full`).
    pub fn set_doublewrite(&self, on: bool) -> Result<()> {
        let mut open = self.flusher.doublewrite.lock();
        if on && open.is_none() {
            *open = Some(Arc::new(Doublewrite::open(&*self.disk)?));
        }
        self.flusher.doublewrite_on.store(on, Ordering::Release);
        Ok(())
    }
    fn doublewrite(&self) -> Option<Arc<Doublewrite>> {
        let on = self.flusher.doublewrite_on.load(Ordering::Acquire);
        if on {
            self.flusher.doublewrite.lock().clone()
        } else {
            None
        }
    }
    /// I6: the first failed write or sync is the last.
    pub(in crate::pool) fn synced<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.poison(&format!("writing pages failed: {error}"));
        }
        result
    }
}

/// Neighbours in file and buffer go in one write.
fn in_place<'a>(claimed: &'a [Claimed], buffer: &'a [u8]) -> Vec<WriteOp<'a>> {
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
