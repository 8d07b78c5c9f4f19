//! [`MergeScheduler`]: has buffered changes merged. Here: a drain, which merges all that is
//! pending.
//!
//! Takes a table's gate, shared. Called by the engine at a slow close, and by tests; `rounds` adds
//! the rounds of the change worker.
use crate::base::{Counters, Error, Result};
use crate::change::{self, ChangeBuffer};
use crate::pool::Pool;
use crate::table::catalog::dictionary::Catalog;
use crate::table::health::unmergeable::Unmergeable;
use std::sync::Arc;

/// Has buffered changes merged.
pub struct MergeScheduler {
    pub(in crate::table) pool: Arc<Pool>,
    pub(in crate::table) counters: Arc<Counters>,
    pub(in crate::table) change: Arc<ChangeBuffer>,
    pub(in crate::table) catalog: Arc<Catalog>,
    pub(in crate::table) unmergeable: Unmergeable,
}

impl MergeScheduler {
    /// Merges everything that is pending, as far as it can be merged.
    pub fn drain_changes(&self) -> Result<()> {
        self.drain_changes_telling(&mut || ())
    }

    /// As `drain_changes`, with `each` called now and then.
    pub fn drain_changes_telling(&self, each: &mut dyn FnMut()) -> Result<()> {
        for table in self.catalog.tables() {
            let _gate = table.gate.read();
            if table.is_gone() {
                continue;
            }
            for (index, delta) in table.layout().buffered().filter(|(_, delta)| !delta.is_empty()) {
                match change::drain_with_progress(&self.pool, index, each) {
                    Err(e @ Error::Poisoned(_)) => return Err(e),
                    Err(e) => delta.cannot_go_on(&self.pool, e),
                    Ok(_) => {}
                }
            }
        }
        self.unmergeable.look_after()
    }
}
