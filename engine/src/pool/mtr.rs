//! The mini-transaction: X-latched pages, their edits, and one redo group (I2).
//!
//! Edits go to the frame at once, and to the redo buffer of the Mtr. `commit` does in this order:
//! 1. It marks every clean page that was changed as dirty. The page's oldest change is bounded from
//!    below by the redo LSN read *before* the append.
//! 2. It appends the group.
//! 3. It stamps every changed page with the group's end LSN.
//! 4. It lets go of the latches.
//!
//! An Mtr dropped without a change just lets go. One that changed a page must be committed:
//! dropping it poisons the pool (I6).
//!
//! Pages of unlogged files make no records. Instead of an LSN they get the next number of a counter
//! that never repeats while the engine runs. So [`PageRead::version`] works for them, too. One Mtr
//! may change both kinds of pages.
//!
//! Pages can be joined (`joined`): then the first page's handle stands for all of them.
//!
//! A group's bytes are collected in a buffer that the thread keeps between mini-transactions: no
//! allocation per Mtr.
//!
//! Latches: X latches, in the order of the caller's requests (I5).
//! Called by: every layer above.
use super::buffer_pool::Pool;
use super::frames::frame::{PageRead, PageWrite};
use super::joined::JoinedBytes;
use super::page::{init_page, page_lsn, set_page_lsn, PageType, EDIT_START, PAGE_BODY, PAGE_SIZE};
use crate::base::{planted, FileId, Lsn, Mutant, PageId, Result};
use crate::redo::RecordSink;
use smallvec::SmallVec;
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::Ordering;

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
    /// Brought in unread: its bytes have no meaning until `create`.
    blank: bool,
    /// It is the first of several that read and change as one.
    joined: Option<Box<Joined>>,
}

/// Several pages that are one to the user of the Mtr.
struct Joined {
    bytes: JoinedBytes,
    /// The pages after the first.
    rest: Vec<PageHandle>,
}

impl Joined {
    /// 0 is the first page.
    fn page(&self, first: PageHandle, number: usize) -> PageHandle {
        number.checked_sub(1).map_or(first, |n| self.rest[n])
    }
}

/// See the module's head.
pub struct Mtr<'p> {
    pool: &'p Pool,
    pages: SmallVec<[Held<'p>; 6]>,
    records: RecordSink,
    /// A page was changed, or a file operation logged: a drop now is a bug or a failure half way.
    changed: bool,
}

impl Pool {
    pub fn begin(&self) -> Mtr<'_> {
        Mtr::new(self)
    }
}

