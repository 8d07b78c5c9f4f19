//! Tests of the trees, each file one question: `node` (one page), `model` (a tree is a sorted map), `build`, `overflow`, `stress`
//! (threads), `crash` (recovery), `bench` (cost of the basic operations; ignored unless asked for).
mod bench;
mod build;
mod bulk;
mod crash;
pub(crate) mod kit;
mod model;
mod node;
mod overflow;
mod stress;
