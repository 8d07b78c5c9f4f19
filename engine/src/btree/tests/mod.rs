//! Tests of the trees, each file one question: `node` (one page), `model` (a tree is a sorted map), `build`, `overflow`, `stress`
//! (threads), `crash` (recovery), `free` (trees that cannot be walked), `bench` (cost of the basic operations; ignored unless asked for).
mod bench;
mod build;
mod bulk;
mod crash;
mod free;
pub(crate) mod kit;
mod model;
mod node;
mod overflow;
mod stress;
