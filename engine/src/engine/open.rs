//! Opening: a fresh directory is created, any other recovered.
//!
//! | found | what happens |
//! |---|---|
//! | nothing | log, system file, undo file and catalog are made; a checkpoint with [`READY`] says that this is finished |
//! | a log that never had a checkpoint | creation was cut short: everything is removed and made anew |
//! | a log | recovery: doublewrite, redo, undo streams, catalog |
//! | data files, but no log | refused: someone took the log away |
//! | a log of another database | refused, before anything of it is applied |
//! | a log that was off | refused by name: the data files may hold half of any change (`redo/switch.rs`) |
//! | redo for a data file that is missing and not dropped later | refused by name |
//! | a data file that the catalog does not name | removed if DDL was cut short or it was a temporary table, else refused (`unnamed`) |
//!
//! The log is read to its end before anything of it is applied: a later part of it may make an earlier one void. What is read is kept
//! as far as memory allows, and the rest read a second time. Pages are never written behind the log (I1), so nothing that was read
//! can change in between.
use super::config::{Config, Level, LogSink};
use super::deadlocks::{self, Teller};
use super::undecided::Undecided;
use super::unnamed::{self, Stuck};
use super::workers::Workers;
use super::Engine;
use crate::base::ids::{FIRST_TABLE_FILE, SYSTEM_FILE, UNDO_FILE};
use crate::base::{Counters, Error, FileId, Lsn, PageId, Result};
use crate::btree;
use crate::change::ChangeBuffer;
use crate::io::{Caching, Disk, Files};
use crate::pool::{split, Gathered, Piece, Pool, PoolConfig, Void};
use crate::redo::ahead::scan_ahead;
use crate::redo::reader::scan;
use crate::redo::record::Record;
use crate::redo::{Redo, RedoConfig};
use crate::space;
use crate::table::Catalog;
use crate::table::Store;
use crate::txn::{RecoveredTrx, TrxSys};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::Arc;

/// Payload of every checkpoint of an engine whose creation is finished: this, then the database's number (u64; absent in logs older
/// than these numbers).
const READY: &[u8] = b"SLUICE-READY-1";
/// Bytes of redo between two notes of progress.
const NOTE_EVERY: u64 = 64 << 20;
/// From less than this much redo nobody can tell how fast recovery is.
const RATE_BYTES_MIN: u64 = 4 << 20;

impl Engine {
    pub fn open(disk: Arc<dyn Disk>, config: Config) -> Result<Arc<Engine>> {
        let engine = Engine::open_still(disk, config)?;
        *engine.workers.lock() = Some(Workers::start(&engine.store, &engine.log));
        Ok(engine)
    }
    /// Without threads: nothing happens but what the caller does, background steps included. For the simulation.
    pub(super) fn open_still(disk: Arc<dyn Disk>, config: Config) -> Result<Arc<Engine>> {
        let counters = Arc::new(Counters::default());
        let day_at_zero_us = (disk.wall_s() * 1_000_000).saturating_sub(disk.now_us());
        let opened = Opened::on(disk, &config, counters).map_err(with_way_out)?;
        let store = Arc::new(Store::new(
            opened.pool,
            opened.redo,
            opened.trx_sys,
            opened.catalog,
            &config.store,
            config.log.clone(),
        ));
        let (prepared, losers): (Vec<RecoveredTrx>, Vec<RecoveredTrx>) =
            opened.recovered.into_iter().partition(|r| r.xid.is_some());
        let tops = prepared.iter().map(|r| (r.id, store.trx_sys.undo_top_found(r)));
        let undecided = Undecided::found_at_open(tops.collect(), &losers);
        let teller = Teller {
            store: Arc::downgrade(&store),
            key_text: config.key_text,
            told: deadlocks::Told::default(),
        };
        let print_all_deadlocks = Arc::new(AtomicBool::new(false));
        deadlocks::tell_all(teller.clone(), print_all_deadlocks.clone(), config.log.clone());
        let engine = Arc::new(Engine {
            store,
            log: config.log,
            commit_flush: AtomicU64::new(config.commit_flush.number()),
            workers: Mutex::new(None),
            purge_threads: config.purge_threads,
            losers: Mutex::new(losers),
            prepared: Mutex::new(prepared),
            switching: Mutex::default(),
            publishing: Mutex::default(),
            parked: Mutex::default(),
            cut_short: Mutex::default(),
            undecided,
            teller,
            print_all_deadlocks,
            day_at_zero_us,
        });
        engine.set_commit_flush(config.commit_flush);
        Ok(engine)
    }
}

