//! The parent's side of foreign keys: a row that goes, or gets another key, is refused, or its
//! child rows follow.
//!
//! **K2** A parent row is changed under its EXCLUSIVE lock before its children are looked for.
//! **K3** `Table::foreign` is read after that change, never before. So a child that was made under
//! a lock on the parent is met, and so is one whose foreign key is new.
//! **K4** A cascade changes a child's newest version or fails.
//! **K6** While a child lacks the index of a foreign key, no parent row goes.
//! **K7** A row that becomes one of the past counts as deleted, and its change brings all of its old
//! entries. A row of the past is neither parent nor child.
//!
//! Everything belongs to one row operation, which is undone as a whole. A chain of cascades is as
//! long as its list of [`Level`]s, which bounds the thread's stack.
//!
//! No latch is held. Called by the steps of row changes; the row maker is called from here.
use crate::base::sync::holds_no_latch;
use crate::base::{sync_point, Error, FileId, IndexId, Result, SyncPoint};
use crate::table::catalog::foreign_key::{same_column, ForeignAction, ForeignEnd, ForeignKey, KeyOfForeign};
use crate::table::catalog::layout::Layout;
use crate::table::catalog::table::Table;
use crate::table::dml::change::RowWriter;
use crate::table::dml::changed_row::{ChangedRow, KeyChange, Past};
use crate::table::dml::references::{row_maker, References};
use crate::table::row::child_search::{Child, Children, Next};
use crate::table::row::new_row::{Entry, EntryChange, NewRow, RowUpdate};
use crate::table::row::parent_check::parent_key;
use crate::table::row::past::{is_past, value_is_past};
use crate::txn::{ChildRow, LockMode, LockPolicy, MadeEntry, MadeRow, ReferenceValue, Trx};
use std::sync::Arc;

/// Rows that a chain of foreign keys may have, the statement's row included.
pub(in crate::table) const LEVELS_MAX: u32 = 15;

/// A row in a chain of cascades, and the rows above it.
#[derive(Clone, Copy)]
pub(in crate::table) struct Level<'a> {
    above: Option<Above<'a>>,
    table: FileId,
    updates: bool,
    /// The foreign key that updates the row. It is not checked for this row.
    by: Option<&'a ForeignKey>,
}

/// A row whose children are looked for.
#[derive(Clone, Copy)]
struct Above<'a> {
    level: &'a Level<'a>,
    layout: &'a Layout,
    changed: &'a ChangedRow<'a>,
    /// The index to which the children refer.
    index: IndexId,
}

impl Above<'_> {
    /// This row, or one above it, was among the children with this key. As in InnoDB it still
    /// counts, although it is changed: indexes come in their order, and its entry would go later.
    fn was_child(&self, key: &ForeignKey, prefix: &[u8]) -> Result<bool> {
        if self.layout.id == key.child.table && self.index < key.child.index {
            let old = self.changed.old_key(self.layout, key.child.index)?;
            if old.is_some_and(|old| old.starts_with(prefix)) {
                return Ok(true);
            }
        }
        match &self.level.above {
            Some(above) => above.was_child(key, prefix),
            None => Ok(false),
        }
    }
}

impl<'a> Above<'a> {
    /// The new entry of this row, or one above it, in the parent's index of this foreign key. Only
    /// if it would be written later in InnoDB: it is no parent yet.
    fn unwritten_parent(&self, key: &ForeignKey) -> Result<Option<&'a [u8]>> {
        let end = key
            .parent
            .as_ref()
            .filter(|end| end.table == self.layout.id && self.index <= end.index);
        let stays =
            |end: &ForeignEnd| matches!(self.changed, ChangedRow::Updated(_)) && end.index == self.layout.clustered.id;
        if let Some(end) = end.filter(|end| !stays(end)) {
            if let Some(new) = self.changed.new_key(self.layout, end.index)? {
                return Ok(Some(new));
            }
        }
        match &self.level.above {
            Some(above) => above.unwritten_parent(key),
            None => Ok(None),
        }
    }
}

