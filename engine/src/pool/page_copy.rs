//! Pages of a file, read for a backup while other threads write them.
//!
//! A page is whole (B2) if its checksum and its number are right, or if it is all zeros. Any other
//! page was probably read during a write, so it is read again. If it is still not whole, it is
//! taken from the pool. A page that is not in the pool either is damaged, or was left by a load
//! that a crash ended. The caller gets the numbers of such pages.
//!
//! No page is read into the pool's frames.
//!
//! Latches: that of one page, for the time of a copy of it. Called by: the engine's backup.
use super::buffer_pool::Pool;
use super::page::{check, seal, PAGE_SIZE};
use crate::base::sync::give_way;
use crate::base::sync::holds_no_latch;
use crate::base::{PageId, PageNo, Result};
use crate::io::files::OpenFile;

/// Reads of a page that is being written.
const TRIES_MAX: usize = 100;

/// Reads pages from `first` on, as many as `into` takes. Returns the pages that are not whole.
pub fn copy_pages(pool: &Pool, open: &OpenFile, first: PageNo, into: &mut [u8]) -> Result<Vec<PageNo>> {
    debug_assert!(holds_no_latch(), "I5: a backup latches one page at a time");
    debug_assert_eq!(into.len() % PAGE_SIZE, 0, "whole pages are copied");
    open.file.read_at(into, first as u64 * PAGE_SIZE as u64)?;
    let mut broken = Vec::new();
    for (no, page) in (first..).zip(into.chunks_exact_mut(PAGE_SIZE)) {
        let id = PageId::new(open.id, no);
        if !is_whole(page, id) && !read_again(open, id, page)? && !copy_frame(pool, id, page) {
            broken.push(no);
        }
    }
    Ok(broken)
}

fn is_whole(page: &[u8], id: PageId) -> bool {
    check(page, id).is_ok() || page.iter().all(|byte| *byte == 0)
}

fn read_again(open: &OpenFile, id: PageId, page: &mut [u8]) -> Result<bool> {
    for _ in 0..TRIES_MAX {
        give_way();
        open.file.read_at(page, id.no as u64 * PAGE_SIZE as u64)?;
        if is_whole(page, id) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Takes the page from the pool. Its redo may not be durable yet, but the backup's log will have
/// it.
fn copy_frame(pool: &Pool, id: PageId, page: &mut [u8]) -> bool {
    let Some(frame) = pool.read_resident(id) else {
        return false;
    };
    page.copy_from_slice(&frame);
    seal(page);
    is_whole(page, id)
}