/// What keeps the engine from opening is not repaired here.
fn with_way_out(error: Error) -> Error {
    match error {
        Error::Corrupt(mut damage) if !damage.what.to_lowercase().contains("restore ") => {
            damage.what += "; restore the engine's directory from a backup; sluice-check tells what is whole, and its --dump saves rows, as long \
                            as the catalog can be read";
            Error::Corrupt(damage)
        }
        // The log is as it was. What could not be read is not left out: it may be a sound old version.
        Error::Io(mut damage) if damage.file != 0 => {
            let way = match damage.file < FIRST_TABLE_FILE {
                true => "restore the engine's directory from a backup",
                false => {
                    "put a copy of the file in its place, made with ddrescue, or dd bs=4096 conv=noerror,sync: what could not be read is a broken \
                     page then, which the start leaves out and names"
                }
            };
            let no = damage.page.unwrap_or(0);
            let kept = "nothing is lost as long as the redo log is kept: start again once it can be read";
            damage.what += &format!(" (page {no}); {kept}; if that lasts: {way}");
            Error::Io(damage)
        }
        error => error,
    }
}

pub(super) fn write_checkpoint(pool: &Pool, lsn: Lsn) -> Result<()> {
    let payload = [READY, &pool.database().to_le_bytes()].concat();
    pool.redo().write_checkpoint(lsn, &payload)
}

/// The database that the log is of, by its newest checkpoint; 0: older than these numbers. None: of a kind not known here.
fn database_of_log(payload: &[u8]) -> Option<u64> {
    let number = payload.strip_prefix(READY)?;
    if number.is_empty() {
        return Some(0);
    }
    Some(u64::from_le_bytes(number.try_into().ok()?))
}

/// LSNs alone do not tell two databases apart. `files`: the number that the data files have.
fn refuse_log_of_another(log: u64, files: u64) -> Result<()> {
    if log == 0 || files == 0 || log == files {
        return Ok(());
    }
    Err(Error::corrupt(
        "the redo log is of another database than the data files: bring back the files redo_* that belong to them, or restore a backup",
    ))
}

/// The same of the data files as they are on disk, if the page that tells is whole there.
fn refuse_log_of_another_than(pool: &Pool, log: u64) -> Result<()> {
    match space::database_on_disk(pool, SYSTEM_FILE)? {
        Some(files) => refuse_log_of_another(log, files),
        None => Ok(()),
    }
}

struct Opened {
    pool: Arc<Pool>,
    redo: Arc<Redo>,
    trx_sys: Arc<TrxSys>,
    catalog: Catalog,
    recovered: Vec<RecoveredTrx>,
}

impl Opened {
    fn on(disk: Arc<dyn Disk>, config: &Config, counters: Arc<Counters>) -> Result<Opened> {
        let names = disk.list()?;
        if !Redo::exists(&*disk)? {
            if let Some(name) = names.iter().find(|n| file_number(n).is_some()) {
                return Err(Error::corrupt(format!(
                    "data file {name} is here, but the redo log is not: bring back the files redo_*, or restore a backup"
                )));
            }
            return create(disk, config, counters);
        }
        let (checkpoint, payload) = Redo::read_checkpoint(&*disk)?;
        if Redo::was_left_off(&*disk)? {
            return Err(super::redo_switch::refusal(&*disk, &names)?);
        }
        if payload.is_empty() {
            for name in names.iter().filter(|n| is_ours(n)) {
                disk.remove(name)?;
            }
            return create(disk, config, counters);
        }
        let Some(database) = database_of_log(&payload) else {
            return Err(Error::Unsupported(
                "the redo log's checkpoint is of a kind that this build does not know".into(),
            ));
        };
        for name in names.iter().filter(|n| n.starts_with(space::TEMPORARY_PREFIX)) {
            if let Err(why) = disk.remove(name) {
                (config.log)(Level::Warning, &space::tell_left_over(name, &why));
            }
        }
        recover(disk, config, counters, (checkpoint, database), &names)
    }
}

