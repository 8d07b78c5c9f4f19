//! Statistics for the optimizer: how many rows a table has, how many different values its keys have, and when it changed.
//!
//! `estimates` answers what the server asks at every statement: rows, sizes, entries in a range. `sample` reads leaves and
//! estimates numbers of values; [`Store::compute_statistics`] does so for a whole table: at ANALYZE TABLE, at the first
//! question, and in the background when a tenth of the rows has changed. What was computed is kept in the system file
//! (`stored`) and read again at the first question after a restart.
//!
//! Latches: one page at a time. The table's gate is held shared while an index is sampled. Mutexes: `Statistics::computing`
//! is taken first, with none held; the DDL mutex while a result is stored; the others are leaves.
pub mod counts;
pub mod estimates;
mod report;
mod sample;
mod stored;

use crate::base::sync::{Rank, RankedMutex};
use crate::base::{Error, IndexId, Result};
use crate::change::{in_use, Delta};
use crate::index::key_shape::KeyShape;
use crate::index::RowHeader;
use crate::table::catalog::table::{Layout, Table};
use crate::table::store::Store;
pub use estimates::TableStats;
use parking_lot::RwLock;
pub use report::StatisticsRow;
use sample::{runs_of, sample, Run};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicU8, Ordering};
use std::sync::Arc;

/// Statistics that are younger are not computed again in the background.
const RECALC_INTERVAL_US: u64 = 10_000_000;
/// A table that changed since has its row count and time of change stored again after so long.
const SAVE_INTERVAL_US: u64 = 60_000_000;
/// Clustered leaves that are read to estimate the number of rows.
const ROW_SAMPLE_PAGES: usize = 20;

/// What is known of one index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexStatistics {
    pub index: IndexId,
    pub leaf_pages: u64,
    /// All pages.
    pub pages: u64,
    /// Leaves that were read for it.
    pub pages_read: u64,
    /// Different values of the first 1, 2, ... parts: the index's own, then those of the clustered key. Empty: unknown.
    pub distinct: Vec<u64>,
}

/// What was computed of one table at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableStatistics {
    pub rows: u64,
    /// Seconds since the epoch.
    pub computed_s: u64,
    /// Clustered first.
    pub indexes: Vec<IndexStatistics>,
}

impl TableStatistics {
    pub fn of(&self, index: IndexId) -> Option<&IndexStatistics> {
        self.indexes.iter().find(|of| of.index == index)
    }
}

/// Settings of all tables.
#[derive(Default)]
pub struct StatisticsSettings {
    /// Leaves that are read of each stratum of an index (`sample.rs`).
    pub sample_pages: AtomicU32,
    /// Statistics are kept over a restart.
    pub persistent: AtomicBool,
    /// The background computes statistics again when a tenth of the rows has changed.
    pub auto_recalc: AtomicBool,
}

/// What the user says of a table when it is opened.
#[derive(Clone, Debug, Default)]
pub struct StatisticsOptions {
    /// Of the clustered index and each secondary one, by ordinal: the index's own parts. Empty: each key is one part.
    pub shapes: Vec<KeyShape>,
    /// None: as the settings of all tables say.
    pub persistent: Option<bool>,
    pub auto_recalc: Option<bool>,
    /// 0 = as the settings of all tables say.
    pub sample_pages: u32,
}

/// The statistics part of a [`Table`].
pub struct Statistics {
    pub counts: counts::RowCounts,
    shapes: RwLock<Vec<(IndexId, Arc<KeyShape>)>>,
    /// 0 = as the settings say, 1 = no, 2 = yes.
    persistent: AtomicU8,
    auto_recalc: AtomicU8,
    sample_pages: AtomicU32,
    current: RwLock<Option<Arc<TableStatistics>>>,
    /// Grows whenever `current` is replaced.
    version: AtomicU64,
    /// Held by whoever computes.
    computing: RankedMutex<()>,
    marks: RankedMutex<Marks>,
}

