//! [`Store`]: holds the parts of the table layer and hands them out. A part holds what it needs of
//! the layers below.
//!
//! Called by the engine and by the C ABI. It takes no latch and no lock itself.
use crate::base::{Counters, Error, Result};
use crate::change::ChangeBuffer;
use crate::pool::Pool;
use crate::redo::Redo;
use crate::table::bulk::free_trees::TreeFreer;
use crate::table::bulk::index_build::IndexBuilder;
use crate::table::bulk::online::OnlineAlter;
use crate::table::bulk::table_load::TableLoader;
use crate::table::catalog::damage_log::{DamageLog, Tell};
use crate::table::catalog::ddl::Tables;
use crate::table::catalog::dictionary::Catalog;
use crate::table::catalog::foreign_binding::bind_all;
use crate::table::catalog::table::Table;
use crate::table::dml::change::RowWriter;
use crate::table::health::check::{check_table, CheckLevel, Checker};
use crate::table::health::unmergeable::Unmergeable;
use crate::table::merge_scheduler::scheduler::MergeScheduler;
use crate::table::optimizer::keeper::StatisticsKeeper;
use crate::table::row::child_search::ChildSearch;
use crate::table::row::overflow_row::LongRows;
use crate::table::row::parent_check::ParentCheck;
use crate::table::row::row_lock::RowLocks;
use crate::table::row::secondary::EntryWriter;
use crate::table::row::snapshot::Snapshots;
use crate::table::row::unique::UniqueIndexes;
use crate::table::row::version::Versions;
use crate::table::scan::cursor::Cursor;
use crate::table::scan::reader::Reader;
use crate::table::statistics::state::StatisticsSettings;
use crate::table::undo::load_rollback::LoadRollback;
use crate::table::undo::progress::ProgressNotes;
use crate::table::undo::purge::Purger;
use crate::table::undo::read_retries::ReadRetries;
use crate::table::undo::rollback::Rollback;
use crate::table::undo::waiting::WaitingRollbacks;
use crate::txn::{Trx, TrxSys};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// Bytes an index build sorts in memory before it spills to a file.
    pub sort_buffer_size: u64,
    /// A tree of at least so many bytes is loaded past the pool and the log; a smaller one page by
    /// page.
    pub bulk_load_min: u64,
    /// The undo file is not made smaller than so many pages.
    pub undo_pages_kept: u32,
    /// REPEATABLE READ refuses to lock or change rows that changed since the snapshot.
    pub snapshot_isolation: bool,
    /// Costly internal checks.
    pub verify: bool,
}

impl Default for StoreConfig {
    fn default() -> Self {
        StoreConfig {
            sort_buffer_size: 16 << 20,
            bulk_load_min: 2 << 20,
            undo_pages_kept: 1024,
            snapshot_isolation: true,
            verify: cfg!(debug_assertions),
        }
    }
}

/// Until the setting comes.
const ONLINE_ALTER_LOG_MAX_SIZE: u64 = 128 << 20;

/// The layers below, as the parts of the table layer get them.
struct Shared {
    pool: Arc<Pool>,
    redo: Arc<Redo>,
    trx_sys: Arc<TrxSys>,
    counters: Arc<Counters>,
    change: Arc<ChangeBuffer>,
    catalog: Arc<Catalog>,
    tables: Arc<Tables>,
    log: DamageLog,
}

pub struct Store {
    pub pool: Arc<Pool>,
    pub redo: Arc<Redo>,
    pub trx_sys: Arc<TrxSys>,
    pub counters: Arc<Counters>,
    /// Settings and sums of the change buffer.
    pub change: Arc<ChangeBuffer>,
    pub catalog: Arc<Catalog>,
    pub sort_buffer_size: Arc<AtomicU64>,
    /// Bytes of the keys that an ALTER TABLE follows while writers go on.
    pub online_alter_log_max_size: AtomicU64,
    pub bulk_load_min: u64,
    pub undo_pages_kept: u32,
    pub snapshot_isolation: AtomicBool,
    pub verify: Arc<AtomicBool>,
    log: DamageLog,
    tables: Arc<Tables>,
    locks: RowLocks,
    rows: Arc<RowWriter>,
    rollbacks: Arc<Rollback>,
    purger: Purger,
    reader: Arc<Reader>,
    indexes: Arc<IndexBuilder>,
    loads: Arc<TableLoader>,
    merge_scheduler: MergeScheduler,
    statistics_keeper: StatisticsKeeper,
}

