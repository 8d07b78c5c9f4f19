//! The parent's side of foreign keys: a row that goes, or gets another key, is refused, or its
//! child rows follow.
//!
//! **K2** A parent row is changed under its EXCLUSIVE lock before its children are looked for.
//! **K3** `Table::foreign` is read after that change, never before. So a child that was made under
//! a lock on the parent is met, and so is one whose foreign key is new.
//! **K4** A cascade changes a child's newest version or fails.
//! **K6** While a child lacks the index of a foreign key, no parent row goes.
//! **K7** A row that becomes one of the past counts as deleted, and its change brings all of its
//! old entries. A row of the past is neither parent nor child.
//!
//! Everything belongs to one row operation, which is undone as a whole.
//!
//! No latch is held. Called by the steps of row changes; the row maker is called from here.
use crate::base::sync::holds_no_latch;
use crate::base::{planted, sync_point, Error, Mutant, Result, SyncPoint};
use crate::table::catalog::foreign_key::{ForeignAction, ForeignEnd, ForeignKey, KeyOfForeign};
use crate::table::catalog::table::Table;
use crate::table::dml::chain::{Above, Cascade, ChainedRow, Level, Step};
use crate::table::dml::change::RowWriter;
use crate::table::dml::changed_row::{ChangedRow, KeyChange, Past};
use crate::table::dml::child_change::ChildChange;
use crate::table::dml::references::References;
use crate::table::row::child_search::{Children, Next};
use crate::table::row::past::{is_past, value_is_past};
use crate::txn::{LockMode, LockPolicy, ReferenceValue, Trx};
use std::sync::Arc;

impl RowWriter {
    /// One row operation of a statement, with its foreign keys. All or nothing.
    pub(in crate::table) fn change_row(
        &self,
        trx: &mut Trx,
        table: &Table,
        changed: &ChangedRow<'_>,
        mode: LockMode,
    ) -> Result<()> {
        self.change_rows(trx, &mut |trx| {
            let past = self.past_of(trx, table, changed)?;
            let level = &Level::first(table, changed, past);
            let row = ChainedRow {
                table,
                changed,
                past,
                mode,
                level,
            };
            self.change_steps(trx, &row)
        })
    }

    /// Reads the row, if it has to be known what it was.
    fn past_of(&self, trx: &mut Trx, table: &Table, changed: &ChangedRow<'_>) -> Result<Past> {
        let layout = table.layout();
        if !layout.marks_past {
            return Ok(Past::NEVER);
        }
        debug_assert!(
            !layout.temporary,
            "a temporary table has no foreign keys, and marks nothing"
        );
        let mut past = Past {
            was: false,
            is: changed.new_row().is_some_and(|(_, row)| is_past(layout, row)),
            known: trx.foreign_key_checks && table.foreign_keys().is_some(),
            in_place: false,
        };
        if let Some(pk) = changed.old_pk().filter(|_| past.known) {
            let (mode, policy) = (LockMode::Exclusive, LockPolicy::Wait);
            self.locks.lock_row(trx, layout, pk, mode, policy, &mut |value| {
                past.was = value_is_past(layout, value);
            })?;
            if matches!(changed, ChangedRow::Updated(_)) && past.was != past.is {
                let why = "a row that becomes one of the past, or of the present, is moved (K7)";
                return Err(Error::Invalid(why.into()));
            }
        }
        Ok(past)
    }

    /// The steps of the change of one row, and of all below it. False: the operation runs again.
    pub(super) fn change_steps(&self, trx: &mut Trx, row: &ChainedRow<'_>) -> Result<bool> {
        let layout = row.table.layout();
        row.changed.by_age(layout, |changed| {
            self.steps_by_age(trx, &ChainedRow { changed, ..*row })
        })
    }

    fn steps_by_age(&self, trx: &mut Trx, row: &ChainedRow<'_>) -> Result<bool> {
        let begun = match row.past.is {
            true => Some(References::default()),
            false => self.begin_references(trx, row.table, row.changed, row.level)?,
        };
        let Some(mut references) = begun else {
            return Ok(false);
        };
        let done = match self.own_steps(trx, row, &mut references) {
            Err(error) => return Err(self.first_error(trx, row, error)),
            Ok(done) => done,
        };
        Ok(done && self.follow_children(trx, row)? && references.are_bound_still(row.table))
    }