impl Default for Statistics {
    fn default() -> Statistics {
        Statistics {
            counts: counts::RowCounts::default(),
            shapes: RwLock::default(),
            persistent: AtomicU8::new(0),
            auto_recalc: AtomicU8::new(0),
            sample_pages: AtomicU32::new(0),
            current: RwLock::default(),
            version: AtomicU64::new(0),
            computing: RankedMutex::new(Rank::StatisticsCompute, ()),
            marks: RankedMutex::default(),
        }
    }
}

/// How far the table had changed at some moments.
#[derive(Clone, Copy, Default)]
struct Marks {
    /// What is stored was read.
    loaded: bool,
    /// `RowCounts::changes` when the statistics were computed, and when (the disk's clock).
    computed_at: u64,
    computed_us: u64,
    /// When a change was last looked for.
    seen_at: u64,
    updated_s: u64,
    saved_at: u64,
    saved_us: u64,
}

impl Statistics {
    /// Of a table that was just made.
    pub fn empty() -> Statistics {
        let statistics = Statistics {
            counts: counts::RowCounts::empty(),
            ..Statistics::default()
        };
        statistics.marks.lock().loaded = true;
        statistics
    }
    /// The table was emptied: nothing that was computed holds.
    pub(in crate::table) fn truncated(&self) {
        self.counts.truncated();
        self.publish(None);
        let mut marks = self.marks.lock();
        (marks.computed_at, marks.loaded) = (self.counts.changes(), true);
    }
    /// Changes whenever there is something new to learn from [`Store::statistics`]; 0 = there was never anything.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }
    fn shape(&self, index: IndexId) -> Arc<KeyShape> {
        let shapes = self.shapes.read();
        let found = shapes.iter().find(|(of, _)| *of == index);
        found.map(|(_, shape)| shape.clone()).unwrap_or_default()
    }
    fn publish(&self, new: Option<TableStatistics>) {
        *self.current.write() = new.map(Arc::new);
        self.version.fetch_add(1, Ordering::AcqRel);
    }
    fn is_persistent(&self, settings: &StatisticsSettings) -> bool {
        chosen(&self.persistent, &settings.persistent)
    }
    fn recalculates(&self, settings: &StatisticsSettings) -> bool {
        chosen(&self.auto_recalc, &settings.auto_recalc)
    }
    fn pages(&self, settings: &StatisticsSettings) -> usize {
        match self.sample_pages.load(Ordering::Relaxed) {
            0 => settings.sample_pages.load(Ordering::Relaxed).max(1) as usize,
            own => own as usize,
        }
    }
    /// When the table last changed, in seconds since the epoch, to the second that somebody looked in; 0 = unknown.
    fn look_for_changes(&self, now_s: u64) -> u64 {
        let changes = self.counts.changes();
        let mut marks = self.marks.lock();
        if changes != marks.seen_at {
            marks.seen_at = changes;
            marks.updated_s = now_s;
        }
        marks.updated_s
    }
}

fn chosen(own: &AtomicU8, general: &AtomicBool) -> bool {
    match own.load(Ordering::Relaxed) {
        0 => general.load(Ordering::Relaxed),
        own => own == 2,
    }
}
fn choice(own: Option<bool>) -> u8 {
    own.map_or(0, |yes| 1 + yes as u8)
}

impl Store {
    /// Tells what the keys of a table are made of, and its own options.
    pub fn describe_statistics(&self, table: &Table, options: &StatisticsOptions) {
        let state = &table.statistics;
        state.persistent.store(choice(options.persistent), Ordering::Relaxed);
        state.auto_recalc.store(choice(options.auto_recalc), Ordering::Relaxed);
        state.sample_pages.store(options.sample_pages, Ordering::Relaxed);
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
        *state.shapes.write() = shapes;
    }

    /// The statistics that were computed last, here or before a restart; None: there are none.
    pub fn statistics(&self, table: &Table) -> Result<Option<Arc<TableStatistics>>> {
        self.load_statistics(table)?;
        Ok(table.statistics.current.read().clone())
    }

