//! The change buffer (`docs/decisions/2026-11-21-change-buffer.md`). Changes of a secondary index are *submitted* here as blind operations:
//! each is applied to its leaf at once, or appended to the index's *delta tree* and merged later. Which of the two is a matter of cost,
//! but for one rule: a key for which something is pending is changed through the delta tree only (I3). Entries are read from here or
//! from `index::scan`, with everything pending applied.
//!
//! Reading order: `apply` (the way in), `pending` (what is pending for a key, and its format), `delta` (the tree and what memory knows about
//! it), `closing`, `count`, `filter`, `values`, `memory`, `policy`, `sums`, `read`, `unique`, `merge`, `spread`, `sweep`, `progress`, `help`,
//! `at_random`. Called by `index::scan` and the table layer, with no latch held.
mod apply;
mod delta;
mod estimate;
mod filter;
mod merge;
mod policy;
mod read;
pub(crate) mod testing;
mod trees;
mod unique;

pub use apply::{submit, submit_checked};
pub use delta::op_list::Pending;
#[cfg(test)]
pub(crate) use delta::partition::CLOSED;
pub use delta::progress::Unmerged;
pub use delta::tree::{Delta, DELTA_BIT, SETTLE_EVERY};
pub use estimate::check;
#[cfg(test)]
pub(crate) use merge::backpressure::HELPED;
pub use merge::leaf::merge_leaf;
#[cfg(test)]
pub(crate) use merge::multi_leaf::SPREAD;
pub use merge::sweep::{drain, drain_telling, sweep_step, Swept};
pub use policy::change_buffer::{Buffering, ChangeBuffer};
pub use read::{get, in_use, visit_prefix, visit_value, Merging, Run};
#[cfg(test)]
pub(crate) use testing::fixture as kit;
pub use testing::random_merge::merge_at_random;
pub use trees::IndexTrees;
pub use unique::{lacks_value, put_unseen};

use crate::base::TrxId;

/// One blind change of a secondary index. All are idempotent.
#[derive(Clone, Copy, Debug)]
pub enum Op<'a> {
    /// Put the entry: new, or revive/overwrite a marked, dead or equal-key one. `value` is the whole entry value, stamp included, unmarked.
    Put { key: &'a [u8], value: &'a [u8] },
    /// Set the delete mark and the stamp. An absent entry is an error of the caller (Corrupt), except in rollback/recovery.
    Mark { key: &'a [u8], stamp: TrxId },
    /// Rollback of a put over what may have been there before: sets mark and dead bit if the stamp is `if_stamp` (kept). Absent: nothing.
    Kill { key: &'a [u8], if_stamp: TrxId },
    /// Clear the delete mark and the dead bit (rollback), set the stamp; only if it is marked with `if_stamp`. With `value`, restore the raw part too.
    Unmark {
        key: &'a [u8],
        if_stamp: TrxId,
        stamp: TrxId,
        value: Option<&'a [u8]>,
    },
    /// Remove the entry if its stamp is `if_stamp` and its mark is `marked` (purge: true; rollback of an insert: false). Else nothing.
    Remove {
        key: &'a [u8],
        if_stamp: TrxId,
        marked: bool,
    },
}
