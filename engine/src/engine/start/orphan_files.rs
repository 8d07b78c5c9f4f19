//! Data files that the catalog does not name (orphan files), at open. Such a file is removed only
//! with a proof that it holds no rows of a table.
//!
//! | proof | what happened |
//! |---|---|
//! | the log drops the file | DROP, TRUNCATE, a failed CREATE; removed before the catalog opens |
//! | `space/orphans.rs` names it | the same, and it could not be removed then; tried again |
//! | the log creates it | a crash ended CREATE or TRUNCATE before the catalog named it: no rows |
//! | it has only zeros | the same, before the log had a record of it (I1) |
//!
//! DDL holds the checkpoint back from its log record to its change of the directory
//! (`redo/checkpoint.rs`). So every file that the engine itself left has a proof. The files of
//! temporary tables have names of their own. Any other file stops the start, before a file is
//! removed. A newer catalog, or another database's, has its table. This engine must neither remove
//! such rows, nor work with a catalog that lacks their table. Called by `recover.rs`.
use super::read_log::LogFacts;
use crate::base::ids::{SYSTEM_FILE, UNDO_FILE};
use crate::base::{Error, FileId, Result};
use crate::engine::config::{Level, LogSink};
use crate::pool::Pool;
use crate::redo::FlushMode;
use crate::space;
use crate::table::Catalog;
use std::collections::BTreeSet;

/// Files that could not be removed, and why.
pub(super) type Stuck = Vec<(FileId, Error)>;

/// Removes the files that the catalog does not name. `Error::Corrupt`: one of them may hold rows.
pub(super) fn remove_orphans(
    pool: &Pool,
    catalog: &Catalog,
    files: &BTreeSet<FileId>,
    facts: &LogFacts,
    log: &LogSink,
) -> Result<()> {
    let has_no_table = |file: &FileId| ![SYSTEM_FILE, UNDO_FILE].contains(file) && catalog.by_id(*file).is_none();
    let orphans: Vec<FileId> = files.iter().copied().filter(has_no_table).collect();
    let mut kept = Vec::new();
    for file in &orphans {
        if !is_unfinished(pool, *file, facts)? {
            kept.push(space::file_name(*file));
        }
    }
    if !kept.is_empty() {
        return Err(Error::corrupt(format!(
            "no table has these data files, and the log does not say that they were dropped: {}. The catalog ({}) or the whole directory \
             is older than they are: restore all of its files from one and the same backup. If their rows are not wanted, move them away",
            kept.join(", "),
            space::file_name(SYSTEM_FILE)
        )));
    }
    for file in orphans {
        let mut mtr = pool.begin();
        catalog.pass_number(&mut mtr, file)?;
        space::log_drop(&mut mtr, file);
        let lsn = mtr.commit();
        pool.redo().flush(lsn, FlushMode::Sync)?;
        debug_assert!(
            pool.redo().is_flushed(lsn, FlushMode::Sync),
            "a file is removed after the log says so"
        );
        let name = space::file_name(file);
        log(
            Level::Info,
            &format!("data file {name}, of a CREATE or TRUNCATE that did not finish, is removed"),
        );
        space::remove_dropped(pool, file, &|text| log(Level::Warning, text))?;
    }
    Ok(())
}

/// Removes files of dropped tables that could not be unlinked before. `stuck`: files that the log
/// says were dropped, and whose removal failed just now. The system file names these from now on.
/// The files that it named before are tried again, and taken out of `files`.
pub(super) fn retry_removals(
    pool: &Pool,
    catalog: &Catalog,
    files: &mut BTreeSet<FileId>,
    mut stuck: Stuck,
    log: &LogSink,
) -> Result<()> {
    debug_assert!(
        stuck.iter().all(|(file, _)| !files.contains(file)),
        "a file that the log drops is not open"
    );
    for (file, _) in &stuck {
        space::note_orphan(pool, *file)?;
    }
    for file in space::orphans(pool)? {
        if stuck.iter().any(|(known, _)| *known == file) {
            continue;
        }
        if catalog.by_id(file).is_some() {
            return Err(Error::corrupt(format!(
                "{} belongs to a table and to a dropped table",
                space::file_name(file)
            )));
        }
        files.remove(&file);
        match space::remove_file(pool, file) {
            Ok(()) => space::forget_orphan(pool, file)?,
            Err(why) => stuck.push((file, why)),
        }
    }
    for (file, why) in &stuck {
        log(Level::Warning, &space::orphan_message(&space::file_name(*file), why));
    }
    Ok(())
}

/// A statement that did not finish created the file. A header with other numbers is of another
/// database, or of a later time than the log.
fn is_unfinished(pool: &Pool, file: FileId, facts: &LogFacts) -> Result<bool> {
    if facts.made.contains(&file) {
        return match space::verify_header(pool, file) {
            Err(Error::Corrupt(_) | Error::Unsupported(_)) => Ok(false),
            header => header.map(|()| true),
        };
    }
    space::is_blank(pool, file)
}
