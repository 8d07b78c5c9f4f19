//! One transaction: the owner's half ([`Trx`]) and the half that other threads may touch ([`TrxShared`]).
use super::lock::LockList;
use super::stream::StreamTail;
use super::views::ViewSlot;
use super::{ReadView, Waiter, Xid};
use crate::base::sync::{Rank, RankedMutex};
use crate::base::{Error, IndexId, Lsn, PageNo, Result, TrxId, UndoPtr};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicU8, Ordering};
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Isolation {
    /// The newest version of every row, committed or not. For upkeep: CHECK TABLE, index builds. Users of the server who ask for READ
    /// UNCOMMITTED get [`Isolation::ReadCommitted`] (`Connection::start` in the plugin).
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl Isolation {
    const ALL: [Isolation; 4] = [
        Isolation::ReadUncommitted,
        Isolation::ReadCommitted,
        Isolation::RepeatableRead,
        Isolation::Serializable,
    ];
    /// The server's numbers; whatever is above is the strictest.
    pub fn from_number(n: u32) -> Isolation {
        Isolation::ALL
            .get(n as usize)
            .copied()
            .unwrap_or(Isolation::Serializable)
    }
}

/// What other threads see of a transaction. `id` is 0 until the first write.
pub struct TrxShared {
    pub id: AtomicU64,
    /// What has come of this transaction's lock wait (`sleep::WAIT_*`); 0: nothing yet.
    pub wait_flag: AtomicU32,
    pub waiter: Arc<dyn Waiter>,
    /// Whose it was at first: see [`TrxShared::connection`].
    pub(crate) connection: u64,
    /// Its connection has gone, or does something else: it waits for anybody's decision.
    pub(crate) detached: AtomicBool,
    /// XA: what its user calls it. Set and taken away by who owns the transaction ([`Trx::name`]).
    pub(crate) xid: RankedMutex<Option<Xid>>,
    /// Clock of the start, microseconds; 0 = not started.
    pub started_us: AtomicU64,
    /// As [`Phase::Prepared`], for reports; as the other fields up to `statement`.
    pub prepared: AtomicBool,
    pub rolling_back: AtomicBool,
    /// Number of the [`Isolation`].
    pub isolation: AtomicU8,
    /// Clock of the snapshot that it holds, to the second; 0 = none.
    pub snapshot_us: AtomicU64,
    /// Clock of the beginning of its latest lock wait.
    pub wait_started_us: AtomicU64,
    /// Bytes of the undo records that are not undone.
    pub undo_bytes: AtomicU64,
    /// Changes of secondary indexes that went to the change buffer.
    pub buffered_changes: AtomicU64,
    /// What it does, from shortly after the beginning of a wait in which others may wait for it, to the wait's end.
    pub statement: RankedMutex<String>,
    /// Undo records that are not undone, and rows loaded: what a rollback would cost (choice of the deadlock victim), or is going to.
    pub undo_records: AtomicU64,
    /// Row locks held.
    pub lock_count: AtomicU64,
    /// Key ranges held, joined as they are. Written by its own thread.
    pub range_count: AtomicU64,
    /// The queue in which this transaction waits (`lock::WaitPlace`), 0 = none. Written by its own thread.
    pub(crate) waiting_on: AtomicU64,
    /// Grows with each wait, so that the deadlock search can tell two waits apart.
    pub(crate) wait_no: AtomicU64,
    /// Locks to be given back at the end; others add to it when they make an implicit lock explicit.
    pub(crate) locks: RankedMutex<LockList>,
}

impl TrxShared {
    pub(crate) fn new(waiter: Arc<dyn Waiter>, connection: u64) -> Arc<TrxShared> {
        Arc::new(TrxShared {
            id: AtomicU64::new(0),
            wait_flag: AtomicU32::new(0),
            waiter,
            connection,
            detached: AtomicBool::new(false),
            xid: RankedMutex::new(Rank::Leaf, None),
            started_us: AtomicU64::new(0),
            prepared: AtomicBool::new(false),
            rolling_back: AtomicBool::new(false),
            isolation: AtomicU8::new(Isolation::RepeatableRead as u8),
            snapshot_us: AtomicU64::new(0),
            wait_started_us: AtomicU64::new(0),
            undo_bytes: AtomicU64::new(0),
            buffered_changes: AtomicU64::new(0),
            statement: RankedMutex::new(Rank::Leaf, String::new()),
            undo_records: AtomicU64::new(0),
            lock_count: AtomicU64::new(0),
            range_count: AtomicU64::new(0),
            waiting_on: AtomicU64::new(0),
            wait_no: AtomicU64::new(0),
            locks: RankedMutex::new(Rank::Leaf, LockList::default()),
        })
    }
    pub fn id(&self) -> TrxId {
        self.id.load(Ordering::Acquire)
    }
    /// The number of its connection; 0: it has none (any more).
    pub fn connection(&self) -> u64 {
        let has_one = self.waiter.context() != 0 && !self.detached.load(Ordering::Relaxed);
        if has_one {
            self.connection
        } else {
            0
        }
    }
    /// Its connection leaves it to whoever will decide: it is prepared.
    pub fn detach(&self) {
        self.detached.store(true, Ordering::Relaxed);
    }
    /// It goes on: reports show it. (One found at open has no clock, but an id.)
    pub(crate) fn is_active(&self) -> bool {
        self.started_us.load(Ordering::Relaxed) != 0 || self.id() != 0
    }
    /// Others may wait for what it holds, or has changed: then its wait can be part of a circle.
    pub fn may_be_waited_for(&self) -> bool {
        self.id() != 0 || self.holds_locks()
    }
    /// Nobody can be waiting for a transaction that holds no lock: then its wait closes no circle. (Whoever meets an
    /// implicit lock makes it explicit before waiting, and searches itself.)
    pub(crate) fn holds_locks(&self) -> bool {
        !self.locks.lock().is_empty()
    }
}

/// How far the end of a transaction has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Working,
    Prepared,
    /// The end marker is written and everybody sees it; locks are still held.
    Committed,
}

