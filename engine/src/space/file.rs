//! Data files as files: create, open, check, remove.
//!
//! Creating: the file is durable with its name before the first log record names it. A crash in
//! between leaves a blank file, which the engine removes at open. Dropping: FILE_DROP is durable
//! before the file is unlinked. A crash in between leaves a file that recovery removes. So redo
//! meets a missing file only if the file was dropped later in the log. The callers hold the
//! checkpoint back meanwhile, so that both records stay in the log as long as they may be needed
//! (`engine/start/orphan_files.rs`). A file that cannot be unlinked is listed (`orphans`). The name
//! of a temporary table's file marks it as temporary; the engine removes such files at open. Called
//! by: the table layer's DDL, and `engine` at open.
use super::bitmap::FIRST_BITMAP;
use super::bitmap_page::format_bitmap;
use super::header::{
    file_name, DATABASE_OFFSET, FILE_OFFSET, FLAGS_OFFSET, FLAG_TEMPORARY, FORMAT_OFFSET, FORMAT_VERSION, HEADER_PAGE,
    MAGIC, MAGIC_OFFSET, PAGES_OFFSET, PAGE_SIZE_OFFSET, USED_OFFSET,
};
use super::orphans::note_orphan;
use crate::base::bytes::{get_u32, get_u64};
use crate::base::{Error, FileId, PageId, Result};
use crate::io::{Caching, Mode};
use crate::pool::{Mtr, PageType, Pool, PAGE_SIZE};

/// Pages of a new file: header, bitmap and six more. Small tables stay small.
const FIRST_PAGES: u32 = 8;
const _: () = assert!(
    FIRST_PAGES > FIRST_BITMAP,
    "a new file has its header and its first bitmap"
);
/// Prefix of the names of files that are removed at a restart.
pub const TEMPORARY_PREFIX: &str = "tmp_";

/// Creates the file, durable with its name on return, and registers it in the pool's file table.
/// Formats header and first bitmap in an Mtr of its own, which begins with FILE_NEW unless the file
/// is temporary. On error nothing remains.
pub fn create_file(pool: &Pool, file: FileId, temporary: bool) -> Result<()> {
    pool.check_alive()?;
    let name = match temporary {
        true => format!("{TEMPORARY_PREFIX}table_{file:08x}"),
        false => file_name(file),
    };
    let made = pool.files().create(&name)?;
    pool.files().add(file, &name, !temporary);
    let sized = made.set_len(FIRST_PAGES as u64 * PAGE_SIZE as u64);
    let result = (sized.and_then(|()| made.sync())).and_then(|()| format_file(pool, file, &name, temporary));
    if result.is_err() {
        // The first error is returned; a blank file that remains is removed at the next open.
        let _ = remove_file(pool, file);
    }
    result
}

fn format_file(pool: &Pool, file: FileId, name: &str, temporary: bool) -> Result<()> {
    let mut mtr = pool.begin();
    // Both frames are reserved before any change: an error must leave nothing half done.
    let header = PageId::new(file, HEADER_PAGE);
    let bitmap = PageId::new(file, FIRST_BITMAP);
    mtr.reserve(header)?;
    mtr.reserve(bitmap)?;
    if !temporary {
        mtr.log_file_new(file, name);
    }
    let h = mtr.create(header, 0, PageType::FileHeader, 0)?;
    mtr.edit(h, MAGIC_OFFSET, MAGIC);
    mtr.edit_u32(h, FORMAT_OFFSET, FORMAT_VERSION);
    mtr.edit_u32(h, PAGE_SIZE_OFFSET, PAGE_SIZE as u32);
    mtr.edit_u32(h, FILE_OFFSET, file);
    mtr.edit_u32(h, FLAGS_OFFSET, if temporary { FLAG_TEMPORARY } else { 0 });
    mtr.edit_u32(h, PAGES_OFFSET, FIRST_PAGES);
    mtr.edit_u32(h, USED_OFFSET, 2);
    mtr.edit_u64(h, DATABASE_OFFSET, pool.database());
    format_bitmap(&mut mtr, bitmap)?;
    mtr.commit();
    Ok(())
}

/// Registers an existing file. Reads nothing of it: redo may still have to restore its header. Call
/// `check_header` before the file is used.
pub fn add_file(pool: &Pool, file: FileId) {
    pool.files().add(file, &file_name(file), true);
}

/// [`verify_header`], then [`restore_length`].
pub fn check_header(pool: &Pool, file: FileId) -> Result<()> {
    verify_header(pool, file)?;
    restore_length(pool, file)
}

