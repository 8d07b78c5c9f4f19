//! What is pending for a key: its format in the delta tree, how a new operation is folded into it, and what it makes of the
//! entry's value in the base tree. Pure: takes no latches, reads no pages.
//!
//! Value of a delta entry (its key: partition u16 big-endian, then the entry's key):
//! ```text
//! 0 kind  u8   0 = the entry is absent
//!              1 = the entry's state is known: its whole value follows (format in `entry/secondary.rs`)
//!              2 = the state is not known: operations follow, oldest first, at most OPS_MAX
//!   op    u8   1 Mark      stamp u48
//!              2 Kill      if_stamp u48
//!              3 Unmark    if_stamp u48, stamp u48
//!              4 Unmark    if_stamp u48, stamp u48, value: varint length + bytes
//!              5 Remove    if_stamp u48, of a marked entry
//!              6 Remove    if_stamp u48, of an unmarked entry
//! ```
//! A Put makes the state known, so it never stands in a list. The rule that the tests prove: folding operations and
//! evaluating the result on any base gives what applying them one by one gives.
use crate::base::bytes::{get_u48, push_bytes, put_u48, take_bytes};
use crate::base::{planted, Error, Mutant, Result, TrxId};
use crate::btree::ENTRY_OVERHEAD;
use crate::change::Op;
use crate::entry::secondary::{DEAD, DELETE_MARK, STAMP_OFFSET};

const ABSENT: u8 = 0;
const PRESENT: u8 = 1;
const LIST: u8 = 2;

const MARK: u8 = 1;
const KILL: u8 = 2;
const UNMARK: u8 = 3;
const UNMARK_TO: u8 = 4;
const REMOVE_MARKED: u8 = 5;
const REMOVE_LIVE: u8 = 6;

/// A longer list is settled by merging its leaf.
pub const OPS_MAX: usize = 8;

/// What came of folding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Folded {
    Done,
    /// The list is full: nothing was folded.
    Full,
    /// A Mark of an entry that is known to be absent.
    Missing,
}

/// A Mark met an absent entry: the index is corrupt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Missing;

/// What `op` makes of an entry, as `submit` would on the base tree. `value` is the entry's value while it is present.
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
        Op::Kill { if_stamp, .. } => {
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
    value[0] = flags;
    put_u48(value, STAMP_OFFSET, stamp);
}

/// The first operation that is pending for its key in a partition.
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
}

/// `old` with one more operation behind it. None: `old` cannot be decoded.
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
    Some(Folded::Done)
}

