//! What the optimizer asks: row counts, sizes, entries in a range, sample keys. All of it estimates but the sizes.
//!
//! The row count lives in memory: sampled at the first question after the engine was opened, then kept by the row operations and by
//! rollback. Page counts need a walk over a tree's inner levels: the answer is kept until the file has grown or shrunk by a tenth.
use super::def::{Layout, Table};
use super::store::Store;
use crate::base::{Error, Result};
use crate::btree::LeafRead;
use crate::change;
use crate::index::{Index, RowHeader};
use crate::pool::PAGE_SIZE;
use crate::space;
use std::sync::atomic::Ordering;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    pub rows: u64,
    /// Clustered index and overflow pages.
    pub data_bytes: u64,
    /// All secondary indexes.
    pub index_bytes: u64,
    /// Allocated, not in use.
    pub free_bytes: u64,
    pub file_bytes: u64,
    pub clustered_leaf_pages: u64,
    /// Seconds since the epoch; 0 = unknown.
    pub create_time_s: u64,
}

/// Page counts of a table's indexes, as of when the file had `used` pages in use.
#[derive(Clone, Debug, Default)]
pub(super) struct PageCounts {
    layout: u32,
    used: u32,
    /// By ordinal, clustered first: (leaf pages, all pages).
    indexes: Vec<(u64, u64)>,
}

/// A page that cannot be read keeps nobody from opening the table: it is for another statement to tell.
fn or_unknown<T: Default>(found: Result<T>) -> Result<T> {
    match found {
        Err(e) if e.is_corrupt() => Ok(T::default()),
        found => found,
    }
}

/// Leaves looked at to learn how many rows one holds.
const SAMPLED_LEAVES: u64 = 16;

impl Store {
    pub fn table_stats(&self, table: &Table) -> Result<TableStats> {
        let _gate = table.gate.read();
        let layout = table.layout();
        let usage = or_unknown(space::usage(&self.pool, layout.id))?;
        // Every statement asks: the list is not copied.
        let sums = |counts: &PageCounts| {
            (
                counts.indexes[0].0,
                counts.indexes[1..].iter().map(|(_, pages)| pages).sum(),
            )
        };
        let (leaf_pages, of_secondary): (u64, u64) = self.page_counts(table, layout, usage.used, sums)?;
        or_unknown(self.know_rows(table, layout, leaf_pages))?;
        let page = PAGE_SIZE as u64;
        Ok(TableStats {
            rows: table.rows.load(Ordering::Relaxed).max(0) as u64,
            data_bytes: (usage.used as u64).saturating_sub(of_secondary) * page,
            index_bytes: of_secondary * page,
            free_bytes: (usage.pages.saturating_sub(usage.used)) as u64 * page,
            file_bytes: usage.pages as u64 * page,
            clustered_leaf_pages: leaf_pages,
            create_time_s: layout.created_s,
        })
    }

    fn page_counts<T>(
        &self,
        table: &Table,
        layout: &Layout,
        used: u32,
        look: impl FnOnce(&PageCounts) -> T,
    ) -> Result<T> {
        let mut kept = table.page_counts.lock();
        let drift = kept.used.abs_diff(used);
        let fresh = kept.layout == layout.id && kept.indexes.len() == layout.secondary.len() + 1;
        if !fresh || drift > kept.used / 10 {
            let trees = std::iter::once(&layout.clustered).chain(layout.secondary.iter().map(|s| &s.index));
            let count = |index: &Index| {
                let mut stats = index.tree.stats(&self.pool)?;
                if let Some(delta) = &index.delta {
                    let pending = delta.tree.stats(&self.pool)?;
                    stats.inner_pages += pending.inner_pages;
                    // An empty tree has one leaf, which no reader looks at.
                    match delta.is_empty() {
                        true => stats.inner_pages += pending.leaf_pages,
                        false => stats.leaf_pages += pending.leaf_pages,
                    }
                }
                Ok((stats.leaf_pages, stats.leaf_pages + stats.inner_pages))
            };
            *kept = PageCounts {
                layout: layout.id,
                used,
                indexes: trees.map(|index| or_unknown(count(index))).collect::<Result<_>>()?,
            };
        }
        Ok(look(&kept))
    }

