//! The folder of the engine's `table`: see `catalog`.
pub mod catalog;
