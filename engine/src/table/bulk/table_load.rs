//! Load of an empty table: rows without locks, undo and redo. This file is about a table that no
//! other transaction can use yet (ALTER by copy, CREATE ... SELECT). What differs for other tables
//! is in `stamped_load.rs`.
//!
//! Rows that come in the order of their keys go straight into a bulk load of the clustered tree;
//! others are sorted first. Each secondary index is sorted and loaded at the end. A row out of
//! order after many in order is placed on its own. (That happens if the end of the source changed
//! while it was read in key order.) Rows are stamped 0, as index builds stamp their entries. Views
//! that are older than the load's end are refused ([`Layout::created`]); all others see every row.
//!
//! The caller drops the table if the load fails. A crash may leave the table empty, or with some of
//! its trees loaded; the pages are freed with its file.
//!
//! No latch is held between calls. Called by the C ABI and by `insert_select`.
use crate::base::{planted, Counters, Error, Lsn, Mutant, Result, TrxId, UndoPtr};
use crate::btree::extents::ExtentList;
use crate::btree::load::{Loaded, Loader};
use crate::btree::{Intent, Placed, Seek, Tree};
use crate::index::{RowHeader, ROW_HEADER, ROW_MARKED, ROW_OVERFLOW};

use crate::pool::Pool;
use crate::redo::{FlushMode, Redo};
use crate::table::bulk::fill::{
    fill_small, in_order, kill_poll, link_load, sort_entry, Push, SortProgress, FILL_PERCENT,
};
use crate::table::bulk::sort::Sorter;
use crate::table::catalog::ddl::Tables;
use crate::table::catalog::layout::Layout;
use crate::table::catalog::table::Table;
use crate::table::dml::change::RowWriter;
use crate::table::row::autoinc::save_autoinc;
use crate::table::row::entry::{check_key, check_key_len, secondary, NewEntry};
use crate::table::row::new_row::Entry;
use crate::table::row::overflow_row::LongRows;
use crate::txn::{Trx, TrxSys};
use std::cmp::Ordering::{Equal, Greater};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// The state of the rows.
pub(in crate::table) enum Rows {
    /// All rows so far. `in_order`: they came in order.
    Gathered { sorter: Sorter, in_order: bool },
    /// They come in order, and are written to their pages.
    Loading(Box<Loader>),
    /// The rows in order are loaded; then one came out of order.
    Loaded,
}

/// Loads empty tables.
pub struct TableLoader {
    pub(in crate::table) pool: Arc<Pool>,
    pub(in crate::table) redo: Arc<Redo>,
    pub(in crate::table) trx_sys: Arc<TrxSys>,
    pub(in crate::table) counters: Arc<Counters>,
    pub(in crate::table) tables: Arc<Tables>,
    pub(in crate::table) rows: Arc<RowWriter>,
    pub(in crate::table) long_rows: LongRows,
    /// As in `StoreConfig`.
    pub(in crate::table) sort_buffer_size: Arc<AtomicU64>,
    pub(in crate::table) bulk_load_min: u64,
}

pub struct TableLoad {
    pub(in crate::table) loader: Arc<TableLoader>,
    pub(in crate::table) table: Arc<Table>,
    /// None: an error ended it.
    pub(in crate::table) rows: Option<Rows>,
    pub(in crate::table) entries: Vec<Sorter>,
    /// The transaction that rows and entries are stamped with; 0: no other transaction knows the
    /// table.
    pub(in crate::table) stamp: TrxId,
    /// With a stamp: of each tree, clustered first. Else of every bulk load begun.
    pub(in crate::table) lists: Vec<ExtentList>,
    /// With a stamp: rows out of order, after many in order.
    pub(in crate::table) late: Option<Sorter>,
    /// Of the last row.
    key: Vec<u8>,
    value: Vec<u8>,
    entry: Vec<u8>,
    pub(in crate::table) count: u64,
    /// The row (as stored) that a `Duplicate` of [`TableLoad::finish`] names.
    duplicate: Vec<u8>,
}

