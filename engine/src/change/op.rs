//! One blind change of an entry of a secondary index.
//!
//! Called by: the table layer, and every file of `change`.
use crate::base::TrxId;

/// A change that needs no look at the entry. All are idempotent.
#[derive(Clone, Copy, Debug)]
pub enum Op<'a> {
    /// Put the entry: a new one, or in the place of a marked, dead or equal one. `value` is the
    /// whole entry value, stamp included, unmarked.
    Put { key: &'a [u8], value: &'a [u8] },
    /// Set the delete mark and the stamp. An absent entry is an error of the caller (`Corrupt`),
    /// except in rollback and recovery.
    Mark { key: &'a [u8], stamp: TrxId },
    /// Undo of a Put that may have replaced an entry: set the mark and the dead bit if the stamp is
    /// `if_stamp`, which stays. An absent entry stays absent.
    MarkDead { key: &'a [u8], if_stamp: TrxId },
    /// Rollback of a mark: clear the delete mark and the dead bit and set the stamp, only if the
    /// entry is marked with `if_stamp`. With `value`, restore the raw part too.
    Unmark {
        key: &'a [u8],
        if_stamp: TrxId,
        stamp: TrxId,
        value: Option<&'a [u8]>,
    },
    /// Remove the entry if its stamp is `if_stamp` and its mark is `marked` (purge: true; rollback
    /// of an insert: false). Otherwise nothing changes.
    Remove {
        key: &'a [u8],
        if_stamp: TrxId,
        marked: bool,
    },
}

impl Op<'_> {
    pub fn key(&self) -> &[u8] {
        match self {
            Op::Put { key, .. }
            | Op::Mark { key, .. }
            | Op::MarkDead { key, .. }
            | Op::Unmark { key, .. }
            | Op::Remove { key, .. } => key,
        }
    }
    /// Bytes of key and value that the leaf may have to make room for.
    pub fn size(&self) -> usize {
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
