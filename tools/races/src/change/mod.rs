//! The folder of the engine's `change`: see `filter`.
pub mod filter;
