//! The change buffer (`docs/decisions/2026-11-21-change-buffer.md`).
//!
//! Changes of a secondary index are *submitted* here as blind operations. Each is applied to its
//! leaf at once, or appended to the index's *delta tree* and merged later. Which of the two is a
//! matter of cost, with one rule (I3). A key for which something is pending is changed through the
//! delta tree only. Entries are read from here or from `index::scan`, with everything pending
//! applied.
//!
//! Called by `index::scan` and the table layer, with no latch held. Files and subfolders, top to
//! bottom:
//!
//! | | |
//! |---|---|
//! | `testing/` | random merges for the test modes, fixtures, tests of the whole |
//! | `unique` | new unique values whose leaf need not be read |
//! | `check` | CHECK TABLE of a delta tree |
//! | `apply` | a change's way in |
//! | `merge/` | pending changes go to their leaves |
//! | `estimate` | how much is pending in a range |
//! | `read` | base leaves and pending changes as one run of entries |
//! | `delta/` | the delta tree, and what memory knows about it |
//! | `policy/` | when a change is buffered, and how much may be |
//! | `filter/` | for which keys and values something may be pending |
//! | `trees` | the trees of one index: base and delta |
//! | `op` | the operations |
mod apply;
mod check;
mod delta;
mod estimate;
mod filter;
mod merge;
mod op;
mod policy;
mod read;
pub(crate) mod testing;
mod trees;
mod unique;

pub use apply::{submit, submit_checked};
pub use check::check;
pub use delta::key::DELTA_BIT;
#[cfg(test)]
pub(crate) use delta::partition::CLOSED;
pub use delta::progress::Unmergeable;
pub use delta::{Delta, Pending};
#[cfg(test)]
pub(crate) use merge::backpressure::HELPED;
pub use merge::leaf::merge_leaf;
#[cfg(test)]
pub(crate) use merge::multi_leaf::REDISTRIBUTED;
pub use merge::sweep::{drain, drain_with_progress, sweep_step, Swept};
pub use op::Op;
pub use policy::{Buffering, ChangeBuffer, DENSE_READS_PER_MERGE};
pub use read::{get, in_use, visit_prefix, visit_prefix_from, visit_value, Merging, Run};
#[cfg(test)]
pub(crate) use testing::fixture;
pub use testing::random_merge::merge_at_random;
pub use trees::IndexTrees;
pub use unique::{lacks_value, put_unseen};
