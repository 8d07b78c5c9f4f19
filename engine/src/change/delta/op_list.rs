//! What is pending for a key in one partition: the format of a delta entry's value.
//!
//! A new operation is folded into the value. Evaluating the value gives what the pending operations
//! make of the entry in the base tree.
//!
//! Pure: takes no latches, reads no pages. Called by: `delta::tree`, `delta::pending`, `estimate`,
//! `check`.
//!
//! The key of a delta entry is drawn in `delta::key`. Its value:
//! ```text
//! 0 kind  u8   0 = the entry is absent
//!              1 = the entry's state is known: its whole value follows (format in `entry.rs`)
//!              2 = the state is not known: operations follow, oldest first, at most OPS_MAX
//!   op    u8   1 Mark      stamp u48
//!              2 MarkDead  if_stamp u48
//!              3 Unmark    if_stamp u48, stamp u48
//!              4 Unmark    if_stamp u48, stamp u48, value: varint length + bytes
//!              5 Remove    if_stamp u48, of a marked entry
//!              6 Remove    if_stamp u48, of an unmarked entry
//! ```
//! A Put makes the state known, so it never stands in a list. The tests prove this rule: folding
//! operations and evaluating the result on any base gives what applying them one by one gives.
use crate::base::bytes::{get_u48, push_bytes, put_u48, take_bytes};
use crate::base::TrxId;
use crate::change::op::Op;
use crate::entry::secondary::{DEAD, DELETE_MARK, STAMP_OFFSET};

const ABSENT: u8 = 0;
const PRESENT: u8 = 1;
const LIST: u8 = 2;

const MARK: u8 = 1;
const MARK_DEAD: u8 = 2;
const UNMARK: u8 = 3;
const UNMARK_TO: u8 = 4;
const REMOVE_MARKED: u8 = 5;
const REMOVE_LIVE: u8 = 6;

/// Operations of a list. For one more the key's leaf is merged first.
pub const OPS_MAX: usize = 8;

/// What came of folding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Folded {
    Done,
    /// The list is full: nothing was folded.
    Full,
    /// A Mark of an entry that is known to be absent: nothing was folded.
    Missing,
}

/// A Mark met an absent entry: the index is corrupt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Missing;

/// What `op` makes of an entry, as `submit` would on the base tree. `value` is the entry's value
/// while it is present.
pub fn apply(op: &Op<'_>, present: &mut bool, value: &mut Vec<u8>) -> std::result::Result<(), Missing> {
    let stamp_of = |value: &[u8]| get_u48(value, STAMP_OFFSET);
    let marked = *present && value[0] & DELETE_MARK != 0;
    match *op {
        Op::Put { value: new, .. } => {
            *present = true;
            value.clear();
            value.extend_from_slice(new);
        }
        Op::Mark { .. } if !*present => return Err(Missing),
        Op::Mark { stamp, .. } => set_head(value, DELETE_MARK, stamp),
        _ if !*present => {}
        Op::MarkDead { if_stamp, .. } => {
            if stamp_of(value) == if_stamp {
                set_head(value, DELETE_MARK | DEAD, if_stamp);
            }
        }
        Op::Unmark {
            if_stamp,
            stamp,
            value: restored,
            ..
        } => {
            if marked && stamp_of(value) == if_stamp {
                if let Some(restored) = restored {
                    value.clear();
                    value.extend_from_slice(restored);
                }
                set_head(value, 0, stamp);
            }
        }
        Op::Remove {
            if_stamp,
            marked: wanted,
            ..
        } => {
            if marked == wanted && stamp_of(value) == if_stamp {
                *present = false;
                value.clear();
            }
        }
    }
    Ok(())
}

fn set_head(value: &mut [u8], flags: u8, stamp: TrxId) {
    debug_assert!(value.len() >= STAMP_OFFSET + 6, "a present entry has a head");
    value[0] = flags;
    put_u48(value, STAMP_OFFSET, stamp);
}

/// The value of a delta entry with one operation, the first of its key in the partition.
pub fn start(op: &Op<'_>, out: &mut Vec<u8>) {
    out.clear();
    match op {
        Op::Put { value, .. } => {
            out.push(PRESENT);
            out.extend_from_slice(value);
        }
        op => {
            out.push(LIST);
            push_op(op, out);
        }
    }
    debug_assert!(is_valid(out), "what a delta tree may hold");
}

/// `old` with one more operation after it. None: `old` cannot be decoded.
pub fn fold(old: &[u8], op: &Op<'_>, out: &mut Vec<u8>) -> Option<Folded> {
    out.clear();
    if let Op::Put { .. } = op {
        start(op, out);
        return Some(Folded::Done);
    }
    match *old.first()? {
        LIST => {
            let mut n = 0;
            let mut at = 1;
            while at < old.len() {
                take_op(old, &mut at)?;
                n += 1;
            }
            if n >= OPS_MAX {
                return Some(Folded::Full);
            }
            out.extend_from_slice(old);
            push_op(op, out);
        }
        kind @ (ABSENT | PRESENT) => {
            let mut present = kind == PRESENT;
            let mut value = old[1..].to_vec();
            if apply(op, &mut present, &mut value).is_err() {
                return Some(Folded::Missing);
            }
            out.push(present as u8);
            out.extend_from_slice(&value);
        }
        _ => return None,
    }
    debug_assert!(is_valid(out), "what a delta tree may hold");
    Some(Folded::Done)
}

