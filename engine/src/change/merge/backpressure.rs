//! Back-pressure: near the bound of what may be pending, appenders merge leaves themselves, more and more often (`ChangeBuffer::help_every`).
//!
//! **H1** Whoever helps takes entries out. Helpers take their leaves from a cursor of the index, each before it merges its own: of any number at
//! once no two wait for one leaf, of which the second would find nothing left. A leaf that others have emptied all the same (a sweep, a reader)
//! is followed by the next, a few times, and at last by the leaf of the change that was just appended. So from the bound on, where every
//! appender helps, what is pending does not grow however many they are.
//!
//! The cursor goes round the index, beside the pass of the sweeps, of which it is no part: a pass knows of each leaf what became of it, and a
//! helper's leaf may be under way for long. A leaf that cannot be merged is left to the pass, too.
//!
//! Locks: the cursor's mutex, held for moments, no latch taken under it. Called by `apply`, behind an append, with no latch held.
use crate::base::sync::RankedMutex;
use crate::base::{Error, Result};
use crate::btree::Tree;
use crate::change::delta::tree::Delta;
use crate::change::merge::leaf::merge_helping;
use crate::change::merge::sweep::is_of_one_leaf;
use crate::change::IndexTrees;
use crate::pool::Pool;
use std::sync::atomic::{AtomicU64, Ordering};

/// Leaves that a helper takes, one after the other, until one has something.
const TRIES: usize = 3;
/// Delta leaves that it counts instead, after a restart.
const COUNTED: usize = 4;

#[cfg(test)]
thread_local! {
    /// Leaves that this thread has merged as a helper.
    pub(crate) static HELPED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

#[derive(Default)]
pub(in crate::change) struct Help {
    /// Appends of those of which some help.
    appends: AtomicU64,
    /// The next helper's leaf is the first from here on for which something is pending.
    from: RankedMutex<Vec<u8>>,
}

/// Behind an append for `key`: near the bound an appender merges a leaf once in so many times.
pub(in crate::change) fn help(pool: &Pool, index: &IndexTrees, delta: &Delta, key: &[u8]) -> Result<()> {
    let every = delta.buffer().help_every();
    if every == 0 || delta.help.appends.fetch_add(1, Ordering::Relaxed) % every != 0 {
        return Ok(());
    }
    let since = pool.disk().now_us();
    let merged = merge_a_leaf(pool, index, delta, key);
    let counters = pool.counters();
    counters.change_buffer_throttled_us.add(pool.disk().now_us() - since);
    match merged {
        Err(e @ Error::Poisoned(_)) => Err(e),
        // The change itself is safe; whoever needs the leaf meets the error himself.
        Err(_) => Ok(()),
        Ok(leaves) => {
            counters.change_buffer_throttled.add(leaves as u64);
            #[cfg(test)]
            HELPED.set(HELPED.get() + leaves as u64);
            Ok(())
        }
    }
}

/// H1. Number of leaves that entries were merged into.
fn merge_a_leaf(pool: &Pool, index: &IndexTrees, delta: &Delta, appended: &[u8]) -> Result<usize> {
    if !delta.count_step(pool, COUNTED)? {
        return Ok(0);
    }
    let mut leaves = 0;
    for left in (0..=TRIES).rev() {
        let key = match left {
            0 => Some(appended.to_vec()),
            _ => delta.take_leaf(pool, &index.tree)?,
        };
        let Some(key) = key else { break };
        let pending = delta.entries();
        match merge_helping(pool, &index.tree, delta, &key) {
            Ok(merged) if merged.entries > 0 => {
                delta.note_yield(merged.entries, merged.leaves, pending);
                leaves = merged.leaves;
                break;
            }
            Err(e) if !is_of_one_leaf(&e) => return Err(e),
            _ => {}
        }
    }
    delta.tidy();
    Ok(leaves)
}

impl Delta {
    /// A key of the next leaf for which something is pending, or perhaps is; the one behind it is the next helper's. None: nothing is pending.
    fn take_leaf(&self, pool: &Pool, tree: &Tree) -> Result<Option<Vec<u8>>> {
        loop {
            let from = self.help.from.lock().clone();
            let mut key = self.key_or_unreadable(pool, &from)?;
            if key.is_none() && !from.is_empty() {
                key = self.key_or_unreadable(pool, &[])?;
            }
            let Some(key) = key else { return Ok(None) };
            let end = match tree.leaf_place(pool, &key) {
                Err(e) if is_of_one_leaf(&e) => tree.end_of_unreadable(pool, &key)?,
                place => place?.and_then(|(_, end)| end),
            };
            let mut now = self.help.from.lock();
            // Otherwise another has taken it meanwhile.
            if *now == from {
                *now = end.unwrap_or_default();
                return Ok(Some(key));
            }
        }
    }
    /// As `next_key`; `from` itself where the delta tree cannot be read: the leaf that owns it cannot be merged, and those behind it can.
    fn key_or_unreadable(&self, pool: &Pool, from: &[u8]) -> Result<Option<Vec<u8>>> {
        match self.next_key(pool, from) {
            Err(e) if is_of_one_leaf(&e) => Ok(Some(from.to_vec())),
            key => key,
        }
    }
}

#[cfg(test)]
#[path = "backpressure_tests.rs"]
mod tests;
