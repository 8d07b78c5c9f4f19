//! Tests of whole trees: `model` (a tree is a sorted map), `stress` (threads), `crash` (recovery),
//! `bench` (the cost of the basic operations; smoke size unless asked for). The tests of one file
//! stand beside it.
mod bench;
mod crash;
pub(crate) mod fixture;
mod model;
mod stress;