fn push_op(op: &Op<'_>, out: &mut Vec<u8>) {
    let u48 = |out: &mut Vec<u8>, v: u64| {
        debug_assert!(v >> 48 == 0, "the format has six bytes for a stamp");
        let mut bytes = [0u8; 6];
        put_u48(&mut bytes, 0, v);
        out.extend_from_slice(&bytes);
    };
    match *op {
        Op::Put { .. } => unreachable!("a Put makes the state known"),
        Op::Mark { stamp, .. } => {
            out.push(MARK);
            u48(out, stamp);
        }
        Op::MarkDead { if_stamp, .. } => {
            out.push(MARK_DEAD);
            u48(out, if_stamp);
        }
        Op::Unmark {
            if_stamp, stamp, value, ..
        } => {
            out.push(if value.is_some() { UNMARK_TO } else { UNMARK });
            u48(out, if_stamp);
            u48(out, stamp);
            if let Some(value) = value {
                push_bytes(out, value);
            }
        }
        Op::Remove { if_stamp, marked, .. } => {
            out.push(if marked { REMOVE_MARKED } else { REMOVE_LIVE });
            u48(out, if_stamp);
        }
    }
}

/// The operation at `at`, which moves past it; its key is left empty. None: it cannot be decoded.
fn take_op<'a>(list: &'a [u8], at: &mut usize) -> Option<Op<'a>> {
    let kind = *list.get(*at)?;
    *at += 1;
    let stamp = |at: &mut usize| {
        let v = list.get(*at..*at + 6).map(|b| get_u48(b, 0))?;
        *at += 6;
        Some(v)
    };
    let key: &[u8] = &[];
    let first = stamp(at)?;
    Some(match kind {
        MARK => Op::Mark { key, stamp: first },
        MARK_DEAD => Op::MarkDead { key, if_stamp: first },
        UNMARK | UNMARK_TO => Op::Unmark {
            key,
            if_stamp: first,
            stamp: stamp(at)?,
            value: match kind {
                UNMARK_TO => Some(take_bytes(list, at)?),
                _ => None,
            },
        },
        REMOVE_MARKED | REMOVE_LIVE => Op::Remove {
            key,
            if_stamp: first,
            marked: kind == REMOVE_MARKED,
        },
        _ => return None,
    })
}

/// Applies a pending value to an entry. None: the value cannot be decoded.
pub(super) fn evaluate(
    pending: &[u8],
    present: &mut bool,
    value: &mut Vec<u8>,
) -> Option<std::result::Result<(), Missing>> {
    match *pending.first()? {
        ABSENT => {
            *present = false;
            value.clear();
        }
        PRESENT => {
            *present = true;
            value.clear();
            value.extend_from_slice(&pending[1..]);
        }
        LIST => {
            let mut at = 1;
            while at < pending.len() {
                if apply(&take_op(pending, &mut at)?, present, value).is_err() {
                    return Some(Err(Missing));
                }
            }
        }
        _ => return None,
    }
    Some(Ok(()))
}

/// Entries that this pending value adds to the base tree, estimated without it: a Put counts as a
/// new entry.
pub fn entries_added(pending: &[u8]) -> i64 {
    let mut operations = OpCounts::default();
    operations.count(pending);
    match pending.first() {
        Some(&PRESENT) => 1,
        Some(&LIST) => -((operations.deletes > 0) as i64),
        _ => 0,
    }
}

/// Is this a value that a delta tree may hold? For checks.
pub fn is_valid(pending: &[u8]) -> bool {
    match pending.first() {
        Some(&ABSENT) => pending.len() == 1,
        Some(&PRESENT) => pending.len() >= 1 + STAMP_OFFSET + 6,
        Some(&LIST) => {
            let (mut at, mut n) = (1, 0);
            while at < pending.len() {
                if take_op(pending, &mut at).is_none() {
                    return false;
                }
                n += 1;
            }
            (1..=OPS_MAX).contains(&n)
        }
        _ => false,
    }
}

/// Is the value a whole state, so that everything older for its key does not matter?
pub(super) fn is_known_state(pending: &[u8]) -> bool {
    pending.first() != Some(&LIST)
}
/// Is the value a present entry's whole state?
pub(super) fn is_present(pending: &[u8]) -> bool {
    pending.first() == Some(&PRESENT)
}

/// Numbers of operations, by their effects.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct OpCounts {
    pub inserts: u64,
    pub delete_marks: u64,
    pub deletes: u64,
}

impl OpCounts {
    /// Adds the operations of a pending value. A known state counts as the operation that made it.
    pub fn count(&mut self, pending: &[u8]) {
        match pending.first() {
            Some(&PRESENT) => self.inserts += 1,
            Some(&ABSENT) => self.deletes += 1,
            _ => {
                let mut at = 1;
                while let Some(op) = take_op(pending, &mut at) {
                    match op {
                        Op::Remove { .. } => self.deletes += 1,
                        _ => self.delete_marks += 1,
                    }
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "op_list_tests.rs"]
mod tests;
