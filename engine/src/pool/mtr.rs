//! The mini-transaction: X-latched pages, their edits, and one redo group (I2).
//!
//! Edits go to the frame at once and to the redo buffer beside it. `commit` appends the group, stamps every changed page
//! with the group's end LSN, marks it dirty (its oldest change bounded from below by the redo LSN read *before* the
//! append), and lets go of the latches. An Mtr dropped without a change just lets go. One that changed a page must be
//! committed: dropping it poisons the pool.
use super::{PageRead, PageType, Pool};
use crate::base::{FileId, Lsn, PageId, Result};

/// A page of this mini-transaction; valid until it is released or the Mtr ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageHandle(pub(crate) u32);

pub struct Mtr<'p> {
    pool: &'p Pool,
}

impl<'p> Mtr<'p> {
    pub fn pool(&self) -> &'p Pool {
        self.pool
    }
    /// X-latches a page. Asking again for a page this Mtr holds gives the same handle.
    pub fn write(&mut self, _id: PageId) -> Result<PageHandle> {
        todo!()
    }
    /// X-latches only if that needs no waiting for a latch (I/O is still done): for moves against the latch order.
    pub fn try_write(&mut self, _id: PageId) -> Result<Option<PageHandle>> {
        todo!()
    }
    /// S-latched read of a page this Mtr does not hold, for the descent.
    pub fn read(&self, id: PageId) -> Result<PageRead<'p>> {
        self.pool.read(id)
    }
    /// A fresh page: no read from disk, whatever was there is forgotten; header as given, body zero. Logged as an image.
    pub fn create(&mut self, _id: PageId, _index: u32, _kind: PageType, _level: u8) -> Result<PageHandle> {
        todo!()
    }
    pub fn find(&self, _id: PageId) -> Option<PageHandle> {
        todo!()
    }
    pub fn id(&self, _page: PageHandle) -> PageId {
        todo!()
    }
    pub fn bytes(&self, _page: PageHandle) -> &[u8] {
        todo!()
    }
    /// Logged edits.
    pub fn edit(&mut self, _page: PageHandle, _offset: usize, _data: &[u8]) {
        todo!()
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
    pub fn move_within(&mut self, _page: PageHandle, _dst: usize, _src: usize, _len: usize) {
        todo!()
    }
    /// Rewrites the page from byte 24 on (type, level, flags, body): `fill` gets the whole page; logged as an image (low part, hole
    /// of zeros, high part: `fill` returns the hole (start, end), which must be zero).
    pub fn rewrite(&mut self, _page: PageHandle, _fill: &mut dyn FnMut(&mut [u8]) -> (usize, usize)) {
        todo!()
    }
    /// Lets go of a page that this Mtr has not changed (crabbing).
    pub fn release(&mut self, _page: PageHandle) {
        todo!()
    }
    pub fn is_changed(&self, _page: PageHandle) -> bool {
        todo!()
    }
    pub fn has_changes(&self) -> bool {
        todo!()
    }
    pub fn log_file_new(&mut self, _file: FileId, _name: &str) {
        todo!()
    }
    pub fn log_file_drop(&mut self, _file: FileId) {
        todo!()
    }
    /// Ends it; returns the group's end LSN (0 if nothing was logged).
    pub fn commit(self) -> Lsn {
        todo!()
    }
}
