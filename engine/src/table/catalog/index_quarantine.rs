//! Quarantined secondary indexes: a page of one is broken, so the index is neither read nor kept up
//! until it is rebuilt.
//!
//! Takes the DDL mutex; called with no latch held, by rollback and by the watch over buffered
//! changes that cannot be merged.
use crate::base::{Error, FileId, IndexId, Result};
use crate::index::Index;
use crate::table::catalog::ddl::Tables;
use crate::table::catalog::table::Table;
use std::sync::Arc;

/// The error of a statement that needs a quarantined index.
pub(in crate::table) fn quarantined_error(table: FileId, index: &Index) -> Error {
    let what = format!(
        "index {} is quarantined, because a page of it cannot be read",
        index.name
    );
    Error::corrupt(what).in_index(table, index.id)
}

/// Refuses an index that was quarantined after the statement began. Called after the index was
/// read: a rollback first quarantines the index, then restores its rows and ends.
pub(in crate::table) fn check_not_quarantined(index: &Index) -> Result<()> {
    match index.is_abandoned() {
        true => Err(quarantined_error(index.tree.file, index)),
        false => Ok(()),
    }
}

impl Tables {
    /// From here on the index is neither read nor kept up, and its pending changes are no debt any
    /// more. Durable on return: a reader must never miss the changes that are left out.
    pub(crate) fn quarantine_index(&self, table: &Arc<Table>, index: IndexId, why: &Error) -> Result<()> {
        let named = self.log.name_damage(why.clone().lasting());
        {
            let _ddl = self.start_ddl()?;
            // The caller holds no gate: the table may have been dropped since the page was read.
            // Its definition must not return to the catalog.
            if table.is_dropped() {
                return Ok(());
            }
            let mut new = table.layout().clone();
            let Some(found) = new.secondary.iter_mut().find(|s| s.index.id == index && !s.quarantined) else {
                return Ok(());
            };
            found.quarantined = true;
            let quarantined = found.clone();
            self.record(&new, &[], |mtr| self.catalog.put(mtr, &table.name(), &new))?;
            // For statements that go on with the layout they began with.
            quarantined.index.abandon();
            debug_assert!(
                table
                    .layout()
                    .secondary_by_id(index)
                    .is_some_and(|old| old.index.is_abandoned()),
                "a statement with the old layout learns that the index is quarantined"
            );
            table.publish(new);
            // Its changes will not be merged any more. As a debt they would keep other indexes from
            // buffering.
            quarantined
                .index
                .delta
                .iter()
                .for_each(|delta| self.discard_delta(delta));
        }
        self.log.error(&format!("{named}; the index is quarantined until then"));
        Ok(())
    }
}
