//! ALTER TABLE of indexes: adds, drops and renames of several tables become one atomic, durable
//! change of the catalog.
//!
//! Takes the DDL mutex, and each table's gate while its layout is published. Called by the engine
//! and by the C ABI.
use crate::base::{planted, Error, ForeignFault, Mutant, Result, TrxId};
use crate::change::{Buffering, DELTA_BIT};
use crate::table::bulk::index_build::{IndexBuild, IndexBuilder};
use crate::table::catalog::foreign_binding::{bind, check_own, needs_lost_index};
use crate::table::catalog::foreign_key::ForeignKeySpec;
use crate::table::catalog::foreign_rename::{followers_of_columns, take_as_they_are};
use crate::table::catalog::key_part::KeyPart;
use crate::table::catalog::layout::{Layout, Secondary};
use crate::table::catalog::table::Table;
use crate::table::statistics::state::PageCounts;
use std::sync::Arc;

/// What one ALTER TABLE changes about the indexes of a table.
pub struct IndexChange<'a> {
    pub table: &'a Arc<Table>,
    pub drop: Vec<&'a str>,
    /// (old name, new name)
    pub rename: Vec<(&'a str, &'a str)>,
    pub add: Vec<&'a IndexBuild>,
    /// All indexes of the table afterwards.
    pub order: Vec<&'a str>,
    /// As in `TableSpec`.
    pub change_buffering: Option<Buffering>,
    pub schema: &'a [u8],
    pub keys: KeyChange<'a>,
}

/// What one ALTER TABLE changes about the parts of keys, and about foreign keys.
#[derive(Default)]
pub struct KeyChange<'a> {
    /// The parts of the keys afterwards: of the clustered index, then of each index in `order`.
    /// Empty: as before.
    pub parts: Vec<Vec<KeyPart>>,
    /// The table's foreign keys afterwards; None: as before.
    pub foreign: Option<Vec<ForeignKeySpec>>,
    /// So many of them, the first ones, the table has already: K8.
    pub kept_foreign: usize,
    /// Columns with new names, (old, new): foreign keys of other tables follow.
    pub renamed_columns: Vec<(&'a str, &'a str)>,
    /// Foreign keys may lack a parent or an index.
    pub unchecked: bool,
}

