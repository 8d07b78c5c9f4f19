//! Changing a tree: the way to the leaf, edits of its entries, splits, merges.
//!
//! Order of the files, top to bottom: `remove_loaded`, `redistribute`, `latch`, `leaf`, then
//! `merge_nodes` and `split`, which use nothing of each other. Tree pages are latched downwards and
//! from left to right, and before the first page of `space` (I5).
mod latch;
mod leaf;
mod merge_nodes;
mod redistribute;
mod remove_loaded;
pub(super) mod split;

pub use leaf::{Intent, LeafWrite, Placed};
pub use redistribute::{Contents, Siblings};
pub use remove_loaded::{remove_loaded, Doomed};