    fn own_steps(&self, trx: &mut Trx, row: &ChainedRow<'_>, references: &mut References) -> Result<bool> {
        let (table, mode) = (row.table, row.mode);
        match *row.changed {
            ChangedRow::Inserted(new) => self.insert_steps(trx, table, new, mode, references),
            ChangedRow::Updated(update) => self.update_steps(trx, table, update, mode, references),
            ChangedRow::Deleted { pk, entries } => self.delete_steps(trx, table, pk, entries).map(|()| true),
            ChangedRow::Moved { pk, entries, new } => {
                self.delete_steps(trx, table, pk, entries)?;
                self.insert_steps(trx, table, new, mode, references)
            }
        }
    }

    /// The error of an update that is refused for several reasons. As in InnoDB, indexes come in
    /// their order, and of an index its children come before its parents and before duplicates.
    fn first_error(&self, trx: &mut Trx, row: &ChainedRow<'_>, error: Error) -> Error {
        let is_checked = trx.foreign_key_checks && row.changed.is_updated() && row.past == Past::NEVER;
        let Some(keys) = row.table.foreign_keys().filter(|_| is_checked) else {
            return error;
        };
        let of_child = |name: &str| {
            let key = keys.references.iter().find(|key| key.spec.name == name)?;
            Some(key.child.index)
        };
        let at = match &error {
            Error::NoReferencedRow(fault) => of_child(&fault.constraint),
            Error::Duplicate { index, .. } => row.table.layout().index(*index).map(|index| index.id),
            _ => None,
        };
        let is_earlier = |end: &ForeignEnd| at.is_some_and(|at| end.index <= at);
        let before = |key: &&Arc<ForeignKey>| key.parent.as_ref().is_some_and(is_earlier);
        for key in keys.referenced.iter().filter(before) {
            if let Err(earlier) = self.follow_key(trx, row, key) {
                return earlier;
            }
        }
        error
    }

