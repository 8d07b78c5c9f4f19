//! Building a secondary index of a table that has rows, and the change of the catalog behind it: add, drop, rename at once.
//!
//! From its first page on, a build's tree stands in the catalog as one to be freed; publishing takes it off that list. So a build that
//! a crash or an abort cuts short leaves nothing behind, and the pages of a dropped index are freed in the same way.
//! Entries are stamped 0: views that are older than the index are refused (`Secondary::created`), all others see every entry.
use super::ddl::number;
use super::def::{IndexSpec, Layout, Secondary, Table};
use super::secondary::{check_key_len, NewEntry};
use super::sort::Sorter;
use super::store::Store;
use crate::base::{moment, planted, Error, IndexId, Moment, Mutant, Result, TrxId};
use crate::btree::build::Builder;
use crate::btree::extents::ExtentList;
use crate::btree::load::Loader;
use crate::btree::Tree;
use crate::change::{Buffering, DELTA_BIT};
use crate::index::secondary;
use crate::index::Index;
use crate::txn::Trx;
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// Share of each leaf that a build fills: room for the changes to come.
pub(super) const FILL_PERCENT: u32 = 94;
/// Entries between two looks at `Waiter::killed`.
pub(super) const KILL_POLL: u64 = 4096;

/// Of him who frees a tree on the list: no second one does.
struct Claim<'a> {
    table: &'a Table,
    index: IndexId,
}

impl<'a> Claim<'a> {
    /// None: it has been published or freed since the list was read, is being built, or is being freed. The table's gate is held.
    fn of(table: &'a Table, index: IndexId) -> Option<Claim<'a>> {
        // A build says that it goes on before its tree stands on the list. It is published with the gate held, and says after that that it goes
        // on no more.
        let is_listed = table.layout().freeing.iter().any(|(id, _)| *id == index);
        let mut taken = table.building.lock();
        if !is_listed || taken.contains(&index) || taken.contains(&(index & !DELTA_BIT)) {
            return None;
        }
        taken.push(index);
        Some(Claim { table, index })
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.table.building.lock().retain(|id| *id != self.index);
    }
}

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

/// What one ALTER TABLE changes about the indexes of a table.
pub struct IndexChange<'a> {
    pub table: &'a Arc<Table>,
    pub drop: Vec<&'a str>,
    /// (old name, new name)
    pub rename: Vec<(&'a str, &'a str)>,
    pub add: Vec<&'a IndexBuild>,
    /// Every index that is there afterwards.
    pub order: Vec<&'a str>,
    /// As in `TableSpec`.
    pub change_buffering: Option<Buffering>,
    pub schema: &'a [u8],
}

impl Store {
    pub fn begin_build(self: &Arc<Store>, table: &Arc<Table>, spec: &IndexSpec) -> Result<IndexBuild> {
        let mut ddl = self.start_ddl()?;
        let layout = table.layout();
        let mut mtr = self.pool.begin();
        let (_, id) = self.catalog.take_numbers(&mut ddl, &mut mtr, 1)?;
        mtr.commit();
        let id = number(id, spec.wide);
        let ids = [id, id | DELTA_BIT];
        let mut made = None;
        let mut listed = layout.clone();
        self.record(layout, &[layout], |mtr| {
            // Nothing is buffered for a wide one.
            let trees = Tree::create_many(mtr, layout.id, &ids[..2 - spec.wide as usize])?;
            listed.freeing.extend(trees.iter().map(|tree| (tree.index, tree.root)));
            made = Some((trees[0], trees.get(1).map(|tree| self.fresh_delta(*tree))));
            self.catalog.put(mtr, &table.name(), &listed)
        })?;
        let (tree, delta) = match made {
            Some(made) => made,
            // A temporary table is in no catalog.
            None => {
                let tree = self.new_index(layout.id, id, &spec.name, spec.unique, false)?.tree;
                listed.freeing.push((id, tree.root));
                (tree, None)
            }
        };
        let pk_fixed_len = layout.pk_fixed_len;
        table.building.lock().push(id);
        table.publish(listed);
        Ok(IndexBuild {
            store: self.clone(),
            table: table.clone(),
            index: Index::new(&spec.name, spec.unique, tree, delta),
            sorter: Some(Sorter::new(
                self.pool.disk().clone(),
                self.sort_buffer_size.load(Ordering::Relaxed),
            )),
            value: Vec::new(),
            pk_fixed_len,
            finished: false,
        })
    }

