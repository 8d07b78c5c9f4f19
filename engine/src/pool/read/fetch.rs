//! Getting a page: the hit, waiting for a latch, loading from disk.
//!
//! Hit: see `frames::store`. Miss: take a frame (X-latched, empty), publish it under the page's
//! number, read, verify, and hand the page on. Threads that want the page meanwhile wait for the X
//! latch. When the read fails the page is unpublished. The threads that waited look again, find
//! nothing, and meet the same error themselves.
//!
//! Latches: the page asked for. A thread that waits for it may hold page latches of its own, in the
//! latch order (I5).
//! Called by: the pool, `mtr`, `prefetch`, recovery.
use super::requests::Requests;
use crate::base::{Counters, Error, PageId, Result};
use crate::io::files::OpenFile;
use crate::io::{Disk, File, Files};
use crate::pool::config::CheckBody;
use crate::pool::frames::frame::{PageRead, PageWrite};
use crate::pool::frames::store::FrameStore;
use crate::pool::page::{self, PAGE_SIZE};
use crate::pool::write::batch::BatchWriter;
use crate::pool::write::flush::Flusher;
use std::sync::Arc;

/// How a miss fills the frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fill {
    Read,
    /// The caller overwrites all of it.
    Nothing,
}

/// Reads pages. A miss may have to write pages first, so it owns the flusher.
pub(in crate::pool) struct Reader {
    flusher: Flusher,
    requests: Requests,
    check_body: CheckBody,
}

