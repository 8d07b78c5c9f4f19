//! The delta tree of one secondary index.
pub mod count;
pub mod op_list;
pub mod partition;
pub mod progress;
pub mod sums;
pub mod tree;