fn push_op(op: &Op<'_>, out: &mut Vec<u8>) {
    let u48 = |out: &mut Vec<u8>, v: u64| {
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
        Op::Kill { if_stamp, .. } => {
            out.push(KILL);
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

/// The operation at `at`, which moves behind it; its key is left empty.
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
        KILL => Op::Kill { key, if_stamp: first },
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

/// Applies a pending value. None: it cannot be decoded.
fn evaluate(pending: &[u8], present: &mut bool, value: &mut Vec<u8>) -> Option<std::result::Result<(), Missing>> {
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

/// Entries that this pending value adds to the base tree, as far as can be told without it: a put is taken for one of a new entry.
pub fn entries_added(pending: &[u8]) -> i64 {
    let mut operations = Operations::default();
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

/// One delta entry in the buffer.
#[derive(Clone, Copy)]
struct Item {
    at: u32,
    key_len: u16,
    value_len: u16,
    partition: u16,
}

/// Operations, by what they are in effect.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Operations {
    pub inserts: u64,
    pub delete_marks: u64,
    pub deletes: u64,
}

impl Operations {
    /// Those in a pending value; a known state is the one that made it so.
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

/// Keys of one range with what is pending for each, in key order; a flat buffer that is used again and again.
#[derive(Default)]
pub struct Pending {
    bytes: Vec<u8>,
    /// By partition while they are collected; after `group` by key, and for each key by partition.
    items: Vec<Item>,
    /// First item of each key.
    groups: Vec<u32>,
}

impl Pending {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.items.clear();
        self.groups.clear();
    }
    /// Keys.
    pub fn len(&self) -> usize {
        self.groups.len()
    }
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
    /// Delta entries: a key has one in each of several partitions, perhaps.
    pub fn entries(&self) -> usize {
        self.items.len()
    }
    /// Bytes that the known states among them may need in a leaf, at most.
    pub(in crate::change) fn put_bytes(&self) -> usize {
        let put = |item: &usize| self.item_value(*item).first() == Some(&PRESENT);
        let bytes = |item: usize| self.items[item].key_len as usize + self.items[item].value_len as usize;
        (0..self.items.len())
            .filter(put)
            .map(|item| bytes(item) + ENTRY_OVERHEAD)
            .sum()
    }
    pub fn key(&self, i: usize) -> &[u8] {
        self.item_key(self.groups[i] as usize)
    }
    fn item_key(&self, item: usize) -> &[u8] {
        let item = self.items[item];
        &self.bytes[item.at as usize..][..item.key_len as usize]
    }
    fn item_value(&self, item: usize) -> &[u8] {
        let item = self.items[item];
        &self.bytes[item.at as usize + item.key_len as usize..][..item.value_len as usize]
    }
    /// Items of key `i`, oldest partition first: (partition, value).
    pub(in crate::change) fn items_of(&self, i: usize) -> impl Iterator<Item = (u16, &[u8])> + '_ {
        self.group(i)
            .map(|item| (self.items[item].partition, self.item_value(item)))
    }
    fn group(&self, i: usize) -> std::ops::Range<usize> {
        let end = self.groups.get(i + 1).map_or(self.items.len(), |g| *g as usize);
        self.groups[i] as usize..end
    }
    /// Partitions come in rising order; within one, keys do.
    pub(in crate::change) fn push(&mut self, partition: u16, key: &[u8], value: &[u8]) {
        self.items.push(Item {
            at: self.bytes.len() as u32,
            key_len: key.len() as u16,
            value_len: value.len() as u16,
            partition,
        });
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
    }
    /// All is collected: what belongs to one key comes together.
    pub(in crate::change) fn settle(&mut self) {
        let one = self.items.first().map(|i| i.partition) == self.items.last().map(|i| i.partition);
        if !one {
            let bytes = &self.bytes;
            let key = |item: &Item| &bytes[item.at as usize..][..item.key_len as usize];
            debug_assert!(
                self.items.is_sorted_by_key(|item| item.partition),
                "oldest first, so pushed"
            );
            // Each partition is in the order of its keys: a sort that leaves equal keys as they stand, and takes what is in order as it is,
            // compares some three times a key where another one would ten times.
            match planted(Mutant::PartitionsInWrongOrder) {
                true => self
                    .items
                    .sort_by(|a, b| key(a).cmp(key(b)).then(b.partition.cmp(&a.partition))),
                false => self.items.sort_by(|a, b| key(a).cmp(key(b))),
            }
        }
        self.groups.clear();
        for item in 0..self.items.len() {
            if item == 0 || self.item_key(item) != self.item_key(item - 1) {
                self.groups.push(item as u32);
            }
        }
    }
    /// Puts into `out` the value of key `i` after everything pending, `base` being its value in the base tree. False: the entry is absent.
    pub fn evaluate(&self, i: usize, base: Option<&[u8]>, out: &mut Vec<u8>) -> Result<bool> {
        out.clear();
        out.extend_from_slice(base.unwrap_or(&[]));
        let mut present = base.is_some();
        let items = self.group(i);
        // What is older than a known state does not matter any more.
        let known = items
            .clone()
            .rev()
            .find(|item| self.item_value(*item).first() != Some(&LIST));
        for item in known.unwrap_or(items.start)..items.end {
            match evaluate(self.item_value(item), &mut present, out) {
                Some(Ok(())) => {}
                Some(Err(Missing)) => {
                    return Err(Error::corrupt(format!(
                        "a buffered change (key of {} bytes) needs an index entry that is missing; check the table, then rebuild the index",
                        self.key(i).len()
                    )))
                }
                None => return Err(Error::corrupt("a buffered change cannot be decoded; check the table")),
            }
        }
        Ok(present)
    }
}

#[cfg(test)]
#[path = "op_list_tests.rs"]
mod tests;