impl TableLoader {
    /// None: the table is not one to be loaded (temporary, or it has rows). Until the load ends,
    /// the caller is the table's only user. It drops the table if the load fails, and hides it from
    /// others before.
    pub fn begin_load(self: &Arc<TableLoader>, table: &Arc<Table>) -> Result<Option<TableLoad>> {
        let layout = table.layout();
        if layout.temporary || layout.clustered.tree.seek(&self.pool, Seek::First, &[])?.is_some() {
            return Ok(None);
        }
        Ok(Some(self.new_load(table, 0, Vec::new())))
    }
    pub(in crate::table) fn new_load(
        self: &Arc<TableLoader>,
        table: &Arc<Table>,
        stamp: TrxId,
        lists: Vec<ExtentList>,
    ) -> TableLoad {
        debug_assert!(
            stamp == 0 || lists.len() == 1 + table.layout().secondary.len(),
            "a load that others may meet has a list of extents for each tree"
        );
        let layout = table.layout();
        let budget = self.sort_buffer_size.load(Ordering::Relaxed) / (1 + layout.secondary.len() as u64);
        let sorter = || Sorter::new(self.pool.disk().clone(), budget);
        TableLoad {
            loader: self.clone(),
            table: table.clone(),
            rows: Some(Rows::Gathered {
                sorter: sorter(),
                in_order: true,
            }),
            entries: layout.secondary.iter().map(|_| sorter()).collect(),
            stamp,
            lists,
            late: None,
            key: Vec::new(),
            value: Vec::new(),
            entry: Vec::new(),
            count: 0,
            duplicate: Vec::new(),
        }
    }
}

