//! The trees of dropped indexes, and of index builds that were aborted. A list in the catalog has
//! them until their pages are free.
//!
//! Takes a table's gate and the DDL mutex, one after the other. Called by ALTER TABLE, by an index
//! build that gives up, and after the engine was opened.
use crate::base::sync::holds_no_latch;
use crate::base::{sync_point, IndexId, Result, SyncPoint};
use crate::btree::Tree;
use crate::change::DELTA_BIT;
use crate::pool::Pool;
use crate::table::catalog::damage_log::DamageLog;
use crate::table::catalog::ddl::Tables;
use crate::table::catalog::dictionary::Catalog;
use crate::table::catalog::table::Table;
use std::sync::Arc;

/// The right to free a tree on the list: one thread has it at a time.
struct Claim<'a> {
    table: &'a Table,
    index: IndexId,
}

impl<'a> Claim<'a> {
    /// None: the tree was published or freed since the list was read, is being built, or is being
    /// freed. The table's gate is held.
    fn of(table: &'a Table, index: IndexId) -> Option<Claim<'a>> {
        debug_assert!(
            table.gate.is_locked(),
            "the table is not dropped while a tree of it is claimed"
        );
        // A build registers in `building` before its tree stands on the list. It is published with
        // the gate held, and leaves `building` after that.
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
        let mut taken = self.table.building.lock();
        debug_assert!(taken.contains(&self.index), "only the claim's holder gives it back");
        taken.retain(|id| *id != self.index);
    }
}

/// Frees trees that stand on the list.
pub(in crate::table) struct TreeFreer {
    pub pool: Arc<Pool>,
    pub catalog: Arc<Catalog>,
    pub tables: Arc<Tables>,
    pub log: DamageLog,
}

impl TreeFreer {
    /// Frees the trees of dropped indexes and of builds that were given up, but not of builds under
    /// way. The statement that dropped an index has happened, and no error may say otherwise. So
    /// pages that cannot be freed now stay on the list, and the next start tries again.
    pub fn free_what_can_be(&self, table: &Table) {
        debug_assert!(holds_no_latch(), "I5: the pages of a tree are freed with no latch held");
        let layout = table.layout();
        for (index, root) in &layout.freeing {
            sync_point(SyncPoint::TreeToBeFreed);
            let Err(e) = self.free_tree(table, &layout.tree(*root, *index)) else {
                continue;
            };
            let named = self.log.name_damage(e);
            self.log
                .error(&format!("pages of a dropped index are not freed yet: {named}"));
        }
    }

    /// Frees a tree that stands on the list and that no other thread frees. Takes it off the list.
    pub fn free_tree(&self, table: &Table, tree: &Tree) -> Result<()> {
        let _claim = {
            // Not held with the DDL mutex: DROP TABLE takes them in the other order.
            let _gate = table.gate.read();
            if table.is_dropped() || table.layout().id != tree.file {
                return Ok(());
            }
            let Some(claim) = Claim::of(table, tree.index) else {
                return Ok(());
            };
            // It may be the tree of a load that was given up.
            table.append_hint.begin_load();
            let freed = self.free_pages(table, tree);
            table.append_hint.begin_load();
            if !freed? {
                return Ok(());
            }
            claim
        };
        let _ddl = self.tables.start_ddl()?;
        let mut new = table.layout().clone();
        if table.is_dropped() || new.id != tree.file {
            return Ok(());
        }
        debug_assert!(
            new.freeing.iter().any(|(id, _)| *id == tree.index),
            "only the claim's holder takes a tree off the list"
        );
        new.freeing.retain(|(id, _)| *id != tree.index);
        self.tables
            .record(&new, &[], |mtr| self.catalog.put(mtr, &table.name(), &new))?;
        table.publish(new);
        Ok(())
    }

    /// Frees the tree's pages. A tree with a broken page is not walked: its pages are found by
    /// their own headers, and the broken ones are lost. False: not now, the next start tries again.
    fn free_pages(&self, table: &Table, tree: &Tree) -> Result<bool> {
        debug_assert!(
            table.building.lock().contains(&tree.index),
            "a tree is freed by the thread that has claimed it"
        );
        let why = match crate::btree::TreeRemover::new(&self.pool, tree).remove() {
            Err(e) if e.is_corrupt() => self.log.name_damage(e),
            done => return done.map(|()| true),
        };
        let lost = crate::btree::TreeRemover::new(&self.pool, tree).remove_scattered()?;
        let left = match lost {
            Some(0) => "is freed completely, although a page of it cannot be read".into(),
            Some(lost) => format!("is freed except for {lost} pages that cannot be read"),
            None => {
                "is freed after the next start, because a load, or the freeing of another index, is running in the table".into()
            }
        };
        let table = self.catalog.shown(table);
        self.log.error(&format!("table {table}: a dropped index {left}; {why}"));
        Ok(lost.is_some())
    }

    pub fn resume_freeing(&self) {
        for table in self.catalog.tables() {
            if table.broken().is_none() {
                self.free_what_can_be(&table);
            }
        }
    }
}
