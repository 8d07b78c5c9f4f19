//! Building a secondary index of a table that has rows, and the catalog changes around it: add, drop, rename.
//!
//! From its first page on, a build's tree stands in the catalog as one to be freed; publishing takes it off that list. So a build that
//! a crash or an abort cuts short leaves nothing behind, and the pages of a dropped index are freed in the same way.
//! Entries are stamped 0: views that are older than the index are refused (`Secondary::created`), all others see every entry.
use super::def::{IndexSpec, Layout, Secondary, Table};
use super::sort::Sorter;
use super::store::Store;
use crate::base::{Error, Result};
use crate::btree::build::Builder;
use crate::btree::{Tree, ENTRY_MAX, KEY_MAX};
use crate::change::entry;
use crate::index::Index;
use crate::txn::Trx;
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// Share of each leaf that a build fills: room for the changes to come.
const FILL_PERCENT: u32 = 94;
/// Entries between two looks at `Waiter::killed`.
const KILL_POLL: u64 = 4096;

/// An index being built. Invisible until [`Store::alter_indexes`] publishes it.
pub struct IndexBuild {
    store: Arc<Store>,
    table: Arc<Table>,
    index: Index,
    sorter: Option<Sorter>,
    value: Vec<u8>,
    pk_fixed_len: usize,
    finished: bool,
}

impl Store {
    pub fn begin_build(self: &Arc<Store>, table: &Arc<Table>, spec: &IndexSpec) -> Result<IndexBuild> {
        let mut ddl = self.start_ddl()?;
        let layout = table.layout();
        let mut mtr = self.pool.begin();
        let (_, id) = self.catalog.take_numbers(&mut ddl, &mut mtr, 1)?;
        mtr.commit();
        let mut index = None;
        let mut listed = layout.clone();
        self.record(layout, |mtr| {
            let tree = Tree::create(mtr, layout.id, id)?;
            listed.freeing.push((id, tree.root));
            index = Some(tree);
            self.catalog.put(mtr, &table.name(), &listed)
        })?;
        let tree = match index {
            Some(tree) => tree,
            // A temporary table is in no catalog.
            None => self.new_index(layout.id, id, &spec.name, spec.unique)?.tree,
        };
        if layout.temporary {
            listed.freeing.push((id, tree.root));
        }
        let pk_fixed_len = layout.pk_fixed_len;
        table.building.lock().push(id);
        table.publish(listed);
        Ok(IndexBuild {
            store: self.clone(),
            table: table.clone(),
            index: Index {
                id,
                name: spec.name.clone(),
                tree,
                unique: spec.unique,
            },
            sorter: Some(Sorter::new(
                self.pool.disk().clone(),
                self.sort_buffer_size.load(Ordering::Relaxed),
            )),
            value: Vec::new(),
            pk_fixed_len,
            finished: false,
        })
    }

    /// One atomic, durable change: publishes finished builds, drops the named indexes, sets order and schema.
    pub fn alter_indexes(
        &self,
        table: &Arc<Table>,
        add: &[&IndexBuild],
        drop: &[&str],
        order: &[&str],
        schema: &[u8],
    ) -> Result<()> {
        let ddl = self.start_ddl()?;
        self.with_mark(|created| {
            let layout = table.layout();
            let mut new = layout.clone();
            new.schema = schema.to_vec();
            for name in drop {
                let at = new.secondary.iter().position(|s| s.index.name == *name);
                let at = at.ok_or_else(|| Error::NoSuchTable(format!("index {name}")))?;
                let index = new.secondary.remove(at).index;
                new.freeing.push((index.id, index.tree.root));
            }
            for build in add {
                assert!(build.finished, "only finished builds are published");
                new.freeing.retain(|(id, _)| *id != build.index.id);
                new.secondary.push(Secondary {
                    index: build.index.clone(),
                    created,
                });
            }
            sort_by_names(&mut new, order)?;
            self.record(&new, |mtr| self.catalog.put(mtr, &table.name(), &new))?;
            let _gate = table.gate.write();
            table.publish(new);
            Ok(())
        })?;
        let added = |id: &u32| add.iter().any(|b| b.index.id == *id);
        table.building.lock().retain(|id| !added(id));
        std::mem::drop(ddl);
        self.free_dropped(table)
    }

