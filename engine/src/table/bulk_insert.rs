//! INSERT ... SELECT and LOAD DATA into an empty table: rows go past pool, undo and log when they are many.
//!
//! Nobody says how many will come. So rows are held first; with so many bytes of them that a load pays (`StoreConfig::bulk_load_min`)
//! it is decided: into a load if the table is empty still (`bulk_link.rs`), else they are inserted one by one, as are those behind
//! them. A statement that ends before costs what it always did. Nothing is locked and nothing is written before the decision.
//!
//! So a row that is refused may be one that came long before. [`BulkInsert::refused`] says which.
use super::def::Table;
use super::load::{over, TableLoad};
use super::store::{Entry, Store};
use crate::base::bytes::{push_bytes, push_varint, take_bytes, take_varint};
use crate::base::{Error, Result};
use crate::txn::Trx;
use std::sync::Arc;

/// Rows of one statement into one table. Ends in [`BulkInsert::end`]; after an error nothing else is left, and the statement is
/// rolled back behind it.
pub struct BulkInsert {
    store: Arc<Store>,
    table: Arc<Table>,
    stage: Stage,
    /// Others are kept from inserting.
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

/// Rows with their entries, one behind the other.
#[derive(Default)]
struct Held(Vec<u8>);

impl Held {
    fn push(&mut self, pk: &[u8], row: &[u8], entries: &[Entry<'_>]) {
        push_bytes(&mut self.0, pk);
        push_bytes(&mut self.0, row);
        push_varint(&mut self.0, entries.len() as u64);
        for e in entries {
            push_varint(&mut self.0, e.index as u64);
            push_varint(&mut self.0, (e.user_key_len as u64) << 1 | e.unique_check as u64);
            push_bytes(&mut self.0, e.key);
            push_bytes(&mut self.0, e.value);
        }
    }
    /// In the order in which they came.
    fn each(&self, body: EachRow<'_>) -> Result<()> {
        let (bytes, mut at) = (&self.0[..], 0);
        let mut entries = Vec::new();
        while at < bytes.len() {
            let (pk, row) = take_row(bytes, &mut at, &mut entries).expect("written by `push`");
            body(pk, row, &entries)?;
        }
        Ok(())
    }
}

fn take_row<'a>(b: &'a [u8], at: &mut usize, entries: &mut Vec<Entry<'a>>) -> Option<(&'a [u8], &'a [u8])> {
    let (pk, row) = (take_bytes(b, at)?, take_bytes(b, at)?);
    entries.clear();
    for _ in 0..take_varint(b, at)? {
        let index = take_varint(b, at)? as u32;
        let len_and_check = take_varint(b, at)?;
        entries.push(Entry {
            index,
            user_key_len: (len_and_check >> 1) as u32,
            unique_check: len_and_check & 1 != 0,
            key: take_bytes(b, at)?,
            value: take_bytes(b, at)?,
        });
    }
    Some((pk, row))
}

impl Store {
    /// None: the table is not empty, and rows are to be inserted one by one. The statement does not read the table while it fills it.
    pub fn begin_bulk_insert(self: &Arc<Store>, table: &Arc<Table>) -> Result<Option<BulkInsert>> {
        if self.bulk_load_min == u64::MAX || !self.is_bare(table.layout())? {
            return Ok(None);
        }
        Ok(Some(BulkInsert {
            store: self.clone(),
            table: table.clone(),
            stage: Stage::Held(Held::default()),
            taken: false,
            refused: None,
        }))
    }
}

impl BulkInsert {
    /// As [`Store::insert`]; the error may be that of an earlier row.
    pub fn add(&mut self, trx: &mut Trx, pk: &[u8], row: &[u8], entries: &[Entry<'_>]) -> Result<()> {
        match &mut self.stage {
            Stage::Held(held) => {
                held.push(pk, row, entries);
                if (held.0.len() as u64) < self.store.bulk_load_min {
                    return Ok(());
                }
                self.decide(trx)
            }
            Stage::OneByOne => self.store.insert(trx, &self.table, pk, row, entries, false),
            Stage::Loading(load) => {
                let added = load.add_by(Some(trx), pk, row, entries);
                if added.is_err() {
                    self.stage = Stage::Over;
                }
                added
            }
            Stage::Over => Err(over()),
        }
    }

    fn decide(&mut self, trx: &mut Trx) -> Result<()> {
        let Stage::Held(held) = std::mem::replace(&mut self.stage, Stage::Over) else {
            return Err(over());
        };
        self.taken = self.store.take_empty_table(trx, &self.table)?;
        if !self.taken {
            self.insert_held(trx, &held)?;
            self.stage = Stage::OneByOne;
            return Ok(());
        }
        let mut load = self.store.begin_load_by(trx, &self.table)?;
        let refused = &mut self.refused;
        held.each(&mut |pk, row, entries| {
            let added = load.add_by(Some(trx), pk, row, entries);
            added.inspect_err(|e| *refused = refused_by(e, pk, row))
        })?;
        self.stage = Stage::Loading(Box::new(load));
        Ok(())
    }

    fn insert_held(&mut self, trx: &mut Trx, held: &Held) -> Result<()> {
        let (store, table, refused) = (&self.store, &self.table, &mut self.refused);
        held.each(&mut |pk, row, entries| {
            let inserted = store.insert(trx, table, pk, row, entries, false);
            inserted.inspect_err(|e| *refused = refused_by(e, pk, row))
        })
    }

    /// All rows have come. When it is done they are in the table, and others insert again.
    pub fn finish(&mut self, trx: &mut Trx) -> Result<()> {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Held(held) => self.insert_held(trx, &held)?,
            Stage::OneByOne => {}
            Stage::Loading(mut load) => {
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
            self.store.let_others_insert(trx, &self.table);
        }
    }

    /// Clustered key and row that a `Duplicate` is about, if that is not the row given last.
    pub fn refused(&self) -> Option<(&[u8], &[u8])> {
        self.refused.as_ref().map(|(pk, row)| (&pk[..], &row[..]))
    }

    /// Gives up what is not finished; what has been written goes with the statement's rollback.
    pub fn end(mut self, trx: &mut Trx) {
        self.stage = Stage::Over;
        self.release(trx);
    }
}

fn refused_by(e: &Error, pk: &[u8], row: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    matches!(e, Error::Duplicate { .. }).then(|| (pk.to_vec(), row.to_vec()))
}
