//! Loads of an empty table that other transactions can use: what differs from a load of a new table
//! (`table_load.rs`).
//!
//! Rows and entries are stamped with the transaction's id, and have no undo pointer. For views that
//! do not see the transaction, they have no older version. The maker has an implicit lock on each
//! row, as on any other.
//!
//! From the check that the table is empty until everything is linked, no other transaction inserts.
//! All keys of the clustered index are range-locked, and an insert checks range locks under the
//! latch of its leaf. The table is empty if all its trees are empty, and no change is buffered. So
//! there is no older version, and no older entry. (An empty clustered tree alone proves nothing
//! about entries. Purge processes undo streams in any order, so changes of entries of a purged row
//! may still be buffered.)
//!
//! Two undo records (`undo/load_rollback.rs`) cover the load. LOAD BEGUN names the lists of
//! extents, before there are any. LOAD LINKED says that rows may be in the trees, before the first
//! tree is linked. The records of long rows come between the two.
//!
//! Nothing is linked before all trees are forced to disk, and all unique indexes are checked. Only
//! rows that came out of order, after many in order, are placed in the linked clustered tree. Each
//! is an insert of its own, and waits for range locks that others took after the link.
//!
//! Latches: none between calls; a root (X) while it is linked, a leaf (X) while a late row is
//! placed. Called by `insert_select`.
use crate::base::sync::holds_no_latch;
use crate::base::{sync_point, Error, IndexId, Result, SyncPoint};
use crate::btree::extents::ExtentList;
use crate::btree::load::Loaded;
use crate::btree::Tree;
use crate::table::bulk::fill::kill_poll;
use crate::table::bulk::sort::Sorter;
use crate::table::bulk::table_load::{TableLoad, TableLoader};
use crate::table::catalog::layout::Layout;
use crate::table::catalog::table::Table;
use crate::table::row::autoinc::save_autoinc;
use crate::table::row::undo_record;
use crate::txn::Trx;
use std::sync::atomic::{fence, Ordering};
use std::sync::Arc;

impl TableLoader {
    /// True: the table is empty, and no other transaction inserts into it before
    /// [`TableLoader::let_others_insert`] or the transaction's end.
    pub(in crate::table) fn take_empty_table(&self, trx: &mut Trx, table: &Table) -> Result<bool> {
        let layout = table.layout();
        if !self.has_empty_trees(layout)? {
            return Ok(false);
        }
        self.rows.begin_change(trx)?;
        debug_assert!(!layout.temporary, "a temporary table is filled row by row");
        let locks = self.trx_sys.locks();
        if !locks.lock_whole(trx, layout.clustered.id) {
            return Ok(false);
        }
        // As in `RowWriter::ranges_still_free`: an insert under a leaf's latch came before, and is
        // seen here, or it finds the range lock.
        fence(Ordering::SeqCst);
        let free = all_indexes(layout).all(|index| locks.whole_is_free(trx, index));
        let taken = match free {
            true => self.has_empty_trees(layout),
            false => Ok(false),
        };
        if taken != Ok(true) {
            locks.unlock_whole(trx, layout.clustered.id);
        }
        taken
    }
    pub(in crate::table) fn let_others_insert(&self, trx: &mut Trx, table: &Table) {
        self.trx_sys.locks().unlock_whole(trx, table.layout().clustered.id);
    }

