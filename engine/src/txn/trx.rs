//! The owner's half of a transaction, used by one thread at a time.
//!
//! [`Trx`] is what a connection keeps: the shared half and the session's settings. The transaction
//! at work is [`ActiveTrx`] inside it. Its end drops that as a whole ([`Trx::end`]), so no state of
//! one transaction can reach the next. Only memory passes on ([`Spare`]).
//! Called by: the table layer (row operations, rollback), the files above in `txn`, `ffi`.
use super::isolation::Isolation;
use super::row_maker::RowMaker;
use super::shared::TrxShared;
use super::undo::stream::StreamTail;
use super::view::registry::ViewSlot;
use super::view::snapshot::ReadView;
use super::xid::Xid;
use crate::base::{Error, IndexId, Lsn, PageNo, Result, TrxId, UndoPtr};
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// How far the end of a transaction has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Working,
    Prepared,
    /// The end marker is written and visible; locks are still held.
    Committed,
}

/// The row that a locking read found last. The next statement mostly changes this row: it need not
/// ask for the lock again, nor search the leaf from the root.
#[derive(Default)]
struct FoundRow {
    /// 0: none is known.
    index: IndexId,
    key: Vec<u8>,
    leaf: PageNo,
}

/// Where the undoing of a record stands that takes several steps (the table layer's bulk undo).
pub(crate) struct HalfUndone {
    pub record: UndoPtr,
    /// Indexes that need no further step.
    pub done: Vec<IndexId>,
    /// The index in work (0: none yet), and its next leaf.
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

/// State of a rollback under way (the table layer's rollback progress).
pub(crate) struct RollbackProgress {
    /// Where the rollback ends: a savepoint, or NONE.
    pub to: UndoPtr,
    pub records_at_first: u64,
    pub began_us: u64,
    /// When progress was logged last; at first, when the rollback began.
    pub logged_us: u64,
    pub steps: u32,
    /// The undo stream has a note that what follows this record is undone.
    pub noted: UndoPtr,
}

/// A view that is open.
pub(super) struct OpenView {
    pub view: Arc<ReadView>,
    pub slot: ViewSlot,
}

/// A transaction at work: from its start to its end.
pub(super) struct ActiveTrx {
    /// The snapshot.
    pub view: Option<OpenView>,
    /// View of a statement outside of a transaction, for what the statement reads and does not
    /// write. Unlike `view` it is no ground for a conflict: a row changed since may be locked and
    /// changed.
    pub statement_view: Option<OpenView>,
    /// A locking read took `view`, and has seen nothing yet: a newer view would do as well.
    pub view_is_fresh: bool,
    /// Newest undo record that a rollback has still to undo (NONE: no changes).
    pub undo_top: UndoPtr,
    half_undone: Option<HalfUndone>,
    rollback: Option<RollbackProgress>,
    /// Loads by their first undo record, and their rows so far. These rows have no records, and
    /// count in `undo_records` as if they had.
    loads: Vec<(UndoPtr, u64)>,
    /// End LSN of this transaction's last group: commit makes it durable.
    pub last_lsn: Lsn,
    /// The transaction has shown what is durable only when the log is, up to here
    /// (`durable_reads.rs`).
    pub shown_lsn: Lsn,
    /// The transaction has read the newest version of a row under a lock, and that version may not
    /// be durable yet.
    pub shows_newest: bool,
    /// Opaque replication position, written with the commit record.
    pub position: Vec<u8>,
    /// `shared.xid` is set.
    is_named: bool,
    /// Why a part could not be rolled back. The transaction can only be rolled back whole.
    doomed: Option<Box<Error>>,
    found: FoundRow,
    pub phase: Phase,
    /// Where undo goes: Some while the transaction has an id.
    pub stream: Option<Box<StreamTail>>,
}

impl ActiveTrx {
    fn new(spare: &mut Spare) -> ActiveTrx {
        ActiveTrx {
            view: None,
            statement_view: None,
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
            found: FoundRow {
                key: std::mem::take(&mut spare.found_key),
                ..FoundRow::default()
            },
            phase: Phase::Working,
            stream: None,
        }
    }
    /// The statement's view, and the snapshot.
    pub fn views(&self) -> impl Iterator<Item = &OpenView> {
        self.view.iter().chain(&self.statement_view)
    }
}

/// Memory of earlier transactions, for the next one: starting one allocates nothing.
#[derive(Default)]
pub(super) struct Spare {
    /// The last view. Serves again if no cursor holds it.
    pub view: Option<Arc<ReadView>>,
    found_key: Vec<u8>,
}

/// The owner's half, reused for one transaction after another. The owner ends the transaction
/// (commit or rollback) before it drops this.
pub struct Trx {
    pub shared: Arc<TrxShared>,
    pub isolation: Isolation,
    pub lock_wait_timeout_ms: u32,
    /// A locking read that may find nothing takes the snapshot too (`Store::guard_by_snapshot`).
    pub snapshot_by_locking: bool,
    /// At REPEATABLE READ: a change since the snapshot is a conflict to a transaction that locks or
    /// changes the row. Else the newest row is taken, and gaps are locked, as by InnoDB's
    /// REPEATABLE READ.
    pub snapshot_isolation: bool,
    /// Foreign keys are checked, and cascades carried out.
    pub foreign_key_checks: bool,
    /// Makes the rows of cascades; None: a cascade fails.
    pub row_maker: Option<Box<dyn RowMaker>>,
    /// None between transactions.
    pub(super) active: Option<ActiveTrx>,
    pub(super) spare: Spare,
}

impl Trx {
    pub(super) fn new(shared: Arc<TrxShared>) -> Trx {
        Trx {
            shared,
            isolation: Isolation::RepeatableRead,
            lock_wait_timeout_ms: 0,
            snapshot_by_locking: false,
            snapshot_isolation: true,
            foreign_key_checks: true,
            row_maker: None,
            active: None,
            spare: Spare::default(),
        }
    }
    /// What the owner has set once for all of its transactions.
    pub(super) fn take_settings_of(&mut self, old: &mut Trx) {
        self.isolation = old.isolation;
        self.lock_wait_timeout_ms = old.lock_wait_timeout_ms;
        self.snapshot_by_locking = old.snapshot_by_locking;
        self.snapshot_isolation = old.snapshot_isolation;
        self.foreign_key_checks = old.foreign_key_checks;
        self.row_maker = old.row_maker.take();
    }
    /// 0: the transaction has written nothing.
    pub fn id(&self) -> TrxId {
        self.shared.id()
    }
    /// Sets the transaction's place in the order that a cluster has decided (C1); 0: none. The
    /// place holds until the transaction ends, or gets another one.
    pub fn set_place(&mut self, place: u64) {
        self.shared.place.store(place, Ordering::Relaxed);
    }
    /// The transaction has changed what a rollback leaves changed: it is a deadlock's victim only
    /// where every transaction of the circle has. Until it ends.
    pub fn note_changes_that_stay(&mut self) {
        self.shared.changes_stay.store(true, Ordering::Relaxed);
    }
    pub fn is_started(&self) -> bool {
        self.active.is_some()
    }
    /// Begins a transaction, unless one is at work.
    pub(super) fn begin(&mut self) -> &mut ActiveTrx {
        let spare = &mut self.spare;
        self.active.get_or_insert_with(|| ActiveTrx::new(spare))
    }
    /// The transaction at work.
    pub(super) fn active_mut(&mut self) -> &mut ActiveTrx {
        debug_assert!(self.active.is_some(), "a transaction is started before it works");
        self.begin()
    }
    /// Nothing of the transaction is left. Its views are closed and its locks given back before.
    pub(super) fn end(&mut self) {
        let ended = self.active.take();
        self.shared.clear();
        if let Some(active) = ended {
            debug_assert_eq!(active.views().count(), 0, "an open view would hold purge back");
            debug_assert!(
                active.stream.is_none(),
                "a stream that goes with its transaction is lost"
            );
            if active.is_named {
                *self.shared.xid.lock() = None;
            }
            self.spare.found_key = active.found.key;
        }
    }
    pub(super) fn phase(&self) -> Phase {
        self.active.as_ref().map_or(Phase::Working, |active| active.phase)
    }
    /// Prepared (XA): the transaction survives a restart, and may only be committed or rolled back.
    pub fn is_prepared(&self) -> bool {
        self.phase() == Phase::Prepared
    }
    /// Locking reads lock the gaps between the rows, too: at SERIALIZABLE, and where REPEATABLE
    /// READ is to be InnoDB's.
    pub(crate) fn locks_gaps(&self) -> bool {
        match self.isolation {
            Isolation::Serializable => true,
            Isolation::RepeatableRead => !self.snapshot_isolation,
            Isolation::ReadCommitted | Isolation::ReadUncommitted => false,
        }
    }
    /// The user's name of the transaction (XA), for reports; until its end.
    pub fn name(&mut self, xid: &Xid) {
        self.active_mut().is_named = true;
        *self.shared.xid.lock() = Some(xid.clone());
    }
    /// Replication position to be written with the commit record. At most
    /// [`super::undo::format::POSITION_MAX`] bytes.
    pub fn set_position(&mut self, position: Vec<u8>) {
        if let Some(active) = &mut self.active {
            active.position = position;
        }
    }

