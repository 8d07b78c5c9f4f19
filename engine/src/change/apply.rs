//! A change's way in: directly to its leaf, or into the delta tree. Which of the two is a matter of
//! cost (`policy::change_buffer`), with one rule.
//!
//! **I3** A key for which something is pending is changed through the delta tree only.
//!
//! "Pending" is what the filter answers. Where appending is not wanted any more the delta tree
//! itself is asked.
//!
//! Applying is one mini-transaction, optimistic first, with splits only when the leaf has no room.
//! Between the look at the filter, or the tree, and the change of the leaf nothing that matters can
//! become pending for the key. Every change of the key holds its row's lock. The one exception is
//! purge, whose only operation is `Remove`, and `Remove` commutes with all others.
//!
//! Latches: those of one descent at a time. Called by: the table layer and `unique`, with no latch
//! held.
use crate::base::bytes::{get_u48, put_u48};
use crate::base::sync::{give_way, holds_no_latch};
use crate::base::{planted, Error, Mutant, Result, TrxId};
use crate::btree::{Intent, LeafWrite, Placed, Tree};
use crate::change::delta::tree::missing_entry;
use crate::change::delta::Delta;
use crate::change::merge::backpressure;
use crate::change::merge::leaf::{merge_key, merge_leaf_whole};
use crate::change::op::Op;
use crate::change::IndexTrees;
use crate::entry::secondary::{DEAD, DELETE_MARK, STAMP_OFFSET};
use crate::pool::{Mtr, Pool, Presence};

/// Flags and stamp: the part that all operations except `Put` change.
const HEAD: usize = STAMP_OFFSET + 6;
/// A full list is merged and the append tried again, at most this often. More tries are needed only
/// if the pending changes of its key fit no entry.
const APPEND_TRIES: usize = 16;

/// Applies or buffers the change. True: it is buffered. Called with no latch held.
///
/// Error (`Corrupt`): a `Mark` met no entry. Error (`Full`): the disk is full.
pub fn submit(pool: &Pool, index: &IndexTrees, op: Op<'_>) -> Result<bool> {
    submit_noting(pool, index, op, true)
}
/// As `submit`, of an entry whose value the caller has looked up in its leaf. That look has brought
/// the leaf into the pool. In an index that `lacks_value` serves, the presence of the leaf was
/// noted there, before the look. It is not noted again.
pub fn submit_checked(pool: &Pool, index: &IndexTrees, op: Op<'_>) -> Result<bool> {
    let is_known = |delta: &Delta| delta.summary.values.pk_len().is_some();
    let noted = index.delta.as_deref().is_some_and(is_known);
    submit_noting(pool, index, op, !noted)
}
fn submit_noting(pool: &Pool, index: &IndexTrees, op: Op<'_>, noting: bool) -> Result<bool> {
    debug_assert!(holds_no_latch(), "I5: a change latches with nothing latched before");
    debug_assert!(
        op.key().len() <= index.tree.key_max(),
        "longer keys were refused before anything changed"
    );
    debug_assert!(
        names_its_maker(&op),
        "a change of an entry's mark or stamp names its transaction"
    );
    let Some(delta) = index.delta.as_deref() else {
        return apply_directly(pool, &index.tree, op);
    };
    let mut pending = delta.maybe_pending(op.key());
    if pending && !delta.is_known() {
        // After the engine was opened: the first page tells whether the tree is empty.
        delta.load(pool)?;
        pending = delta.maybe_pending(op.key());
    }
    if pending && wants_direct(delta, &op) {
        pending = delta.is_surely_pending(pool, &index.tree, op.key())?;
    }
    if pending && planted(Mutant::BufferedEntryOvertaken) {
        return apply_directly(pool, &index.tree, op);
    }
    if !pending {
        if !delta.takes(&op) || !delta.fits(&op) {
            return apply_directly(pool, &index.tree, op);
        }
        if !delta.buffer().forces(op.key()) && !delta.residency.need_not_ask() {
            let asking = Asking { delta, noting };
            if apply_if_near(pool, &index.tree, asking, op)? {
                return Ok(false);
            }
        }
    } else if noting && !delta.buffer().forces(op.key()) && delta.residency.is_turn_to_ask() {
        note_leaf(pool, &index.tree, delta, op.key());
    }
    append(pool, index, delta, op)
}