    /// All trees of the table are empty, and no change is buffered.
    pub(crate) fn has_empty_trees(&self, layout: &Layout) -> Result<bool> {
        if layout.temporary || !layout.clustered.tree.is_empty(&self.pool)? {
            return Ok(false);
        }
        for s in &layout.secondary {
            if s.quarantined {
                return Ok(false);
            }
            // First the buffered changes, then the tree: changes that are merged in between are
            // found in the tree.
            if let Some(delta) = &s.index.delta {
                delta.load(&self.pool)?;
                if !delta.is_empty() {
                    return Ok(false);
                }
            }
            sync_point(SyncPoint::NothingPending);
            if !s.index.tree.is_empty(&self.pool)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// After `take_empty_table`.
    pub(in crate::table) fn begin_load_by(
        self: &Arc<TableLoader>,
        trx: &mut Trx,
        table: &Arc<Table>,
    ) -> Result<TableLoad> {
        let layout = table.layout();
        let indexes: Vec<IndexId> = all_indexes(layout).collect();
        let mut undo = Vec::new();
        let anywhere = indexes.iter().map(|index| (*index, u32::MAX));
        undo_record::load(&mut undo, layout.id, false, anywhere);
        self.trx_sys.undo.allow_loads()?;
        self.redo.reserve_wait()?;
        // As for a long row's chain: the Mtr below latches the table's space pages first.
        self.trx_sys.reserve_undo(trx, undo.len())?;
        let reserved = undo.len();
        let mut mtr = self.pool.begin();
        let lists = ExtentList::create_many(&mut mtr, layout.id, &indexes, trx.id())?;
        undo_record::load(&mut undo, layout.id, false, named(&lists));
        debug_assert!(
            undo.len() <= reserved,
            "the record takes no more room than was reserved for it"
        );
        let logged = self.trx_sys.append_undo(trx, &mut mtr, &undo);
        if logged.is_err() {
            ExtentList::take_back(&mut mtr, &lists)?;
        }
        let lsn = mtr.commit();
        logged?;
        trx.note_lsn(lsn);
        trx.note_load();
        table.append_hint.begin_load();
        debug_assert_ne!(
            trx.id(),
            0,
            "the rows of a load bear the number of its transaction (I10)"
        );
        Ok(self.new_load(table, trx.id(), lists))
    }
}

fn all_indexes(layout: &Layout) -> impl Iterator<Item = IndexId> + '_ {
    std::iter::once(layout.clustered.id).chain(layout.secondary.iter().map(|s| s.index.id))
}

fn named(lists: &[ExtentList]) -> impl ExactSizeIterator<Item = (IndexId, u32)> + '_ {
    lists.iter().map(|list| (list.index, list.page))
}

impl TableLoad {
    /// Builds all trees, and links them. On `Duplicate` nothing is linked, except if rows came
    /// late. After an error the statement's rollback removes the rest.
    pub(in crate::table) fn finish_by(&mut self, trx: &mut Trx) -> Result<()> {
        let table = self.table.clone();
        let layout = table.layout();
        debug_assert_eq!(
            trx.id(),
            self.stamp,
            "a load is linked by the transaction whose number its rows bear"
        );
        let mut rows = Some(self.build_rows(layout, trx)?);
        if let Some(late) = self.late.take() {
            self.link_rows(trx, layout, &rows.take().expect("just built"))?;
            sync_point(SyncPoint::LateToBePlaced);
            self.place_late(trx, layout, late)?;
        }
        let mut indexes = Vec::with_capacity(layout.secondary.len());
        for (i, sorter) in std::mem::take(&mut self.entries).into_iter().enumerate() {
            let built = self.build_entries(i, layout, trx, sorter);
            indexes.push(built.or_else(|e| self.name_duplicate(layout, rows.as_ref(), i, e))?);
        }
        if let Some(rows) = rows {
            self.link_rows(trx, layout, &rows)?;
        }
        debug_assert_eq!(
            indexes.len(),
            layout.secondary.len(),
            "each index is built before the first one is linked"
        );
        for (secondary, built) in layout.secondary.iter().zip(&indexes) {
            self.link(trx, secondary.index.tree, built)?;
        }
        table.append_hint.begin_load();
        self.loader.counters.rows_inserted.add(self.count);
        Ok(())
    }

    fn place_late(&mut self, trx: &mut Trx, layout: &Layout, late: Sorter) -> Result<()> {
        debug_assert!(
            self.rows.is_none(),
            "rows that came late are placed after the others are built"
        );
        let mut doubled = Vec::new();
        let done = late.merge(&mut kill_poll(trx), &mut |pk, value, _| {
            let placed = self.place_late_row(trx, layout, pk, value);
            placed.inspect_err(|_| doubled.extend_from_slice(value))
        });
        if matches!(done, Err(Error::Duplicate { .. })) {
            self.keep_duplicate(layout, &doubled)?;
        }
        done
    }

