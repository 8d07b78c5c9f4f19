//! Merging pending changes into their leaves.
pub mod backpressure;
pub mod leaf;
pub mod multi_leaf;
pub mod sweep;
#[cfg(test)]
mod multi_leaf_tests;
#[cfg(test)]
mod sweep_tests;
