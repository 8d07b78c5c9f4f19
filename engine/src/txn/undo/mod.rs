//! Undo: the streams in the undo file, from the transaction's first record to the purge of its
//! last.
//!
//! Each writing transaction owns one stream from its first write to its end. It appends records and
//! an end marker (commit number, or rolled back); then the stream serves the next transaction. So
//! small transactions share pages, nothing is appended to a global list at commit, and purge
//! consumes each stream from its head. Records are never overwritten before purge (I9).
//!
//! Order, top to bottom:
//! - `purge`, `truncate`, `streams`: the door;
//! - `history`: the streams in memory;
//! - `directory`: what survives outside the streams;
//! - `ceiling`: the length of the file;
//! - `stream`: the writing end;
//! - `format`.
mod ceiling;
pub(super) mod directory;
pub mod format;
pub(super) mod history;
pub(super) mod purge;
pub(super) mod stream;
pub(super) mod streams;
#[cfg(test)]
mod tests;
pub(super) mod truncate;