    fn know_rows(&self, table: &Table, layout: &Layout, leaf_pages: u64) -> Result<()> {
        if table.rows_known.load(Ordering::Acquire) {
            return Ok(());
        }
        let before = table.rows.load(Ordering::Relaxed);
        let (mut rows, mut leaves) = (0, 0);
        for _ in 0..SAMPLED_LEAVES.min(leaf_pages) {
            let Some(leaf) = layout.clustered.tree.random_leaf(&self.pool)? else {
                break;
            };
            rows += live_rows(&leaf);
            leaves += 1;
        }
        let estimate = (rows * leaf_pages).checked_div(leaves).unwrap_or(0);
        // What was inserted and deleted meanwhile is in the sample, more or less: only `before` is replaced.
        if !table.rows_known.swap(true, Ordering::AcqRel) {
            table.rows.fetch_add(estimate as i64 - before, Ordering::Relaxed);
        }
        Ok(())
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

    /// Hands out about `samples` keys, as runs of adjacent ones from random leaves; an empty key separates the runs.
    pub fn sample_keys(&self, table: &Table, ordinal: u32, samples: usize, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        let (mut given, mut tries) = (0, 0);
        let mut run = Run::default();
        while given < samples && tries < samples {
            tries += 1;
            run.clear();
            {
                let _gate = table.gate.read();
                if !self.sample_leaf(table.layout(), ordinal, samples - given, &mut run)? {
                    return Ok(());
                }
            }
            let mut start = 0;
            for end in &run.ends {
                each(&run.bytes[start..*end]);
                start = *end;
            }
            each(&[]);
            given += run.ends.len();
        }
        Ok(())
    }

    /// Keys of a random leaf: of the index, or of its delta tree, in proportion to their leaves. False: there is nothing to sample.
    fn sample_leaf(&self, layout: &Layout, ordinal: u32, keys_max: usize, run: &mut Run) -> Result<bool> {
        let index = index_of(layout, ordinal)?;
        if let Some(delta) = change::in_use(index) {
            let pending = delta.tree.stats(&self.pool)?.leaf_pages;
            let base = index.tree.stats(&self.pool)?.leaf_pages;
            if self.pool.disk().random() % (pending + base) < pending {
                delta.sample_leaf(&self.pool, &mut |key, value| {
                    if !self.is_marked(layout, ordinal, value)? {
                        run.push(key);
                    }
                    Ok(run.ends.len() < keys_max)
                })?;
                return Ok(true);
            }
        }
        let Some(leaf) = index.tree.random_leaf(&self.pool)? else {
            return Ok(change::in_use(index).is_some());
        };
        for slot in 0..leaf.len().min(keys_max) {
            let (key, value) = leaf.entry_at(slot);
            if !self.is_marked(layout, ordinal, value)? {
                run.push(key);
            }
        }
        Ok(true)
    }

    fn is_marked(&self, layout: &Layout, ordinal: u32, value: &[u8]) -> Result<bool> {
        match ordinal {
            0 => Ok(RowHeader::read(value).marked()),
            _ => Ok(self.decode_entry(layout, value)?.marked),
        }
    }
}

/// Keys copied from one leaf, flat.
#[derive(Default)]
struct Run {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Run {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
    fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }
}

fn index_of(layout: &Layout, ordinal: u32) -> Result<&Index> {
    let missing = || Error::Unsupported(format!("table {} has no index {ordinal}", layout.id));
    layout.index(ordinal).ok_or_else(missing)
}

fn live_rows(leaf: &LeafRead<'_>) -> u64 {
    let live = |slot: &usize| !RowHeader::read(leaf.value_at(*slot)).marked();
    (0..leaf.len()).filter(live).count() as u64
}