fn is_ours(name: &str) -> bool {
    file_number(name).is_some()
        || name == "doublewrite"
        || name.starts_with("redo_")
        || name.starts_with(space::TEMPORARY_PREFIX)
}

/// The number of a data file, by its name.
pub(super) fn file_number(name: &str) -> Option<FileId> {
    let digits = name.strip_suffix(".slu").filter(|d| d.len() == 8)?;
    FileId::from_str_radix(digits, 16).ok()
}

fn redo_config(config: &Config) -> RedoConfig {
    RedoConfig {
        capacity: config.redo_log_capacity,
        buffer_size: config.redo_log_buffer_size,
        direct_io: config.direct_io,
    }
}

fn new_pool(disk: Arc<dyn Disk>, config: &Config, redo: Arc<Redo>, counters: Arc<Counters>) -> Result<Arc<Pool>> {
    let pool_config = PoolConfig {
        size: config.buffer_pool_size,
        doublewrite: config.doublewrite,
        io_capacity: config.io_capacity,
        io_capacity_max: config.io_capacity_max,
        read_io_threads: config.read_io_threads,
        check_body: btree::check_body,
    };
    let caching = if config.direct_io {
        Caching::Direct
    } else {
        Caching::Buffered
    };
    let files = Arc::new(Files::new(disk.clone(), caching, config.open_files as usize));
    let unused = files.clone();
    redo.set_files_closer(Box::new(move || unused.close_half()));
    Pool::new(pool_config, disk, files, redo, counters)
}

fn change_buffer(config: &Config, pool: &Pool) -> Arc<ChangeBuffer> {
    let percent = config.change_buffer_max_size_percent;
    let mode = config.change_buffer_test_mode;
    let buffer = ChangeBuffer::new(config.change_buffering, percent, pool.size(), mode);
    buffer.set_max_disk_size(config.change_buffer_max_disk_size);
    buffer.set_age_max(config.change_buffer_max_age_s as u64);
    pool.set_imprinter(buffer.imprinter());
    Arc::new(buffer)
}

fn create(disk: Arc<dyn Disk>, config: &Config, counters: Arc<Counters>) -> Result<Opened> {
    (config.log)(Level::Info, "no database is here yet: a new one is made");
    let redo = Arc::new(Redo::create(disk.clone(), redo_config(config), counters.clone())?);
    let pool = new_pool(disk, config, redo.clone(), counters.clone())?;
    pool.set_database(pool.disk().random() | 1);
    space::create_file(&pool, SYSTEM_FILE, false)?;
    TrxSys::create(&pool)?;
    Catalog::create(&pool)?;
    pool.flush_all()?;
    // In both places for it: one that cannot be read later leaves no checkpoint that says that this is not finished.
    for _ in 0..2 {
        write_checkpoint(&pool, pool.checkpoint_lsn())?;
    }
    let (trx_sys, recovered) = TrxSys::open(pool.clone(), counters)?;
    let catalog = Catalog::open(&pool, change_buffer(config, &pool), config.table_text.clone())?;
    Ok(Opened {
        pool,
        redo,
        trx_sys,
        catalog,
        recovered,
    })
}

/// What reading the log finds.
#[derive(Default)]
pub(super) struct LogFacts {
    void: Void,
    touched: BTreeSet<FileId>,
    /// Files that it says were made.
    pub made: BTreeSet<FileId>,
    end: Lsn,
    /// When reading began.
    start_us: u64,
}