/// Should the change go to its leaf at once, if nothing is pending for its key? Yes if buffering is
/// off, or if the user waits for a drain and the index lives in memory. Then the delta tree is
/// searched for the key after the filter has answered "perhaps".
///
/// Without that search such changes would be appended for ever. The filter answers "perhaps" for a
/// key whose slot is stuck, or too high after a growth, until the delta tree is empty. Each append
/// of such a key keeps it from becoming empty.
fn wants_direct(delta: &Delta, op: &Op<'_>) -> bool {
    !delta.takes(op) || (delta.buffer().is_draining() && delta.lives_in_memory())
}

/// A change that is appended whatever its leaf says shows where the index lives, too. With a filter
/// that answers "perhaps" for everything there are no other changes. Without this note an index
/// that has come to live in memory would not be noticed, its entries not merged, and its filter
/// never cleared.
fn note_leaf(pool: &Pool, tree: &Tree, delta: &Delta, key: &[u8]) {
    // A page on the way that cannot be read is not needed.
    if let Ok(leaf) = tree.ask_leaf(pool, key, Some(&[key, &[0]].concat()), |id| pool.presence(id)) {
        // None: the leaf is the root, which is in the pool now.
        delta.residency.note(leaf.unwrap_or(Presence::Clean));
    }
}

/// Always false, the answer of `submit`: the change is not buffered.
fn apply_directly(pool: &Pool, tree: &Tree, op: Op<'_>) -> Result<bool> {
    pool.counters().change_buffer_applied_directly.inc();
    if apply(pool, tree, op, Intent::Leaf, None)? == Some(Placed::NoRoom) {
        apply_with_split(pool, tree, op)?;
    }
    Ok(false)
}
fn apply_with_split(pool: &Pool, tree: &Tree, op: Op<'_>) -> Result<()> {
    let placed = apply(pool, tree, op, Intent::Grow(op.size()), None)?;
    assert_eq!(placed, Some(Placed::Done), "Grow makes room");
    Ok(())
}

/// False: a direct change of the target leaf would not be cheap, and nothing was done.
fn apply_if_near(pool: &Pool, tree: &Tree, asking: Asking<'_>, op: Op<'_>) -> Result<bool> {
    match apply(pool, tree, op, Intent::Leaf, Some(asking))? {
        None => return Ok(false),
        Some(Placed::Done) => {}
        Some(Placed::NoRoom) => apply_with_split(pool, tree, op)?,
    }
    pool.counters().change_buffer_applied_directly.inc();
    Ok(true)
}

/// Appends the change. If its key's list is full the leaf is merged first. True: it is buffered.
pub(in crate::change) fn append(pool: &Pool, index: &IndexTrees, delta: &Delta, op: Op<'_>) -> Result<bool> {
    let mut tries = 0;
    while tries < APPEND_TRIES {
        let appended = match delta.fits(&op) {
            true => delta.append(pool, &op),
            false => Ok(false),
        };
        if let Err(full @ Error::Full(_)) = appended {
            return apply_on_full_disk(pool, index, delta, op, full);
        }
        if appended? {
            let counters = pool.counters();
            match op {
                Op::Put { .. } => counters.change_buffer_buffered_inserts.inc(),
                Op::Remove { .. } => counters.change_buffer_buffered_deletes.inc(),
                _ => counters.change_buffer_buffered_delete_marks.inc(),
            }
            backpressure::after_append(pool, index, delta, op.key())?;
            return Ok(true);
        }
        delta.count_all(pool)?;
        let whole = merge_leaf_whole(pool, index, op.key())?;
        if !delta.fits(&op) && !delta.is_pending(pool, &index.tree, op.key())? {
            return apply_directly(pool, &index.tree, op);
        }
        match whole {
            true => tries += 1,
            false => give_way(),
        }
    }
    Err(missing_entry(&index.tree, op.key()))
}
/// The delta tree would have to grow for the change, and the disk is full. The change's leaf may
/// have room all the same. Removals and rollbacks need no room there, and must not fail for want of
/// the room that they would return.
#[cold]
fn apply_on_full_disk(pool: &Pool, index: &IndexTrees, delta: &Delta, op: Op<'_>, full: Error) -> Result<bool> {
    delta.count_all(pool)?;
    for _ in 0..APPEND_TRIES {
        if !delta.is_pending(pool, &index.tree, op.key())? {
            return apply_directly(pool, &index.tree, op);
        }
        if !merge_key(pool, &index.tree, delta, op.key())? {
            give_way();
        }
    }
    Err(full)
}

