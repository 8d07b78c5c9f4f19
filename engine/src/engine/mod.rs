//! The engine as one object: opened on a disk, closed, and in between the transactions and tables
//! of its users.
//!
//! `Engine::open` creates or recovers (`start/`). Then the page cleaner and the checkpointer run.
//! `start_background` lets purge and the rollback of losers run too: a server first finishes its
//! own DDL recovery.
//!
//! Four doors lead into the engine:
//!
//! | door | for | used by |
//! |---|---|---|
//! | [`Database`], [`Transaction`] | embedded users | programs |
//! | [`Engine`] | open, close, settings, begin, commit, reports | `ffi`, [`Database`] |
//! | [`Store`](crate::table::Store) | changes of rows; savepoints; DDL | `ffi`, [`Transaction`] |
//! | [`Cursor`](crate::table::Cursor) | reads: one row, scans, locks | `ffi`, [`Transaction`] |
//!
//! [`Engine::store`] leads to the third, and with it to the fourth. A connection keeps one
//! [`Trx`](crate::txn::Trx), and passes it to the last three.
//!
//! Order, top to bottom: `database`, `start/`, `transactions`, `runtime_settings`, `pool_control`,
//! `report/`, `backup`, `instance` (the type [`Engine`]), `workers`, `steps`, `in_doubt`,
//! `redo_switch`, `page_list`, `pool_rates`, `drain`, `purge_lag`, `config`.
pub mod backup;
pub mod config;
pub mod database;
mod drain;
pub mod in_doubt;
mod instance;
mod page_list;
mod pool_control;
mod pool_rates;
mod purge_lag;
mod redo_switch;
pub mod report;
mod runtime_settings;
mod setting;
mod start;
mod steps;
mod transactions;
mod workers;

#[cfg(test)]
mod tests;

pub use config::{CommitFlush, Config, FlushMethod, KeyText, Level, LogSink};
pub use database::{Database, Transaction};
pub use in_doubt::InDoubt;
pub use instance::{Close, Engine};
pub use pool_control::PoolControl;
pub use pool_rates::{PoolStats, PoolTotals};
pub use report::locks::{LockedIndex, NamedLocks};