impl IndexBuilder {
    /// One atomic, durable change of all tables named: publishes finished builds, drops and renames
    /// indexes, sets order and schema.
    pub fn alter_indexes(&self, changes: &[IndexChange<'_>]) -> Result<()> {
        let ddl = self.tables.start_ddl()?;
        debug_assert!(
            is_each_once(changes),
            "a table is altered once in a statement: a second definition would lose the first"
        );
        self.tables.with_mark(|created| {
            let mut layouts = Vec::with_capacity(changes.len());
            for change in changes {
                let mut layout = change.applied(created)?;
                layout.created_s = self.pool.disk().wall_s();
                self.check_foreign(change, &layout)?;
                layouts.push(layout);
            }
            let Some(first) = layouts.first() else {
                return Ok(());
            };
            let followers = self.followers(changes);
            debug_assert!(
                followers
                    .iter()
                    .all(|(child, _)| changes.iter().all(|change| !Arc::ptr_eq(change.table, child))),
                "a child that follows a renamed column is not altered by the same statement"
            );
            let mut all: Vec<&Layout> = layouts.iter().collect();
            all.extend(followers.iter().map(|(_, layout)| layout));
            // The partitions of a table: all of them are temporary, or none.
            self.tables.record(first, &all, |mtr| {
                let mut both = changes.iter().zip(&layouts);
                both.try_for_each(|(change, layout)| self.catalog.put(mtr, &change.table.name(), layout))?;
                let mut children = followers.iter();
                children.try_for_each(|(child, layout)| self.catalog.put(mtr, &child.name(), layout))
            })?;
            for (child, layout) in followers {
                child.publish(layout);
            }
            for (change, layout) in changes.iter().zip(layouts) {
                let _gate = change.table.gate.write();
                let old = change.table.layout();
                let dropped = |s: &&Secondary| layout.secondary_by_id(s.index.id).is_none();
                self.tables.discard_pending(old.secondary.iter().filter(dropped));
                layout.set_up_deltas();
                change.table.publish(layout);
                bind(&self.catalog, &[&change.table.name()]);
            }
            Ok(())
        })?;
        for change in changes {
            debug_assert!(
                change
                    .add
                    .iter()
                    .all(|build| change.table.building.lock().contains(&build.index().id)),
                "the tree of a build is kept from being freed until it is published"
            );
            let added = |id: &u32| change.add.iter().any(|b| b.index().id == *id);
            change.table.building.lock().retain(|id| !added(id));
            // The counts are by ordinal: those of a dropped index must not become another's.
            *change.table.page_counts.lock() = PageCounts::default();
        }
        std::mem::drop(ddl);
        changes
            .iter()
            .for_each(|change| self.freer.free_what_can_be(change.table));
        Ok(())
    }

    /// Checks that the foreign keys of the new definition have parents and indexes.
    fn check_foreign(&self, change: &IndexChange<'_>, new: &Layout) -> Result<()> {
        let (name, old) = (change.table.name(), change.table.layout());
        if change.keys.foreign.is_some() {
            check_own(&self.catalog, &name, new, Some(&name), change.keys.unchecked)?;
        }
        let index_goes = old.secondary.iter().any(|s| new.secondary_by_id(s.index.id).is_none());
        if !index_goes || change.keys.unchecked {
            return Ok(());
        }
        match needs_lost_index(&self.catalog, &name, old, new, &change.keys.renamed_columns) {
            Some((child, spec)) => Err(Error::ForeignNeedsIndex(Box::new(ForeignFault {
                child,
                constraint: spec.name.clone(),
                index: 0,
            }))),
            None => Ok(()),
        }
    }
    fn followers(&self, changes: &[IndexChange<'_>]) -> Vec<(Arc<Table>, Layout)> {
        let renaming = changes.iter().filter(|change| !change.keys.renamed_columns.is_empty());
        renaming
            .flat_map(|change| followers_of_columns(&self.catalog, &change.table.name(), &change.keys.renamed_columns))
            .collect()
    }

    /// Frees the remaining pages of dropped indexes, after a restart.
    pub fn resume_freeing(&self) {
        self.freer.resume_freeing();
    }
}

impl IndexChange<'_> {
    /// The table's layout with this change. Names are those before the change, so a dropped index's
    /// name is free for another.
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
            assert!(build.is_finished(), "only finished builds are published");
            assert_eq!(
                build.index().tree.file,
                new.id,
                "the tree of a build lies in the file of its table"
            );
            debug_assert!(
                new.secondary_by_id(build.index().id).is_none(),
                "I10: an index that is added has a number of its own"
            );
            new.freeing.retain(|(id, _)| id & !DELTA_BIT != build.index().id);
            new.secondary.push(Secondary {
                index: build.index().clone(),
                quarantined: false,
                created,
                parts: Vec::new(),
            });
        }
        sort_by_names(&mut new, &self.order)?;
        if let Some((clustered, others)) = self.keys.parts.split_first() {
            if others.len() != new.secondary.len() {
                return Err(Error::Invalid("the parts of each index must be given".into()));
            }
            new.pk_parts.clone_from(clustered);
            new.secondary
                .iter_mut()
                .zip(others)
                .for_each(|(s, parts)| s.parts.clone_from(parts));
        }
        if let Some(foreign) = &self.keys.foreign {
            new.foreign = foreign.iter().cloned().map(Arc::new).collect();
            take_as_they_are(
                &mut new.foreign,
                self.keys.kept_foreign,
                self.table,
                &self.keys.renamed_columns,
            )?;
        }
        debug_assert!(
            new.freeing
                .iter()
                .all(|(id, _)| new.secondary_by_id(id & !DELTA_BIT).is_none()),
            "a tree that is to be freed belongs to no index"
        );
        Ok(new)
    }
}

fn place_of(layout: &Layout, name: &str) -> Result<usize> {
    let found = layout.secondary.iter().position(|s| s.index.name == name);
    found.ok_or_else(|| Error::NoSuchTable(format!("index {name}")))
}

fn is_each_once(changes: &[IndexChange<'_>]) -> bool {
    let before = |i: usize| changes[..i].iter();
    let mut all = changes.iter().enumerate();
    all.all(|(i, change)| before(i).all(|other| !Arc::ptr_eq(other.table, change.table)))
}

/// The order must name every index once: two of one name cannot pass.
fn sort_by_names(layout: &mut Layout, order: &[&str]) -> Result<()> {
    let place = |s: &Secondary| order.iter().position(|name| *name == s.index.name);
    layout.secondary.sort_by_key(place);
    let places = layout.secondary.iter().map(place);
    if !places.eq((0..order.len()).map(Some)) {
        return Err(Error::Unsupported("the order does not name every index once".into()));
    }
    Ok(())
}
