//! The mini-transaction: X-latched pages, their edits, and one redo group (I2).
//!
//! Edits go to the frame at once and to the redo buffer beside it. `commit` appends the group, stamps every changed page
//! with the group's end LSN, marks it dirty (its oldest change bounded from below by the redo LSN read *before* the
//! append), and lets go of the latches. An Mtr dropped without a change just lets go. One that changed a page must be
//! committed: dropping it poisons the pool.
//!
//! Pages of unlogged files make no records; instead of an LSN they get the next number of a counter that never repeats
//! while the engine runs, so that [`PageRead::version`] works for them too. One Mtr may change both kinds of pages.
//!
//! Pages can be joined (`joined.rs`): then the first one's handle stands for all of them.
//!
//! A group's bytes are collected in a buffer that the thread keeps between mini-transactions: no allocation per Mtr.
use super::frame::PageWrite;
use super::joined::Joined;
use super::page::{init_page, set_page_lsn, PAGE_BODY, PAGE_SIZE};
use super::{PageRead, PageType, Pool};
use crate::base::{planted, FileId, Lsn, Mutant, PageId, Result};
use crate::redo::RecordSink;
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::atomic::Ordering;

/// First byte that edits may touch: checksum, identity and LSN are the pool's.
pub(super) const EDIT_START: usize = 24;
/// A record buffer that grew beyond this (bulk operations) is not kept by its thread.
const BUFFER_KEPT_MAX: usize = 256 * 1024;

thread_local! {
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A page of this mini-transaction; valid until it is released or the Mtr ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageHandle(pub(crate) u32);

struct Held<'p> {
    /// None after `release`.
    page: Option<PageWrite<'p>>,
    id: PageId,
    logged: bool,
    changed: bool,
    /// An image of it was logged.
    imaged: bool,
    /// Brought in unread: its bytes mean nothing until `create`.
    blank: bool,
    /// It is the first of several.
    joined: Option<Box<Joined>>,
}

pub struct Mtr<'p> {
    pool: &'p Pool,
    pages: SmallVec<[Held<'p>; 6]>,
    records: RecordSink,
    /// A page was changed, or a file operation logged: dropping it now is a bug or a failure half way.
    changed: bool,
}

