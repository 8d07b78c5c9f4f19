//! Unique values that need no look at their leaf (`docs/decisions/2026-11-21-unique-filter.md`).
//!
//! The leaf of a new value is not in the pool; the pool has its *imprint*, taken as the leaf left; nothing is pending for the value: then the
//! value is in no entry of the index, and the entry is appended unseen. Whoever asks holds the mutex that every inserter of this value
//! holds from the check to the put, so from the first question on an entry of it may move or go, but none can come.
//!
//! **U1** First what is pending, then the leaf. A merge brings the leaf into the pool, which ends its imprint, before it takes an entry out of
//! the delta tree: so an entry that is pending no more is found by the second question, or the leaf cannot be told about.
//! **U2** The leaf is asked about under its parent's S latch: it is the one that owns the value, and all keys that begin with it.
//!
//! What is pending is known by value (`values.rs`) where all clustered keys of the table have one length, and so a key tells where its value
//! ends. Where they vary every value is looked for.
//!
//! Latches: those of a descent to the parent; locks: `indexes`, of no rank, under which nothing is taken. Called by `table::row::secondary`.
use super::delta::Delta;
use super::values::hash_of;
use super::{Index, Op, DELTA_BIT};
use crate::base::bytes::behind_prefix;
use crate::base::{planted, FileId, IndexId, Mutant, Result};
use crate::btree::leaf_entries;
use crate::pool::page::{page_id, page_index};
use crate::pool::{Imprinter, Pool, Presence};
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::atomic::Ordering;

/// An index that lives in memory is asked about its leaf once in so many new values: whether it still does.
const ASK_IN_MEMORY_EVERY: u32 = 64;

/// The unique indexes of which imprints are wanted, with the lengths of their clustered keys: those that new values come to.
#[derive(Default)]
pub(super) struct Uniques {
    indexes: RwLock<HashMap<(FileId, IndexId), usize>>,
}

impl Uniques {
    fn add(&self, index: &Index, pk_len: usize) {
        self.indexes.write().insert((index.tree.file, index.id), pk_len);
    }
    /// The index that this delta tree belonged to is no more.
    pub fn remove(&self, delta: &Delta) {
        let id = delta.tree.index & !DELTA_BIT;
        self.indexes.write().remove(&(delta.tree.file, id));
    }
}

impl Imprinter for Uniques {
    fn imprint(&self, page: &[u8], add: &mut dyn FnMut(u32)) -> bool {
        let id = (page_id(page).file, page_index(page));
        let Some(pk_len) = self.indexes.read().get(&id).copied() else {
            return false;
        };
        leaf_entries(page, &mut |key, _| {
            let value_len = key.len().checked_sub(pk_len);
            value_len.map(|len| add(hash_of(&key[..len]))).is_some()
        })
    }
}

/// True: no entry of the unique index has the first `value_len` bytes of `key` for its value, and none will get it while the caller holds the
/// mutex of this value: `put_unseen` may follow. False: look for it. Called with no latch held.
pub fn lacks_value(pool: &Pool, index: &Index, key: &[u8], value_len: usize) -> Result<bool> {
    let Some(delta) = index.delta.as_deref() else {
        return Ok(false);
    };
    let Some(pk_len) = delta.values.pk_len() else {
        return Ok(false);
    };
    if !delta.takes(&Op::Put { key, value: &[] }) || !delta.is_its_turn(key) {
        return Ok(false);
    }
    if !delta.values.known.swap(true, Ordering::Relaxed) {
        delta.buffer().uniques.add(index, pk_len);
    }
    let value = &key[..value_len];
    let end = behind_prefix(value);
    if delta.may_have_value(value) {
        return Ok(false);
    }
    let asked = index.tree.ask_leaf(pool, value, end.as_deref(), |leaf| {
        let presence = pool.presence(leaf);
        delta.note(presence);
        (
            presence,
            presence == Presence::Absent && pool.lacks(leaf, hash_of(value)),
        )
    })?;
    if let Some((Presence::Absent, false)) = asked {
        pool.counters().change_buffer_unique_checks_read.inc();
    }
    Ok(asked.is_some_and(|(_, lacks)| lacks))
}

/// Puts an entry of a value that `lacks_value` told about. False: it does not fit the delta tree; nothing was done.
pub fn put_unseen(pool: &Pool, index: &Index, key: &[u8], value: &[u8]) -> Result<bool> {
    let op = Op::Put { key, value };
    match index.delta.as_deref() {
        Some(delta) if delta.fits(&op) => {
            super::apply::buffer(pool, index, delta, op)?;
            pool.counters().change_buffer_unique_checks_spared.inc();
            Ok(true)
        }
        _ => Ok(false),
    }
}

impl Delta {
    /// The index is unique; 0 = the clustered keys vary in length. Before its first use.
    pub fn set_unique(&self, pk_fixed_len: usize) {
        assert!(
            self.values.is_set() || self.is_empty() || !self.is_known(),
            "what is pending was not added to the filters of values"
        );
        self.values.set(pk_fixed_len);
    }
    fn is_its_turn(&self, key: &[u8]) -> bool {
        !self.lives_in_memory()
            || self.buffer().forced(key)
            || self.values.asked.fetch_add(1, Ordering::Relaxed) % ASK_IN_MEMORY_EVERY == 0
    }
    /// False: nothing is pending for the value.
    fn may_have_value(&self, value: &[u8]) -> bool {
        if self.is_empty() || planted(Mutant::PendingValueOverlooked) {
            return false;
        }
        !self.is_known() || self.values.may_have(value, &self.partitions())
    }
}
