//! The pages in memory: frames with the page table, the clock, the dirty list and the absence
//! filters, which change together.
//!
//! Hit: a lock-free guess in the page table, a try-latch, a check of the frame's key under the
//! latch. Only when one of the three fails does a caller ask the table exactly, pin the frame, and
//! wait for its latch. That wait does no harm to the latch order (see `frame` on pins).
//!
//! Latches: page latches, as the names of the methods say. Locks: the page table's, the dirty
//! list's.
//! Called by: every part of the pool above. Knows no file and no log.
use super::absence_filter::AbsenceFilters;
use super::cleaner_signal::CleanerSignal;
use super::clock::Clock;
use super::dirty_list::DirtyList;
use super::frame::{key_id, Frames, PageRead, PageWrite, KEY_NONE, KEY_WITHDRAWN, UNLOGGED};
use super::geometry::PoolGeometry;
use super::page_table::PageTable;
use crate::base::sync::holds_no_latch;
use crate::base::{Counters, FileId, Lsn, PageId, Poison, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// Where a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// Not in the pool: a change would read it.
    Absent,
    /// As on disk: a change would have it written.
    Clean,
    /// It will be written anyway.
    Dirty,
}

/// Pages in the pool, counted by their use.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PoolHeat {
    /// Pages in the pool.
    pub pages: u64,
    /// Of these, those that the clock hand would evict at its next pass (dirty ones after a write).
    pub cold: u64,
    /// Of these, those with a copy on its way to disk.
    pub in_flight: u64,
}

pub(in crate::pool) struct FrameStore {
    pub frames: Frames,
    pub table: PageTable,
    pub clock: Clock,
    pub dirty: DirtyList,
    pub absence_filters: AbsenceFilters,
    pub cleaner: CleanerSignal,
    /// Pages that moved to another frame so far (W6).
    pub(super) moved: AtomicU64,
    pub(super) counters: Arc<Counters>,
    /// The redo log's: a log that cannot be written ends the pool's work, too (I6).
    pub poison: Arc<Poison>,
}

