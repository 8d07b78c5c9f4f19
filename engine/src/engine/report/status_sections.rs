//! The sections of SHOW ENGINE STATUS that show counters, with averages per second.
//! Called by `status.rs`.
use super::rates::Interval;
use crate::base::counters::Counter;
use crate::base::sync::{contention, waiting_now};
use crate::table::{ChangeReport, Store};
use std::fmt::Write;

/// A hit rate in InnoDB's words.
fn hit_rate(permille: Option<u64>) -> String {
    debug_assert!(permille.is_none_or(|hits| hits <= 1000), "no more hits than requests");
    permille.map_or("no requests".into(), |hits| format!("hit rate {hits} / 1000"))
}

/// Writes sections.
pub(super) struct Sections<'a> {
    pub store: &'a Store,
    pub c: &'a Interval,
}

impl Sections<'_> {
    pub(super) fn background(&self, out: &mut String) {
        let c = self.c;
        heading(out, "BACKGROUND THREAD");
        let _ = writeln!(
            out,
            "Checkpoints {}; purged undo records {}, {:.2}/s; pages of undo removed {}",
            c.value("checkpoints"),
            c.value("purged_records"),
            c.per_second("purged_records"),
            c.value("undo_pages_cut")
        );
        let _ = writeln!(
            out,
            "Pages flushed {}, {:.2}/s; buffered entries merged {:.2}/s; undo records left to roll back {}",
            c.value("buffer_pool_pages_flushed"),
            c.per_second("buffer_pool_pages_flushed"),
            c.per_second("change_buffer_merged_entries"),
            c.value("rollback_records_left")
        );
    }

    /// Waits of threads, except for row locks.
    pub(super) fn semaphores(&self, out: &mut String) {
        let c = self.c;
        heading(out, "SEMAPHORES");
        let waits: u64 = contention().map(|(_, waits)| waits).sum();
        let _ = writeln!(
            out,
            "Mutex waits {waits}, now {} (SHOW ENGINE SLUICE MUTEX has them by mutex)",
            waiting_now()
        );
        let _ = writeln!(
            out,
            "Waits for a free frame {}, for room in the redo log {}, in its buffer {}; for a sync of it {}, {:.2}/s",
            c.value("buffer_pool_wait_free"),
            c.value("redo_log_waits"),
            c.value("redo_log_buffer_waits"),
            c.value("redo_log_commit_waits"),
            c.per_second("redo_log_commit_waits")
        );
    }

    pub(super) fn file_io(&self, out: &mut String) {
        let c = self.c;
        heading(out, "FILE I/O");
        let _ = writeln!(
            out,
            "{} file reads, {} file writes, {} fsyncs of data files; {} log writes, {} log fsyncs",
            c.value("data_reads"),
            c.value("data_writes"),
            c.value("data_fsyncs"),
            c.value("redo_log_writes"),
            c.value("redo_log_fsyncs")
        );
        let reads = c.grown("data_reads");
        let _ = writeln!(
            out,
            "{:.2} reads/s, {} avg bytes/read, {:.2} writes/s, {:.2} fsyncs/s",
            c.per_second("data_reads"),
            c.grown("data_read").checked_div(reads).unwrap_or(0),
            c.per_second("data_writes"),
            c.per_second("data_fsyncs")
        );
        let _ = writeln!(
            out,
            "{:.2} log writes/s, {:.2} log fsyncs/s; doublewrite: {} pages in {} batches, {:.2} pages/s",
            c.per_second("redo_log_writes"),
            c.per_second("redo_log_fsyncs"),
            c.value("dblwr_pages_written"),
            c.value("dblwr_writes"),
            c.per_second("dblwr_pages_written")
        );
    }

    pub(super) fn redo_log(&self, out: &mut String) {
        let c = self.c;
        heading(out, "LOG");
        for (text, name) in [
            ("Log sequence number", "redo_log_lsn"),
            ("Log flushed up to  ", "redo_log_lsn_flushed"),
            ("Last checkpoint at ", "redo_log_checkpoint_lsn"),
        ] {
            let _ = writeln!(out, "{text} {}", c.value(name));
        }
        let _ = writeln!(
            out,
            "Checkpoint age {} of {} bytes ({} / 1000); a recovery would take about {} ms",
            c.value("redo_log_checkpoint_age"),
            c.value("redo_log_capacity"),
            c.value("redo_log_used_permille"),
            c.value("redo_log_recovery_estimate_ms")
        );
        if c.value("redo_log_enabled") == 0 {
            let _ = writeln!(out, "The redo log is OFF: a crash would destroy all tables");
        }
        let _ = writeln!(
            out,
            "{} log i/o's done, {:.2} log i/o's/second; {:.2} bytes/s logged; {} threads at most served by one fsync",
            c.value("redo_log_writes"),
            c.per_second("redo_log_writes"),
            c.per_second("redo_log_bytes"),
            c.value("redo_log_group_size_max")
        );
    }

    pub(super) fn buffer_pool(&self, out: &mut String) {
        let c = self.c;
        heading(out, "BUFFER POOL AND MEMORY");
        let (total, free) = (c.value("buffer_pool_pages_total"), c.value("buffer_pool_pages_free"));
        let used = total.saturating_sub(free);
        let dirty = c.value("buffer_pool_pages_dirty");
        let _ = writeln!(
            out,
            "Buffer pool size   {total}\nFree buffers       {free}\nDatabase pages     {used}"
        );
        let percent = if total > 0 {
            dirty as f64 * 100.0 / total as f64
        } else {
            0.0
        };
        let _ = writeln!(out, "Modified db pages  {dirty}\nPercent of dirty pages: {percent:.3}");
        let _ = writeln!(
            out,
            "Pages read {}, created {}, written {}",
            c.value("buffer_pool_reads") + c.value("buffer_pool_read_ahead"),
            c.value("pages_created"),
            c.value("buffer_pool_pages_flushed")
        );
        let _ = writeln!(
            out,
            "{:.2} reads/s, {:.2} creates/s, {:.2} writes/s",
            c.per_second("buffer_pool_reads") + c.per_second("buffer_pool_read_ahead"),
            c.per_second("pages_created"),
            c.per_second("buffer_pool_pages_flushed")
        );
        let _ = writeln!(
            out,
            "Buffer pool {}, {:.2} requests/s",
            hit_rate(c.hits_permille("buffer_pool_read_requests", "buffer_pool_reads")),
            c.per_second("buffer_pool_read_requests")
        );
        let _ = writeln!(
            out,
            "Pages read ahead {:.2}/s, evicted {:.2}/s; absence filters kept of evicted pages {}",
            c.per_second("buffer_pool_read_ahead"),
            c.per_second("buffer_pool_pages_evicted"),
            c.value("buffer_pool_absence_filters")
        );
    }

    pub(super) fn row_operations(&self, out: &mut String) {
        let c = self.c;
        heading(out, "ROW OPERATIONS");
        let _ = writeln!(
            out,
            "{} read views open; {} transactions that have written",
            c.value("snapshots"),
            c.value("active_transactions")
        );
        let _ = writeln!(
            out,
            "Number of rows inserted {}, updated {}, deleted {}, read {}",
            c.value("rows_inserted"),
            c.value("rows_updated"),
            c.value("rows_deleted"),
            c.value("rows_read")
        );
        let _ = writeln!(
            out,
            "{:.2} inserts/s, {:.2} updates/s, {:.2} deletes/s, {:.2} reads/s",
            c.per_second("rows_inserted"),
            c.per_second("rows_updated"),
            c.per_second("rows_deleted"),
            c.per_second("rows_read")
        );
        let _ = writeln!(
            out,
            "Older versions built {}, {:.2}/s; pages split {}, merged {}",
            c.value("versions_built"),
            c.per_second("versions_built"),
            c.value("page_splits"),
            c.value("page_merges")
        );
    }

    /// In the words of InnoDB's section, as far as it has some.
    pub(super) fn change_buffer(&self, out: &mut String) {
        heading(out, "INSERT BUFFER (CHANGE BUFFER)");
        let (c, report) = (&self.store.counters, self.store.merge_scheduler().change_report());
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
        self.change_buffer_rates(out, &report);
    }

    fn change_buffer_rates(&self, out: &mut String, report: &ChangeReport) {
        let _ = writeln!(
            out,
            "{:.2} inserts/s, {:.2} delete marks/s, {:.2} deletes/s buffered; {:.2} entries/s merged",
            self.c.per_second("change_buffer_buffered_inserts"),
            self.c.per_second("change_buffer_buffered_delete_marks"),
            self.c.per_second("change_buffer_buffered_deletes"),
            self.c.per_second("change_buffer_merged_entries")
        );
        if report.draining {
            let _ = writeln!(out, "Draining: about {} s left", report.drain_eta_s);
        }
        if report.uncounted > 0 {
            let _ = writeln!(out, "Still being counted after the start: {} indexes", report.uncounted);
        }
        if self.c.value("change_buffer_missing") > 0 {
            let _ = writeln!(
                out,
                "Changes that fit no entry (a corrupt index; CHECK TABLE tells which): met {} times",
                self.c.value("change_buffer_missing")
            );
        }
    }
}

fn operations(inserts: &Counter, delete_marks: &Counter, deletes: &Counter) -> String {
    let [inserts, delete_marks, deletes] = [inserts, delete_marks, deletes].map(Counter::get);
    format!(" insert {inserts}, delete mark {delete_marks}, delete {deletes}")
}

pub(super) fn heading(out: &mut String, title: &str) {
    debug_assert!(title.is_ascii(), "the lines are as long as the title between them");
    let line = "-".repeat(title.len());
    let _ = writeln!(out, "{line}\n{title}\n{line}");
}
