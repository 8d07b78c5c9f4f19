//! The file header, page 0 of every data file: its layout, and reading it.
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
//! 464 free_hint     u32   extent: none below has a free page
//! 468 empty_hint    u32   extent: none below is wholly free
//! 472 mixed         u32   extent that serves scattered requests
//! 476 database      u64   random number of the database that the file belongs to
//!                         (0: older than these numbers)
//! 512 orphans       1984 x u32 (system file only) dropped files that could not be unlinked
//!                         (`orphans.rs`; 0 = none)
//! ```
//! The X latch of page 0 is also the file's allocation latch. Called by: the other files here, and
//! the owners of its fields (`table`, `txn`).
use crate::base::bytes::get_u64;
use crate::base::{FileId, PageId, PageNo, Result};
use crate::io::AlignedBuf;
use crate::pool::page::check;
use crate::pool::{Mtr, PageHandle, Pool, PAGE_SIZE};

pub const FORMAT_VERSION: u32 = 1;
pub(super) const MAGIC: &[u8; 8] = b"SLUICEDF";
pub(super) const MAGIC_OFFSET: usize = 32;
pub(super) const FORMAT_OFFSET: usize = 40;
pub(super) const PAGE_SIZE_OFFSET: usize = 44;
pub(super) const FILE_OFFSET: usize = 48;
pub(super) const FLAGS_OFFSET: usize = 52;
pub(super) const FLAG_TEMPORARY: u32 = 1;
pub(super) const PAGES_OFFSET: usize = 56;
pub(super) const USED_OFFSET: usize = 60;
pub const AUTOINC_OFFSET: usize = 64;
pub const ROW_ID_OFFSET: usize = 72;
pub const ROOTS_OFFSET: usize = 80;
/// Number of roots that fit.
pub const ROOTS_MAX: usize = 96;
pub(super) const FREE_HINT_OFFSET: usize = 464;
pub(super) const EMPTY_HINT_OFFSET: usize = 468;
pub(super) const MIXED_OFFSET: usize = 472;
pub(super) const DATABASE_OFFSET: usize = 476;
const _: () = assert!(
    ROOTS_OFFSET + 4 * ROOTS_MAX <= FREE_HINT_OFFSET,
    "the owner's fields end before the hints"
);
const _: () = assert!(DATABASE_OFFSET + 8 <= PAGE_SIZE, "a header fits its page");
pub const HEADER_PAGE: PageNo = 0;

/// File name of a data file inside the engine directory: "00000010.slu" (hexadecimal number).
pub fn file_name(file: FileId) -> String {
    format!("{file:08x}.slu")
}
/// The number of a data file, by its name. None: it is another file.
pub fn file_number(name: &str) -> Option<FileId> {
    let digits = name.strip_suffix(".slu").filter(|d| d.len() == 8)?;
    FileId::from_str_radix(digits, 16).ok()
}

/// The number of the database to which the file belongs, by its header.
pub fn database_of(pool: &Pool, file: FileId) -> Result<u64> {
    let header = pool.read(PageId::new(file, HEADER_PAGE))?;
    Ok(get_u64(&header, DATABASE_OFFSET))
}
/// As [`database_of`], from the page as it is on disk, past the pool: before the log is applied.
/// None: the page is not whole on disk.
pub fn database_on_disk(pool: &Pool, file: FileId) -> Result<Option<u64>> {
    let opened = pool.files().get(file)?.file;
    let mut header = AlignedBuf::new(PAGE_SIZE);
    if opened.len()? < PAGE_SIZE as u64 {
        return Ok(None);
    }
    opened
        .read_at(&mut header, HEADER_PAGE as u64 * PAGE_SIZE as u64)
        .map_err(|e| e.reading(file, HEADER_PAGE))?;
    let is_whole = check(&header, PageId::new(file, HEADER_PAGE)).is_ok();
    Ok(is_whole.then(|| get_u64(&header, DATABASE_OFFSET)))
}
/// The X-latched header page, for its owners' fields. It is also the file's allocation latch: hold
/// it briefly.
pub fn header(mtr: &mut Mtr<'_>, file: FileId) -> Result<PageHandle> {
    mtr.write(PageId::new(file, HEADER_PAGE))
}
