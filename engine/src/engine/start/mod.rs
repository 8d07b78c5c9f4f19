//! Opening: a fresh directory is created, any other recovered.
//!
//! Order, top to bottom: `open` (the entry point), `recover`, `orphan_files`, `read_log`, `parts`,
//! `directory`, `checkpoint`.
pub(super) mod checkpoint;
pub(super) mod directory;
mod open;
mod orphan_files;
mod parts;
mod read_log;
mod recover;
