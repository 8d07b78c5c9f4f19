//! Frames.
pub(in crate::pool) mod absence_filter;
pub(in crate::pool) mod clock;
pub(in crate::pool) mod dirty_list;
pub(in crate::pool) mod frame;
pub(in crate::pool) mod memory;
pub(in crate::pool) mod page_table;
#[cfg(test)]
mod eviction_tests;
