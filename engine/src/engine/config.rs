//! The table of all settings, and [`Config`], which comes from it.
//!
//! A new setting is a row here and, if it changes while the engine runs, a method in
//! `runtime_settings.rs`. `make settings` then writes the server's variables and the manual's
//! table. A default, a range and a help text are in no other place.
//!
//! Called by: `start/open.rs`, `runtime_settings.rs`, users of the crate, `ffi`.
use super::setting::{choice, flag, int, long, settings, text, FromNumber};
pub use super::setting::{Argument, Change, CommitFlush, FlushMethod, Owner, Setting, Values};
pub use crate::base::Level;
use crate::base::{Error, Result};
use crate::change::Buffering;
use crate::table::{StoreConfig, TableText};
use std::sync::Arc;

/// Writes the engine's messages to the error log. Called from any thread, without latches.
pub type LogSink = Arc<dyn Fn(Level, &str) + Send + Sync>;

/// A key in SQL form, from table, index (0 = clustered, i + 1 = secondary i) and key. None: it is
/// shown in hexadecimal digits. Called from any thread, without latches.
pub type KeyText = Arc<dyn Fn(&str, u32, &[u8]) -> Option<String> + Send + Sync>;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;
/// Pages a second.
const IO_CAPACITY_LIMIT: u32 = 10_000_000;
const SECONDS_MAX: u32 = 100_000_000;
const NUMBERS: &[&str] = &["0", "1", "2"];

/// The default of a setting as a number.
pub(super) fn default_number(name: &str) -> u64 {
    let row = SETTINGS.iter().find(|setting| setting.name == name);
    debug_assert!(row.is_some(), "only settings of the table are asked for");
    row.map_or(0, Setting::default_number)
}

impl Default for Config {
    /// The defaults of the server's variables, with one exception: builds with debug assertions
    /// verify.
    fn default() -> Self {
        Config {
            verify: cfg!(debug_assertions),
            ..Config::of_table()
        }
    }
}

