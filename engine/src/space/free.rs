//! Freeing of pages.
//!
//! Latches: as in `allocate`. Called by: `btree`, `txn` (undo), `table` (overflow), and the ends of
//! bulk loads.
use super::bitmap::{bit_in_extent, bitmap_of, byte_of, extent_of, is_bitmap, is_set, word, EXTENT_PAGES};
use super::header::{header, EMPTY_HINT_OFFSET, FREE_HINT_OFFSET, HEADER_PAGE, PAGES_OFFSET, USED_OFFSET};
use super::page_search::Search;
use crate::base::bytes::get_u32;
use crate::base::{Error, FileId, PageId, PageNo, Result};
use crate::pool::Mtr;

/// Checks that [`free_in_extent`] will find the pages in use, before the caller's first change.
/// `Error::Corrupt`: the bitmap is broken.
pub fn check_used_in_extent(mtr: &mut Mtr<'_>, file: FileId, first: PageNo, from: u32) -> Result<()> {
    Search::begin(mtr, file)?;
    let bitmap = bitmap_of(first);
    let page = mtr.write(PageId::new(file, bitmap))?;
    let freed = u64::MAX << from;
    if word(mtr.bytes(page), extent_of(first)) & freed == freed {
        return Ok(());
    }
    let what = format!("the pages of a load, from {first} on, are to be freed, but not all are in use");
    Err(Error::corrupt_page(file, bitmap, what))
}

/// Frees the pages of an extent from bit `from` on, which are all in use. None of them may be read
/// again under its old meaning.
pub fn free_in_extent(mtr: &mut Mtr<'_>, file: FileId, first: PageNo, from: u32) -> Result<()> {
    assert!(bit_in_extent(first) == 0 && from < EXTENT_PAGES);
    let search = Search::begin(mtr, file)?;
    let Search { header, used, .. } = search;
    let (free_hint, empty_hint) = (search.free_hint, search.empty_hint);
    let extent = extent_of(first);
    let bitmap = mtr.write(PageId::new(file, bitmap_of(first)))?;
    let before = word(mtr.bytes(bitmap), extent);
    let freed = u64::MAX << from;
    assert!(
        before & freed == freed,
        "the extent at page {first} is freed, but not in use"
    );
    let after = before & !freed;
    mtr.edit(bitmap, byte_of(first).0, &after.to_le_bytes());
    mtr.edit_u32(header, USED_OFFSET, used - freed.count_ones());
    if extent < free_hint {
        mtr.edit_u32(header, FREE_HINT_OFFSET, extent);
    }
    if after == 0 && extent < empty_hint {
        mtr.edit_u32(header, EMPTY_HINT_OFFSET, extent);
    }
    mtr.pool().counters().pages_freed.add(freed.count_ones() as u64);
    Ok(())
}

/// Frees pages of one file. None of them may be read again under its old meaning. Errors come
/// before any change.
pub fn free(mtr: &mut Mtr<'_>, pages: &[PageId]) -> Result<()> {
    prepare_free(mtr, pages)?;
    pages.iter().try_for_each(|page| free_one(mtr, *page))
}

/// Does everything of [`free`] that can fail: afterwards a `free` of these pages in the same Mtr
/// cannot fail, whatever the Mtr has changed meanwhile.
pub fn prepare_free(mtr: &mut Mtr<'_>, pages: &[PageId]) -> Result<()> {
    for page in pages {
        let in_use = check_in_use(mtr, *page)?;
        if !in_use {
            let what = format!(
                "file {}, page {}: it is to be freed, but it is not marked as in use",
                page.file, page.no
            );
            return Err(Error::corrupt_page(page.file, bitmap_of(page.no.max(1)), what));
        }
    }
    Ok(())
}

/// Latches the pages that a free will change. False: the page is not in use.
fn check_in_use(mtr: &mut Mtr<'_>, page: PageId) -> Result<bool> {
    let header = header(mtr, page.file)?;
    let pages = get_u32(mtr.bytes(header), PAGES_OFFSET);
    if page.no == HEADER_PAGE || is_bitmap(page.no) || page.no >= pages {
        return Ok(false);
    }
    let bitmap = mtr.write(PageId::new(page.file, bitmap_of(page.no)))?;
    Ok(is_set(mtr.bytes(bitmap), page.no))
}

fn free_one(mtr: &mut Mtr<'_>, page: PageId) -> Result<()> {
    let search = Search::begin(mtr, page.file)?;
    let Search { header, used, .. } = search;
    let (free_hint, empty_hint) = (search.free_hint, search.empty_hint);
    let bitmap = mtr.write(PageId::new(page.file, bitmap_of(page.no)))?;
    let (at, mask) = byte_of(page.no);
    let byte = mtr.bytes(bitmap)[at];
    assert!(byte & mask != 0, "{page} is freed twice in one mini-transaction");
    mtr.edit(bitmap, at, &[byte & !mask]);
    mtr.edit_u32(header, USED_OFFSET, used.saturating_sub(1));
    let extent = extent_of(page.no);
    if extent < free_hint {
        mtr.edit_u32(header, FREE_HINT_OFFSET, extent);
    }
    if extent < empty_hint && word(mtr.bytes(bitmap), extent) == 0 {
        mtr.edit_u32(header, EMPTY_HINT_OFFSET, extent);
    }
    mtr.pool().counters().pages_freed.inc();
    Ok(())
}