    /// Computes statistics if there are none, or if as many rows changed since as there were.
    pub fn ensure_statistics(&self, table: &Table) -> Result<()> {
        let state = &table.statistics;
        let changes = state.counts.changes();
        let is_far_off = |rows: u64| {
            let computed_at = state.marks.lock().computed_at;
            changes.saturating_sub(computed_at) > rows && state.recalculates(&self.statistics_settings)
        };
        match self.statistics(table)? {
            Some(found) if !is_far_off(found.rows) => Ok(()),
            _ => self.compute_statistics(table),
        }
    }

    /// Reads leaves of every index and estimates how many values its keys have. An index that cannot be read has none.
    pub fn compute_statistics(&self, table: &Table) -> Result<()> {
        let state = &table.statistics;
        let _one = state.computing.lock();
        let changes = state.counts.changes();
        let mut new = TableStatistics {
            rows: self.table_stats(table)?.rows,
            computed_s: self.pool.disk().wall_s(),
            indexes: Vec::new(),
        };
        let mut ordinal = 0;
        // The gate is opened between two indexes: whoever wants to drop the table waits for one of them.
        loop {
            let _gate = table.gate.read();
            if table.is_gone() {
                return Ok(());
            }
            let layout = table.layout();
            if layout.index(ordinal).is_none() {
                break;
            }
            new.indexes
                .push(self.index_statistics(table, layout, ordinal, new.rows)?);
            ordinal += 1;
        }
        {
            let now_us = self.pool.disk().now_us();
            let mut marks = state.marks.lock();
            (marks.computed_at, marks.computed_us, marks.loaded) = (changes, now_us, true);
        }
        state.publish(Some(new));
        self.save_statistics(table)
    }

    fn index_statistics(&self, table: &Table, layout: &Layout, ordinal: u32, rows: u64) -> Result<IndexStatistics> {
        let missing = || Error::Unsupported(format!("table {} has no index {ordinal}", layout.id));
        let index = layout.index(ordinal).ok_or_else(missing)?;
        let mut out = IndexStatistics {
            index: index.id,
            ..IndexStatistics::default()
        };
        if ordinal > 0 && layout.secondary[ordinal as usize - 1].aside {
            return Ok(out);
        }
        let is_row = |_: &[u8], value: &[u8]| Ok(!RowHeader::read(value).marked());
        let is_entry = |_: &[u8], value: &[u8]| Ok(!self.decode_entry(layout, value)?.marked);
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
        let shape = table.statistics.shape(index.id);
        let pages = table.statistics.pages(&self.statistics_settings);
        let sampled = match sample(&self.pool, &base, &pending, &shape, pages) {
            // Statements that need the page tell of it.
            Err(e) if e.is_corrupt() => return Ok(out),
            sampled => sampled?,
        };
        out.leaf_pages = sampled.leaf_pages;
        out.pages = self.pages_of_index(table, layout, ordinal)?;
        out.pages_read = sampled.leaf_pages_read;
        // The sample tells shares better than sums: the number of rows is known more exactly.
        let scale = if sampled.entries > 0.0 {
            rows as f64 / sampled.entries
        } else {
            1.0
        };
        let whole = sampled.leaf_pages_read >= sampled.leaf_pages;
        let in_all = |distinct: &f64| match whole || *distinct < sampled.entries * 0.9 {
            true => distinct.round() as u64,
            false => (distinct * scale).round() as u64,
        };
        out.distinct = sampled.distinct.iter().map(in_all).collect();
        Ok(out)
    }

    /// The number of rows in the clustered index, estimated from some leaves.
    fn sample_rows(&self, layout: &Layout) -> Result<u64> {
        let is_row = |_: &[u8], value: &[u8]| Ok(!RowHeader::read(value).marked());
        let rows = Run {
            tree: &layout.clustered.tree,
            prefix: Vec::new(),
            counts: &is_row,
        };
        let sampled = sample(&self.pool, &rows, &[], &KeyShape::default(), ROW_SAMPLE_PAGES)?;
        Ok(sampled.entries.round() as u64)
    }

    /// One step of the background: notes which tables have changed, and computes or stores the statistics of one of them, if that is due.
    /// True: there may be more to do.
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
            if due && rested && state.recalculates(&self.statistics_settings) {
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
}