/// A change that is applied directly only if that is cheap.
#[derive(Clone, Copy)]
struct Asking<'a> {
    delta: &'a Delta,
    /// The leaf's presence shows where the index lives.
    noting: bool,
}

impl Asking<'_> {
    fn wants(&self, leaf: Presence) -> bool {
        if self.noting {
            self.delta.residency.note(leaf);
        }
        self.delta.residency.goes_direct(leaf)
    }
}

/// Applies the change to its leaf in one mini-transaction. None: `asking` does not want the leaf,
/// and nothing was done. `NoRoom`: nothing was done.
fn apply(pool: &Pool, tree: &Tree, op: Op<'_>, intent: Intent, asking: Option<Asking<'_>>) -> Result<Option<Placed>> {
    pool.redo().reserve_to_go_on()?;
    let mut mtr = pool.begin();
    let at = match asking {
        None => tree.leaf_for_write(&mut mtr, op.key(), intent, None)?,
        Some(asking) => match tree.leaf_if(&mut mtr, op.key(), &|id| asking.wants(pool.presence(id)))? {
            Some(at) => at,
            None => return Ok(None),
        },
    };
    let mut sparse = false;
    let placed = match op {
        Op::Put { key, value } if !at.found => at.insert(&mut mtr, key, value)?,
        Op::Put { value, .. } => at.set_value(&mut mtr, value)?,
        Op::Mark { key, stamp } => {
            if !at.found {
                return Err(missing_entry(tree, key));
            }
            set_head(&mut mtr, &at, DELETE_MARK, stamp);
            Placed::Done
        }
        Op::MarkDead { if_stamp, .. } => {
            if at.found && head(&mtr, &at).1 == if_stamp {
                set_head(&mut mtr, &at, DELETE_MARK | DEAD, if_stamp);
            }
            Placed::Done
        }
        Op::Unmark {
            if_stamp, stamp, value, ..
        } => {
            if at.found && head(&mtr, &at) == (true, if_stamp) {
                unmark(&mut mtr, &at, stamp, value)?
            } else {
                Placed::Done
            }
        }
        Op::Remove { if_stamp, marked, .. } => {
            let lost = planted(Mutant::SecondaryRemovalLost);
            if at.found && head(&mtr, &at) == (marked, if_stamp) && !lost {
                sparse = at.remove(&mut mtr)?;
            }
            Placed::Done
        }
    };
    debug_assert!(
        placed == Placed::Done || op.size() > 0,
        "marks and removals need no room: a rollback must not fail for want of it"
    );
    mtr.commit();
    if sparse {
        tree.try_merge_nodes(pool, op.key())?;
    }
    Ok(Some(placed))
}

/// A Put makes an unmarked entry; all others are about the entry of one transaction. For asserts.
fn names_its_maker(op: &Op<'_>) -> bool {
    match *op {
        Op::Put { value, .. } => value.len() >= HEAD && value[0] & DELETE_MARK == 0,
        Op::Mark { stamp, .. } => stamp != 0,
        Op::MarkDead { if_stamp, .. } | Op::Unmark { if_stamp, .. } | Op::Remove { if_stamp, .. } => if_stamp != 0,
    }
}

/// (marked, stamp)
fn head(mtr: &Mtr<'_>, at: &LeafWrite) -> (bool, TrxId) {
    let value = at.value(mtr);
    (value[0] & DELETE_MARK != 0, get_u48(value, STAMP_OFFSET))
}
fn set_head(mtr: &mut Mtr<'_>, at: &LeafWrite, flags: u8, stamp: TrxId) {
    let mut head = [0u8; HEAD];
    head[0] = flags;
    put_u48(&mut head, STAMP_OFFSET, stamp);
    at.patch_value(mtr, 0, &head);
}
fn unmark(mtr: &mut Mtr<'_>, at: &LeafWrite, stamp: TrxId, value: Option<&[u8]>) -> Result<Placed> {
    let Some(value) = value else {
        set_head(mtr, at, 0, stamp);
        return Ok(Placed::Done);
    };
    let mut restored = value.to_vec();
    restored[0] = 0;
    put_u48(&mut restored, STAMP_OFFSET, stamp);
    at.set_value(mtr, &restored)
}

#[cfg(test)]
#[path = "apply_tests.rs"]
mod tests;
