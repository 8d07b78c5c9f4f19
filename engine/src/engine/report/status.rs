//! The text of SHOW ENGINE STATUS.
use super::deadlocks::about;
use crate::base::counters::Counter;
use crate::base::Counters;
use crate::engine::instance::Engine;
use crate::io::local_time;
use std::fmt::Write;

/// Sections, and the counters shown in each.
const SECTIONS: &[(&str, &[&str])] = &[
    (
        "FILE I/O",
        &[
            "data_reads",
            "data_read",
            "data_writes",
            "data_written",
            "data_fsyncs",
            "dblwr_writes",
            "dblwr_pages_written",
        ],
    ),
    (
        "BUFFER POOL",
        &[
            "buffer_pool_pages_total",
            "buffer_pool_pages_free",
            "buffer_pool_pages_dirty",
            "buffer_pool_read_requests",
            "buffer_pool_reads",
            "buffer_pool_read_ahead",
            "buffer_pool_pages_evicted",
            "buffer_pool_pages_flushed",
            "buffer_pool_wait_free",
        ],
    ),
    (
        "LOG",
        &[
            "redo_log_lsn",
            "redo_log_lsn_flushed",
            "redo_log_checkpoint_lsn",
            "redo_log_checkpoint_age",
            "redo_log_enabled",
            "redo_log_capacity",
            "redo_log_used_permille",
            "redo_log_writes",
            "redo_log_written",
            "redo_log_fsyncs",
            "redo_log_waits",
            "checkpoints",
        ],
    ),
    (
        "ROW OPERATIONS",
        &[
            "rows_read",
            "rows_inserted",
            "rows_updated",
            "rows_deleted",
            "versions_built",
            "page_splits",
            "page_merges",
        ],
    ),
];

/// Broken indexes that are named in the text.
const NAMED_MAX: usize = 20;

impl Engine {
    /// All counters, in the order of [`Counters::NAMES`]. Gauges that are read together fit
    /// together, whatever other callers ask meanwhile.
    pub fn counter_values(&self) -> Vec<u64> {
        let _alone = self.publishing.lock();
        self.refresh_gauges();
        (0..Counters::NAMES.len()).map(|i| self.counters().value(i)).collect()
    }

    /// Brings the gauges up to date, before counters are shown.
    pub fn publish_gauges(&self) {
        let _alone = self.publishing.lock();
        self.refresh_gauges();
    }

    fn refresh_gauges(&self) {
        self.store.pool.update_gauges();
        self.store.redo.publish_gauges();
        let counters = self.counters();
        self.store.merge_scheduler().publish_change_gauges();
        counters
            .history_list_length
            .set(self.store.trx_sys.undo.history_length());
        self.store.trx_sys.undo.publish_gauges();
        (counters.rollback_records_left).set(self.store.trx_sys.rollback_records_left());
        let (oldest, snapshots) = self.store.trx_sys.visibility.oldest_view();
        let now_us = self.store.pool.disk().now_us();
        counters.snapshots.set(snapshots as u64);
        let age = oldest.map_or(0, |view| now_us.saturating_sub(view.opened_us) / 1_000_000);
        counters.oldest_snapshot_age.set(age);
        counters
            .oldest_snapshot_connection
            .set(oldest.map_or(0, |view| view.connection));
    }

    pub fn status_text(&self) -> String {
        self.publish_gauges();
        let mut out = String::new();
        let stamp = format!("{} SLUICE STATUS", local_time(self.store.pool.disk().wall_s()));
        let line = "=".repeat(stamp.len());
        let _ = writeln!(out, "{line}\n{stamp}\n{line}");
        for (title, names) in SECTIONS {
            self.section(&mut out, title, names);
            if *title == "LOG" {
                self.change_buffer(&mut out);
                self.transactions(&mut out);
            }
        }
        self.broken_indexes(&mut out);
        if let Err(e) = self.store.pool.check_alive() {
            let _ = writeln!(out, "\n{e}");
        }
        out
    }

    fn broken_indexes(&self, out: &mut String) {
        let mut quarantined = Vec::new();
        for table in self.store.catalog.tables() {
            let broken = table.layout().secondary.iter().filter(|s| s.quarantined);
            quarantined
                .extend(broken.map(|s| format!("{} of table {}", s.index.name, self.store.catalog.shown(&table))));
        }
        let _ = write!(out, "Quarantined secondary indexes: {}", quarantined.len());
        let _ = match quarantined.len() {
            0 => writeln!(out),
            count => {
                let more = if count > NAMED_MAX { ", ..." } else { "" };
                quarantined.truncate(NAMED_MAX);
                writeln!(out, " ({}{more}); REPAIR TABLE rebuilds them", quarantined.join(", "))
            }
        };
    }

    fn section(&self, out: &mut String, title: &str, names: &[&str]) {
        heading(out, title);
        for name in names {
            let at = Counters::NAMES.iter().position(|n| n == name);
            let value = at.map_or(0, |i| self.counters().value(i));
            let _ = writeln!(out, "{name} {value}");
        }
    }

