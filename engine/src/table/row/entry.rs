//! A row's entries in its secondary indexes: types and checks that writers and readers of entries
//! share.
//!
//! Takes no latch but in [`submit_if_there`]. Called by every room above.
use crate::base::{Error, Result};
use crate::change::{self, Op};
use crate::index::secondary;
use crate::index::Index;
use crate::pool::Pool;
use crate::table::catalog::layout::{Layout, Secondary};
use crate::txn::Trx;
use std::sync::atomic::Ordering;

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

/// The secondary index of an ordinal given by the user.
pub(in crate::table) fn secondary(layout: &Layout, ordinal: u32) -> Result<&Secondary> {
    layout
        .secondary
        .get(ordinal as usize)
        .ok_or_else(|| Error::Invalid(format!("table {} has no secondary index {ordinal}", layout.id)))
}

/// Refuses keys that are too long or not index key + clustered key, before anything is changed.
pub(in crate::table) fn check_key(layout: &Layout, index: u32, key: &[u8], pk: &[u8]) -> Result<()> {
    let secondary = secondary(layout, index)?;
    check_key_len(&secondary.index, key, pk.len())?;
    if !key.ends_with(pk) {
        return Err(Error::Invalid(
            "an index entry that does not end with its clustered key".into(),
        ));
    }
    Ok(())
}

pub(in crate::table) fn decode_entry<'a>(layout: &Layout, value: &'a [u8]) -> Result<secondary::Entry<'a>> {
    secondary::decode(value, layout.pk_fixed_len)
        .ok_or_else(|| Error::corrupt(format!("an index entry of table {} cannot be decoded", layout.id)))
}

/// Rollback and purge: one blind operation on a secondary index that may have been dropped since.
pub(in crate::table) fn submit_if_there(pool: &Pool, layout: &Layout, index: u32, op: Op<'_>) -> Result<()> {
    match layout.secondary_by_id(index) {
        Some(s) if !s.quarantined => change::submit(pool, &s.index, op).map(|_| ()),
        _ => Ok(()),
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