impl FrameStore {
    /// `Error::Full` if there is not that much memory.
    pub fn new(geometry: PoolGeometry, counters: Arc<Counters>, poison: Arc<Poison>) -> Result<FrameStore> {
        let frames = Frames::new(geometry)?;
        let store = FrameStore {
            table: PageTable::new(&geometry),
            clock: Clock::new(),
            moved: AtomicU64::new(0),
            dirty: DirtyList::new(),
            absence_filters: AbsenceFilters::new(&geometry),
            cleaner: CleanerSignal::new(),
            counters,
            poison,
            frames,
        };
        store.free_new(0);
        Ok(store)
    }
    /// Pages that moved to another frame so far. A walk over all frames that may not miss a page
    /// compares it before and after (W6).
    pub fn moves(&self) -> u64 {
        self.moved.load(Ordering::SeqCst)
    }
    pub fn is_resident(&self, id: PageId) -> bool {
        let key = id.as_u64();
        self.table.guess(&self.frames, key).is_some() || self.table.lock(&self.frames, key).find().is_some()
    }
    /// What a change of the page would cost now. A guess, without a lock.
    pub fn presence(&self, id: PageId) -> Presence {
        match self.table.guess(&self.frames, id.as_u64()) {
            None => Presence::Absent,
            Some(frame) if self.frames.header(frame).oldest() == 0 => Presence::Clean,
            Some(_) => Presence::Dirty,
        }
    }
    /// The S-latched page, if it is found without waiting.
    #[inline]
    pub fn try_read_hit(&self, key: u64) -> Option<PageRead<'_>> {
        let page = self.try_read_again(key)?;
        page.frame().touch();
        Some(page)
    }
    /// The same. It counts as no new use of the page.
    #[inline]
    pub fn try_read_again(&self, key: u64) -> Option<PageRead<'_>> {
        let index = self.table.guess(&self.frames, key)?;
        let page = self.frames.try_read(index)?;
        (page.frame().key() == key).then_some(page)
    }
    /// The S-latched page, if it is resident. Waits for the latch.
    pub fn wait_resident(&self, key: u64) -> Option<PageRead<'_>> {
        loop {
            let pin = self.table.lock(&self.frames, key).pin()?;
            let page = self.frames.read(pin.index);
            // No other page takes a pinned frame. But a failed read or a dropped file may have
            // emptied it, or its page has moved (W7).
            if page.frame().key() == key {
                page.frame().touch();
                return Some(page);
            }
        }
    }
    /// The X-latched page, if it is found without waiting.
    #[inline]
    pub fn try_write_hit(&self, key: u64) -> Option<PageWrite<'_>> {
        let index = self.table.guess(&self.frames, key)?;
        let page = self.frames.try_write(index)?;
        if page.key() != key {
            return None;
        }
        page.frame().touch();
        Some(page)
    }
    /// The X-latched page, if it is resident. Waits for the latch.
    pub fn wait_resident_write(&self, key: u64) -> Option<PageWrite<'_>> {
        loop {
            let pin = self.table.lock(&self.frames, key).pin()?;
            let page = self.frames.write(pin.index);
            if page.key() == key {
                page.frame().touch();
                return Some(page);
            }
        }
    }
    /// Enters an empty X-latched frame into the page table. None: the page is there already, and
    /// the frame is free again. `logged`: does the page's file make redo records?
    pub fn publish<'p>(&'p self, page: PageWrite<'p>, id: PageId, logged: bool) -> Option<PageWrite<'p>> {
        let key = id.as_u64();
        debug_assert_eq!(page.key(), KEY_NONE, "a page gets an empty frame");
        debug_assert!(key < KEY_WITHDRAWN, "no page has the key of a frame without one");
        debug_assert!(!page.frame().needs_disk(), "an empty frame has nothing to write");
        debug_assert!(
            (page.index() as usize) < self.frames.mapped(),
            "W1: a frame with a page is mapped"
        );
        let shard = self.table.lock(&self.frames, key);
        if shard.find().is_some() {
            drop(shard);
            self.give_back(page);
            return None;
        }
        page.set_logged(logged);
        page.frame().imaged.store(false, Ordering::Relaxed);
        page.frame().must_write_freed_image.store(false, Ordering::Relaxed);
        page.frame().base_lsn.store(0, Ordering::Relaxed);
        page.set_key(key);
        shard.insert(page.index());
        self.absence_filters.forget(key);
        Some(page)
    }
    /// Forgets a page that could not be read.
    pub fn unpublish(&self, page: PageWrite<'_>) {
        self.unlink(&page);
        self.give_back(page);
    }
    /// Takes an X-latched, clean frame out of the page table.
    fn unlink(&self, page: &PageWrite<'_>) {
        debug_assert_eq!(page.frame().oldest(), 0, "a page that is forgotten counts as clean");
        self.table.lock(&self.frames, page.key()).remove(page.index());
        page.set_key(KEY_NONE);
    }
    /// Forgets a page, changes and all, that is written past the pool now or was so before. On
    /// return no copy of it is on its way to disk. No other thread uses the page. The caller holds
    /// no latch.
    pub fn forget(&self, id: PageId) {
        debug_assert!(holds_no_latch(), "I5: the latch of a single page is waited for");
        let key = id.as_u64();
        let (pin, page) = loop {
            let shard = self.table.lock(&self.frames, key);
            self.absence_filters.forget(key);
            let pin = shard.pin();
            drop(shard);
            let Some(pin) = pin else { return };
            let page = self.frames.write(pin.index);
            if page.key() == key {
                break (pin, page);
            }
            // It has moved, or left (W7).
        };
        while page.frame().in_flight.load(Ordering::Acquire) && !self.poison.is_set() {
            // Its flusher waits for no latch.
            self.clock.wait();
        }
        drop(pin);
        self.discard(page);
    }
    /// Forgets the X-latched page, changes and all.
    fn discard(&self, page: PageWrite<'_>) {
        self.dirty.clear(page.frame());
        self.unlink(&page);
        self.give_back(page);
    }
    /// Forgets all pages of a file without writing them. No thread but a reader ahead pins or
    /// latches one, and no thread asks for one any more.
    pub fn discard_file(&self, file: FileId) {
        loop {
            let moves = self.moves();
            self.discard_pages_of(file);
            if self.moves() == moves {
                break;
            }
        }
        self.absence_filters.forget_file(file);
    }
    fn discard_pages_of(&self, file: FileId) {
        for index in 0..self.frames.mapped() as u32 {
            if key_id(self.frames.header(index).key()).file != file {
                continue;
            }
            // The frame may hold another page by now. The caller holds no latch, so waiting for
            // that page's latch is harmless.
            let page = self.frames.write(index);
            if key_id(page.key()).file == file {
                self.discard(page);
            }
        }
    }
    /// The resident pages of logged files, each with its references. Taken without latches, so it
    /// is a guess.
    pub fn list_pages(&self) -> Vec<(PageId, u8)> {
        let headers = (0..self.frames.mapped() as u32).map(|index| self.frames.header(index));
        let with_page = headers.filter(|frame| frame.key() < KEY_WITHDRAWN && frame.is_logged());
        with_page.map(|frame| (key_id(frame.key()), frame.refs())).collect()
    }
    pub fn heat(&self) -> PoolHeat {
        let mut heat = PoolHeat::default();
        for index in 0..self.frames.mapped() as u32 {
            let frame = self.frames.header(index);
            if frame.key() < KEY_WITHDRAWN {
                heat.pages += 1;
                heat.cold += (frame.refs() == 0) as u64;
                heat.in_flight += frame.in_flight.load(Ordering::Relaxed) as u64;
            }
        }
        heat
    }
    /// The frames enter the dirty list with `lsn()`, read under its lock, as the lower bound of
    /// their change.
    pub fn mark_dirty<'a, 'p: 'a>(&self, pages: impl Iterator<Item = &'a PageWrite<'p>>, lsn: impl FnOnce() -> Lsn) {
        let mut list = self.dirty.lock();
        let lsn = lsn();
        for page in pages {
            let bound = if page.is_logged() { lsn } else { UNLOGGED };
            list.mark(&self.frames, page.index(), bound);
        }
    }
    /// Dirty frames as a share of all.
    pub fn dirty_share(&self) -> f64 {
        self.dirty.count() as f64 / self.frames.len() as f64
    }
}
