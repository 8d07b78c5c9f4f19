//! The types in which callers describe a change of a row. Keys and rows are bytes that the caller
//! has made.
use crate::txn::{MadeEntry, MadeRow};

/// A secondary entry of a row that is inserted or deleted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entry<'a> {
    /// Secondary ordinal.
    pub index: u32,
    /// Length of the index key inside `key`.
    pub user_key_len: u32,
    /// A part of the index key is NULL: a unique index takes any number of such entries.
    pub has_null: bool,
    /// Index key + clustered key.
    pub key: &'a [u8],
    /// Raw bytes of the columns that cannot be decoded from the key.
    pub value: &'a [u8],
}

impl<'a> Entry<'a> {
    fn of(made: &'a MadeEntry) -> Entry<'a> {
        Entry {
            index: made.index,
            user_key_len: made.user_key_len,
            has_null: made.has_null,
            key: &made.key,
            value: &made.value,
        }
    }
}

/// A row that is inserted, or moved to another clustered key.
#[derive(Clone, Copy, Debug)]
pub struct NewRow<'a> {
    /// Clustered key.
    pub pk: &'a [u8],
    pub row: &'a [u8],
    pub entries: &'a [Entry<'a>],
}

impl<'a> NewRow<'a> {
    pub fn new(pk: &'a [u8], row: &'a [u8], entries: &'a [Entry<'a>]) -> NewRow<'a> {
        NewRow { pk, row, entries }
    }
}

/// An update that keeps the clustered key.
#[derive(Clone, Copy, Debug)]
pub struct RowUpdate<'a> {
    /// Clustered key.
    pub pk: &'a [u8],
    /// The new row.
    pub row: &'a [u8],
    pub changes: &'a [EntryChange<'a>],
    /// Columns of the clustered key get other bytes, although the key stays: 'a' becomes 'A'.
    pub pk_rewritten: bool,
    /// No column of a foreign key of the table whose index is gone gets another value (K6).
    pub keeps_unindexed: bool,
}

/// One secondary index of an update; the keys may be equal and the values differ.
#[derive(Clone, Copy, Debug, Default)]
pub struct EntryChange<'a> {
    pub index: u32,
    /// Of `new_key`.
    pub user_key_len: u32,
    /// As in [`Entry`], of `new_key`.
    pub has_null: bool,
    pub old_key: &'a [u8],
    pub new_key: &'a [u8],
    pub new_value: &'a [u8],
}

/// The entries of a row that a row maker has made.
pub fn entries_of(made: &MadeRow) -> Vec<Entry<'_>> {
    made.entries.iter().map(Entry::of).collect()
}

/// The entries that differ between two forms of a row.
pub fn changes_of<'a>(old: &[Entry<'a>], new: &[Entry<'a>]) -> Vec<EntryChange<'a>> {
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
