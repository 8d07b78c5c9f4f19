//! CREATE, DROP, RENAME, TRUNCATE of tables. Each statement is atomic and durable on return.
//!
//! The one Mtr that changes the catalog decides. Before it is durable, a crash leaves a file that
//! no catalog entry names, and the engine's open removes that file. After it, the statement has
//! happened. So files are made before that Mtr and removed after it. FILE_DROP is logged in the
//! same Mtr, so that recovery does not look for the file's pages.
//!
//! The checkpoint is held back from the first of these steps to the last. No step waits for another
//! thread: the table's gate is closed before.
//!
//! Latches: none is held between the Mtrs; the DDL mutex is held throughout. Called by the engine
//! and by the C ABI.
use crate::base::sync::holds_no_latch;
use crate::base::sync::RankedGuard;
use crate::base::sync::{holds, Rank};
use crate::base::{planted, sync_point, Counters, Error, FileId, IndexId, Mutant, Result, SyncPoint, TrxId};
use crate::btree::{Tree, WIDE_BIT};
use crate::change::{ChangeBuffer, Delta, DELTA_BIT};
use crate::index::Index;
use crate::pool::{Mtr, Pool};
use crate::redo::{FlushMode, Redo};
use crate::space;
use crate::table::catalog::damage_log::DamageLog;
use crate::table::catalog::dictionary::{Catalog, DdlNumbers};
use crate::table::catalog::foreign_binding::{bind, check_definition, check_waiting_children, Replaced};
use crate::table::catalog::foreign_key::ForeignKeySpec;
use crate::table::catalog::foreign_rename::{
    check_no_child, followers, rename_foreign_keys, replaced, take_as_they_are,
};
use crate::table::catalog::layout::{IndexSpec, Layout, Secondary, TableSpec};
use crate::table::catalog::table::Table;
use crate::table::statistics::state::Statistics;
use crate::txn::{Isolation, ThreadWaiter, Trx, TrxSys};
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// Opens, makes, changes and drops tables.
pub struct Tables {
    pub(in crate::table) pool: Arc<Pool>,
    pub(in crate::table) redo: Arc<Redo>,
    pub(in crate::table) trx_sys: Arc<TrxSys>,
    pub(in crate::table) counters: Arc<Counters>,
    pub(in crate::table) change: Arc<ChangeBuffer>,
    pub(in crate::table) catalog: Arc<Catalog>,
    pub(in crate::table) log: DamageLog,
}

impl Tables {
    pub fn create_table(&self, name: &str, spec: &TableSpec) -> Result<()> {
        self.create_table_as(name, spec, CreateMode::default())
    }
    /// [`Error::ForeignDefinition`], [`Error::ForeignNameTaken`]: of a foreign key in `spec`, or of
    /// one that waits for a parent of this name.
    pub fn create_table_as(&self, name: &str, spec: &TableSpec, mode: CreateMode<'_>) -> Result<()> {
        let mut ddl = self.start_ddl()?;
        if self.catalog.get(name).is_some() {
            return Err(Error::Exists(format!("table {name}")));
        }
        self.with_mark(|created| {
            let _hold = self.redo.hold_checkpoint();
            let mut layout = self.new_incarnation(&mut ddl, spec, if spec.temporary { 0 } else { created })?;
            layout.replaces = mode.replaces.and_then(|old| replaced(&self.catalog, &layout, old));
            sync_point(SyncPoint::FileMade);
            let taken = match mode.replaces.and_then(|old| self.catalog.get(old)) {
                Some(old) => take_as_they_are(&mut layout.foreign, mode.kept_foreign, &old, mode.renamed_columns),
                None => Ok(()),
            };
            let replaces = mode.replaces.map(|name| Replaced {
                name,
                renamed: mode.renamed_columns,
                in_place: mode.in_place,
            });
            let checked = taken.and_then(|()| check_definition(&self.catalog, name, &layout, replaces, mode.unchecked));
            let recorded =
                checked.and_then(|()| self.record(&layout, &[&layout], |mtr| self.catalog.put(mtr, name, &layout)));
            if let Err(e) = recorded {
                self.remove_unrecorded(layout.id, layout.temporary)?;
                return Err(e);
            }
            let mut table = Table::new(name, layout);
            table.statistics = Statistics::empty();
            table.next_row_id.store(1, Ordering::Relaxed);
            table.counters_loaded.store(true, Ordering::Relaxed);
            self.catalog.add(Arc::new(table));
            if let Some(replaces) = mode.replaces {
                let mut foreign = self.catalog.foreign.write();
                foreign.note_made(name, replaces, mode.renamed_columns);
            }
            bind(&self.catalog, &[name]);
            Ok(())
        })
    }