impl Reader {
    pub fn new(flusher: Flusher, check_body: CheckBody) -> Reader {
        Reader {
            flusher,
            requests: Requests::default(),
            check_body,
        }
    }
    #[inline]
    pub fn flusher(&self) -> &Flusher {
        &self.flusher
    }
    #[inline]
    pub fn writer(&self) -> &BatchWriter {
        self.flusher.writer()
    }
    #[inline]
    pub fn store(&self) -> &FrameStore {
        &self.flusher.writer().store
    }
    pub(super) fn disk(&self) -> &Arc<dyn Disk> {
        &self.writer().disk
    }
    pub fn files(&self) -> &Arc<Files> {
        &self.writer().files
    }
    pub(super) fn counters(&self) -> &Arc<Counters> {
        &self.writer().counters
    }
    /// Requests for pages so far.
    pub fn request_count(&self) -> u64 {
        self.requests.sum()
    }
    /// The S-latched page. If it is absent it is read from disk and verified (checksum, file, page
    /// number).
    #[inline]
    pub fn read(&self, id: PageId) -> Result<PageRead<'_>> {
        self.requests.inc();
        match self.store().try_read_hit(id.as_u64()) {
            Some(page) if !self.store().poison.is_set() => Ok(page),
            _ => self.read_slow(id),
        }
    }
    /// The same for a resident page that the caller has used a moment ago. This counts as no new
    /// use. None: the page is not resident.
    #[inline]
    pub fn read_again(&self, id: PageId) -> Option<PageRead<'_>> {
        self.requests.inc();
        let page = self.store().try_read_again(id.as_u64());
        page.or_else(|| self.store().wait_resident(id.as_u64()))
    }
    /// The same, only if the page is resident (no I/O).
    pub fn read_resident(&self, id: PageId) -> Option<PageRead<'_>> {
        self.requests.inc();
        if let Some(page) = self.store().try_read_hit(id.as_u64()) {
            return Some(page);
        }
        self.store().wait_resident(id.as_u64())
    }
    #[cold]
    fn read_slow(&self, id: PageId) -> Result<PageRead<'_>> {
        self.store().poison.check()?;
        loop {
            if let Some(page) = self.store().wait_resident(id.as_u64()) {
                return Ok(page);
            }
            if let Some(page) = self.load(id, Fill::Read)? {
                return Ok(page.downgrade());
            }
        }
    }
    /// The X-latched page, for an Mtr.
    pub fn fetch_write(&self, id: PageId) -> Result<PageWrite<'_>> {
        Ok(self.fetch_exclusive(id, Fill::Read)?.0)
    }
    /// The X-latched page whose content is going to be overwritten: not read from disk. True if it
    /// was resident.
    pub fn fetch_new(&self, id: PageId) -> Result<(PageWrite<'_>, bool)> {
        self.fetch_exclusive(id, Fill::Nothing)
    }
    fn fetch_exclusive(&self, id: PageId, fill: Fill) -> Result<(PageWrite<'_>, bool)> {
        self.begin_request()?;
        let key = id.as_u64();
        if let Some(page) = self.store().try_write_hit(key) {
            return Ok((page, true));
        }
        loop {
            if let Some(page) = self.store().wait_resident_write(key) {
                return Ok((page, true));
            }
            if let Some(page) = self.load(id, fill)? {
                return Ok((page, false));
            }
        }
    }
    #[inline]
    fn begin_request(&self) -> Result<()> {
        self.store().poison.check()?;
        self.requests.inc();
        Ok(())
    }
    /// None: the pool does not have the page, whatever is on disk. Waits for the latch.
    pub fn resident_write(&self, id: PageId) -> Result<Option<PageWrite<'_>>> {
        self.begin_request()?;
        let (store, key) = (self.store(), id.as_u64());
        Ok(store.try_write_hit(key).or_else(|| store.wait_resident_write(key)))
    }
    /// The same without waiting. None also if another thread has the latch, or may have it.
    pub fn try_resident_write(&self, id: PageId) -> Result<Option<PageWrite<'_>>> {
        self.begin_request()?;
        let (store, key) = (self.store(), id.as_u64());
        let pin = store.table.lock(&store.frames, key).pin();
        Ok(pin.and_then(|pin| store.frames.try_write(pin.index).filter(|page| page.key() == key)))
    }
    /// None: another thread has the latch, or may have it.
    pub fn try_fetch_write(&self, id: PageId) -> Result<Option<PageWrite<'_>>> {
        self.begin_request()?;
        let (store, key) = (self.store(), id.as_u64());
        if let Some(page) = store.try_write_hit(key) {
            return Ok(Some(page));
        }
        let pin = store.table.lock(&store.frames, key).pin();
        match pin {
            Some(pin) => Ok(store.frames.try_write(pin.index).filter(|page| page.key() == key)),
            None => self.load(id, Fill::Read),
        }
    }
    /// Brings an absent page in. None: another thread was faster.
    #[cold]
    fn load(&self, id: PageId, fill: Fill) -> Result<Option<PageWrite<'_>>> {
        let file = self.files().get(id.file).map_err(|e| e.reading(id.file, id.no))?;
        let page = self.take_frame()?;
        let Some(mut page) = self.store().publish(page, id, file.logged) else {
            return Ok(None);
        };
        debug_assert_eq!(page.key(), id.as_u64(), "published under the page's number");
        page.frame().set_refs(0);
        if fill == Fill::Read {
            self.counters().buffer_pool_reads.inc();
            self.note_data_read();
            let read = file.file.read_at(page.bytes_mut(), id.no as u64 * PAGE_SIZE as u64);
            if let Err(error) = read
                .map_err(|e| read_error(e, id, &*file.file))
                .and_then(|()| self.verify_read(page.bytes(), id, &file))
            {
                self.store().unpublish(page);
                return Err(error);
            }
            page.note_base();
        }
        Ok(Some(page))
    }
    /// Counts a page that was read from a data file.
    pub(super) fn note_data_read(&self) {
        self.counters().data_reads.inc();
        self.counters().data_read.add(PAGE_SIZE as u64);
    }
    /// Is this the page, sealed, in its newest version? The pages of an unlogged file have no LSNs,
    /// so their version is not checked.
    pub(super) fn verify_read(&self, bytes: &[u8], id: PageId, file: &OpenFile) -> Result<()> {
        verify(bytes, id, &*file.file, self.check_body)?;
        match file.logged {
            true => self.writer().written.check(bytes, id, &*file.file),
            false => Ok(()),
        }
    }
}

/// Names the page in the error of a read. A file that ends before the page is corrupt; any other
/// error is a failing disk.
#[cold]
fn read_error(error: Error, id: PageId, file: &dyn File) -> Error {
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
        // The page's index is worth naming only as long as the page names itself right.
        let whose = match page::page_index(bytes) {
            index if index != 0 && page::page_id(bytes) == id => format!(" (index {index})"),
            _ => String::new(),
        };
        let what = format!("{}: page {}{whose}: {why}", file.path(), id.no);
        Error::corrupt_page(id.file, id.no, what)
    })
}
