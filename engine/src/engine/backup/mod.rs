//! Hot backup: writes the files and the log of a running engine into one stream; restores such a
//! stream.
//!
//! The invariants B1 to B9, and why a copy recovers: `docs/decisions/2026-11-28-hot-backup.md`.
//! Order, top to bottom: `restore` (from a stream to files), then `source` (from a running engine
//! to a stream). Below them: `control` (what the engine knows of its backup), `format` (the
//! stream).
pub mod control;
pub mod format;
pub mod restore;
pub mod source;

pub use control::{BackupControl, Phase};
pub use restore::{Restore, Restored};
pub use source::Backup;
