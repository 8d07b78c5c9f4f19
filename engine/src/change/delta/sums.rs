//! Entries and bytes of one delta tree, their share in the totals of all trees, and their age.
//!
//! A tree that is discarded leaves the totals. Its own figures stay right, because a statement that
//! began before an index was quarantined may still append and merge.
//!
//! Locks: a tree is discarded with its count mutex and its gate held exclusively. A change of its
//! figures happens with one of them held. Called by: the other files of `delta`.
use crate::base::sync::{holds, Rank};
use crate::change::policy::{ChangeBuffer, Totals};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

/// Set in `entries` while the older partitions are not counted.
const UNKNOWN: u64 = 1 << 63;

pub struct Sums {
    buffer: Arc<ChangeBuffer>,
    /// Entries pending, counted up before they are written; with [`UNKNOWN`].
    entries: AtomicU64,
    bytes: AtomicU64,
    /// Bytes of the newest partition.
    newest_bytes: AtomicU64,
    /// Bytes of the newest partition in the idle bytes of all.
    idle_bytes: AtomicU64,
    /// Bytes pending that are not counted yet after a restart, about.
    uncounted: AtomicU64,
    /// A time not after the oldest pending entry came, microseconds of `Disk::now_us`; 0 = no entry
    /// ever came.
    since_us: AtomicU64,
    /// The totals do not contain this tree any more.
    discarded: AtomicBool,
}

impl Sums {
    /// Of an index that was just opened: nothing is known.
    pub fn unknown(buffer: Arc<ChangeBuffer>) -> Sums {
        Sums {
            buffer,
            entries: AtomicU64::new(UNKNOWN),
            bytes: AtomicU64::new(0),
            newest_bytes: AtomicU64::new(0),
            idle_bytes: AtomicU64::new(0),
            uncounted: AtomicU64::new(0),
            since_us: AtomicU64::new(0),
            discarded: AtomicBool::new(false),
        }
    }
    pub fn buffer(&self) -> &Arc<ChangeBuffer> {
        &self.buffer
    }
    /// The totals of which this tree is a part; None: it was discarded.
    fn totals(&self) -> Option<&Totals> {
        (!self.discarded.load(Ordering::Relaxed)).then_some(&self.buffer.totals)
    }

    // ---- entries ----

