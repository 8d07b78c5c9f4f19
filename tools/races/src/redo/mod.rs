//! As the engine's `redo`.
