//! Sweeps: an index's pending changes are merged leaf by leaf in key order, in bounded steps (I7).
//!
//! A leaf that cannot be read is passed over, and so is everything below an inner page that cannot
//! be read. A leaf without room on a full disk is passed over, too. The leaves after it are merged
//! all the same.
//!
//! Latches: those of `merge::leaf`. Called by: the worker in the table layer, a slow close, drains;
//! with no latch held. The worker comes when the engine is idle, the buffer fills, or something is
//! old. Appenders near the bound merge by themselves (`merge::backpressure`).
use super::leaf::{concerns_one_leaf, merge_at};
use crate::base::sync::holds_no_latch;
use crate::base::{Error, Result};
use crate::change::delta::progress::Pass;
use crate::change::delta::Delta;
use crate::change::IndexTrees;
use crate::pool::Pool;

/// Leaves of the read-ahead, and the least number requested at a time: while some leaves are
/// merged, the next are on their way.
const AHEAD: usize = 32;
const REQUEST_MIN: usize = 8;

/// The outcome of a step.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Swept {
    pub entries: usize,
    /// Leaves met, those passed over included.
    pub leaves: usize,
    /// Of them, those that another thread had merged before.
    pub emptied: usize,
    /// The index's end was reached: the next step begins anew.
    pub end: bool,
}

/// Merges up to `leaves_max` leaves, from where the last step of this index ended. After the engine
/// was opened the first steps count instead. Called with no latch held.
pub fn sweep_step(pool: &Pool, index: &IndexTrees, leaves_max: usize) -> Result<Swept> {
    debug_assert!(holds_no_latch(), "I7: a sweep begins and ends with no latch held");
    debug_assert!(leaves_max > 0, "I7: a step goes over a leaf at least");
    let mut swept = Swept::default();
    let Some(delta) = &index.delta else {
        swept.end = true;
        return Ok(swept);
    };
    if !delta.count_step(pool, leaves_max.saturating_mul(4))? {
        return Ok(swept);
    }
    let pending = delta.entries();
    let mut ahead = Ahead::default();
    let mut pass = delta.progress.pass(pool.disk().now_us());
    while swept.leaves < leaves_max && !swept.end {
        let ahead = (leaves_max > 1).then_some(&mut ahead);
        let end = match merge_next(pool, index, delta, &mut pass, &mut swept, ahead) {
            Err(e) if concerns_one_leaf(&e) => {
                swept.leaves += 1;
                pass_over(pool, index, delta, &mut pass, e)?
            }
            end => end?,
        };
        swept.end = end.is_none();
        pass.from = end.unwrap_or_default();
    }
    debug_assert_eq!(
        pass.from.is_empty(),
        swept.end,
        "a pass that goes on has a key to go on from"
    );
    if swept.end && pass.has_left_some() {
        delta.progress.retry_later(pool.disk().now_us());
    }
    delta.progress.keep_pass(pass, &delta.summary.sums);
    debug_assert!(swept.emptied <= swept.leaves, "the emptied leaves are among those met");
    debug_assert!(swept.leaves > 0 || swept.end, "I7: a step gets on, or the index ends");
    let leaves = swept.leaves - swept.emptied;
    delta.merge_yield.note(swept.entries, leaves, pending);
    delta.summary.reclaim();
    Ok(swept)
}