/// The row that a locking read found last. Mostly it is changed next: its lock need not be asked for again then, nor its leaf be looked
/// for from the root.
#[derive(Default)]
struct FoundRow {
    /// 0: none is known.
    index: IndexId,
    key: Vec<u8>,
    leaf: PageNo,
}

/// Where the undoing of a record stands that takes several steps (the table layer's `undo/load_rollback.rs`).
pub(crate) struct HalfUndone {
    pub record: UndoPtr,
    /// Indexes that need no further step.
    pub done: Vec<IndexId>,
    /// The one in work (0: none yet), and its next leaf.
    index: IndexId,
    pub from: Vec<u8>,
}

impl HalfUndone {
    /// Nothing is done yet.
    pub fn of(record: UndoPtr) -> HalfUndone {
        HalfUndone {
            record,
            done: Vec::new(),
            index: 0,
            from: Vec::new(),
        }
    }
    /// `index` is in work from here on: where it was left, or from its first leaf.
    pub fn go_to(&mut self, index: IndexId) {
        if self.index != index {
            self.index = index;
            self.from.clear();
        }
    }
}

/// Of a rollback that is going on (the table layer's `undo/progress.rs`).
pub(crate) struct RollbackProgress {
    /// To where: a savepoint, or NONE.
    pub to: UndoPtr,
    pub records_at_first: u64,
    pub began_us: u64,
    /// When people were told of it last; at first, when it began.
    pub told_us: u64,
    pub steps: u32,
    /// The undo stream says that what follows is undone.
    pub noted: UndoPtr,
}

/// The owner's half: one thread at a time. Reused for one transaction after another. Whoever drops it has ended its
/// transaction before (commit or rollback).
pub struct Trx {
    pub shared: Arc<TrxShared>,
    pub started: bool,
    pub isolation: Isolation,
    pub lock_wait_timeout_ms: u32,
    pub view: Option<Arc<ReadView>>,
    /// Of a statement outside of a transaction: by it is read what the statement does not write. Unlike `view` it judges nothing: a row that
    /// has changed since may be locked and changed.
    pub(crate) statement_view: Option<Arc<ReadView>>,
    /// A locking read that may find nothing takes the snapshot too (`Snapshots::guard_by_snapshot`).
    pub snapshot_by_locking: bool,
    /// At REPEATABLE READ: what was changed since the snapshot is a conflict to who locks or changes it. Else the newest row is taken, and
    /// gaps are locked, as by InnoDB's REPEATABLE READ.
    pub snapshot_isolation: bool,
    /// The view was taken by a locking read that has seen nothing yet: a newer one would do as well.
    pub(crate) view_is_fresh: bool,
    /// Newest undo record of this transaction that is still to be undone by a rollback (NONE: no changes).
    pub undo_top: UndoPtr,
    pub(crate) half_undone: Option<HalfUndone>,
    pub(crate) rollback: Option<RollbackProgress>,
    /// Loads by their first undo record, and their rows so far: these have no records, and count in `undo_records` as if they had.
    pub(crate) loads: Vec<(UndoPtr, u64)>,
    /// End LSN of this transaction's last group: commit makes it durable.
    pub last_lsn: Lsn,
    /// It has shown what is safe from a crash only when the log is, up to here (`settled.rs`).
    pub(crate) shown_lsn: Lsn,
    /// It has read the newest version of a row, under a lock, and that may not be safe yet.
    pub(crate) shows_newest: bool,
    /// Opaque replication position, written with the commit record. At most [`super::undo::POSITION_MAX`] bytes.
    pub position: Vec<u8>,
    /// `shared.xid` is set.
    is_named: bool,
    /// Why a part of it could not be rolled back: nothing is left to it but to be rolled back whole.
    doomed: Option<Box<Error>>,
    found: FoundRow,
    pub(crate) phase: Phase,
    /// Where its undo goes: Some while it has an id.
    pub(crate) stream: Option<Box<StreamTail>>,
    pub(crate) view_slot: Option<ViewSlot>,
    pub(crate) statement_view_slot: Option<ViewSlot>,
    /// The last view: its memory serves the next one when nobody else holds it.
    pub(crate) spare_view: Option<Arc<ReadView>>,
}

