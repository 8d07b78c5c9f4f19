//! What every layer shares: ids, errors, byte codec, counters, ranked locks. Uses nothing but std.
pub mod bytes;
pub mod counters;
pub mod error;
pub mod ids;
pub mod level;
pub mod moment;
pub mod rests;
pub mod mutant;
pub mod poison;
pub mod sync;
pub mod told;

pub use counters::Counters;
pub use error::{Damage, Error, Result};
pub use ids::{FileId, IndexId, Lsn, PageId, PageNo, TrxId, UndoPtr};
pub use level::Level;
#[cfg(test)]
pub use moment::at_each;
pub use moment::{moment, Moment};
pub use mutant::{planted, Mutant};
pub use poison::Poison;
pub use told::Told;
