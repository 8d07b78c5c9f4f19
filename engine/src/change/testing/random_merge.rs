//! For the test modes: a merge that no policy asks for. It comes at random moments, so that other
//! work meets every mixture of pending and merged entries.
//!
//! Latches: those of `merge::leaf`. Called by: the table layer, with no latch held.
use crate::base::Result;
use crate::change::delta::key::entry_key;
use crate::change::merge::leaf::merge_at;
use crate::change::IndexTrees;
use crate::pool::Pool;

/// Leaves in a row, at most.
const LEAVES_MAX: u64 = 8;

/// Merges some leaves from a random one on, as a sweep does or as a reader. Sometimes a partition
/// is begun first. `random` decides. Returns the number of entries.
pub fn merge_at_random(pool: &Pool, index: &IndexTrees, random: u64) -> Result<usize> {
    let delta = index.delta.as_deref();
    let Some(delta) = delta.filter(|delta| !delta.is_empty() && delta.is_known()) else {
        return Ok(0);
    };
    if random % 16 == 0 {
        delta.begin_partition();
    }
    let Some(leaf) = delta.tree.random_leaf(pool)? else {
        return Ok(0);
    };
    let slot = (random >> 8) as usize % leaf.len();
    let mut from = entry_key(leaf.key_at(slot)).to_vec();
    drop(leaf);
    let sweeping = random >> 4 & 1 != 0;
    let mut entries = 0;
    for _ in 0..=(random >> 5) % LEAVES_MAX {
        let merged = merge_at(pool, &index.tree, delta, &from, sweeping)?;
        entries += merged.entries;
        match merged.end {
            Some(end) => from = end,
            None => break,
        }
    }
    delta.summary.reclaim();
    Ok(entries)
}
