//! The redo log: append a group, flush for whoever waits, read back. Knows pages only as (id, bytes).
//!
//! One endless stream of 512-byte blocks in a ring of preallocated segment files; LSN = byte offset in the stream,
//! block headers included. A *group* is one mini-transaction: its records become valid together (I2).
//! Formats are drawn in `block.rs` (blocks, segment and checkpoint headers) and `record.rs` (records).
pub mod block;
pub mod reader;
pub mod record;
pub mod writer;

pub use record::{Record, RecordSink};
pub use writer::{FlushMode, Redo, RedoConfig};
