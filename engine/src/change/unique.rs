//! Unique values that need no look at their leaf (`docs/decisions/2026-11-21-unique-filter.md`).
//!
//! The leaf of the new value is not in the pool. The pool has its absence filter, made as the leaf
//! left, and the filter lacks the value. Nothing is pending for the value. Then no entry of the
//! index has the value. The new entry is appended without a read of the leaf ("unseen").
//!
//! The caller holds the mutex that every inserter of this value holds from the check to the put. So
//! from the first question on an entry of the value may move or go, but none can come.
//!
//! **U1** The question about pending entries comes first, the question about the leaf second. A
//! merge brings the leaf into the pool, which ends its absence filter, before it takes an entry out
//! of the delta tree. So the second question finds an entry that is pending no more, or it has no
//! answer.
//!
//! **U2** The leaf is asked about under its parent's S latch. It owns the value, and all keys that
//! begin with it.
//!
//! Pending entries are known by value (`filter::bloom`) if all clustered keys of the table have one
//! length. Then a key tells where its value ends. If the lengths vary every value is looked up.
//!
//! Latches: those of a descent to the parent. Called by: `table::row::secondary`.
use crate::base::bytes::prefix_successor;
use crate::base::sync::holds_no_latch;
use crate::base::Result;
use crate::change::apply;
use crate::change::delta::Delta;
use crate::change::filter::absence::hash_of;
use crate::change::op::Op;
use crate::change::IndexTrees;
use crate::pool::{Pool, Presence};
use std::sync::atomic::Ordering;

/// The value is the first `value_len` bytes of `key`. True: no entry of the unique index has it,
/// and none comes while the caller holds the mutex of this value. `put_unseen` may follow. False:
/// the value must be looked up. Called with no latch held.
pub fn lacks_value(pool: &Pool, index: &IndexTrees, key: &[u8], value_len: usize) -> Result<bool> {
    let Some(delta) = index.delta.as_deref() else {
        return Ok(false);
    };
    let Some(pk_len) = delta.summary.values.pk_len() else {
        return Ok(false);
    };
    debug_assert!(value_len <= key.len(), "the value is the beginning of the key");
    debug_assert!(holds_no_latch(), "U2: the parent is reached by a descent");
    if !delta.takes(&Op::Put { key, value: &[] }) || !asks(delta, key) {
        return Ok(false);
    }
    if !delta.has_absence_filters.swap(true, Ordering::Relaxed) {
        delta
            .buffer()
            .unique_leaves
            .add(index.tree.file, index.tree.index, pk_len);
    }
    let value = &key[..value_len];
    let end = prefix_successor(value);
    // U1: first what is pending, then the leaf.
    if delta.summary.may_have_value(value) {
        return Ok(false);
    }
    let asked = index.tree.ask_leaf(pool, value, end.as_deref(), |leaf| {
        debug_assert!(!holds_no_latch(), "U2: the parent's latch keeps the leaf where it is");
        let presence = pool.presence(leaf);
        delta.residency.note(presence);
        (
            presence,
            presence == Presence::Absent && pool.absence_filters().lacks(leaf, hash_of(value)),
        )
    })?;
    if let Some((Presence::Absent, false)) = asked {
        pool.counters().change_buffer_unique_checks_read.inc();
    }
    Ok(asked.is_some_and(|(_, lacks)| lacks))
}

/// Is it worth asking about the leaf? In an index that lives in memory only now and then.
fn asks(delta: &Delta, key: &[u8]) -> bool {
    !delta.lives_in_memory() || delta.buffer().forces(key) || delta.residency.is_turn_to_ask_unique()
}

/// Puts an entry whose value the index lacks by the answer of `lacks_value`. False: the entry does
/// not fit the delta tree, and nothing was done.
pub fn put_unseen(pool: &Pool, index: &IndexTrees, key: &[u8], value: &[u8]) -> Result<bool> {
    let op = Op::Put { key, value };
    match index.delta.as_deref() {
        Some(delta) if delta.fits(&op) => {
            debug_assert!(
                delta.summary.values.pk_len().is_some(),
                "U1: unseen values need a filter that knows what is pending"
            );
            apply::append(pool, index, delta, op)?;
            pool.counters().change_buffer_unique_checks_spared.inc();
            Ok(true)
        }
        _ => Ok(false),
    }
}

#[cfg(test)]
#[path = "unique_tests.rs"]
mod tests;
