//! Transactions: what is active, who may see what, row locks, undo streams, commit. Knows nothing of rows or trees:
//! undo payloads are bytes, lock names are (index, key) bytes.
//!
//! Undo lives in *streams* in the undo file: each writing transaction owns one stream from its first write to its end
//! and appends records and an end marker (commit number, or rolled back); then the stream serves the next transaction.
//! So small transactions share pages, nothing is appended to a global list at commit, and purge eats each stream from its head.
//! Records are never overwritten before purge: a reader may follow an [`UndoPtr`](crate::base::UndoPtr) it copied earlier.
//!
//! Reading order: `trx`, `xid` and `sys` (the door), `snapshot` and `views` (who sees what), `active`, `commit`, `settled`; then the locks:
//! `lock`, `lock_table`, `sleep`, `wait`, `explicit`, `range`, `deadlock`, and what people see of them: `report`, `lock_report`; then
//! undo: `undo` (format), `stream`, `directory`, `history`, `purge`, `shrink`, `recover`.
mod active;
mod commit;
mod deadlock;
mod directory;
mod explicit;
mod history;
pub mod lock;
mod lock_report;
mod lock_table;
mod purge;
mod range;
mod recover;
mod report;
mod settled;
mod shrink;
mod sleep;
pub mod snapshot;
mod stream;
pub mod sys;
#[cfg(test)]
mod tests;
pub mod trx;
pub mod undo;
mod views;
pub mod wait;
mod xid;

pub use deadlock::DEADLOCKS_KEPT_MAX;
pub use explicit::MadeExplicit;
pub use lock::{Granted, LockMode, LockPolicy, LockSys};
pub use lock_report::{LockDetail, LockInfo, LockKind, LockReport};
pub use report::{BlockerInfo, DeadlockInfo, DeadlockParty, HeldInfo, TrxInfo, WaitInfo};
pub use snapshot::ReadView;
pub use sys::{PurgeJob, PurgeRecord, RecoveredTrx, TrxSys, UndoRecord};
pub(crate) use trx::{HalfUndone, RollbackProgress};
pub use trx::{Isolation, Trx, TrxShared};
pub use undo::POSITION_MAX;
pub use views::OldestView;
pub use wait::{ThreadWaiter, WaitOutcome, Waiter};
pub use xid::Xid;
