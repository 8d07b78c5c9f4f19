//! Truncation: the free pages at the end of a file are removed.
//!
//! `docs/decisions/2026-11-21-undo-shrinks.md` has the reasons, and what each crash leaves.
//! Latches: the file's page 0, X, while the new end is found and logged; its bitmaps one after the
//! other, from the last. Under them the file's length lock
//! ([`crate::base::sync::Rank::FileLength`]), which is held until the file is shorter. A thread
//! that extends the file takes the same lock, with its latches held. Therefore the code that runs
//! under the lock waits for no latch but those of free pages. Called by: `txn/undo/truncate.rs`,
//! for the undo file.
use super::bitmap::{self, bitmap_of, extent_of, is_bitmap, word, EXTENT_PAGES, FIRST_BITMAP, PAGES_PER_BITMAP};
use super::header::{header, HEADER_PAGE, MIXED_OFFSET, PAGES_OFFSET, USED_OFFSET};
use super::usage::usage;
use crate::base::bytes::get_u32;
use crate::base::{Error, FileId, PageId, PageNo, Result};
use crate::pool::{Mtr, Pool, PAGE_SIZE};

/// Truncates the free pages at the end of a logged file, down to `keep` pages, and at most about
/// `most` pages. Returns the number of pages removed. The caller holds no latch.
pub fn truncate_free_end(pool: &Pool, file: FileId, keep: u32, most: u32) -> Result<u32> {
    pool.redo().reserve_wait()?;
    let lock = pool.files().length_lock(file).ok_or(Error::NotFound)?;
    let mut mtr = pool.begin();
    let head = header(&mut mtr, file)?;
    let (pages, used) = (
        get_u32(mtr.bytes(head), PAGES_OFFSET),
        get_u32(mtr.bytes(head), USED_OFFSET),
    );
    let least = keep.max(pages.saturating_sub(most));
    let end = rounded(free_end(&mut mtr, file, pages)?.max(least));
    if end >= pages {
        return Ok(0);
    }
    debug_assert!(end >= keep, "pages that are to be kept stay");
    debug_assert!(pages - end <= most, "I7: a step is bounded");
    let held = lock.lock();
    let bitmaps = (end..pages).filter(|no| is_bitmap(*no)).count() as u32;
    mtr.edit_u32(head, PAGES_OFFSET, end);
    mtr.edit_u32(head, USED_OFFSET, used - bitmaps);
    if get_u32(mtr.bytes(head), MIXED_OFFSET) >= extent_of(end) {
        mtr.edit_u32(head, MIXED_OFFSET, 0);
    }
    mtr.log_truncate(PageId::new(file, end));
    let lsn = mtr.commit();
    pool.flusher().truncate_file(file, end, pages, lsn)?;
    drop(held);
    Ok(pages - end)
}

/// Truncates a file that is longer than its header says: a crash came between log and truncation,
/// or recovery restored a page past the end. Called at open.
pub fn truncate_excess(pool: &Pool, file: FileId) -> Result<()> {
    let len = usage(pool, file)?.pages as u64 * PAGE_SIZE as u64;
    let open = pool.files().get(file)?.file;
    match open.len()? > len {
        true => open.set_len(len),
        false => Ok(()),
    }
}

/// The page from which on nothing is in use but bitmaps. Releases all bitmaps.
fn free_end(mtr: &mut Mtr<'_>, file: FileId, pages: u32) -> Result<PageNo> {
    let mut end = pages;
    while end > FIRST_BITMAP {
        let first = bitmap_of(end - 1);
        let handle = mtr.write(PageId::new(file, first))?;
        let found = last_used(mtr.bytes(handle), first, end);
        mtr.release(handle);
        match found {
            // A bitmap that marks only itself goes too. The first bitmap stays.
            Some(no) if no > first || first == FIRST_BITMAP => return Ok(no + 1),
            _ => end = first,
        }
    }
    Ok(end.max(HEADER_PAGE + 1))
}

fn last_used(bitmap: &[u8], first: PageNo, end: PageNo) -> Option<PageNo> {
    let extents = (extent_of(first)..=extent_of(end - 1)).rev();
    extents
        .map(|extent| (extent, word(bitmap, extent)))
        .find(|(_, word)| *word != 0)
        .map(|(extent, word)| bitmap::page_at(extent, 63 - word.leading_zeros()))
}

/// Rounds up to a length that growth would also reach: a small one, or page 0 and whole extents.
fn rounded(end: PageNo) -> PageNo {
    match end {
        0..=8 => 8,
        9..=16 => 16,
        17..=32 => 32,
        _ => {
            let whole = (end - 1).div_ceil(EXTENT_PAGES) * EXTENT_PAGES + 1;
            debug_assert!(whole >= end, "no page in use is cut off");
            whole
        }
    }
}

const _: () = assert!(PAGES_PER_BITMAP % EXTENT_PAGES == 0);
