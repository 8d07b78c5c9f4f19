//! Recovery of pages after a crash.
//!
//! Top to bottom:
//! - `apply`: redo;
//! - `torn`: restores torn pages before redo;
//! - `state`: recovery's view of the pool;
//! - `gather`: what was read of the log;
//! - `void`: what a later part of the log makes void.
//!
//! Uses the subfolders `read`, `write` and `frames`.
//! Called by: the engine's start, and the pool itself.
mod apply;
pub(in crate::pool) mod gather;
pub(in crate::pool) mod state;
mod torn;
pub(in crate::pool) mod void;
#[cfg(test)]
mod gather_tests;
#[cfg(test)]
mod torn_tests;
