//! Rows: insert, update, delete, scan; the catalog of tables; rollback and purge.
//!
//! Keys and rows are bytes made by the caller, who also passes the secondary keys of a row: nothing here computes a key
//! from a row. So undo records carry the secondary keys, and rollback and purge need no server
//! (`docs/decisions/2026-11-21-secondary-entry-stamps.md`). One kind of scan is lent a function for it: `cursor_moved`.
//!
//! [`Store`] is what every operation of this layer needs: the pool, the transaction system, the catalog. Reading order:
//! `store`, `def`, then the trip of a change: `insert`, `update`, `secondary`, `unique`, `row_lock`, `undo_format`; of a read:
//! `cursor`, `version`; what happens later: `rollback`, `purge`; and what is built as a whole: `build`, `load`, `bulk_insert`.
pub(crate) mod bulk;
pub mod catalog;
pub(crate) mod dml;
pub(crate) mod health;
pub(crate) mod merge_scheduler;
pub(crate) mod scan;
pub mod statistics;
pub mod store;
pub(crate) mod undo;

pub use bulk::index_build::{IndexBuild, IndexChange};
pub use bulk::insert_select::BulkInsert;
pub use bulk::table_load::TableLoad;
pub use catalog::dictionary::{Catalog, TableText};
pub use catalog::table::{IndexSpec, Layout, Table, TableSpec};
pub use dml::autoinc::{AutoincSeries, AutoincValues};
pub use dml::row_lock::AUTOINC_LOCKS;
pub use health::check::{CheckLevel, Checker, EntrySink};
pub use merge_scheduler::at_random::Chance;
pub use merge_scheduler::change_report::{ChangeReport, IndexChanges};
pub use merge_scheduler::rates::ROUNDS;
pub use merge_scheduler::rounds::Rounds;
pub use scan::cursor::{Cursor, Found, LockChoice, OnLocked};
pub use scan::relocated::KeyOf;
pub use statistics::{
    IndexStatistics, StatisticsOptions, StatisticsRow, StatisticsSettings, TableStatistics, TableStats,
};
pub use store::{Entry, EntryChange, NewRow, Savepoint, Store, StoreConfig};
