//! Statistics for the optimizer: how many rows a table has, how many different values its keys
//! have, and when it changed.
//!
//! `estimates` answers what the server asks at every statement: rows, sizes, entries in a range.
//! `sample` reads leaves and estimates numbers of values. [`StatisticsKeeper::compute_statistics`]
//! does so for a whole table. It runs at ANALYZE TABLE, at the first question, and in the
//! background when a tenth of the rows has changed. An index that was added since is sampled at the
//! next question, alone. What was computed is kept in the system file (`stored`) and read again at
//! the first question after a restart.
//!
//! Latches: one page at a time. The table's gate is held shared while an index is sampled. Mutexes:
//! `Statistics::computing` is taken first, with none held; the DDL mutex while a result is stored;
//! the others are leaves. Called by the engine, its statistics worker, and the C ABI.
#[cfg(test)]
use crate::base::FileId;
use crate::base::{Error, Result};
use crate::change::{in_use, Delta};
use crate::index::key_shape::KeyShape;
use crate::index::RowHeader;
use crate::pool::Pool;
use crate::table::catalog::damage_log::DamageLog;
use crate::table::catalog::ddl::Tables;
use crate::table::catalog::dictionary::Catalog;
use crate::table::catalog::layout::Layout;
use crate::table::catalog::table::Table;
use crate::table::row::entry::decode_entry;
use crate::table::statistics::sample::{runs_of, sample, Run};
use crate::table::statistics::state::{IndexStatistics, StatisticsOptions, StatisticsSettings, TableStatistics};
use crate::table::statistics::stored::Stored;
use std::sync::Arc;

/// Statistics that are younger are not computed again in the background.
const RECALC_INTERVAL_US: u64 = 10_000_000;
/// A table that changed since has its row count and time of change stored again after so long.
const SAVE_INTERVAL_US: u64 = 60_000_000;
/// Clustered leaves that are read to estimate the number of rows.
const ROW_SAMPLE_PAGES: usize = 20;

/// No index was added, and described, since.
fn covers(found: &TableStatistics, table: &Table) -> bool {
    let mut secondary = table.layout().secondary.iter().map(|s| s.index.id);
    secondary.all(|index| found.of(index).is_some() || table.statistics.shape(index).is_none())
}

/// Keeps the statistics of all tables.
pub struct StatisticsKeeper {
    pub(in crate::table) pool: Arc<Pool>,
    pub(in crate::table) catalog: Arc<Catalog>,
    pub(in crate::table) tables: Arc<Tables>,
    pub(in crate::table) log: DamageLog,
    pub settings: StatisticsSettings,
}

impl StatisticsKeeper {
    /// Sets what the keys of a table are made of, and its own options.
    pub fn describe_statistics(&self, table: &Table, options: &StatisticsOptions) {
        let _gate = table.gate.read();
        let layout = table.layout();
        let clustered = options.shapes.first().cloned().unwrap_or_default();
        let mut shapes = Vec::new();
        for (ordinal, shape) in options.shapes.iter().enumerate() {
            let Some(index) = layout.index(ordinal as u32) else {
                break;
            };
            let mut shape = shape.clone();
            if ordinal > 0 {
                shape.parts.extend_from_slice(&clustered.parts);
            }
            shapes.push((index.id, Arc::new(shape)));
        }
        table.statistics.describe(options, shapes);
    }

    /// The statistics that were computed last, here or before a restart; None: there are none.
    pub fn statistics(&self, table: &Table) -> Result<Option<Arc<TableStatistics>>> {
        self.load_statistics(table)?;
        Ok(table.statistics.current.read().clone())
    }

    /// Computes statistics if there are none, or if as many rows changed since as there were. Else
    /// only of the indexes that were added since.
    pub fn ensure_statistics(&self, table: &Table) -> Result<()> {
        let state = &table.statistics;
        let changes = state.counts.changes();
        let is_far_off = |rows: u64| {
            let computed_at = state.marks.lock().computed_at;
            changes.saturating_sub(computed_at) > rows && state.recalculates(&self.settings)
        };
        match self.statistics(table)? {
            Some(found) if !is_far_off(found.rows) => match covers(&found, table) {
                true => Ok(()),
                false => self.add_statistics(table),
            },
            _ => self.compute_statistics(table),
        }
    }

    /// Reads leaves of every index and estimates how many values its keys have. An index that
    /// cannot be read has none.
    pub fn compute_statistics(&self, table: &Table) -> Result<()> {
        let state = &table.statistics;
        let _one = state.computing.lock();
        let changes = state.counts.changes();
        let rows = self.table_stats(table)?.rows;
        let computed_s = self.pool.disk().wall_s();
        let Some(indexes) = self.all_indexes(table, rows, &[])? else {
            return Ok(());
        };
        {
            let now_us = self.pool.disk().now_us();
            let mut marks = state.marks.lock();
            (marks.computed_at, marks.computed_us, marks.loaded) = (changes, now_us, true);
        }
        state.publish(Some(TableStatistics {
            rows,
            computed_s,
            indexes,
        }));
        self.save_statistics(table)
    }

