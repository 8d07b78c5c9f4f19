//! Data files: creating and dropping them, and which of their pages are in use.
//!
//! Page 0 of each file is the file header; page 1 and then every `PAGES_PER_BITMAP`-th page is a bitmap (1 = in use) of
//! the pages from itself on (`bitmap`). Pages are given out near a hint, in whole 64-page extents where possible, so that the
//! leaves of one index lie together (`allocate`, with the latches). Counts are exact: free = allocated - used.
//! Called by everything that owns pages: trees, overflow chains, undo streams, the catalog.
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
//! 476 database      u64   random number of the database that the file belongs to (0: older than these numbers)
//! 512 left_over     1984 x u32 (system file only) dropped files that could not be unlinked (`left_over`; 0 = none)
//! ```
mod allocate;
mod bitmap;
mod cut;
mod file;
mod left_over;

#[cfg(test)]
mod space_tests;

pub use allocate::{
    allocate, allocate_extent, allocate_many, allocate_runs, check_used_in_extent, ensure_free, free, free_in_extent,
    prepare_free, LOWEST,
};
pub use bitmap::{EXTENT_PAGES, PAGES_PER_BITMAP};
pub use cut::{cut, cut_leftover};
pub use file::{
    add_file, check_header, create_file, is_blank, log_drop, remove_dropped, remove_file, restore_length,
    tell_left_over, verify_header, TEMPORARY_PREFIX,
};
pub use left_over::{forget_left_over, left_over, note_left_over};

use crate::base::bytes::{get_u32, get_u64};
use crate::base::{FileId, IndexId, PageId, PageNo, Result};
use crate::io::AlignedBuf;
use crate::pool::page::{check, page_index, page_type};
use crate::pool::{Mtr, PageHandle, PageType, Pool, PAGE_SIZE};

pub const FORMAT_VERSION: u32 = 1;
const MAGIC: &[u8; 8] = b"SLUICEDF";
const MAGIC_OFFSET: usize = 32;
const FORMAT_OFFSET: usize = 40;
const PAGE_SIZE_OFFSET: usize = 44;
const FILE_OFFSET: usize = 48;
const FLAGS_OFFSET: usize = 52;
const FLAG_TEMPORARY: u32 = 1;
const PAGES_OFFSET: usize = 56;
const USED_OFFSET: usize = 60;
pub const AUTOINC_OFFSET: usize = 64;
pub const ROW_ID_OFFSET: usize = 72;
pub const ROOTS_OFFSET: usize = 80;
/// Roots that fit.
pub const ROOTS_MAX: usize = 96;
const FREE_HINT_OFFSET: usize = 464;
const EMPTY_HINT_OFFSET: usize = 468;
const MIXED_OFFSET: usize = 472;
const DATABASE_OFFSET: usize = 476;
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

/// Is the page in use? The caller holds no page of this file's header or bitmaps.
pub fn is_used(pool: &Pool, page: PageId) -> Result<bool> {
    if page.no == HEADER_PAGE {
        return Ok(true);
    }
    if page.no >= usage(pool, page.file)?.pages {
        return Ok(false);
    }
    let bitmap = pool.read(PageId::new(page.file, bitmap::bitmap_of(page.no)))?;
    Ok(bitmap::is_set(&bitmap, page.no))
}
/// The caller does not hold the file's header.
pub fn usage(pool: &Pool, file: FileId) -> Result<Usage> {
    let header = pool.read(PageId::new(file, HEADER_PAGE))?;
    Ok(Usage {
        pages: get_u32(&header, PAGES_OFFSET),
        used: get_u32(&header, USED_OFFSET),
    })
}
/// What a file says of its pages.
pub struct UsedPages {
    /// By the header's count.
    pub counted: u32,
    /// Marked in the bitmaps, bitmaps and header included.
    pub pages: Vec<PageNo>,
}

/// Every page in use, and the count of them. Nobody allocates meanwhile: the header stays latched.
pub fn used_pages(pool: &Pool, file: FileId) -> Result<UsedPages> {
    let header = pool.read(PageId::new(file, HEADER_PAGE))?;
    let total = get_u32(&header, PAGES_OFFSET);
    let mut used = UsedPages {
        counted: get_u32(&header, USED_OFFSET),
        pages: vec![HEADER_PAGE],
    };
    let mut first = 1;
    while first < total {
        let end = total.min(first + PAGES_PER_BITMAP);
        let bitmap = pool.read(PageId::new(file, first))?;
        used.pages
            .extend((first..end).filter(|no| bitmap::is_set(&bitmap, *no)));
        first = end;
    }
    Ok(used)
}
/// The index that a page says it is a tree page of.
pub fn tree_of(page: &[u8]) -> Option<IndexId> {
    let is_tree = [PageType::Tree as u8, PageType::TreeRest as u8].contains(&page_type(page));
    is_tree.then(|| page_index(page))
}
/// Is it a bitmap's place?
pub fn is_bitmap(page: PageNo) -> bool {
    bitmap::is_bitmap(page)
}
/// The number of the database that the file says it belongs to.
pub fn database_of(pool: &Pool, file: FileId) -> Result<u64> {
    let header = pool.read(PageId::new(file, HEADER_PAGE))?;
    Ok(get_u64(&header, DATABASE_OFFSET))
}
/// The same, of the page as it is in the file, past the pool: before the log is applied. None: it is not whole there.
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
/// X-latched header page, for its owners' fields. It is also the file's allocation latch: hold it briefly.
pub fn header(mtr: &mut Mtr<'_>, file: FileId) -> Result<PageHandle> {
    mtr.write(PageId::new(file, HEADER_PAGE))
}
