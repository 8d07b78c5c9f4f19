//! Compiles the files of the engine's `change/filter` that are named here with loom's types.
#[path = "../../../../../engine/src/change/filter/bloom.rs"]
mod bloom;
pub mod bloom_model;
#[path = "../../../../../engine/src/change/filter/counting.rs"]
mod counting;
pub mod counting_model;
#[path = "../../../../../engine/src/change/filter/memory.rs"]
mod memory;
