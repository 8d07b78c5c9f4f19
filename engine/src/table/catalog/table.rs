//! [`Table`]: the object that all users of a table share.
//!
//! A row operation reads the table's layout without a lock or a reference count (`versions.rs`).
use crate::base::sync::{Rank, RankedMutex};
use crate::base::{IndexId, PageNo};
use crate::table::catalog::append_hint::{AppendHint, Hint};
use crate::table::catalog::layout::Layout;
use crate::table::catalog::versions::Layouts;
use crate::table::statistics::state::{PageCounts, Statistics};
use parking_lot::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;

/// A table as all its users share it.
pub struct Table {
    name: RankedMutex<String>,
    layouts: Layouts,
    /// Background work (purge, rollback of recovered transactions, sampling) holds it shared while it touches pages; whoever
    /// removes the file holds it exclusively. Users are kept out by their own means (the server's metadata locks).
    pub(crate) gate: RwLock<()>,
    dropped: AtomicBool,
    /// Why it cannot be used: found at open.
    broken: OnceLock<String>,
    /// People were told that purge cannot reach all of it.
    told: AtomicBool,
    /// Handles given out by `Store::open_table` and not closed.
    pub(crate) opened: AtomicU32,
    /// Held while `counters_loaded` is being made true.
    pub(crate) loading: RankedMutex<()>,
    pub(crate) counters_loaded: AtomicBool,
    /// Row counts, and what the optimizer is told.
    pub statistics: Statistics,
    /// Next AUTO_INCREMENT value, and what the log has of it: [`Table::autoinc_is_saved`].
    pub(crate) autoinc: AtomicU64,
    pub(crate) autoinc_saved: AtomicU64,
    pub(crate) next_row_id: AtomicU64,
    append_hint: AppendHint,
    pub(in crate::table) page_counts: RankedMutex<PageCounts>,
    /// Grows when a load past the pool begins, for an index too, before it gets its first page, and before and after it links what it has made, or
    /// gives it back.
    pub(in crate::table) loads: AtomicU64,
    /// On the layout's list of trees to be freed, but not to be freed: index builds going on, and trees that somebody frees just now.
    pub(in crate::table) building: RankedMutex<Vec<IndexId>>,
}

impl Table {
    pub fn new(name: &str, layout: Layout) -> Table {
        Table {
            name: RankedMutex::new(Rank::Leaf, name.to_string()),
            layouts: Layouts::new(layout),
            gate: RwLock::new(()),
            dropped: AtomicBool::new(false),
            broken: OnceLock::new(),
            told: AtomicBool::new(false),
            opened: AtomicU32::new(0),
            loading: RankedMutex::new(Rank::TableCounters, ()),
            counters_loaded: AtomicBool::new(false),
            statistics: Statistics::default(),
            autoinc: AtomicU64::new(0),
            autoinc_saved: AtomicU64::new(0),
            next_row_id: AtomicU64::new(0),
            append_hint: AppendHint::default(),
            page_counts: RankedMutex::new(Rank::PageCounts, PageCounts::default()),
            loads: AtomicU64::new(0),
            building: RankedMutex::default(),
        }
    }
    pub fn layout(&self) -> &Layout {
        self.layouts.last()
    }
    /// Publishes a new layout. One caller at a time (the catalog's DDL mutex).
    pub(crate) fn publish(&self, layout: Layout) {
        self.layouts.publish(layout);
    }
    /// It has layouts that nobody needs any more, once nobody has the table.
    pub(crate) fn has_old_layouts(&self) -> bool {
        self.layouts.len() > 1
    }
    pub(in crate::table) fn take_old_layouts(&mut self) -> Vec<Layout> {
        self.layouts.take_old()
    }
    pub fn name(&self) -> String {
        self.name.lock().clone()
    }
    pub(crate) fn set_name(&self, name: &str) {
        *self.name.lock() = name.to_string();
    }
    pub fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }
    pub(crate) fn set_broken(&self, why: &str) {
        // The first reason is kept.
        let _ = self.broken.set(why.to_string());
    }
    pub fn broken(&self) -> Option<&str> {
        self.broken.get().map(String::as_str)
    }
    /// True from the second time on.
    pub(in crate::table) fn is_damage_logged(&self) -> bool {
        self.told.swap(true, Ordering::Relaxed)
    }
    /// Nothing can or need be done about its pages now: what only keeps them in good order passes over it. (A rollback may not: a broken table
    /// can come back.)
    pub(crate) fn is_gone(&self) -> bool {
        self.is_dropped() || self.broken().is_some()
    }
    pub(crate) fn set_dropped(&self) {
        self.dropped.store(true, Ordering::Release);
    }
    /// Hidden clustered keys: the next one, never given twice.
    pub fn next_row_id(&self) -> u64 {
        self.next_row_id.fetch_add(1, Ordering::Relaxed)
    }
    /// Next AUTO_INCREMENT value to give; 0 = never set.
    pub fn autoinc(&self) -> u64 {
        self.autoinc.load(Ordering::Relaxed)
    }
    /// The Mtr that wrote the counter into the file's header is in the log. Not before: who finds his row's value saved leaves the
    /// counter alone, and may be durable first.
    pub(in crate::table) fn autoinc_is_saved(&self, next: u64) {
        self.autoinc_saved.fetch_max(next, Ordering::Release);
    }
    /// Raises the counter in memory; the next row change writes it to disk. Returns what it was.
    pub fn autoinc_raise(&self, next: u64) -> u64 {
        self.autoinc.fetch_max(next, Ordering::Relaxed)
    }
    /// Takes a raise back whose row was refused, if nobody has raised the counter since. In memory: what the log has of it may be the
    /// higher one, and the value is lost if the engine ends now.
    pub fn autoinc_take_back(&self, raised: u64, before: u64) {
        let _ = self
            .autoinc
            .compare_exchange(raised, before, Ordering::Relaxed, Ordering::Relaxed);
    }
    /// The leaf that the latest row was appended to. To be tried, and then asked about by `append_hint_holds`.
    pub(in crate::table) fn append_hint(&self) -> Hint {
        self.append_hint.recall(self.loads_now())
    }
    /// Under the latch of the leaf that was found with it: no load has begun since it was noted.
    pub(in crate::table) fn append_hint_holds(&self, hint: Hint) -> bool {
        hint.holds(self.loads_now())
    }
    /// Under the latch of `leaf`, which is the tree's (0: the row went elsewhere).
    pub(in crate::table) fn note_append(&self, known: Hint, leaf: PageNo) {
        self.append_hint.note(known, self.loads_now(), leaf);
    }
    fn loads_now(&self) -> u32 {
        self.loads.load(Ordering::SeqCst) as u32
    }
}
