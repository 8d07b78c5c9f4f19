//! As the engine's `change`.
pub mod filter;
