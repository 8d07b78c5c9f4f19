//! Opening and closing tables. A table's counters are read here, once, before the first row
//! operation.
//!
//! Latches: one page at a time. The mutex `Table::loading` is held while the counters are read.
//! Called by the engine and by the C ABI.
use crate::base::bytes::get_u64;
use crate::base::sync::holds_no_latch;
use crate::base::{Error, PageId, Result};
use crate::btree::Seek;
use crate::redo::FlushMode;
use crate::space;
use crate::table::catalog::ddl::Tables;
use crate::table::catalog::layout::Layout;
use crate::table::catalog::table::Table;
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// Hidden clustered keys are this long, big-endian.
pub const ROW_ID_LEN: usize = 6;

impl Tables {
    /// The table as all its users share it. [`Tables::close_table`] gives it back.
    pub fn open_table(&self, name: &str) -> Result<Arc<Table>> {
        let mut table = self.table_named(name)?;
        if table.has_old_layouts() {
            drop(table);
            drop(self.catalog.take_old_layouts(name));
            table = self.table_named(name)?;
        }
        self.log.check_whole(&table)?;
        self.load_counters(&table)?;
        table.opened.fetch_add(1, Ordering::Relaxed);
        Ok(table)
    }
    pub fn close_table(&self, table: &Table) {
        let before = table.opened.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "a table is closed as often as it was opened");
    }

    /// Reads AUTO_INCREMENT, hidden row ids and the row count of a table that was not used since
    /// the engine was opened.
    fn load_counters(&self, table: &Table) -> Result<()> {
        let _once = table.loading.lock();
        if table.counters_loaded.load(Ordering::Acquire) {
            return Ok(());
        }
        let layout = table.layout();
        let autoinc = match self.read_header(layout) {
            // The rows can be read, and copied into a new file. A statement that needs the page
            // gets the error.
            Err(e) if e.is_lost_header() => {
                self.log.error(&self.log.name_damage(e).to_string());
                0
            }
            Err(e @ Error::Unsupported(_)) => {
                self.log
                    .error(&format!("table {} cannot be used: {e}", self.catalog.shown(table)));
                return Err(e);
            }
            autoinc => autoinc?,
        };
        table.autoinc_saved.store(autoinc, Ordering::Relaxed);
        table.autoinc.fetch_max(autoinc, Ordering::Relaxed);
        if layout.hidden_pk {
            table
                .next_row_id
                .store(self.last_row_id(layout)? + 1, Ordering::Relaxed);
        }
        table.counters_loaded.store(true, Ordering::Release);
        Ok(())
    }

    /// Checks the file; its AUTO_INCREMENT value.
    fn read_header(&self, layout: &Layout) -> Result<u64> {
        if !layout.temporary {
            space::check_header(&self.pool, layout.id)?;
        }
        let header = self.pool.read(PageId::new(layout.id, space::HEADER_PAGE))?;
        Ok(get_u64(&header, space::AUTOINC_OFFSET))
    }

    fn last_row_id(&self, layout: &Layout) -> Result<u64> {
        let Some(leaf) = layout.clustered.tree.seek(&self.pool, Seek::Last, &[])? else {
            return Ok(0);
        };
        let key = leaf.key();
        if key.len() != ROW_ID_LEN {
            return Err(Error::corrupt(format!(
                "table {}: a hidden key of {} bytes",
                layout.id,
                key.len()
            )));
        }
        Ok(key.iter().fold(0, |id, byte| id << 8 | *byte as u64))
    }

    /// Sets the AUTO_INCREMENT counter, up or down; durable on return.
    pub fn reset_autoinc(&self, table: &Table, next: u64) -> Result<()> {
        self.pool.check_alive()?;
        self.redo.reserve_wait()?;
        debug_assert!(holds_no_latch(), "I5: room in the log is waited for with no latch held");
        let mut mtr = self.pool.begin();
        let header = space::header(&mut mtr, table.layout().id)?;
        mtr.edit_u64(header, space::AUTOINC_OFFSET, next);
        table.autoinc.store(next, Ordering::Relaxed);
        table.autoinc_saved.store(next, Ordering::Relaxed);
        let lsn = mtr.commit();
        self.redo.flush(lsn, FlushMode::Sync)
    }
}
