//! Status counters: one list, in one place. The server shows each as `Sluice_<name>`.
//!
//! A new counter is a line in the list below, and a row of `docs/status.md` at the same place. A
//! comment that begins with "Gauge:" makes it a gauge, which the layer that knows the value sets.
//! [`Counters::kind`] names the maxima. [`SUBSYSTEMS`] names the first counter of each subsystem.
//!
//! Each counter has a cache line of its own, so threads that count different things do not slow
//! each other down. Called by: every layer.
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[doc = $doc:literal])* $name:ident),* $(,)?) => {
        /// All counters of an engine. Relaxed atomics: exact totals, no ordering.
        #[derive(Default)]
        pub struct Counters { $($(#[doc = $doc])* pub $name: Counter),* }
        impl Counters {
            /// Names, in the order of [`Counters::value`].
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];
            /// What each counts: the lines of its comment, in the same order.
            const COMMENTS: &'static [&'static [&'static str]] = &[$(&[$($doc),*]),*];
            pub fn value(&self, i: usize) -> u64 {
                let all = [$(&self.$name),*];
                all[i].get()
            }
        }
    };
}

/// A total, or a gauge that is set.
#[derive(Default)]
pub struct Counter(CachePadded<AtomicU64>);

impl Counter {
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }
    pub fn inc(&self) {
        self.add(1);
    }
    pub fn sub(&self, n: u64) {
        let before = self.0.fetch_sub(n, Ordering::Relaxed);
        debug_assert!(before >= n, "a gauge does not go below zero");
    }
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }
    /// Sets the counter to `n` if `n` is larger.
    pub fn raise(&self, n: u64) {
        self.0.fetch_max(n, Ordering::Relaxed);
    }
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

const _: () = assert!(
    size_of::<Counter>() == align_of::<Counter>(),
    "a counter has a cache line of its own"
);

/// How a counter's value changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Only grows.
    Total,
    /// The value of this moment.
    Gauge,
    /// The largest value since the engine was opened.
    Maximum,
}

/// The first counter of each subsystem, and InnoDB's name of the subsystem.
const SUBSYSTEMS: &[(&str, &str)] = &[
    ("buffer_pool_read_requests", "buffer"),
    ("data_read", "os"),
    ("redo_log_bytes", "log"),
    ("bulk_pages_written", "index"),
    ("commits", "transaction"),
    ("row_lock_waits", "lock"),
    ("rows_read", "dml"),
    ("history_list_length", "purge"),
    ("active_transactions", "transaction"),
    ("change_buffer_applied_directly", "change_buffer"),
    ("backup_phase", "backup"),
    ("engine_stopped", "engine"),
];

const GAUGE: &str = "Gauge:";

impl Counters {
    /// What the counter means, in one line.
    pub fn comment(i: usize) -> String {
        let lines: Vec<&str> = Counters::COMMENTS[i].iter().map(|line| line.trim()).collect();
        let text = lines.join(" ");
        text.strip_prefix(GAUGE)
            .map_or(text.clone(), |rest| rest.trim().to_string())
    }
    pub fn kind(i: usize) -> Kind {
        let is_gauge = Counters::COMMENTS[i]
            .first()
            .is_some_and(|line| line.trim().starts_with(GAUGE));
        match Counters::NAMES[i] {
            _ if is_gauge => Kind::Gauge,
            "redo_log_group_size_max" | "row_lock_time_max_us" => Kind::Maximum,
            _ => Kind::Total,
        }
    }
    /// The part of the engine that counts it.
    pub fn subsystem(i: usize) -> &'static str {
        let begun = Counters::NAMES[..=i].iter().rev();
        let of = |name: &&str| SUBSYSTEMS.iter().find(|(first, _)| first == name);
        let subsystem = begun.filter_map(of).map(|(_, subsystem)| *subsystem).next();
        debug_assert!(subsystem.is_some(), "the first counter begins a subsystem");
        subsystem.unwrap_or("")
    }
}

