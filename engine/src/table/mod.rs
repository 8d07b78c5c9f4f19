//! Rows: insert, update, delete, scan; the catalog of tables; rollback and purge.
//!
//! Keys and rows are bytes made by the caller, who also passes the secondary keys of a row: nothing here computes a key
//! from a row. So undo records carry the secondary keys, and rollback and purge need no server
//! (`docs/decisions/2026-11-21-secondary-entry-stamps.md`). One kind of scan is lent a function for it: `cursor_moved`.
//!
//! [`Store`] is what every operation of this layer needs: the pool, the transaction system, the catalog. Reading order:
//! `store`, `def`, then the trip of a change: `insert`, `update`, `secondary`, `unique`, `row_lock`, `undo_format`; of a read:
//! `cursor`, `version`; what happens later: `rollback`, `purge`; and what is built as a whole: `build`, `load`, `bulk_insert`.
mod at_random;
mod autoinc;
mod buffered;
mod build;
mod bulk_insert;
mod bulk_link;
mod bulk_undo;
pub mod catalog;
pub mod catalog_format;
pub mod chain;
mod change_report;
mod check;
pub mod cursor;
mod cursor_consistent;
mod cursor_locking;
mod cursor_moved;
mod damage;
pub mod ddl;
pub mod def;
pub mod handles;
pub mod insert;
mod layouts;
mod load;
pub mod purge;
mod rates;
mod read_tries;
pub mod rollback;
pub(crate) mod rollback_progress;
pub mod row_lock;
mod scratch;
pub mod secondary;
mod sort;
mod sort_run;
pub mod statistics;
pub mod store;
pub mod undo_format;
mod unique;
mod unmerged;
pub mod update;
mod rewound;
mod rising;
pub mod version;

pub use at_random::Chance;
pub use autoinc::{AutoincSeries, AutoincValues};
pub use buffered::Rounds;
pub use build::{IndexBuild, IndexChange};
pub use bulk_insert::BulkInsert;
pub use catalog::TableText;
pub use change_report::{ChangeReport, IndexChanges};
pub use check::{CheckLevel, Checker, EntrySink};
pub use cursor::{Cursor, Found, LockChoice, OnLocked};
pub use cursor_moved::KeyOf;
pub use def::{IndexSpec, Layout, Table, TableSpec};
pub use load::TableLoad;
pub use rates::ROUNDS;
pub use row_lock::AUTOINC_LOCKS;
pub use statistics::{
    IndexStatistics, StatisticsOptions, StatisticsRow, StatisticsSettings, TableStatistics, TableStats,
};
pub use store::{Entry, EntryChange, NewRow, Savepoint, Store, StoreConfig};
