//! Rows: insert, update, delete, scan; the catalog of tables; rollback and purge.
//!
//! Keys and rows are bytes made by the caller, which also passes the secondary keys of a row.
//! Nothing here computes a key from a row. So undo records carry the secondary keys, and rollback
//! and purge need no server (`docs/decisions/2026-11-21-secondary-entry-stamps.md`). One kind of
//! scan gets a function that computes keys: `scan/relocated`.
//!
//! Subfolders, top to bottom; each uses only those below it:
//! ```text
//! store            the object that holds all parts and hands them out
//! merge_scheduler  which buffered changes are merged, when
//! health           CHECK TABLE; changes that cannot be merged
//! bulk             index builds, loads, INSERT ... SELECT into an empty table
//! scan             cursors
//! dml              insert, update, delete
//! undo             rollback, purge
//! optimizer        what the optimizer asks
//! row              value, overflow pages, secondary entries, lock, older versions
//! catalog          which tables and indexes exist; DDL
//! statistics       counts, samples, and how both are stored
//! ```
//! Called by `engine` and by the C ABI.
pub(crate) mod bulk;
pub(crate) mod catalog;
pub(crate) mod dml;
pub(crate) mod health;
pub(crate) mod merge_scheduler;
pub(crate) mod optimizer;
pub(crate) mod row;
pub(crate) mod scan;
pub(crate) mod statistics;
pub(crate) mod store;
pub(crate) mod undo;

pub use bulk::alter_indexes::{IndexChange, KeyChange};
pub use bulk::index_build::{IndexBuild, IndexBuilder};
pub use bulk::insert_select::BulkInsert;
pub use bulk::online::{EachChange, Followed, OnlineAlter, Pass, Round, RowChange};
pub use bulk::table_load::{TableLoad, TableLoader};
pub use catalog::damage_log::{DamageLog, Tell};
pub use catalog::ddl::{CreateMode, RenameKind, RenameMode, Tables};
pub use catalog::dictionary::{Catalog, TableText};
pub use catalog::foreign_binding::foreign_misfit;
pub use catalog::foreign_key::{ForeignAction, ForeignKey, ForeignKeySpec, ForeignKeys};
pub use catalog::key_part::KeyPart;
pub use catalog::layout::{IndexSpec, Layout, TableSpec};
pub use catalog::replace::Replacement;
pub use catalog::table::Table;
pub use dml::change::RowWriter;
pub use health::check::{CheckLevel, Checker, EntrySink};
pub use health::orphans::{OrphanKind, Orphans};
pub use merge_scheduler::at_random::Chance;
pub use merge_scheduler::change_report::{ChangeReport, IndexChanges};
pub use merge_scheduler::rates::ROUNDS;
pub use merge_scheduler::rounds::Rounds;
pub use merge_scheduler::scheduler::MergeScheduler;
pub use optimizer::estimates::TableStats;
pub use optimizer::keeper::StatisticsKeeper;
pub use optimizer::report::StatisticsRow;
pub use row::autoinc_series::{AutoincSeries, AutoincValues};
pub use row::new_row::{Entry, EntryChange, NewRow, RowUpdate};
pub use row::row_lock::{RowLocks, AUTOINC_LOCKS};
pub use scan::cursor::Cursor;
pub use scan::following::KeyOf;
pub use scan::lock_choice::{LockChoice, OnLocked};
pub use scan::reader::Reader;
pub use scan::row_scan::Found;
pub use statistics::state::{IndexStatistics, StatisticsOptions, StatisticsSettings, TableStatistics};
pub use store::{Store, StoreConfig};
pub use undo::purge::Purger;
pub use undo::rollback::{Rollback, Savepoint};
