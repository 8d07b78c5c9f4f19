//! Orphans: data files of dropped tables that could not be unlinked.
//!
//! The system file's header page lists them, so that the next start knows them and retries. A file
//! is listed after its FILE_DROP is durable, and while the checkpoint is still held back. Its
//! number is never given again (I10), so a listed file holds no rows of an existing table. Layout:
//! `MAX` file numbers (u32, 0 = none) at `OFFSET` of the header page; older databases have zeros
//! there. Takes the header's latch in Mtrs of its own. Called by: `file`, under the DDL mutex, and
//! the engine at open.
use super::header::{header, HEADER_PAGE};
use crate::base::bytes::get_u32;
use crate::base::ids::SYSTEM_FILE;
use crate::base::{Error, FileId, PageId, Result};
use crate::pool::{Pool, PAGE_SIZE};

const OFFSET: usize = 512;
/// Number of entries: half of the rest of the page.
const MAX: usize = (PAGE_SIZE - OFFSET) / 8;

/// All files listed.
pub fn orphans(pool: &Pool) -> Result<Vec<FileId>> {
    let mut files = places(pool)?;
    files.retain(|file| *file != 0);
    Ok(files)
}

/// Lists a file; durable on return. `Error::Full`: the list is full.
pub fn note_orphan(pool: &Pool, file: FileId) -> Result<()> {
    debug_assert_ne!(file, 0, "0 marks a free place of the list");
    let places = places(pool)?;
    if places.contains(&file) {
        return Ok(());
    }
    let full = || Error::Full(format!("{MAX} files of dropped tables could not be removed"));
    let free = places.iter().position(|known| *known == 0).ok_or_else(full)?;
    put(pool, free, file)
}

/// Removes a file from the list, after it was unlinked.
pub fn forget_orphan(pool: &Pool, file: FileId) -> Result<()> {
    match places(pool)?.iter().position(|known| *known == file) {
        Some(place) => put(pool, place, 0),
        None => Ok(()),
    }
}

fn places(pool: &Pool) -> Result<Vec<FileId>> {
    let page = pool.read(PageId::new(SYSTEM_FILE, HEADER_PAGE))?;
    Ok((0..MAX).map(|n| get_u32(&page, OFFSET + 4 * n)).collect())
}

fn put(pool: &Pool, place: usize, file: FileId) -> Result<()> {
    let mut mtr = pool.begin();
    let page = header(&mut mtr, SYSTEM_FILE)?;
    debug_assert!(
        file == 0 || get_u32(mtr.bytes(page), OFFSET + 4 * place) == 0,
        "a place of the list holds one file"
    );
    mtr.edit_u32(page, OFFSET + 4 * place, file);
    let lsn = mtr.commit();
    pool.sync_log(lsn)
}
