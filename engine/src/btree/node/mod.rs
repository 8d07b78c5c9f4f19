//! The tree node: its bytes, what can be read from them, and its edits. Pure: no latches.
//!
//! A caller that holds a [`Node`] holds the latch of its page. Order of the files, top to bottom:
//! `edit`, `check`, `view`, `format`.
mod check;
pub mod edit;
mod format;
#[cfg(test)]
mod tests;
mod view;

pub use check::{check_body, leaf_entries};
pub use format::{item_size, write_node, NewNode, AT_TYPE, CAPACITY, NODE_HEADER, NO_SLOT, OVERHEAD, SLOT};
pub use view::Node;
