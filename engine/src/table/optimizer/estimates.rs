//! What the optimizer asks at every statement: row counts, sizes, entries in a range. All of it
//! estimates but the sizes.
//!
//! The row count lives in memory (`counts`). It is stored or sampled at the first question after
//! the engine was opened, then kept by the row operations and by rollback. Page counts need a walk
//! over a tree's inner levels. They are kept until the file has grown or shrunk by a tenth.
//!
//! Takes the table's gate, shared, and the mutex of its page counts. Called by the engine and by
//! the C ABI.
use crate::base::{Error, Result};
use crate::change;
use crate::index::Index;
use crate::pool::PAGE_SIZE;
use crate::space;
use crate::table::catalog::layout::Layout;
use crate::table::catalog::table::Table;
use crate::table::optimizer::keeper::StatisticsKeeper;
use crate::table::statistics::state::PageCounts;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    pub rows: u64,
    /// Clustered index and overflow pages.
    pub data_bytes: u64,
    /// All secondary indexes.
    pub index_bytes: u64,
    /// A part of `index_bytes`: pages for changes to come, of indexes that have none buffered.
    pub empty_buffer_bytes: u64,
    /// Allocated, not in use.
    pub free_bytes: u64,
    pub file_bytes: u64,
    pub clustered_leaf_pages: u64,
    /// Seconds since the epoch; 0 = unknown.
    pub create_time_s: u64,
    /// When rows last changed, in seconds since the epoch; 0 = unknown.
    pub update_time_s: u64,
}

/// A page that cannot be read must not keep a table from being opened: a statement that needs the
/// page fails.
fn or_unknown<T: Default>(found: Result<T>) -> Result<T> {
    match found {
        Err(e) if e.is_corrupt() => Ok(T::default()),
        found => found,
    }
}

impl StatisticsKeeper {
    pub fn table_stats(&self, table: &Table) -> Result<TableStats> {
        let _gate = table.gate.read();
        let layout = table.layout();
        let usage = or_unknown(space::usage(&self.pool, layout.id))?;
        // Every statement asks: the list is not copied.
        let sums = |counts: &PageCounts| {
            (
                counts.indexes[0].0,
                counts.indexes[1..].iter().map(|(_, pages)| pages).sum(),
                counts.empty_buffers,
            )
        };
        let (leaf_pages, of_secondary, empty_buffers): (u64, u64, u64) =
            self.page_counts(table, layout, usage.used, sums)?;
        or_unknown(self.know_rows(table, layout, leaf_pages))?;
        let page = PAGE_SIZE as u64;
        Ok(TableStats {
            rows: table.statistics.counts.rows(),
            data_bytes: (usage.used as u64).saturating_sub(of_secondary) * page,
            index_bytes: of_secondary * page,
            empty_buffer_bytes: empty_buffers * page,
            free_bytes: (usage.pages.saturating_sub(usage.used)) as u64 * page,
            file_bytes: usage.pages as u64 * page,
            clustered_leaf_pages: leaf_pages,
            create_time_s: layout.created_s,
            update_time_s: table.statistics.look_for_changes(self.pool.disk().wall_s()),
        })
    }

    fn page_counts<T>(
        &self,
        table: &Table,
        layout: &Layout,
        used: u32,
        look: impl FnOnce(&PageCounts) -> T,
    ) -> Result<T> {
        debug_assert!(
            table.gate.is_locked(),
            "pages are counted while the table cannot be dropped"
        );
        let mut kept = table.page_counts.lock();
        let drift = kept.used.abs_diff(used);
        let fresh = kept.layout == layout.id && kept.indexes.len() == layout.secondary.len() + 1;
        if !fresh || drift > kept.used / 10 {
            let trees = std::iter::once(&layout.clustered).chain(layout.secondary.iter().map(|s| &s.index));
            let mut empty_buffers = 0;
            let mut count = |index: &Index| {
                let mut stats = index.tree.stats(&self.pool)?;
                if let Some(delta) = &index.delta {
                    let pending = delta.tree.stats(&self.pool)?;
                    stats.inner_pages += pending.inner_pages;
                    // An empty tree has one leaf, which no reader looks at.
                    match delta.is_empty() {
                        true => {
                            stats.inner_pages += pending.leaf_pages;
                            empty_buffers += pending.leaf_pages + pending.inner_pages;
                        }
                        false => stats.leaf_pages += pending.leaf_pages,
                    }
                }
                Ok((stats.leaf_pages, stats.leaf_pages + stats.inner_pages))
            };
            let indexes = trees.map(|index| or_unknown(count(index))).collect::<Result<_>>()?;
            *kept = PageCounts {
                layout: layout.id,
                used,
                indexes,
                empty_buffers,
            };
        }
        debug_assert_eq!(
            kept.indexes.len(),
            layout.secondary.len() + 1,
            "each index has its page counts"
        );
        Ok(look(&kept))
    }

    fn know_rows(&self, table: &Table, layout: &Layout, leaf_pages: u64) -> Result<()> {
        let counts = &table.statistics.counts;
        if counts.is_known() {
            return Ok(());
        }
        self.load_statistics(table)?;
        let rows = match or_unknown(self.stored_rows(table, leaf_pages))? {
            Some(rows) => rows,
            None => self.sample_rows(layout)?,
        };
        counts.know(rows);
        Ok(())
    }

    /// All pages of an index (0 = clustered, i + 1 = secondary i).
    pub(in crate::table) fn pages_of_index(&self, table: &Table, layout: &Layout, ordinal: u32) -> Result<u64> {
        let used = space::usage(&self.pool, layout.id)?.used;
        let pages = |counts: &PageCounts| counts.indexes.get(ordinal as usize).map_or(0, |c| c.1);
        self.page_counts(table, layout, used, pages)
    }

    /// Leaf pages of an index (0 = clustered, i + 1 = secondary i).
    pub fn leaf_pages(&self, table: &Table, ordinal: u32) -> Result<u64> {
        let _gate = table.gate.read();
        let layout = table.layout();
        let used = space::usage(&self.pool, layout.id)?.used;
        let leaves = |counts: &PageCounts| counts.indexes.get(ordinal as usize).map_or(0, |c| c.0);
        self.page_counts(table, layout, used, leaves)
    }

    /// Estimated entries with lo <= key < hi; None = open.
    pub fn records_in_range(&self, table: &Table, ordinal: u32, lo: Option<&[u8]>, hi: Option<&[u8]>) -> Result<u64> {
        let _gate = table.gate.read();
        let index = index_of(table.layout(), ordinal)?;
        let entries = index.tree.estimate_range(&self.pool, lo, hi)?;
        let delta = change::in_use(index).filter(|delta| delta.matters_beside(entries));
        Ok(match delta {
            Some(delta) => entries.saturating_add_signed(delta.estimate_range(&self.pool, lo, hi)?),
            None => entries,
        })
    }
}

fn index_of(layout: &Layout, ordinal: u32) -> Result<&Index> {
    let missing = || Error::Unsupported(format!("table {} has no index {ordinal}", layout.id));
    layout.index(ordinal).ok_or_else(missing)
}
