//! The redo log: append a group, flush for whoever waits, read back. Knows pages only as (id, bytes).
//!
//! One endless stream of 512-byte blocks in a ring of preallocated segment files; LSN = byte offset in the stream,
//! block headers included. A *group* is one mini-transaction: its records become valid together (I2).
//! Formats are drawn in `block.rs` (blocks), `ring.rs` (segment files), `control.rs` (checkpoints) and `record.rs` (records).

/// What a group says: records.
pub mod record;
/// Append and flush: the log as the other layers see it.
pub mod writer;
/// Turning the log off and on again.
mod switch;
/// Holding the checkpoint back.
mod hold;
/// Who waits for a flush.
mod queue;
/// What the one who leads does for them.
mod round;
/// Cuts the stream into blocks and writes them.
mod stage;
/// The segment files.
mod ring;
/// The control file: checkpoint and epochs.
mod control;
/// Blocks, and LSN arithmetic.
mod block;
/// Reads the log back.
pub mod reader;
/// The same, with a thread of its own.
pub mod ahead;

pub use block::FIRST_LSN;
pub use hold::CheckpointHold;
pub use record::{Record, RecordSink};
pub use writer::{FlushMode, Redo, RedoConfig};

#[cfg(test)]
mod tests;
