//! Opening: a fresh directory is created, any other recovered.
//!
//! | found | what happens |
//! |---|---|
//! | nothing | a new database: log, system file, undo file, catalog, checkpoint |
//! | a log that never had a checkpoint | a crash ended the creation: all is removed and made anew |
//! | a log | recovery: doublewrite, redo, undo streams, catalog |
//! | data files, but no log | refused: the log was removed |
//! | a log of another database | refused, before anything of it is applied |
//! | a log that was off | refused by name: the data files may hold half of any change |
//! | redo for a data file that is missing and not dropped later | refused by name |
//! | a data file that the catalog does not name | removed or refused (`orphan_files.rs`) |
//!
//! Single-threaded but for the reads of recovery. Called by `ffi` and
//! [`Database`](crate::engine::Database).
use super::checkpoint::{database_of_log, write_checkpoint};
use super::directory::{is_ours, refusal_of_log_off};
use super::parts::{change_buffer, new_pool, redo_config, Opened};
use super::recover::recover;
use crate::base::ids::{FIRST_TABLE_FILE, SYSTEM_FILE};
use crate::base::sync::{Rank, RankedMutex};
use crate::base::{Counters, Error, Result};
use crate::engine::backup::control::BackupControl;
use crate::engine::config::{Config, Level};
use crate::engine::in_doubt::InDoubt;
use crate::engine::instance::Engine;
use crate::engine::page_list::PageLists;
use crate::engine::pool_rates::PoolRates;
use crate::engine::redo_switch::RedoSwitch;
use crate::engine::report::deadlocks::DeadlockTexts;
use crate::engine::report::rates::LastReport;
use crate::engine::workers::Workers;
use crate::io::Disk;
use crate::redo::Redo;
use crate::space::{self, file_number};
use crate::table::{Catalog, Store};
use crate::txn::TrxSys;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::Arc;

impl Engine {
    pub fn open(disk: Arc<dyn Disk>, config: Config) -> Result<Arc<Engine>> {
        let engine = Engine::open_still(disk, config)?;
        *engine.workers.lock() = Some(Workers::start(&engine.store, &engine.log));
        Ok(engine)
    }
    /// Opens without threads: the caller does everything, background steps included. For the
    /// simulation.
    pub(in crate::engine) fn open_still(disk: Arc<dyn Disk>, config: Config) -> Result<Arc<Engine>> {
        let counters = Arc::new(Counters::default());
        let day_at_zero_us = (disk.wall_s() * 1_000_000).saturating_sub(disk.now_us());
        let last_report = LastReport::new(disk.now_us());
        let opened = create_or_recover(disk, &config, counters).map_err(with_way_out)?;
        debug_assert!(
            Arc::ptr_eq(opened.pool.redo(), &opened.redo),
            "I1: pages and commits have one log"
        );
        debug_assert!(opened.redo.is_on(), "an engine opens with its log on");
        let store = Arc::new(Store::new(
            opened.pool,
            opened.redo,
            opened.trx_sys,
            opened.catalog,
            &config.store,
            config.log.clone(),
        ));
        let in_doubt = InDoubt::found_at_open(&store, opened.recovered);
        let deadlocks = DeadlockTexts::new(&store, config.key_text.clone());
        let print_all_deadlocks = Arc::new(AtomicBool::new(false));
        deadlocks.listen(&store, print_all_deadlocks.clone(), config.log.clone());
        let redo_switch = RedoSwitch::new(&store, &config.log);
        let backup = Arc::new(BackupControl::new(store.redo.clone(), store.counters.clone()));
        let engine = Arc::new(Engine {
            store,
            log: config.log.clone(),
            commit_flush: AtomicU64::default(),
            workers: RankedMutex::new(Rank::EngineWorkers, None),
            purge_threads: config.purge_threads,
            redo_switch,
            publishing: RankedMutex::new(Rank::Gauges, ()),
            in_doubt,
            backup,
            deadlocks,
            page_lists: Arc::new(PageLists::new()),
            pool_rates: PoolRates::new(),
            print_all_deadlocks,
            day_at_zero_us,
            last_report,
        });
        engine.apply_at_open(&config)?;
        Ok(engine)
    }
}

/// Adds to an error that keeps the engine from opening what the user can do.
fn with_way_out(error: Error) -> Error {
    match error {
        Error::Corrupt(mut damage) if !damage.what.to_lowercase().contains("restore ") => {
            damage.what += "; restore the engine's directory from a backup; sluice-check tells what is whole, and its --dump saves rows, as long \
                            as the catalog can be read";
            Error::Corrupt(damage)
        }
        // The log is unchanged. A page that could not be read is not skipped: on disk it may be an
        // intact old version.
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

/// Creates or recovers, depending on what is found: see the head of this file.
fn create_or_recover(disk: Arc<dyn Disk>, config: &Config, counters: Arc<Counters>) -> Result<Opened> {
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
        return Err(refusal_of_log_off(&*disk, &names)?);
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
            (config.log)(Level::Warning, &space::orphan_message(name, &why));
        }
    }
    recover(disk, config, counters, (checkpoint, database), &names)
}

fn create(disk: Arc<dyn Disk>, config: &Config, counters: Arc<Counters>) -> Result<Opened> {
    (config.log)(
        Level::Info,
        "no database is in this directory yet: a new one is created",
    );
    let redo = Arc::new(Redo::create(disk.clone(), redo_config(config), counters.clone())?);
    let pool = new_pool(disk, config, redo.clone(), counters.clone())?;
    pool.set_database(pool.disk().random() | 1);
    space::create_file(&pool, SYSTEM_FILE, false)?;
    TrxSys::create(&pool)?;
    Catalog::create(&pool)?;
    pool.flush_all()?;
    debug_assert_eq!(pool.checkpoint_lsn(), redo.lsn(), "a new database has no dirty page");
    // Into both places of a checkpoint. If one cannot be read later, the other still says that
    // creation is finished.
    for _ in 0..2 {
        write_checkpoint(&pool, pool.checkpoint_lsn())?;
    }
    let (trx_sys, recovered) = TrxSys::open(pool.clone(), counters)?;
    debug_assert!(recovered.is_empty(), "a new database has no transactions");
    let catalog = Catalog::open(&pool, change_buffer(config, &pool), config.table_text.clone())?;
    debug_assert!(catalog.tables().is_empty(), "a new database has no tables");
    Ok(Opened {
        pool,
        redo,
        trx_sys,
        catalog,
        recovered,
    })
}
