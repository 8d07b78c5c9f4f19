//! Building a secondary index of a table that has rows. `alter_indexes` publishes it.
//!
//! From its first page on, the catalog lists a build's tree as one to be freed; publishing removes
//! it from that list. So a build that a crash or an abort ends leaves nothing. The pages of a
//! dropped index are freed in the same way. Entries are stamped 0: views that are older than the
//! index are refused (`Secondary::created`), and all others see every entry.
//!
//! Takes the DDL mutex to begin. No latch is held between calls. Called by the engine and by the C
//! ABI.
use crate::base::{Error, Result};
use crate::btree::extents::ExtentList;
use crate::btree::{Intent, LeafWrite, Placed, Tree};
use crate::change::{self, DELTA_BIT};
use crate::index::Index;
use crate::pool::{Mtr, Pool};
use crate::redo::Redo;
use crate::table::bulk::fill::{fill_past_pool, fill_small, in_order, sort_entry, Push, SortProgress};
use crate::table::bulk::free_trees::TreeFreer;
use crate::table::bulk::sort::Sorter;
use crate::table::catalog::ddl::{number, Tables};
use crate::table::catalog::dictionary::Catalog;
use crate::table::catalog::layout::IndexSpec;
use crate::table::catalog::table::Table;
use crate::table::row::entry::{decode_entry, NewEntry};
use crate::txn::Trx;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// Builds indexes.
pub struct IndexBuilder {
    pub(in crate::table) pool: Arc<Pool>,
    pub(in crate::table) redo: Arc<Redo>,
    pub(in crate::table) catalog: Arc<Catalog>,
    pub(in crate::table) tables: Arc<Tables>,
    pub(in crate::table) freer: TreeFreer,
    /// As in `StoreConfig`.
    pub(in crate::table) sort_buffer_size: Arc<AtomicU64>,
    pub(in crate::table) bulk_load_min: u64,
}

/// An index being built. Invisible until [`IndexBuilder::alter_indexes`] publishes it.
pub struct IndexBuild {
    builder: Arc<IndexBuilder>,
    table: Arc<Table>,
    index: Index,
    sorter: Option<Sorter>,
    value: Vec<u8>,
    pk_fixed_len: usize,
    finished: bool,
    /// Values of a unique index that were put after `finish`: (key, length of the value in it).
    unproven: Vec<(Vec<u8>, usize)>,
    /// At this number, the values that only one row has are dropped.
    unproven_max: usize,
}

/// Values that are kept for the final check, unless more of them are duplicates.
const UNPROVEN_MAX: usize = if cfg!(test) { 64 } else { 16 << 10 };

impl IndexBuilder {
    pub fn begin_build(self: &Arc<IndexBuilder>, table: &Arc<Table>, spec: &IndexSpec) -> Result<IndexBuild> {
        let mut ddl = self.tables.start_ddl()?;
        let layout = table.layout();
        let mut mtr = self.pool.begin();
        let (_, id) = self.catalog.take_numbers(&mut ddl, &mut mtr, 1)?;
        mtr.commit();
        let id = number(id, spec.wide);
        debug_assert!(
            layout.secondary_by_id(id).is_none() && layout.freeing.iter().all(|(known, _)| *known != id),
            "I10: an index number is never given twice"
        );
        let ids = [id, id | DELTA_BIT];
        let mut made = None;
        let mut listed = layout.clone();
        self.tables.record(layout, &[layout], |mtr| {
            // A wide index has no delta tree.
            let trees = Tree::create_many(mtr, layout.id, &ids[..2 - spec.wide as usize])?;
            listed.freeing.extend(trees.iter().map(|tree| (tree.index, tree.root)));
            made = Some((trees[0], trees.get(1).map(|tree| self.tables.fresh_delta(*tree))));
            self.catalog.put(mtr, &table.name(), &listed)
        })?;
        let (tree, delta) = match made {
            Some(made) => made,
            // A temporary table is in no catalog.
            None => {
                let tree = self
                    .tables
                    .new_index(layout.id, id, &spec.name, spec.unique, false)?
                    .tree;
                listed.freeing.push((id, tree.root));
                (tree, None)
            }
        };
        debug_assert_eq!(tree.index, id, "a tree bears the number of its index");
        debug_assert!(
            delta.is_none() || !tree.is_wide(),
            "no change of a wide index is buffered"
        );
        debug_assert!(
            listed.freeing.contains(&(tree.index, tree.root)),
            "the pages of a build that is not published are freed"
        );
        let pk_fixed_len = layout.pk_fixed_len;
        table.building.lock().push(id);
        table.publish(listed);
        Ok(IndexBuild {
            builder: self.clone(),
            table: table.clone(),
            index: Index::new(&spec.name, spec.unique, tree, delta),
            sorter: Some(Sorter::new(
                self.pool.disk().clone(),
                self.sort_buffer_size.load(Ordering::Relaxed),
            )),
            value: Vec::new(),
            pk_fixed_len,
            finished: false,
            unproven: Vec::new(),
            unproven_max: UNPROVEN_MAX,
        })
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
        debug_assert!(self.is_kept(), "the tree of a build is not freed under it");
        let builder = &self.builder;
        let tree = self.index.tree;
        let small = self.table.layout().temporary || tree.is_wide() || sorter.total() < builder.bulk_load_min;
        let unique = self.index.unique;
        let mut progress = SortProgress::new(trx, sorter.total());
        let feed = |push: Push<'_>| in_order(sorter, unique, trx, &mut progress, push);
        if small {
            fill_small(&builder.pool, tree, feed)?;
        } else {
            // From here on the root lists what the load uses: see `TreeRemover::remove`.
            let list = ExtentList {
                file: tree.file,
                page: tree.root,
                index: tree.index,
                owner: 0,
            };
            builder.redo.reserve_wait()?;
            self.table.append_hint.begin_load();
            let mut mtr = builder.pool.begin();
            ExtentList::over(&mut mtr, list)?;
            mtr.commit();
            fill_past_pool(&builder.pool, tree, list, feed)?;
            self.table.append_hint.begin_load();
        }
        self.finished = true;
        Ok(())
    }

