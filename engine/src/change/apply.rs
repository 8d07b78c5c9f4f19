//! A change's way in: to its leaf at once, or into the delta tree. Which of the two is a matter of cost (`policy.rs`), but for one
//! rule (I3): a key for which something is pending is changed through the delta tree only.
//!
//! "Pending" is what the filter says, or, where appending is not wanted any more, the delta tree itself.
//!
//! Applying is one Mtr, optimistic first, with splits only when the leaf has no room. Between the look at the filter, or the tree, and the change
//! of the leaf nothing that matters can become pending for the key: whoever changes it holds its row's lock, and the one visitor
//! without it, purge, has only `Remove`, which commutes with all others.
use crate::base::bytes::{get_u48, put_u48};
use crate::base::sync::give_way;
use crate::base::{planted, Error, Mutant, Result, TrxId};
use crate::btree::{Intent, LeafWrite, Placed, Tree};
use crate::change::merge::backpressure::help;
use crate::change::merge::leaf::{merge_key, merge_leaf_whole};
use crate::change::{Delta, IndexTrees, Op, DELTA_BIT};
use crate::entry::secondary::{DEAD, DELETE_MARK, STAMP_OFFSET};
use crate::pool::{Mtr, Pool, Presence};

/// Flags and stamp: the part that all operations but `Put` change.
const HEAD: usize = STAMP_OFFSET + 6;
/// A list that is full is merged and tried again; more often than this only if what is pending for its key fits nothing.
const SETTLE_TRIES: usize = 16;

/// Applies or buffers the change; true: it waits in the buffer. Called with no latch held.
pub fn submit(pool: &Pool, index: &IndexTrees, op: Op<'_>) -> Result<bool> {
    submit_noting(pool, index, op, true)
}
/// As `submit`; the caller has just looked at the leaf: where `lacks_value` was asked before, that the leaf is in the pool says nothing about
/// where the index lives.
pub fn submit_checked(pool: &Pool, index: &IndexTrees, op: Op<'_>) -> Result<bool> {
    let told = index
        .delta
        .as_ref()
        .is_some_and(|delta| delta.values.pk_len().is_some());
    submit_noting(pool, index, op, !told)
}
fn submit_noting(pool: &Pool, index: &IndexTrees, op: Op<'_>, noting: bool) -> Result<bool> {
    let Some(delta) = index.delta.as_deref() else {
        return apply_directly(pool, &index.tree, op);
    };
    let mut pending = delta.maybe_pending(op.key());
    if pending && !delta.is_known() {
        // After the engine was opened: an empty tree is known by its first page.
        delta.load(pool)?;
        pending = delta.maybe_pending(op.key());
    }
    if pending && wants_direct(delta, &op) {
        pending = delta.is_pending_indeed(pool, &index.tree, op.key())?;
    }
    if pending && planted(Mutant::BufferedEntryOvertaken) {
        return apply_directly(pool, &index.tree, op);
    }
    if !pending {
        if !delta.takes(&op) || !delta.fits(&op) {
            return apply_directly(pool, &index.tree, op);
        }
        if !delta.buffer().forced(op.key()) && !delta.need_not_ask() {
            let asking = Asking { delta, noting };
            if apply_if_near(pool, &index.tree, asking, op)? {
                return Ok(false);
            }
        }
    } else if noting && !delta.buffer().forced(op.key()) && delta.turn_to_ask() {
        note_leaf(pool, &index.tree, delta, op.key());
    }
    buffer(pool, index, delta, op)
}

/// Is it worth a look into the delta tree whether something is pending for the key, of which the filter says "perhaps"? Such changes would be
/// appended for ever, where buffering is off or the user waits for a drain: a key of a slot that is stuck, or has too much from a growth, is
/// "perhaps" until the index is empty, and by being appended keeps it from that.
fn wants_direct(delta: &Delta, op: &Op<'_>) -> bool {
    !delta.takes(op) || (delta.buffer().is_draining() && delta.lives_in_memory())
}

/// A change that is appended whatever its leaf is tells where the index lives, too. With a filter that says "perhaps" of everything there would be
/// no others: an index that has come to live in memory would not be found out, what is pending not be merged, and the filter never be cleared.
fn note_leaf(pool: &Pool, tree: &Tree, delta: &Delta, key: &[u8]) {
    // What cannot be read on the way is not needed.
    if let Ok(leaf) = tree.ask_leaf(pool, key, Some(&[key, &[0]].concat()), |id| pool.presence(id)) {
        // None: the leaf is the root, which is in the pool now.
        delta.note(leaf.unwrap_or(Presence::Clean));
    }
}