impl<'p> Mtr<'p> {
    pub(super) fn new(pool: &'p Pool) -> Mtr<'p> {
        Mtr {
            pool,
            pages: SmallVec::new(),
            records: RecordSink::with_buffer(BUFFER.take()),
            changed: false,
        }
    }
    pub fn pool(&self) -> &'p Pool {
        self.pool
    }
    /// X-latches a page. Asking again for a page this Mtr holds gives the same handle.
    pub fn write(&mut self, id: PageId) -> Result<PageHandle> {
        if let Some(held) = self.find(id) {
            return Ok(held);
        }
        let page = self.pool.fetch_write(id)?;
        Ok(self.hold(id, page, false))
    }
    /// X-latches only if that needs no waiting for a latch (I/O is still done): for moves against the latch order. May
    /// say None without need.
    pub fn try_write(&mut self, id: PageId) -> Result<Option<PageHandle>> {
        if let Some(held) = self.find(id) {
            return Ok(Some(held));
        }
        let page = self.pool.try_fetch_write(id)?;
        Ok(page.map(|page| self.hold(id, page, false)))
    }
    /// X-latches a page that the pool has. What is on disk by that number may be of another time, which the pool does not tell where the
    /// page is remembered and not come to from the tree.
    pub fn write_resident(&mut self, id: PageId) -> Result<Option<PageHandle>> {
        if let Some(held) = self.find(id) {
            return Ok(Some(held));
        }
        let page = self.pool.resident_write(id)?;
        Ok(page.map(|page| self.hold(id, page, false)))
    }
    /// The same if that needs no waiting.
    pub fn try_write_resident(&mut self, id: PageId) -> Result<Option<PageHandle>> {
        if let Some(held) = self.find(id) {
            return Ok(Some(held));
        }
        let page = self.pool.try_resident_write(id)?;
        Ok(page.map(|page| self.hold(id, page, false)))
    }
    /// S-latched read of a page this Mtr does not hold, for the descent.
    pub fn read(&self, id: PageId) -> Result<PageRead<'p>> {
        debug_assert!(self.find(id).is_none(), "{id} is X-latched by this very Mtr");
        self.pool.read(id)
    }
    /// X-latches a page that is going to be created, without reading it: after this, `create` of it cannot fail. Changes
    /// nothing yet; [`Mtr::bytes`] of it mean nothing. A page not created after all is forgotten at the Mtr's end.
    pub fn reserve(&mut self, id: PageId) -> Result<PageHandle> {
        if let Some(held) = self.find(id) {
            return Ok(held);
        }
        let (page, resident) = self.pool.fetch_new(id)?;
        Ok(self.hold(id, page, !resident))
    }
    /// A fresh page: no read from disk, whatever was there is forgotten; header as given, body zero. Logged as an image.
    pub fn create(&mut self, id: PageId, index: u32, kind: PageType, level: u8) -> Result<PageHandle> {
        let handle = self.reserve(id)?;
        self.pages[handle.0 as usize].blank = false;
        self.change(handle, |bytes, records, logged| {
            init_page(bytes, id, index, kind, level);
            if logged {
                records.image(id, bytes, PAGE_BODY, PAGE_SIZE);
            }
        });
        self.pages[handle.0 as usize].imaged = true;
        Ok(handle)
    }
    fn hold(&mut self, id: PageId, page: PageWrite<'p>, blank: bool) -> PageHandle {
        let handle = PageHandle(self.pages.len() as u32);
        let logged = page.is_logged();
        self.pages.push(Held {
            page: Some(page),
            id,
            logged,
            changed: false,
            imaged: false,
            blank,
            joined: None,
        });
        handle
    }
    pub fn find(&self, id: PageId) -> Option<PageHandle> {
        let at = self.pages.iter().position(|h| h.id == id && h.page.is_some())?;
        Some(PageHandle(at as u32))
    }
    pub fn id(&self, page: PageHandle) -> PageId {
        self.pages[page.0 as usize].id
    }
    #[inline]
    pub fn bytes(&self, page: PageHandle) -> &[u8] {
        let held = &self.pages[page.0 as usize];
        match &held.joined {
            None => held.page.as_ref().expect("the page was not released").bytes(),
            Some(joined) => joined.bytes(),
        }
    }
    /// The page and the `rest` that follow it in the file read and change as one from here on: its
    /// bytes, and behind them the others' bodies. They change only under the first one's latch, and
    /// each change changes the first one too, so that its version tells.
    pub fn join(&mut self, first: PageHandle, rest: u32) -> Result<()> {
        if self.pages[first.0 as usize].joined.is_some() {
            return Ok(());
        }
        let id = self.id(first);
        let mut joined = Joined::begin(self.bytes(first));
        for n in 1..=rest {
            let rest = self.write(PageId::new(id.file, id.no + n));
            let page = match rest {
                Ok(page) => page,
                // Nobody may hold those pages without the first.
                Err(e) => {
                    joined.rest().iter().for_each(|page| self.release(*page));
                    return Err(e);
                }
            };
            joined.push(page, self.bytes(page));
        }
        self.pages[first.0 as usize].joined = Some(Box::new(joined));
        Ok(())
    }
    /// With the pages of `first` each by itself; then the first one is changed, if it was not.
    fn apart(&mut self, first: PageHandle, change: impl FnOnce(&mut Self, &mut Joined)) {
        let at = first.0 as usize;
        let mut joined = self.pages[at].joined.take().expect("asked before");
        change(self, &mut joined);
        if !self.pages[at].changed {
            let id = self.id(first);
            self.change(first, |bytes, records, logged| {
                if logged {
                    records.write(id, EDIT_START, &bytes[EDIT_START..=EDIT_START]);
                }
            });
        }
        self.pages[at].joined = Some(joined);
    }
    fn is_joined(&self, page: PageHandle) -> bool {
        self.pages[page.0 as usize].joined.is_some()
    }
    /// The one way to a page's bytes: marks it changed.
    #[inline]
    fn change(&mut self, page: PageHandle, edit: impl FnOnce(&mut [u8], &mut RecordSink, bool)) {
        let held = &mut self.pages[page.0 as usize];
        let bytes = held.page.as_mut().expect("the page was not released").bytes_mut();
        assert!(!held.blank, "a reserved page is created before it is edited");
        held.changed = true;
        self.changed = true;
        edit(bytes, &mut self.records, held.logged);
    }
    /// Logged edits. Writing what is there already is no change.
    #[inline]
    pub fn edit(&mut self, page: PageHandle, offset: usize, data: &[u8]) {
        assert!(offset >= EDIT_START, "the page header's first bytes are the pool's");
        if self.bytes(page)[offset..offset + data.len()] == *data {
            return;
        }
        if self.is_joined(page) {
            return self.apart(page, |mtr, joined| joined.edit(mtr, page, offset, data));
        }
        let id = self.id(page);
        self.change(page, |bytes, records, logged| {
            bytes[offset..offset + data.len()].copy_from_slice(data);
            if logged {
                records.write(id, offset, data);
            }
        });
    }
    pub fn edit_u16(&mut self, page: PageHandle, offset: usize, v: u16) {
        self.edit(page, offset, &v.to_le_bytes());
    }
    pub fn edit_u32(&mut self, page: PageHandle, offset: usize, v: u32) {
        self.edit(page, offset, &v.to_le_bytes());
    }
    pub fn edit_u64(&mut self, page: PageHandle, offset: usize, v: u64) {
        self.edit(page, offset, &v.to_le_bytes());
    }
    /// memmove inside the page.
    pub fn move_within(&mut self, page: PageHandle, dst: usize, src: usize, len: usize) {
        assert!(dst >= EDIT_START && src >= EDIT_START);
        if len == 0 || dst == src {
            return;
        }
        if self.is_joined(page) {
            return self.apart(page, |mtr, joined| joined.move_within(mtr, page, dst, src, len));
        }
        let id = self.id(page);
        self.change(page, |bytes, records, logged| {
            bytes.copy_within(src..src + len, dst);
            if logged {
                records.move_within(id, dst, src, len);
            }
        });
        if !planted(Mutant::MoveForgotten) {
            let page = self.pages[page.0 as usize].page.as_ref();
            let frame = page.expect("the page was not released").frame();
            frame.base_lsn.store(0, Ordering::Relaxed);
        }
    }
    /// Rewrites the page from byte 24 on (type, level, flags, body): `fill` gets the whole page; logged as an image (low part, hole
    /// of zeros, high part: `fill` returns the hole (start, end), which must be zero).
    pub fn rewrite(&mut self, page: PageHandle, fill: &mut dyn FnMut(&mut [u8]) -> (usize, usize)) {
        if self.is_joined(page) {
            return self.apart(page, |mtr, joined| joined.rewrite(mtr, page, fill));
        }
        let id = self.id(page);
        self.change(page, |bytes, records, logged| {
            let mut head = [0; EDIT_START];
            head.copy_from_slice(&bytes[..EDIT_START]);
            let (hole_start, hole_end) = fill(bytes);
            assert!(hole_start >= PAGE_BODY && hole_start <= hole_end && hole_end <= PAGE_SIZE);
            bytes[..EDIT_START].copy_from_slice(&head);
            if logged {
                records.image(id, bytes, hole_start, hole_end);
            }
        });
        self.pages[page.0 as usize].imaged = true;
    }
    /// The page, changed by this Mtr, is free from here on; but somebody who is cut short may ask for it once more by its number, and must
    /// not find on disk what it was.
    pub fn ends_named(&mut self, page: PageHandle) {
        let held = &self.pages[page.0 as usize];
        debug_assert!(held.changed);
        if let Some(page) = &held.page {
            page.frame().past_on_disk.store(true, Ordering::Relaxed);
        }
    }
    /// Lets go of a page that this Mtr has not changed (crabbing).
    pub fn release(&mut self, page: PageHandle) {
        let held = &mut self.pages[page.0 as usize];
        if let Some(joined) = held.joined.take() {
            joined.rest().iter().for_each(|page| self.release(*page));
        }
        let held = &mut self.pages[page.0 as usize];
        assert!(!held.changed, "a changed page stays latched until its Mtr ends (I2)");
        if let Some(page) = held.page.take() {
            if held.blank {
                self.pool.unpublish(page);
            }
        }
    }
    pub fn is_changed(&self, page: PageHandle) -> bool {
        self.pages[page.0 as usize].changed
    }
    pub fn has_changes(&self) -> bool {
        self.changed
    }
    pub fn log_file_new(&mut self, file: FileId, name: &str) {
        self.changed = true;
        self.records.file_new(file, name);
    }
    /// The pages are given to somebody who writes them past the pool (`direct`): what the log says about them so far is void.
    pub fn log_given(&mut self, first: PageId, count: u32) {
        self.changed = true;
        self.records.given(first, count);
    }
    /// The file ends before this page from here on: what the log says about what is behind so far is void.
    pub fn log_cut(&mut self, first: PageId) {
        self.changed = true;
        self.records.truncate(first);
    }
    pub fn log_file_drop(&mut self, file: FileId) {
        self.changed = true;
        self.records.file_drop(file);
    }
    /// A record for upper layers, e.g. tests.
    pub fn log_note(&mut self, kind: u64, payload: &[u8]) {
        self.changed = true;
        self.records.note(kind, payload);
    }
    /// Ends it; returns the group's end LSN (0 if nothing was logged).
    pub fn commit(mut self) -> Lsn {
        let mut end = 0;
        if self.changed {
            self.mark_dirty();
            if !self.records.is_empty() {
                (_, end) = self.pool.redo().append(self.records.as_bytes());
            }
            self.stamp(end);
            self.changed = false;
        }
        end
    }
    /// Clean pages that were changed enter the dirty list; before the append (see `dirty`).
    fn mark_dirty(&mut self) {
        let fresh = |held: &Held<'p>| held.changed && held.page.as_ref().is_some_and(|p| p.frame().oldest() == 0);
        // A page that is dirty now stays so: only a flusher could clean it, and it would need its S latch.
        if self.pages.iter().any(fresh) {
            let pool = self.pool;
            let pages = self.pages.iter().filter(|h| fresh(h)).filter_map(|h| h.page.as_ref());
            pool.mark_dirty(pages, || pool.redo().lsn());
        }
    }
    fn stamp(&mut self, end: Lsn) {
        for held in self.pages.iter_mut().filter(|h| h.changed) {
            let page = held.page.as_mut().expect("a changed page is not released");
            let version = if held.logged {
                end
            } else {
                self.pool.next_unlogged_version()
            };
            set_page_lsn(page.bytes_mut(), version);
            if held.imaged {
                page.frame().imaged.store(true, Ordering::Relaxed);
            }
        }
    }
}

impl Drop for Mtr<'_> {
    fn drop(&mut self) {
        if self.changed {
            // A panic, or an error after the first change: memory is ahead of the log, and half of something.
            self.pool
                .poison("a mini-transaction was abandoned after its first change");
        }
        for held in self.pages.iter_mut().filter(|h| h.blank) {
            if let Some(page) = held.page.take() {
                self.pool.unpublish(page);
            }
        }
        let buffer = std::mem::take(&mut self.records).into_buffer();
        if buffer.capacity() <= BUFFER_KEPT_MAX {
            // The thread may be ending and its buffer gone: then this one goes too.
            let _ = BUFFER.try_with(|kept| kept.set(buffer));
        }
    }
}
