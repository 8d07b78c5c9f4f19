//! Writing the page list.
//!
//! The file is complete under its name or not there: it is written under another one first. No
//! latch is taken: the list is a hint, and each frame is looked at for a moment.
//!
//! Called by: the engine, at a shutdown and on demand.
use super::format::{encode, runs_of};
use crate::base::ids::FIRST_TABLE_FILE;
use crate::base::{PageId, Result};
use crate::io::{Caching, Mode};
use crate::pool::buffer_pool::Pool;

/// Ends the name of a list that is being written.
const UNFINISHED: &str = ".incomplete";

/// Writes the list of the `percent` of pages that were used most of late. Returns how many.
pub fn dump(pool: &Pool, name: &str, percent: u32) -> Result<usize> {
    let mut pages = pool.store().list_pages();
    let all = pages.len();
    // The hottest first; of the same heat, those that come first in their files.
    pages.sort_unstable_by_key(|(id, refs)| (std::cmp::Reverse(*refs), *id));
    pages.truncate((all * percent.min(100) as usize).div_ceil(100));
    let mut ids: Vec<PageId> = pages.into_iter().map(|(id, _)| id).collect();
    ids.retain(|id| id.file >= FIRST_TABLE_FILE);
    ids.sort_unstable();
    ids.dedup();
    let text = encode(pool.database(), &runs_of(&ids));
    let (disk, unfinished) = (pool.disk(), format!("{name}{UNFINISHED}"));
    disk.remove(&unfinished)?;
    let file = disk.open(&unfinished, Mode::CreateUnsynced, Caching::Buffered)?;
    let written = file.write_at(text.as_bytes(), 0).and_then(|()| file.sync());
    drop(file);
    match written.and_then(|()| disk.rename(&unfinished, name)) {
        Ok(()) => Ok(ids.len()),
        Err(error) => {
            // The first error counts. An unfinished list is removed by the next dump, too.
            let _ = disk.remove(&unfinished);
            Err(error)
        }
    }
}