/// Never buffers: false, as `submit` tells it.
fn apply_directly(pool: &Pool, tree: &Tree, op: Op<'_>) -> Result<bool> {
    pool.counters().change_buffer_applied_directly.inc();
    if apply(pool, tree, op, Intent::Leaf, None)? == Some(Placed::NoRoom) {
        let placed = apply(pool, tree, op, Intent::Grow(op.size()), None)?;
        assert_eq!(placed, Some(Placed::Done), "Grow makes room");
    }
    Ok(false)
}

/// False: the target leaf is not where a direct change would be cheap.
fn apply_if_near(pool: &Pool, tree: &Tree, asking: Asking<'_>, op: Op<'_>) -> Result<bool> {
    match apply(pool, tree, op, Intent::Leaf, Some(asking))? {
        None => return Ok(false),
        Some(Placed::Done) => {}
        Some(Placed::NoRoom) => {
            let placed = apply(pool, tree, op, Intent::Grow(op.size()), None)?;
            assert_eq!(placed, Some(Placed::Done), "Grow makes room");
        }
    }
    pool.counters().change_buffer_applied_directly.inc();
    Ok(true)
}

pub(in crate::change) fn buffer(pool: &Pool, index: &IndexTrees, delta: &Delta, op: Op<'_>) -> Result<bool> {
    let mut tries = 0;
    while tries < SETTLE_TRIES {
        let appended = match delta.fits(&op) {
            true => delta.append(pool, &op),
            false => Ok(false),
        };
        if let Err(full @ Error::Full(_)) = appended {
            return apply_for_want_of_room(pool, index, delta, op, full);
        }
        if appended? {
            let counters = pool.counters();
            match op {
                Op::Put { .. } => counters.change_buffer_buffered_inserts.inc(),
                Op::Remove { .. } => counters.change_buffer_buffered_deletes.inc(),
                _ => counters.change_buffer_buffered_delete_marks.inc(),
            }
            help(pool, index, delta, op.key())?;
            return Ok(true);
        }
        delta.know(pool)?;
        let whole = merge_leaf_whole(pool, index, op.key())?;
        if !delta.fits(&op) && !delta.is_pending(pool, &index.tree, op.key())? {
            return apply_directly(pool, &index.tree, op);
        }
        match whole {
            true => tries += 1,
            false => give_way(),
        }
    }
    Err(missing(&index.tree, op.key()))
}
/// The delta tree would have to grow for the change, and the disk is full. Its leaf may take it all the same: what takes back or away needs no
/// room there, and must not fail for want of what it would give back.
#[cold]
fn apply_for_want_of_room(pool: &Pool, index: &IndexTrees, delta: &Delta, op: Op<'_>, full: Error) -> Result<bool> {
    delta.know(pool)?;
    for _ in 0..SETTLE_TRIES {
        if !delta.is_pending(pool, &index.tree, op.key())? {
            return apply_directly(pool, &index.tree, op);
        }
        if !merge_key(pool, &index.tree, delta, op.key())? {
            give_way();
        }
    }
    Err(full)
}

impl Op<'_> {
    pub(in crate::change) fn key(&self) -> &[u8] {
        match self {
            Op::Put { key, .. }
            | Op::Mark { key, .. }
            | Op::Kill { key, .. }
            | Op::Unmark { key, .. }
            | Op::Remove { key, .. } => key,
        }
    }
    /// Bytes that may have to be placed.
    pub(in crate::change) fn size(&self) -> usize {
        match self {
            Op::Put { key, value } => key.len() + value.len(),
            Op::Unmark {
                key,
                value: Some(value),
                ..
            } => key.len() + value.len(),
            _ => 0,
        }
    }
}

/// A change that goes to its leaf only if that is cheap.
#[derive(Clone, Copy)]
struct Asking<'a> {
    delta: &'a Delta,
    /// What is found tells where the index lives.
    noting: bool,
}

impl Asking<'_> {
    fn wants(&self, leaf: Presence) -> bool {
        if self.noting {
            self.delta.note(leaf);
        }
        self.delta.goes_direct(leaf)
    }
}

/// None: with `asking`, the leaf is one to append for.
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
                return Err(missing(tree, key));
            }
            set_head(&mut mtr, &at, DELETE_MARK, stamp);
            Placed::Done
        }
        Op::Kill { if_stamp, .. } => {
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
    mtr.commit();
    if sparse {
        tree.try_merge_nodes(pool, op.key())?;
    }
    Ok(Some(placed))
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
#[cold]
pub(in crate::change) fn missing(tree: &Tree, key: &[u8]) -> Error {
    Error::corrupt(format!(
        "index {} in file {}: an entry that its row needs is missing (key of {} bytes)",
        tree.index & !DELTA_BIT,
        tree.file,
        key.len()
    ))
    .in_index(tree.file, tree.index)
}

#[cfg(test)]
#[path = "apply_tests.rs"]
mod tests;