settings! {
    at_open {
        buffer_pool_size_max: u64, "Bytes that buffer_pool_size can be raised to while the server runs: addresses are reserved for them; \
                                    0: eight times its value at the start, at least 64G" {
            values: long(0, 0, 64 * TIB, MIB),
            unit: "bytes",
            manual: "greatest `buffer_pool_size` while the server runs; 0: eight times its value at the start, at least 64G. Only addresses are reserved"
        }
        redo_log_buffer_size: usize, "Memory for redo that has not been written yet, in bytes" {
            values: long(16 * MIB, MIB, 4 * GIB, 4 * KIB),
            unit: "bytes",
            manual: "memory for redo that has not been written yet. InnoDB: `innodb_log_buffer_size`"
        }
        flush_method: FlushMethod, "O_DIRECT: data files bypass the file system's cache; buffered: they use it" {
            values: choice(0, &["O_DIRECT", "buffered"]),
            manual: "O_DIRECT: data files bypass the file system's cache; buffered: they use it; no others"
        }
        read_io_threads: u32, "Threads that serve asynchronous reads and writes" {
            values: int(4, 1, 64),
            unit: "threads",
            manual: "for asynchronous reads and writes"
        }
        purge_threads: u32, "Threads that remove row versions that no transaction can see any more" {
            values: int(1, 1, 32),
            unit: "threads",
            manual: "remove row versions that no transaction can see any more. InnoDB: 4"
        }
        open_files: u32, "Data files that are kept open, at most half of open_files_limit. More tables than that can be in use: \
                          their files are opened and closed in turn" {
            values: int(2000, 10, 1_000_000),
            unit: "files",
            manual: "data files open at a time, at most half of `open_files_limit`. More tables than that can be used. \
                     InnoDB: `table_open_cache`"
        }
    }
    run_time {
        buffer_pool_size: u64, "Memory for cached pages, in bytes. SET GLOBAL returns when the pool has its new size" {
            values: long(128 * MIB, 2 * MIB, 64 * TIB, MIB),
            unit: "bytes",
            change: Change::ByOwnCode,
            manual: "memory for cached pages. See [the buffer pool](buffer-pool.md)"
        }
        redo_log_capacity: u64, "Room on disk for redo that has not been checkpointed, in bytes" {
            values: long(96 * MIB, 4 * MIB, 4 * TIB, MIB),
            unit: "bytes",
            change: Change::ThroughEngine,
            manual: "room for redo that has not been checkpointed. InnoDB: `innodb_log_file_size`. A change limits the log at once; \
                     the error log says when the files have followed"
        }
        flush_log_at_trx_commit: CommitFlush, "1: a commit is durable when it returns; 2: written at commit, synced every second; \
                                               0: written and synced every second" {
            values: choice(1, NUMBERS),
            change: Change::ThroughEngine,
            argument: Argument::Optional
        }
        doublewrite: bool, "Write pages twice, so that a page torn by a power failure can be restored" {
            values: flag(true),
            argument: Argument::Optional,
            manual: "see below"
        }
        io_capacity: u32, "Pages a second that the page cleaner may write, and as many that merging of buffered changes may visit, \
                           a read and a write each" {
            values: int(1000, 10, IO_CAPACITY_LIMIT),
            unit: "pages/s",
            change: Change::ByOwnCode,
            manual: "see below. InnoDB: 200"
        }
        io_capacity_max: u32, "As io_capacity, when background work falls behind. Background work exceeds it where writers would \
                               otherwise have to wait: as the log, or what may be buffered, is three quarters full" {
            values: int(4000, 10, IO_CAPACITY_LIMIT),
            unit: "pages/s",
            change: Change::ByOwnCode,
            manual: "see below. InnoDB: twice `innodb_io_capacity`, at least 2000"
        }
        online_alter_log_max_size: u64, "Memory for the keys of rows that are changed while an ALTER TABLE lets writers go on, in bytes" {
            values: long(128 * MIB, 64 * KIB, TIB, 1),
            unit: "bytes",
            change: Change::ThroughEngine,
            manual: "for the keys of rows that are changed while an ALTER TABLE lets writers go on; a key is kept once. \
                     InnoDB: `innodb_online_alter_log_max_size`"
        }
        sort_buffer_size: u64, "Memory for sorting the entries of one index that is being built, in bytes; more is spilled to files" {
            values: long(16 * MIB, 64 * KIB, 4 * GIB, 4 * KIB),
            unit: "bytes",
            change: Change::ThroughEngine,
            manual: "for each index of ADD INDEX and REPAIR. One for rows and indexes together where a table is filled (ALTER by \
                     copy, LOAD DATA). InnoDB: 1M"
        }
        stats_sample_pages: u32, "Leaf pages of each index, and of each prefix of it, that are read to estimate how many different \
                                  values it has. A table's STATS_SAMPLE_PAGES overrides it" {
            values: int(20, 1, 100_000),
            unit: "leaf pages",
            change: Change::ThroughEngine,
            manual: "read of each index, and of each prefix of it, to estimate the number of its values. A small index is read \
                     whole. A table's STATS_SAMPLE_PAGES overrides it"
        }
        stats_persistent: bool, "Statistics for the optimizer are kept over a restart. A table's STATS_PERSISTENT overrides it" {
            values: flag(true),
            change: Change::ThroughEngine,
            argument: Argument::Optional,
            manual: "statistics survive a restart. A table's STATS_PERSISTENT overrides it"
        }
        stats_auto_recalc: bool, "Statistics for the optimizer are computed again in the background when a tenth of a table's rows \
                                  has changed. A table's STATS_AUTO_RECALC overrides it" {
            values: flag(true),
            change: Change::ThroughEngine,
            argument: Argument::Optional,
            manual: "statistics are computed again in the background when a tenth of a table's rows has changed, at most every \
                     10 s. STATS_AUTO_RECALC overrides it"
        }
        snapshot_isolation: bool, "At REPEATABLE READ, locking or changing a row that was changed since the transaction's snapshot is \
                                   a conflict (error 1020). OFF: the newest committed version is taken, as InnoDB does with \
                                   innodb_snapshot_isolation=OFF. Holds from the next transaction on" {
            values: flag(true),
            owner: Owner::Session,
            change: Change::AtUse,
            argument: Argument::Optional,
            default_in_server: "SLUICE_SNAPSHOT_ISOLATION_DEFAULT",
            manual: "default as `innodb_snapshot_isolation`: OFF before MariaDB 11.6.2, ON from there. See \
                     [locks and isolation](locks-and-isolation.md)"
        }
        verify: bool, "Costly checks of the engine's own structures while it runs; for tests" {
            values: flag(false),
            change: Change::ThroughEngine,
            argument: Argument::Optional,
            manual: "for tests: costly checks of the engine's own structures"
        }
        purge_lag_warning: u64, "Ended transactions whose old row versions are not purged yet (Sluice_history_list_length), from which \
                                 on the error log warns, once in ten minutes, and names the connection that holds purge back; 0: never" {
            values: long(1_000_000, 0, u64::MAX, 0),
            unit: "transactions",
            change: Change::ThroughEngine,
            manual: "not purged yet, from which on the error log warns; 0: never"
        }
        print_all_deadlocks: bool, "Write every deadlock to the error log: statements, locks, which transaction was rolled back. The \
                                    latest are in SHOW ENGINE SLUICE STATUS in any case" {
            values: flag(false),
            change: Change::ThroughEngine,
            argument: Argument::Optional
        }
        change_buffering: Buffering, "Changes of secondary indexes that may be buffered, to be merged into their pages later: none, inserts, \
                                      deletes (delete marks), changes (both), purges (delete marks and removals), all. The table \
                                      option CHANGE_BUFFERING overrides it" {
            values: choice(5, &["none", "inserts", "deletes", "changes", "purges", "all"]),
            change: Change::ThroughEngine,
            manual: "see [the change buffer](change-buffer.md)"
        }
        change_buffer_max_size: u32, "Share of the buffer pool, in percent, that newly buffered changes may take; for changes on disk \
                                      see change_buffer_max_disk_size" {
            values: int(25, 0, 50),
            unit: "percent",
            change: Change::ThroughEngine,
            manual: "of the pool, for new changes: see [the change buffer](change-buffer.md#how-much)"
        }
        change_buffer_max_disk_size: u64, "Bytes that buffered changes may take in all, on disk (Sluice_change_buffer_bytes_max), at \
                                           least what change_buffer_max_size grants in memory and at most ten times that; as they \
                                           come near it, writers merge some of them; 0: ten times" {
            values: long(0, 0, u64::MAX, 0),
            unit: "bytes",
            change: Change::ThroughEngine,
            manual: "of all buffered changes; 0: as much as there may be. See [the change buffer](change-buffer.md#how-much)"
        }
        change_buffer_max_age: u32, "Seconds after which buffered changes are merged although the server is busy; 0: only when it is \
                                     idle, when they are many, or on demand" {
            values: int(600, 0, SECONDS_MAX),
            unit: "seconds",
            change: Change::ThroughEngine
        }
        change_buffer_test_mode: u8, "For tests: 1 buffers every change that may be buffered, 2 every other key's, and merges come at \
                                      random moments, too; 3 is as 1, and nothing is merged but on demand; 4 is as 1, and merges \
                                      come for the usual reasons only" {
            values: int(0, 0, 4),
            change: Change::ThroughEngine,
            manual: "for tests: costly"
        }
    }
    actions {
        change_buffer_drain: bool, "SET GLOBAL ... = ON: everything that is buffered is merged in the background, at io_capacity_max; \
                                    OFF ends that, and the usual merging goes on; as an option: once, at the start. The variable \
                                    always reads OFF: Sluice_change_buffer_draining is 1 until the drain ends. Its progress: \
                                    Sluice_change_buffer_entries, Sluice_change_buffer_drain_eta, the error log" {
            values: flag(false),
            change: Change::ByOwnCode,
            manual: "ON: everything that is buffered is merged. See [the change buffer](change-buffer.md)"
        }
        redo_log: bool, "OFF: changes are not logged, for a load that can be started again: a crash then costs ALL tables of the \
                         engine, and the next start refuses its files. ON: returns when everything is durable. A shutdown turns it \
                         on. Sluice_redo_log_enabled shows the state" {
            values: flag(true),
            change: Change::ByOwnCode,
            argument: Argument::Optional,
            manual: "OFF: see [loads](loads-and-redo-off.md#the-redo-log-switched-off)"
        }
    }
    server {
        directory, "Directory of the engine's files; a relative one is below the data directory. One that is named must exist" {
            owner: Owner::Server,
            values: text("./#sluice"),
            manual: "where the files are; a relative one is below the data directory. The default is made at the first start, \
                     any other must exist"
        }
        backup_to, "SET GLOBAL ... = a named pipe: a hot backup begins, and is written there. Used by the program sluice-backup. An empty \
                    value ends the backup that is under way. The variable always reads empty: Sluice_backup_phase shows the state" {
            owner: Owner::Server,
            values: text(""),
            change: Change::ByOwnCode,
            manual: "for `sluice-backup`, see [backup and restore](backup-and-restore.md). Empty: ends the backup that is under way"
        }
        read_only, "Statements that change tables of the engine are refused, and redo_log=OFF. The engine itself recovers, merges and \
                    writes checkpoints as ever: its files change" {
            owner: Owner::Server,
            values: flag(false),
            argument: Argument::Optional,
            manual: "ON: statements that change Sluice's tables are refused (1036, CREATE 1005), also of temporary tables, and so is \
                     redo_log=OFF. The engine still recovers and writes its files"
        }
        fast_shutdown, "Shutdown: 0 purges and merges everything and flushes all pages, 1 flushes all pages, 2 flushes only the redo log" {
            owner: Owner::Server,
            values: int(1, 0, 2),
            change: Change::AtUse,
            argument: Argument::Optional,
            manual: "0 purges and merges everything and writes all pages, 1 writes all pages, 2 only the redo log; there is no 3. \
                     1 and 2 log how many changes stay for the next start"
        }
        buffer_pool_filename, "File of the list of the buffer pool's pages, in the engine's directory" {
            owner: Owner::Server,
            values: text("buffer_pool"),
            manual: "file of the page list, in the engine's directory: see [the buffer pool](buffer-pool.md)"
        }
        buffer_pool_dump_at_shutdown, "A shutdown writes the list of the buffer pool's pages, but with fast_shutdown=2" {
            owner: Owner::Server,
            values: flag(true),
            change: Change::AtUse,
            argument: Argument::Optional,
            manual: "a shutdown writes the list of the pool's pages"
        }
        buffer_pool_load_at_startup, "A start reads the pages of the list into the buffer pool, in the background" {
            owner: Owner::Server,
            values: flag(true),
            argument: Argument::Optional,
            manual: "a start reads the listed pages, in the background"
        }
        buffer_pool_dump_pct, "Of the buffer pool's pages, how many percent the list has, those used most of late" {
            owner: Owner::Server,
            values: int(100, 1, 100),
            unit: "percent",
            change: Change::AtUse,
            manual: "share of the pool's pages that the list has, the most recently used ones. InnoDB: 25"
        }
        buffer_pool_dump_now, "SET GLOBAL ... = ON: writes the list of the buffer pool's pages" {
            owner: Owner::Server,
            values: flag(false),
            change: Change::ByOwnCode,
            manual: "ON: writes the list"
        }
        buffer_pool_load_now, "SET GLOBAL ... = ON: reads the pages of the list into the buffer pool, in the background" {
            owner: Owner::Server,
            values: flag(false),
            change: Change::ByOwnCode,
            manual: "ON: reads the listed pages"
        }
        buffer_pool_load_abort, "SET GLOBAL ... = ON: ends the reading of the listed pages" {
            owner: Owner::Server,
            values: flag(false),
            change: Change::ByOwnCode,
            manual: "ON: ends the reading of the listed pages"
        }
        autoinc_lock_mode, "AUTO_INCREMENT: 0 every INSERT keeps others out until its statement ends; 1 only inserts of unknown \
                            length do; 2 none does, values of concurrent statements interleave" {
            owner: Owner::Server,
            values: choice(1, NUMBERS)
        }
        rollback_on_timeout, "A lock wait timeout rolls the transaction back, not only the statement" {
            owner: Owner::Server,
            values: flag(false),
            argument: Argument::Optional
        }
        lock_wait_timeout, "Seconds a statement waits for a row lock before it gives up with error 1205 (0 = does not wait)" {
            owner: Owner::Session,
            values: int(50, 0, SECONDS_MAX),
            unit: "seconds",
            change: Change::AtUse
        }
        backup_stage, "BACKUP STAGE START is allowed without a backup of Sluice. For a session whose backup copies the engine's \
                       directory too, as a snapshot of the file system does" {
            owner: Owner::Session,
            values: flag(false),
            change: Change::AtUse,
            argument: Argument::Optional,
            manual: "ON: `BACKUP STAGE START` is allowed although no `sluice-backup` runs: for a backup that copies the engine's \
                     directory, too. See [backup and restore](backup-and-restore.md)"
        }
        strict_mode, "Options of CREATE and ALTER TABLE that the engine does not have (ROW_FORMAT=COMPRESSED, KEY_BLOCK_SIZE, \
                      PAGE_COMPRESSED, DATA DIRECTORY ...) are errors. OFF: they are warnings, and the table is made without \
                      them. ENCRYPTED=YES and ENCRYPTION_KEY_ID are errors in any case" {
            owner: Owner::Session,
            values: flag(true),
            change: Change::AtUse,
            argument: Argument::Optional,
            manual: "as `innodb_strict_mode`, for options of CREATE and ALTER TABLE. See [table options](table-options.md)"
        }
    }
    besides {
        /// What only the tests of the table layer change.
        store: StoreConfig = StoreConfig::default();
        log: LogSink = Arc::new(|_, _| ());
        key_text: KeyText = Arc::new(|_, _, _| None);
        table_text: TableText = Arc::new(|name| name.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_defaults_are_in_their_ranges() {
        for (i, setting) in SETTINGS.iter().enumerate() {
            assert!(
                SETTINGS[..i].iter().all(|other| other.name != setting.name),
                "{}",
                setting.name
            );
            let is_in_range = match setting.values {
                Values::Long {
                    default,
                    min,
                    max,
                    block,
                } => {
                    (min..=max).contains(&default) && (block == 0 || [default, min, max].iter().all(|n| n % block == 0))
                }
                Values::Int { default, min, max } => (min..=max).contains(&default),
                Values::Choice { default, words } => (default as usize) < words.len(),
                Values::Flag { .. } | Values::Text { .. } => true,
            };
            assert!(is_in_range, "{}: {:?}", setting.name, setting.values);
        }
    }

    #[test]
    fn every_setting_of_the_engine_is_a_field_and_no_other_is() {
        let mut config = Config::default();
        for setting in SETTINGS {
            let is_field = setting.owner == Owner::Engine || setting.name == "snapshot_isolation";
            let set = config.set(setting.name, setting.default_number());
            assert_eq!(set.is_ok(), is_field, "{}", setting.name);
        }
        assert_eq!((config.io_capacity, config.io_capacity_max), (1000, 4000));
        assert_eq!(config.flush_method, FlushMethod::Direct);
        assert_eq!(config.change_buffering, Buffering::All);
        config.set("flush_method", 1).expect("a field");
        assert!(!config.flush_method.is_direct());
        config.set("change_buffer_max_age", u64::MAX).expect("a field");
        assert_eq!(config.change_buffer_max_age, u32::MAX, "no wrap");
    }
}
