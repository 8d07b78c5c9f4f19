//! Sweeps: an index's pending changes are merged leaf by leaf in key order, in bounded steps (I7).
//!
//! A leaf that cannot be read, or has no room and none can be had, is passed over, and so is all below an inner page that cannot be read: the
//! leaves behind are merged all the same.
//!
//! Who drives them: the change worker (when idle, pressed, or something is old), a slow close. Appenders near the bound merge by
//! themselves (`help.rs`).
use crate::base::{Error, Result};
use crate::change::delta::progress::Pass;
use crate::change::delta::tree::Delta;
use crate::change::merge::leaf::merge_at;
use crate::change::IndexTrees;
use crate::pool::Pool;

/// Leaves asked for ahead, some at a time: while those are merged, the next are on their way.
const AHEAD: usize = 32;
const ASK_MIN: usize = 8;

/// What a step came to.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Swept {
    pub entries: usize,
    /// Those passed over too.
    pub leaves: usize,
    /// Of them, those for which nothing was left: others had merged it.
    pub emptied: usize,
    /// The index's end was reached: the next step begins anew.
    pub end: bool,
}

/// Merges up to `leaves_max` leaves, from where the last step of this index ended. After the engine was opened it counts first.
pub fn sweep_step(pool: &Pool, index: &IndexTrees, leaves_max: usize) -> Result<Swept> {
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
    let mut pass = delta.pass(pool);
    while swept.leaves < leaves_max && !swept.end {
        let ahead = (leaves_max > 1).then_some(&mut ahead);
        let end = match merge_next(pool, index, delta, &mut pass, &mut swept, ahead) {
            Err(e) if is_of_one_leaf(&e) => {
                swept.leaves += 1;
                pass_over(pool, index, delta, &mut pass, e)?
            }
            end => end?,
        };
        swept.end = end.is_none();
        pass.from = end.unwrap_or_default();
    }
    if swept.end && pass.has_left_some() {
        delta.retry_later(pool);
    }
    delta.keep_pass(pass);
    delta.note_yield(swept.entries, swept.leaves - swept.emptied, pending);
    delta.tidy();
    Ok(swept)
}

/// Merges the next leaf for which something is pending. Where it ends; None: nothing is left behind it. With an error the pass stands at
/// the leaf it is about.
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
        // What cannot be read there is met when it is its turn.
        ahead.ask(pool, index, delta, &key, swept.leaves).ok();
    }
    let merged = match merge_at(pool, &index.tree, delta, &key, sweeping) {
        // Perhaps of a neighbour that it was to be spread over: once more, by itself.
        Err(e) if sweeping && is_of_one_leaf(&e) => merge_at(pool, &index.tree, delta, &key, false)?,
        merged => merged?,
    };
    swept.entries += merged.entries;
    swept.leaves += merged.leaves;
    swept.emptied += merged.found_nothing() as usize;
    pass.leaf(merged.stuck, merged.whole);
    Ok(merged.end)
}

/// Can the next leaves be merged all the same?
pub(in crate::change) fn is_of_one_leaf(e: &Error) -> bool {
    matches!(e, Error::Corrupt(_) | Error::Io(_) | Error::Full(_))
}

/// The leaf that the pass stands at cannot be merged, or nothing below an inner page that cannot be read. Where that ends; None: it is the
/// index's last.
fn pass_over(pool: &Pool, index: &IndexTrees, delta: &Delta, pass: &mut Pass, why: Error) -> Result<Option<Vec<u8>>> {
    let end = index.tree.end_of_unreadable(pool, &pass.from)?;
    match why {
        Error::Full(_) => pass.leaf_full(),
        why => {
            let bytes = delta.estimate_bytes(pool, &pass.from, end.as_deref());
            pass.leaf_unread(&why, bytes);
            delta.note_unmerged(pool, why);
        }
    }
    Ok(end)
}

/// Read-ahead of a sweep: leaves for which something is pending, and no others.
#[derive(Default)]
struct Ahead {
    /// Leaves asked for, and where the last of them ends.
    asked: usize,
    end: Option<Vec<u8>>,
}

impl Ahead {
    /// The sweep is at `key`, behind so many leaves.
    fn ask(&mut self, pool: &Pool, index: &IndexTrees, delta: &Delta, key: &[u8], swept: usize) -> Result<()> {
        if self.asked >= swept + AHEAD - ASK_MIN {
            return Ok(());
        }
        let mut ids = Vec::new();
        let mut from = self
            .end
            .take()
            .filter(|end| &end[..] > key)
            .unwrap_or_else(|| key.to_vec());
        self.asked = self.asked.max(swept);
        while self.asked < swept + AHEAD {
            let Some(next) = delta.next_key(pool, &from)? else {
                break;
            };
            let Some((id, end)) = index.tree.leaf_place(pool, &next)? else {
                break;
            };
            ids.push(id);
            self.asked += 1;
            let Some(end) = end else { break };
            from = end;
        }
        pool.prefetch(&ids);
        self.end = Some(from);
        Ok(())
    }
}

/// Merges everything that can be merged. Number of entries.
pub fn drain(pool: &Pool, index: &IndexTrees) -> Result<usize> {
    drain_telling(pool, index, &mut || ())
}
/// As `drain`, with `each` called now and then.
pub fn drain_telling(pool: &Pool, index: &IndexTrees, each: &mut dyn FnMut()) -> Result<usize> {
    let Some(delta) = &index.delta else { return Ok(0) };
    delta.know(pool)?;
    delta.restart_pass();
    let mut entries = 0;
    loop {
        // Not what the steps tell: a leaf that failed at last may have given much before.
        let merged = delta.merged();
        loop {
            let swept = sweep_step(pool, index, 64)?;
            entries += swept.entries;
            each();
            if swept.end {
                break;
            }
        }
        if delta.is_empty() || delta.merged() == merged {
            return Ok(entries);
        }
    }
}
