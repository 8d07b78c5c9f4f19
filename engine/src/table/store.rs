//! [`Store`]: what every operation of the table layer needs, and the words its callers use.
use crate::base::sync::{Rank, RankedMutex};
use crate::base::{Counters, Error, Level, Result, TrxId, UndoPtr};
use crate::change::ChangeBuffer;
use crate::index::RowHeader;
use crate::pool::Pool;
use crate::redo::Redo;
use crate::table::catalog::dictionary::Catalog;
use crate::table::catalog::table::Layout;
use crate::table::health::damage::Aside;
use crate::table::statistics::StatisticsSettings;
use crate::table::undo::read_retries::ReadTries;
use crate::txn::{Isolation, Trx, TrxSys};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::Arc;

/// Check-then-insert of unique values is serialised by as many mutexes (by hash of index and value).
const UNIQUE_GUARDS: usize = 64;

#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// A tree of at least so many bytes is loaded past the pool and the log; a smaller one page by page.
    pub bulk_load_min: u64,
    /// The undo file is not made smaller than so many pages.
    pub undo_pages_kept: u32,
}

impl Default for StoreConfig {
    fn default() -> Self {
        StoreConfig {
            bulk_load_min: 2 << 20,
            undo_pages_kept: 1024,
        }
    }
}

pub struct Store {
    pub pool: Arc<Pool>,
    pub redo: Arc<Redo>,
    pub trx_sys: Arc<TrxSys>,
    pub counters: Arc<Counters>,
    /// Settings and sums of the change buffer.
    pub change: Arc<ChangeBuffer>,
    pub catalog: Catalog,
    /// Setting: bytes that an index build sorts in memory before it spills to a file. The engine sets it, and the
    /// settings below, when it opens.
    pub sort_buffer_size: AtomicU64,
    pub bulk_load_min: u64,
    pub undo_pages_kept: u32,
    /// Setting: REPEATABLE READ refuses to lock or change rows that changed since the snapshot.
    pub snapshot_isolation: AtomicBool,
    pub statistics_settings: StatisticsSettings,
    /// Setting: costly internal checks.
    pub verify: AtomicBool,
    pub(crate) unique_guards: Vec<RankedMutex<()>>,
    pub(in crate::table) aside: RankedMutex<Aside>,
    pub(in crate::table) purge_tries: ReadTries,
    pub(in crate::table) rollback_tries: ReadTries,
    pub(in crate::table) log: Tell,
}

/// Takes a line for people.
pub type Tell = Arc<dyn Fn(Level, &str) + Send + Sync>;

/// A point to roll back to: the transaction's newest undo record at that time.
pub type Savepoint = UndoPtr;

/// A secondary entry of a row that is inserted or deleted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entry<'a> {
    /// Secondary ordinal.
    pub index: u32,
    /// Length of the index key inside `key`.
    pub user_key_len: u32,
    /// A part of the index key is NULL: a unique index takes any number of such entries.
    pub has_null: bool,
    /// Index key + clustered key.
    pub key: &'a [u8],
    /// Raw bytes of the columns that cannot be decoded from the key.
    pub value: &'a [u8],
}

/// A row that is inserted, or moved to another clustered key.
#[derive(Clone, Copy, Debug)]
pub struct NewRow<'a> {
    /// Clustered key.
    pub pk: &'a [u8],
    pub row: &'a [u8],
    pub entries: &'a [Entry<'a>],
}

impl<'a> NewRow<'a> {
    pub fn new(pk: &'a [u8], row: &'a [u8], entries: &'a [Entry<'a>]) -> NewRow<'a> {
        NewRow { pk, row, entries }
    }
}

/// One secondary index of an update; the keys may be equal and the values differ.
#[derive(Clone, Copy, Debug, Default)]
pub struct EntryChange<'a> {
    pub index: u32,
    /// Of `new_key`.
    pub user_key_len: u32,
    /// As in [`Entry`], of `new_key`.
    pub has_null: bool,
    pub old_key: &'a [u8],
    pub new_key: &'a [u8],
    pub new_value: &'a [u8],
}

