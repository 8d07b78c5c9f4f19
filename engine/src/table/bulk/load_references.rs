//! The check for the parents of loaded rows, at the end of a load. Each different key is checked
//! once, in the order of the child's index.
//!
//! Foreign keys that the replaced table already has are not checked. A foreign key to the table
//! itself refers to the loaded rows, also while an old table still has the name.
//!
//! Parents are locked SHARED to the end of the transaction. No latch is held meanwhile. Called by
//! `table_load`, before the table is in use. Rows of the past are neither checked nor parents.
use crate::base::sync::holds_no_latch;
use crate::base::{Error, Result};
use crate::change;
use crate::index::Index;
use crate::table::bulk::table_load::TableLoad;
use crate::table::catalog::foreign_binding::bound;
use crate::table::catalog::foreign_key::{foreign_prefix, ForeignKey};
use crate::table::catalog::layout::Layout;
use crate::table::row::entry::decode_entry;
use crate::table::row::parent_check::{parent_key, Parent};
use crate::table::row::past::value_is_past;
use crate::txn::Trx;
use std::sync::Arc;

/// Different keys that are read at a time.
const BATCH: usize = 256;

impl TableLoad {
    /// All rows are in their trees.
    pub(in crate::table) fn check_references(&self, trx: &mut Trx, layout: &Layout) -> Result<()> {
        debug_assert!(
            holds_no_latch(),
            "I5: the parents of loaded rows are locked with no latch held"
        );
        if !trx.foreign_key_checks {
            return Ok(());
        }
        // Again, if a foreign key was bound anew meanwhile.
        loop {
            let Some(keys) = self.table.foreign_keys() else {
                return Ok(());
            };
            for key in keys.references.iter().filter(|key| !key.is_carried_over) {
                self.check_key(trx, layout, key)?;
            }
            if self.table.foreign_keys().is_some_and(|now| Arc::ptr_eq(&keys, &now)) {
                return Ok(());
            }
        }
    }

    fn check_key(&self, trx: &mut Trx, layout: &Layout, key: &ForeignKey) -> Result<()> {
        let name = self.table.name();
        let catalog = &self.loader.tables.catalog;
        let is_to_itself =
            key.spec.parent == name || catalog.foreign.read().replaced_by(&name) == Some(&key.spec.parent[..]);
        let itself = match is_to_itself {
            true => Some(bound(layout, key.ordinal as usize, &key.spec, Some(layout))),
            false => None,
        };
        let key = itself.as_ref().unwrap_or(key);
        let Some(index) = index_of(layout, key.child.index) else {
            return Err(Error::NoSuchTable(format!("an index of table {}", layout.id)));
        };
        let mut from = Vec::new();
        loop {
            if trx.shared.waiter.killed() {
                return Err(Error::Interrupted);
            }
            let children = self.next_keys(layout, index, key, &from)?;
            let Some((last, _)) = children.last() else {
                return Ok(());
            };
            from = [&last[..], &[0]].concat();
            for (child, pk_len) in &children {
                if self.is_past(layout, &child[child.len() - pk_len..])? {
                    continue;
                }
                if key.lacks_index() {
                    return Err(Error::NoReferencedRow(key.fault(name)));
                }
                let parent = match parent_key(key, child)? {
                    None => continue,
                    Some(parent) => parent,
                };
                let found = match (&key.parent, parent) {
                    (Some(end), Some(parent)) if is_to_itself => self.has(layout, end.index, &parent)?,
                    (Some(end), Some(parent)) => self.loader.rows.parents.lock_parent(trx, end, &parent, None)?,
                    _ => Parent::Missing,
                };
                match found {
                    Parent::Locked => {}
                    Parent::Missing => return Err(Error::NoReferencedRow(key.fault(name))),
                    // The caller reads the bound foreign keys again.
                    Parent::Unbound => return Ok(()),
                }
            }
        }
    }

    /// Entry keys from `from` on, and how long the clustered key in each is. They are one for each
    /// different key of the foreign key, and the next call may return the last one again. If rows
    /// may be of the past, they are all.
    fn next_keys(&self, layout: &Layout, index: &Index, key: &ForeignKey, from: &[u8]) -> Result<Vec<EntryAndPk>> {
        let mut found: Vec<EntryAndPk> = Vec::new();
        let shape = &key.child.shape;
        change::visit_prefix_from(&self.loader.pool, index, &[], from, &mut |entry, value| {
            let pk_len = pk_len_of(layout, index, entry, value)?;
            let is_same = |(last, _): &EntryAndPk| foreign_prefix(shape, last) == foreign_prefix(shape, entry);
            let same = !layout.marks_past && found.last().is_some_and(is_same);
            match found.last_mut().filter(|_| same) {
                // The next read begins after it.
                Some(last) => *last = (entry.to_vec(), pk_len),
                None => found.push((entry.to_vec(), pk_len)),
            }
            Ok(found.len() < BATCH)
        })?;
        debug_assert!(
            found.is_sorted_by(|before, after| before < after),
            "the keys come in order, each once"
        );
        debug_assert!(
            found.first().is_none_or(|(first, _)| first[..] >= *from),
            "a read goes on after the keys of the read before"
        );
        Ok(found)
    }

    fn has(&self, layout: &Layout, index: u32, parent: &[u8]) -> Result<Parent> {
        let Some(index) = index_of(layout, index) else {
            return Ok(Parent::Missing);
        };
        let mut from = parent.to_vec();
        loop {
            let mut found: Vec<EntryAndPk> = Vec::new();
            let most = if layout.marks_past { BATCH } else { 1 };
            change::visit_prefix_from(&self.loader.pool, index, parent, &from, &mut |entry, value| {
                found.push((entry.to_vec(), pk_len_of(layout, index, entry, value)?));
                Ok(found.len() < most)
            })?;
            let Some((last, _)) = found.last() else {
                return Ok(Parent::Missing);
            };
            from = [&last[..], &[0]].concat();
            for (entry, pk_len) in &found {
                if !self.is_past(layout, &entry[entry.len() - pk_len..])? {
                    return Ok(Parent::Locked);
                }
            }
        }
    }

    fn is_past(&self, layout: &Layout, pk: &[u8]) -> Result<bool> {
        if !layout.marks_past {
            return Ok(false);
        }
        debug_assert!(holds_no_latch(), "the row is read without the latch of its entry");
        let row = layout.clustered.tree.get(&self.loader.pool, pk)?;
        Ok(row.is_some_and(|leaf| value_is_past(layout, leaf.value())))
    }
}

/// The key of an entry, and the length of the clustered key at its end.
type EntryAndPk = (Vec<u8>, usize);

fn pk_len_of(layout: &Layout, index: &Index, entry: &[u8], value: &[u8]) -> Result<usize> {
    match index.id == layout.clustered.id {
        true => Ok(entry.len()),
        false => Ok(decode_entry(layout, value)?.pk_len),
    }
}

fn index_of(layout: &Layout, id: u32) -> Option<&Index> {
    let mut all = (0..=layout.secondary.len() as u32).filter_map(|ordinal| layout.index(ordinal));
    all.find(|index| index.id == id)
}
