//! Replaces the contents of tables by those of other tables. This is the last step of an ALTER
//! TABLE that has rebuilt a table, or its partitions, while writers went on.
//!
//! One Mtr decides for all of them. Until that Mtr is durable, a rebuilt table has a name of its
//! own. The user of the engine drops such a table after a crash. Once the Mtr is durable, the old
//! contents are gone, as after DROP TABLE.
//!
//! Latches: none is held between the Mtrs; the DDL mutex is held throughout. Called by the engine
//! and by the C ABI.
use crate::base::{planted, Error, Mutant, Result, TrxId};
use crate::space;
use crate::table::catalog::ddl::Tables;
use crate::table::catalog::foreign_binding::{bind, borrowed, check_definition, Replaced};
use crate::table::catalog::foreign_rename::followers_of_columns;
use crate::table::catalog::layout::Layout;
use crate::table::catalog::table::Table;
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// A table, and the name of the rebuilt table that replaces its contents.
pub struct Replacement<'a> {
    pub table: &'a Arc<Table>,
    pub rebuilt: &'a str,
    /// The rebuilt table has given its rows numbers of a new AUTO_INCREMENT column. The counter of
    /// the old column ends.
    pub has_own_counter: bool,
}

/// A replacement, with what it needs from the catalog.
struct Pair<'a> {
    table: &'a Arc<Table>,
    name: String,
    rebuilt: &'a str,
    has_own_counter: bool,
    rebuilt_table: Arc<Table>,
    new: Layout,
    /// Columns with new names, (old, new).
    renamed: Vec<(String, String)>,
}