counters! {
    /// Logical page requests.
    buffer_pool_read_requests,
    /// Pages read from disk because they were not in the pool.
    buffer_pool_reads,
    /// Pages read ahead.
    buffer_pool_read_ahead,
    /// Pages evicted.
    buffer_pool_pages_evicted,
    /// Pages flushed.
    buffer_pool_pages_flushed,
    /// Times a thread had to wait for a free frame.
    buffer_pool_wait_free,
    /// Gauge: frames in all.
    buffer_pool_pages_total,
    /// Gauge: free frames.
    buffer_pool_pages_free,
    /// Gauge: dirty frames.
    buffer_pool_pages_dirty,
    /// Gauge: absence filters of pages that are not in the pool.
    buffer_pool_absence_filters,
    /// Bytes read from data files.
    data_read,
    /// Read calls on data files.
    data_reads,
    /// Bytes written to data files, doublewrite included.
    data_written,
    /// Write calls on data files.
    data_writes,
    /// Syncs of data files.
    data_fsyncs,
    /// Pages written through the doublewrite buffer.
    dblwr_pages_written,
    /// Doublewrite batches.
    dblwr_writes,
    /// Bytes of redo appended.
    redo_log_bytes,
    /// Redo groups (mini-transactions) appended.
    redo_log_groups,
    /// Write calls of the redo log.
    redo_log_writes,
    /// Bytes written to the redo log, padding included.
    redo_log_written,
    /// Syncs of the redo log.
    redo_log_fsyncs,
    /// Microseconds in writes of the redo log by leaders of rounds.
    redo_log_write_time_us,
    /// Microseconds in syncs of the redo log by leaders of rounds.
    redo_log_sync_time_us,
    /// Most threads that one sync served.
    redo_log_group_size_max,
    /// Commits that waited for a redo sync.
    redo_log_commit_waits,
    /// Microseconds in waits for redo to be written or synced, leading included.
    redo_log_wait_time_us,
    /// Times a thread met a full redo log buffer.
    redo_log_buffer_waits,
    /// Times a writer waited for room in the redo log.
    redo_log_waits,
    /// Gauge: LSN.
    redo_log_lsn,
    /// Gauge: durable LSN.
    redo_log_lsn_flushed,
    /// Gauge: checkpoint LSN.
    redo_log_checkpoint_lsn,
    /// Gauge: bytes between checkpoint and LSN.
    redo_log_checkpoint_age,
    /// Gauge: 1 while changes are logged, and everything before is durable.
    redo_log_enabled,
    /// Gauge: bytes that may lie between checkpoint and LSN.
    redo_log_capacity,
    /// Gauge: checkpoint age in thousandths of the capacity.
    redo_log_used_permille,
    /// Gauge: bytes of the redo log's files.
    redo_log_disk_bytes,
    /// Gauge: milliseconds that recovery would take now, by the age of the log and the speed of the
    /// last recovery.
    redo_log_recovery_estimate_ms,
    /// Checkpoints.
    checkpoints,
    /// Gauge: the phase of the backup that is running; 0: none.
    backup_phase,
    /// Gauge: bytes of the data files that the latest backup reads.
    backup_bytes_total,
    /// Gauge: bytes of the data files that the latest backup has read so far.
    backup_bytes_copied,
    /// Gauge: pages that the latest backup found damaged or half written.
    backup_pages_broken,
    /// Pages written by bulk loads, past the pool and the redo log.
    bulk_pages_written,
    /// B+tree page splits.
    page_splits,
    /// B+tree page merges.
    page_merges,
    /// Pages allocated.
    pages_created,
    /// Pages freed.
    pages_freed,
    /// Transactions committed.
    commits,
    /// Transactions rolled back.
    rollbacks,
    /// Statements or savepoints rolled back.
    partial_rollbacks,
    /// Undo records undone by rollbacks of all kinds.
    rollback_records,
    /// Gauge: undo records that the rollbacks going on, or waiting, have still to undo.
    rollback_records_left,
    /// Requests for a durable log; divided by redo_log_fsyncs: requests that share a sync.
    group_commits,
    /// Row lock waits.
    row_lock_waits,
    /// Gauge: waits going on.
    row_lock_current_waits,
    /// Microseconds waited for row locks.
    row_lock_time_us,
    /// Longest row lock wait, microseconds.
    row_lock_time_max_us,
    /// Deadlocks.
    deadlocks,
    /// Lock wait timeouts, also of those that may not wait at all.
    lock_wait_timeouts,
    /// Conflicts with a snapshot that were reported to users.
    snapshot_conflicts,
    /// Rows read.
    rows_read,
    /// Rows inserted.
    rows_inserted,
    /// Rows updated.
    rows_updated,
    /// Rows deleted.
    rows_deleted,
    /// Old versions built from undo for snapshot reads.
    versions_built,
    /// Gauge: committed transactions not yet purged.
    history_list_length,
    /// Undo records purged.
    purged_records,
    /// Undo records that purge passed over, because a page cannot be read.
    purge_passed_over,
    /// Gauge: pages of the undo file in use.
    undo_pages,
    /// Gauge: bytes of the undo file in use.
    undo_bytes,
    /// Gauge: open snapshots.
    snapshots,
    /// Gauge: seconds since the oldest snapshot was made; 0 = there is none.
    oldest_snapshot_age,
    /// Gauge: connection that holds it; 0 = there is none.
    oldest_snapshot_connection,
    /// Gauge: pages of the undo file, free ones too.
    undo_file_pages,
    /// Pages cut off the undo file's end.
    undo_pages_cut,
    /// Gauge: active transactions that have written.
    active_transactions,
    /// Gauge: transaction id that will be given next.
    max_trx_id,
    /// Secondary index changes applied directly.
    change_buffer_applied_directly,
    /// Secondary index changes buffered: puts.
    change_buffer_buffered_inserts,
    /// Secondary index changes buffered: delete marks, and what rollback does with them.
    change_buffer_buffered_delete_marks,
    /// Secondary index changes buffered: removals.
    change_buffer_buffered_deletes,
    /// Buffered entries merged into their leaves.
    change_buffer_merged_entries,
    /// Mini-transactions that merged.
    change_buffer_merges,
    /// Leaves that were merged into.
    change_buffer_merged_leaves,
    /// Buffered entries that went with their index.
    change_buffer_discarded,
    /// Buffered changes that do not fit the entry they meet: a corrupt index.
    change_buffer_missing,
    /// Operations in the entries merged: inserts.
    change_buffer_merged_inserts,
    /// Operations in the entries merged: delete marks, and what rollback did with them.
    change_buffer_merged_delete_marks,
    /// Operations in the entries merged: removals.
    change_buffer_merged_deletes,
    /// Changes that needed no read of their leaf. One merge served several changes, another change
    /// of the same entry was still pending, or the index was dropped first.
    change_buffer_reads_avoided,
    /// Unique values put without a read of their leaf: an absence filter showed that the leaf,
    /// which was not in the pool, lacks them.
    change_buffer_unique_checks_spared,
    /// Unique values whose leaf was not in the pool and had to be read.
    change_buffer_unique_checks_read,
    /// Leaves that statements merged themselves, under back-pressure.
    change_buffer_throttled,
    /// Microseconds that statements spent in these merges.
    change_buffer_throttled_us,
    /// Gauge: buffered entries, as far as they are counted.
    change_buffer_entries,
    /// Gauge: their bytes (keys and values).
    change_buffer_bytes,
    /// Gauge: bytes that may be pending.
    change_buffer_bytes_max,
    /// Gauge: partitions of delta trees that hold something.
    change_buffer_partitions,
    /// Gauge: seconds since the oldest entry came, at the most; after a restart, since then.
    change_buffer_age,
    /// Gauge: indexes whose pending entries are not counted yet (after a restart).
    change_buffer_uncounted,
    /// Gauge: 1 while a drain that was asked for goes on.
    change_buffer_draining,
    /// Gauge: seconds until nothing is pending, at the speed of the last seconds; 0 while nothing
    /// is merged.
    change_buffer_drain_eta,
    /// Gauge: 1 after the engine has stopped (I6); every statement of it fails.
    engine_stopped,
}

