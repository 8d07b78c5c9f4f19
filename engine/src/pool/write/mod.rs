//! Writing pages back to disk.
//!
//! Top to bottom:
//! - `truncate`: cuts off the end of a file;
//! - `resize`: one change of the pool's size at a time, and its status;
//! - `shrink`: adds and withdraws frames;
//! - `flush`: which pages are written, and when;
//! - `pace`: how many;
//! - `batch`: one batch on its way to disk;
//! - `unopened`: files that cannot be opened;
//! - `slots`: the batches in progress, and their buffers;
//! - `doublewrite`: what makes torn pages whole;
//! - `written`: detects lost writes;
//! - `loads`: which files have loads. It uses none of the others.
//!
//! Uses the subfolder `frames`.
//! Called by: the subfolders `read` and `recovery`, and the pool itself.
pub(in crate::pool) mod batch;
pub(in crate::pool) mod doublewrite;
pub(in crate::pool) mod flush;
pub(in crate::pool) mod loads;
pub(in crate::pool) mod pace;
pub(in crate::pool) mod resize;
pub(in crate::pool) mod shrink;
mod slots;
mod truncate;
pub(in crate::pool) mod unopened;
pub(in crate::pool) mod written;
#[cfg(test)]
mod doublewrite_tests;
#[cfg(test)]
mod flush_tests;
