//! Applies a change to its leaf: one Mtr, optimistic first, with splits only when the leaf has no room.
use super::entry::{DEAD, DELETE_MARK, STAMP_OFFSET};
use super::{Index, Op};
use crate::base::bytes::{get_u48, put_u48};
use crate::base::{planted, Error, Mutant, Result, TrxId};
use crate::btree::{Intent, LeafWrite, Placed, Tree};
use crate::pool::{Mtr, Pool};

/// Flags and stamp: the part that all operations but `Put` change.
const HEAD: usize = STAMP_OFFSET + 6;

/// Applies (or later: buffers) the change. Called with no latch held.
pub fn submit(pool: &Pool, index: &Index, op: Op<'_>) -> Result<()> {
    let tree = &index.tree;
    pool.counters().change_applied_directly.inc();
    if apply(pool, tree, op, Intent::Leaf)? == Placed::NoRoom {
        let placed = apply(pool, tree, op, Intent::Grow(op.size()))?;
        assert_eq!(placed, Placed::Done, "Grow makes room");
    }
    Ok(())
}

impl Op<'_> {
    fn key(&self) -> &[u8] {
        match self {
            Op::Put { key, .. }
            | Op::Mark { key, .. }
            | Op::Kill { key, .. }
            | Op::Unmark { key, .. }
            | Op::Remove { key, .. } => key,
        }
    }
    /// Bytes that may have to be placed.
    fn size(&self) -> usize {
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

fn apply(pool: &Pool, tree: &Tree, op: Op<'_>, intent: Intent) -> Result<Placed> {
    pool.redo().reserve_to_go_on()?;
    let mut mtr = pool.begin();
    let at = tree.leaf_for_write(&mut mtr, op.key(), intent, None)?;
    let mut sparse = false;
    let placed = match op {
        Op::Put { key, value } if !at.found => tree.insert(&mut mtr, &at, key, value)?,
        Op::Put { value, .. } => tree.set_value(&mut mtr, &at, value)?,
        Op::Mark { key, stamp } => {
            if !at.found {
                return Err(missing(tree, key));
            }
            set_head(tree, &mut mtr, &at, DELETE_MARK, stamp);
            Placed::Done
        }
        Op::Kill { if_stamp, .. } => {
            if at.found && head(tree, &mtr, &at).1 == if_stamp {
                set_head(tree, &mut mtr, &at, DELETE_MARK | DEAD, if_stamp);
            }
            Placed::Done
        }
        Op::Unmark {
            if_stamp, stamp, value, ..
        } => {
            if at.found && head(tree, &mtr, &at) == (true, if_stamp) {
                unmark(tree, &mut mtr, &at, stamp, value)?
            } else {
                Placed::Done
            }
        }
        Op::Remove { if_stamp, marked, .. } => {
            let lost = planted(Mutant::SecondaryRemovalLost);
            if at.found && head(tree, &mtr, &at) == (marked, if_stamp) && !lost {
                sparse = tree.remove(&mut mtr, &at)?;
            }
            Placed::Done
        }
    };
    mtr.commit();
    if sparse {
        tree.shrink(pool, op.key())?;
    }
    Ok(placed)
}

/// (marked, stamp)
fn head(tree: &Tree, mtr: &Mtr<'_>, at: &LeafWrite) -> (bool, TrxId) {
    let value = tree.value(mtr, at);
    (value[0] & DELETE_MARK != 0, get_u48(value, STAMP_OFFSET))
}
fn set_head(tree: &Tree, mtr: &mut Mtr<'_>, at: &LeafWrite, flags: u8, stamp: TrxId) {
    let mut head = [0u8; HEAD];
    head[0] = flags;
    put_u48(&mut head, STAMP_OFFSET, stamp);
    tree.patch_value(mtr, at, 0, &head);
}
fn unmark(tree: &Tree, mtr: &mut Mtr<'_>, at: &LeafWrite, stamp: TrxId, value: Option<&[u8]>) -> Result<Placed> {
    let Some(value) = value else {
        set_head(tree, mtr, at, 0, stamp);
        return Ok(Placed::Done);
    };
    let mut restored = value.to_vec();
    restored[0] = 0;
    put_u48(&mut restored, STAMP_OFFSET, stamp);
    tree.set_value(mtr, at, &restored)
}
#[cold]
fn missing(tree: &Tree, key: &[u8]) -> Error {
    Error::Corrupt(format!(
        "index {} in file {}: an entry that its row needs is missing (key of {} bytes); check the table, then rebuild the index",
        tree.index,
        tree.file,
        key.len()
    ))
}