impl Level<'_> {
    /// The row that the statement changes.
    fn first(table: &Table, changed: &ChangedRow<'_>, past: Past) -> Level<'static> {
        Level {
            above: None,
            table: table.layout().id,
            updates: changed.is_updated() && !past.is,
            by: None,
        }
    }
    /// The row gets its value by this foreign key, whose both ends are the same columns. So the
    /// children of the row are also those of the row above, and get the value from there.
    fn is_by(&self, key: &ForeignKey) -> bool {
        let same = |(a, b): (&String, &String)| same_column(a, b);
        let is_it = |by: &ForeignKey| (by.child.table, by.ordinal) == (key.child.table, key.ordinal);
        let mut columns = key.spec.columns.iter().zip(&key.spec.parent_columns);
        self.by.is_some_and(is_it) && key.is_to_itself() && columns.all(same)
    }
    /// The row needs no check of this reference of its own. Either the chain carries the foreign
    /// key out. Or the reference stays, and a row above is one of the parent's table. That row's
    /// children are looked for after its change, so the reference is met there if it is concerned.
    fn carries_out(&self, key: &ForeignKey, changed: &ChangedRow<'_>, layout: &Layout) -> bool {
        let is_by = |by: &ForeignKey| (by.child.table, by.ordinal) == (key.child.table, key.ordinal);
        let parent = key.parent.as_ref().map(|end| end.table);
        let is_above = parent.is_some_and(|parent| self.above.is_some_and(|above| above.level.has(parent)));
        self.by.is_some_and(is_by) || (is_above && changed.keeps_reference(layout, key))
    }
    fn has(&self, table: FileId) -> bool {
        self.table == table || self.above.is_some_and(|above| above.level.has(table))
    }
    fn count(&self) -> u32 {
        1 + self.above.map_or(0, |above| above.level.count())
    }
    fn updates(&self, table: FileId) -> bool {
        self.updates && self.table == table || self.above.is_some_and(|above| above.level.updates(table))
    }
    /// Of a row with children by this key: whether they may be changed. `child`: their table.
    fn may_cascade(&self, key: &ForeignKey, deletes: bool, child: &Table) -> Result<()> {
        debug_assert!(self.count() <= LEVELS_MAX, "a longer chain was refused above");
        if !deletes && self.updates(key.child.table) {
            return Err(Error::RowIsReferenced(key.fault(child.name())));
        }
        if self.count() >= LEVELS_MAX {
            return Err(Error::ForeignDepth(key.fault(child.name()), LEVELS_MAX));
        }
        Ok(())
    }
}

/// The change of one row, and its place in a chain of cascades.
#[derive(Clone, Copy)]
struct ChainedRow<'a> {
    table: &'a Table,
    changed: &'a ChangedRow<'a>,
    past: Past,
    /// How a row in the way is locked before `Duplicate`.
    mode: LockMode,
    level: &'a Level<'a>,
}

impl ChainedRow<'_> {
    /// What children of this key do.
    fn action(&self, key: &ForeignKey) -> ForeignAction {
        match self.changed.is_deleted() {
            true => key.spec.on_delete,
            false => key.spec.on_update,
        }
    }
}

/// What happens to the children of one key.
struct Cascade<'a> {
    key: &'a ForeignKey,
    deletes: bool,
    /// Not if `deletes`.
    value: ReferenceValue<'a>,
    /// What the parent's key becomes.
    new_key: Option<&'a [u8]>,
    /// Of the children.
    level: Level<'a>,
}

