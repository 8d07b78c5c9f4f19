//! [`ChildChange`]: the change of one child row by a cascade. The row is deleted, becomes one of
//! the past (K7), or gets another key. The row maker makes its new form.
//!
//! No latch is held. Called by `cascade`.
use crate::base::{planted, Error, IndexId, Mutant, Result};
use crate::table::catalog::foreign_key::{same_column, ForeignKey, KeyOfForeign};
use crate::table::catalog::layout::Layout;
use crate::table::catalog::table::Table;
use crate::table::dml::chain::{Cascade, ChainedRow, Step};
use crate::table::dml::change::RowWriter;
use crate::table::dml::changed_row::{ChangedRow, Past};
use crate::table::dml::references::row_maker;
use crate::table::row::child_search::Child;
use crate::table::row::new_row::{changes_of, entries_of, NewRow, RowUpdate};
use crate::table::row::parent_check::parent_key;
use crate::table::row::past::is_past;
use crate::txn::{ChildRow, LockMode, MadeEntry, MadeRow, ReferenceValue, Trx};

/// A child row that a cascade has found.
pub(super) struct ChildChange<'a> {
    pub writer: &'a RowWriter,
    pub cascade: &'a Cascade<'a>,
    pub table: &'a Table,
    pub child: &'a Child,
}

impl ChildChange<'_> {
    pub fn run(&self, trx: &mut Trx) -> Result<Step> {
        match self.cascade.deletes {
            true => self.delete(trx),
            false => self.update(trx),
        }
    }

    /// The steps of the change, and of all below it. False: the operation runs again.
    fn steps(&self, trx: &mut Trx, changed: &ChangedRow<'_>, past: Past, mode: LockMode) -> Result<bool> {
        let row = ChainedRow {
            table: self.table,
            changed,
            past,
            mode,
            level: &self.cascade.level,
        };
        self.writer.change_steps(trx, &row)
    }

    fn delete(&self, trx: &mut Trx) -> Result<Step> {
        let (writer, table, child) = (self.writer, self.table, self.child);
        if table.layout().marks_past {
            let before = trx.undo_top();
            match self.end(trx) {
                Ok(Some(step)) => return Ok(step),
                Ok(None) => {}
                // Another row ended at the same time with the same key. As the server does then:
                // the row goes without a trace.
                Err(Error::Duplicate { .. }) => writer.rollback.rollback_to(trx, before)?,
                Err(e) => return Err(e),
            }
        }
        let name = table.name();
        let mut made = MadeRow::default();
        row_maker(trx, self.cascade.key, &name)?.entries(child.as_made_of(&name), &mut made)?;
        let entries = entries_of(&made);
        let changed = ChangedRow::Deleted {
            pk: &child.pk,
            entries: &entries,
        };
        if !self.steps(trx, &changed, Past::NEVER, LockMode::Exclusive)? {
            return Ok(Step::Again);
        }
        let locks = writer.trx_sys.locks();
        locks.leave_to_version(trx, table.layout().clustered.id, &child.pk);
        writer.counters.rows_deleted.inc();
        Ok(Step::Changed)
    }

    /// The child row becomes one of the past. None: it has to be deleted.
    fn end(&self, trx: &mut Trx) -> Result<Option<Step>> {
        debug_assert!(
            self.cascade.deletes,
            "K7: a child ends when its parent is deleted or ends"
        );
        let (child, layout, name) = (self.child, self.table.layout(), self.table.name());
        let (mut before, mut after) = (MadeRow::default(), MadeRow::default());
        row_maker(trx, self.cascade.key, &name)?.ended(child.as_made_of(&name), &mut before, &mut after)?;
        if after.row.is_empty() {
            return Ok(None);
        }
        if before.pk != child.pk || !is_past(layout, &after.row) {
            return Err(other_row(&name));
        }
        let (entries, new_entries) = (entries_of(&before), entries_of(&after));
        debug_assert!(
            !is_past(layout, &before.row),
            "K7: a cascade meets children of the present alone"
        );
        let new = NewRow::new(&after.pk, &after.row, &new_entries);
        let changed = ChangedRow::Moved {
            pk: &before.pk,
            entries: &entries,
            new: &new,
        };
        if !self.steps(trx, &changed, Past::BEGINS, LockMode::Exclusive)? {
            return Ok(Some(Step::Again));
        }
        self.writer.counters.rows_updated.inc();
        Ok(Some(Step::Changed))
    }

    /// The form that the child row had before the cascade stays as a row of the past.
    fn add_past(&self, trx: &mut Trx, past: &MadeRow) -> Result<bool> {
        let layout = self.table.layout();
        if !is_past(layout, &past.row) {
            return Err(other_row(&self.table.name()));
        }
        debug_assert!(layout.marks_past, "only such a table has rows of the past");
        let entries = entries_of(past);
        let new = NewRow::new(&past.pk, &past.row, &entries);
        let added = self.steps(trx, &ChangedRow::Inserted(&new), Past::BEGINS, LockMode::Shared)?;
        self.writer.counters.rows_inserted.inc();
        Ok(added)
    }

    fn update(&self, trx: &mut Trx) -> Result<Step> {
        let (writer, cascade, table, child) = (self.writer, self.cascade, self.table, self.child);
        let (key, layout, name) = (cascade.key, table.layout(), table.name());
        let (mut before, mut after, mut past) = (MadeRow::default(), MadeRow::default(), MadeRow::default());
        row_maker(trx, key, &name)?.changed(
            child.as_made_of(&name),
            key.ordinal,
            cascade.value,
            &mut before,
            &mut after,
            &mut past,
        )?;
        if before.pk != child.pk || is_past(layout, &after.row) {
            return Err(other_row(&name));
        }
        if !follows(cascade, layout, &after)? {
            return Err(Error::RowIsReferenced(key.fault(name)));
        }
        let (old_entries, new_entries) = (entries_of(&before), entries_of(&after));
        let changes = changes_of(&old_entries, &new_entries);
        let new = NewRow::new(&after.pk, &after.row, &new_entries);
        let update = RowUpdate {
            pk: &after.pk,
            row: &after.row,
            changes: &changes,
            pk_rewritten: has_clustered_column(layout, key),
            keeps_unindexed: after.keeps_unindexed || planted(Mutant::CascadeKeepsUnindexed),
        };
        let changed = match after.pk == before.pk {
            true if after.row == before.row && changes.is_empty() => return Ok(Step::Unchanged),
            true => ChangedRow::Updated(&update),
            false => ChangedRow::Moved {
                pk: &before.pk,
                entries: &old_entries,
                new: &new,
            },
        };
        debug_assert!(
            cascade.is_certain || matches!(cascade.value, ReferenceValue::Parent { .. }),
            "only an UPDATE cascade may change nothing"
        );
        if !cascade.is_certain {
            cascade.may_change(table)?;
        }
        let done = match self.steps(trx, &changed, Past::NEVER, LockMode::Shared) {
            Ok(true) if !past.row.is_empty() => self.add_past(trx, &past),
            done => done,
        };
        match done {
            Ok(true) => {}
            Ok(false) => return Ok(Step::Again),
            Err(Error::Duplicate { index, .. }) => {
                let mut fault = key.fault(name);
                fault.index = index;
                return Err(Error::ForeignDuplicate(fault));
            }
            Err(e) => return Err(e),
        }
        let locks = writer.trx_sys.locks();
        locks.leave_to_version(trx, layout.clustered.id, &after.pk);
        writer.counters.rows_updated.inc();
        table.statistics.counts.updated();
        Ok(Step::Changed)
    }
}

