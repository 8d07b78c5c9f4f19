//! Getting a page: the hit path, waiting for a latch, loading from disk.
//!
//! Hit: a lock-free guess in the page table, a try-latch, a look at the frame's key under the latch. Only when one of the
//! three fails does the slow path ask the table exactly, pin the frame, and wait for its latch without harm to the latch
//! order (see `frame` on pins).
//!
//! Miss: take a frame (X-latched, empty), publish it under the page's number, read, verify, and hand it on. Others who want
//! the page meanwhile wait for the X latch. When the read fails the page is unpublished; those who waited look again,
//! find nothing and meet the same error themselves.
use crate::base::{Error, Lsn, PageId, Result};
use crate::io::files::OpenFile;
use crate::io::File;
use crate::pool::frames::frame::{PageRead, PageWrite, KEY_NONE};
use crate::pool::page::{self, PAGE_SIZE};
use crate::pool::{CheckBody, Pool};
use std::sync::atomic::Ordering;

/// How a miss fills the frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fill {
    Read,
    /// The caller overwrites all of it.
    Nothing,
}

/// Where a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// Not in the pool: it would be read.
    Absent,
    /// As on disk: it would be written.
    Clean,
    /// It will be written anyway.
    Dirty,
}

impl Pool {
    /// Pinned and S-latched page; read from disk and verified (checksum, file, page number) when absent.
    pub fn read(&self, id: PageId) -> Result<PageRead<'_>> {
        self.requests.inc();
        match self.try_read_hit(id.as_u64()) {
            Some(page) if !self.is_poisoned() => Ok(page),
            _ => self.read_slow(id),
        }
    }
    /// Same, only if it is resident (no I/O).
    pub fn read_resident(&self, id: PageId) -> Option<PageRead<'_>> {
        self.requests.inc();
        if let Some(page) = self.try_read_hit(id.as_u64()) {
            return Some(page);
        }
        self.wait_resident(id.as_u64())
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
    #[inline]
    fn try_read_hit(&self, key: u64) -> Option<PageRead<'_>> {
        let index = self.table.guess(&self.frames, key)?;
        let page = self.frames.try_read(index)?;
        if page.frame().key() != key {
            return None;
        }
        page.frame().touch();
        Some(page)
    }
    #[cold]
    fn read_slow(&self, id: PageId) -> Result<PageRead<'_>> {
        self.check_alive()?;
        loop {
            if let Some(page) = self.wait_resident(id.as_u64()) {
                return Ok(page);
            }
            if let Some(page) = self.load(id, Fill::Read)? {
                return Ok(page.downgrade());
            }
        }
    }
    /// Waits for the latch if the page is resident.
    fn wait_resident(&self, key: u64) -> Option<PageRead<'_>> {
        loop {
            let pin = self.table.lock(&self.frames, key).pin()?;
            let page = self.frames.read(pin.index);
            // Pinned frames do not change hands, but a failed read or a dropped file may have emptied it.
            if page.frame().key() == key {
                page.frame().touch();
                return Some(page);
            }
        }
    }
    /// X-latched page, for an Mtr.
    pub(in crate::pool) fn fetch_write(&self, id: PageId) -> Result<PageWrite<'_>> {
        Ok(self.fetch_exclusive(id, Fill::Read)?.0)
    }
    /// X-latched page whose content is going to be overwritten: not read from disk. True if it was resident.
    pub(in crate::pool) fn fetch_new(&self, id: PageId) -> Result<(PageWrite<'_>, bool)> {
        self.fetch_exclusive(id, Fill::Nothing)
    }
    fn fetch_exclusive(&self, id: PageId, fill: Fill) -> Result<(PageWrite<'_>, bool)> {
        self.check_alive()?;
        self.requests.inc();
        let key = id.as_u64();
        if let Some(page) = self.try_write_hit(key) {
            return Ok((page, true));
        }
        loop {
            if let Some(page) = self.wait_resident_write(key) {
                return Ok((page, true));
            }
            if let Some(page) = self.load(id, fill)? {
                return Ok((page, false));
            }
        }
    }
    #[inline]
    fn try_write_hit(&self, key: u64) -> Option<PageWrite<'_>> {
        let index = self.table.guess(&self.frames, key)?;
        let page = self.frames.try_write(index)?;
        if page.key() != key {
            return None;
        }
        page.frame().touch();
        Some(page)
    }
    fn wait_resident_write(&self, key: u64) -> Option<PageWrite<'_>> {
        loop {
            let pin = self.table.lock(&self.frames, key).pin()?;
            let page = self.frames.write(pin.index);
            if page.key() == key {
                page.frame().touch();
                return Some(page);
            }
        }
    }
    /// None: the pool does not have the page, whatever is on disk. Waits for the latch.
    pub(in crate::pool) fn resident_write(&self, id: PageId) -> Result<Option<PageWrite<'_>>> {
        self.check_alive()?;
        self.requests.inc();
        let key = id.as_u64();
        Ok(self.try_write_hit(key).or_else(|| self.wait_resident_write(key)))
    }
    /// The same without waiting. None also if somebody has the latch just now (or may have).
    pub(in crate::pool) fn try_resident_write(&self, id: PageId) -> Result<Option<PageWrite<'_>>> {
        self.check_alive()?;
        self.requests.inc();
        let key = id.as_u64();
        let pin = self.table.lock(&self.frames, key).pin();
        Ok(pin.and_then(|pin| self.frames.try_write(pin.index).filter(|page| page.key() == key)))
    }
    /// None: somebody has the latch just now (or may have).
    pub(in crate::pool) fn try_fetch_write(&self, id: PageId) -> Result<Option<PageWrite<'_>>> {
        self.check_alive()?;
        self.requests.inc();
        let key = id.as_u64();
        if let Some(page) = self.try_write_hit(key) {
            return Ok(Some(page));
        }
        let pin = self.table.lock(&self.frames, key).pin();
        match pin {
            Some(pin) => Ok(self.frames.try_write(pin.index).filter(|page| page.key() == key)),
            None => self.load(id, Fill::Read),
        }
    }
    /// Brings an absent page in; None if somebody else was faster.
    #[cold]
    fn load(&self, id: PageId, fill: Fill) -> Result<Option<PageWrite<'_>>> {
        let file = self.files.get(id.file).map_err(|e| e.reading(id.file, id.no))?;
        let page = self.take_frame()?;
        let Some(mut page) = self.publish(page, id, &file) else {
            return Ok(None);
        };
        page.frame().set_refs(0);
        if fill == Fill::Read {
            self.counters.buffer_pool_reads.inc();
            self.counters.data_reads.inc();
            self.counters.data_read.add(PAGE_SIZE as u64);
            let read = file.file.read_at(page.bytes_mut(), id.no as u64 * PAGE_SIZE as u64);
            if let Err(error) = read
                .map_err(|e| cut_short(e, id, &*file.file))
                .and_then(|()| self.verify_read(page.bytes(), id, &file))
            {
                self.unpublish(page);
                return Err(error);
            }
            page.note_base();
        }
        Ok(Some(page))
    }
    /// Is this the page, sealed, in its newest version? A file that is not logged has no LSNs to tell by.
    pub(in crate::pool) fn verify_read(&self, bytes: &[u8], id: PageId, file: &OpenFile) -> Result<()> {
        verify(bytes, id, &*file.file, self.config.check_body)?;
        match file.logged {
            true => self.written.check(bytes, id, &*file.file),
            false => Ok(()),
        }
    }
    /// Enters an empty X-latched frame into the page table. None (and the frame is given back): the page is there already.
    pub(in crate::pool) fn publish<'p>(
        &'p self,
        page: PageWrite<'p>,
        id: PageId,
        file: &OpenFile,
    ) -> Option<PageWrite<'p>> {
        let key = id.as_u64();
        debug_assert_eq!(page.key(), KEY_NONE);
        let shard = self.table.lock(&self.frames, key);
        if shard.find().is_some() {
            drop(shard);
            self.give_back(page);
            return None;
        }
        page.set_logged(file.logged);
        page.frame().imaged.store(false, Ordering::Relaxed);
        page.frame().past_on_disk.store(false, Ordering::Relaxed);
        page.frame().base_lsn.store(0, Ordering::Relaxed);
        page.set_key(key);
        shard.insert(page.index());
        self.imprints.forget(key);
        Some(page)
    }
    /// Forgets a page that could not be read.
    pub(in crate::pool) fn unpublish(&self, page: PageWrite<'_>) {
        self.unlink(&page);
        self.give_back(page);
    }
    /// Takes an X-latched, clean frame out of the page table.
    fn unlink(&self, page: &PageWrite<'_>) {
        self.table.lock(&self.frames, page.key()).remove(page.index());
        page.set_key(KEY_NONE);
    }
    /// Forgets a page that somebody is going to write, or has written, past the pool, changes and all; on return no copy of it is
    /// on its way to disk. Nobody else has a use for the page. The caller holds no latch.
    pub(in crate::pool) fn forget(&self, id: PageId) {
        let key = id.as_u64();
        let shard = self.table.lock(&self.frames, key);
        self.imprints.forget(key);
        let pin = shard.pin();
        drop(shard);
        let Some(pin) = pin else { return };
        let page = self.frames.write(pin.index);
        if page.key() != key {
            return;
        }
        while page.frame().in_flight.load(Ordering::Acquire) && !self.is_poisoned() {
            // Its flusher waits for no latch.
            self.clock.wait();
        }
        drop(pin);
        self.discard(page);
    }
    /// Forgets the X-latched page, changes and all.
    pub(in crate::pool) fn discard(&self, page: PageWrite<'_>) {
        self.dirty.clear(page.frame());
        self.unlink(&page);
        self.give_back(page);
    }
    /// The frames enter the dirty list with `lsn()`, read under its lock, as the lower bound of their change.
    pub(in crate::pool) fn mark_dirty<'a, 'p: 'a>(
        &self,
        pages: impl Iterator<Item = &'a PageWrite<'p>>,
        lsn: impl FnOnce() -> Lsn,
    ) {
        let mut list = self.dirty.lock();
        let lsn = lsn();
        for page in pages {
            let bound = if page.is_logged() {
                lsn
            } else {
                crate::pool::frames::frame::UNLOGGED
            };
            list.mark(&self.frames, page.index(), bound);
        }
    }
    pub(in crate::pool) fn next_unlogged_version(&self) -> Lsn {
        self.unlogged_version.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// A file that ends before its page is a broken file; what else a read fails with is a failing disk, at that page.
#[cold]
fn cut_short(error: Error, id: PageId, file: &dyn File) -> Error {
    match file.len() {
        Ok(len) if len < (id.no as u64 + 1) * PAGE_SIZE as u64 => {
            let what = format!(
                "{}: page {}: the file ends before it, after {len} bytes",
                file.path(),
                id.no
            );
            Error::corrupt_page(id.file, id.no, what)
        }
        _ => error.reading(id.file, id.no),
    }
}

/// Is this the sealed page `id`, with a body of its kind? The error names file and page.
fn verify(bytes: &[u8], id: PageId, file: &dyn File, check_body: CheckBody) -> Result<()> {
    page::check(bytes, id).and_then(|()| check_body(bytes)).map_err(|why| {
        // What a page says of itself is worth something only as long as it names itself right.
        let whose = match page::page_index(bytes) {
            index if index != 0 && page::page_id(bytes) == id => format!(" (index {index})"),
            _ => String::new(),
        };
        let what = format!("{}: page {}{whose}: {why}", file.path(), id.no);
        Error::corrupt_page(id.file, id.no, what)
    })
}
