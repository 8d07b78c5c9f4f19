//! [`ChangedRow`]: the change of a row, for its foreign keys: the old and the new key of each
//! index.
//!
//! Pure: no latches. Called by the rest of `dml`.
use crate::base::{Error, IndexId, Result};
use crate::index::key_shape::PartImage;
use crate::table::catalog::foreign_key::{foreign_prefix, ForeignEnd, ForeignKey};
use crate::table::catalog::index_quarantine::quarantined_error;
use crate::table::catalog::layout::Layout;
use crate::table::row::new_row::{Entry, NewRow, RowUpdate};

/// A change of one row.
#[derive(Clone, Copy)]
pub(in crate::table) enum ChangedRow<'a> {
    Inserted(&'a NewRow<'a>),
    Deleted {
        pk: &'a [u8],
        entries: &'a [Entry<'a>],
    },
    Updated(&'a RowUpdate<'a>),
    /// To another clustered key.
    Moved {
        pk: &'a [u8],
        entries: &'a [Entry<'a>],
        new: &'a NewRow<'a>,
    },
}

/// Whether the row is one of the past, before and after a change. A row that becomes one is a
/// deleted row to foreign keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::table) struct Past {
    pub was: bool,
    pub is: bool,
    /// False: `was` was not read, because the table had no foreign keys.
    pub known: bool,
    /// It becomes one of the past at the clustered key that it had.
    pub in_place: bool,
}

impl Past {
    /// Of a row of the present that stays one, or goes.
    pub const NEVER: Past = Past {
        was: false,
        is: false,
        known: true,
        in_place: false,
    };
    /// Of a row that becomes one of the past.
    pub const BEGINS: Past = Past {
        is: true,
        ..Past::NEVER
    };
}

/// What a change does to the key that children refer to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::table) enum KeyChange {
    None,
    /// The key compares equal, before and after. Its columns may have other bytes ('a' becomes
    /// 'A'). That is uncertain, because the index has more columns than the foreign key.
    Unknown,
    /// The key is deleted or replaced, or its columns get other bytes.
    Changed,
}

/// The key of one index, before and after. None: the row does not exist then.
#[derive(Clone, Copy)]
struct Keys<'a> {
    old: Option<&'a [u8]>,
    new: Option<&'a [u8]>,
    /// The columns may get other bytes although the key compares equal.
    rewritten: bool,
}

