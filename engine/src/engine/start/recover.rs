//! Recovery: from a directory with a log to an engine's parts.
//!
//! Order: the log is read; torn pages are restored; redo is applied; undo streams and catalog are
//! opened; files and catalog are compared. Single-threaded except for its reads. Called by
//! `open.rs`.
use super::checkpoint::{refuse_log_of_another, refuse_log_of_another_than, write_checkpoint};
use super::orphan_files::{self, Stuck};
use super::parts::{change_buffer, new_pool, redo_config, Opened};
use super::read_log::{apply_log, log_rate, read_log, LogFacts};
use crate::base::ids::{FIRST_TABLE_FILE, SYSTEM_FILE, UNDO_FILE};
use crate::base::{Counters, Error, FileId, Lsn, PageId, Result};
use crate::engine::config::{Config, Level, LogSink};
use crate::io::Disk;
use crate::pool::Pool;
use crate::redo::reader::scan;
use crate::redo::Redo;
use crate::space::{self, file_number};
use crate::table::Catalog;
use crate::txn::TrxSys;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// Opens the log, which has the records of `range`.
fn open_redo(disk: Arc<dyn Disk>, config: &Config, counters: Arc<Counters>, range: Range<Lsn>) -> Result<Arc<Redo>> {
    let redo = Redo::open(disk, redo_config(config), counters, range.start, range.end)?;
    debug_assert!(redo.lsn() >= range.end, "new records follow the log's end");
    debug_assert_eq!(
        redo.checkpoint_lsn(),
        range.start,
        "opening the log moves no checkpoint"
    );
    Ok(Arc::new(redo))
}

pub(super) fn recover(
    disk: Arc<dyn Disk>,
    config: &Config,
    counters: Arc<Counters>,
    (checkpoint, database): (Lsn, u64),
    names: &[String],
) -> Result<Opened> {
    let (facts, kept) = read_log(&*disk, checkpoint, config)?;
    assert!(facts.end >= checkpoint, "the log reaches its checkpoint");
    let redo = open_redo(disk.clone(), config, counters.clone(), checkpoint..facts.end)?;
    let pool = new_pool(disk.clone(), config, redo.clone(), counters.clone())?;
    let (mut files, dropped) = find_files(&pool, &facts, names)?;
    debug_assert!(
        files.contains(&SYSTEM_FILE),
        "without the system file nothing is opened"
    );
    refuse_log_of_another_than(&pool, database)?;
    // If only the process ended, its writes that were not synced are still in the system's cache,
    // and look durable.
    for file in files.intersection(&facts.touched) {
        pool.files().get(*file)?.file.sync()?;
    }
    let mut read_again = |each: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>| {
        scan(&*disk, checkpoint, &mut |_, end, group| each(end, group)).map(|_| ())
    };
    let (restored, mended) = pool.recovery().restore_torn(&facts.void, &mut read_again)?;
    if restored + mended > 0 {
        let note =
            format!("{restored} torn pages were restored from the doublewrite file, {mended} mended from the log");
        (config.log)(Level::Info, &note);
    }
    refuse_log_of_another_than(&pool, database)?;
    let mut unread = Unread::new();
    if facts.end > checkpoint {
        apply_log(&*disk, &pool, checkpoint, &facts, kept, &config.log)?;
        unread = finish_redo(&pool)?;
        debug_assert!(
            unread.keys().all(|page| facts.touched.contains(&page.file)),
            "only pages that the log changes are read"
        );
        log_rate(&pool, facts.end - checkpoint, &facts, &config.log);
    }
    space::check_header(&pool, SYSTEM_FILE)?;
    pool.set_database(space::database_of(&pool, SYSTEM_FILE)?);
    refuse_log_of_another(database, pool.database())?;
    // Not before the log was compared: files of two databases have the same numbers.
    let stuck = remove_all(&pool, dropped);
    space::check_header(&pool, UNDO_FILE)?;
    let (trx_sys, recovered) = TrxSys::open(pool.clone(), counters)?;
    let catalog = Catalog::open(&pool, change_buffer(config, &pool), config.table_text.clone())?;
    orphan_files::retry_removals(&pool, &catalog, &mut files, stuck, &config.log)?;
    orphan_files::remove_orphans(&pool, &catalog, &files, &facts, &config.log)?;
    check_table_files(&pool, &catalog, &files, &facts, &config.log)?;
    log_unread(&catalog, &unread, &config.log);
    pool.recovery().keep_void(facts.void);
    debug_assert!(redo.checkpoint_lsn() >= checkpoint, "a start moves no checkpoint back");
    // Last: the log is not needed any more, and no orphan file is left.
    if redo.needs_checkpoint() {
        pool.flush_all()?;
        write_checkpoint(&pool, pool.checkpoint_lsn())?;
    }
    Ok(Opened {
        pool,
        redo,
        trx_sys,
        catalog,
        recovered,
    })
}

