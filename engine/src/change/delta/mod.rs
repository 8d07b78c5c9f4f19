//! The delta tree of one secondary index: the pages, and what memory knows about them.
//!
//! Order of the files, top to bottom:
//! - `tree`: [`Delta`], which reads and appends
//! - `count`: the count of the content after a restart
//! - `summary`: how much is pending, and perhaps for which keys
//! - `partition`: the partitions, and when the newest is closed
//! - `progress`: how far merging is
//! - `sums`: entries, bytes and age
//! - `leaf_cursor`: the leaves that appenders merge
//! - `pending`, `op_list`: what is pending for a range, and for a key
//! - `key`: keys of the tree
//!
//! Order of locks: count mutex, gate, latches of the base tree, latches of the delta tree. The
//! count mutex may be taken under latches of the base tree, too.
pub mod count;
pub mod key;
pub mod leaf_cursor;
pub mod op_list;
pub mod partition;
pub mod pending;
pub mod progress;
pub mod summary;
pub mod sums;
pub mod tree;

pub use pending::Pending;
pub use tree::Delta;
