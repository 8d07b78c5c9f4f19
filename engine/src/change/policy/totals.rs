//! Entries and bytes of all delta trees of an engine together.
//!
//! Bytes are those that entries take in the pages of the delta trees (`delta::key::entry_bytes`).
//! Signed changes are added in two's complement: adding a negative number takes away.
//!
//! Locks: none. Called by: `delta::sums` changes them; `policy::change_buffer` reads them.
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// N1 in `delta::partition`: the part (1/n) of the memory of the newest partitions that is idle
/// when a round of closings begins.
const ROUND_BEGINS: u64 = 2;
/// The same, when the round ends.
pub const ROUND_ENDS: u64 = 8;

#[derive(Default)]
pub struct Totals {
    /// Bytes pending.
    bytes: AtomicU64,
    /// Bytes in newest partitions.
    newest_bytes: AtomicU64,
    /// Indexes whose newest partition is not empty.
    newest_count: AtomicU64,
    /// Bytes of newest partitions that get no more appends.
    idle_bytes: AtomicU64,
    /// A round of closing idle partitions is under way.
    closes_idle: AtomicBool,
    /// Bytes pending that are not counted yet after a restart, about.
    uncounted: AtomicU64,
    /// Entries pending, as far as they are counted.
    entries: AtomicU64,
}

impl Totals {
    /// An append counts after its mini-transaction, so a merge may count the same entry down first:
    /// for a moment the sum can be below zero.
    pub fn bytes(&self) -> u64 {
        (self.bytes.load(Ordering::Relaxed) as i64).max(0) as u64
    }
    pub fn add_bytes(&self, bytes: i64) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
    pub fn entries(&self) -> u64 {
        let entries = self.entries.load(Ordering::Relaxed);
        debug_assert!(entries as i64 >= 0, "an entry is counted before it can be merged");
        entries
    }
    pub fn add_entries(&self, entries: i64) {
        self.entries.fetch_add(entries as u64, Ordering::Relaxed);
    }
    pub fn uncounted(&self) -> u64 {
        self.uncounted.load(Ordering::Relaxed)
    }
    pub fn add_uncounted(&self, bytes: i64) {
        let before = self.uncounted.fetch_add(bytes as u64, Ordering::Relaxed);
        debug_assert!(
            before.wrapping_add(bytes as u64) as i64 >= 0,
            "no more is counted than was expected"
        );
    }
    /// Bytes of all newest partitions; below zero for moments, as `bytes` explains.
    pub fn newest_bytes(&self) -> i64 {
        self.newest_bytes.load(Ordering::Relaxed) as i64
    }
    /// Indexes whose newest partition is not empty; at least 1.
    pub fn newest_count(&self) -> i64 {
        (self.newest_count.load(Ordering::Relaxed) as i64).max(1)
    }
    /// The bytes of one newest partition change from `before` to `now`.
    pub fn change_newest(&self, before: i64, now: i64) {
        self.newest_bytes.fetch_add((now - before) as u64, Ordering::Relaxed);
        if (before > 0) != (now > 0) {
            let one = if now > 0 { 1 } else { -1i64 };
            self.newest_count.fetch_add(one as u64, Ordering::Relaxed);
        }
    }
    /// The idle bytes of one newest partition change from `before` to `now`. Returns the sum of
    /// all.
    pub fn change_idle(&self, before: u64, now: u64) -> u64 {
        let change = now.wrapping_sub(before);
        self.idle_bytes
            .fetch_add(change, Ordering::Relaxed)
            .wrapping_add(change)
    }
    /// N1: is a round of closing idle partitions under way, now that `idle` bytes of `memory_max`
    /// are idle?
    pub fn closes_idle(&self, idle: u64, memory_max: u64) -> bool {
        if idle >= memory_max / ROUND_BEGINS || idle <= memory_max / ROUND_ENDS {
            self.closes_idle
                .store(idle > memory_max / ROUND_ENDS, Ordering::Relaxed);
        }
        self.closes_idle.load(Ordering::Relaxed)
    }
    #[cfg(test)]
    pub fn idle_bytes(&self) -> u64 {
        self.idle_bytes.load(Ordering::Relaxed)
    }
}
