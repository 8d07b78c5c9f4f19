//! [`Level`]: a row in a chain of cascades. A chain is as long as its list of levels, which bounds
//! the thread's stack.
//!
//! Pure: no latches. Called by `cascade` and `child_change`.
use crate::base::{Error, FileId, IndexId, Result};
use crate::table::catalog::foreign_key::{same_column, ForeignAction, ForeignEnd, ForeignKey};
use crate::table::catalog::layout::Layout;
use crate::table::catalog::table::Table;
use crate::table::dml::changed_row::{ChangedRow, Past};
use crate::txn::{LockMode, ReferenceValue};

/// Rows that a chain of foreign keys may have, the statement's row included.
const LEVELS_MAX: u32 = 15;

/// A row in a chain of cascades, and the rows above it.
#[derive(Clone, Copy)]
pub(super) struct Level<'a> {
    pub above: Option<Above<'a>>,
    pub table: FileId,
    pub updates: bool,
    /// The foreign key that updates the row. It is not checked for this row.
    pub by: Option<&'a ForeignKey>,
}

/// A row whose children are looked for.
#[derive(Clone, Copy)]
pub(super) struct Above<'a> {
    pub level: &'a Level<'a>,
    pub layout: &'a Layout,
    pub changed: &'a ChangedRow<'a>,
    /// The index to which the children refer.
    pub index: IndexId,
    /// It becomes one of the past where it is: as in InnoDB, in all indexes at once.
    pub in_place: bool,
}

impl Above<'_> {
    /// This row, or one above it, was among the children with this key. As in InnoDB it still
    /// counts, although it is changed: indexes come in their order, and its entry would go later.
    pub fn was_child(&self, key: &ForeignKey, prefix: &[u8]) -> Result<bool> {
        if self.layout.id == key.child.table && self.index < key.child.index && !self.in_place {
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
    /// The entry that makes this row its own child, with this key. As in InnoDB it does not count
    /// if its index comes after the parent's: it would be written later.
    pub fn unwritten_child(&self, key: &ForeignKey, prefix: &[u8]) -> Result<Option<&'a [u8]>> {
        if self.layout.id != key.child.table || self.index >= key.child.index {
            return Ok(None);
        }
        let was_child = self.changed.old_key(self.layout, key.child.index)?;
        let new = self.changed.new_key(self.layout, key.child.index)?;
        Ok(new.filter(|new| new.starts_with(prefix) && !was_child.is_some_and(|old| old.starts_with(prefix))))
    }
    /// The new entry of this row, or one above it, in the parent's index of this foreign key. Only
    /// if it would be written later in InnoDB: it is no parent yet.
    pub fn unwritten_parent(&self, key: &ForeignKey) -> Result<Option<&'a [u8]>> {
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
    pub fn first(table: &Table, changed: &ChangedRow<'_>, past: Past) -> Level<'static> {
        Level {
            above: None,
            table: table.layout().id,
            updates: changed.is_updated() && !past.is,
            by: None,
        }
    }
    /// The row gets its value by this foreign key, whose both ends are the same columns. So the
    /// children of the row are also those of the row above, and get the value from there.
    pub fn is_by(&self, key: &ForeignKey) -> bool {
        let same = |(a, b): (&String, &String)| same_column(a, b);
        let mut columns = key.spec.columns.iter().zip(&key.spec.parent_columns);
        self.carries_out(key) && key.is_to_itself() && columns.all(same)
    }
    /// The foreign key updates the row, and is not checked for it.
    pub fn carries_out(&self, key: &ForeignKey) -> bool {
        let is_it = |by: &ForeignKey| (by.child.table, by.ordinal) == (key.child.table, key.ordinal);
        self.by.is_some_and(is_it)
    }
    /// A row above had this key of the parent's index. Its children are looked for after its
    /// change, so a reference to it that stays is met there if it is concerned.
    pub fn had_parent(&self, key: &ForeignKey, parent_key: &[u8]) -> Result<bool> {
        let Some(above) = &self.above else {
            return Ok(false);
        };
        if let Some(end) = key.parent.as_ref().filter(|end| end.table == above.layout.id) {
            let old = above.changed.old_key(above.layout, end.index)?;
            if old.is_some_and(|old| old.starts_with(parent_key)) {
                return Ok(true);
            }
        }
        above.level.had_parent(key, parent_key)
    }
    pub fn count(&self) -> u32 {
        1 + self.above.map_or(0, |above| above.level.count())
    }
    fn updates(&self, table: FileId) -> bool {
        self.updates && self.table == table || self.above.is_some_and(|above| above.level.updates(table))
    }
    /// Of a row with children by this key: whether they may be changed. `child`: their table.
    pub fn may_cascade(&self, key: &ForeignKey, deletes: bool, child: &Table) -> Result<()> {
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
pub(super) struct ChainedRow<'a> {
    pub table: &'a Table,
    pub changed: &'a ChangedRow<'a>,
    pub past: Past,
    /// How a row in the way is locked before `Duplicate`.
    pub mode: LockMode,
    pub level: &'a Level<'a>,
}

impl ChainedRow<'_> {
    /// What children of this key do.
    pub fn action(&self, key: &ForeignKey) -> ForeignAction {
        match self.changed.is_deleted() {
            true => key.spec.on_delete,
            false => key.spec.on_update,
        }
    }
}

/// What happens to the children of one key.
pub(super) struct Cascade<'a> {
    pub key: &'a ForeignKey,
    pub deletes: bool,
    /// False: the key compares equal. Only the row maker knows whether the columns get other bytes.
    pub is_certain: bool,
    /// Not if `deletes`.
    pub value: ReferenceValue<'a>,
    /// What the parent's key becomes.
    pub new_key: Option<&'a [u8]>,
    /// Of the children.
    pub level: Level<'a>,
}

impl Cascade<'_> {
    /// Before a child is changed. `child`: its table.
    pub fn may_change(&self, child: &Table) -> Result<()> {
        if let Some(above) = &self.level.above {
            above.level.may_cascade(self.key, self.deletes, child)?;
        }
        debug_assert!(
            self.level.count() <= LEVELS_MAX,
            "the thread's stack has room for no more cascades in cascades"
        );
        Ok(())
    }
}

/// The result of a step: the operation goes on, or runs again.
pub(super) enum Step {
    Changed,
    Unchanged,
    Again,
}
