//! The redo log: append a group, flush it for all waiting threads, read it back.
//!
//! One endless stream of 512-byte blocks in a ring of preallocated segment files. LSN = byte offset
//! in the stream, block headers included. A *group* is one mini-transaction: its records become
//! valid together (I2). The log knows pages only as (id, bytes). Formats are drawn in
//! `block_format.rs` (blocks), `segment_ring.rs` (segment files), `control.rs` (checkpoints) and
//! `record.rs` (records). The files below stand in their order, top to bottom: a file uses only
//! files below it.

/// Copies the log while it grows, for a backup, and restores it.
pub mod copy;
/// Turning the log off and on again.
mod on_off;
/// Checkpoints, the length of the ring, and holding a checkpoint back.
mod checkpoint;
/// Room in the ring, reserved before a change.
mod reserve;
/// A round of group commit: what the leader does.
mod group_commit;
/// Append, flush and open: the log as the other layers see it.
pub mod log;
/// Threads that wait for room in the ring.
mod room_waiters;
/// Whether the log is on.
mod log_state;
/// Threads that wait for a flush.
mod flush_queue;
/// Reads the log back in a thread of its own.
pub mod read_ahead;
/// Reads the log back.
pub mod reader;
/// Cuts the stream into blocks and writes them.
mod block_writer;
/// The segment files.
mod segment_ring;
/// The control file: checkpoint and epochs.
mod control;
/// Blocks, and LSN arithmetic.
mod block_format;
/// How far a flush goes.
mod flush_mode;
/// What a group says: records.
pub mod record;

pub use block_format::FIRST_LSN;
pub use checkpoint::CheckpointHold;
pub use copy::{LogCopy, LogStart};
pub use flush_mode::FlushMode;
pub use log::{Redo, RedoConfig};
pub use record::{Record, RecordSink};

#[cfg(test)]
mod tests;