/// And the log from its checkpoint on, as far as it may be kept.
fn read_log(disk: &dyn Disk, from: Lsn, config: &Config) -> Result<(LogFacts, Gathered)> {
    let mut facts = LogFacts {
        start_us: disk.now_us(),
        ..LogFacts::default()
    };
    let mut kept = Gathered::new(Pool::gather_max(config.buffer_pool_size));
    let mut notes = Notes::begin(disk, from);
    // Of the files that were met last: the set itself is too slow to be asked for every piece.
    let mut met: [FileId; 64] = [0; 64];
    let read = if config.read_io_threads > 0 { scan_ahead } else { scan };
    let end = read(disk, from, &mut |start, end, group| {
        let keep = !kept.is_full();
        split(end, group, &mut |piece| {
            match piece {
                Piece::Page(page, records) => {
                    let place = &mut met[page.file as usize % 64];
                    if std::mem::replace(place, page.file) != page.file {
                        facts.touched.insert(page.file);
                    }
                    if keep {
                        kept.push(page, (start, end), records)?;
                    }
                }
                Piece::Other(Record::FileNew { file, .. }) => drop(facts.made.insert(file)),
                Piece::Other(record) => facts.void.learn(&record, end),
            }
            Ok(())
        })?;
        if keep {
            kept.end_group(end);
        }
        notes.reached(end, |megabytes, seconds| {
            (config.log)(
                Level::Info,
                &format!("recovery: {megabytes} MiB of redo read, {seconds} s"),
            )
        });
        Ok(())
    })?;
    facts.end = end.lsn;
    Ok((facts, kept))
}

/// When to tell how far recovery is.
struct Notes<'d> {
    disk: &'d dyn Disk,
    start_us: u64,
    from: Lsn,
    next: Lsn,
}

impl Notes<'_> {
    fn begin(disk: &dyn Disk, from: Lsn) -> Notes<'_> {
        Notes {
            disk,
            start_us: disk.now_us(),
            from,
            next: from + NOTE_EVERY,
        }
    }
    /// Calls `tell` with megabytes and seconds if it is time to.
    fn reached(&mut self, lsn: Lsn, tell: impl FnOnce(u64, u64)) {
        if lsn >= self.next {
            self.next = lsn + NOTE_EVERY;
            let seconds = (self.disk.now_us() - self.start_us) / 1_000_000;
            tell((lsn - self.from) >> 20, seconds);
        }
    }
}

fn recover(
    disk: Arc<dyn Disk>,
    config: &Config,
    counters: Arc<Counters>,
    (checkpoint, database): (Lsn, u64),
    names: &[String],
) -> Result<Opened> {
    let (facts, kept) = read_log(&*disk, checkpoint, config)?;
    let redo = Redo::open(
        disk.clone(),
        redo_config(config),
        counters.clone(),
        checkpoint,
        facts.end,
    )?;
    let redo = Arc::new(redo);
    let pool = new_pool(disk.clone(), config, redo.clone(), counters.clone())?;
    let (mut files, dropped) = find_files(&pool, &facts, names)?;
    refuse_log_of_another_than(&pool, database)?;
    // Of a process that died alone, what it had written and not synced is read as if it were there for good.
    for file in files.intersection(&facts.touched) {
        pool.files().get(*file)?.file.sync()?;
    }
    let mut read_again = |each: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>| {
        scan(&*disk, checkpoint, &mut |_, end, group| each(end, group)).map(|_| ())
    };
    let (restored, mended) = pool.recover_doublewrite(&facts.void, &mut read_again)?;
    if restored + mended > 0 {
        let note =
            format!("{restored} torn pages were restored from the doublewrite file, {mended} mended from the log");
        (config.log)(Level::Info, &note);
    }
    refuse_log_of_another_than(&pool, database)?;
    let mut unread = Unread::new();
    if facts.end > checkpoint {
        apply_log(&*disk, &pool, checkpoint, &facts, kept, &config.log)?;
        pool.redo_done(&mut |page, why| {
            if page.file < FIRST_TABLE_FILE {
                return Err(why);
            }
            unread.insert(page, why);
            Ok(())
        })?;
        tell_rate(&pool, facts.end - checkpoint, &facts, &config.log);
    }
    space::check_header(&pool, SYSTEM_FILE)?;
    pool.set_database(space::database_of(&pool, SYSTEM_FILE)?);
    refuse_log_of_another(database, pool.database())?;
    // Not before: the numbers of two databases' files are the same.
    let stuck = remove_all(&pool, dropped);
    space::check_header(&pool, UNDO_FILE)?;
    let (trx_sys, recovered) = TrxSys::open(pool.clone(), counters)?;
    let catalog = Catalog::open(&pool, change_buffer(config, &pool), config.table_text.clone())?;
    unnamed::settle_left_over(&pool, &catalog, &mut files, stuck, &config.log)?;
    unnamed::settle(&pool, &catalog, &files, &facts, &config.log)?;
    settle_files(&pool, &catalog, &files, &facts, &config.log)?;
    tell_unread(&catalog, &unread, &config.log);
    pool.recovered(facts.void);
    // Last: what was to be learned from the log has been, and files that no table has are settled.
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
    open.iter().for_each(|file| space::add_file(pool, *file));
    Ok((open.into_iter().collect(), dropped))
}