impl Store {
    pub fn new(
        pool: Arc<Pool>,
        redo: Arc<Redo>,
        trx_sys: Arc<TrxSys>,
        catalog: Catalog,
        config: &StoreConfig,
        log: Tell,
    ) -> Store {
        Store {
            counters: pool.counters().clone(),
            pool,
            redo,
            trx_sys,
            change: catalog.buffer.clone(),
            catalog,
            sort_buffer_size: AtomicU64::default(),
            bulk_load_min: config.bulk_load_min,
            undo_pages_kept: config.undo_pages_kept,
            snapshot_isolation: AtomicBool::default(),
            statistics_settings: StatisticsSettings::default(),
            verify: AtomicBool::default(),
            unique_guards: (0..UNIQUE_GUARDS)
                .map(|_| RankedMutex::new(Rank::UniqueGuard, ()))
                .collect(),
            aside: RankedMutex::new(Rank::Leaf, Aside::default()),
            purge_tries: ReadTries::default(),
            rollback_tries: ReadTries::default(),
            log,
        }
    }

    /// Tells people of damage: goes to the engine's log.
    pub(crate) fn tell(&self, text: &str) {
        (self.log)(Level::Error, text);
    }
    pub(in crate::table) fn tell_warning(&self, text: &str) {
        (self.log)(Level::Warning, text);
    }

    /// A mark to roll back to.
    pub fn savepoint(&self, trx: &Trx) -> Savepoint {
        self.trx_sys.locks().savepoint(trx);
        trx.undo_top()
    }

    /// What every change does first, with no latch held: room in the log, an id and an undo stream.
    pub(crate) fn begin_change(&self, trx: &mut Trx) -> Result<TrxId> {
        self.pool.check_alive()?;
        trx.check_not_doomed()?;
        self.redo.reserve_wait()?;
        self.trx_sys.ensure_id(trx)
    }

    /// First committer wins: under snapshot isolation a row made by a transaction that the snapshot does not see may be neither
    /// locked nor changed.
    pub(crate) fn check_conflict(&self, trx: &Trx, maker: TrxId) -> Result<()> {
        if trx.isolation < Isolation::RepeatableRead || maker == trx.id() {
            return Ok(());
        }
        match trx.view() {
            Some(view) if !view.sees(maker) && trx.snapshot_isolation => Err(Error::Conflict),
            _ => Ok(()),
        }
    }

    /// For locking reads, and inserts that change the row they meet: `check_conflict` goes by the rows' makers, which a table or an index that
    /// is younger than the snapshot does not tell. So it is refused, as to a consistent read (index: 0 = clustered, i + 1 = secondary i).
    pub(in crate::table) fn check_not_younger(&self, trx: &mut Trx, layout: &Layout, index: u32) -> Result<()> {
        let Some(view) = trx.view() else { return Ok(()) };
        if trx.isolation < Isolation::RepeatableRead || layout.is_seen_by(view, index) {
            return Ok(());
        }
        if !trx.snapshot_isolation {
            return Ok(());
        }
        if !trx.view_is_fresh() {
            return Err(Error::TableChanged);
        }
        self.renew_fresh_view(trx);
        Ok(())
    }

    /// What a locking read found stays as it was, for it is locked; what it did not find may appear, for below SERIALIZABLE nothing
    /// locks the gaps. So the snapshot is taken before such a read looks: what appears later is a conflict to the next locking read,
    /// and unseen by a consistent one.
    pub(in crate::table) fn guard_by_snapshot(&self, trx: &mut Trx) {
        let wanted = trx.snapshot_by_locking && trx.isolation == Isolation::RepeatableRead && trx.view().is_none();
        if wanted && trx.snapshot_isolation {
            self.trx_sys.visibility.open_fresh_view(trx);
        }
    }

    /// What a locking read should do that ended so: true = once more, with a new snapshot. The one it took itself is older than
    /// the row that it waited for, and nobody has seen anything by it: a conflict would send the user back to where he is.
    pub(in crate::table) fn conflicts_with_fresh_snapshot<T>(&self, trx: &mut Trx, result: &Result<T>) -> bool {
        if result.is_ok() {
            trx.keep_view();
        }
        if !trx.view_is_fresh() || !matches!(result, Err(Error::Conflict)) {
            return false;
        }
        self.renew_fresh_view(trx);
        true
    }

    /// Nobody has seen anything by it.
    fn renew_fresh_view(&self, trx: &mut Trx) {
        self.trx_sys.visibility.close_own_view(trx);
        self.trx_sys.visibility.open_fresh_view(trx);
    }

    /// Made by another transaction that has not ended.
    pub(crate) fn made_by_other_active(&self, trx: &Trx, header: &RowHeader) -> bool {
        header.trx != trx.id() && self.trx_sys.is_active(header.trx)
    }
}