/// Redo has been applied. A table's page that could not be read is left out; any other page ends
/// recovery.
fn finish_redo(pool: &Pool) -> Result<Unread> {
    let mut unread = Unread::new();
    pool.recovery().finish(&mut |page, why| {
        if page.file < FIRST_TABLE_FILE {
            return Err(why);
        }
        unread.insert(page, why);
        Ok(())
    })?;
    Ok(unread)
}

/// Registers the data files found. Not those that were dropped in the log: they come second.
fn find_files(pool: &Pool, facts: &LogFacts, names: &[String]) -> Result<(BTreeSet<FileId>, Vec<FileId>)> {
    let found: BTreeSet<FileId> = names.iter().filter_map(|n| file_number(n)).collect();
    let needed = facts.touched.iter().chain(&[SYSTEM_FILE, UNDO_FILE]);
    for file in needed.filter(|f| !facts.void.dropped().contains(f)) {
        if !found.contains(file) {
            return Err(Error::corrupt(format!(
                "data file {} is missing, but the redo log has changes for it: bring it back, or restore a backup",
                space::file_name(*file)
            )));
        }
    }
    let (dropped, open): (Vec<FileId>, Vec<FileId>) =
        (found.into_iter()).partition(|file| facts.void.dropped().contains(file));
    debug_assert!(
        open.iter().all(|file| !dropped.contains(file)),
        "a file that the log drops is not opened"
    );
    open.iter().for_each(|file| space::add_file(pool, *file));
    Ok((open.into_iter().collect(), dropped))
}

/// Removes the files of dropped tables; returns those that could not be removed.
fn remove_all(pool: &Pool, dropped: Vec<FileId>) -> Stuck {
    let removed = dropped.into_iter().map(|file| (file, space::remove_file(pool, file)));
    removed.filter_map(|(file, done)| Some((file, done.err()?))).collect()
}

/// Pages of tables that could not be read when the log had changes for them, and why.
type Unread = BTreeMap<PageId, Error>;

fn log_unread(catalog: &Catalog, unread: &Unread, log: &LogSink) {
    for (page, why) in unread {
        let name = catalog
            .by_id(page.file)
            .map_or_else(|| "(dropped)".into(), |table| catalog.shown(&table));
        log(
            Level::Error,
            &format!("recovery: table {name}: {why}; the log's changes of the page are lost, the rest of the table was recovered; check the table"),
        );
    }
}

/// Files and catalog must agree: a table whose file is missing or broken is refused when it is
/// opened. Only the files that the log has changed are looked into: their growth may have to be
/// done again. So the time of opening does not depend on the number of tables. Other files' headers
/// are checked when their tables are opened.
fn check_table_files(
    pool: &Pool,
    catalog: &Catalog,
    files: &BTreeSet<FileId>,
    facts: &LogFacts,
    log: &LogSink,
) -> Result<()> {
    for file in files.intersection(&facts.touched) {
        if let Some(table) = catalog.by_id(*file) {
            match space::verify_header(pool, *file) {
                // Nothing is wrong with the table: a disk that is full, or fails for a moment, does
                // not make it broken.
                Ok(()) => space::restore_length(pool, *file)?,
                Err(e) if e.is_lost_header() => {}
                Err(e) if !matches!(e, Error::Corrupt(_) | Error::Unsupported(_)) => return Err(e),
                Err(e) => {
                    log(
                        Level::Error,
                        &format!("table {} cannot be used: {e}", catalog.shown(&table)),
                    );
                    table.set_broken(&e.to_string());
                }
            }
        }
    }
    for table in catalog.tables() {
        let file = table.layout().id;
        debug_assert!(file >= FIRST_TABLE_FILE, "no table has one of the engine's own files");
        if !files.contains(&file) {
            let why = format!("its data file {} is missing", space::file_name(file));
            log(
                Level::Error,
                &format!("table {} cannot be used: {why}", catalog.shown(&table)),
            );
            table.set_broken(&why);
        }
    }
    Ok(())
}