    /// Readers know the tree already. So this works as `link` does, with the leaf's latch and the
    /// row's key.
    fn place_late_row(&self, trx: &mut Trx, layout: &Layout, pk: &[u8], value: &[u8]) -> Result<()> {
        let index = layout.clustered.id;
        let locks = self.loader.trx_sys.locks();
        loop {
            let placed = self.place_if(&layout.clustered.tree, pk, value, &mut || {
                // As in `RowWriter::ranges_still_free`, with the latch for the change.
                fence(Ordering::SeqCst);
                locks.insert_is_free(trx, index, pk)
            })?;
            if let Some(lsn) = placed {
                trx.note_lsn(lsn);
                self.table.statistics.counts.inserted(1);
                return Ok(());
            }
            locks.check_insert(trx, index, pk)?;
        }
    }

    /// Links the clustered tree, the first one. Its rows are counted here and not at the end,
    /// because a rollback counts the rows that it removes from it.
    fn link_rows(&self, trx: &mut Trx, layout: &Layout, rows: &Loaded) -> Result<()> {
        assert!(
            rows.entries <= self.count,
            "no more rows are linked than were added: a rollback counts them"
        );
        self.log_link(trx, layout)?;
        self.link(trx, layout.clustered.tree, rows)?;
        self.table.statistics.counts.inserted(rows.entries);
        Ok(())
    }

    /// Logs LOAD LINKED, and the AUTO_INCREMENT counter: no value of a row may be given again.
    fn log_link(&self, trx: &mut Trx, layout: &Layout) -> Result<()> {
        let loader = &self.loader;
        self.table.append_hint.begin_load();
        let mut undo = Vec::new();
        undo_record::load(&mut undo, layout.id, true, named(&self.lists));
        loader.redo.reserve_wait()?;
        let mut mtr = loader.pool.begin();
        loader.trx_sys.append_undo(trx, &mut mtr, &undo)?;
        let lsn = mtr.commit();
        trx.note_lsn(lsn);
        let mut mtr = loader.pool.begin();
        let saved = save_autoinc(&self.table, layout, &mut mtr);
        mtr.commit();
        self.table.autoinc_is_saved(saved?);
        Ok(())
    }

    /// A SERIALIZABLE reader first locks its range and then reads. The load checks for range locks
    /// under the root's latch. So one of the two finds the other.
    fn link(&self, trx: &mut Trx, tree: Tree, built: &Loaded) -> Result<()> {
        let loader = &self.loader;
        debug_assert!(holds_no_latch(), "I5: range locks are waited for with no latch held");
        let locks = loader.trx_sys.locks();
        loop {
            locks.wait_for_whole(trx, tree.index)?;
            loader.redo.reserve_wait()?;
            let mut mtr = loader.pool.begin();
            let mut free = false;
            let linked = built.link_if(&mut mtr, &mut || {
                free = locks.whole_is_free(trx, tree.index);
                free
            })?;
            let lsn = mtr.commit();
            if linked {
                trx.note_lsn(lsn);
                return Ok(());
            }
            assert!(!free, "no other transaction inserts while all keys are locked");
        }
    }

    /// The error for a duplicate value in a unique index: names the index, and keeps the row.
    /// `rows`: if they are not linked yet.
    fn name_duplicate(&mut self, layout: &Layout, rows: Option<&Loaded>, i: usize, e: Error) -> Result<Loaded> {
        let Error::Duplicate { pk, .. } = e else {
            return Err(e);
        };
        let pool = self.loader.pool.clone();
        let value = match rows {
            Some(rows) => rows.find(&pool, &pk)?,
            None => layout.clustered.tree.get(&pool, &pk)?.map(|leaf| leaf.value().to_vec()),
        };
        let Some(value) = value else {
            return Err(Error::corrupt("an entry being loaded has no row"));
        };
        self.keep_duplicate(layout, &value)?;
        let index = i as u32 + 1;
        Err(Error::Duplicate { index, pk })
    }
}