    /// Nothing is pending in the whole index. One atomic load; false while that is not known.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries.load(Ordering::SeqCst) == 0
    }
    /// Entries pending; None: not all are counted. One atomic load.
    #[inline]
    pub fn known_entries(&self) -> Option<u64> {
        let entries = self.entries.load(Ordering::SeqCst);
        (entries & UNKNOWN == 0).then_some(entries)
    }
    /// Is every entry counted?
    pub fn is_known(&self) -> bool {
        self.entries.load(Ordering::Acquire) & UNKNOWN == 0
    }
    /// Entries pending, as far as they are counted.
    pub fn entries(&self) -> u64 {
        self.entries.load(Ordering::Relaxed) & !UNKNOWN
    }
    /// Counts an entry up. `now_us`: the clock, read only for the first entry.
    pub fn add_entry(&self, now_us: impl FnOnce() -> u64) {
        if self.entries.fetch_add(1, Ordering::SeqCst) == 0 {
            // Of several first appends at once this one sets the age, even if its write fails.
            self.begin_age(now_us());
        }
        if let Some(totals) = self.totals() {
            totals.add_entries(1);
        }
    }
    /// Counts an entry down; the last step of a count down: with 0 entries and the gate held
    /// exclusively the filter is cleared (F4).
    pub fn remove_entry(&self) {
        if let Some(totals) = self.totals() {
            totals.add_entries(-1);
        }
        let before = self.entries.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(
            before & !UNKNOWN > 0,
            "F1: an entry is counted up before it is counted down"
        );
    }
    /// Every entry is counted from now on. The count mutex is held.
    pub fn end_count(&self) {
        self.reduce_uncounted(u64::MAX);
        let before = self.entries.fetch_sub(UNKNOWN, Ordering::SeqCst);
        debug_assert!(before & UNKNOWN != 0, "a count ends once");
    }
    /// From now on "perhaps" is the answer for every key.
    pub fn forget(&self) {
        debug_assert!(
            self.totals().is_none(),
            "only the figures of a discarded tree are forgotten"
        );
        self.entries.fetch_or(UNKNOWN, Ordering::SeqCst);
    }

    // ---- bytes ----

    /// As [`Totals::bytes`], of this tree.
    pub fn bytes(&self) -> u64 {
        (self.bytes.load(Ordering::Relaxed) as i64).max(0) as u64
    }
    pub fn newest_bytes(&self) -> u64 {
        self.newest_bytes.load(Ordering::Relaxed)
    }
    /// `bytes` may be negative. `newest`: in the newest partition.
    pub fn grow(&self, bytes: i64, newest: bool) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        if newest {
            self.grow_newest(bytes);
        }
        if let Some(totals) = self.totals() {
            totals.add_bytes(bytes);
        }
    }
    fn grow_newest(&self, bytes: i64) {
        let before = self.newest_bytes.fetch_add(bytes as u64, Ordering::Relaxed) as i64;
        if let Some(totals) = self.totals() {
            totals.change_newest(before, before + bytes);
        }
    }
    /// The newest partition is closed: its bytes are not in the newest one any more, nor idle. The
    /// gate is held exclusively.
    pub fn close_newest(&self) {
        let bytes = self.newest_bytes() as i64;
        self.grow_newest(-bytes);
        debug_assert_eq!(
            self.newest_bytes(),
            0,
            "nothing comes while the gate is held exclusively"
        );
        self.count_idle(0);
    }
    /// `bytes` bytes of the newest partition are idle. Returns the idle bytes of all trees.
    pub fn count_idle(&self, bytes: u64) -> u64 {
        let mine = if self.totals().is_some() { bytes } else { 0 };
        let before = self.idle_bytes.swap(mine, Ordering::Relaxed);
        self.buffer.totals.change_idle(before, mine)
    }

    // ---- bytes that are not counted yet ----

    /// Bytes pending that are not counted yet, about.
    pub fn uncounted(&self) -> u64 {
        self.uncounted.load(Ordering::Relaxed)
    }
    /// About `bytes` bytes are there that are not counted yet. The count mutex is held.
    pub fn expect_uncounted(&self, bytes: u64) {
        debug_assert!(holds(Rank::DeltaCount), "nothing is counted while the estimate is made");
        self.reduce_uncounted(u64::MAX);
        if let Some(totals) = self.totals() {
            self.uncounted.store(bytes, Ordering::Relaxed);
            totals.add_uncounted(bytes as i64);
        }
    }
    /// `bytes` of them are counted; `u64::MAX`: all. The count mutex is held.
    pub fn reduce_uncounted(&self, bytes: u64) {
        let before = self.uncounted();
        let less = bytes.min(before);
        if less > 0 {
            self.uncounted.store(before - less, Ordering::Relaxed);
            self.buffer.totals.add_uncounted(-(less as i64));
        }
    }

    // ---- age ----

    /// The oldest pending entry came at `now_us`.
    pub fn begin_age(&self, now_us: u64) {
        self.since_us.store(now_us, Ordering::Relaxed);
    }
    /// Everything that was pending at `now_us` is merged.
    pub fn raise_age(&self, now_us: u64) {
        self.since_us.fetch_max(now_us, Ordering::Relaxed);
    }
    /// Age of the oldest entry, microseconds, at most; after a restart at least since then. 0:
    /// nothing is pending.
    pub fn age_us(&self, now_us: u64) -> u64 {
        let since = self.since_us.load(Ordering::Relaxed);
        match since == 0 || self.is_empty() {
            true => 0,
            false => now_us.saturating_sub(since),
        }
    }

    /// Takes this tree out of the totals. The count mutex is held, and the gate exclusively.
    /// Returns the number of entries; 0 if the tree was discarded before.
    pub fn discard(&self) -> u64 {
        debug_assert!(
            holds(Rank::DeltaCount),
            "a tree leaves the totals while nothing of it is counted"
        );
        if self.discarded.swap(true, Ordering::Relaxed) {
            return 0;
        }
        self.reduce_uncounted(u64::MAX);
        let (entries, bytes) = (self.entries(), self.bytes.load(Ordering::Relaxed) as i64);
        let totals = &self.buffer.totals;
        totals.add_entries(-(entries as i64));
        totals.add_bytes(-bytes);
        totals.change_newest(self.newest_bytes() as i64, 0);
        self.count_idle(0);
        entries
    }
}