/// The result of a step: the operation goes on, or runs again.
enum Step {
    Changed,
    Unchanged,
    Again,
}

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
        let mut past = Past {
            was: false,
            is: changed.new_row().is_some_and(|(_, row)| is_past(layout, row)),
            known: trx.foreign_key_checks && table.foreign_keys().is_some(),
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
    fn change_steps(&self, trx: &mut Trx, row: &ChainedRow<'_>) -> Result<bool> {
        let layout = row.table.layout();
        row.changed.by_age(layout, |changed| {
            self.steps_by_age(trx, &ChainedRow { changed, ..*row })
        })
    }

    fn steps_by_age(&self, trx: &mut Trx, row: &ChainedRow<'_>) -> Result<bool> {
        let layout = row.table.layout();
        let is_exempt = |key: &ForeignKey| row.level.carries_out(key, row.changed, layout);
        let unwritten = |key: &ForeignKey| match &row.level.above {
            Some(above) => above.unwritten_parent(key),
            None => Ok(None),
        };
        let begun = match row.past.is {
            true => Some(References::default()),
            false => self.begin_references(trx, row.table, row.changed, &is_exempt, &unwritten)?,
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
        let gone = match *row.changed {
            ChangedRow::Moved { pk, entries, .. } if row.past.is => ChangedRow::Deleted { pk, entries },
            changed => changed,
        };
        debug_assert!(
            !row.past.is || gone.is_deleted(),
            "K7: a row that becomes one of the past is moved"
        );
        let row = &ChainedRow { changed: &gone, ..*row };
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
        // An update cascade that changes nothing does no harm.
        let follows = change == KeyChange::Changed || change == KeyChange::Unknown && action == ForeignAction::Cascade;
        if key.lacks_index() && follows {
            // As in InnoDB, also if the child is empty.
            let child = self.children.table_of(&key.child);
            return child.map_or(Ok(false), |child| Err(Error::RowIsReferenced(key.fault(child.name()))));
        }
        let prefix = match follows.then(|| key.child_key(old)) {
            None => return Ok(true),
            Some(Some(KeyOfForeign::Key(prefix))) => prefix,
            Some(Some(KeyOfForeign::Null)) => return Ok(true),
            Some(None) => return Err(Error::Invalid("a key without all columns of a foreign key".into())),
        };
        let above = Above {
            level: row.level,
            layout,
            changed,
            index: end.index,
        };
        let was_child = above.was_child(key, &prefix)?;
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
        if end.index == key.child.index {
            children.ignore(old);
        }
        match action.changes_children() {
            false => self.refuse(trx, key, &mut children),
            true => self.cascade(trx, row, above, key, &mut children),
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
        above: Above<'_>,
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
            value,
            new_key,
            level: Level {
                above: Some(above),
                table: key.child.table,
                updates: !deletes,
                by: (!deletes).then_some(key),
            },
        };
        self.cascade_all(trx, &cascade, row.level, children)
    }

    /// Passes over the children until one pass has nothing to do: children whose key stays are
    /// still there.
    fn cascade_all(
        &self,
        trx: &mut Trx,
        cascade: &Cascade<'_>,
        level: &Level<'_>,
        children: &mut Children,
    ) -> Result<bool> {
        loop {
            let mut any = false;
            loop {
                let child = match self.children.next(trx, children)? {
                    Next::Child(child) => child,
                    Next::None => break,
                    Next::Unbound => return Ok(false),
                };
                level.may_cascade(cascade.key, cascade.deletes, &children.table)?;
                debug_assert!(
                    level.count() < LEVELS_MAX,
                    "the thread's stack has room for no more cascades in cascades"
                );
                self.begin_change(trx)?;
                let before = trx.undo_top();
                let step = match cascade.deletes {
                    true => self.delete_child(trx, cascade, &children.table, &child),
                    false => self.update_child(trx, cascade, &children.table, &child),
                };
                let step = step?;
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

    fn delete_child(&self, trx: &mut Trx, cascade: &Cascade<'_>, table: &Table, child: &Child) -> Result<Step> {
        if table.layout().marks_past {
            let before = trx.undo_top();
            match self.end_child(trx, cascade, table, child) {
                Ok(Some(step)) => return Ok(step),
                Ok(None) => {}
                // Another row ended at the same time with the same key. As the server does then:
                // the row goes without a trace.
                Err(Error::Duplicate { .. }) => self.rollback.rollback_to(trx, before)?,
                Err(e) => return Err(e),
            }
        }
        let name = table.name();
        let mut made = MadeRow::default();
        row_maker(trx, cascade.key, &name)?.entries(child.as_made_of(&name), &mut made)?;
        let entries = entries_of(&made);
        let changed = ChangedRow::Deleted {
            pk: &child.pk,
            entries: &entries,
        };
        let row = ChainedRow {
            table,
            changed: &changed,
            past: Past::NEVER,
            mode: LockMode::Exclusive,
            level: &cascade.level,
        };
        if !self.change_steps(trx, &row)? {
            return Ok(Step::Again);
        }
        let locks = self.trx_sys.locks();
        locks.leave_to_version(trx, table.layout().clustered.id, &child.pk);
        self.counters.rows_deleted.inc();
        Ok(Step::Changed)
    }

    /// The child row becomes one of the past. None: it has to be deleted.
    fn end_child(&self, trx: &mut Trx, cascade: &Cascade<'_>, table: &Table, child: &Child) -> Result<Option<Step>> {
        let (key, layout, name) = (cascade.key, table.layout(), table.name());
        let (mut before, mut after) = (MadeRow::default(), MadeRow::default());
        row_maker(trx, key, &name)?.ended(child.as_made_of(&name), &mut before, &mut after)?;
        if after.row.is_empty() {
            return Ok(None);
        }
        if before.pk != child.pk || !is_past(layout, &after.row) {
            return Err(other_row(&name));
        }
        let (entries, new_entries) = (entries_of(&before), entries_of(&after));
        let new = NewRow::new(&after.pk, &after.row, &new_entries);
        let changed = ChangedRow::Moved {
            pk: &before.pk,
            entries: &entries,
            new: &new,
        };
        let row = ChainedRow {
            table,
            changed: &changed,
            past: Past::BEGINS,
            mode: LockMode::Exclusive,
            level: &cascade.level,
        };
        if !self.change_steps(trx, &row)? {
            return Ok(Some(Step::Again));
        }
        self.counters.rows_updated.inc();
        Ok(Some(Step::Changed))
    }

    /// The form that the child row had before the cascade stays as a row of the past.
    fn add_past(&self, trx: &mut Trx, cascade: &Cascade<'_>, table: &Table, past: &MadeRow) -> Result<bool> {
        if !is_past(table.layout(), &past.row) {
            return Err(other_row(&table.name()));
        }
        let entries = entries_of(past);
        let new = NewRow::new(&past.pk, &past.row, &entries);
        let row = ChainedRow {
            table,
            changed: &ChangedRow::Inserted(&new),
            past: Past::BEGINS,
            mode: LockMode::Shared,
            level: &cascade.level,
        };
        let added = self.change_steps(trx, &row)?;
        self.counters.rows_inserted.inc();
        Ok(added)
    }

    fn update_child(&self, trx: &mut Trx, cascade: &Cascade<'_>, table: &Table, child: &Child) -> Result<Step> {
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
            keeps_unindexed: after.keeps_unindexed,
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
        let row = ChainedRow {
            table,
            changed: &changed,
            past: Past::NEVER,
            mode: LockMode::Shared,
            level: &cascade.level,
        };
        let done = match self.change_steps(trx, &row) {
            Ok(true) if !past.row.is_empty() => self.add_past(trx, cascade, table, &past),
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
        let locks = self.trx_sys.locks();
        locks.leave_to_version(trx, layout.clustered.id, &after.pk);
        self.counters.rows_updated.inc();
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
        None => false,
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

fn entries_of(made: &MadeRow) -> Vec<Entry<'_>> {
    made.entries.iter().map(as_entry).collect()
}

fn as_entry(of: &MadeEntry) -> Entry<'_> {
    Entry {
        index: of.index,
        user_key_len: of.user_key_len,
        has_null: of.has_null,
        key: &of.key,
        value: &of.value,
    }
}

/// The entries that differ.
fn changes_of<'a>(old: &[Entry<'a>], new: &[Entry<'a>]) -> Vec<EntryChange<'a>> {
    let change = |new: &Entry<'a>| {
        let old = old.iter().find(|old| old.index == new.index)?;
        let differs = old.key != new.key || old.value != new.value;
        differs.then_some(EntryChange {
            index: new.index,
            user_key_len: new.user_key_len,
            has_null: new.has_null,
            old_key: old.key,
            new_key: new.key,
            new_value: new.value,
        })
    };
    new.iter().filter_map(change).collect()
}