    pub fn drop_table(&self, name: &str) -> Result<()> {
        self.drop_table_as(name, &|_| false)
    }
    /// `may_lose_parent`: whether that child table may lose this parent. Else
    /// [`Error::TableIsReferenced`].
    pub fn drop_table_as(&self, name: &str, may_lose_parent: &dyn Fn(&str) -> bool) -> Result<()> {
        let _ddl = self.start_ddl()?;
        let table = self.table_named(name)?;
        check_no_child(&self.catalog, name, may_lose_parent)?;
        let _gate = table.gate.write();
        let _hold = self.redo.hold_checkpoint();
        let layout = table.layout();
        self.record(layout, &[], |mtr| {
            self.catalog.statistics.remove(mtr, layout.id)?;
            self.catalog.delete(mtr, name)?;
            if !planted(Mutant::DropNotLogged) {
                space::log_drop(mtr, layout.id);
            }
            Ok(())
        })?;
        table.set_dropped();
        self.catalog.forget(name);
        debug_assert!(
            self.catalog.by_id(layout.id).is_none(),
            "a dropped table is found neither by name nor by number"
        );
        self.catalog.foreign.write().forget_alter(name);
        bind(&self.catalog, &[name]);
        self.discard_pending(&layout.secondary);
        space::remove_dropped(&self.pool, layout.id, &|text| self.log.warning(text))
    }

    pub fn rename_table(&self, from: &str, to: &str) -> Result<()> {
        self.rename_table_as(from, to, &RenameMode::default())
    }
    pub fn rename_table_as(&self, from: &str, to: &str, mode: &RenameMode<'_>) -> Result<()> {
        let _ddl = self.start_ddl()?;
        let table = self.table_named(from)?;
        if self.catalog.get(to).is_some() {
            return Err(Error::Exists(format!("table {to}")));
        }
        let mut layout = table.layout().clone();
        layout.created_s = self.pool.disk().wall_s();
        // After a crash only the definition knows it.
        let replaces = layout.replaces.take().filter(|_| mode.kind == RenameKind::IntoPlace);
        let mode = &RenameMode {
            replaces: mode.replaces.or(replaces.as_deref()),
            ..*mode
        };
        if !mode.foreign_names.is_empty() {
            rename_foreign_keys(&mut layout, mode.foreign_names)?;
        }
        let followers = match mode.kind {
            RenameKind::Rename => {
                // As in InnoDB, also while checks are off.
                check_waiting_children(&self.catalog, to, &layout, None, &[])?;
                followers(&self.catalog, from, to, &mut layout)
            }
            RenameKind::OutOfPlace => Vec::new(),
            RenameKind::IntoPlace => {
                if !mode.unchecked {
                    check_waiting_children(&self.catalog, mode.replaces.unwrap_or(to), &layout, None, &[])?;
                }
                match mode.replaces {
                    Some(old) if old != to => followers(&self.catalog, old, to, &mut layout),
                    _ => Vec::new(),
                }
            }
        };
        let mut grown = vec![&layout];
        grown.extend(followers.iter().map(|(_, layout)| layout));
        self.record(&layout, &grown, |mtr| {
            self.catalog.put(mtr, to, &layout)?;
            self.catalog.delete(mtr, from)?;
            let mut children = followers.iter();
            children.try_for_each(|(child, layout)| self.catalog.put(mtr, &child.name(), layout))
        })?;
        self.catalog.renamed(from, to);
        debug_assert!(
            self.catalog.get(to).is_some_and(|now| Arc::ptr_eq(&now, &table)),
            "a renamed table is found by its new name"
        );
        debug_assert!(self.catalog.get(from).is_none(), "the old name of a table is free");
        let replaced = note_alter(&self.catalog, from, to, mode);
        let mut concerned = vec![
            from.to_string(),
            to.to_string(),
            mode.replaces.unwrap_or(to).to_string(),
        ];
        concerned.extend(replaced);
        for (child, layout) in followers {
            concerned.push(child.name());
            child.publish(layout);
        }
        {
            let _gate = table.gate.write();
            table.publish(layout);
        }
        bind(&self.catalog, &Vec::from_iter(concerned.iter().map(String::as_str)));
        Ok(())
    }

