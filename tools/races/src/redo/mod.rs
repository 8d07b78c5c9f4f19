//! As the engine's `redo`.
#[path = "../../../../engine/src/redo/flush_mode.rs"]
mod flush_mode;
#[path = "../../../../engine/src/redo/flush_queue.rs"]
mod flush_queue;
pub mod flush_queue_model;