    /// In the words of InnoDB's section, as far as it has some.
    fn change_buffer(&self, out: &mut String) {
        heading(out, "CHANGE BUFFER");
        let (c, report) = (self.counters(), self.store.merge_scheduler().change_report());
        let (mut size, mut empty) = (0, 0);
        let counted = self
            .store
            .merge_scheduler()
            .changes_by_index(&mut |index| match index.pages {
                0 => empty += 1,
                pages => size += pages,
            });
        if let Err(e) = counted {
            let _ = writeln!(out, "{e}");
        }
        let lines = [
            format!(
                "Change buffer: size {size}, free list len 0, seg size {}, {} merges",
                size + empty,
                c.change_buffer_merges.get()
            ),
            "merged operations:".into(),
            operations(
                &c.change_buffer_merged_inserts,
                &c.change_buffer_merged_delete_marks,
                &c.change_buffer_merged_deletes,
            ),
            "buffered operations:".into(),
            operations(
                &c.change_buffer_buffered_inserts,
                &c.change_buffer_buffered_delete_marks,
                &c.change_buffer_buffered_deletes,
            ),
            format!("discarded operations: {}", c.change_buffer_discarded.get()),
            format!(
                "Buffering {}; {} changes went to their pages at once",
                self.store.change.buffering().word(),
                c.change_buffer_applied_directly.get()
            ),
            format!(
                "Pending: {} entries in {} indexes ({} partitions), {} of at most {} bytes; the oldest is {} s old",
                report.entries, report.indexes, report.partitions, report.bytes, report.bytes_max, report.age_s
            ),
            format!(
                "Reads avoided {}; merged by statements because the bound was near {}, in {} ms",
                c.change_buffer_reads_avoided.get(),
                c.change_buffer_throttled.get(),
                c.change_buffer_throttled_us.get() / 1000
            ),
            format!(
                "Unique values whose page was not in memory: {} put unseen, {} looked for",
                c.change_buffer_unique_checks_spared.get(),
                c.change_buffer_unique_checks_read.get()
            ),
        ];
        for line in lines {
            let _ = writeln!(out, "{line}");
        }
        if report.draining {
            let _ = writeln!(out, "Draining: about {} s left", report.drain_eta_s);
        }
        if report.uncounted > 0 {
            let _ = writeln!(out, "Still being counted after the start: {} indexes", report.uncounted);
        }
        if c.change_buffer_missing.get() > 0 {
            let _ = writeln!(
                out,
                "Changes that fit no entry (a corrupt index; CHECK TABLE tells which): met {} times",
                c.change_buffer_missing.get()
            );
        }
    }

    fn transactions(&self, out: &mut String) {
        heading(out, "TRANSACTIONS");
        let c = self.counters();
        let _ = writeln!(
            out,
            "History list length {}; {} bytes of undo",
            c.history_list_length.get(),
            c.undo_bytes.get()
        );
        if c.snapshots.get() > 0 {
            let _ = writeln!(
                out,
                "Snapshots {}; the oldest is {} s old, held by connection {}",
                c.snapshots.get(),
                c.oldest_snapshot_age.get(),
                c.oldest_snapshot_connection.get()
            );
        }
        let _ = writeln!(
            out,
            "Row lock waits {}, now {}; deadlocks {}; timeouts {}; conflicts with snapshots {}",
            c.row_lock_waits.get(),
            c.row_lock_current_waits.get(),
            c.deadlocks.get(),
            c.lock_wait_timeouts.get(),
            c.snapshot_conflicts.get()
        );
        for trx in self.store.trx_sys.transactions() {
            let snapshot = trx.snapshot_age_us.map_or(String::new(), |age_us| {
                format!(", snapshot {} s old", age_us / 1_000_000)
            });
            let _ = writeln!(out, "---TRANSACTION{}{snapshot}", about(&trx));
            if let Some(wait) = &trx.wait {
                let _ = writeln!(out, "   waits for {}", self.deadlocks.waited_for(wait));
            }
        }
        let now_us = self.store.pool.disk().now_us();
        for (i, deadlock) in self.store.trx_sys.locks().latest_deadlocks().iter().enumerate() {
            heading(
                out,
                if i == 0 {
                    "LATEST DEADLOCK"
                } else {
                    "AN EARLIER DEADLOCK"
                },
            );
            let age_s = now_us.saturating_sub(deadlock.at_us) / 1_000_000;
            let at = local_time((self.day_at_zero_us + deadlock.at_us) / 1_000_000);
            let _ = writeln!(out, "{at}, {age_s} s ago");
            out.push_str(&self.deadlocks.latest_account(deadlock));
        }
    }
}

fn operations(inserts: &Counter, delete_marks: &Counter, deletes: &Counter) -> String {
    let [inserts, delete_marks, deletes] = [inserts, delete_marks, deletes].map(Counter::get);
    format!(" insert {inserts}, delete mark {delete_marks}, delete {deletes}")
}

fn heading(out: &mut String, title: &str) {
    let line = "-".repeat(title.len());
    let _ = writeln!(out, "{line}\n{title}\n{line}");
}
