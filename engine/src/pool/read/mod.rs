//! Reading pages: hits, misses and read-ahead.
//!
//! Top to bottom: `prefetch` (read-ahead), `take_frame` (a frame for a miss), `fetch` (one page),
//! `requests` (their count). Uses the subfolders `write` (a miss may have to write pages first) and
//! `frames`.
//! Called by: the subfolder `recovery`, and the pool itself.
pub(in crate::pool) mod fetch;
pub(in crate::pool) mod prefetch;
mod requests;
mod take_frame;
#[cfg(test)]
mod prefetch_tests;
