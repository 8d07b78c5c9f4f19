//! As the engine's `table`.
pub mod catalog;
