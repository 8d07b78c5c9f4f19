//! The page list: which pages the pool holds, kept in a file. A restarted server reads these pages,
//! in their order, and has them in memory again.
//!
//! - `load`: reads the pages of a list, a bounded step at a time (I7);
//! - `dump`: writes the list;
//! - `format`: the file.
//!
//! The list is a hint. A start does not need it, and what it names and does not exist is skipped.
//! Called by: the engine.
pub mod dump;
pub(in crate::pool) mod format;
pub mod load;
#[cfg(test)]
mod tests;