impl<'p> Mtr<'p> {
    fn new(pool: &'p Pool) -> Mtr<'p> {
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
        let page = self.pool.reader().fetch_write(id)?;
        Ok(self.hold(id, page, false))
    }
    /// X-latches a page only if that needs no waiting for a latch; I/O is still done. For moves
    /// against the latch order. None: another thread has the latch, or may have it.
    pub fn try_write(&mut self, id: PageId) -> Result<Option<PageHandle>> {
        if let Some(held) = self.find(id) {
            return Ok(Some(held));
        }
        let page = self.pool.reader().try_fetch_write(id)?;
        Ok(page.map(|page| self.hold(id, page, false)))
    }
    /// X-latches a page if the pool has it. For a page number that the caller remembers and did not
    /// reach through the tree. What is on disk under that number may be of another time.
    pub fn write_resident(&mut self, id: PageId) -> Result<Option<PageHandle>> {
        if let Some(held) = self.find(id) {
            return Ok(Some(held));
        }
        let page = self.pool.reader().resident_write(id)?;
        Ok(page.map(|page| self.hold(id, page, false)))
    }
    /// The same, only if that needs no waiting.
    pub fn try_write_resident(&mut self, id: PageId) -> Result<Option<PageHandle>> {
        if let Some(held) = self.find(id) {
            return Ok(Some(held));
        }
        let page = self.pool.reader().try_resident_write(id)?;
        Ok(page.map(|page| self.hold(id, page, false)))
    }
    /// The S-latched page, which this Mtr does not hold. For the descent.
    pub fn read(&self, id: PageId) -> Result<PageRead<'p>> {
        debug_assert!(self.find(id).is_none(), "{id} is X-latched by this very Mtr");
        self.pool.read(id)
    }
    /// X-latches a page that is going to be created, without reading it: after this, `create` of it
    /// cannot fail. Changes nothing yet; [`Mtr::bytes`] of the page have no meaning. A page that is
    /// not created after all is forgotten at the Mtr's end.
    pub fn reserve(&mut self, id: PageId) -> Result<PageHandle> {
        if let Some(held) = self.find(id) {
            return Ok(held);
        }
        let (page, resident) = self.pool.reader().fetch_new(id)?;
        Ok(self.hold(id, page, !resident))
    }
    /// Makes a fresh page, header as given, body zero. Its former content is not read and is
    /// forgotten. Logged as an image.
    pub fn create(&mut self, id: PageId, index: u32, kind: PageType, level: u8) -> Result<PageHandle> {
        let handle = self.reserve(id)?;
        debug_assert!(
            !self.is_joined(handle),
            "a page that is made anew stands for itself alone"
        );
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
        debug_assert_eq!(page.key(), id.as_u64(), "the latched frame has the page");
        debug_assert!(self.find(id).is_none(), "a mini-transaction latches a page once");
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
    /// The handle of a page that this Mtr holds.
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
            Some(joined) => joined.bytes.bytes(),
        }
    }
    /// The page and the `rest` pages that follow it in the file read and change as one from now on.
    /// Their bytes are the first page's, then the bodies of the others. They change only under the
    /// first page's latch. Each change changes the first page, too, so that its version changes.
    pub fn join(&mut self, first: PageHandle, rest: u32) -> Result<()> {
        if self.pages[first.0 as usize].joined.is_some() {
            return Ok(());
        }
        let id = self.id(first);
        let mut joined = Joined {
            bytes: JoinedBytes::begin(self.bytes(first)),
            rest: Vec::new(),
        };
        for n in 1..=rest {
            let page = match self.write(PageId::new(id.file, id.no + n)) {
                Ok(page) => page,
                // No Mtr holds those pages without the first.
                Err(e) => {
                    joined.rest.iter().for_each(|page| self.release(*page));
                    return Err(e);
                }
            };
            joined.bytes.push(self.bytes(page));
            joined.rest.push(page);
        }
        self.pages[first.0 as usize].joined = Some(Box::new(joined));
        Ok(())
    }
    /// Runs `change` with the joined pages of `first` each by itself. Then changes the first page,
    /// if `change` did not.
    fn apart(&mut self, first: PageHandle, change: impl FnOnce(&mut Self, &mut Joined)) {
        let at = first.0 as usize;
        let mut joined = self.pages[at].joined.take().expect("callers check is_joined()");
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
    /// Edits the pages in which these joined bytes lie.
    fn write_through(&mut self, first: PageHandle, joined: &Joined, range: Range<usize>) {
        for span in joined.bytes.spans(range) {
            let page = joined.page(first, span.page);
            self.edit(page, span.offset, &joined.bytes.bytes()[span.range]);
        }
    }
    fn edit_joined(&mut self, first: PageHandle, offset: usize, data: &[u8]) {
        self.apart(first, |mtr, joined| {
            let range = joined.bytes.edit(offset, data);
            mtr.write_through(first, joined, range);
        });
    }
    fn move_within_joined(&mut self, first: PageHandle, dst: usize, src: usize, len: usize) {
        self.apart(first, |mtr, joined| {
            let range = joined.bytes.move_within(dst, src, len);
            match dst.max(src) + len <= PAGE_SIZE {
                true => mtr.move_within(first, dst, src, len),
                false => mtr.write_through(first, joined, range),
            }
        });
    }
    fn rewrite_joined(&mut self, first: PageHandle, fill: &mut dyn FnMut(&mut [u8]) -> (usize, usize)) {
        self.apart(first, |mtr, joined| {
            let hole = joined.bytes.rewrite(fill);
            for span in joined.bytes.spans(joined.bytes.editable()) {
                let data = &joined.bytes.bytes()[span.range.clone()];
                let page = joined.page(first, span.page);
                mtr.rewrite(page, &mut |bytes| {
                    bytes[span.offset..span.offset + data.len()].copy_from_slice(data);
                    span.hole(hole)
                });
            }
        });
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
    /// Overwrites bytes, logged. Writing what is there already is no change.
    #[inline]
    pub fn edit(&mut self, page: PageHandle, offset: usize, data: &[u8]) {
        assert!(offset >= EDIT_START, "the page header's first bytes are the pool's");
        if self.bytes(page)[offset..offset + data.len()] == *data {
            return;
        }
        if self.is_joined(page) {
            return self.edit_joined(page, offset, data);
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
    /// memmove inside the page, logged.
    pub fn move_within(&mut self, page: PageHandle, dst: usize, src: usize, len: usize) {
        assert!(
            dst >= EDIT_START && src >= EDIT_START,
            "the page header's first bytes are the pool's"
        );
        if len == 0 || dst == src {
            return;
        }
        if self.is_joined(page) {
            return self.move_within_joined(page, dst, src, len);
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
    /// Rewrites the page from byte 24 on (type, level, flags, body). `fill` gets the whole page and
    /// returns the hole (start, end), which must be zero. Logged as an image: low part, hole, high
    /// part.
    pub fn rewrite(&mut self, page: PageHandle, fill: &mut dyn FnMut(&mut [u8]) -> (usize, usize)) {
        if self.is_joined(page) {
            return self.rewrite_joined(page, fill);
        }
        let id = self.id(page);
        self.change(page, |bytes, records, logged| {
            let mut head = [0; EDIT_START];
            head.copy_from_slice(&bytes[..EDIT_START]);
            let (hole_start, hole_end) = fill(bytes);
            assert!(
                hole_start >= PAGE_BODY && hole_start <= hole_end && hole_end <= PAGE_SIZE,
                "the hole lies in the body"
            );
            bytes[..EDIT_START].copy_from_slice(&head);
            if logged {
                records.image(id, bytes, hole_start, hole_end);
            }
        });
        self.pages[page.0 as usize].imaged = true;
    }
    /// The page, changed by this Mtr, is free from now on. A DROP that a crash interrupted reads it
    /// again by its number, and must not find its former content. So the freed page must reach the
    /// disk.
    pub fn must_write_freed_image(&mut self, page: PageHandle) {
        let held = &self.pages[page.0 as usize];
        debug_assert!(held.changed, "a page is freed by a change of it");
        if let Some(page) = &held.page {
            page.frame().must_write_freed_image.store(true, Ordering::Relaxed);
        }
    }
    /// Lets go of a page that this Mtr has not changed (crabbing).
    pub fn release(&mut self, page: PageHandle) {
        let held = &mut self.pages[page.0 as usize];
        if let Some(joined) = held.joined.take() {
            joined.rest.iter().for_each(|page| self.release(*page));
        }
        let held = &mut self.pages[page.0 as usize];
        assert!(!held.changed, "a changed page stays latched until its Mtr ends (I2)");
        if let Some(page) = held.page.take() {
            if held.blank {
                self.pool.store().unpublish(page);
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
    /// The pages are given to a load, which writes them past the pool (`direct`): what the log says
    /// about them so far is void.
    pub fn log_given(&mut self, first: PageId, count: u32) {
        self.changed = true;
        self.records.given(first, count);
    }
    /// The file ends before this page from now on: what the log says so far about this page and
    /// those after it is void.
    pub fn log_truncate(&mut self, first: PageId) {
        self.changed = true;
        self.records.truncate(first);
    }
    pub fn log_file_drop(&mut self, file: FileId) {
        self.changed = true;
        self.records.file_drop(file);
    }
    /// A record for upper layers.
    pub fn log_note(&mut self, kind: u64, payload: &[u8]) {
        self.changed = true;
        self.records.note(kind, payload);
    }
    /// Ends the Mtr. Returns the group's end LSN, 0 if nothing was logged.
    pub fn commit(mut self) -> Lsn {
        let mut end = 0;
        if self.changed {
            self.mark_dirty();
            debug_assert!(
                self.pages
                    .iter()
                    .filter(|held| held.changed)
                    .all(|held| held.page.as_ref().is_some_and(|page| page.frame().oldest() != 0)),
                "a changed page is on the dirty list before its redo is in the log"
            );
            if !self.records.is_empty() {
                (_, end) = self.pool.redo().append(self.records.as_bytes());
                debug_assert!(end <= self.pool.redo().lsn(), "the log reaches the end of the group");
            }
            self.stamp(end);
            self.changed = false;
        }
        end
    }
    /// Clean pages that were changed enter the dirty list, before the append (see `dirty_list`).
    fn mark_dirty(&mut self) {
        let fresh = |held: &Held<'p>| held.changed && held.page.as_ref().is_some_and(|p| p.frame().oldest() == 0);
        // A page that is dirty now stays so: only a flusher could clean it, under an S latch.
        if self.pages.iter().any(fresh) {
            let pool = self.pool;
            let pages = self.pages.iter().filter(|h| fresh(h)).filter_map(|h| h.page.as_ref());
            pool.store().mark_dirty(pages, || pool.redo().lsn());
        }
    }
    /// Gives every changed page its new version.
    fn stamp(&mut self, end: Lsn) {
        for held in self.pages.iter_mut().filter(|h| h.changed) {
            let page = held.page.as_mut().expect("a changed page is not released");
            debug_assert!(!held.logged || end >= page_lsn(page.bytes()), "LSNs of a page ascend");
            debug_assert!(
                !held.logged || page.frame().oldest() < end,
                "no checkpoint passes a change before its page is written"
            );
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
            // A panic, or an error after the first change: memory is ahead of the log, and half of
            // something.
            self.pool
                .poison("a mini-transaction was abandoned after its first change");
        }
        for held in self.pages.iter_mut().filter(|h| h.blank) {
            if let Some(page) = held.page.take() {
                self.pool.store().unpublish(page);
            }
        }
        let buffer = std::mem::take(&mut self.records).into_buffer();
        if buffer.capacity() <= BUFFER_KEPT_MAX {
            // The thread may be ending and its buffer gone: then this buffer goes, too.
            let _ = BUFFER.try_with(|kept| kept.set(buffer));
        }
    }
}
