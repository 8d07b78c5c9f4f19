//! [`Reader`]: the parts of the layers below that all cursors share.
//!
//! Called by the cursors; takes a table's gate only in [`Reader::merge_met`].
use crate::base::sync::holds_no_latch;
use crate::base::{Counters, Error, Result};
use crate::change;
use crate::index::Index;
use crate::pool::Pool;
use crate::table::catalog::damage_log::DamageLog;
use crate::table::catalog::dictionary::Catalog;
use crate::table::row::row_lock::RowLocks;
use crate::table::row::snapshot::Snapshots;
use crate::table::row::version::Versions;
use crate::txn::TrxSys;
use std::sync::Arc;

/// What a read needs.
pub struct Reader {
    pub(in crate::table) pool: Arc<Pool>,
    pub(in crate::table) trx_sys: Arc<TrxSys>,
    pub(in crate::table) counters: Arc<Counters>,
    pub(in crate::table) catalog: Arc<Catalog>,
    pub(in crate::table) log: DamageLog,
    pub(in crate::table) locks: RowLocks,
    pub(in crate::table) snapshots: Snapshots,
    pub(in crate::table) versions: Versions,
}

impl Reader {
    /// A reader met a leaf with many pending changes, and has them merged. This is an economy. The
    /// read has what it wanted. So it does not fail when there is no room to write, or when a page
    /// that it did not need is broken. The reader holds neither a latch nor the table's gate. If
    /// another thread waits for the gate, the table or the index is about to go, and nothing is
    /// merged.
    pub(in crate::table) fn merge_met(&self, index: &Index, key: &[u8]) -> Result<()> {
        debug_assert!(holds_no_latch(), "I5: a reader merges with no latch held");
        let Some(table) = self.catalog.by_id(index.tree.file) else {
            return Ok(());
        };
        let Some(_gate) = table.gate.try_read() else {
            return Ok(());
        };
        if table.is_gone() || table.layout().secondary_by_id(index.id).is_none() {
            return Ok(());
        }
        match change::merge_leaf(&self.pool, index, key) {
            Err(e @ Error::Poisoned(_)) => Err(e),
            _ => Ok(()),
        }
    }
}