impl<'a> ChangedRow<'a> {
    pub fn is_deleted(&self) -> bool {
        matches!(self, ChangedRow::Deleted { .. })
    }
    /// The row exists afterwards, at the same clustered key or another one.
    pub fn is_updated(&self) -> bool {
        matches!(self, ChangedRow::Updated(_) | ChangedRow::Moved { .. })
    }
    /// Clustered key before the change.
    pub fn old_pk(&self) -> Option<&'a [u8]> {
        match *self {
            ChangedRow::Inserted(_) => None,
            ChangedRow::Deleted { pk, .. } | ChangedRow::Moved { pk, .. } => Some(pk),
            ChangedRow::Updated(update) => Some(update.pk),
        }
    }
    /// Clustered key and row after the change.
    pub fn new_row(&self) -> Option<(&'a [u8], &'a [u8])> {
        match *self {
            ChangedRow::Inserted(new) | ChangedRow::Moved { new, .. } => Some((new.pk, new.row)),
            ChangedRow::Updated(update) => Some((update.pk, update.row)),
            ChangedRow::Deleted { .. } => None,
        }
    }

    /// `body` with the new entries in the order in which their indexes were made. As in InnoDB,
    /// that order decides which of several errors is returned.
    pub fn by_age<R>(&self, layout: &Layout, body: impl FnOnce(&ChangedRow<'_>) -> R) -> R {
        if layout.is_by_age() {
            return body(self);
        }
        let age = |ordinal: u32| layout.secondary.get(ordinal as usize).map(|s| s.index.id);
        let sorted = |entries: &'a [Entry<'a>]| {
            let mut entries = entries.to_vec();
            entries.sort_by_key(|entry| age(entry.index));
            entries
        };
        match *self {
            ChangedRow::Deleted { .. } => body(self),
            ChangedRow::Inserted(new) => {
                let entries = sorted(new.entries);
                body(&ChangedRow::Inserted(&NewRow::new(new.pk, new.row, &entries)))
            }
            ChangedRow::Moved { pk, entries, new } => {
                let new_entries = sorted(new.entries);
                let new = &NewRow::new(new.pk, new.row, &new_entries);
                body(&ChangedRow::Moved { pk, entries, new })
            }
            ChangedRow::Updated(update) => {
                let mut changes = update.changes.to_vec();
                changes.sort_by_key(|change| age(change.index));
                let changes = &changes[..];
                body(&ChangedRow::Updated(&RowUpdate { changes, ..*update }))
            }
        }
    }

    /// The new key of the child's index, if there is a new entry: it needs its parent. As in
    /// InnoDB, an entry of which only other columns change is a new one, too.
    pub fn new_reference(&self, layout: &Layout, key: &ForeignKey) -> Result<Option<&'a [u8]>> {
        debug_assert_eq!(
            key.child.table, layout.id,
            "a row needs the parents of its own table's keys"
        );
        let Some(keys) = self.keys(layout, key.child.index)? else {
            return Ok(None);
        };
        let stays = matches!(self, ChangedRow::Updated(_)) && !keys.rewritten;
        Ok(keys.new.filter(|_| !stays))
    }
    /// The columns of the foreign keys without an index stay as they were.
    pub fn keeps_unindexed(&self) -> bool {
        matches!(self, ChangedRow::Updated(update) if update.keeps_unindexed)
    }
    /// The columns of the foreign key stay as they were.
    pub fn keeps_reference(&self, layout: &Layout, key: &ForeignKey) -> bool {
        if key.lacks_index() {
            return self.keeps_unindexed();
        }
        let Ok(Some(keys)) = self.keys(layout, key.child.index) else {
            return false;
        };
        let prefix = |of: Option<&'a [u8]>| of.and_then(|of| foreign_prefix(&key.child.shape, of));
        let before = prefix(keys.old);
        before.is_some() && before == prefix(keys.new)
    }
    /// The row's entry in an index, if the change deletes or replaces it.
    pub fn removed_entry(&self, layout: &Layout, index: IndexId) -> Result<Option<&'a [u8]>> {
        match self {
            ChangedRow::Updated(_) if index == layout.clustered.id => Ok(None),
            _ => self.old_key(layout, index),
        }
    }
    /// The key of an index after the change, if the change has it.
    pub fn new_key(&self, layout: &Layout, index: IndexId) -> Result<Option<&'a [u8]>> {
        Ok(self.keys(layout, index)?.and_then(|keys| keys.new))
    }

    /// The key of an index before the change, if the change has it.
    pub fn old_key(&self, layout: &Layout, index: IndexId) -> Result<Option<&'a [u8]>> {
        Ok(self.keys(layout, index)?.and_then(|keys| keys.old))
    }

    /// The key of the parent's index to which children refer, before the change; and what the
    /// change does to it. None: there was no row, or the change does not touch the index.
    pub fn referenced(&self, layout: &Layout, end: &ForeignEnd) -> Result<Option<(&'a [u8], KeyChange)>> {
        debug_assert_eq!(
            end.table, layout.id,
            "children refer to an index of the row's own table"
        );
        let Some(Keys {
            old: Some(old),
            new,
            rewritten,
        }) = self.keys(layout, end.index)?
        else {
            return Ok(None);
        };
        let Some(new) = new else {
            return Ok(Some((old, KeyChange::Changed)));
        };
        if foreign_prefix(&end.shape, old) != foreign_prefix(&end.shape, new) {
            return Ok(Some((old, KeyChange::Changed)));
        }
        let has_strings = end
            .shape
            .parts
            .iter()
            .any(|part| !matches!(part.image, PartImage::Fixed(_)));
        let change = match rewritten && has_strings && !self.keeps_value(layout, end.index) {
            false => KeyChange::None,
            true if self.has_only_referenced_columns(layout, end) => KeyChange::Changed,
            true => KeyChange::Unknown,
        };
        Ok(Some((old, change)))
    }

    /// The row moves, and its entry keeps its value: the bytes of all columns that the key does not
    /// tell.
    fn keeps_value(&self, layout: &Layout, index: IndexId) -> bool {
        let (ChangedRow::Moved { entries, new, .. }, Some(ordinal)) = (self, layout.ordinal_of(index)) else {
            return false;
        };
        let of = |entries: &'a [Entry<'a>]| Some(entry_of(layout, entries, ordinal.checked_sub(1)?).ok()?.value);
        of(entries).is_some_and(|old| of(new.entries) == Some(old))
    }

    /// The index has only the columns to which children refer. So their bytes are what changed.
    fn has_only_referenced_columns(&self, layout: &Layout, end: &ForeignEnd) -> bool {
        let ChangedRow::Updated(update) = self else {
            return false;
        };
        if end.index == layout.clustered.id {
            return end.is_whole_clustered_key;
        }
        let secondary = layout.secondary_by_id(end.index);
        !update.pk_rewritten && secondary.is_some_and(|s| s.parts.len() == end.shape.parts.len())
    }

    /// None: the key and its columns are unchanged.
    fn keys(&self, layout: &Layout, index: IndexId) -> Result<Option<Keys<'a>>> {
        if index == layout.clustered.id {
            return Ok(self.clustered());
        }
        let Some(ordinal) = layout.secondary.iter().position(|s| s.index.id == index) else {
            return Err(Error::NoSuchTable(format!("index {index} of table {}", layout.id)));
        };
        let key_of = |entries: &'a [Entry<'a>]| entry_of(layout, entries, ordinal as u32).map(|entry| entry.key);
        Ok(match *self {
            ChangedRow::Inserted(new) => Some(Keys {
                old: None,
                new: Some(key_of(new.entries)?),
                rewritten: false,
            }),
            ChangedRow::Deleted { entries, .. } => Some(Keys {
                old: Some(key_of(entries)?),
                new: None,
                rewritten: false,
            }),
            ChangedRow::Moved { entries, new, .. } => Some(Keys {
                old: Some(key_of(entries)?),
                new: Some(key_of(new.entries)?),
                rewritten: true,
            }),
            ChangedRow::Updated(update) => {
                let change = update.changes.iter().find(|c| c.index == ordinal as u32);
                change.map(|change| Keys {
                    old: Some(change.old_key),
                    new: Some(change.new_key),
                    rewritten: true,
                })
            }
        })
    }

    fn clustered(&self) -> Option<Keys<'a>> {
        let keys = |old, new, rewritten| Some(Keys { old, new, rewritten });
        match *self {
            ChangedRow::Inserted(new) => keys(None, Some(new.pk), false),
            ChangedRow::Deleted { pk, .. } => keys(Some(pk), None, false),
            ChangedRow::Moved { pk, new, .. } => keys(Some(pk), Some(new.pk), true),
            ChangedRow::Updated(update) => keys(Some(update.pk), Some(update.pk), update.pk_rewritten),
        }
    }
}

fn entry_of<'a>(layout: &Layout, entries: &'a [Entry<'a>], ordinal: u32) -> Result<&'a Entry<'a>> {
    if let Some(entry) = entries.iter().find(|e| e.index == ordinal) {
        return Ok(entry);
    }
    let of = &layout.secondary[ordinal as usize];
    Err(match of.quarantined {
        true => quarantined_error(layout.id, &of.index),
        false => Error::Invalid(format!(
            "a row without its entry in index {}, which a foreign key needs",
            of.index.name
        )),
    })
}
