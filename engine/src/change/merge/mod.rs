//! Merging: pending changes go to their leaves.
//!
//! Order of the files, top to bottom:
//! - `backpressure`: appenders near the bound; `sweep`: the worker and drains
//! - `leaf`: one leaf
//! - `multi_leaf`: a stretch of full leaves
//! - `batch`: what one mini-transaction takes from the delta tree
pub mod backpressure;
mod batch;
pub mod leaf;
pub mod multi_leaf;
#[cfg(test)]
mod multi_leaf_tests;
pub mod sweep;
#[cfg(test)]
mod sweep_tests;
