//! A secondary index as readers see it: the entries of its tree, and the buffered changes in its
//! delta tree. Entry values are drawn in `engine/src/entry/secondary.rs`, buffered changes in
//! `engine/src/change/delta/op_list.rs`.
use crate::bytes::{u48_at, Reader};
use std::collections::BTreeMap;

const MARKED: u8 = 1;
const DEAD: u8 = 2;

/// By key: what is pending in each partition, oldest first.
#[derive(Default)]
pub struct Pending {
    keys: BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
    pub entries: u64,
}

impl Pending {
    /// Entries of the delta tree come in order: partition by partition. False: it cannot be one.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> bool {
        if key.len() < 2 || !matches!(value.first(), Some(0..=2)) {
            return false;
        }
        self.entries += 1;
        self.keys.entry(key[2..].to_vec()).or_default().push(value.to_vec());
        true
    }
    /// The value of `key` with every buffered change applied, which is used up then. Err: a change
    /// does not fit.
    pub fn settle(&mut self, key: &[u8], base: Option<&[u8]>) -> Result<Option<Vec<u8>>, String> {
        match self.keys.remove(key) {
            Some(pending) => evaluate(base.map(<[u8]>::to_vec), &pending),
            None => Ok(base.map(<[u8]>::to_vec)),
        }
    }
    /// Keys that the base does not have.
    pub fn rest(&mut self) -> Vec<Vec<u8>> {
        self.keys.keys().cloned().collect()
    }
}

fn evaluate(base: Option<Vec<u8>>, pending: &[Vec<u8>]) -> Result<Option<Vec<u8>>, String> {
    let mut value = base;
    // What is older than a known state does not matter any more, though it may not fit.
    let known = pending.iter().rposition(|p| p[0] != 2).unwrap_or(0);
    for change in &pending[known..] {
        match change[0] {
            0 => value = None,
            1 => value = Some(change[1..].to_vec()),
            _ => {
                let mut ops = Reader::new(&change[1..]);
                while !ops.is_at_end() {
                    operation(&mut ops, &mut value)?;
                }
            }
        }
    }
    Ok(value)
}

fn operation(ops: &mut Reader<'_>, value: &mut Option<Vec<u8>>) -> Result<(), String> {
    let bad = || "a pending operation cannot be decoded".to_string();
    let kind = ops.u8().ok_or_else(bad)?;
    let first = ops.u48().ok_or_else(bad)?;
    let second = match kind {
        3 | 4 => ops.u48().ok_or_else(bad)?,
        _ => 0,
    };
    let restored = match kind {
        4 => Some(ops.bytes().ok_or_else(bad)?),
        1..=6 => None,
        _ => return Err(bad()),
    };
    let Some(entry) = value else {
        return match kind {
            1 => Err("a pending delete mark is for an entry that is not there".into()),
            _ => Ok(()),
        };
    };
    if entry.len() < 7 {
        return Err("an entry of less than 7 bytes".into());
    }
    let (marked, stamp) = (entry[0] & MARKED != 0, u48_at(entry, 1));
    match kind {
        1 => set_head(entry, MARKED, first),
        2 if stamp == first => set_head(entry, MARKED | DEAD, first),
        3 | 4 if marked && stamp == first => {
            if let Some(restored) = restored {
                *entry = restored.to_vec();
            }
            set_head(entry, 0, second);
        }
        5 | 6 if stamp == first && marked == (kind == 5) => *value = None,
        _ => {}
    }
    Ok(())
}

fn set_head(entry: &mut [u8], flags: u8, stamp: u64) {
    entry[0] = flags;
    entry[1..7].copy_from_slice(&stamp.to_le_bytes()[..6]);
}

/// An entry that counts: (bytes of clustered key at the end of its key). None: marked, or broken.
pub fn live_key_len(value: &[u8], fixed: usize) -> Option<usize> {
    if value.len() < 7 || value[0] & MARKED != 0 {
        return None;
    }
    match fixed {
        0 => Reader::new(&value[7..]).varint().map(|len| len as usize),
        fixed => Some(fixed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(flags: u8, stamp: u8) -> Vec<u8> {
        vec![flags, stamp, 0, 0, 0, 0, 0, 9]
    }

    #[test]
    fn operations_apply_in_the_order_of_partitions() {
        let mut pending = Pending::default();
        // Marked by 5, unmarked by the rollback of 5 (its stamp was 3), then removed: it is not
        // marked, so it stays.
        pending.add(b"\0\x01k", &[2, 1, 5, 0, 0, 0, 0, 0]);
        pending.add(
            b"\0\x02k",
            &[2, 3, 5, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 5, 3, 0, 0, 0, 0, 0],
        );
        assert_eq!(pending.settle(b"k", Some(&entry(0, 3))), Ok(Some(entry(0, 3))));
        pending.add(b"\0\x01k", &[2, 1, 5, 0, 0, 0, 0, 0]);
        assert!(pending.settle(b"k", None).is_err());
        pending.add(b"\0\x01k", &[2, 1, 5, 0, 0, 0, 0, 0]);
        pending.add(b"\0\x02k", &[0]);
        assert_eq!(pending.settle(b"k", None), Ok(None));
        assert_eq!(live_key_len(&entry(0, 3), 0), Some(9));
        assert_eq!(live_key_len(&entry(1, 3), 4), None);
    }
}