impl Tables {
    /// Gives each table the trees, rows, definition and foreign keys of its rebuilt table, whose
    /// name is gone then. No other user has any of these tables in use. The foreign keys of other
    /// tables follow to the new names of columns. `unchecked`: foreign keys may lack a parent, and
    /// children may not fit.
    pub fn replace_tables(&self, replacements: &[Replacement<'_>], unchecked: bool) -> Result<()> {
        let _ddl = self.start_ddl()?;
        let Some(first) = replacements.first() else {
            return Ok(());
        };
        self.with_mark(|created| {
            let mut pairs = Vec::with_capacity(replacements.len());
            for replacement in replacements {
                let pair = self.pair(replacement, created)?;
                self.keep_counter(&pair)?;
                pairs.push(pair);
            }
            let gates = pairs.iter().flat_map(|pair| [pair.table, &pair.rebuilt_table]);
            let gates = Vec::from_iter(gates.map(|table| table.gate.write()));
            let _hold = self.redo.hold_checkpoint();
            let mut followers = Vec::new();
            for pair in &pairs {
                let renamed = &borrowed(&pair.renamed)[..];
                let replaces = Some(Replaced {
                    name: &pair.name,
                    renamed,
                    in_place: true,
                });
                check_definition(&self.catalog, pair.rebuilt, &pair.new, replaces, unchecked)?;
                followers.extend(followers_of_columns(&self.catalog, &pair.name, renamed));
            }
            debug_assert!(
                followers
                    .iter()
                    .all(|(child, _)| pairs.iter().all(|pair| !Arc::ptr_eq(pair.table, child))),
                "a child that follows a column is not replaced by the same statement"
            );
            if planted(Mutant::ChildrenKeepOldNames) {
                followers.clear();
            }
            let all = pairs.iter().map(|pair| &pair.new);
            let all = Vec::from_iter(all.chain(followers.iter().map(|(_, layout)| layout)));
            self.record(first.table.layout(), &all, |mtr| {
                pairs.iter().try_for_each(|pair| {
                    let old = pair.table.layout().id;
                    self.catalog.statistics.remove(mtr, old)?;
                    self.catalog.put(mtr, &pair.name, &pair.new)?;
                    self.catalog.delete(mtr, pair.rebuilt)?;
                    space::log_drop(mtr, old);
                    Ok(())
                })?;
                let mut children = followers.iter();
                children.try_for_each(|(child, layout)| self.catalog.put(mtr, &child.name(), layout))
            })?;
            for (child, layout) in followers {
                child.publish(layout);
            }
            let mut removed = Ok(());
            for pair in &pairs {
                // Each old file is removed, also after a failure with another one.
                removed = removed.and(self.publish_rebuilt(pair));
            }
            std::mem::drop(gates);
            removed
        })
    }

    /// The same for one table.
    pub fn replace_table(&self, table: &Arc<Table>, rebuilt: &str, unchecked: bool) -> Result<()> {
        let replacement = Replacement {
            table,
            rebuilt,
            has_own_counter: false,
        };
        self.replace_tables(&[replacement], unchecked)
    }

    fn pair<'a>(&self, replacement: &Replacement<'a>, created: TrxId) -> Result<Pair<'a>> {
        let rebuilt_table = self.table_named(replacement.rebuilt)?;
        if replacement.table.layout().temporary || rebuilt_table.layout().temporary {
            return Err(Error::Unsupported("a temporary table is not rebuilt in place".into()));
        }
        assert!(
            !Arc::ptr_eq(replacement.table, &rebuilt_table),
            "a table is replaced by another one"
        );
        let mut new = rebuilt_table.layout().clone();
        new.created = created;
        new.replaces = None;
        new.created_s = self.pool.disk().wall_s();
        Ok(Pair {
            table: replacement.table,
            name: replacement.table.name(),
            rebuilt: replacement.rebuilt,
            has_own_counter: replacement.has_own_counter,
            rebuilt_table,
            new,
            renamed: self.catalog.foreign.read().renamed_by(replacement.rebuilt),
        })
    }

    /// The AUTO_INCREMENT counter goes into the header of the rebuilt table's file: no row of it
    /// has raised a counter. It is durable before the deciding Mtr, since the next statement may
    /// come after a restart.
    fn keep_counter(&self, pair: &Pair<'_>) -> Result<()> {
        let next = match pair.has_own_counter {
            true => pair.rebuilt_table.autoinc(),
            false => pair.table.autoinc(),
        };
        match pair.has_own_counter || next > pair.rebuilt_table.autoinc() {
            true => self.reset_autoinc(&pair.rebuilt_table, next),
            false => Ok(()),
        }
    }

    /// After the deciding Mtr.
    fn publish_rebuilt(&self, pair: &Pair<'_>) -> Result<()> {
        let Pair {
            table,
            name,
            rebuilt,
            has_own_counter,
            rebuilt_table,
            new,
            renamed: _,
        } = pair;
        let (old, id) = (table.layout(), new.id);
        debug_assert_ne!(old.id, id, "I10: the rebuilt table has a file of its own");
        debug_assert!(
            table.gate.is_locked_exclusive() && rebuilt_table.gate.is_locked_exclusive(),
            "no background work touches pages of a file that goes"
        );
        debug_assert!(!table.is_dropped(), "a table that was dropped gets no new contents");
        self.discard_pending(&old.secondary);
        rebuilt_table.set_dropped();
        self.catalog.forget(rebuilt);
        self.catalog.foreign.write().forget_alter(rebuilt);
        table.publish(new.clone());
        self.catalog.renumbered(table, old.id, id);
        table.statistics.replaced(rebuilt_table.statistics.counts.rows());
        table
            .next_row_id
            .fetch_max(rebuilt_table.next_row_id.load(Ordering::Relaxed), Ordering::Relaxed);
        // The header of the new file has this counter.
        let saved = rebuilt_table.autoinc_saved.load(Ordering::Relaxed);
        table.autoinc_saved.store(saved, Ordering::Relaxed);
        match has_own_counter {
            true => table.autoinc.store(saved, Ordering::Relaxed),
            false => _ = table.autoinc.fetch_max(saved, Ordering::Relaxed),
        }
        bind(&self.catalog, &[rebuilt, name]);
        space::remove_dropped(&self.pool, old.id, &|text| self.log.warning(text))
    }
}