impl Store {
    pub fn new(
        pool: Arc<Pool>,
        redo: Arc<Redo>,
        trx_sys: Arc<TrxSys>,
        catalog: Catalog,
        config: &StoreConfig,
        log: Tell,
    ) -> Store {
        let shared = Shared::new(pool, redo, trx_sys, catalog, log);
        let verify = Arc::new(AtomicBool::new(config.verify));
        let sort_buffer_size = Arc::new(AtomicU64::new(config.sort_buffer_size));
        let rollbacks = Arc::new(shared.rollbacks());
        let rows = Arc::new(shared.rows(rollbacks.clone(), verify.clone()));
        Store {
            sort_buffer_size: sort_buffer_size.clone(),
            online_alter_log_max_size: AtomicU64::new(ONLINE_ALTER_LOG_MAX_SIZE),
            bulk_load_min: config.bulk_load_min,
            undo_pages_kept: config.undo_pages_kept,
            snapshot_isolation: AtomicBool::new(config.snapshot_isolation),
            verify,
            locks: shared.locks(),
            purger: shared.purger(),
            reader: Arc::new(shared.reader()),
            indexes: Arc::new(shared.indexes(sort_buffer_size.clone(), config.bulk_load_min)),
            loads: Arc::new(shared.loads(rows.clone(), sort_buffer_size, config.bulk_load_min)),
            merge_scheduler: shared.merge_scheduler(),
            statistics_keeper: shared.statistics_keeper(),
            rows,
            rollbacks,
            pool: shared.pool,
            redo: shared.redo,
            trx_sys: shared.trx_sys,
            counters: shared.counters,
            change: shared.change,
            catalog: shared.catalog,
            tables: shared.tables,
            log: shared.log,
        }
    }

    /// Opens, makes, changes and drops tables.
    pub fn tables(&self) -> &Arc<Tables> {
        &self.tables
    }
    /// Builds and alters indexes.
    pub fn indexes(&self) -> &Arc<IndexBuilder> {
        &self.indexes
    }
    /// Loads empty tables.
    pub fn loads(&self) -> &Arc<TableLoader> {
        &self.loads
    }
    /// Inserts, updates and deletes rows.
    pub fn rows(&self) -> &RowWriter {
        &self.rows
    }
    /// Locks rows, and AUTO_INCREMENT counters.
    pub fn row_locks(&self) -> &RowLocks {
        &self.locks
    }
    /// Undoes changes.
    pub fn rollbacks(&self) -> &Rollback {
        &self.rollbacks
    }
    /// Takes away what only old views needed.
    pub fn purger(&self) -> &Purger {
        &self.purger
    }
    /// Has buffered changes merged.
    pub fn merge_scheduler(&self) -> &MergeScheduler {
        &self.merge_scheduler
    }
    /// Keeps the statistics of all tables.
    pub fn statistics_keeper(&self) -> &StatisticsKeeper {
        &self.statistics_keeper
    }
    /// Merges the sparse pages of the table's indexes, in place; others read and write meanwhile.
    /// `watch` is asked often, and its error ends it. Returns the number of merges.
    pub fn defragment(&self, table: &Table, watch: &dyn Fn() -> Result<()>) -> Result<u64> {
        let _gate = table.gate.read();
        let layout = table.layout();
        let secondary = layout.secondary.iter().filter(|s| !s.quarantined).map(|s| &s.index);
        let mut merges = 0;
        for index in std::iter::once(&layout.clustered).chain(secondary) {
            merges += index.tree.merge_sparse(&self.pool, watch)?;
        }
        Ok(merges)
    }
    /// Begins an ALTER TABLE that lets writers go on: [`OnlineAlter`].
    pub fn begin_online(&self, table: &Arc<Table>, base: &mut Trx) -> Result<OnlineAlter> {
        let bytes_max = self.online_alter_log_max_size.load(Ordering::Relaxed);
        OnlineAlter::begin(&self.reader, table, base, bytes_max)
    }
    /// A cursor for any index of the table.
    pub fn cursor(&self, table: Arc<Table>) -> Cursor {
        Cursor::new(self.reader.clone(), table)
    }

    /// True: the table is sound. `trx` is only asked whether it was killed (`Error::Interrupted`).
    pub fn check_table(
        &self,
        trx: &mut Trx,
        table: &Arc<Table>,
        level: CheckLevel,
        checker: &mut dyn Checker,
    ) -> Result<bool> {
        check_table((&self.reader, &self.catalog), trx, table, level, checker)
    }

    /// The error with the names that the catalog knows, and the way out.
    pub fn name_damage(&self, error: Error) -> Error {
        self.log.name_damage(error)
    }
    /// Logs damage.
    pub(crate) fn tell(&self, text: &str) {
        self.log.error(text);
    }
}

impl Shared {
    fn new(pool: Arc<Pool>, redo: Arc<Redo>, trx_sys: Arc<TrxSys>, catalog: Catalog, log: Tell) -> Shared {
        let catalog = Arc::new(catalog);
        let (counters, change) = (pool.counters().clone(), catalog.buffer.clone());
        let log = DamageLog::new(catalog.clone(), log);
        let tables = Arc::new(Tables {
            pool: pool.clone(),
            redo: redo.clone(),
            trx_sys: trx_sys.clone(),
            counters: counters.clone(),
            change: change.clone(),
            catalog: catalog.clone(),
            log: log.clone(),
        });
        bind_all(&catalog);
        Shared {
            pool,
            redo,
            trx_sys,
            counters,
            change,
            catalog,
            tables,
            log,
        }
    }

