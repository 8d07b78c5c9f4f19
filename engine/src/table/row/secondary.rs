//! A row's entries in its secondary indexes: put and mark.
//!
//! Changes are blind operations given to `change`. Only a unique index is read before a put
//! (`unique.rs`). Rules of stamps: `docs/decisions/2026-11-21-secondary-entry-stamps.md`. Takes no
//! latch itself. Called by row changes.

use crate::base::{planted, Mutant, Result, TrxId};
use crate::change::{self, Op};
use crate::index::secondary;
use crate::index::{Index, RowHeader};
use crate::pool::Pool;
use crate::table::catalog::index_quarantine::quarantined_error;
use crate::table::catalog::layout::{Layout, Secondary};
use crate::table::row::entry::{count, decode_entry, secondary, EntryKey, NewEntry};
use crate::table::row::undo_record::{Record, What};
use crate::table::row::unique::{UniqueIndexes, UniquePut};
use crate::txn::{LockMode, Trx, TrxSys};
use std::sync::Arc;

/// A transaction looks back over so many of its own versions of a row; with more it reads the
/// index.
const OWN_VERSIONS_MAX: usize = 8;

/// Puts and marks entries.
pub(in crate::table) struct EntryWriter {
    pool: Arc<Pool>,
    trx_sys: Arc<TrxSys>,
    unique: UniqueIndexes,
}

impl EntryWriter {
    pub fn new(pool: Arc<Pool>, trx_sys: Arc<TrxSys>, unique: UniqueIndexes) -> EntryWriter {
        EntryWriter { pool, trx_sys, unique }
    }

    /// For each key: may this transaction have left an entry there marked? `own`: the header of the
    /// row's newest version, made by this transaction. The undo records of its versions say so.
    /// They are still in the pool, while the index's leaf may have to be read.
    pub fn left_marked(
        &self,
        trx: &Trx,
        layout: &Layout,
        pk_len: usize,
        keys: &[EntryKey<'_>],
        own: RowHeader,
    ) -> Result<Vec<bool>> {
        let mut left = vec![false; keys.len()];
        let mut version = own;
        for _ in 0..OWN_VERSIONS_MAX {
            if version.trx != trx.id() || version.undo.is_none() {
                return Ok(left);
            }
            let undo = self.trx_sys.undo.read(version.undo)?;
            let record = Record::decode(&undo.payload)?;
            for touch in record.touches().filter(|touch| touch.old.is_some()) {
                for ((ordinal, key), left) in keys.iter().zip(&mut left) {
                    let index = secondary(layout, *ordinal)?.index.id;
                    *left |= touch.index == index && touch.old == Some(&key[..key.len() - pk_len]);
                }
            }
            version = match record.what {
                What::Update { old, .. } | What::Delete { old, .. } => old,
                What::Insert | What::Chain { .. } | What::Load { .. } => return Ok(left),
            };
        }
        Ok(vec![true; keys.len()])
    }

    /// The raw part of the entry `key`. `own`: only if that transaction left the entry there
    /// marked; None: whatever its state.
    pub fn raw_of(&self, layout: &Layout, index: u32, key: &[u8], own: Option<TrxId>) -> Result<Option<Vec<u8>>> {
        let Secondary { index, quarantined, .. } = secondary(layout, index)?;
        if *quarantined {
            return Ok(None);
        }
        let mut value = Vec::new();
        if !change::get(&self.pool, index, key, &mut value)? {
            return Ok(None);
        }
        let found = decode_entry(layout, &value)?;
        let wanted = own.is_none_or(|id| found.marked && found.stamp == id);
        Ok(wanted.then(|| found.raw.to_vec()))
    }

    pub fn mark_entry(&self, trx: &Trx, layout: &Layout, index: u32, key: &[u8]) -> Result<()> {
        let Secondary { index, quarantined, .. } = secondary(layout, index)?;
        if *quarantined {
            return Ok(());
        }
        debug_assert_ne!(trx.id(), 0, "a mark bears the number of its transaction (I10)");
        self.submit_counted(trx, index, Op::Mark { key, stamp: trx.id() })
    }

    fn submit_counted(&self, trx: &Trx, index: &Index, op: Op<'_>) -> Result<()> {
        count(trx, change::submit(&self.pool, index, op)?);
        Ok(())
    }

    /// Puts a new entry, checked if its index is unique. `mode`: how the row in the way is locked
    /// before `Duplicate`.
    pub fn put_entry(
        &self,
        trx: &mut Trx,
        layout: &Layout,
        new: &NewEntry<'_>,
        pk_len: usize,
        mode: LockMode,
        value: &mut Vec<u8>,
    ) -> Result<()> {
        let secondary = secondary(layout, new.index)?;
        match secondary {
            // Whether the value is there already cannot be found out.
            Secondary {
                index,
                quarantined: true,
                ..
            } if index.unique && new.unique_check => {
                return Err(quarantined_error(layout.id, index));
            }
            Secondary { quarantined: true, .. } => return Ok(()),
            _ => {}
        }
        debug_assert_ne!(trx.id(), 0, "an entry bears the number of its transaction (I10)");
        let raw = secondary::fitting(secondary.index.tree.entry_max(), new.key.len(), new.raw);
        secondary::encode(value, trx.id(), pk_len, layout.pk_fixed_len, raw);
        debug_assert!(
            new.key.len() + value.len() <= secondary.index.tree.entry_max(),
            "an entry fits a leaf of its index"
        );
        if secondary.index.unique && new.unique_check && !planted(Mutant::UniqueCheckSkipped) {
            return self.unique.put(
                trx,
                &UniquePut {
                    layout,
                    secondary,
                    new,
                    value,
                    mode,
                },
            );
        }
        self.submit_counted(trx, &secondary.index, Op::Put { key: new.key, value })
    }
}