    /// One atomic, durable change of all tables named: publishes finished builds, drops and renames indexes, sets order and schema.
    pub fn alter_indexes(&self, changes: &[IndexChange<'_>]) -> Result<()> {
        let ddl = self.start_ddl()?;
        self.with_mark(|created| {
            let mut layouts = Vec::with_capacity(changes.len());
            for change in changes {
                let mut layout = change.applied(created)?;
                layout.created_s = self.pool.disk().wall_s();
                layouts.push(layout);
            }
            let Some(first) = layouts.first() else {
                return Ok(());
            };
            let all: Vec<&Layout> = layouts.iter().collect();
            // The partitions of a table: all of them are temporary, or none.
            self.record(first, &all, |mtr| {
                let mut both = changes.iter().zip(&layouts);
                both.try_for_each(|(change, layout)| self.catalog.put(mtr, &change.table.name(), layout))
            })?;
            for (change, layout) in changes.iter().zip(layouts) {
                let _gate = change.table.gate.write();
                let old = change.table.layout();
                let dropped = |s: &&Secondary| layout.secondary_by_id(s.index.id).is_none();
                self.discard_pending(old.secondary.iter().filter(dropped));
                layout.tell_deltas();
                change.table.publish(layout);
            }
            Ok(())
        })?;
        for change in changes {
            let added = |id: &u32| change.add.iter().any(|b| b.index.id == *id);
            change.table.building.lock().retain(|id| !added(id));
        }
        std::mem::drop(ddl);
        changes.iter().for_each(|change| self.free_what_can_be(change.table));
        Ok(())
    }

    /// Frees the trees of dropped indexes and of builds that came to nothing, but not of those that go on. What they were dropped by has happened,
    /// and no error may say that it has not: pages that cannot be freed now stay on the list, and the next start tries again.
    fn free_what_can_be(&self, table: &Table) {
        let layout = table.layout();
        for (index, root) in &layout.freeing {
            moment(Moment::TreeToBeFreed);
            let Err(e) = self.free_tree(table, &layout.tree(*root, *index)) else {
                continue;
            };
            let named = self.name_damage(e);
            self.tell(&format!("pages of a dropped index are not freed yet: {named}"));
        }
    }

    /// Frees a tree that stands on the list and is nobody else's to free, and takes it off.
    fn free_tree(&self, table: &Table, tree: &Tree) -> Result<()> {
        let _claim = {
            // Not held with the DDL mutex: whoever drops the table takes them the other way round.
            let _gate = table.gate.read();
            if table.is_dropped() || table.layout().id != tree.file {
                return Ok(());
            }
            let Some(claim) = Claim::of(table, tree.index) else {
                return Ok(());
            };
            // It may be a load's that came to nothing.
            table.loads.fetch_add(1, Ordering::SeqCst);
            let freed = self.free_pages(table, tree);
            table.loads.fetch_add(1, Ordering::SeqCst);
            if !freed? {
                return Ok(());
            }
            claim
        };
        let _ddl = self.start_ddl()?;
        let mut new = table.layout().clone();
        if table.is_dropped() || new.id != tree.file {
            return Ok(());
        }
        new.freeing.retain(|(id, _)| *id != tree.index);
        self.record(&new, &[], |mtr| self.catalog.put(mtr, &table.name(), &new))?;
        table.publish(new);
        Ok(())
    }

    /// A tree with a broken page is not walked: its pages are found by what they say of themselves, and the broken ones are lost. False: not
    /// now, the next start tries again.
    fn free_pages(&self, table: &Table, tree: &Tree) -> Result<bool> {
        let why = match crate::btree::TreeRemover::new(&self.pool, &tree).remove() {
            Err(e) if e.is_corrupt() => self.name_damage(e),
            done => return done.map(|()| true),
        };
        let lost = crate::btree::TreeRemover::new(&self.pool, &tree).remove_scattered()?;
        let left = match lost {
            Some(0) => "is freed wholly, though a page of it cannot be read".into(),
            Some(lost) => format!("leaves {lost} pages that cannot be read behind"),
            None => {
                "is freed after the next start, for a load, or the freeing of another, is going on in the table".into()
            }
        };
        let table = self.catalog.shown(table);
        self.tell(&format!("table {table}: a dropped index {left}; {why}"));
        Ok(lost.is_some())
    }

    /// Frees what is left of dropped indexes, after a restart.
    pub fn resume_freeing(&self) {
        for table in self.catalog.tables() {
            if table.broken().is_none() {
                self.free_what_can_be(&table);
            }
        }
    }
}

impl IndexChange<'_> {
    /// The table's layout with this change. Names are those before it, so a dropped index's name is free for another.
    fn applied(&self, created: TrxId) -> Result<Layout> {
        let mut new = self.table.layout().clone();
        new.schema = self.schema.to_vec();
        new.change_buffering = self.change_buffering;
        for name in &self.drop {
            let index = new.secondary.remove(place_of(&new, name)?).index;
            new.freeing.push((index.id, index.tree.root));
            let delta = index.trees.delta.filter(|_| !planted(Mutant::BufferSurvivesDropIndex));
            new.freeing.extend(delta.map(|d| (d.tree.index, d.tree.root)));
        }
        let mut renamed = Vec::with_capacity(self.rename.len());
        for (from, to) in &self.rename {
            renamed.push((place_of(&new, from)?, to));
        }
        for (at, to) in renamed {
            new.secondary[at].index.name = to.to_string();
        }
        for build in &self.add {
            assert!(build.finished, "only finished builds are published");
            new.freeing.retain(|(id, _)| id & !DELTA_BIT != build.index.id);
            new.secondary.push(Secondary {
                index: build.index.clone(),
                aside: false,
                created,
            });
        }
        sort_by_names(&mut new, &self.order)?;
        Ok(new)
    }
}

