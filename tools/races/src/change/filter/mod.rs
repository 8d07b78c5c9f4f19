//! As the engine's `change/filter`.
#[path = "../../../../../engine/src/change/filter/bloom.rs"]
mod bloom;
pub mod bloom_model;
#[path = "../../../../../engine/src/change/filter/counting.rs"]
mod counting;
pub mod counting_model;
#[path = "../../../../../engine/src/change/filter/memory.rs"]
mod memory;