    /// Computes the statistics of the indexes that have none. Those of the others stay, as
    /// STATS_AUTO_RECALC=0 may ask.
    fn add_statistics(&self, table: &Table) -> Result<()> {
        let state = &table.statistics;
        let _one = state.computing.lock();
        let Some(found) = self.statistics(table)?.filter(|found| !covers(found, table)) else {
            return Ok(()); // another thread was first
        };
        let rows = self.table_stats(table)?.rows;
        let Some(indexes) = self.all_indexes(table, rows, &found.indexes)? else {
            return Ok(());
        };
        state.publish(Some(TableStatistics { indexes, ..*found }));
        self.save_statistics(table)
    }

    /// The statistics of every index: those of `known`, or else new ones. An index that is not
    /// described yet is left out. None: the table is gone.
    fn all_indexes(&self, table: &Table, rows: u64, known: &[IndexStatistics]) -> Result<Option<Vec<IndexStatistics>>> {
        let mut all = Vec::new();
        // The gate is opened between two indexes: DROP TABLE waits for one of them at most.
        for ordinal in 0.. {
            let _gate = table.gate.read();
            if table.is_gone() {
                return Ok(None);
            }
            let layout = table.layout();
            let Some(index) = layout.index(ordinal) else { break };
            if let Some(of) = known.iter().find(|of| of.index == index.id) {
                all.push(of.clone());
            } else if let Some(shape) = table.statistics.shape(index.id) {
                all.push(self.index_statistics(table, ordinal, rows, &shape)?);
            }
        }
        Ok(Some(all))
    }

    /// The table's gate is held.
    fn index_statistics(&self, table: &Table, ordinal: u32, rows: u64, shape: &KeyShape) -> Result<IndexStatistics> {
        let layout = table.layout();
        debug_assert!(
            table.gate.is_locked(),
            "an index is sampled while its table cannot be dropped"
        );
        let missing = || Error::Unsupported(format!("table {} has no index {ordinal}", layout.id));
        let index = layout.index(ordinal).ok_or_else(missing)?;
        let mut out = IndexStatistics {
            index: index.id,
            rows,
            ..IndexStatistics::default()
        };
        if ordinal > 0 && layout.secondary[ordinal as usize - 1].quarantined {
            return Ok(out);
        }
        let is_row = |_: &[u8], value: &[u8]| Ok(!RowHeader::read(value).marked());
        let is_entry = |_: &[u8], value: &[u8]| Ok(!decode_entry(layout, value)?.marked);
        let adds = |_: &[u8], pending: &[u8]| Ok(Delta::adds_an_entry(pending));
        let base = Run {
            tree: &index.tree,
            prefix: Vec::new(),
            counts: if ordinal == 0 { &is_row } else { &is_entry },
        };
        let mut pending = Vec::new();
        if let Some(delta) = in_use(index) {
            delta.load(&self.pool)?;
            pending = runs_of(delta, &adds);
        }
        let pages = table.statistics.pages(&self.settings);
        let sampled = match sample(&self.pool, &base, &pending, shape, pages) {
            // Statements that need the page report the error.
            Err(e) if e.is_corrupt() => return Ok(out),
            sampled => sampled?,
        };
        out.leaf_pages = sampled.leaf_pages;
        out.pages = self.pages_of_index(table, layout, ordinal)?;
        out.pages_read = sampled.leaf_pages_read;
        // The sample gives shares better than sums: the number of rows is known more exactly.
        let scale = if sampled.entries > 0.0 {
            rows as f64 / sampled.entries
        } else {
            1.0
        };
        // Other numbers of entries and rows: merges moved some while they were counted.
        let has_moved = sampled.entries > rows as f64 || !pending.is_empty() && sampled.entries < rows as f64 * 0.98;
        let whole = sampled.leaf_pages_read >= sampled.leaf_pages && !has_moved;
        let in_all = |distinct: &f64| match whole {
            true => distinct.round() as u64,
            false if *distinct < sampled.entries * 0.9 => rows.min(distinct.round() as u64),
            false => (distinct * scale).round() as u64,
        };
        out.distinct = sampled.distinct.iter().map(in_all).collect();
        Ok(out)
    }

    /// The number of rows in the clustered index, estimated from some leaves.
    pub(in crate::table) fn sample_rows(&self, layout: &Layout) -> Result<u64> {
        let is_row = |_: &[u8], value: &[u8]| Ok(!RowHeader::read(value).marked());
        let rows = Run {
            tree: &layout.clustered.tree,
            prefix: Vec::new(),
            counts: &is_row,
        };
        let sampled = sample(&self.pool, &rows, &[], &KeyShape::default(), ROW_SAMPLE_PAGES)?;
        Ok(sampled.entries.round() as u64)
    }

