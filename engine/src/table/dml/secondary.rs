//! A row's entries in its secondary indexes: put and mark.
//!
//! Changes are blind operations given to `change`. Only a unique index is read before a put (`unique.rs`). Rules of stamps:
//! `docs/decisions/2026-11-21-secondary-entry-stamps.md`.
use crate::table::catalog::table::{Layout, Secondary};

use crate::base::{planted, Error, Mutant, Result, TrxId};
use crate::change::{self, Op};
use crate::index::secondary::{self, decode};
use crate::index::{Index, RowHeader};
use crate::table::store::Store;
use crate::table::undo::record::{Record, What};
use crate::txn::{LockMode, Trx};
use std::sync::atomic::Ordering;

/// Versions of its own that a transaction looks back over, before it rather reads the index.
const OWN_VERSIONS_MAX: usize = 8;

/// Secondary ordinal, and index key + clustered key.
pub(in crate::table) type EntryKey<'a> = (u32, &'a [u8]);

/// A new entry of a row.
#[derive(Clone, Copy)]
pub(in crate::table) struct NewEntry<'a> {
    /// Secondary ordinal.
    pub index: u32,
    pub user_key_len: usize,
    /// If the index is unique.
    pub unique_check: bool,
    pub key: &'a [u8],
    pub raw: &'a [u8],
}

impl Store {
    /// The secondary index of an ordinal given by the user.
    pub(in crate::table) fn secondary<'l>(&self, layout: &'l Layout, ordinal: u32) -> Result<&'l Secondary> {
        layout
            .secondary
            .get(ordinal as usize)
            .ok_or_else(|| Error::Invalid(format!("table {} has no secondary index {ordinal}", layout.id)))
    }

    /// Refuses keys that are too long or not index key + clustered key, before anything is changed.
    pub(in crate::table) fn check_key(&self, layout: &Layout, index: u32, key: &[u8], pk: &[u8]) -> Result<()> {
        let secondary = self.secondary(layout, index)?;
        check_key_len(&secondary.index, key, pk.len())?;
        if !key.ends_with(pk) {
            return Err(Error::Invalid(
                "an index entry that does not end with its clustered key".into(),
            ));
        }
        Ok(())
    }

    /// For each key: may this transaction have left an entry there marked? `own`: the header of the row's newest version, its own. Told by
    /// the undo records of its versions of the row, which are still in the pool, where the index's leaf may have to be read.
    pub(in crate::table) fn left_marked(
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
                    let index = self.secondary(layout, *ordinal)?.index.id;
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

    /// The raw part of the entry `key`, if this transaction left it there marked (`own`), or whatever its state (None).
    pub(in crate::table) fn raw_of(
        &self,
        layout: &Layout,
        index: u32,
        key: &[u8],
        own: Option<TrxId>,
    ) -> Result<Option<Vec<u8>>> {
        let Secondary { index, aside, .. } = self.secondary(layout, index)?;
        if *aside {
            return Ok(None);
        }
        let mut value = Vec::new();
        if !change::get(&self.pool, index, key, &mut value)? {
            return Ok(None);
        }
        let found = self.decode_entry(layout, &value)?;
        let wanted = own.is_none_or(|id| found.marked && found.stamp == id);
        Ok(wanted.then(|| found.raw.to_vec()))
    }

    pub(in crate::table) fn decode_entry<'a>(&self, layout: &Layout, value: &'a [u8]) -> Result<secondary::Entry<'a>> {
        decode(value, layout.pk_fixed_len)
            .ok_or_else(|| Error::corrupt(format!("an index entry of table {} cannot be decoded", layout.id)))
    }

    pub(in crate::table) fn mark_entry(&self, trx: &Trx, layout: &Layout, index: u32, key: &[u8]) -> Result<()> {
        let Secondary { index, aside, .. } = self.secondary(layout, index)?;
        if *aside {
            return Ok(());
        }
        self.submit_counted(trx, index, Op::Mark { key, stamp: trx.id() })
    }

    fn submit_counted(&self, trx: &Trx, index: &Index, op: Op<'_>) -> Result<()> {
        count(trx, change::submit(&self.pool, index, op)?);
        Ok(())
    }

    /// Puts a new entry, checked if its index is unique. `mode`: how the row in the way is locked before `Duplicate`.
    pub(in crate::table) fn put_entry(
        &self,
        trx: &mut Trx,
        layout: &Layout,
        new: &NewEntry<'_>,
        pk_len: usize,
        mode: LockMode,
        value: &mut Vec<u8>,
    ) -> Result<()> {
        let secondary = self.secondary(layout, new.index)?;
        match secondary {
            // Nobody can tell whether the value is there already.
            Secondary { index, aside: true, .. } if index.unique && new.unique_check => {
                return Err(self.is_aside(layout.id, index));
            }
            Secondary { aside: true, .. } => return Ok(()),
            _ => {}
        }
        let raw = secondary::fitting(secondary.index.tree.entry_max(), new.key.len(), new.raw);
        secondary::encode(value, trx.id(), pk_len, layout.pk_fixed_len, raw);
        if secondary.index.unique && new.unique_check && !planted(Mutant::UniqueCheckSkipped) {
            return self.put_unique(trx, layout, secondary, new, value, mode);
        }
        self.submit_counted(trx, &secondary.index, Op::Put { key: new.key, value })
    }
}

/// Refuses a key that is too long; `pk_len` bytes at its end are the clustered key (0: it is one
/// itself).
pub(in crate::table) fn check_key_len(index: &Index, key: &[u8], pk_len: usize) -> Result<()> {
    let most = index.tree.key_max();
    if key.len() <= most {
        return Ok(());
    }
    let (name, len) = (&index.name, key.len());
    let parts = match pk_len {
        0 => String::new(),
        _ => format!(" ({} of the index, {pk_len} of the clustered key)", len - pk_len),
    };
    Err(Error::TooBig(format!(
        "index {name}: a key of {len} bytes{parts}; {most} is the most: shorten the value, or index fewer bytes of it"
    )))
}

pub(in crate::table) fn count(trx: &Trx, buffered: bool) {
    if buffered {
        trx.shared.buffered_changes.fetch_add(1, Ordering::Relaxed);
    }
}