    /// Makes a new, empty incarnation in a new file. The caller is the table's only user.
    pub fn truncate_table(&self, name: &str) -> Result<()> {
        self.truncate_table_as(name, &|_| false)
    }
    /// `may_lose_parent`: as in `drop_table_as`.
    pub fn truncate_table_as(&self, name: &str, may_lose_parent: &dyn Fn(&str) -> bool) -> Result<()> {
        self.truncate_tables(&[name], may_lose_parent)
    }
    /// Truncates several tables in one change: after a crash all are empty, or none is.
    pub fn truncate_tables(&self, names: &[&str], may_lose_parent: &dyn Fn(&str) -> bool) -> Result<()> {
        let mut ddl = self.start_ddl()?;
        let tables = names.iter().map(|name| self.table_named(name));
        let tables: Vec<Arc<Table>> = tables.collect::<Result<_>>()?;
        for name in names {
            check_no_child(&self.catalog, name, may_lose_parent)?;
        }
        debug_assert!(
            tables.iter().skip(1).all(|table| !table.layout().temporary) || tables.len() == 1,
            "tables of the catalog are truncated together"
        );
        self.with_mark(|created| {
            let _gates: Vec<_> = tables.iter().map(|table| table.gate.write()).collect();
            let _hold = self.redo.hold_checkpoint();
            let incarnations = self.new_incarnations(&mut ddl, &tables, created)?;
            let grown: Vec<&Layout> = incarnations.iter().collect();
            let recorded = self.record(tables[0].layout(), &grown, |mtr| {
                for ((name, table), new) in names.iter().zip(&tables).zip(&incarnations) {
                    self.catalog.statistics.remove(mtr, table.layout().id)?;
                    self.catalog.put(mtr, name, new)?;
                    space::log_drop(mtr, table.layout().id);
                }
                Ok(())
            });
            if let Err(e) = recorded {
                self.remove_all_unrecorded(&incarnations)?;
                return Err(e);
            }
            let truncated = names.iter().zip(&tables).zip(incarnations);
            for ((name, table), new) in truncated {
                self.publish_incarnation(name, table, new)?;
            }
            Ok(())
        })
    }

    fn new_incarnations(&self, ddl: &mut DdlNumbers, tables: &[Arc<Table>], created: TrxId) -> Result<Vec<Layout>> {
        let mut made = Vec::new();
        for table in tables {
            let old = table.layout();
            match self.new_incarnation(ddl, &spec_of(old), if old.temporary { 0 } else { created }) {
                Ok(mut new) => {
                    new.created_s = old.created_s;
                    made.push(new);
                }
                Err(e) => {
                    self.remove_all_unrecorded(&made)?;
                    return Err(e);
                }
            }
        }
        Ok(made)
    }
    fn remove_all_unrecorded(&self, made: &[Layout]) -> Result<()> {
        made.iter()
            .try_for_each(|new| self.remove_unrecorded(new.id, new.temporary))
    }