fn place_of(layout: &Layout, name: &str) -> Result<usize> {
    let found = layout.secondary.iter().position(|s| s.index.name == name);
    found.ok_or_else(|| Error::NoSuchTable(format!("index {name}")))
}

/// An order that names every index once: two of one name cannot pass.
fn sort_by_names(layout: &mut Layout, order: &[&str]) -> Result<()> {
    let place = |s: &Secondary| order.iter().position(|name| *name == s.index.name);
    layout.secondary.sort_by_key(place);
    let places = layout.secondary.iter().map(place);
    if !places.eq((0..order.len()).map(Some)) {
        return Err(Error::Unsupported("the order does not name every index once".into()));
    }
    Ok(())
}

/// Takes the next key and value.
pub(super) type Push<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<()>;

/// An index's entry for a [`Sorter`], made in `value`, and its note.
pub(super) fn sort_entry(
    value: &mut Vec<u8>,
    index: &Index,
    new: &NewEntry<'_>,
    pk_fixed_len: usize,
    stamp: TrxId,
) -> Result<u64> {
    let (key, user_key_len) = (new.key, new.user_key_len);
    check_key_len(index, key, key.len().saturating_sub(user_key_len))?;
    if user_key_len > key.len() {
        let what = "an index key that is longer than the entry's key";
        return Err(Error::Invalid(what.into()));
    }
    let raw = secondary::fitting(index.tree.entry_max(), key.len(), new.raw);
    secondary::encode(value, stamp, key.len() - user_key_len, pk_fixed_len, raw);
    Ok((user_key_len as u64) << 1 | new.unique_check as u64)
}

/// `Interrupted` once the statement is killed.
pub(super) fn kill_poll(trx: &Trx) -> impl FnMut() -> Result<()> {
    let waiter = trx.shared.waiter.clone();
    move || match waiter.killed() {
        true => Err(Error::Interrupted),
        false => Ok(()),
    }
}

