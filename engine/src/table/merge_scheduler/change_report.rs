//! Reports of the change buffer: the engine's sums as gauges, and index by index.
//!
//! Changes nothing. Sums are read from memory, a few words an index. Pages are counted by a walk
//! over the inner levels of the delta trees, under the table's gate. Called for SHOW STATUS
//! (`publish_change_gauges`), SHOW ENGINE STATUS, INFORMATION_SCHEMA, and by embedded users.
use crate::base::{Error, Result};
use crate::change::{Buffering, Delta};
use crate::table::merge_scheduler::scheduler::MergeScheduler;

/// The change buffer of an engine just now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeReport {
    /// Pending entries, and about how many bytes they take in pages, as far as they are counted.
    pub entries: u64,
    pub bytes: u64,
    /// Bytes that may be pending.
    pub bytes_max: u64,
    /// Partitions of delta trees that hold something.
    pub partitions: u64,
    /// Indexes with something pending.
    pub indexes: u64,
    /// Indexes whose entries are not counted yet (after a restart).
    pub uncounted: u64,
    /// Seconds since the oldest entry came, at most. After a restart, seconds since the restart.
    pub age_s: u64,
    pub draining: bool,
    /// Seconds until nothing is pending, at the speed of the last seconds; 0 while nothing is
    /// merged.
    pub drain_eta_s: u64,
}

/// What is pending for one index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexChanges {
    pub table: String,
    pub index: String,
    /// The table's own setting; None: that of all tables.
    pub own: Option<Buffering>,
    /// The setting in effect.
    pub buffering: Buffering,
    /// False: after a restart, `entries` and `bytes` are what is counted so far.
    pub counted: bool,
    pub entries: u64,
    pub bytes: u64,
    pub partitions: u64,
    /// Pages of its delta tree; 0 = empty.
    pub pages: u64,
    pub age_s: u64,
    /// Entries merged since the engine was opened.
    pub merged: u64,
}

impl MergeScheduler {
    pub fn change_report(&self) -> ChangeReport {
        let now_us = self.pool.disk().now_us();
        let mut report = ChangeReport {
            entries: self.change.entries(),
            bytes: self.change.bytes(),
            bytes_max: self.change.bytes_max(),
            draining: self.change.is_draining(),
            drain_eta_s: self.counters.change_buffer_drain_eta.get(),
            ..ChangeReport::default()
        };
        for table in self.catalog.tables().iter().filter(|table| !table.is_gone()) {
            for (_, delta) in table.layout().buffered().filter(|(_, delta)| !delta.is_empty()) {
                if !delta.is_known() {
                    report.uncounted += 1;
                }
                if delta.entries() > 0 {
                    report.indexes += 1;
                    report.partitions += delta.partition_count();
                    report.age_s = report.age_s.max(delta.age_us(now_us) / 1_000_000);
                }
            }
        }
        report
    }
    /// Brings the gauges up to date, before counters are shown.
    pub fn publish_change_gauges(&self) {
        let report = self.change_report();
        let c = &self.counters;
        c.change_buffer_entries.set(report.entries);
        c.change_buffer_bytes.set(report.bytes);
        c.change_buffer_bytes_max.set(report.bytes_max);
        c.change_buffer_partitions.set(report.partitions);
        c.change_buffer_uncounted.set(report.uncounted);
        c.change_buffer_age.set(report.age_s);
        c.change_buffer_draining.set(report.draining as u64);
        if report.entries == 0 {
            // The value is that of the last round, when something may have been pending.
            c.change_buffer_drain_eta.set(0);
        }
    }

    /// Every index that can be buffered, by table.
    pub fn changes_by_index(&self, each: &mut dyn FnMut(IndexChanges)) -> Result<()> {
        let now_us = self.pool.disk().now_us();
        for table in self.catalog.tables() {
            let mut found = Vec::new();
            {
                let _gate = table.gate.read();
                if table.is_gone() {
                    continue;
                }
                let name = table.name();
                for (index, delta) in table.layout().buffered() {
                    found.push(IndexChanges {
                        table: name.clone(),
                        index: index.name.clone(),
                        own: delta.buffering(),
                        buffering: delta.buffering().unwrap_or(self.change.buffering()),
                        counted: delta.is_known(),
                        entries: delta.entries(),
                        bytes: delta.bytes(),
                        partitions: if delta.entries() > 0 {
                            delta.partition_count()
                        } else {
                            0
                        },
                        pages: self.delta_pages(delta)?,
                        age_s: delta.age_us(now_us) / 1_000_000,
                        merged: delta.progress.merged(),
                    });
                }
            }
            found.into_iter().for_each(&mut *each);
        }
        Ok(())
    }
    /// A tree that cannot be read has no pages to report.
    fn delta_pages(&self, delta: &Delta) -> Result<u64> {
        if delta.entries() == 0 {
            return Ok(0);
        }
        match delta.tree.stats(&self.pool) {
            Ok(stats) => Ok(stats.leaf_pages + stats.inner_pages),
            Err(e @ Error::Poisoned(_)) => Err(e),
            Err(_) => Ok(0),
        }
    }
}