    /// The catalog has the new incarnation; its old file goes.
    fn publish_incarnation(&self, name: &str, table: &Arc<Table>, new: Layout) -> Result<()> {
        let (old, id) = (table.layout(), new.id);
        debug_assert_ne!(id, old.id, "I10: a new incarnation has a number of its own");
        debug_assert!(
            new.index_ids().all(|new| old.index_ids().all(|old| old != new)),
            "I10: the indexes of an incarnation have numbers of their own"
        );
        debug_assert_eq!(
            old.secondary.len(),
            new.secondary.len(),
            "an incarnation has the same indexes"
        );
        let indexes: Vec<_> = old.index_ids().zip(new.index_ids()).collect();
        self.discard_pending(&old.secondary);
        table.publish(new);
        self.catalog.renumbered(table, old.id, id);
        bind(&self.catalog, &[name]);
        table.statistics.truncated(&indexes);
        table.autoinc.store(0, Ordering::Relaxed);
        table.autoinc_saved.store(0, Ordering::Relaxed);
        table.next_row_id.store(1, Ordering::Relaxed);
        space::remove_dropped(&self.pool, old.id, &|text| self.log.warning(text))
    }

    pub fn set_table_schema(&self, name: &str, schema: &[u8]) -> Result<()> {
        let _ddl = self.start_ddl()?;
        let table = self.table_named(name)?;
        let mut layout = table.layout().clone();
        layout.schema = schema.to_vec();
        self.record(&layout, &[&layout], |mtr| self.catalog.put(mtr, name, &layout))?;
        table.publish(layout);
        Ok(())
    }

    pub fn table_named(&self, name: &str) -> Result<Arc<Table>> {
        self.catalog
            .get(name)
            .ok_or_else(|| Error::NoSuchTable(name.to_string()))
    }

