//! As the engine's `change/filter`.
#[path = "../../../../../engine/src/change/filter/counting.rs"]
mod counting;
#[path = "../../../../../engine/src/change/filter/memory.rs"]
mod memory;