    // ---- views ----

    /// The snapshot.
    pub fn view(&self) -> Option<&Arc<ReadView>> {
        Some(&self.active.as_ref()?.view.as_ref()?.view)
    }
    /// See [`ActiveTrx::statement_view`].
    pub(crate) fn statement_view(&self) -> Option<&Arc<ReadView>> {
        Some(&self.active.as_ref()?.statement_view.as_ref()?.view)
    }
    /// A locking read took the view, and has seen nothing yet: a newer view would do as well.
    pub(crate) fn view_is_fresh(&self) -> bool {
        self.active.as_ref().is_some_and(|active| active.view_is_fresh)
    }
    /// The locking read has seen something by its view: the view stays.
    pub(crate) fn keep_view(&mut self) {
        if let Some(active) = &mut self.active {
            active.view_is_fresh = false;
        }
    }

    // ---- undo, redo, rollback ----

    /// Newest undo record that a rollback has still to undo (NONE: no changes).
    pub fn undo_top(&self) -> UndoPtr {
        self.active.as_ref().map_or(UndoPtr::NONE, |active| active.undo_top)
    }
    /// The transaction has written redo up to `lsn`: commit makes it durable.
    pub(crate) fn note_lsn(&mut self, lsn: Lsn) {
        let active = self.active_mut();
        active.last_lsn = active.last_lsn.max(lsn);
    }
    /// The newest undo record is the first one of a load.
    pub(crate) fn note_load(&mut self) {
        let active = self.active_mut();
        active.loads.push((active.undo_top, 0));
    }
    /// A row of the latest load.
    pub(crate) fn count_loaded_row(&mut self) {
        let Some((_, rows)) = self.active_mut().loads.last_mut() else {
            return;
        };
        *rows += 1;
        self.shared.undo_records.fetch_add(1, Ordering::Relaxed);
    }
    /// The record at `at` was undone: if it began a load, the load's rows, else 0.
    pub(super) fn take_load(&mut self, at: UndoPtr) -> u64 {
        let loads = &mut self.active_mut().loads;
        match loads.last() {
            Some((load, _)) if *load == at => loads.pop().map_or(0, |(_, rows)| rows),
            _ => 0,
        }
    }
    pub(crate) fn take_half_undone(&mut self) -> Option<HalfUndone> {
        self.active_mut().half_undone.take()
    }
    pub(crate) fn set_half_undone(&mut self, place: Option<HalfUndone>) {
        self.active_mut().half_undone = place;
    }
    /// The rollback under way. None, too, if the transaction has not started: there is nothing to
    /// undo.
    pub(crate) fn rollback(&mut self) -> Option<&mut RollbackProgress> {
        self.active.as_mut()?.rollback.as_mut()
    }
    pub(crate) fn set_rollback(&mut self, progress: RollbackProgress) {
        if let Some(active) = &mut self.active {
            active.rollback = Some(progress);
        }
    }
    pub(crate) fn take_rollback(&mut self) -> Option<RollbackProgress> {
        self.active.as_mut()?.rollback.take()
    }
    /// A part of the transaction could not be rolled back: it can only be rolled back whole.
    pub fn doom(&mut self, why: &Error) {
        let doomed = &mut self.active_mut().doomed;
        doomed.get_or_insert_with(|| Box::new(why.clone()));
    }
    pub fn is_doomed(&self) -> bool {
        self.active.as_ref().is_some_and(|active| active.doomed.is_some())
    }
    pub fn check_not_doomed(&self) -> Result<()> {
        let doomed = self.active.as_ref().and_then(|active| active.doomed.as_deref());
        doomed.map_or(Ok(()), |why| Err(why.clone()))
    }

    // ---- the row that was locked last, and its leaf ----

    /// A locking read has found the row, and the transaction has its exclusive lock in the lock
    /// table. A caller that gives such a lock back calls `forget_cached_leaf`.
    pub(crate) fn cache_leaf_of_locked_row(&mut self, index: IndexId, key: &[u8], leaf: PageNo) {
        let found = &mut self.active_mut().found;
        debug_assert!(index != 0, "0 stands for no row");
        found.index = index;
        found.key.clear();
        found.key.extend_from_slice(key);
        found.leaf = leaf;
    }
    /// Some: the row's exclusive lock is held, and the row was in this leaf. Holds for one change,
    /// which may leave the lock to the row.
    pub(crate) fn take_cached_leaf(&mut self, index: IndexId, key: &[u8]) -> Option<PageNo> {
        let found = &mut self.active.as_mut()?.found;
        let known = found.index == index && found.key == key;
        found.index = 0;
        known.then_some(found.leaf)
    }
    pub(crate) fn forget_cached_leaf(&mut self) {
        if let Some(active) = &mut self.active {
            active.found.index = 0;
        }
    }
}
