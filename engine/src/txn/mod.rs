//! Transactions: what is active, who may see what, row locks, undo streams, commit. Knows nothing of rows or trees:
//! undo payloads are bytes, lock names are (index, key) bytes.
//!
//! Undo lives in *streams* in the undo file: each writing transaction owns one stream from its first write to its end
//! and appends records and an end marker (commit number, or rolled back); then the stream serves the next transaction.
//! So small transactions share pages, nothing is appended to a global list at commit, and purge eats each stream from its head.
//! Records are never overwritten before purge: a reader may follow an [`UndoPtr`](crate::base::UndoPtr) it copied earlier.
pub mod lock;
pub mod snapshot;
pub mod sys;
pub mod trx;
pub mod undo;
pub mod wait;

pub use lock::{Granted, LockMode, LockPolicy, LockSys};
pub use snapshot::ReadView;
pub use sys::{PurgeJob, PurgeRecord, RecoveredTrx, TrxSys, UndoRecord};
pub use trx::{Isolation, Trx, TrxShared, Xid};
pub use wait::{WaitOutcome, Waiter};
