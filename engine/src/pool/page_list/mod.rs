//! The page list: a file that names the pages in the pool. After a restart the engine reads these
//! pages, in the order of their places, so that they are in memory again.
//!
//! - `load`: reads the pages of a list, a bounded step at a time (I7);
//! - `dump`: writes the list;
//! - `format`: the file.
//!
//! The list is a hint. A start does not need it, and pages that do not exist are skipped.
//! Called by: the engine.
pub mod dump;
pub(in crate::pool) mod format;
pub mod load;
#[cfg(test)]
mod tests;
