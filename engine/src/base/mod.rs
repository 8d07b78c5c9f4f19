//! What every layer shares: ids, errors, the byte codec, counters, ranked locks, hooks for tests.
//!
//! Order of the files, top to bottom: `sync` and `sync_point`, `schedule_jitter`; `poison`,
//! `error`, `ids`. The files `counters`, `log_dedup`, `mutant`, `observer`, `bytes` and `level` use
//! no other file here. Called by: every other module.
pub mod bytes;
pub mod counters;
pub mod error;
pub mod ids;
pub mod level;
pub mod log_dedup;
pub mod mutant;
pub mod observer;
pub mod poison;
pub mod schedule_jitter;
pub mod sync;
pub mod sync_point;

pub use counters::Counters;
pub use error::{Damage, Error, ForeignFault, ForeignFlaw, ForeignRefusal, Result};
pub use ids::{FileId, IndexId, Lsn, PageId, PageNo, TrxId, UndoPtr};
pub use level::Level;
pub use log_dedup::LogDedup;
pub use mutant::{planted, Mutant};
pub use poison::Poison;
#[cfg(test)]
pub use sync_point::at_each;
pub use sync_point::{sync_point, SyncPoint};