    fn locks(&self) -> RowLocks {
        RowLocks::new(self.pool.clone(), self.trx_sys.clone())
    }
    fn snapshots(&self) -> Snapshots {
        Snapshots::new(self.trx_sys.clone())
    }
    fn long_rows(&self) -> LongRows {
        LongRows::new(self.pool.clone(), self.redo.clone(), self.trx_sys.clone())
    }

    fn rollbacks(&self) -> Rollback {
        let loads = LoadRollback {
            pool: self.pool.clone(),
            catalog: self.catalog.clone(),
            log: self.log.clone(),
        };
        let progress = ProgressNotes {
            pool: self.pool.clone(),
            trx_sys: self.trx_sys.clone(),
            log: self.log.clone(),
        };
        Rollback {
            pool: self.pool.clone(),
            redo: self.redo.clone(),
            trx_sys: self.trx_sys.clone(),
            counters: self.counters.clone(),
            catalog: self.catalog.clone(),
            tables: self.tables.clone(),
            log: self.log.clone(),
            loads,
            progress,
            tries: ReadRetries::default(),
            waiting: WaitingRollbacks::default(),
        }
    }

    fn rows(&self, rollback: Arc<Rollback>, verify: Arc<AtomicBool>) -> RowWriter {
        let (pool, trx_sys) = (&self.pool, &self.trx_sys);
        let unique = UniqueIndexes::new(pool.clone(), trx_sys.clone(), self.locks(), verify);
        RowWriter {
            pool: pool.clone(),
            redo: self.redo.clone(),
            trx_sys: trx_sys.clone(),
            counters: self.counters.clone(),
            locks: self.locks(),
            snapshots: self.snapshots(),
            long_rows: self.long_rows(),
            entries: EntryWriter::new(pool.clone(), trx_sys.clone(), unique),
            rollback,
            parents: ParentCheck::new(pool.clone(), trx_sys.clone(), self.catalog.clone(), self.locks()),
            children: ChildSearch::new(
                pool.clone(),
                trx_sys.clone(),
                self.catalog.clone(),
                self.locks(),
                self.long_rows(),
            ),
        }
    }

    fn purger(&self) -> Purger {
        Purger {
            pool: self.pool.clone(),
            redo: self.redo.clone(),
            trx_sys: self.trx_sys.clone(),
            counters: self.counters.clone(),
            catalog: self.catalog.clone(),
            log: self.log.clone(),
            tries: ReadRetries::default(),
        }
    }

    fn reader(&self) -> Reader {
        let (trx_sys, counters) = (self.trx_sys.clone(), self.counters.clone());
        Reader {
            pool: self.pool.clone(),
            catalog: self.catalog.clone(),
            log: self.log.clone(),
            locks: self.locks(),
            snapshots: self.snapshots(),
            versions: Versions::new(trx_sys.clone(), counters.clone(), self.long_rows()),
            trx_sys,
            counters,
        }
    }

    fn indexes(&self, sort_buffer_size: Arc<AtomicU64>, bulk_load_min: u64) -> IndexBuilder {
        let freer = TreeFreer {
            pool: self.pool.clone(),
            catalog: self.catalog.clone(),
            tables: self.tables.clone(),
            log: self.log.clone(),
        };
        IndexBuilder {
            pool: self.pool.clone(),
            redo: self.redo.clone(),
            catalog: self.catalog.clone(),
            tables: self.tables.clone(),
            freer,
            sort_buffer_size,
            bulk_load_min,
        }
    }

    fn loads(&self, rows: Arc<RowWriter>, sort_buffer_size: Arc<AtomicU64>, bulk_load_min: u64) -> TableLoader {
        TableLoader {
            pool: self.pool.clone(),
            redo: self.redo.clone(),
            trx_sys: self.trx_sys.clone(),
            counters: self.counters.clone(),
            tables: self.tables.clone(),
            rows,
            long_rows: self.long_rows(),
            sort_buffer_size,
            bulk_load_min,
        }
    }

    fn merge_scheduler(&self) -> MergeScheduler {
        let unmergeable = Unmergeable {
            pool: self.pool.clone(),
            change: self.change.clone(),
            catalog: self.catalog.clone(),
            tables: self.tables.clone(),
            log: self.log.clone(),
        };
        MergeScheduler {
            pool: self.pool.clone(),
            counters: self.counters.clone(),
            change: self.change.clone(),
            catalog: self.catalog.clone(),
            unmergeable,
        }
    }

    fn statistics_keeper(&self) -> StatisticsKeeper {
        StatisticsKeeper {
            pool: self.pool.clone(),
            catalog: self.catalog.clone(),
            tables: self.tables.clone(),
            log: self.log.clone(),
            settings: StatisticsSettings::default(),
        }
    }
}
