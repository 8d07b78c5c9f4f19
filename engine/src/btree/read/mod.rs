//! Reading a tree under S latches.
//!
//! Order of the files, top to bottom: `check`, `estimate`, `leaf_map`, `cursor`, `descent`, `leaf`.
pub mod check;
mod cursor;
pub(super) mod descent;
mod estimate;
mod leaf;
pub mod leaf_map;

pub use cursor::{Seek, READ_AHEAD_MAX};
pub use descent::RememberedLeaf;
pub use estimate::TreeStats;
pub use leaf::LeafRead;