const _: () = {
    let mut i = 0;
    while i < Counters::NAMES.len() {
        let shown = "Sluice_".len() + Counters::NAMES[i].len();
        assert!(shown <= 64, "a server shows names of at most 64 characters");
        assert!(!Counters::COMMENTS[i].is_empty(), "a server explains each counter");
        i += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn names_match_values() {
        let c = Counters::default();
        c.deadlocks.add(3);
        let i = Counters::NAMES.iter().position(|n| *n == "deadlocks").unwrap();
        assert_eq!(c.value(i), 3);
    }
    #[test]
    fn each_has_a_subsystem_and_a_kind() {
        for (first, _) in SUBSYSTEMS {
            assert!(Counters::NAMES.contains(first), "{first}");
        }
        let text = include_str!("../../../docs/status.md");
        for (i, name) in Counters::NAMES.iter().enumerate() {
            assert!(!Counters::subsystem(i).is_empty() && !Counters::comment(i).is_empty());
            let row = text.lines().find(|line| line.starts_with(&format!("| {name} |")));
            let unit = row.and_then(|row| row.split('|').nth(2)).expect("explained").trim();
            let kind = match unit {
                "ON, OFF" | "0, 1" => Kind::Gauge,
                unit if unit.ends_with(", now") => Kind::Gauge,
                unit if unit.ends_with(", max") => Kind::Maximum,
                _ => Kind::Total,
            };
            assert_eq!(Counters::kind(i), kind, "{name}");
        }
    }
    #[test]
    fn each_is_explained_to_administrators() {
        let text = include_str!("../../../docs/status.md");
        let rows = text
            .lines()
            .filter_map(|line| line.strip_prefix("| ")?.split(' ').next());
        let explained: Vec<&str> = rows.filter(|name| Counters::NAMES.contains(name)).collect();
        assert_eq!(explained, Counters::NAMES, "docs/status.md has them in this order");
    }
}
