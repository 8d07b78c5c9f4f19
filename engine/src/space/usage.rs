//! Which pages of a file are in use: by its header's count, and by its bitmaps.
//!
//! Latches: the header, S; for [`used_pages`] also each bitmap under it. Called by: checks of
//! tables, status, and the engine at open.
use super::bitmap::{self, PAGES_PER_BITMAP};
use super::header::{HEADER_PAGE, PAGES_OFFSET, USED_OFFSET};
use crate::base::bytes::get_u32;
use crate::base::{FileId, IndexId, PageId, PageNo, Result};
use crate::pool::page::{page_index, page_type};
use crate::pool::{PageType, Pool};

/// Page counts of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Pages that the file has room for.
    pub pages: u32,
    /// Pages in use, header and bitmaps included.
    pub used: u32,
}

/// The page is in use. The caller holds no latch of this file's header or bitmaps.
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
/// The page counts, from the header. The caller does not hold the header's latch.
pub fn usage(pool: &Pool, file: FileId) -> Result<Usage> {
    let header = pool.read(PageId::new(file, HEADER_PAGE))?;
    Ok(Usage {
        pages: get_u32(&header, PAGES_OFFSET),
        used: get_u32(&header, USED_OFFSET),
    })
}
/// The pages in use, as a file describes them.
pub struct UsedPages {
    /// Number by the header's count.
    pub counted: u32,
    /// Pages marked in the bitmaps, bitmaps and header included.
    pub pages: Vec<PageNo>,
}

/// Every page in use, and the header's count. No thread allocates meanwhile: the header stays
/// latched.
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
        debug_assert!(
            bitmap::is_bitmap(first),
            "a bitmap comes before the pages that it covers"
        );
        let bitmap = pool.read(PageId::new(file, first))?;
        used.pages
            .extend((first..end).filter(|no| bitmap::is_set(&bitmap, *no)));
        first = end;
    }
    Ok(used)
}
/// The index whose tree the page belongs to, by the page's header. None: not a tree page.
pub fn tree_of(page: &[u8]) -> Option<IndexId> {
    let is_tree = [PageType::Tree as u8, PageType::TreeRest as u8].contains(&page_type(page));
    is_tree.then(|| page_index(page))
}
