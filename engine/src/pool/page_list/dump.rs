//! Writing the page list.
//!
//! The file is written under another name first, so under its own name it is always complete. No
//! latch is taken, because the list is only a hint: each frame's page is read from the header.
//!
//! Called by: the engine, at a shutdown and on demand.
use super::format::{encode, runs_of};
use crate::base::ids::FIRST_TABLE_FILE;
use crate::base::{PageId, Result};
use crate::io::{Caching, Mode};
use crate::pool::buffer_pool::Pool;

/// Ends the name of a list that is being written.
const UNFINISHED: &str = ".incomplete";

/// Writes the list of the `percent` most recently used pages. Returns their number.
pub fn dump(pool: &Pool, name: &str, percent: u32) -> Result<usize> {
    let mut pages = pool.store().list_pages();
    let all = pages.len();
    // Sorted by references, and then by place.
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