    pub fn rename_index(&self, table: &Arc<Table>, from: &str, to: &str) -> Result<()> {
        let _ddl = self.start_ddl()?;
        let mut new = table.layout().clone();
        if new.secondary.iter().any(|s| s.index.name == to) {
            return Err(Error::Exists(format!("index {to}")));
        }
        let index = new.secondary.iter_mut().find(|s| s.index.name == from);
        let index = index.ok_or_else(|| Error::NoSuchTable(format!("index {from}")))?;
        index.index.name = to.to_string();
        self.record(&new, |mtr| self.catalog.put(mtr, &table.name(), &new))?;
        table.publish(new);
        Ok(())
    }

    /// Frees the trees of dropped indexes and of builds that came to nothing. `keep`: builds going on.
    fn free_dropped(&self, table: &Table) -> Result<()> {
        let layout = table.layout();
        for (index, root) in &layout.freeing {
            if !table.building.lock().contains(index) {
                let tree = layout.tree(*root, *index);
                self.free_tree(table, &tree)?;
            }
        }
        Ok(())
    }

    /// Frees a tree that stands on the list, and takes it off.
    fn free_tree(&self, table: &Table, tree: &Tree) -> Result<()> {
        {
            // Not held with the DDL mutex: whoever drops the table takes them the other way round.
            let _gate = table.gate.read();
            if table.is_dropped() || table.layout().id != tree.file {
                return Ok(());
            }
            tree.free_all(&self.pool)?;
        }
        let _ddl = self.start_ddl()?;
        let mut new = table.layout().clone();
        if table.is_dropped() || new.id != tree.file {
            return Ok(());
        }
        new.freeing.retain(|(id, _)| *id != tree.index);
        self.record(&new, |mtr| self.catalog.put(mtr, &table.name(), &new))?;
        table.publish(new);
        Ok(())
    }

    /// Frees what is left of dropped indexes, after a restart.
    pub fn resume_freeing(&self) -> Result<()> {
        for table in self.catalog.tables() {
            if table.broken().is_none() {
                self.free_dropped(&table)?;
            }
        }
        Ok(())
    }
}

fn sort_by_names(layout: &mut Layout, order: &[&str]) -> Result<()> {
    let place = |s: &Secondary| order.iter().position(|name| *name == s.index.name);
    if order.len() != layout.secondary.len() || layout.secondary.iter().any(|s| place(s).is_none()) {
        return Err(Error::Unsupported("the order does not name every index once".into()));
    }
    layout.secondary.sort_by_key(place);
    Ok(())
}

impl IndexBuild {
    /// `key` = index key + clustered key. `unique_check` false: a part is NULL.
    pub fn add(&mut self, key: &[u8], user_key_len: usize, unique_check: bool, raw: &[u8]) -> Result<()> {
        let sorter = self.sorter.as_mut().expect("not finished yet");
        if key.len() > KEY_MAX || key.len() + raw.len() + 10 > ENTRY_MAX || user_key_len > key.len() {
            return Err(Error::TooBig(format!("entry of {} bytes", key.len() + raw.len())));
        }
        entry::encode(&mut self.value, 0, key.len() - user_key_len, self.pk_fixed_len, raw);
        let note = (user_key_len as u64) << 1 | unique_check as u64;
        sorter.push(key, &self.value, note)
    }

    /// Sorts and loads. `Duplicate` names one of the rows.
    pub fn finish(&mut self, trx: &Trx) -> Result<()> {
        let sorter = self.sorter.take().expect("finished once");
        let unique = self.index.unique;
        let pool = self.store.pool.clone();
        let mut builder = Builder::new(&pool, self.index.tree, FILL_PERCENT);
        // The value last checked: (key, length of the index key in it).
        let mut last: (Vec<u8>, usize) = (Vec::new(), 0);
        let mut count = 0u64;
        sorter.merge(&mut |key, value, note| {
            count += 1;
            if count % KILL_POLL == 0 && trx.shared.waiter.killed() {
                return Err(Error::Interrupted);
            }
            let user_len = (note >> 1) as usize;
            if unique && note & 1 != 0 {
                if !last.0.is_empty() && last.0[..last.1] == key[..user_len] {
                    return Err(Error::Duplicate {
                        index: 0,
                        pk: key[user_len..].to_vec(),
                    });
                }
                last.0.clear();
                last.0.extend_from_slice(key);
                last.1 = user_len;
            }
            builder.push(key, value)
        })?;
        builder.finish()?;
        self.finished = true;
        Ok(())
    }

    pub fn name(&self) -> &str {
        &self.index.name
    }

    /// Gives up: frees the pages.
    pub fn abort(self) -> Result<()> {
        self.table.building.lock().retain(|id| *id != self.index.id);
        self.store.free_tree(&self.table, &self.index.tree)
    }
}