impl Trx {
    pub(crate) fn new(shared: Arc<TrxShared>) -> Trx {
        Trx {
            shared,
            started: false,
            isolation: Isolation::RepeatableRead,
            lock_wait_timeout_ms: 0,
            view: None,
            statement_view: None,
            snapshot_by_locking: false,
            snapshot_isolation: true,
            view_is_fresh: false,
            undo_top: UndoPtr::NONE,
            half_undone: None,
            rollback: None,
            loads: Vec::new(),
            last_lsn: 0,
            shown_lsn: 0,
            shows_newest: false,
            position: Vec::new(),
            is_named: false,
            doomed: None,
            found: FoundRow::default(),
            phase: Phase::Working,
            stream: None,
            view_slot: None,
            statement_view_slot: None,
            spare_view: None,
        }
    }
    pub fn id(&self) -> TrxId {
        self.shared.id()
    }
    /// Its locking reads lock the gaps between the rows, too: at SERIALIZABLE, and where REPEATABLE READ is to be InnoDB's.
    pub(crate) fn locks_gaps(&self) -> bool {
        match self.isolation {
            Isolation::Serializable => true,
            Isolation::RepeatableRead => !self.snapshot_isolation,
            Isolation::ReadCommitted | Isolation::ReadUncommitted => false,
        }
    }
    /// The user's name of it (XA), for reports; until its end.
    pub fn name(&mut self, xid: &Xid) {
        *self.shared.xid.lock() = Some(xid.clone());
        self.is_named = true;
    }
    pub(crate) fn forget_name(&mut self) {
        if std::mem::take(&mut self.is_named) {
            *self.shared.xid.lock() = None;
        }
    }
    pub fn doom(&mut self, why: &Error) {
        self.doomed.get_or_insert_with(|| Box::new(why.clone()));
    }
    pub fn is_doomed(&self) -> bool {
        self.doomed.is_some()
    }
    pub fn check_not_doomed(&self) -> Result<()> {
        self.doomed.as_deref().map_or(Ok(()), |why| Err(why.clone()))
    }
    pub(crate) fn forget_doom(&mut self) {
        self.doomed = None;
    }
    /// A locking read has found the row, and the transaction has its exclusive lock in the lock table. Whoever gives such a lock back
    /// calls `forget_found`.
    pub(crate) fn note_found(&mut self, index: IndexId, key: &[u8], leaf: PageNo) {
        self.found.index = index;
        self.found.key.clear();
        self.found.key.extend_from_slice(key);
        self.found.leaf = leaf;
    }
    /// Some: the row's exclusive lock is held, and this is the leaf in which it was. For one change: that may leave the lock to the row.
    pub(crate) fn take_found(&mut self, index: IndexId, key: &[u8]) -> Option<PageNo> {
        let known = self.found.index == index && self.found.key == key;
        self.forget_found();
        known.then_some(self.found.leaf)
    }
    pub(crate) fn forget_found(&mut self) {
        self.found.index = 0;
    }
    /// Of the latest load.
    pub(crate) fn count_loaded_row(&mut self) {
        if let Some((_, rows)) = self.loads.last_mut() {
            *rows += 1;
            self.shared.undo_records.fetch_add(1, Ordering::Relaxed);
        }
    }
    /// Prepared (XA): it survives a restart, and may only be committed or rolled back.
    pub fn is_prepared(&self) -> bool {
        self.phase == Phase::Prepared
    }
}
