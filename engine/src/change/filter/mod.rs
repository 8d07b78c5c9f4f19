//! Filters in memory: for which keys and values something may be pending.
pub mod bloom;
pub mod counting;
pub mod memory;
