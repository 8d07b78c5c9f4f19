//! Allocation of pages and extents.
//!
//! Latches: page 0 is the file's allocation latch. A thread that allocates or frees X-latches page
//! 0 first, then bitmaps in any order, all until the Mtr ends. With bitmaps first, two threads that
//! each hold a bitmap and allocate a second page would wait for each other. Callers hold their tree
//! or undo pages already, and latch no further old page afterwards. The choice of a page is in
//! `page_search`. Called by: `btree`, `txn` (undo), `table` (overflow, catalog).
use super::bitmap::{page_at, EXTENT_PAGES};
use super::page_search::{Picked, Search};
use crate::base::{Error, FileId, PageNo, Result};
use crate::pool::Mtr;

/// Reserves one page near `hint` (0 = anywhere): marks it used and latches its frame, so that the
/// caller's `Mtr::create` of it cannot fail. Extends the file when needed. Every error,
/// `Error::Full` among them, comes before any change.
pub fn allocate(mtr: &mut Mtr<'_>, file: FileId, hint: PageNo) -> Result<PageNo> {
    Ok(pick_pages(mtr, file, hint, 1)?[0])
}

/// As [`allocate`], for `n` pages: all or none.
pub fn allocate_many(mtr: &mut Mtr<'_>, file: FileId, hint: PageNo, n: usize) -> Result<Vec<PageNo>> {
    Ok(pick_pages(mtr, file, hint, n)?.into_vec())
}

/// As [`allocate`], for `n` runs of `len` adjacent pages, each within one extent: all or none.
/// Returns the first page of each run.
pub fn allocate_runs(mtr: &mut Mtr<'_>, file: FileId, hint: PageNo, n: usize, len: u32) -> Result<Vec<PageNo>> {
    let mut search = Search::begin(mtr, file)?;
    let mut firsts = Vec::with_capacity(n);
    let mut near = hint;
    for left in (1..=n as u32).rev() {
        let first = search.pick_run(near, len, left)?;
        debug_assert!(
            (first - 1) / EXTENT_PAGES == (first + len - 2) / EXTENT_PAGES,
            "a run lies in one extent"
        );
        debug_assert!(!search.picked.contains(&first), "a page is picked once");
        search.picked.extend(first..first + len);
        firsts.push(first);
        near = first + len - 1;
    }
    search.take()?;
    Ok(firsts)
}

/// Makes room for `n` more pages, on disk too: their allocation does not fail with `Error::Full`.
/// Changes nothing on error.
pub fn ensure_free(mtr: &mut Mtr<'_>, file: FileId, n: u32) -> Result<()> {
    let mut search = Search::begin(mtr, file)?;
    if search.free_count() < n {
        search.grow(n - search.free_count())?;
        search.take()?;
    }
    Ok(())
}

fn pick_pages(mtr: &mut Mtr<'_>, file: FileId, hint: PageNo, n: usize) -> Result<Picked> {
    let mut search = Search::begin(mtr, file)?;
    let mut hint = hint;
    for left in (1..=n as u32).rev() {
        let page = search.pick(hint, left)?;
        debug_assert!(!search.picked.contains(&page), "a page is picked once");
        search.picked.push(page);
        hint = page;
    }
    search.take()
}

/// Marks a wholly free extent as used; returns its first page. The caller initialises the pages.
/// `may_take` is asked for the first page. None: it refused, and nothing was changed. Errors come
/// before any change.
pub fn allocate_extent(
    mtr: &mut Mtr<'_>,
    file: FileId,
    may_take: &mut dyn FnMut(PageNo) -> bool,
) -> Result<Option<PageNo>> {
    let mut search = Search::begin(mtr, file)?;
    let empty = |word: u64| word == 0;
    let mut found = search.find_extent(search.empty_hint, empty)?;
    if found.is_none() {
        // Two extents, in case the first one begins with a bitmap.
        match search.grow(2 * EXTENT_PAGES) {
            Err(Error::Full(_)) => {
                let need = search.pages_up_to_next_extent()?;
                search.grow(need)?;
            }
            grown => grown?,
        }
        found = search.find_extent(search.empty_hint, empty)?;
    }
    let extent = found.ok_or_else(|| search.counts_are_wrong())?;
    search.word(extent)?;
    search.empty_hint = extent + 1;
    match may_take(page_at(extent, 0)) {
        true => search.take_extent(extent).map(Some),
        false => Ok(None),
    }
}
