//! INSERT ... SELECT and LOAD DATA into an empty table: many rows bypass pool, undo and log.
//!
//! The number of rows is not known in advance. So the first rows are held in memory, and nothing is
//! locked or written. When they have enough bytes for a load (`StoreConfig::bulk_load_min`), the
//! choice is made. If the table is still empty, they go into a load (`stamped_load.rs`). Else they
//! and all further rows are inserted one by one. A statement that ends before the choice inserts
//! its rows one by one, too.
//!
//! The choice is also made when a row may have a key or a unique value of an earlier held row. So a
//! statement of few rows fails at the same row as an ordinary INSERT. In a load, the refused row
//! may have come long before the error. [`BulkInsert::refused`] says which row it is.
//!
//! Rows of a table that refers to parents are inserted one by one, unless the session does not
//! check foreign keys.
//!
//! No latch is held between calls. Called by the C ABI.
use crate::base::bytes::{push_bytes, push_varint, take_bytes, take_varint};
use crate::base::{Error, Result};
use crate::table::bulk::table_load::{over, TableLoad, TableLoader};
use crate::table::catalog::layout::Layout;
use crate::table::catalog::table::Table;
use crate::table::row::new_row::{Entry, NewRow};
use crate::txn::Trx;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Rows of one statement into one table. Ends in [`BulkInsert::end`]. After an error only `end` is
/// allowed, and then the statement is rolled back.
pub struct BulkInsert {
    loader: Arc<TableLoader>,
    table: Arc<Table>,
    stage: Stage,
    /// Other transactions are prevented from inserting.
    taken: bool,
    /// Clustered key and row.
    refused: Option<(Vec<u8>, Vec<u8>)>,
}

enum Stage {
    Held(Held),
    OneByOne,
    Loading(Box<TableLoad>),
    Over,
}