    pub(in crate::table) fn start_ddl(&self) -> Result<RankedGuard<'_, DdlNumbers>> {
        self.pool.check_alive()?;
        let ddl = self.catalog.begin_ddl();
        debug_assert!(holds_no_latch(), "I5: room in the log is waited for with no latch held");
        self.redo.reserve_wait()?;
        Ok(ddl)
    }

    /// Runs a DDL statement that hides the past. `body` gets a transaction number: a view sees it
    /// only if the view was opened after the statement.
    pub(in crate::table) fn with_mark<T>(&self, body: impl FnOnce(TrxId) -> Result<T>) -> Result<T> {
        let mut trx: Trx = self.trx_sys.new_trx(Arc::new(ThreadWaiter::new()), 0);
        self.trx_sys.start(&mut trx, Isolation::ReadCommitted, 0);
        let id = self.trx_sys.ensure_id(&mut trx)?;
        debug_assert_ne!(id, 0, "every view is younger than 0");
        let result = body(id);
        self.trx_sys.commit(&mut trx);
        debug_assert!(!trx.is_started(), "the mark's transaction ends with its statement");
        result
    }

    /// The deciding Mtr: `change` edits the catalog. Durable on return. A temporary table is in no
    /// catalog. `grown`: the definitions that may take more room than before. A change that takes
    /// no room (DROP) is possible on a full disk.
    pub(in crate::table) fn record(
        &self,
        layout: &Layout,
        grown: &[&Layout],
        change: impl FnOnce(&mut Mtr<'_>) -> Result<()>,
    ) -> Result<()> {
        if layout.temporary {
            return Ok(());
        }
        debug_assert!(
            grown.iter().all(|of| !of.temporary),
            "a temporary table is in no catalog"
        );
        debug_assert!(holds(Rank::Catalog), "the catalog changes under the DDL mutex");
        self.catalog.make_room(&self.pool, grown)?;
        let mut mtr = self.pool.begin();
        if let Err(e) = change(&mut mtr) {
            if mtr.has_changes() {
                // Half a definition must not become part of the catalog.
                self.pool.poison(&format!("the catalog could not be changed: {e}"));
            }
            return Err(e);
        }
        let lsn = mtr.commit();
        self.redo.flush(lsn, FlushMode::Sync)
    }

    /// Makes file, trees and numbers of a new, empty table. On error nothing is left but used-up
    /// numbers.
    fn new_incarnation(&self, ddl: &mut DdlNumbers, spec: &TableSpec, created: TrxId) -> Result<Layout> {
        let mut mtr = self.pool.begin();
        let (id, index) = self
            .catalog
            .take_numbers(ddl, &mut mtr, spec.indexes.len() as u32 + 1)?;
        mtr.commit();
        debug_assert!(self.catalog.by_id(id).is_none(), "I10: a number is never given twice");
        space::create_file(&self.pool, id, spec.temporary)?;
        let made = self.new_trees(id, index, spec);
        let (clustered, secondary) = match made {
            Ok(trees) => trees,
            Err(e) => {
                self.remove_unrecorded(id, spec.temporary)?;
                return Err(e);
            }
        };
        let layout = Layout {
            id,
            temporary: spec.temporary,
            hidden_pk: spec.hidden_pk,
            pk_fixed_len: spec.pk_fixed_len as usize,
            marks_past: spec.marks_past,
            pk_parts: spec.pk_parts.clone(),
            clustered,
            secondary,
            foreign: spec.foreign.iter().cloned().map(Arc::new).collect(),
            replaces: None,
            change_buffering: spec.change_buffering,
            schema: spec.schema.clone(),
            created_s: self.pool.disk().wall_s(),
            created,
            freeing: Vec::new(),
        };
        debug_assert_eq!(
            layout.secondary.len(),
            spec.indexes.len(),
            "a tree for each index of the definition"
        );
        layout.set_up_deltas();
        Ok(layout)
    }

    fn new_trees(&self, file: FileId, first: IndexId, spec: &TableSpec) -> Result<(Index, Vec<Secondary>)> {
        let clustered = self.new_index(file, number(first, spec.wide_pk), "PRIMARY", true, false)?;
        let mut secondary = Vec::with_capacity(spec.indexes.len());
        for (i, s) in spec.indexes.iter().enumerate() {
            let index = self.new_index(
                file,
                number(first + 1 + i as u32, s.wide),
                &s.name,
                s.unique,
                !spec.temporary,
            )?;
            secondary.push(Secondary {
                index,
                quarantined: false,
                created: 0,
                parts: s.parts.clone(),
            });
        }
        Ok((clustered, secondary))
    }

    /// `buffered`: with a delta tree, if it is not wide.
    pub(in crate::table) fn new_index(
        &self,
        file: FileId,
        id: IndexId,
        name: &str,
        unique: bool,
        buffered: bool,
    ) -> Result<Index> {
        let mut mtr = self.pool.begin();
        let ids = [id, id | DELTA_BIT];
        let buffered = buffered && id & WIDE_BIT == 0;
        let trees = Tree::create_many(&mut mtr, file, &ids[..1 + buffered as usize])?;
        debug_assert!(
            trees
                .iter()
                .zip(ids)
                .all(|(tree, id)| (tree.file, tree.index) == (file, id)),
            "each tree bears the number that was given to it (I10)"
        );
        debug_assert_eq!(
            trees.len(),
            1 + buffered as usize,
            "a tree for the entries, and one for what is pending"
        );
        mtr.commit();
        let delta = trees.get(1).map(|tree| self.fresh_delta(*tree));
        Ok(Index::new(name, unique, trees[0], delta))
    }

    pub(in crate::table) fn fresh_delta(&self, tree: Tree) -> Arc<Delta> {
        debug_assert_ne!(
            tree.index & DELTA_BIT,
            0,
            "the number of a delta tree has the mark of one"
        );
        Arc::new(Delta::fresh(tree, &self.change))
    }
    /// Discards the pending changes of dropped indexes, and gives their memory back.
    pub(in crate::table) fn discard_pending<'a>(&self, secondary: impl IntoIterator<Item = &'a Secondary>) {
        for delta in secondary.into_iter().filter_map(|s| s.index.delta.as_ref()) {
            self.discard_delta(delta);
            delta.give_back_memory();
        }
    }
    /// Discards the pending changes of the tree: they are no debt of the change buffer any more.
    pub(in crate::table) fn discard_delta(&self, delta: &Delta) {
        let entries = delta.discard();
        self.counters.change_buffer_discarded.add(entries);
        self.counters.change_buffer_reads_avoided.add(entries);
    }

    /// Removes a file that no catalog entry names.
    fn remove_unrecorded(&self, id: FileId, temporary: bool) -> Result<()> {
        assert!(
            self.catalog.by_id(id).is_none(),
            "the file of a table is removed by DROP alone"
        );
        self.pool.check_alive()?;
        if !temporary {
            let mut mtr = self.pool.begin();
            space::log_drop(&mut mtr, id);
            let lsn = mtr.commit();
            self.redo.flush(lsn, FlushMode::Sync)?;
        }
        space::remove_dropped(&self.pool, id, &|text| self.log.warning(text))
    }
}