impl Child {
    fn as_made_of<'a>(&'a self, table: &'a str) -> ChildRow<'a> {
        ChildRow {
            table,
            pk: &self.pk,
            row: &self.row,
        }
    }
}

fn other_row(table: &str) -> Error {
    Error::Invalid(format!("the row maker has made another row of table {table}"))
}

/// The child's new key refers to the parent's new key, or to nothing.
fn follows(cascade: &Cascade<'_>, layout: &Layout, after: &MadeRow) -> Result<bool> {
    let key = cascade.key;
    let child_key = key_in(layout, after, key.child.index)?;
    let wanted = match (cascade.value, cascade.new_key) {
        (ReferenceValue::Parent { .. }, Some(new)) => key.child_key(new),
        _ => Some(KeyOfForeign::Null),
    };
    Ok(match wanted {
        Some(KeyOfForeign::Key(wanted)) => child_key.starts_with(&wanted),
        Some(KeyOfForeign::Null) => parent_key(key, child_key)?.is_none(),
        Some(KeyOfForeign::Unmatched) | None => false,
    })
}

fn key_in<'a>(layout: &Layout, of: &'a MadeRow, index: IndexId) -> Result<&'a [u8]> {
    if layout.clustered.id == index {
        return Ok(&of.pk);
    }
    let is_it = |entry: &&MadeEntry| {
        let secondary = layout.secondary.get(entry.index as usize);
        secondary.is_some_and(|s| s.index.id == index)
    };
    let entry = of.entries.iter().find(is_it);
    let missing = || Error::Invalid("the row maker has left out an index that a foreign key needs".into());
    entry.map(|entry| &entry.key[..]).ok_or_else(missing)
}

fn has_clustered_column(layout: &Layout, key: &ForeignKey) -> bool {
    let of_key = |part: &str| key.spec.columns.iter().any(|column| same_column(column, part));
    layout.pk_parts.iter().any(|part| of_key(&part.column))
}
