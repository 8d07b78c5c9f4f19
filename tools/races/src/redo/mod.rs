//! Compiles the files of the engine's `redo` that are named here with loom's types.
#[path = "../../../../engine/src/redo/flush_mode.rs"]
mod flush_mode;
#[path = "../../../../engine/src/redo/flush_queue.rs"]
mod flush_queue;
pub mod flush_queue_model;
