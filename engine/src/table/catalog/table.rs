//! [`Table`]: the object that all users of a table share.
//!
//! A row operation reads the table's layout without a lock or a reference count (`versions.rs`).
use crate::base::sync::{holds, holds_no_latch, ArcSwapOption, Guard, Rank, RankedMutex};
use crate::base::IndexId;
use crate::table::catalog::append_hint::AppendHint;
use crate::table::catalog::foreign_key::ForeignKeys;
use crate::table::catalog::layout::Layout;
use crate::table::catalog::touched_keys::TouchedKeys;
use crate::table::catalog::versions::Layouts;
use crate::table::statistics::state::{PageCounts, Statistics};
use parking_lot::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A table as all its users share it.
pub struct Table {
    name: RankedMutex<String>,
    layouts: Layouts,
    /// Held shared by background work (purge, rollback of recovered transactions, sampling) while
    /// it touches pages. Held exclusively by the statement that removes the file. Users are kept
    /// out by the server's metadata locks.
    pub(crate) gate: RwLock<()>,
    dropped: AtomicBool,
    /// Why the table cannot be used: found at open.
    broken: OnceLock<String>,
    /// The log has a line that purge cannot reach all of the table.
    reported: AtomicBool,
    /// Handles given out by `Tables::open_table` and not closed.
    pub(crate) opened: AtomicU32,
    /// Held while `counters_loaded` is being made true.
    pub(crate) loading: RankedMutex<()>,
    pub(crate) counters_loaded: AtomicBool,
    /// Row counts, and what the optimizer gets.
    pub statistics: Statistics,
    /// Next AUTO_INCREMENT value, and the value that the log has: [`Table::autoinc_is_saved`].
    pub(crate) autoinc: AtomicU64,
    pub(crate) autoinc_saved: AtomicU64,
    pub(crate) next_row_id: AtomicU64,
    pub(in crate::table) append_hint: AppendHint,
    /// None: the table has no foreign keys, neither as child nor as parent.
    foreign: ArcSwapOption<ForeignKeys>,
    /// `foreign` has something: a table without foreign keys pays one load for each row.
    has_foreign: AtomicBool,
    /// While an ALTER TABLE lets writers go on.
    touched: ArcSwapOption<TouchedKeys>,
    pub(in crate::table) page_counts: RankedMutex<PageCounts>,
    /// Trees that stand on the layout's list of trees to be freed, but must not be freed. They are
    /// those of index builds under way, and those that another thread frees.
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
            reported: AtomicBool::new(false),
            opened: AtomicU32::new(0),
            loading: RankedMutex::new(Rank::TableCounters, ()),
            counters_loaded: AtomicBool::new(false),
            statistics: Statistics::default(),
            autoinc: AtomicU64::new(0),
            autoinc_saved: AtomicU64::new(0),
            next_row_id: AtomicU64::new(0),
            append_hint: AppendHint::default(),
            foreign: ArcSwapOption::empty(),
            has_foreign: AtomicBool::new(false),
            touched: ArcSwapOption::empty(),
            page_counts: RankedMutex::new(Rank::PageCounts, PageCounts::default()),
            building: RankedMutex::default(),
        }
    }
    pub fn layout(&self) -> &Layout {
        self.layouts.last()
    }
    /// Publishes a new layout. One caller at a time (the catalog's DDL mutex).
    pub(crate) fn publish(&self, layout: Layout) {
        debug_assert!(holds(Rank::Catalog), "layouts are published under the DDL mutex");
        debug_assert!(
            layout.created >= self.layout().created,
            "a definition is no older than the one before: views that it hides the past from stay so"
        );
        self.layouts.publish(layout);
    }
    /// The table has layouts that can go once the table has no user.
    pub(crate) fn has_old_layouts(&self) -> bool {
        self.layouts.len() > 1
    }
    pub(in crate::table) fn take_old_layouts(&mut self) -> Vec<Layout> {
        self.layouts.take_old()
    }
    /// The foreign keys as they are bound now (K3: a change of a row is made before this is read).
    pub fn foreign(&self) -> Guard<Option<Arc<ForeignKeys>>> {
        self.foreign.load()
    }
    /// The same, to be kept for a row operation.
    #[inline]
    pub(in crate::table) fn foreign_keys(&self) -> Option<Arc<ForeignKeys>> {
        match self.has_foreign.load(Ordering::Acquire) {
            true => self.foreign.load_full(),
            false => None,
        }
    }
    pub(in crate::table) fn set_foreign(&self, keys: ForeignKeys) {
        debug_assert!(
            keys.referenced
                .iter()
                .all(|key| key.parent.as_ref().is_some_and(|end| end.table == self.layout().id)),
            "K3: the keys that refer to a table are bound to it as it is"
        );
        debug_assert!(
            keys.references.iter().all(|key| key.child.table == self.layout().id),
            "the keys of a table are bound to it as it is"
        );
        let any = !keys.is_empty();
        self.foreign.store(any.then(|| Arc::new(keys)));
        self.has_foreign.store(any, Ordering::Release);
    }
    /// The row of `pk` was changed: the mini-transaction has ended, the transaction has not (L2).
    #[inline]
    pub(in crate::table) fn touch(&self, pk: &[u8]) {
        debug_assert!(
            holds_no_latch(),
            "L2: a key is added after the mini-transaction that changed its row"
        );
        if let Some(keys) = &*self.touched.load() {
            keys.add(pk);
        }
    }
    /// Row changes add their keys to `keys` from now on. False: another list has them.
    pub(in crate::table) fn note_touched_keys(&self, keys: &Arc<TouchedKeys>) -> bool {
        let before = self
            .touched
            .compare_and_swap(&None::<Arc<TouchedKeys>>, Some(keys.clone()));
        before.is_none()
    }
    pub(in crate::table) fn forget_touched_keys(&self) {
        debug_assert!(
            self.is_altered_online(),
            "the list of touched keys goes once, with its ALTER TABLE"
        );
        self.touched.store(None);
    }
    /// An ALTER TABLE runs that lets writers go on.
    pub(in crate::table) fn is_altered_online(&self) -> bool {
        self.touched.load().is_some()
    }
    pub fn name(&self) -> String {
        self.name.lock().clone()
    }
    pub(crate) fn set_name(&self, name: &str) {
        debug_assert!(holds(Rank::Catalog), "a table gets its name under the DDL mutex");
        *self.name.lock() = name.to_string();
    }
    pub fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }
    pub(crate) fn set_broken(&self, why: &str) {
        debug_assert!(!why.is_empty(), "users are told why a table cannot be used");
        // The first reason is kept.
        let _ = self.broken.set(why.to_string());
    }
    pub fn broken(&self) -> Option<&str> {
        self.broken.get().map(String::as_str)
    }
    /// False the first time: then the caller logs the damage.
    pub(in crate::table) fn is_damage_logged(&self) -> bool {
        self.reported.swap(true, Ordering::Relaxed)
    }
    /// Nothing can or need be done about the table's pages now: maintenance passes over them. (A
    /// rollback must not: a broken table can come back.)
    pub(crate) fn is_gone(&self) -> bool {
        self.is_dropped() || self.broken().is_some()
    }
    pub(crate) fn set_dropped(&self) {
        debug_assert!(!self.is_dropped(), "a table is dropped once");
        self.dropped.store(true, Ordering::Release);
    }
    /// Hidden clustered keys: the next one, never given twice.
    pub fn next_row_id(&self) -> u64 {
        let id = self.next_row_id.fetch_add(1, Ordering::Relaxed);
        debug_assert_ne!(id, 0, "the counter was read when the table was opened");
        id
    }
    /// Next AUTO_INCREMENT value to give; 0 = never set.
    pub fn autoinc(&self) -> u64 {
        self.autoinc.load(Ordering::Relaxed)
    }
    /// The Mtr that wrote the counter into the file's header is in the log. Must not be called
    /// earlier: a transaction that finds its value saved leaves the counter alone, and may be
    /// durable first.
    pub(in crate::table) fn autoinc_is_saved(&self, next: u64) {
        self.autoinc_saved.fetch_max(next, Ordering::Release);
    }
    /// Raises the counter in memory; the next row change writes it to disk. Returns what it was.
    pub fn autoinc_raise(&self, next: u64) -> u64 {
        self.autoinc.fetch_max(next, Ordering::Relaxed)
    }
    /// Takes back the raise of a row that was refused, unless the counter was raised since. In
    /// memory only: the log may have the higher value, which is lost if the engine ends now.
    pub fn autoinc_take_back(&self, raised: u64, before: u64) {
        let _ = self
            .autoinc
            .compare_exchange(raised, before, Ordering::Relaxed, Ordering::Relaxed);
    }
}
