//! The text of SHOW ENGINE STATUS: InnoDB's sections, as far as the engine has what they show.
//!
//! Averages per second are those since the last report (`rates.rs`). `status_sections.rs` has the
//! sections that show nothing but counters.
use super::deadlocks::about;
use super::rates::Interval;
use super::status_sections::{heading, Sections};
use crate::base::Counters;
use crate::engine::instance::Engine;
use crate::io::local_time;
use std::fmt::Write;

/// Broken indexes that are named in the text.
const NAMED_MAX: usize = 20;

impl Engine {
    /// All counters, in the order of [`Counters::NAMES`]. The gauges are of one moment, also if
    /// other callers refresh them.
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
        self.counters().engine_stopped.set(self.check_alive().is_err() as u64);
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
        debug_assert_eq!(
            oldest.is_some(),
            snapshots > 0,
            "the oldest of the open views is one of them"
        );
        let now_us = self.store.pool.disk().now_us();
        counters.snapshots.set(snapshots as u64);
        let age = oldest.map_or(0, |view| now_us.saturating_sub(view.opened_us) / 1_000_000);
        counters.oldest_snapshot_age.set(age);
        counters
            .oldest_snapshot_connection
            .set(oldest.map_or(0, |view| view.connection));
    }

    /// `foreign_error`: when the plugin last refused a row for a foreign key, and why. Empty: it
    /// has refused none.
    pub fn status_text_with(&self, foreign_error: &str) -> String {
        let now_us = self.store.pool.disk().now_us();
        let interval = self.last_report.interval(now_us, self.counter_values());
        let mut out = String::new();
        let stamp = format!("{} SLUICE STATUS", local_time(self.store.pool.disk().wall_s()));
        let line = "=".repeat(stamp.len());
        let _ = writeln!(out, "{line}\n{stamp}\n{line}");
        let _ = writeln!(
            out,
            "Averages per second and hit rates are those of the last {:.1} seconds",
            interval.seconds()
        );
        let sections = Sections {
            store: &self.store,
            c: &interval,
        };
        sections.background(&mut out);
        sections.semaphores(&mut out);
        if !foreign_error.is_empty() {
            heading(&mut out, "LATEST FOREIGN KEY ERROR");
            let _ = writeln!(out, "{}", foreign_error.trim_end());
        }
        self.latest_deadlocks(&mut out, now_us);
        self.transactions(&mut out, &interval);
        sections.file_io(&mut out);
        sections.change_buffer(&mut out);
        sections.redo_log(&mut out);
        sections.buffer_pool(&mut out);
        sections.row_operations(&mut out);
        self.broken_indexes(&mut out);
        if let Err(e) = self.store.pool.check_alive() {
            let _ = writeln!(out, "\n{e}");
        }
        out
    }
    pub fn status_text(&self) -> String {
        self.status_text_with("")
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

    fn transactions(&self, out: &mut String, c: &Interval) {
        heading(out, "TRANSACTIONS");
        let _ = writeln!(out, "Trx id counter {}", c.value("max_trx_id"));
        let _ = writeln!(
            out,
            "History list length {}; {} bytes of undo",
            c.value("history_list_length"),
            c.value("undo_bytes")
        );
        if c.value("snapshots") > 0 {
            let _ = writeln!(
                out,
                "Snapshots {}; the oldest is {} s old, held by connection {}",
                c.value("snapshots"),
                c.value("oldest_snapshot_age"),
                c.value("oldest_snapshot_connection")
            );
        }
        let _ = writeln!(
            out,
            "Commits {}, rollbacks {}; {:.2} commits/s, {:.2} rollbacks/s",
            c.value("commits"),
            c.value("rollbacks"),
            c.per_second("commits"),
            c.per_second("rollbacks")
        );
        let _ = writeln!(
            out,
            "Row lock waits {}, now {}; deadlocks {}; timeouts {}; conflicts with snapshots {}",
            c.value("row_lock_waits"),
            c.value("row_lock_current_waits"),
            c.value("deadlocks"),
            c.value("lock_wait_timeouts"),
            c.value("snapshot_conflicts")
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
    }

    fn latest_deadlocks(&self, out: &mut String, now_us: u64) {
        for (i, deadlock) in self.store.trx_sys.locks().latest_deadlocks().iter().enumerate() {
            let title = match i {
                0 => "LATEST DETECTED DEADLOCK",
                _ => "AN EARLIER DEADLOCK",
            };
            heading(out, title);
            let age_s = now_us.saturating_sub(deadlock.at_us) / 1_000_000;
            let at = local_time((self.day_at_zero_us + deadlock.at_us) / 1_000_000);
            let _ = writeln!(out, "{at}, {age_s} s ago");
            out.push_str(&self.deadlocks.text_of_latest(deadlock));
        }
    }
}
