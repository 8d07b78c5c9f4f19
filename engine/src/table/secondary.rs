//! A row's entries in its secondary indexes: put, mark, and the check of unique ones.
//!
//! Changes are blind operations given to `change`. Only a unique index is read before a put: the check and the put are one step
//! under a guard mutex (by hash of index and value), which is never held while waiting for a row lock. Rules of stamps:
//! `docs/decisions/2026-11-21-secondary-entry-stamps.md`.
use super::def::{Layout, Secondary};
use super::row_lock::Locked;
use super::store::Store;
use super::undo_format::{Record, What};
use crate::base::{moment, planted, Error, Moment, Mutant, Result, TrxId};
use crate::btree::{ENTRY_MAX, KEY_MAX};
use crate::change::entry::{self, decode};
use crate::change::{self, Op};
use crate::index::{Index, RowHeader};
use crate::txn::{Granted, LockMode, LockPolicy, Trx};
use std::sync::atomic::Ordering;

/// Bytes of an entry's value in front of the raw part, at most.
const ENTRY_HEAD_MAX: usize = 7 + 3;

/// Versions of its own that a transaction looks back over, before it rather reads the index.
const OWN_VERSIONS_MAX: usize = 8;

/// Secondary ordinal, and index key + clustered key.
pub(super) type EntryKey<'a> = (u32, &'a [u8]);

/// A new entry of a row.
#[derive(Clone, Copy)]
pub(super) struct NewEntry<'a> {
    /// Secondary ordinal.
    pub index: u32,
    pub user_key_len: usize,
    pub unique_check: bool,
    pub key: &'a [u8],
    pub raw: &'a [u8],
}

/// An entry of another row with the same unique value.
struct Rival {
    pk: Vec<u8>,
    stamp: TrxId,
    marked: bool,
    own: bool,
}

