//! The statistics part of a table: row counts, what was computed last, the table's own options.
//!
//! Mutexes: `computing` is taken first, with none held; the others are leaves. Called by the row
//! operations (counts) and by `optimizer`.
use crate::base::sync::{Rank, RankedMutex};
use crate::base::IndexId;
use crate::index::key_shape::KeyShape;
use crate::table::statistics::counts::RowCounts;
use parking_lot::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicU8, Ordering};
use std::sync::Arc;

/// What is known of one index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexStatistics {
    pub index: IndexId,
    /// Rows of the table when this was computed.
    pub rows: u64,
    pub leaf_pages: u64,
    /// All pages.
    pub pages: u64,
    /// Leaves that were read for it.
    pub pages_read: u64,
    /// Different values of the first 1, 2, ... parts: the index's own, then those of the clustered
    /// key. Empty: unknown.
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
pub struct StatisticsSettings {
    /// Leaves that are read of each stratum of an index (`sample.rs`).
    pub sample_pages: AtomicU32,
    /// Statistics are kept over a restart.
    pub persistent: AtomicBool,
    /// The background computes statistics again when a tenth of the rows has changed.
    pub auto_recalc: AtomicBool,
}

impl Default for StatisticsSettings {
    fn default() -> Self {
        StatisticsSettings {
            sample_pages: AtomicU32::new(20),
            persistent: AtomicBool::new(true),
            auto_recalc: AtomicBool::new(true),
        }
    }
}

/// What the user says of a table when it is opened.
#[derive(Clone, Debug, Default)]
pub struct StatisticsOptions {
    /// Of the clustered index and each secondary one, by ordinal: the index's own parts. Empty:
    /// each key is one part.
    pub shapes: Vec<KeyShape>,
    /// None: as the settings of all tables say.
    pub persistent: Option<bool>,
    pub auto_recalc: Option<bool>,
    /// 0 = as the settings of all tables say.
    pub sample_pages: u32,
}

/// The statistics part of a table.
pub struct Statistics {
    pub counts: RowCounts,
    shapes: RwLock<Vec<(IndexId, Arc<KeyShape>)>>,
    /// 0 = as the settings say, 1 = no, 2 = yes.
    persistent: AtomicU8,
    auto_recalc: AtomicU8,
    sample_pages: AtomicU32,
    pub(in crate::table) current: RwLock<Option<Arc<TableStatistics>>>,
    /// Grows whenever `current` is replaced.
    version: AtomicU64,
    /// Held while statistics are computed.
    pub(in crate::table) computing: RankedMutex<()>,
    pub(in crate::table) marks: RankedMutex<Marks>,
}

/// How far the table had changed at some moments.
#[derive(Clone, Copy, Default)]
pub(in crate::table) struct Marks {
    /// What is stored was read.
    pub loaded: bool,
    /// `RowCounts::changes` when the statistics were computed, and when (the disk's clock).
    pub computed_at: u64,
    pub computed_us: u64,
    /// When a change was last looked for.
    pub seen_at: u64,
    pub updated_s: u64,
    pub saved_at: u64,
    pub saved_us: u64,
}

impl Default for Statistics {
    fn default() -> Statistics {
        Statistics {
            counts: RowCounts::default(),
            shapes: RwLock::default(),
            persistent: AtomicU8::default(),
            auto_recalc: AtomicU8::default(),
            sample_pages: AtomicU32::default(),
            current: RwLock::default(),
            version: AtomicU64::default(),
            computing: RankedMutex::new(Rank::StatisticsCompute, ()),
            marks: RankedMutex::default(),
        }
    }
}

impl Statistics {
    /// Of a table that was just made.
    pub fn empty() -> Statistics {
        let statistics = Statistics {
            counts: RowCounts::empty(),
            ..Statistics::default()
        };
        statistics.marks.lock().loaded = true;
        statistics
    }
    /// The table was emptied: nothing that was computed holds. `indexes`: old and new number of
    /// each. Their keys are made of the same parts.
    pub(in crate::table) fn truncated(&self, indexes: &[(IndexId, IndexId)]) {
        self.counts.truncated();
        self.publish(None);
        for (of, _) in self.shapes.write().iter_mut() {
            let renumbered = indexes.iter().find(|(old, _)| old == of);
            *of = renumbered.map_or(*of, |(_, new)| *new);
        }
        let mut marks = self.marks.lock();
        (marks.computed_at, marks.loaded) = (self.counts.changes(), true);
    }
    /// The table got other rows: nothing that was computed holds.
    pub(in crate::table) fn replaced(&self, rows: u64) {
        // The user describes the new keys when the table is opened.
        self.truncated(&[]);
        self.counts.inserted(rows);
    }
    /// Takes what the user says of the table. `shapes`: of each index, by its number.
    pub(in crate::table) fn describe(&self, options: &StatisticsOptions, shapes: Vec<(IndexId, Arc<KeyShape>)>) {
        self.persistent.store(choice(options.persistent), Ordering::Relaxed);
        self.auto_recalc.store(choice(options.auto_recalc), Ordering::Relaxed);
        self.sample_pages.store(options.sample_pages, Ordering::Relaxed);
        *self.shapes.write() = shapes;
    }
    /// Grows whenever there is something new to learn from the statistics; 0 = there was never
    /// anything.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }
    /// None: the index was added after the user had described the table.
    pub(in crate::table) fn shape(&self, index: IndexId) -> Option<Arc<KeyShape>> {
        let shapes = self.shapes.read();
        if shapes.is_empty() {
            return Some(Arc::default());
        }
        let found = shapes.iter().find(|(of, _)| *of == index);
        found.map(|(_, shape)| shape.clone())
    }
    pub(in crate::table) fn publish(&self, new: Option<TableStatistics>) {
        *self.current.write() = new.map(Arc::new);
        self.version.fetch_add(1, Ordering::AcqRel);
    }
    pub(in crate::table) fn is_persistent(&self, settings: &StatisticsSettings) -> bool {
        chosen(&self.persistent, &settings.persistent)
    }
    pub(in crate::table) fn recalculates(&self, settings: &StatisticsSettings) -> bool {
        chosen(&self.auto_recalc, &settings.auto_recalc)
    }
    pub(in crate::table) fn pages(&self, settings: &StatisticsSettings) -> usize {
        match self.sample_pages.load(Ordering::Relaxed) {
            0 => settings.sample_pages.load(Ordering::Relaxed).max(1) as usize,
            own => own as usize,
        }
    }
    /// When the table last changed, in seconds since the epoch. Exact to the last call of this
    /// function; 0 = unknown.
    pub(in crate::table) fn look_for_changes(&self, now_s: u64) -> u64 {
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

/// Page counts of a table's indexes, as of when the file had `used` pages in use.
#[derive(Clone, Debug, Default)]
pub(in crate::table) struct PageCounts {
    pub layout: u32,
    pub used: u32,
    /// By ordinal, clustered first: (leaf pages, all pages).
    pub indexes: Vec<(u64, u64)>,
    /// Pages of indexes without a buffered change, for changes to come. They are in `indexes`.
    pub empty_buffers: u64,
}