    /// After the row's own steps: refuses its change, or has its children follow. False: the
    /// operation runs again.
    #[inline]
    fn follow_children(&self, trx: &mut Trx, row: &ChainedRow<'_>) -> Result<bool> {
        if !trx.foreign_key_checks || matches!(row.changed, ChangedRow::Inserted(_)) {
            return Ok(true);
        }
        let Some(keys) = row.table.foreign_keys() else {
            return Ok(true);
        };
        if row.past.was {
            return Ok(true);
        }
        if !row.past.known && !keys.referenced.is_empty() {
            return Ok(false);
        }
        sync_point(SyncPoint::ChildrenToBeFound);
        debug_assert!(
            holds_no_latch(),
            "K3: the children are looked for after the change, with no latch held"
        );
        let (gone, in_place) = match *row.changed {
            ChangedRow::Moved { pk, entries, new } if row.past.is => {
                (ChangedRow::Deleted { pk, entries }, new.pk == pk)
            }
            changed => (changed, false),
        };
        debug_assert!(
            !row.past.is || gone.is_deleted(),
            "K7: a row that becomes one of the past is moved"
        );
        let row = &ChainedRow {
            changed: &gone,
            past: Past { in_place, ..row.past },
            ..*row
        };
        for key in &keys.referenced {
            if !self.follow_key(trx, row, key)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// False: the operation runs again.
    fn follow_key(&self, trx: &mut Trx, row: &ChainedRow<'_>, key: &ForeignKey) -> Result<bool> {
        let (changed, layout) = (row.changed, row.table.layout());
        let Some(end) = key.parent.as_ref().filter(|end| end.table == layout.id) else {
            return Ok(false);
        };
        if row.level.is_by(key) {
            return Ok(true);
        }
        let Some((old, change)) = changed.referenced(layout, end)? else {
            return Ok(true);
        };
        let action = row.action(key);
        // What is unknown, the row maker tells of each child.
        let follows = change == KeyChange::Changed || change == KeyChange::Unknown && action == ForeignAction::Cascade;
        if key.lacks_index() && follows {
            if key.has_null_parent(old) || planted(Mutant::LostIndexFreesParents) {
                return Ok(true);
            }
            // As in InnoDB, also if the child is empty.
            let child = self.children.table_of(&key.child);
            return child.map_or(Ok(false), |child| Err(Error::RowIsReferenced(key.fault(child.name()))));
        }
        let prefix = match follows.then(|| key.child_key(old)) {
            None => return Ok(true),
            Some(Some(KeyOfForeign::Key(prefix))) => prefix,
            Some(Some(KeyOfForeign::Null | KeyOfForeign::Unmatched)) => return Ok(true),
            Some(None) => return Err(Error::Invalid("a key without all columns of a foreign key".into())),
        };
        let above = Above {
            level: row.level,
            layout,
            changed,
            index: end.index,
            in_place: row.past.in_place,
        };
        // Of a key that compares equal, references hold as they did.
        let was_child = change == KeyChange::Changed && above.was_child(key, &prefix)?;
        let own = above.unwritten_child(key, &prefix)?;
        let Some(mut children) = self.children.begin(&key.child, prefix) else {
            return Ok(false);
        };
        if was_child && !action.changes_children() {
            return Err(Error::RowIsReferenced(key.fault(children.table.name())));
        }
        if was_child {
            let deletes = changed.is_deleted() && action == ForeignAction::Cascade;
            row.level.may_cascade(key, deletes, &children.table)?;
        }
        // Of one index, as in InnoDB: the row's own entry goes first, also if its key stays.
        let first = (end.index == key.child.index).then_some(old);
        if let Some(entry) = first.or(own) {
            children.ignore(entry);
        }
        match action.changes_children() {
            false => self.refuse(trx, key, &mut children),
            true => self.cascade(trx, row, (above, change), key, &mut children),
        }
    }

    fn refuse(&self, trx: &mut Trx, key: &ForeignKey, children: &mut Children) -> Result<bool> {
        match self.children.any(trx, children)? {
            Next::Child(()) => Err(Error::RowIsReferenced(key.fault(children.table.name()))),
            Next::None => Ok(true),
            Next::Unbound => Ok(false),
        }
    }

    fn cascade(
        &self,
        trx: &mut Trx,
        row: &ChainedRow<'_>,
        (above, change): (Above<'_>, KeyChange),
        key: &ForeignKey,
        children: &mut Children,
    ) -> Result<bool> {
        let (table, changed, action) = (row.table, row.changed, row.action(key));
        let parent = table.name();
        let deletes = changed.is_deleted() && action == ForeignAction::Cascade;
        let value = match changed.new_row().filter(|_| action == ForeignAction::Cascade) {
            Some((pk, row)) => ReferenceValue::Parent {
                table: &parent,
                pk,
                row,
            },
            None => ReferenceValue::Null,
        };
        let new_key = match &key.parent {
            Some(end) => changed.new_key(table.layout(), end.index)?,
            None => None,
        };
        debug_assert!(
            matches!(value, ReferenceValue::Null) || new_key.is_some(),
            "children that follow a parent need its new key"
        );
        let cascade = Cascade {
            key,
            deletes,
            is_certain: change == KeyChange::Changed,
            value,
            new_key,
            level: Level {
                above: Some(above),
                table: key.child.table,
                updates: !deletes,
                by: (!deletes).then_some(key),
            },
        };
        self.cascade_all(trx, &cascade, children)
    }

    /// Passes over the children until one pass has nothing to do: children whose key stays are
    /// still there.
    fn cascade_all(&self, trx: &mut Trx, cascade: &Cascade<'_>, children: &mut Children) -> Result<bool> {
        loop {
            let mut any = false;
            loop {
                let child = match self.children.next(trx, children)? {
                    Next::Child(child) => child,
                    Next::None => break,
                    Next::Unbound => return Ok(false),
                };
                if cascade.is_certain {
                    cascade.may_change(&children.table)?;
                }
                self.begin_change(trx)?;
                let before = trx.undo_top();
                let changed = ChildChange {
                    writer: self,
                    cascade,
                    table: &children.table,
                    child: &child,
                };
                let step = changed.run(trx)?;
                debug_assert!(
                    !matches!(step, Step::Changed) || trx.undo_top() != before,
                    "I9: a child row that was changed has an undo record"
                );
                match step {
                    Step::Changed => any = true,
                    Step::Unchanged => {}
                    Step::Again => return Ok(false),
                }
            }
            if !any {
                return Ok(true);
            }
            self.children.begin_again(children);
        }
    }
}
