//! B+trees over pages. Keys and values are bytes (I8): no file here knows transactions, rows or
//! pending changes.
//!
//! The root's page number never changes: a root split pushes the root's content down. Every node
//! stores its fence keys [lower, upper): the range that its parent routes to it. Each descent
//! checks them. The nodes of a level are linked to the right. There are no left links, so splits
//! and merges touch no third page; a step to the left descends again by the lower fence.
//!
//! Writers are optimistic: S latches on the way down, X on the leaf only. When the leaf has no
//! room, or would become too empty, the caller comes back with [`Intent::Grow`] or
//! [`Intent::Merge`]. Both X-latch the path from the root and release the ancestors that the change
//! cannot reach. Latches are taken downwards and from left to right (I5).
//!
//! Subfolders and files, top to bottom; each uses only what stands below it:
//! - `overflow`: chains of pages for values too long for a leaf; `free_tree`: gives a whole tree
//!   back
//! - `sorted`: fills an empty tree from sorted entries: `build` through the pool, `load` past it
//! - `write`: changes of leaves, splits, merges, redistribution
//! - `read`: descents, cursors, estimates, the check
//! - `tree`, `nodes`: a tree, and its nodes as pages; `pages`: what all pages here have in common
//! - `limits`, `node`: sizes, the node format and its edits
mod free_tree;
#[cfg(test)]
mod free_tree_tests;
mod limits;
mod node;
mod nodes;
pub mod overflow;
#[cfg(test)]
mod overflow_tests;
mod pages;
mod read;
mod sorted;
#[cfg(test)]
pub(crate) mod tests;
mod tree;
mod write;

pub use free_tree::TreeRemover;
pub use limits::{ENTRY_MAX, ENTRY_OVERHEAD, KEY_MAX, WIDE_BIT, WIDE_ENTRY_MAX, WIDE_KEY_MAX};
pub use node::{check_body, leaf_entries};
pub use read::{check, leaf_map, LeafRead, RememberedLeaf, Seek, TreeStats, READ_AHEAD_MAX};
pub use sorted::{build, extents, load};
pub use tree::Tree;
pub use write::{remove_loaded, Contents, Doomed, Intent, LeafWrite, Placed, Siblings};
