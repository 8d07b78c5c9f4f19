//! Transactions: what is active, what each one sees, row locks, undo streams, commit. Knows nothing
//! of rows or trees: undo payloads are bytes, lock names are (index, key) bytes.
//!
//! Order, top to bottom:
//! - `commit`, `purge`, `report`, `sys`: the door ([`TrxSys`]);
//! - `recover`;
//! - `visibility`: ids, active transactions, views;
//! - `lock/`;
//! - `trx`: the owner's half of a transaction;
//! - `undo/`;
//! - `active`, `info`, `view/`, `durable_reads`, `numbers`;
//! - `shared`: the half of a transaction that other threads touch;
//! - `xid`, `isolation`, `lock/held`, `lock/wait`.
mod active;
mod commit;
mod durable_reads;
mod info;
mod isolation;
mod lock;
mod numbers;
mod purge;
mod recover;
mod report;
mod row_maker;
mod shared;
pub mod sys;
#[cfg(test)]
mod tests;
pub mod trx;
mod undo;
mod view;
mod visibility;
mod xid;

pub use info::{BlockerInfo, DeadlockInfo, DeadlockParty, HeldInfo, TrxInfo, WaitInfo};
pub use isolation::Isolation;
pub use lock::deadlock::DEADLOCKS_KEPT_MAX;
pub use lock::held::{Granted, LockMode, LockPolicy};
pub use lock::implicit::MadeExplicit;
pub use lock::report::{LockDetail, LockInfo, LockKind, LockReport};
pub use lock::sys::LockSys;
pub use lock::wait::{ThreadWaiter, WaitOutcome, Waiter};
pub use row_maker::{ChildRow, MadeEntry, MadeRow, MadeValue, ReferenceValue, RowMaker};
pub use shared::TrxShared;
pub use sys::{RecoveredTrx, TrxSys};
pub use trx::Trx;
pub(crate) use trx::{HalfUndone, RollbackProgress};
pub use undo::format::POSITION_MAX;
pub use undo::purge::{PurgeJob, PurgeRecord};
pub use undo::streams::{UndoRecord, UndoStreams};
pub use view::registry::OldestView;
pub use view::snapshot::ReadView;
pub use visibility::Visibility;
pub use xid::Xid;