impl Store {
    /// The secondary index of an ordinal given by the user.
    pub(super) fn secondary<'l>(&self, layout: &'l Layout, ordinal: u32) -> Result<&'l Secondary> {
        layout
            .secondary
            .get(ordinal as usize)
            .ok_or_else(|| Error::Unsupported(format!("table {} has no secondary index {ordinal}", layout.id)))
    }

    /// Refuses entries that are too long or not index key + clustered key, before anything is changed.
    pub(super) fn check_entry(&self, layout: &Layout, index: u32, key: &[u8], raw: &[u8], pk: &[u8]) -> Result<()> {
        self.secondary(layout, index)?;
        if key.len() > KEY_MAX || key.len() + raw.len() + ENTRY_HEAD_MAX > ENTRY_MAX {
            return Err(Error::TooBig(format!("entry of {} bytes", key.len() + raw.len())));
        }
        if !key.ends_with(pk) {
            return Err(Error::Unsupported(
                "an index entry that does not end with its clustered key".into(),
            ));
        }
        Ok(())
    }

    /// For each key: may this transaction have left an entry there marked? `own`: the header of the row's newest version, its own. Told by
    /// the undo records of its versions of the row, which are still in the pool, where the index's leaf may have to be read.
    pub(super) fn left_marked(
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
            let undo = self.trx_sys.read_undo(version.undo)?;
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
    pub(super) fn raw_of(
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

    pub(super) fn decode_entry<'a>(&self, layout: &Layout, value: &'a [u8]) -> Result<entry::Entry<'a>> {
        decode(value, layout.pk_fixed_len)
            .ok_or_else(|| Error::corrupt(format!("an index entry of table {} cannot be decoded", layout.id)))
    }

    pub(super) fn mark_entry(&self, trx: &Trx, layout: &Layout, index: u32, key: &[u8]) -> Result<()> {
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
    pub(super) fn put_entry(
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
        entry::encode(value, trx.id(), pk_len, layout.pk_fixed_len, new.raw);
        if secondary.index.unique && new.unique_check && !planted(Mutant::UniqueCheckSkipped) {
            return self.put_unique(trx, layout, secondary, new, value, mode);
        }
        self.submit_counted(trx, &secondary.index, Op::Put { key: new.key, value })
    }

    fn put_unique(
        &self,
        trx: &mut Trx,
        layout: &Layout,
        secondary: &Secondary,
        new: &NewEntry<'_>,
        value: &[u8],
        mode: LockMode,
    ) -> Result<()> {
        let user_key = &new.key[..new.user_key_len];
        let guard = &self.unique_guards[guard_of(secondary.index.id, user_key, self.unique_guards.len())];
        let mut locked: Option<(Vec<u8>, Granted)> = None;
        // Entries (clustered key, stamp) that their rows say are in nobody's way.
        let mut ignored: Vec<(Vec<u8>, TrxId)> = Vec::new();
        let mut first = true;
        loop {
            let rival = {
                let _guard = guard.lock();
                if std::mem::take(&mut first) && self.put_unseen(trx, layout, &secondary.index, new, value)? {
                    return Ok(());
                }
                let found = self.find_rival(trx, layout, secondary, new, &ignored)?;
                match found {
                    None => {
                        let put = Op::Put { key: new.key, value };
                        count(trx, change::submit_checked(&self.pool, &secondary.index, put)?);
                        None
                    }
                    rival => rival,
                }
            };
            let held = locked.take();
            let Some(rival) = rival else {
                if let Some((pk, granted)) = held {
                    self.unlock_if_new(trx, layout, &pk, granted);
                }
                return Ok(());
            };
            let duplicate = || Error::Duplicate {
                index: new.index + 1,
                pk: rival.pk.clone(),
            };
            if rival.own && !rival.marked {
                return Err(duplicate());
            }
            if let Some((pk, granted)) = held {
                if pk == rival.pk && !rival.marked {
                    // Still there after we had its row's lock.
                    return Err(duplicate());
                }
                self.unlock_if_new(trx, layout, &pk, granted);
            }
            match self.lock_row(trx, layout, &rival.pk, mode, LockPolicy::Wait, &mut |_| ())? {
                Locked::Row(header, granted) => {
                    if rival.marked && header.trx != rival.stamp {
                        ignored.push((rival.pk.clone(), rival.stamp));
                    }
                    locked = Some((rival.pk, granted));
                }
                // Whoever stamped the entry has ended or undone it: what is left of it is in nobody's way.
                Locked::Gone(_) => ignored.push((rival.pk, rival.stamp)),
            }
        }
    }

    /// True: the index was known to lack the value, and the entry is put without a look at its leaf. The caller holds the value's guard.
    fn put_unseen(&self, trx: &Trx, layout: &Layout, index: &Index, new: &NewEntry<'_>, value: &[u8]) -> Result<bool> {
        if !change::lacks_value(&self.pool, index, new.key, new.user_key_len)? {
            return Ok(false);
        }
        // Of half the keys only: a look brings the leaf in, and what is put after that is not unseen any more.
        if self.verify.load(Ordering::Relaxed) && crc32c::crc32c(new.key) & 1 == 0 {
            let user_key = &new.key[..new.user_key_len];
            change::visit_prefix(&self.pool, index, user_key, &mut |key, value| {
                let its_value_len = key.len() - self.decode_entry(layout, value)?.pk_len;
                assert_ne!(
                    its_value_len,
                    user_key.len(),
                    "U1: a value that is there was said to be lacking"
                );
                Ok(true)
            })?;
        }
        let put = change::put_unseen(&self.pool, index, new.key, value)?;
        count(trx, put);
        Ok(put)
    }

    /// The first entry with the same unique value that is, or may become, in the way: unmarked, or stamped by another active
    /// transaction (whose end may bring it back).
    fn find_rival(
        &self,
        trx: &Trx,
        layout: &Layout,
        secondary: &Secondary,
        new: &NewEntry<'_>,
        ignored: &[(Vec<u8>, TrxId)],
    ) -> Result<Option<Rival>> {
        let user_key = &new.key[..new.user_key_len];
        let mut ended: Vec<TrxId> = Vec::new();
        loop {
            let oldest_active = self.trx_sys.oldest_active();
            let (mut rival, mut doubtful) = (None, Vec::new());
            change::visit_value(&self.pool, &secondary.index, user_key, &mut |key, value| {
                let found = self.decode_entry(layout, value)?;
                if key == new.key || key.len() != user_key.len() + found.pk_len {
                    return Ok(true);
                }
                moment(Moment::RivalMet);
                let own = found.stamp == trx.id();
                let may_come_back = !own && self.trx_sys.is_active(found.stamp);
                if found.marked && !may_come_back {
                    // It ended by now; but what is pending was collected before, and a rollback in between took the mark back.
                    if !own && found.stamp >= oldest_active && !ended.contains(&found.stamp) {
                        doubtful.push(found.stamp);
                    }
                    return Ok(true);
                }
                let pk = &key[user_key.len()..];
                if ignored.iter().any(|(p, stamp)| p == pk && *stamp == found.stamp) {
                    return Ok(true);
                }
                rival = Some(Rival {
                    pk: pk.to_vec(),
                    stamp: found.stamp,
                    marked: found.marked,
                    own,
                });
                Ok(false)
            })?;
            if rival.is_some() || doubtful.is_empty() {
                return Ok(rival);
            }
            ended.append(&mut doubtful);
        }
    }
}

fn count(trx: &Trx, buffered: bool) {
    if buffered {
        trx.shared.buffered_changes.fetch_add(1, Ordering::Relaxed);
    }
}

fn guard_of(index: u32, user_key: &[u8], guards: usize) -> usize {
    crc32c::crc32c_append(index, user_key) as usize % guards
}
