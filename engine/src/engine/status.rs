//! The text of SHOW ENGINE STATUS.
use super::Engine;
use crate::base::Counters;
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
            "redo_log_writes",
            "redo_log_written",
            "redo_log_fsyncs",
            "redo_log_waits",
            "checkpoints",
        ],
    ),
    ("CHANGE BUFFER", &["change_applied_directly"]),
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

impl Engine {
    /// Brings the gauges up to date, before counters are shown.
    pub fn publish_gauges(&self) {
        self.store.pool.update_gauges();
        self.store.redo.publish_gauges();
        let counters = self.counters();
        counters.history_list_length.set(self.store.trx_sys.history_length());
    }

    pub fn status_text(&self) -> String {
        self.publish_gauges();
        let mut out = String::new();
        for (title, names) in SECTIONS {
            self.section(&mut out, title, names);
            if *title == "CHANGE BUFFER" {
                out.push_str("Off: changes go to their leaves at once\n");
                self.transactions(&mut out);
            }
        }
        if let Err(e) = self.store.pool.check_alive() {
            let _ = writeln!(out, "\n{e}");
        }
        out
    }

    fn section(&self, out: &mut String, title: &str, names: &[&str]) {
        heading(out, title);
        for name in names {
            let at = Counters::NAMES.iter().position(|n| n == name);
            let value = at.map_or(0, |i| self.counters().value(i));
            let _ = writeln!(out, "{name} {value}");
        }
    }

    fn transactions(&self, out: &mut String) {
        heading(out, "TRANSACTIONS");
        let c = self.counters();
        let _ = writeln!(out, "History list length {}", c.history_list_length.get());
        let _ = writeln!(
            out,
            "Row lock waits {}, now {}; deadlocks {}; timeouts {}",
            c.row_lock_waits.get(),
            c.row_lock_current_waits.get(),
            c.deadlocks.get(),
            c.lock_wait_timeouts.get()
        );
        for trx in self.store.trx_sys.transactions() {
            let _ = writeln!(
                out,
                "---TRANSACTION {}, connection {}, active {} s, {} undo records, {} row locks",
                trx.id,
                trx.connection,
                trx.age_us / 1_000_000,
                trx.undo_records,
                trx.row_locks
            );
            if let Some(wait) = trx.wait {
                let _ = writeln!(out, "   waits: {wait:?}");
            }
        }
        if let Some(deadlock) = self.store.trx_sys.locks().latest_deadlock() {
            heading(out, "LATEST DEADLOCK");
            out.push_str(&deadlock);
            out.push('\n');
        }
    }
}

fn heading(out: &mut String, title: &str) {
    let line = "-".repeat(title.len());
    let _ = writeln!(out, "{line}\n{title}\n{line}");
}