/// How a table is created.
#[derive(Clone, Copy, Default)]
pub struct CreateMode<'a> {
    /// The table whose place it will take: it may have the same foreign keys.
    pub replaces: Option<&'a str>,
    /// Columns of that table which have new names in this one, (old, new). When `replace_tables`
    /// puts this one in its place, the foreign keys of other tables follow.
    pub renamed_columns: &'a [(&'a str, &'a str)],
    /// `replace_tables` will put it in its place: children that do not fit that table need not fit
    /// this one.
    pub in_place: bool,
    /// So many of the foreign keys, the first ones, are that table's: K8.
    pub kept_foreign: usize,
    /// Parents may be missing, and children may not fit.
    pub unchecked: bool,
}

/// What a new name of a table means to the foreign keys that name it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum RenameKind {
    /// They follow.
    #[default]
    Rename,
    /// They mean the table still, until another table has the old name.
    OutOfPlace,
    /// They have waited for this table.
    IntoPlace,
}

#[derive(Clone, Copy, Default)]
pub struct RenameMode<'a> {
    pub kind: RenameKind,
    /// New names of the table's own foreign keys, in their order; empty: they stay.
    pub foreign_names: &'a [String],
    /// `IntoPlace`: the name of the table that this one replaces, if it is not the new name.
    pub replaces: Option<&'a str>,
    /// Children that wait for the table need not fit.
    pub unchecked: bool,
}

/// Notes which tables an ALTER TABLE has moved. Returns the name now of the table that this one has
/// replaced.
fn note_alter(catalog: &Catalog, from: &str, to: &str, mode: &RenameMode<'_>) -> Option<String> {
    let mut foreign = catalog.foreign.write();
    let old_name = mode.replaces.unwrap_or(to);
    let replaced = foreign.moved_to(old_name).map(str::to_string);
    debug_assert!(holds(Rank::Catalog), "names move under the DDL mutex");
    foreign.forget_alter(from);
    foreign.forget_alter(old_name);
    if mode.kind == RenameKind::OutOfPlace {
        foreign.note_moved(from, to);
    }
    replaced
}

/// The number of an index, with what it says of its tree.
pub(in crate::table) fn number(id: IndexId, wide: bool) -> IndexId {
    debug_assert_eq!(id & (WIDE_BIT | DELTA_BIT), 0, "numbers are given without marks (I10)");
    id | if wide { WIDE_BIT } else { 0 }
}

/// The definition that the table would be created from.
fn spec_of(layout: &Layout) -> TableSpec {
    TableSpec {
        temporary: layout.temporary,
        hidden_pk: layout.hidden_pk,
        wide_pk: layout.clustered.tree.is_wide(),
        pk_fixed_len: layout.pk_fixed_len as u32,
        marks_past: layout.marks_past,
        pk_parts: layout.pk_parts.clone(),
        foreign: layout.foreign.iter().map(|key| ForeignKeySpec::clone(key)).collect(),
        indexes: (layout.secondary.iter())
            .map(|s| IndexSpec {
                name: s.index.name.clone(),
                unique: s.index.unique,
                wide: s.index.tree.is_wide(),
                parts: s.parts.clone(),
            })
            .collect(),
        change_buffering: layout.change_buffering,
        schema: layout.schema.clone(),
    }
}
