//! What the modelled files use of the engine's `io`.
pub mod futex;