    /// One step of the background. Notes which tables have changed, and computes or stores the
    /// statistics of one of them, if that is due. True: there may be more to do.
    pub fn statistics_step(&self) -> Result<bool> {
        let (now_us, now_s) = (self.pool.disk().now_us(), self.pool.disk().wall_s());
        for table in self.catalog.tables() {
            let state = &table.statistics;
            let changes = state.counts.changes();
            if changes == 0 || table.is_gone() {
                continue;
            }
            state.look_for_changes(now_s);
            let marks = *state.marks.lock();
            let current = state.current.read().clone();
            let due = current.is_some_and(|current| changes.saturating_sub(marks.computed_at) > current.rows / 10);
            let rested = now_us.saturating_sub(marks.computed_us) >= RECALC_INTERVAL_US;
            if due && rested && state.recalculates(&self.settings) {
                self.compute_statistics(&table)?;
                return Ok(true);
            }
            if changes != marks.saved_at && now_us.saturating_sub(marks.saved_us) >= SAVE_INTERVAL_US {
                self.save_statistics(&table)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Stores what has changed since it was stored. For a close.
    pub fn save_all_statistics(&self) -> Result<()> {
        let now_s = self.pool.disk().wall_s();
        for table in self.catalog.tables() {
            let changes = table.statistics.counts.changes();
            if changes != table.statistics.marks.lock().saved_at && !table.is_gone() {
                table.statistics.look_for_changes(now_s);
                self.save_statistics(&table)?;
            }
        }
        Ok(())
    }

    /// Reads what is stored of a table, once.
    pub(super) fn load_statistics(&self, table: &Table) -> Result<()> {
        let state = &table.statistics;
        if state.marks.lock().loaded {
            return Ok(());
        }
        let found = match self.catalog.statistics.read(&self.pool, table.layout().id) {
            Err(Error::Corrupt(damage)) => {
                self.log.warning(&format!(
                    "the stored statistics of table {} cannot be read ({}): they are computed anew",
                    self.catalog.shown(table),
                    damage.what
                ));
                None
            }
            found => found?,
        };
        let mut marks = state.marks.lock();
        if std::mem::replace(&mut marks.loaded, true) {
            return Ok(());
        }
        let Some(found) = found else { return Ok(()) };
        marks.updated_s = marks.updated_s.max(found.updated_s);
        drop(marks);
        if found.computed.is_some() {
            state.publish(found.computed);
        }
        Ok(())
    }

    /// The stored number of rows, if the clustered index has not grown or shrunk by more than a
    /// fiftieth since. None: sample the rows. A crash keeps the count of an earlier time. In a
    /// small index the number of leaves does not show the changes since then, and a sample reads
    /// all of it.
    pub(super) fn stored_rows(&self, table: &Table, leaf_pages: u64) -> Result<Option<u64>> {
        if leaf_pages <= ROW_SAMPLE_PAGES as u64 {
            return Ok(None);
        }
        let stored = self.catalog.statistics.read(&self.pool, table.layout().id)?;
        Ok(stored.and_then(|stored| {
            let clustered = stored.computed.as_ref()?.indexes.first()?;
            let changed = clustered.leaf_pages.abs_diff(leaf_pages) * 50 > clustered.leaf_pages;
            (!changed).then_some(stored.rows)
        }))
    }

    /// Stores what is known of the table, if its statistics are persistent. A full disk is no
    /// error.
    pub(super) fn save_statistics(&self, table: &Table) -> Result<()> {
        let state = &table.statistics;
        let layout = table.layout();
        let (changes, now_us) = (state.counts.changes(), self.pool.disk().now_us());
        {
            let mut marks = state.marks.lock();
            (marks.saved_at, marks.saved_us) = (changes, now_us);
        }
        if layout.temporary || !state.is_persistent(&self.settings) || !state.counts.is_known() {
            return Ok(());
        }
        let stored = Stored {
            rows: state.counts.rows(),
            updated_s: state.look_for_changes(self.pool.disk().wall_s()),
            computed: state.current.read().as_deref().cloned(),
        };
        let _ddl = self.tables.start_ddl()?;
        if table.is_gone() || table.layout().id != layout.id {
            return Ok(());
        }
        match self.catalog.statistics.write(&self.pool, layout.id, &stored) {
            Err(Error::Full(_)) => Ok(()),
            Err(e) if e.is_corrupt() => {
                let table = self.catalog.shown(table);
                self.log
                    .warning(&format!("the statistics of table {table} cannot be stored: {e}"));
                Ok(())
            }
            written => written,
        }
    }

    /// Tables of which something is stored. For tests.
    #[cfg(test)]
    pub(crate) fn tables_with_stored_statistics(&self) -> Result<Vec<FileId>> {
        self.catalog.statistics.tables(&self.pool)
    }
}