/// Checks that the file is a data file of this format, page size, number and database, and not
/// newer than the log.
pub fn verify_header(pool: &Pool, file: FileId) -> Result<()> {
    let opened = pool.files().get(file)?.file;
    let page = pool.read(PageId::new(file, HEADER_PAGE))?;
    let path = opened.path();
    if &page[MAGIC_OFFSET..MAGIC_OFFSET + 8] != MAGIC {
        return Err(Error::corrupt(format!("{path}: not a Sluice data file")));
    }
    let format = get_u32(&page, FORMAT_OFFSET);
    if format != FORMAT_VERSION {
        return Err(Error::Unsupported(format!(
            "{path}: file format {format}; this build reads format {FORMAT_VERSION}"
        )));
    }
    let page_size = get_u32(&page, PAGE_SIZE_OFFSET);
    if page_size as usize != PAGE_SIZE {
        return Err(Error::Unsupported(format!(
            "{path}: pages of {page_size} bytes; this build reads pages of {PAGE_SIZE}"
        )));
    }
    let number = get_u32(&page, FILE_OFFSET);
    if number != file {
        return Err(Error::corrupt(format!("{path}: the file says it is number {number}")));
    }
    let (theirs, ours) = (get_u64(&page, DATABASE_OFFSET), pool.database());
    if theirs != 0 && ours != 0 && theirs != ours {
        return Err(Error::corrupt(format!(
            "{path}: page 0 says that the file is of another database"
        )));
    }
    let end = pool.redo().lsn();
    if page.version() > end {
        return Err(Error::corrupt(format!(
            "{path}: page 0 is of LSN {}, the redo log ends at {end}: the file or the log is of another database, or of a later time",
            page.version()
        )));
    }
    Ok(())
}

/// Makes the file as long as its header says: a growth may have been logged and not durable at a
/// crash. An error is the disk's affair: there is nothing wrong with what the file holds.
pub fn restore_length(pool: &Pool, file: FileId) -> Result<()> {
    let opened = pool.files().get(file)?.file;
    let pages = get_u32(&pool.read(PageId::new(file, HEADER_PAGE))?, PAGES_OFFSET);
    let len = pages as u64 * PAGE_SIZE as u64;
    if opened.len()? < len {
        opened.set_len(len)?;
    }
    Ok(())
}

/// Logs FILE_DROP in `mtr`; after that Mtr is durable call `remove_dropped`.
pub fn log_drop(mtr: &mut Mtr<'_>, file: FileId) {
    mtr.log_file_drop(file);
}

/// Drops the file's pages from the pool, unregisters the file, unlinks it. Idempotent. On error
/// everything but the unlink is done.
pub fn remove_file(pool: &Pool, file: FileId) -> Result<()> {
    unlink(pool, file).1
}

/// As `remove_file`, for a file whose FILE_DROP is durable and still in the log. A file that cannot
/// be unlinked is no error: it becomes an orphan, and `warn` gets a line for the log. An error: the
/// orphan could not be noted either, and the engine is poisoned (I6).
pub fn remove_dropped(pool: &Pool, file: FileId, warn: &dyn Fn(&str)) -> Result<()> {
    let (name, removed) = unlink(pool, file);
    let Err(why) = removed else {
        return Ok(());
    };
    // The name of a temporary table's file says enough: the next start removes it.
    if !name.starts_with(TEMPORARY_PREFIX) {
        note_orphan(pool, file).inspect_err(|e| {
            pool.poison(&format!(
                "a data file could not be removed: {why}; nor could that be noted: {e}"
            ));
        })?;
    }
    warn(&orphan_message(&name, &why));
    Ok(())
}

/// The line for the log about a file that could not be unlinked.
pub fn orphan_message(name: &str, why: &Error) -> String {
    format!(
        "file {name} of a table that is gone could not be removed: {why}; nothing needs it, each start tries again, and it may be removed by hand"
    )
}

/// Returns the file's name, and the result of the unlink.
fn unlink(pool: &Pool, file: FileId) -> (String, Result<()>) {
    // The file is unregistered first: no flush and no read-ahead of it begins after this.
    let name = pool.files().remove(file).unwrap_or_else(|| file_name(file));
    pool.discard_file(file);
    debug_assert!(
        !pool.files().contains(file),
        "no page of a file that is removed is written"
    );
    let removed = pool.disk().remove(&name);
    (name, removed)
}

/// The file holds only zero bytes: nothing was written to it, though it may have been extended.
pub fn is_blank(pool: &Pool, file: FileId) -> Result<bool> {
    // A crash may leave any length, also one that direct I/O cannot read.
    let open = (pool.disk()).open(&file_name(file), Mode::Open, Caching::Buffered)?;
    let len = open.len()?;
    let mut bytes = vec![0; 64 << 10];
    let mut at = 0;
    while at < len {
        let part = (len - at).min(bytes.len() as u64);
        let bytes = &mut bytes[..part as usize];
        open.read_at(bytes, at)?;
        if bytes.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        at += part;
    }
    Ok(true)
}
