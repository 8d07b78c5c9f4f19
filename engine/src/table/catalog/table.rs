//! What a table is: the definition it is created from ([`TableSpec`]), its present shape ([`Layout`]), and the object that
//! all its users share ([`Table`]).
//!
//! A layout never changes; DDL publishes a new one behind it (`layouts.rs`). So a row operation reads the layout without a lock or a
//! reference count.
use crate::base::sync::{Rank, RankedMutex};
use crate::base::{FileId, IndexId, TrxId};
use crate::btree::Tree;
use crate::change::Buffering;
use crate::index::Index;
use crate::table::catalog::versions::Layouts;
use crate::table::dml::append_hint::RisingLeaf;
use crate::table::statistics::estimates::PageCounts;
use crate::table::statistics::Statistics;
use crate::txn::ReadView;
use parking_lot::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;

/// A secondary index to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexSpec {
    pub name: String,
    /// One row for each index key; but for entries that say [`has_null`](crate::table::Entry::has_null).
    pub unique: bool,
    /// Its entries' keys, the clustered key among them, may be up to
    /// [`WIDE_KEY_MAX`](crate::btree::WIDE_KEY_MAX) bytes long, in place of
    /// [`KEY_MAX`](crate::btree::KEY_MAX). Its nodes are four pages; and no change of it is
    /// buffered.
    pub wide: bool,
}

/// A table to be created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableSpec {
    /// Unlogged, known to this run of the engine only.
    pub temporary: bool,
    /// The clustered key is an id given by [`Table::next_row_id`].
    pub hidden_pk: bool,
    /// Its clustered keys may be as long as those of a wide index.
    pub wide_pk: bool,
    /// Every clustered key has this length; 0 = they vary.
    pub pk_fixed_len: u32,
    pub indexes: Vec<IndexSpec>,
    /// Which changes of its indexes are buffered; None: as the engine's setting says.
    pub change_buffering: Option<Buffering>,
    /// The user's own notes, given back at open.
    pub schema: Vec<u8>,
}

/// A secondary index of a layout.
#[derive(Clone, Debug)]
pub struct Secondary {
    pub index: Index,
    /// A page of it could not be read when it had to be changed: it is neither read nor kept up any more (`damage.rs`).
    pub aside: bool,
    /// Transaction that built it: views that do not see it cannot use it. 0 = older than every view.
    pub created: TrxId,
}

/// The shape of a table between two DDL statements.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Number of the table's incarnation and of its data file (TRUNCATE makes a new one). Undo records name it.
    pub id: FileId,
    pub temporary: bool,
    pub hidden_pk: bool,
    pub pk_fixed_len: usize,
    pub clustered: Index,
    pub secondary: Vec<Secondary>,
    /// As in [`TableSpec`].
    pub change_buffering: Option<Buffering>,
    pub schema: Vec<u8>,
    /// When the table was made, renamed or altered last: what the server shows as its time of creation.
    pub created_s: u64,
    /// As in [`Secondary::created`], for the table.
    pub created: TrxId,
    /// Trees (index number, root) of dropped indexes, whose pages are still being freed.
    pub freeing: Vec<(IndexId, u32)>,
}

impl Layout {
    /// A tree of it is wide.
    pub fn has_wide(&self) -> bool {
        let is_wide = |index: &Index| index.tree.is_wide();
        is_wide(&self.clustered) || self.secondary.iter().any(|s| is_wide(&s.index))
    }
    /// The secondary index of that number, if it (still) exists.
    pub fn secondary_by_id(&self, id: IndexId) -> Option<&Secondary> {
        self.secondary.iter().find(|s| s.index.id == id)
    }
    /// 0 = clustered, i + 1 = secondary i.
    pub fn index(&self, ordinal: u32) -> Option<&Index> {
        match ordinal {
            0 => Some(&self.clustered),
            i => self.secondary.get(i as usize - 1).map(|s| &s.index),
        }
    }
    /// False: the table or the index (0 = clustered, i + 1 = secondary i) is younger than the view, and does not tell what was before: rows
    /// that were copied or loaded look as if they had always been there, removed ones and old keys are missing.
    pub(in crate::table) fn is_seen_by(&self, view: &ReadView, index: u32) -> bool {
        let index_created = match index {
            0 => 0,
            i => self.secondary.get(i as usize - 1).map_or(0, |s| s.created),
        };
        view.sees(self.created) && view.sees(index_created)
    }
    /// Tells the delta trees what the table says about buffering, and the unique ones what they are.
    pub(in crate::table) fn tell_deltas(&self) {
        for index in self.secondary.iter().map(|s| &s.index) {
            let Some(delta) = &index.delta else { continue };
            delta.set_buffering(self.change_buffering);
            if index.unique {
                delta.set_unique(self.pk_fixed_len);
            }
        }
    }
    pub fn tree(&self, root: u32, index: IndexId) -> Tree {
        Tree {
            file: self.id,
            root,
            index,
        }
    }
}

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
    pub(in crate::table) rising_leaf: RisingLeaf,
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
            rising_leaf: RisingLeaf::default(),
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
    pub(in crate::table) fn told_of_damage(&self) -> bool {
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
}