/// Takes clustered key, row and entries.
type EachRow<'a> = &'a mut dyn FnMut(&[u8], &[u8], &[Entry<'_>]) -> Result<()>;

/// Rows with their entries, one after the other.
#[derive(Default)]
struct Held {
    bytes: Vec<u8>,
    /// Hashes of their clustered keys and unique values.
    seen: HashSet<u64>,
}

impl Held {
    /// False, and the row is not taken: an earlier row may have its key, or a unique value of it.
    fn push(&mut self, layout: &Layout, pk: &[u8], row: &[u8], entries: &[Entry<'_>]) -> bool {
        let mut is_new = self.seen.insert(hash_of(0, pk));
        let is_unique = |e: &&Entry<'_>| !e.has_null && layout.index(e.index + 1).is_some_and(|i| i.unique);
        for e in entries.iter().filter(is_unique) {
            let value = e.key.get(..e.user_key_len as usize).unwrap_or(e.key);
            is_new &= self.seen.insert(hash_of(e.index + 1, value));
        }
        if is_new {
            self.take(pk, row, entries);
        }
        is_new
    }
    fn take(&mut self, pk: &[u8], row: &[u8], entries: &[Entry<'_>]) {
        let to = &mut self.bytes;
        push_bytes(to, pk);
        push_bytes(to, row);
        push_varint(to, entries.len() as u64);
        for e in entries {
            push_varint(to, e.index as u64);
            push_varint(to, (e.user_key_len as u64) << 1 | e.has_null as u64);
            push_bytes(to, e.key);
            push_bytes(to, e.value);
        }
    }
    /// In the order in which they came.
    fn each(&self, body: EachRow<'_>) -> Result<()> {
        let (bytes, mut at) = (&self.bytes[..], 0);
        let mut entries = Vec::new();
        while at < bytes.len() {
            let (pk, row) = take_row(bytes, &mut at, &mut entries).expect("written by `take`");
            body(pk, row, &entries)?;
        }
        Ok(())
    }
}

/// `index`: 0 = clustered, i + 1 = secondary i.
fn hash_of(index: u32, value: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (index, value).hash(&mut hasher);
    hasher.finish()
}

fn take_row<'a>(b: &'a [u8], at: &mut usize, entries: &mut Vec<Entry<'a>>) -> Option<(&'a [u8], &'a [u8])> {
    let (pk, row) = (take_bytes(b, at)?, take_bytes(b, at)?);
    entries.clear();
    for _ in 0..take_varint(b, at)? {
        let index = take_varint(b, at)? as u32;
        let len_and_null = take_varint(b, at)?;
        entries.push(Entry {
            index,
            user_key_len: (len_and_null >> 1) as u32,
            has_null: len_and_null & 1 != 0,
            key: take_bytes(b, at)?,
            value: take_bytes(b, at)?,
        });
    }
    Some((pk, row))
}

impl TableLoader {
    /// None: the table is not empty, and rows are to be inserted one by one. The statement does not
    /// read the table while it fills it.
    pub fn begin_bulk_insert(self: &Arc<TableLoader>, table: &Arc<Table>) -> Result<Option<BulkInsert>> {
        // A load would not add its keys to those that an ALTER TABLE follows.
        let refused = self.bulk_load_min == u64::MAX || table.layout().has_wide() || table.is_altered_online();
        if refused || !self.has_empty_trees(table.layout())? {
            return Ok(None);
        }
        Ok(Some(BulkInsert {
            loader: self.clone(),
            table: table.clone(),
            stage: Stage::Held(Held::default()),
            taken: false,
            refused: None,
        }))
    }
}

impl BulkInsert {
    /// As `RowWriter::insert`; the error may be that of an earlier row.
    pub fn add(&mut self, trx: &mut Trx, pk: &[u8], row: &[u8], entries: &[Entry<'_>]) -> Result<()> {
        let row_by_row = trx.foreign_key_checks && self.is_child();
        if let Stage::Held(held) = &mut self.stage {
            if row_by_row {
                self.stage = Stage::OneByOne;
                return self.add(trx, pk, row, entries);
            }
            let is_new = held.push(self.table.layout(), pk, row, entries);
            let many = held.bytes.len() as u64 >= self.loader.bulk_load_min;
            match (is_new, many) {
                (true, false) => return Ok(()),
                (true, true) => return self.decide(trx),
                (false, _) => {
                    let held = self.take_held()?;
                    self.go_one_by_one(trx, &held)?;
                }
            }
        }
        match &mut self.stage {
            Stage::OneByOne => {
                let new = NewRow::new(pk, row, entries);
                self.loader.rows.insert(trx, &self.table, &new, false)
            }
            // A load has the table to itself.
            Stage::Loading(load) => {
                debug_assert!(self.taken, "rows are loaded while no other transaction can insert");
                let added = load.add_by(Some(trx), pk, row, entries);
                if added.is_err() {
                    self.stage = Stage::Over;
                }
                added
            }
            Stage::Held(_) | Stage::Over => Err(over()),
        }
    }

    /// Its rows need parents: each is checked when it is inserted.
    fn is_child(&self) -> bool {
        let keys = self.table.foreign_keys();
        keys.is_some_and(|keys| !keys.references.is_empty())
    }

    /// Takes the held rows; after an error from here on only `end` is allowed.
    fn take_held(&mut self) -> Result<Held> {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Held(held) => Ok(held),
            _ => Err(over()),
        }
    }

    fn go_one_by_one(&mut self, trx: &mut Trx, held: &Held) -> Result<()> {
        debug_assert!(
            matches!(self.stage, Stage::Over),
            "held rows are inserted once: they were taken before"
        );
        self.insert_held(trx, held)?;
        self.stage = Stage::OneByOne;
        Ok(())
    }

    fn decide(&mut self, trx: &mut Trx) -> Result<()> {
        debug_assert!(!self.taken, "the choice between a load and single rows is made once");
        let held = self.take_held()?;
        self.taken = self.loader.take_empty_table(trx, &self.table)?;
        if !self.taken {
            return self.go_one_by_one(trx, &held);
        }
        debug_assert!(
            !self.table.layout().has_wide(),
            "a table with a wide tree is not loaded past the pool"
        );
        let mut load = self.loader.begin_load_by(trx, &self.table)?;
        let refused = &mut self.refused;
        held.each(&mut |pk, row, entries| {
            let added = load.add_by(Some(trx), pk, row, entries);
            added.inspect_err(|e| *refused = refused_by(e, pk, row))
        })?;
        self.stage = Stage::Loading(Box::new(load));
        Ok(())
    }

    fn insert_held(&mut self, trx: &mut Trx, held: &Held) -> Result<()> {
        debug_assert!(!self.taken, "rows are inserted singly where others may insert, too");
        let (rows, table, refused) = (&self.loader.rows, &self.table, &mut self.refused);
        held.each(&mut |pk, row, entries| {
            let inserted = rows.insert(trx, table, &NewRow::new(pk, row, entries), false);
            inserted.inspect_err(|e| *refused = refused_by(e, pk, row))
        })
    }

    /// All rows have come. On return they are in the table, and other transactions may insert
    /// again.
    pub fn finish(&mut self, trx: &mut Trx) -> Result<()> {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Held(held) => self.insert_held(trx, &held)?,
            Stage::OneByOne => {}
            Stage::Loading(mut load) => {
                debug_assert!(self.taken, "a load is linked while no other transaction can insert");
                let done = load.finish_by(trx);
                if let Err(Error::Duplicate { pk, .. }) = &done {
                    self.refused = Some((pk.clone(), load.duplicate_row().to_vec()));
                }
                done?;
            }
            Stage::Over => return Err(over()),
        }
        self.release(trx);
        Ok(())
    }

    fn release(&mut self, trx: &mut Trx) {
        if std::mem::take(&mut self.taken) {
            self.loader.let_others_insert(trx, &self.table);
        }
    }

    /// Clustered key and row that a `Duplicate` is about, if that is not the row given last.
    pub fn refused(&self) -> Option<(&[u8], &[u8])> {
        self.refused.as_ref().map(|(pk, row)| (&pk[..], &row[..]))
    }

    /// Aborts an unfinished load. The statement's rollback removes what was written.
    pub fn end(mut self, trx: &mut Trx) {
        self.stage = Stage::Over;
        self.release(trx);
    }
}

fn refused_by(e: &Error, pk: &[u8], row: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    matches!(e, Error::Duplicate { .. }).then(|| (pk.to_vec(), row.to_vec()))
}