    /// After `finish`, for a row that was changed meanwhile: the entry that it has now. Arguments
    /// as in `add`. A value that two rows have is found by `prove_unique`.
    pub fn put(&mut self, key: &[u8], user_key_len: usize, unique_check: bool, raw: &[u8]) -> Result<()> {
        assert!(self.finished, "rows are put into a finished build");
        let new = NewEntry {
            index: 0,
            user_key_len,
            unique_check,
            key,
            raw,
        };
        let mut value = std::mem::take(&mut self.value);
        sort_entry(&mut value, &self.index, &new, self.pk_fixed_len, 0)?;
        let placed = self.edit(key, value.len(), |mtr, at| match at.found {
            true => at.set_value(mtr, &value),
            false => at.insert(mtr, key, &value),
        })?;
        assert_eq!(placed, Placed::Done, "Grow makes room");
        self.value = value;
        if self.index.unique && unique_check {
            self.unproven.push((key.to_vec(), user_key_len));
            if self.unproven.len() >= self.unproven_max {
                self.drop_proven()?;
            }
        }
        Ok(())
    }

    /// Drops the values that only one row has now. If another row gets one of them later, the put
    /// of that row adds it again.
    fn drop_proven(&mut self) -> Result<()> {
        let mut all = std::mem::take(&mut self.unproven);
        let before = all.len();
        all.sort_unstable();
        all.dedup_by(|(key, len), (before, before_len)| key[..*len] == before[..*before_len]);
        for (key, user_key_len) in all {
            if self.row_of_two(&key[..user_key_len])?.is_some() {
                self.unproven.push((key, user_key_len));
            }
        }
        debug_assert!(self.unproven.len() <= before, "values are dropped, and none comes");
        self.unproven_max = UNPROVEN_MAX.max(2 * self.unproven.len());
        Ok(())
    }

    /// As `put`: the entry that the row had before.
    pub fn remove(&mut self, key: &[u8]) -> Result<()> {
        assert!(self.finished, "rows are removed from a finished build");
        self.edit(key, 0, |mtr, at| {
            if at.found {
                at.remove(mtr)?;
            }
            Ok(Placed::Done)
        })?;
        Ok(())
    }

    fn edit(
        &self,
        key: &[u8],
        value_len: usize,
        change: impl FnOnce(&mut Mtr<'_>, &LeafWrite) -> Result<Placed>,
    ) -> Result<Placed> {
        let builder = &self.builder;
        debug_assert!(self.is_kept(), "the tree of a build is not freed under it");
        builder.redo.reserve_wait()?;
        let mut mtr = builder.pool.begin();
        let intent = Intent::Grow(key.len() + value_len);
        let at = self.index.tree.leaf_for_write(&mut mtr, key, intent, None)?;
        let placed = change(&mut mtr, &at);
        mtr.commit();
        placed
    }

    /// After the last put: `Duplicate` names a row whose value another row has.
    pub fn prove_unique(&mut self) -> Result<()> {
        assert!(self.finished, "values are proved of a finished build");
        for (key, user_key_len) in std::mem::take(&mut self.unproven) {
            if let Some(pk) = self.row_of_two(&key[..user_key_len])? {
                return Err(Error::Duplicate { index: 0, pk });
            }
        }
        Ok(())
    }

    /// One of the rows that have this value, if there are two.
    fn row_of_two(&self, user_key: &[u8]) -> Result<Option<Vec<u8>>> {
        debug_assert!(self.index.unique, "only a unique index has values to be proved");
        let (mut rows, mut second) = (0, None);
        change::visit_prefix(&self.builder.pool, &self.index, user_key, &mut |found, value| {
            let pk_len = decode_entry(self.table.layout(), value)?.pk_len;
            if found.len() == user_key.len() + pk_len {
                rows += 1;
                second = (rows == 2).then(|| found[user_key.len()..].to_vec());
            }
            Ok(rows < 2)
        })?;
        Ok(second)
    }

    #[cfg(test)]
    pub fn values_to_be_proved(&self) -> usize {
        self.unproven.len()
    }

    pub(in crate::table) fn index(&self) -> &Index {
        &self.index
    }
    pub(in crate::table) fn is_finished(&self) -> bool {
        self.finished
    }
    pub fn name(&self) -> &str {
        &self.index.name
    }

    /// No other thread frees its tree. For asserts.
    fn is_kept(&self) -> bool {
        self.table.building.lock().contains(&self.index.id)
    }

    /// Gives up: frees the pages, unless the index was published and so is the table's.
    pub fn abort(self) -> Result<()> {
        if self.table.layout().secondary_by_id(self.index.id).is_some() {
            return Ok(());
        }
        self.table.building.lock().retain(|id| *id != self.index.id);
        if let Some(delta) = &self.index.delta {
            self.builder.freer.free_tree(&self.table, &delta.tree)?;
        }
        self.builder.freer.free_tree(&self.table, &self.index.tree)
    }
}