/// Merges the next leaf for which something is pending. Returns where it ends; None: nothing is
/// left after it. After an error the pass stands at the leaf of the error.
fn merge_next(
    pool: &Pool,
    index: &IndexTrees,
    delta: &Delta,
    pass: &mut Pass,
    swept: &mut Swept,
    ahead: Option<&mut Ahead>,
) -> Result<Option<Vec<u8>>> {
    let key = match delta.is_empty() {
        true => None,
        false => delta.next_key(pool, &pass.from)?,
    };
    let Some(key) = key else { return Ok(None) };
    pass.from.clone_from(&key);
    let sweeping = ahead.is_some();
    if let Some(ahead) = ahead {
        // A page that cannot be read is met again when its turn comes.
        ahead.request(pool, index, delta, &key, swept.leaves).ok();
    }
    let merged = match merge_at(pool, &index.tree, delta, &key, sweeping) {
        // The error may be of a neighbour in the same stretch: once more, the leaf by itself.
        Err(e) if sweeping && concerns_one_leaf(&e) => merge_at(pool, &index.tree, delta, &key, false)?,
        merged => merged?,
    };
    debug_assert!(
        merged.end.as_ref().is_none_or(|end| *end > key),
        "a pass goes through the index in key order"
    );
    swept.entries += merged.entries;
    swept.leaves += merged.leaves;
    swept.emptied += merged.found_nothing() as usize;
    pass.leaf(merged.stuck, merged.whole);
    Ok(merged.end)
}

/// Passes over the leaf that the pass stands at, or all leaves below an inner page that cannot be
/// read. Returns where they end; None: they are the index's last.
fn pass_over(pool: &Pool, index: &IndexTrees, delta: &Delta, pass: &mut Pass, why: Error) -> Result<Option<Vec<u8>>> {
    let end = index.tree.end_of_unreadable(pool, &pass.from)?;
    debug_assert!(
        end.as_ref().is_none_or(|end| *end > pass.from),
        "a pass goes on after the leaves that it passes over"
    );
    match why {
        Error::Full(_) => pass.leaf_full(),
        why => {
            let bytes = delta.estimate_bytes(pool, &pass.from, end.as_deref());
            pass.leaf_unread(&why, bytes);
            delta.buffer().note_unmergeable();
            delta.progress.note_unmergeable(pool.disk().now_us(), why);
        }
    }
    Ok(end)
}

/// The read-ahead of a sweep: leaves for which something is pending, and no others.
#[derive(Default)]
struct Ahead {
    /// Leaves requested, and where the last of them ends.
    requested: usize,
    end: Option<Vec<u8>>,
}

impl Ahead {
    /// Requests the next leaves. The sweep is at `key`, after `swept` leaves.
    fn request(&mut self, pool: &Pool, index: &IndexTrees, delta: &Delta, key: &[u8], swept: usize) -> Result<()> {
        if self.requested >= swept + AHEAD - REQUEST_MIN {
            return Ok(());
        }
        let mut ids = Vec::new();
        let mut from = self
            .end
            .take()
            .filter(|end| &end[..] > key)
            .unwrap_or_else(|| key.to_vec());
        self.requested = self.requested.max(swept);
        while self.requested < swept + AHEAD {
            let Some(next) = delta.next_key(pool, &from)? else {
                break;
            };
            let Some((id, end)) = index.tree.leaf_place(pool, &next)? else {
                break;
            };
            ids.push(id);
            self.requested += 1;
            let Some(end) = end else { break };
            from = end;
        }
        pool.prefetch(&ids);
        debug_assert!(self.requested <= swept + AHEAD, "the read-ahead is bounded");
        self.end = Some(from);
        Ok(())
    }
}

/// Merges everything that can be merged. Returns the number of entries.
pub fn drain(pool: &Pool, index: &IndexTrees) -> Result<usize> {
    drain_with_progress(pool, index, &mut || ())
}
/// As `drain`; `each` is called after each step.
pub fn drain_with_progress(pool: &Pool, index: &IndexTrees, each: &mut dyn FnMut()) -> Result<usize> {
    let Some(delta) = &index.delta else { return Ok(0) };
    delta.count_all(pool)?;
    delta.progress.restart_pass();
    let mut entries = 0;
    loop {
        // Not the sum of the steps: a leaf may have merged much before it failed.
        let merged = delta.progress.merged();
        loop {
            let swept = sweep_step(pool, index, 64)?;
            entries += swept.entries;
            each();
            if swept.end {
                break;
            }
        }
        if delta.is_empty() || delta.progress.merged() == merged {
            return Ok(entries);
        }
    }
}
