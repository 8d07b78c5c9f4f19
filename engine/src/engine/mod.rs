//! The engine as one object: open, close, and the transactions and tables of its users.
//!
//! `Engine::open` creates or recovers (`start/`), and starts the page cleaner and the checkpointer.
//! `start_background` starts purge and the rollback of losers, too. It is a call of its own,
//! because a server first finishes its own DDL recovery.
//!
//! The engine has four interfaces:
//!
//! | interface | for | used by |
//! |---|---|---|
//! | [`Database`], [`Transaction`] | embedded users | programs |
//! | [`Engine`] | open, close, settings, begin, commit, reports | `ffi`, [`Database`] |
//! | [`Store`](crate::table::Store) | changes of rows; savepoints; DDL | `ffi`, [`Transaction`] |
//! | [`Cursor`](crate::table::Cursor) | reads: one row, scans, locks | `ffi`, [`Transaction`] |
//!
//! [`Engine::store`] returns the third, from which cursors are made. A connection keeps one
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
