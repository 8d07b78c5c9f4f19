//! Tests of whole trees. The tests of one file stand beside that file.
//!
//! - `model`: a tree is a sorted map
//! - `stress`: threads
//! - `crash`: recovery
//! - `bench`: the cost of the basic operations; smoke size unless asked for
mod bench;
mod crash;
pub(crate) mod fixture;
mod model;
mod stress;
