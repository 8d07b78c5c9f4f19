//! What the modelled files use of the engine's `base`: its own files, but for `sync`.
pub mod atomic;
#[path = "../../../../engine/src/base/bytes.rs"]
pub mod bytes;
#[path = "../../../../engine/src/base/ids.rs"]
pub mod ids;
#[path = "../../../../engine/src/base/mutant.rs"]
pub mod mutant;
pub mod sync;

pub use ids::{FileId, PageId, PageNo};
pub use mutant::{planted, Mutant};
