//! Frames: the pages in memory, where they are found and how they leave. Knows no file and no log.
//!
//! Top to bottom:
//! - `resize`, `relocate`: more frames, and fewer;
//! - `evict`, `store`: the frames with their tables;
//! - `page_table`, `clock`, `dirty_list`, `absence_filter`, `cleaner_signal`, side by side;
//! - `frame`: one page's memory and latch;
//! - `memory`: that of all frames;
//! - `geometry`: the sizes of all of them.
//!
//! Called by: the subfolders `write`, `read` and `recovery`, and the pool itself.
pub(in crate::pool) mod absence_filter;
mod cleaner_signal;
mod clock;
pub(in crate::pool) mod dirty_list;
mod evict;
pub(in crate::pool) mod frame;
pub(in crate::pool) mod geometry;
mod memory;
mod page_table;
mod relocate;
pub(in crate::pool) mod resize;
pub(in crate::pool) mod store;
#[cfg(test)]
mod absence_filter_tests;
#[cfg(test)]
mod eviction_tests;