/// The entries of [`sort_entry`] in order; if `unique`, each value once.
pub(super) fn in_order(sorter: Sorter, unique: bool, trx: &Trx, push: Push<'_>) -> Result<()> {
    // The value last checked: (key, length of the index key in it).
    let mut last: (Vec<u8>, usize) = (Vec::new(), 0);
    sorter.merge(&mut kill_poll(trx), &mut |key, value, note| {
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
        push(key, value)
    })
}

impl Store {
    /// Fills an empty tree with what `feed` gives in order, page by page through the pool. Nobody else uses the tree.
    pub(super) fn fill_small(&self, tree: Tree, feed: impl FnOnce(Push<'_>) -> Result<()>) -> Result<()> {
        let mut builder = Builder::new(&self.pool, tree, FILL_PERCENT);
        feed(&mut |key, value| builder.push(key, value))?;
        builder.finish().map(|_| ())
    }
    /// The same past the pool and the log. `list`: of the load, empty.
    pub(super) fn fill_past_pool(
        &self,
        tree: Tree,
        list: ExtentList,
        feed: impl FnOnce(Push<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut load = Loader::new(&self.pool, tree, list, FILL_PERCENT)?;
        feed(&mut |key, value| load.push(key, value))?;
        self.link_load(load)
    }
    pub(super) fn link_load(&self, load: Loader) -> Result<()> {
        let loaded = load.finish()?;
        self.redo.reserve_to_go_on()?;
        let mut mtr = self.pool.begin();
        let linked = loaded.link(&mut mtr)?;
        mtr.commit();
        assert!(linked, "nobody else knows the tree");
        Ok(())
    }
}

impl IndexBuild {
    /// `key` = index key + clustered key. `unique_check` false: a part is NULL.
    pub fn add(&mut self, key: &[u8], user_key_len: usize, unique_check: bool, raw: &[u8]) -> Result<()> {
        let sorter = self.sorter.as_mut().expect("not finished yet");
        let value = &mut self.value;
        let new = NewEntry {
            index: 0,
            user_key_len,
            unique_check,
            key,
            raw,
        };
        let note = sort_entry(value, &self.index, &new, self.pk_fixed_len, 0)?;
        sorter.push(key, &self.value, note)
    }

    /// Sorts and loads. `Duplicate` names one of the rows.
    pub fn finish(&mut self, trx: &Trx) -> Result<()> {
        let sorter = self.sorter.take().expect("finished once");
        let store = self.store.clone();
        let tree = self.index.tree;
        let small = self.table.layout().temporary || tree.is_wide() || sorter.total() < store.bulk_load_min;
        let unique = self.index.unique;
        let feed = |push: Push<'_>| in_order(sorter, unique, trx, push);
        if small {
            store.fill_small(tree, feed)?;
        } else {
            // From here on the root lists what the load uses: see `TreeRemover::remove`.
            let list = ExtentList {
                file: tree.file,
                page: tree.root,
                index: tree.index,
                owner: 0,
            };
            store.redo.reserve_wait()?;
            self.table.loads.fetch_add(1, Ordering::SeqCst);
            let mut mtr = store.pool.begin();
            ExtentList::over(&mut mtr, list)?;
            mtr.commit();
            store.fill_past_pool(tree, list, feed)?;
            self.table.loads.fetch_add(1, Ordering::SeqCst);
        }
        self.finished = true;
        Ok(())
    }

    pub fn name(&self) -> &str {
        &self.index.name
    }

    /// Gives up: frees the pages. (Not those of an index that was published: it is the table's.)
    pub fn abort(self) -> Result<()> {
        if self.table.layout().secondary_by_id(self.index.id).is_some() {
            return Ok(());
        }
        self.table.building.lock().retain(|id| *id != self.index.id);
        if let Some(delta) = &self.index.delta {
            self.store.free_tree(&self.table, &delta.tree)?;
        }
        self.store.free_tree(&self.table, &self.index.tree)
    }
}
