//! [`ParentCheck`]: finds the parent row that a child row refers to, and locks it SHARED (K1). The
//! newest version counts, whatever the snapshot. The lock is kept to the end of the transaction.
//!
//! An entry of a secondary index says which row may be the parent. To decide, the row is locked and
//! the entry is read again: it must exist, unmarked. A row of the past is no parent.
//!
//! Called by row changes, by loads and by checks, with no latch held.
use crate::base::{planted, Error, Mutant, Result};
use crate::pool::Pool;
use crate::table::catalog::byte_strings;
use crate::table::catalog::dictionary::Catalog;
use crate::table::catalog::foreign_key::{foreign_prefix, put_image, ForeignEnd, ForeignKey, KeyOfForeign};
use crate::table::catalog::table::Table;
use crate::table::row::foreign_entries::{Candidate, ForeignEntries, Learned};
use crate::table::row::past::value_is_past;
use crate::table::row::row_lock::{Locked, RowLocks};
use crate::txn::{LockMode, MadeValue, Trx, TrxSys};
use std::sync::Arc;

/// What was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::table) enum Parent {
    Locked,
    Missing,
    /// The table or the index was dropped: the foreign key must be bound anew.
    Unbound,
}

/// Locks parent rows.
pub(in crate::table) struct ParentCheck {
    pool: Arc<Pool>,
    trx_sys: Arc<TrxSys>,
    catalog: Arc<Catalog>,
    locks: RowLocks,
}

impl ParentCheck {
    pub fn new(pool: Arc<Pool>, trx_sys: Arc<TrxSys>, catalog: Arc<Catalog>, locks: RowLocks) -> ParentCheck {
        ParentCheck {
            pool,
            trx_sys,
            catalog,
            locks,
        }
    }

    /// As [`parent_key`], of a row whose table has lost the index of the foreign key (K6).
    pub fn made_parent_key(&self, key: &ForeignKey, made: &[MadeValue]) -> Result<Option<Option<Vec<u8>>>> {
        if made.len() != key.parts() {
            return Err(cut_short());
        }
        if made.iter().any(|value| value.image.is_none()) {
            return Ok(None);
        }
        let table = key.parent.as_ref().and_then(|end| self.catalog.by_id(end.table));
        let Some((end, table)) = key.parent.as_ref().zip(table) else {
            return Ok(Some(None));
        };
        let layout = table.layout();
        let Some(ordinal) = layout.ordinal_of(end.index) else {
            return Ok(Some(None));
        };
        debug_assert!(
            made.len() <= layout.parts(ordinal).len(),
            "K6: the parent's index has a part for each column of the foreign key"
        );
        let mut parent = Vec::new();
        for (part, value) in layout.parts(ordinal).iter().zip(made) {
            // It was bound without the child's parts: whether types fit is checked here.
            let image = value.image.as_deref().unwrap_or_default();
            match part.domain == value.domain {
                true => put_image(&mut parent, &part.shape, false, image),
                false if !byte_strings::are_comparable(&part.domain, &value.domain) => return Ok(Some(None)),
                false => {
                    let is_fixed = byte_strings::is_fixed(&value.domain);
                    match byte_strings::converted(image, is_fixed, &part.shape.image) {
                        Some(image) => put_image(&mut parent, &part.shape, false, &image),
                        None => return Ok(Some(None)),
                    }
                }
            }
        }
        match foreign_prefix(&end.shape, &parent) == Some(&parent[..]) {
            true => Ok(Some(Some(parent))),
            false => Err(cut_short()),
        }
    }

    /// `key`: the parts of the foreign key in the parent's index. `but`: an entry that does not
    /// count as a parent.
    pub fn lock_parent(&self, trx: &mut Trx, end: &ForeignEnd, key: &[u8], but: Option<&[u8]>) -> Result<Parent> {
        let Some(table) = self.catalog.by_id(end.table) else {
            return Ok(Parent::Unbound);
        };
        let entries = ForeignEntries {
            pool: &self.pool,
            trx_sys: &self.trx_sys,
            table: &table,
            end,
        };
        if planted(Mutant::ParentNotLocked) {
            let found = entries.candidates(trx, (key, key), usize::MAX, &mut Learned::ignoring(but))?;
            let is_row = |of: &Candidate| !of.marked && (of.stamp == trx.id() || !self.trx_sys.is_active(of.stamp));
            return Ok(match found {
                Some(found) if found.iter().any(is_row) => Parent::Locked,
                _ => Parent::Missing,
            });
        }
        let marks_past = table.layout().marks_past;
        if end.is_whole_clustered_key && !marks_past {
            if but == Some(key) {
                return Ok(Parent::Missing);
            }
            return self.lock_by_key(trx, &table, end, key);
        }
        let mut learned = Learned::ignoring(but);
        loop {
            let Some(mut found) = entries.candidates(trx, (key, key), 1, &mut learned)? else {
                return Ok(Parent::Unbound);
            };
            let Some(candidate) = found.pop() else {
                return Ok(Parent::Missing);
            };
            let (asked, mut is_past) = ((&candidate.pk[..], LockMode::Shared), false);
            let mut see = |value: &[u8]| is_past = marks_past && value_is_past(table.layout(), value);
            match self.locks.lock_row_of(trx, &table, end.table, asked, &mut see)? {
                None => return Ok(Parent::Unbound),
                Some(Locked::Gone(_)) => learned.note_gone(candidate),
                // The next look passes it over.
                Some(Locked::Row(_, granted)) if is_past => {
                    self.locks.unlock_if_new(trx, table.layout(), &candidate.pk, granted);
                }
                Some(Locked::Row(_, granted)) => {
                    let there = entries.is_there(&candidate.key);
                    if there == Ok(Some(true)) {
                        return Ok(Parent::Locked);
                    }
                    self.locks.unlock_if_new(trx, table.layout(), &candidate.pk, granted);
                    if there?.is_none() {
                        return Ok(Parent::Unbound);
                    }
                    if candidate.marked {
                        learned.note_harmless(candidate);
                    }
                }
            }
        }
    }

    fn lock_by_key(&self, trx: &mut Trx, table: &Table, end: &ForeignEnd, pk: &[u8]) -> Result<Parent> {
        debug_assert!(
            end.is_whole_clustered_key,
            "a key that is a part of the clustered one may have many rows"
        );
        let asked = (pk, LockMode::Shared);
        Ok(
            match self.locks.lock_row_of(trx, table, end.table, asked, &mut |_| ())? {
                None => Parent::Unbound,
                Some(Locked::Row(..)) => Parent::Locked,
                Some(Locked::Gone(_)) => Parent::Missing,
            },
        )
    }
}

fn cut_short() -> Error {
    Error::Invalid("an index key without all columns of a foreign key".into())
}

/// The key of the parent's index that `child`, a key of the child's index, refers to. None: a
/// column is NULL, so it refers to nothing. Some(None): the foreign key is unbound, or no parent
/// row can have the values.
pub(in crate::table) fn parent_key(key: &ForeignKey, child: &[u8]) -> Result<Option<Option<Vec<u8>>>> {
    if key.is_null(child).ok_or_else(cut_short)? {
        return Ok(None);
    }
    Ok(Some(match key.parent_key(child) {
        Some(KeyOfForeign::Key(parent)) => Some(parent),
        _ => None,
    }))
}