impl TableLoad {
    /// `Duplicate` of the clustered key here or at the end, of a unique index at the end. After an
    /// error only an end is allowed.
    pub fn add(&mut self, pk: &[u8], row: &[u8], entries: &[Entry<'_>]) -> Result<()> {
        self.add_by(None, pk, row, entries)
    }
    /// `trx`: whose stamp the row gets.
    pub(in crate::table) fn add_by(
        &mut self,
        trx: Option<&mut Trx>,
        pk: &[u8],
        row: &[u8],
        entries: &[Entry<'_>],
    ) -> Result<()> {
        debug_assert_eq!(
            trx.as_ref().map_or(0, |trx| trx.id()),
            self.stamp,
            "a loaded row bears the number of its transaction, and none in a new table"
        );
        let table = self.table.clone();
        let layout = table.layout();
        check_key_len(&layout.clustered, pk, 0)?;
        for e in entries {
            check_key(layout, e.index, e.key, pk)?;
            let value = &mut self.entry;
            let new = NewEntry {
                index: e.index,
                user_key_len: e.user_key_len as usize,
                unique_check: !e.has_null,
                key: e.key,
                raw: e.value,
            };
            let index = &secondary(layout, e.index)?.index;
            let note = sort_entry(value, index, &new, layout.pk_fixed_len, self.stamp)?;
            self.entries[e.index as usize].push(e.key, value, note)?;
        }
        let mut value = std::mem::take(&mut self.value);
        match trx {
            Some(trx) => {
                self.loader.long_rows.make_value(trx, layout, pk, row, &mut value)?;
                // Counts the row towards the costs of a rollback, for the choice of a deadlock's
                // victim.
                trx.count_loaded_row();
            }
            None => self.loader.long_rows.make_loaded_value(layout, pk, row, &mut value)?,
        }
        debug_assert!(value[0] & ROW_MARKED == 0, "a row that is loaded is there");
        let header = RowHeader {
            flags: value[0],
            trx: self.stamp,
            undo: UndoPtr::NONE,
        };
        header.write(&mut value[..ROW_HEADER]);
        // Taken: an error in between leaves None.
        let rows = self.rows.take().ok_or_else(over)?;
        self.rows = Some(self.add_row(layout, rows, pk, &value)?);
        self.value = value;
        self.count += 1;
        Ok(())
    }

    fn add_row(&mut self, layout: &Layout, rows: Rows, pk: &[u8], value: &[u8]) -> Result<Rows> {
        let order = match self.count {
            0 => Greater,
            _ => pk.cmp(&self.key),
        };
        let next = match (rows, order) {
            (Rows::Gathered { in_order: true, .. } | Rows::Loading(_), Equal) => return Err(duplicate(pk)),
            (Rows::Gathered { mut sorter, in_order }, _) => {
                let in_order = in_order && order == Greater;
                sorter.push(pk, value, 0)?;
                if in_order && sorter.total() >= self.loader.bulk_load_min && !layout.clustered.tree.is_wide() {
                    let mut load = self.bulk_load(0, layout.clustered.tree)?;
                    // Not much, and few runs.
                    sorter.merge(&mut || Ok(()), &mut |key, value, _| load.push(key, value))?;
                    Rows::Loading(Box::new(load))
                } else {
                    Rows::Gathered { sorter, in_order }
                }
            }
            (Rows::Loading(mut load), Greater) => {
                load.push(pk, value)?;
                Rows::Loading(load)
            }
            (Rows::Loading(load), _) if self.stamp != 0 => {
                // Linked as a whole, once no unique index has anything twice.
                self.late_rows().push(pk, value, 0)?;
                return Ok(Rows::Loading(load));
            }
            (Rows::Loading(load), _) => {
                link_load(&self.loader.pool, *load)?;
                self.place(&layout.clustered.tree, pk, value)?;
                Rows::Loaded
            }
            (Rows::Loaded, _) => {
                self.place(&layout.clustered.tree, pk, value)?;
                Rows::Loaded
            }
        };
        self.key.clear();
        self.key.extend_from_slice(pk);
        Ok(next)
    }

    fn late_rows(&mut self) -> &mut Sorter {
        debug_assert_ne!(self.stamp, 0, "rows of a new table are placed at once");
        let loader = &self.loader;
        let budget = loader.sort_buffer_size.load(Ordering::Relaxed) / self.lists.len() as u64;
        self.late
            .get_or_insert_with(|| Sorter::new(loader.pool.disk().clone(), budget))
    }

    /// `ordinal`: of the tree, clustered first.
    fn bulk_load(&mut self, ordinal: usize, tree: Tree) -> Result<Loader> {
        let loader = &self.loader;
        if self.stamp != 0 {
            debug_assert_eq!(
                self.lists[ordinal].index, tree.index,
                "a tree is loaded from its own list of extents"
            );
            return Loader::new(&loader.pool, tree, self.lists[ordinal], FILL_PERCENT);
        }
        debug_assert!(
            self.lists.iter().all(|list| list.index != tree.index),
            "the tree of a new table is loaded once"
        );
        loader.redo.reserve_wait()?;
        let mut mtr = loader.pool.begin();
        let list = ExtentList::create(&mut mtr, tree.file, tree.index, 0)?;
        mtr.commit();
        self.lists.push(list);
        Loader::new(&loader.pool, tree, list, FILL_PERCENT)
    }

    /// Puts one row into a tree that no other transaction knows.
    fn place(&self, tree: &Tree, pk: &[u8], value: &[u8]) -> Result<()> {
        debug_assert_eq!(self.stamp, 0, "readers know the tree of a table that is in use");
        let placed = self.place_if(tree, pk, value, &mut || true)?;
        assert!(placed.is_some(), "nobody forbids it");
        Ok(())
    }
    /// Puts one row if `allowed`, which is asked once the leaf is latched. None: it is not allowed,
    /// and nothing changed. Else the LSN after the change.
    pub(in crate::table) fn place_if(
        &self,
        tree: &Tree,
        pk: &[u8],
        value: &[u8],
        allowed: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Lsn>> {
        let mut intent = Intent::Leaf;
        loop {
            self.loader.redo.reserve_wait()?;
            let mut mtr = self.loader.pool.begin();
            let at = tree.leaf_for_write(&mut mtr, pk, intent, None)?;
            if at.found {
                return Err(duplicate(pk));
            }
            if !allowed() {
                return Ok(None);
            }
            if at.insert(&mut mtr, pk, value)? == Placed::Done {
                return Ok(Some(mtr.commit()));
            }
            debug_assert_eq!(intent, Intent::Leaf, "a leaf that was split has room");
            intent = Intent::Grow(pk.len() + value.len());
        }
    }

    /// Loads what was gathered, and checks its foreign keys. Everything is durable on return, and
    /// the table is one like any other.
    pub fn finish(&mut self, trx: &mut Trx) -> Result<()> {
        let table = self.table.clone();
        let layout = table.layout();
        let loader = self.loader.clone();
        debug_assert_eq!(self.stamp, 0, "the rows of a table in use are linked as a whole");
        match self.rows.take().ok_or_else(over)? {
            Rows::Gathered { sorter, .. } => self.finish_rows(layout, sorter, trx)?,
            Rows::Loading(load) => link_load(&loader.pool, *load)?,
            Rows::Loaded => {}
        }
        let sorters = std::mem::take(&mut self.entries);
        debug_assert_eq!(
            sorters.len(),
            layout.secondary.len(),
            "each secondary index has the entries of all rows"
        );
        let mut progress = SortProgress::new(trx, sorters.iter().map(Sorter::total).sum());
        for (i, (secondary, sorter)) in layout.secondary.iter().zip(sorters).enumerate() {
            let index = &secondary.index;
            let small = sorter.total() < loader.bulk_load_min;
            let done = self.fill(i + 1, index.tree, small, |push| {
                in_order(sorter, index.unique, trx, &mut progress, push)
            });
            if let Err(Error::Duplicate { pk, .. }) = done {
                self.read_duplicate(layout, &pk)?;
                let index = i as u32 + 1;
                return Err(Error::Duplicate { index, pk });
            }
            done?;
        }
        self.check_references(trx, layout)?;
        self.publish(layout)
    }

    fn finish_rows(&mut self, layout: &Layout, sorter: Sorter, trx: &Trx) -> Result<()> {
        let small = sorter.total() < self.loader.bulk_load_min;
        let mut doubled = Vec::new();
        let done = self.fill(0, layout.clustered.tree, small, |push| {
            rows_in_order(sorter, trx, &mut doubled, push)
        });
        if !doubled.is_empty() {
            self.keep_duplicate(layout, &doubled)?;
        }
        done
    }

    fn fill(
        &mut self,
        ordinal: usize,
        tree: Tree,
        small: bool,
        feed: impl FnOnce(Push<'_>) -> Result<()>,
    ) -> Result<()> {
        if small || tree.is_wide() {
            return fill_small(&self.loader.pool, tree, feed);
        }
        let mut load = self.bulk_load(ordinal, tree)?;
        feed(&mut |key, value| load.push(key, value))?;
        link_load(&self.loader.pool, load)
    }

    /// Builds the clustered tree past the pool and the log. It is not linked yet.
    pub(in crate::table) fn build_rows(&mut self, layout: &Layout, trx: &Trx) -> Result<Loaded> {
        debug_assert_ne!(self.stamp, 0, "the tree of a new table is filled at once");
        let sorter = match self.rows.take().ok_or_else(over)? {
            Rows::Gathered { sorter, .. } => sorter,
            Rows::Loading(load) => return load.finish(),
            Rows::Loaded => unreachable!("rows of a table that others know are linked at the end"),
        };
        let mut load = self.bulk_load(0, layout.clustered.tree)?;
        let mut doubled = Vec::new();
        let done = rows_in_order(sorter, trx, &mut doubled, &mut |key, value| load.push(key, value));
        if !doubled.is_empty() {
            self.keep_duplicate(layout, &doubled)?;
        }
        done?;
        load.finish()
    }
    /// The same for a secondary index. `Duplicate`: of index 0, as [`in_order`] says it.
    pub(in crate::table) fn build_entries(
        &mut self,
        i: usize,
        layout: &Layout,
        trx: &Trx,
        sorter: Sorter,
    ) -> Result<Loaded> {
        let index = &layout.secondary[i].index;
        let mut load = self.bulk_load(i + 1, index.tree)?;
        let mut progress = SortProgress::new(trx, sorter.total());
        in_order(sorter, index.unique, trx, &mut progress, &mut |key, value| {
            load.push(key, value)
        })?;
        load.finish()
    }

    /// Views older than this moment are refused from now on; all others see every row. The foreign
    /// keys stay as they are now (K8): parents may have got new names during the load.
    fn publish(&mut self, read: &Layout) -> Result<()> {
        debug_assert!(
            self.rows.is_none() && self.entries.is_empty(),
            "a load is published once all its rows are in their trees"
        );
        let loader = &self.loader;
        let _ddl = loader.tables.start_ddl()?;
        let layout = match planted(Mutant::ForeignKeysAsRead) {
            true => read,
            false => self.table.layout(),
        };
        let mut mtr = loader.pool.begin();
        let saved = save_autoinc(&self.table, layout, &mut mtr);
        mtr.commit();
        self.table.autoinc_is_saved(saved?);
        loader.tables.with_mark(|created| {
            let mut new = layout.clone();
            new.created = created;
            self.table.publish(new);
            Ok(())
        })?;
        self.table.statistics.counts.inserted(self.count);
        loader.counters.rows_inserted.add(self.count);
        loader.redo.flush(loader.redo.lsn(), FlushMode::Sync)
    }

    fn read_duplicate(&mut self, layout: &Layout, pk: &[u8]) -> Result<()> {
        let loader = self.loader.clone();
        let value = match layout.clustered.tree.get(&loader.pool, pk)? {
            Some(leaf) => leaf.value().to_vec(),
            None => return Err(Error::corrupt("an entry being loaded has no row")),
        };
        self.keep_duplicate(layout, &value)
    }
    pub(in crate::table) fn keep_duplicate(&mut self, layout: &Layout, value: &[u8]) -> Result<()> {
        if value[0] & ROW_OVERFLOW != 0 {
            return self
                .loader
                .long_rows
                .read_long_row(layout, &value[ROW_HEADER..], &mut self.duplicate);
        }
        self.duplicate = value[ROW_HEADER..].to_vec();
        Ok(())
    }
    /// The row that a `Duplicate` of `finish` is about.
    pub fn duplicate_row(&self) -> &[u8] {
        &self.duplicate
    }

    /// Aborts the load: frees the pages. The caller then drops the table.
    pub fn abort(mut self) -> Result<()> {
        self.rows = None;
        self.lists.iter().try_for_each(|list| list.free_all(&self.loader.pool))
    }
}

/// Rows by their keys, each once. `doubled`: gets the value of a row whose key comes twice.
fn rows_in_order(sorter: Sorter, trx: &Trx, doubled: &mut Vec<u8>, push: Push<'_>) -> Result<()> {
    let mut last: Option<Vec<u8>> = None;
    sorter.merge(&mut kill_poll(trx), &mut |key, value, _| {
        if last.as_deref() == Some(key) {
            doubled.extend_from_slice(value);
            return Err(duplicate(key));
        }
        let last = last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        push(key, value)
    })
}

fn duplicate(pk: &[u8]) -> Error {
    Error::Duplicate {
        index: 0,
        pk: pk.to_vec(),
    }
}

pub(in crate::table) fn over() -> Error {
    Error::Unsupported("a load that an error has ended".into())
}
