//! Data files: creating and dropping them, and which of their pages are in use.
//!
//! Page 0 of each file is the file header; page 1 and then every `PAGES_PER_BITMAP`-th page is a bitmap (1 = in use) of
//! the pages from itself on. Pages are given out near a hint, in whole 64-page extents where possible, so that the
//! leaves of one index lie together. Counts are exact: free = allocated - used.
//!
//! File header page (type FileHeader), body:
//! ```text
//! 32 magic          8 bytes "SLUICEDF"
//! 40 format         u32   FORMAT_VERSION; other versions are refused by name
//! 44 page_size      u32
//! 48 file           u32
//! 52 flags          u32   1 = temporary (unlogged)
//! 56 pages          u32   pages the file has room for (all below are covered by a bitmap)
//! 60 used           u32   pages in use, header and bitmaps included
//! 64 autoinc        u64   next AUTO_INCREMENT value (0 = never set); owner: table layer
//! 72 row_id         u64   reserved bound for hidden row ids; owner: table layer
//! 80 roots          up to 96 x u32 reserved for the owner (undo streams, system pages)
//! ```
use crate::base::{FileId, PageId, PageNo, Result};
use crate::pool::{Mtr, PageHandle, Pool};

pub const FORMAT_VERSION: u32 = 1;
pub const AUTOINC_OFFSET: usize = 64;
pub const ROW_ID_OFFSET: usize = 72;
pub const ROOTS_OFFSET: usize = 80;
pub const HEADER_PAGE: PageNo = 0;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub pages: u32,
    pub used: u32,
}

/// File name of a data file inside the engine directory: "00000010.slu" (hexadecimal number).
pub fn file_name(file: FileId) -> String {
    format!("{file:08x}.slu")
}

/// Creates the file (durable with its name on return), formats header and first bitmap in an Mtr of its own (logged with
/// FILE_NEW first, unless temporary), and registers it in the pool's file table. On error nothing is left behind.
pub fn create_file(_pool: &Pool, _file: FileId, _temporary: bool) -> Result<()> {
    todo!()
}
/// Opens an existing file, checks its header (magic, format, page size, number) and registers it. `check = false` during
/// recovery, when the header may still have to be redone; then call `check_header` after redo.
pub fn open_file(_pool: &Pool, _file: FileId, _check: bool) -> Result<()> {
    todo!()
}
pub fn check_header(_pool: &Pool, _file: FileId) -> Result<()> {
    todo!()
}
/// Logs FILE_DROP in `mtr`; after that Mtr is durable call `remove_file`.
pub fn log_drop(mtr: &mut Mtr<'_>, file: FileId) {
    mtr.log_file_drop(file);
}
/// Forgets the file's pages, unregisters it, unlinks it. Idempotent.
pub fn remove_file(_pool: &Pool, _file: FileId) -> Result<()> {
    todo!()
}
/// Reserves one page near `hint` (0 = anywhere): marks it used. The caller then `Mtr::create`s it. Grows the file when needed;
/// `Error::Full` before anything was changed.
pub fn allocate(_mtr: &mut Mtr<'_>, _file: FileId, _hint: PageNo) -> Result<PageNo> {
    todo!()
}
/// All or nothing: `n` pages.
pub fn allocate_many(_mtr: &mut Mtr<'_>, _file: FileId, _hint: PageNo, _n: usize) -> Result<Vec<PageNo>> {
    todo!()
}
/// Gives a page back. The page must not be read again under its old meaning.
pub fn free(_mtr: &mut Mtr<'_>, _page: PageId) -> Result<()> {
    todo!()
}
pub fn is_used(_pool: &Pool, _page: PageId) -> Result<bool> {
    todo!()
}
pub fn usage(_pool: &Pool, _file: FileId) -> Result<Usage> {
    todo!()
}
/// X-latched header page, for its owners' fields.
pub fn header(mtr: &mut Mtr<'_>, file: FileId) -> Result<PageHandle> {
    mtr.write(PageId::new(file, HEADER_PAGE))
}
