//! Backpressure: near the bound of what may be pending, appenders merge leaves themselves, more and
//! more often (`ChangeBuffer::appends_per_merge`).
//!
//! **H1** An appender that merges takes entries out. Appenders take their leaves from a cursor of
//! the index, each before it merges its own. So of any number at once no two wait for the same
//! leaf, of which the second would find nothing left. A leaf may have been emptied all the same, by
//! a sweep or a reader. Then the appender takes the next one, a few times. At last it takes the
//! leaf of the change that was just appended. So from the bound on, where every appender merges,
//! what is pending does not grow with the number of appenders.
//!
//! The cursor goes round the index (`delta::leaf_cursor`). A leaf that cannot be merged is left to
//! the pass of the sweeps.
//!
//! Latches: those of `merge::leaf`. Called by: `apply`, after an append, with no latch held.
use super::leaf::{concerns_one_leaf, merge_as_appender};
use crate::base::sync::holds_no_latch;
use crate::base::{sync_point, Error, Result, SyncPoint};
use crate::btree::Tree;
use crate::change::delta::Delta;
use crate::change::IndexTrees;
use crate::pool::Pool;

/// Leaves that an appender takes, one after the other, until one has something.
const TRIES: usize = 3;
/// Delta leaves that an appender counts instead, after a restart.
const COUNTED: usize = 4;

#[cfg(test)]
thread_local! {
    /// Leaves that this thread has merged as an appender.
    pub(crate) static HELPED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Merges a leaf once in so many appends, near the bound. `key` was just appended.
pub fn after_append(pool: &Pool, index: &IndexTrees, delta: &Delta, key: &[u8]) -> Result<()> {
    debug_assert!(holds_no_latch(), "I5: an appender merges with no latch held");
    let every = delta.buffer().appends_per_merge();
    if every == 0 || !delta.leaf_cursor.is_turn(every) {
        return Ok(());
    }
    let since = pool.disk().now_us();
    let merged = merge_a_leaf(pool, index, delta, key);
    let counters = pool.counters();
    counters.change_buffer_throttled_us.add(pool.disk().now_us() - since);
    match merged {
        Err(e @ Error::Poisoned(_)) => Err(e),
        // The change itself is safe. A thread that needs the leaf meets the error itself.
        Err(_) => Ok(()),
        Ok(leaves) => {
            counters.change_buffer_throttled.add(leaves as u64);
            #[cfg(test)]
            HELPED.set(HELPED.get() + leaves as u64);
            Ok(())
        }
    }
}

/// H1. Returns the number of leaves that got entries.
fn merge_a_leaf(pool: &Pool, index: &IndexTrees, delta: &Delta, appended: &[u8]) -> Result<usize> {
    if !delta.count_step(pool, COUNTED)? {
        return Ok(0);
    }
    let mut leaves = 0;
    for left in (0..=TRIES).rev() {
        let key = match left {
            0 => Some(appended.to_vec()),
            _ => take_leaf(pool, delta, &index.tree)?,
        };
        let Some(key) = key else { break };
        sync_point(SyncPoint::LeafTaken);
        let pending = delta.entries();
        match merge_as_appender(pool, &index.tree, delta, &key) {
            Ok(merged) if merged.entries > 0 => {
                delta.merge_yield.note(merged.entries, merged.leaves, pending);
                leaves = merged.leaves;
                break;
            }
            Err(e) if !concerns_one_leaf(&e) => return Err(e),
            _ => {}
        }
    }
    delta.summary.reclaim();
    Ok(leaves)
}

/// A key of the next leaf for which something is pending, or perhaps is. The cursor moves to the
/// leaf after it. None: nothing is pending.
fn take_leaf(pool: &Pool, delta: &Delta, base: &Tree) -> Result<Option<Vec<u8>>> {
    loop {
        let from = delta.leaf_cursor.position();
        let mut key = key_or_unreadable(pool, delta, &from)?;
        if key.is_none() && !from.is_empty() {
            key = key_or_unreadable(pool, delta, &[])?;
        }
        let Some(key) = key else { return Ok(None) };
        let end = match base.leaf_place(pool, &key) {
            Err(e) if concerns_one_leaf(&e) => base.end_of_unreadable(pool, &key)?,
            place => place?.and_then(|(_, end)| end),
        };
        debug_assert!(
            end.as_ref().is_none_or(|end| end[..] > key[..]),
            "H1: the cursor moves behind the leaf that was taken"
        );
        if delta.leaf_cursor.advance(&from, end.unwrap_or_default()) {
            return Ok(Some(key));
        }
    }
}
/// As `next_key`; `from` itself where the delta tree cannot be read. The leaf that owns `from`
/// cannot be merged then, and the leaves after it can.
fn key_or_unreadable(pool: &Pool, delta: &Delta, from: &[u8]) -> Result<Option<Vec<u8>>> {
    match delta.next_key(pool, from) {
        Err(e) if concerns_one_leaf(&e) => Ok(Some(from.to_vec())),
        key => key,
    }
}

#[cfg(test)]
#[path = "backpressure_tests.rs"]
mod tests;
