//! Writing pages back to disk.
//!
//! Top to bottom: `truncate`, `flush` (which pages, and when), `pace` (how many), `batch` (one batch on
//! its way to disk), then `unopened` (files that cannot be opened), `slots`, `doublewrite` (what makes
//! torn pages whole), `written` (detects lost writes) and `loads` side by side.
//! Uses the room `frames`. Called by: the rooms `read` and `recovery`, and the pool itself.
pub(in crate::pool) mod batch;
pub(in crate::pool) mod doublewrite;
pub(in crate::pool) mod flush;
pub(in crate::pool) mod loads;
pub(in crate::pool) mod pace;
mod slots;
mod truncate;
pub(in crate::pool) mod unopened;
pub(in crate::pool) mod written;
#[cfg(test)]
mod doublewrite_tests;
#[cfg(test)]
mod flush_tests;
