//! A table gets the contents of another one: the end of an ALTER TABLE that has rebuilt it while
//! writers went on.
//!
//! One Mtr decides. Before it is durable, the rebuilt table is one of its own, which the user of
//! the engine drops after a crash. After it, the old contents are gone, as after DROP TABLE.
//!
//! Latches: none is held between the Mtrs; the DDL mutex is held throughout. Called by the engine
//! and by the C ABI.
use crate::base::{Error, Result};
use crate::space;
use crate::table::catalog::ddl::Tables;
use crate::table::catalog::foreign_binding::{bind, check_definition};
use crate::table::catalog::table::Table;
use std::sync::atomic::Ordering;
use std::sync::Arc;

impl Tables {
    /// `table` gets the trees, the rows and the definition of the table `rebuilt`, which is no more
    /// then. No other user has either of them in use. Foreign keys are those of `rebuilt`.
    /// `unchecked`: they may lack a parent, and children may not fit.
    pub fn replace_table(&self, table: &Arc<Table>, rebuilt: &str, unchecked: bool) -> Result<()> {
        let _ddl = self.start_ddl()?;
        let with = self.table_named(rebuilt)?;
        let (name, old) = (table.name(), table.layout());
        if old.temporary || with.layout().temporary {
            return Err(Error::Unsupported("a temporary table is not rebuilt in place".into()));
        }
        self.with_mark(|created| {
            let _gate = table.gate.write();
            let _other_gate = with.gate.write();
            let _hold = self.redo.hold_checkpoint();
            let mut new = with.layout().clone();
            new.created = created;
            new.replaces = None;
            new.created_s = self.pool.disk().wall_s();
            check_definition(&self.catalog, rebuilt, &new, Some(&name), unchecked)?;
            self.record(old, &[&new], |mtr| {
                self.catalog.statistics.remove(mtr, old.id)?;
                self.catalog.put(mtr, &name, &new)?;
                self.catalog.delete(mtr, rebuilt)?;
                space::log_drop(mtr, old.id);
                Ok(())
            })?;
            let id = new.id;
            self.discard_pending(&old.secondary);
            with.set_dropped();
            self.catalog.forget(rebuilt);
            self.catalog.foreign.write().forget_alter(rebuilt);
            table.publish(new);
            self.catalog.renumbered(table, old.id, id);
            table.statistics.replaced(with.statistics.counts.rows());
            table
                .next_row_id
                .fetch_max(with.next_row_id.load(Ordering::Relaxed), Ordering::Relaxed);
            // The file's header has the counter that the rows gave it.
            let saved = with.autoinc_saved.load(Ordering::Relaxed);
            table.autoinc_saved.store(saved, Ordering::Relaxed);
            table.autoinc.fetch_max(saved, Ordering::Relaxed);
            bind(&self.catalog, &[rebuilt, &name]);
            space::remove_dropped(&self.pool, old.id, &|text| self.log.warning(text))
        })
    }
}
