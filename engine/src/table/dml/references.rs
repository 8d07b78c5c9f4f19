//! The child's side of foreign keys: a row that is inserted, or gets another key, needs its parent.
//!
//! **K1** From its check to the put of its entry, a child row's maker holds a SHARED lock on the
//! parent row. The lock is taken before the row is changed. So a child's maker that waits for its
//! parent holds no row that the parent's deleter waits for. A parent that is missing then is
//! searched a second time when the entry of the child's index is written. So an error of an earlier
//! index is reported first, as in InnoDB.
//!
//! A row may be its own parent, if its entry in the parent's index is written first. An entry that
//! the same change has removed by then does not count as a parent. As in InnoDB, neither does one
//! of a row above in a chain of cascades that would be written after the cascade.
//!
//! **K5** An operation runs again if its foreign keys were bound anew meanwhile.
//! **K6** The child of a foreign key may have lost the index that served it, without checks. Then
//! the row maker gives the values of the foreign key's columns. No child row is found without the
//! index, so no parent row goes (`cascade`).
//!
//! No latch is held. Called by the steps of row changes.
use crate::base::sync::{holds_no_latch, holds_nothing};
use crate::base::{planted, sync_point, Error, IndexId, Mutant, Result, SyncPoint};
use crate::table::catalog::foreign_key::{ForeignKey, ForeignKeys};
use crate::table::catalog::layout::Layout;
use crate::table::catalog::table::Table;
use crate::table::dml::chain::Level;
use crate::table::dml::change::RowWriter;
use crate::table::dml::changed_row::ChangedRow;
use crate::table::row::parent_check::{parent_key, Parent};
use crate::txn::{ChildRow, RowMaker, Trx};
use std::sync::Arc;

/// The parents that a changed row needs.
#[derive(Default)]
pub(in crate::table) struct References {
    /// As they were bound when the parents were looked for.
    keys: Option<Arc<ForeignKeys>>,
    missing: Vec<Missing>,
}

/// A parent that was not found before the row was changed.
struct Missing {
    key: Arc<ForeignKey>,
    /// None: the foreign key is unbound, or no parent row can have the values.
    parent_key: Option<Vec<u8>>,
    /// The row's own old entry, or one above in a chain, which does not count as a parent.
    gone: Option<Vec<u8>>,
}

/// What came of a search for a parent.
enum Looked {
    /// It is locked, or the row needs none.
    Done,
    Missing(Missing),
    /// The foreign keys must be bound anew.
    Unbound,
}

impl References {
    /// False: the foreign keys have been bound anew since, and the operation must run again.
    pub fn are_bound_still(&self, table: &Table) -> bool {
        let Some(keys) = &self.keys else { return true };
        let now = table.foreign_keys();
        self.missing.is_empty() && now.is_some_and(|now| Arc::ptr_eq(keys, &now))
    }
}