/// Finishes off what was dropped, as far as it can be removed.
fn remove_all(pool: &Pool, dropped: Vec<FileId>) -> Stuck {
    let removed = dropped.into_iter().map(|file| (file, space::remove_file(pool, file)));
    removed.filter_map(|(file, done)| Some((file, done.err()?))).collect()
}

/// Pages of tables that could not be read when the log had changes for them, and why.
type Unread = BTreeMap<PageId, Error>;

fn tell_unread(catalog: &Catalog, unread: &Unread, log: &LogSink) {
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

fn apply_log(disk: &dyn Disk, pool: &Pool, from: Lsn, facts: &LogFacts, kept: Gathered, log: &LogSink) -> Result<()> {
    let total = facts.end - from;
    log(
        Level::Info,
        &format!("recovery: applying {} MiB of redo from LSN {from} on", total >> 20),
    );
    let mut notes = Notes::begin(disk, from);
    let (is_all, mut behind) = (!kept.is_full(), kept.end());
    // Within a round by bytes, which are not quite LSNs.
    let mut apply = |round: Gathered, from: Lsn| {
        let to = round.end();
        pool.redo_apply(round, &facts.void, &mut |bytes| {
            notes.reached((from + bytes as u64).min(to), |megabytes, seconds| {
                let text = format!("recovery: {megabytes} of {} MiB applied, {seconds} s", total >> 20);
                log(Level::Info, &text);
            });
        })
    };
    apply(kept, from)?;
    if is_all {
        return Ok(());
    }
    let round_max = Pool::gather_max(pool.size());
    let mut round = Gathered::new(round_max);
    scan(disk, behind, &mut |start, end, group| {
        split(end, group, &mut |piece| match piece {
            Piece::Page(page, records) => round.push(page, (start, end), records),
            Piece::Other(_) => Ok(()),
        })?;
        round.end_group(end);
        if round.is_full() {
            let full = std::mem::replace(&mut round, Gathered::new(round_max));
            apply(full, behind)?;
            behind = end;
        }
        Ok(())
    })?;
    apply(round, behind)
}

fn tell_rate(pool: &Pool, total: u64, facts: &LogFacts, log: &LogSink) {
    let took_ms = (pool.disk().now_us() - facts.start_us) / 1000;
    if total >= RATE_BYTES_MIN {
        pool.redo().set_recovery_rate(total * 1000 / took_ms.max(1));
    }
    log(
        Level::Info,
        &format!(
            "recovery: redo is done, up to LSN {}, in {}.{:03} s",
            facts.end,
            took_ms / 1000,
            took_ms % 1000
        ),
    );
}

/// Files and catalog must agree: a table whose file is missing or broken is refused when it is opened.
/// Only the files that the log has changed are looked into (their growth may have to be done again), so that opening takes no longer
/// the more tables there are; the others' headers are checked when their tables are opened.
fn settle_files(
    pool: &Pool,
    catalog: &Catalog,
    files: &BTreeSet<FileId>,
    facts: &LogFacts,
    log: &LogSink,
) -> Result<()> {
    for file in files.intersection(&facts.touched) {
        if let Some(table) = catalog.by_id(*file) {
            match space::verify_header(pool, *file) {
                // Nothing is wrong with the table: a disk that is full, or fails for a moment, is no reason to call it broken.
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