impl RowWriter {
    /// Locks the parents that the row will need. None: the operation runs again. `level`: the row's
    /// place in a chain of cascades.
    pub(super) fn begin_references<'a>(
        &self,
        trx: &mut Trx,
        table: &Table,
        changed: &ChangedRow<'a>,
        level: &Level<'a>,
    ) -> Result<Option<References>> {
        let mut references = References::default();
        if !trx.foreign_key_checks || changed.is_deleted() {
            return Ok(Some(references));
        }
        let Some(keys) = table.foreign_keys().filter(|keys| !keys.references.is_empty()) else {
            return Ok(Some(references));
        };
        let layout = table.layout();
        debug_assert!(
            holds_no_latch(),
            "K1: the parent is locked before the row is changed, with no latch held"
        );
        let checked = |key: &&Arc<ForeignKey>| !key.is_carried_over && !level.carries_out(key);
        for key in keys.references.iter().filter(checked) {
            if key.child.table != layout.id || !has_index(layout, key.child.index) {
                return Ok(None);
            }
            match self.look_for_parent(trx, table, changed, key, level)? {
                Looked::Done => {}
                Looked::Missing(missing) => references.missing.push(missing),
                Looked::Unbound => return Ok(None),
            }
        }
        references.keys = Some(keys);
        sync_point(SyncPoint::ParentLookedFor);
        Ok(Some(references))
    }

    fn look_for_parent<'a>(
        &self,
        trx: &mut Trx,
        table: &Table,
        changed: &ChangedRow<'a>,
        key: &Arc<ForeignKey>,
        level: &Level<'a>,
    ) -> Result<Looked> {
        let layout = table.layout();
        let parent_key = match (key.lacks_index(), changed.new_row()) {
            (true, _) if planted(Mutant::LostIndexNeedsNoParent) => None,
            (true, Some(new)) if !changed.keeps_unindexed() => self.made_parent_key(trx, table, new, key)?,
            (true, _) => None,
            (false, _) => match changed.new_reference(layout, key)? {
                Some(child_key) => parent_key(key, child_key)?,
                None => None,
            },
        };
        let Some(parent_key) = parent_key else {
            return Ok(Looked::Done);
        };
        let mut gone = None;
        let found = match (&key.parent, &parent_key) {
            (Some(end), Some(parent_key)) => {
                let own = match key.is_to_itself() && is_met_first(key) {
                    true => changed.new_key(layout, end.index)?,
                    false => None,
                };
                if own.is_some_and(|own| own.starts_with(parent_key)) {
                    return Ok(Looked::Done);
                }
                if changed.keeps_reference(layout, key) && level.had_parent(key, parent_key)? {
                    return Ok(Looked::Done);
                }
                if key.is_to_itself() && end.index <= key.child.index {
                    gone = changed.removed_entry(layout, end.index)?;
                }
                if let Some(above) = level.above.filter(|_| gone.is_none()) {
                    gone = above.unwritten_parent(key)?;
                }
                self.parents.lock_parent(trx, end, parent_key, gone)?
            }
            _ => Parent::Missing,
        };
        Ok(match found {
            Parent::Locked => Looked::Done,
            // As in InnoDB: before a duplicate key, and a row is not its own parent.
            Parent::Missing if key.lacks_index() => return Err(Error::NoReferencedRow(key.fault(table.name()))),
            Parent::Missing => Looked::Missing(Missing {
                key: key.clone(),
                parent_key,
                gone: gone.map(<[u8]>::to_vec),
            }),
            Parent::Unbound => Looked::Unbound,
        })
    }

    /// As [`parent_key`], of a row without an entry for the foreign key (K6).
    fn made_parent_key(
        &self,
        trx: &mut Trx,
        table: &Table,
        (pk, row): (&[u8], &[u8]),
        key: &ForeignKey,
    ) -> Result<Option<Option<Vec<u8>>>> {
        let (name, mut made) = (table.name(), Vec::new());
        let of = ChildRow { table: &name, pk, row };
        row_maker(trx, key, &name)?.reference(of, key.ordinal, &mut made)?;
        self.parents.made_parent_key(key, &made)
    }

    /// Called when the entry of this index is written: its parents must exist now. False: the
    /// operation runs again.
    #[inline]
    pub(in crate::table) fn check_references(
        &self,
        trx: &mut Trx,
        table: &Table,
        references: &mut References,
        index: IndexId,
    ) -> Result<bool> {
        match references.missing.is_empty() {
            true => Ok(true),
            false => self.check_missing(trx, table, references, index),
        }
    }

    fn check_missing(&self, trx: &mut Trx, table: &Table, references: &mut References, index: IndexId) -> Result<bool> {
        // As in InnoDB, the error is that of the first one by name.
        references.missing.sort_by(|a, b| a.key.spec.name.cmp(&b.key.spec.name));
        while let Some(at) = references.missing.iter().position(|m| m.key.child.index == index) {
            debug_assert!(holds_no_latch(), "I5: the parent is locked with no latch held");
            let Missing { key, parent_key, gone } = references.missing.remove(at);
            let found = match (&key.parent, parent_key) {
                (Some(end), Some(parent_key)) => self.parents.lock_parent(trx, end, &parent_key, gone.as_deref())?,
                _ => Parent::Missing,
            };
            match found {
                Parent::Locked => {}
                Parent::Missing => return Err(Error::NoReferencedRow(key.fault(table.name()))),
                Parent::Unbound => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// The session's row maker, for this foreign key of the table.
pub(in crate::table) fn row_maker<'a>(trx: &'a mut Trx, key: &ForeignKey, table: &str) -> Result<&'a mut dyn RowMaker> {
    debug_assert!(
        holds_nothing(),
        "the row maker is the server's: it may wait, and call back"
    );
    match trx.row_maker.as_deref_mut() {
        Some(maker) => Ok(maker),
        None => Err(Error::Unsupported(format!(
            "a row for foreign key {} of table {table} in a session without a row maker",
            key.spec.name
        ))),
    }
}

/// For a foreign key to the same table: the row's entry in the parent's index is written before its
/// entry in the child's. Entries are written in the order in which their indexes were made.
fn is_met_first(key: &ForeignKey) -> bool {
    let parent = key.parent.as_ref();
    parent.is_some_and(|end| end.index < key.child.index)
}

fn has_index(layout: &Layout, index: IndexId) -> bool {
    layout.ordinal_of(index).is_some()
}
