//! The transaction system: ids, the active set, read views, commit numbers, the oldest view. The table layer's and the
//! engine's door to everything in `txn`.
//!
//! One counter gives transaction ids and commit numbers; a durable upper bound is reserved ahead in steps, so that no
//! number is ever given twice, whatever was lost in a crash.
//!
//! `commit.rs` ends transactions, `purge.rs` eats their undo, `shrink.rs` cuts what is free of it, `report.rs` shows them: parts of the
//! same type.
//!
//! Locks: one mutex ([`Rank::TrxSys`]) around ids, views and commit numbers, held for a few stores (a view copies the
//! active ids); never while a page is fetched or the log is written.
use super::active::ActiveSet;
use super::directory::{self, Directory};
use super::history::{History, Taken};
use super::purge::JobEnd;
use super::recover::{self, Unfinished};
use super::settled::{Safety, Settling};
use super::shrink::Shrink;
use super::stream::StreamTail;
use super::trx::Phase;
use super::undo::{self, Kind, Reader};
use super::views::{OldestView, ViewRegistry, ViewSlot};
use super::wait::Nobody;
use super::{Isolation, LockSys, ReadView, Trx, TrxShared, Waiter, Xid};
use crate::base::counters::Counter;
use crate::base::ids::UNDO_FILE;
use crate::base::sync::{Rank, RankedMutex};
use crate::base::{Counters, Error, Result, TrxId, UndoPtr};
use crate::pool::{Mtr, Pool};
use crate::space;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// What undo is about, as read back. `payload` is the table layer's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndoRecord {
    pub trx: TrxId,
    /// The record this transaction wrote before and did not roll back yet (NONE at its start).
    pub prev: UndoPtr,
    pub payload: Vec<u8>,
}

/// One record of a [`PurgeJob`].
pub struct PurgeRecord {
    pub at: UndoPtr,
    pub record: UndoRecord,
    /// It was rolled back (with the whole transaction, or to a savepoint): it is on no `prev` chain from the transaction's end.
    pub undone: bool,
}

/// Work for purge: records of ended transactions (committed or rolled back), old enough for everyone, in the order in
/// which they were written. Small transactions come several in a job, large ones in several jobs (I7). May hold no
/// record at all: then there were only end markers. Ends in [`TrxSys::purged`] or [`TrxSys::purge_failed`].
/// After a crash some records come again.
pub struct PurgeJob {
    pub records: Vec<PurgeRecord>,
    pub(super) end: JobEnd,
}

/// A transaction found in the undo streams at open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredTrx {
    pub id: TrxId,
    /// Some: prepared (XA): survives until decided. None: a loser, to be rolled back.
    pub xid: Option<Xid>,
}

pub(super) struct State {
    /// The next id or commit number.
    pub next: u64,
    /// No number at or above may be given.
    bound: u64,
    /// Ids of the active writers, in rising order.
    pub active: Vec<TrxId>,
    /// Numbers drawn by transactions whose end is not visible yet. As many as threads in `end`.
    committing: Vec<u64>,
    pub views: ViewRegistry,
    /// Newest replication position: (commit number, position).
    pub position: (u64, Vec<u8>),
    pub settling: Settling,
}

pub struct TrxSys {
    pub(super) pool: Arc<Pool>,
    pub(super) counters: Arc<Counters>,
    pub(super) locks: LockSys,
    pub(super) directory: Directory,
    pub(super) history: History,
    pub(super) active: ActiveSet,
    pub(super) state: RankedMutex<State>,
    /// `low` of the oldest open view, MAX if there is none. Written under the mutex.
    oldest_view_low: AtomicU64,
    /// History list length from which on people are warned (`engine/purge_lag.rs`); 0 = never.
    pub purge_lag_warning: AtomicU64,
    /// Clock of the latest `tick`.
    tick_us: AtomicU64,
    pub(super) shrink: Shrink,
    /// Pages that the undo streams own.
    pub(super) stream_pages: Counter,
    pub(super) safety: Safety,
    /// Whoever has a lower id is settled. Written under the mutex.
    pub(super) settled_low: AtomicU64,
    /// Recovered transactions that nobody has adopted yet.
    recovered: RankedMutex<HashMap<TrxId, (Arc<TrxShared>, Unfinished)>>,
    /// Every transaction object, for reports.
    everyone: RankedMutex<Vec<Weak<TrxShared>>>,
}

impl TrxSys {
    /// Creates the undo file with the transaction system page (fresh engine).
    pub fn create(pool: &Arc<Pool>) -> Result<()> {
        directory::create(pool)
    }

    /// Reads the undo streams (after redo; the undo file is open): ids continue above all seen; losers and prepared ones
    /// are active again, with their implicit locks.
    pub fn open(pool: Arc<Pool>, counters: Arc<Counters>) -> Result<(Arc<TrxSys>, Vec<RecoveredTrx>)> {
        space::truncate_excess(&pool, UNDO_FILE)?;
        let (directory, system_page) = Directory::open(&pool)?;
        let history = History::new();
        let found = recover::walk_all(&pool, directory.slots(&pool)?, &history)?;
        if found.numbers_seen >= system_page.number_bound {
            return Err(Error::corrupt(format!(
                "the undo file holds number {}, but the transaction system page says that only those below {} were given",
                found.numbers_seen, system_page.number_bound
            )));
        }
        let stored = (system_page.position_no, system_page.position);
        let mut ids: Vec<TrxId> = found.unfinished.iter().map(|u| u.id).collect();
        ids.sort_unstable();
        let next = system_page.number_bound;
        let state = State {
            next,
            bound: next,
            committing: Vec::new(),
            views: ViewRegistry::default(),
            position: found
                .position
                .into_iter()
                .fold(stored, |a, b| if a.0 < b.0 { b } else { a }),
            active: ids.clone(),
            settling: Settling::default(),
        };
        let disk = pool.disk().clone();
        let sys = TrxSys {
            locks: LockSys::new(counters.clone(), Box::new(move || disk.now_us())),
            active: ActiveSet::new(ids.first().copied().unwrap_or(next)),
            state: RankedMutex::new(Rank::TrxSys, state),
            oldest_view_low: AtomicU64::new(u64::MAX),
            purge_lag_warning: AtomicU64::new(0),
            tick_us: AtomicU64::new(0),
            shrink: Shrink::default(),
            stream_pages: Counter::default(),
            safety: Safety::default(),
            settled_low: AtomicU64::new(0),
            recovered: RankedMutex::new(Rank::Leaf, HashMap::new()),
            everyone: RankedMutex::new(Rank::Leaf, Vec::new()),
            pool,
            counters,
            directory,
            history,
        };
        sys.stream_pages.set(found.pages);
        sys.counters.active_transactions.set(found.unfinished.len() as u64);
        sys.counters.max_trx_id.set(next);
        let recovered = sys.revive(found.unfinished);
        Ok((Arc::new(sys), recovered))
    }

    /// Makes the transactions found active again.
    fn revive(&self, found: Vec<Unfinished>) -> Vec<RecoveredTrx> {
        let mut recovered = Vec::new();
        for unfinished in found {
            // It never waits for a lock, so its waiter is only a name that others see: nobody's.
            let shared = self.new_shared(Arc::new(Nobody), 0);
            let id = unfinished.id;
            shared.id.store(id, Ordering::Release);
            shared.undo_records.store(unfinished.undo_records, Ordering::Relaxed);
            shared.prepared.store(unfinished.xid.is_some(), Ordering::Relaxed);
            *shared.xid.lock() = unfinished.xid.clone();
            shared.rolling_back.store(unfinished.xid.is_none(), Ordering::Relaxed);
            self.locks.accept_implicit(&shared, id);
            self.active.add(id, &shared);
            recovered.push(RecoveredTrx {
                id,
                xid: unfinished.xid.clone(),
            });
            self.recovered.lock().insert(id, (shared, unfinished));
        }
        recovered
    }

    /// The newest undo record of a recovered transaction that nobody has adopted yet.
    pub fn undo_top_found(&self, recovered: &RecoveredTrx) -> UndoPtr {
        let found = self.recovered.lock();
        found
            .get(&recovered.id)
            .map_or(UndoPtr::NONE, |(_, unfinished)| unfinished.undo_top)
    }

    /// A Trx for a recovered transaction, so that it can be rolled back or committed by the ordinary path. Once each.
    pub fn adopt(&self, recovered: &RecoveredTrx) -> Result<Trx> {
        // Its end needs a number, and room in its stream: take both before it leaves the list.
        self.refill_numbers()?;
        let Some((shared, mut unfinished)) = self.recovered.lock().remove(&recovered.id) else {
            return Err(Error::NotFound);
        };
        if let Err(error) = self.reserve(&mut unfinished.tail, 0) {
            self.recovered.lock().insert(recovered.id, (shared, unfinished));
            return Err(error);
        }
        let mut trx = Trx::new(shared);
        trx.started = true;
        trx.undo_top = unfinished.undo_top;
        trx.stream = Some(unfinished.tail);
        if let Some(xid) = &unfinished.xid {
            trx.phase = Phase::Prepared;
            trx.name(xid);
        }
        Ok(trx)
    }

    /// The newest replication position that was committed, and survives.
    pub fn position(&self) -> Vec<u8> {
        self.state.lock().position.1.clone()
    }

    pub fn locks(&self) -> &LockSys {
        &self.locks
    }

    pub fn new_trx(&self, waiter: Arc<dyn Waiter>, connection: u64) -> Trx {
        Trx::new(self.new_shared(waiter, connection))
    }

    fn new_shared(&self, waiter: Arc<dyn Waiter>, connection: u64) -> Arc<TrxShared> {
        let shared = TrxShared::new(waiter, connection);
        let mut everyone = self.everyone.lock();
        if everyone.len() == everyone.capacity() {
            everyone.retain(|trx| trx.strong_count() > 0);
        }
        everyone.push(Arc::downgrade(&shared));
        shared
    }

    /// Every transaction object, for reports.
    pub(super) fn everyone(&self) -> Vec<Arc<TrxShared>> {
        self.everyone.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Idempotent while started.
    pub fn start(&self, trx: &mut Trx, isolation: Isolation, lock_wait_timeout_ms: u32) {
        trx.lock_wait_timeout_ms = lock_wait_timeout_ms;
        if trx.started {
            return;
        }
        trx.started = true;
        trx.isolation = isolation;
        trx.shared.isolation.store(isolation as u8, Ordering::Relaxed);
        trx.shared
            .started_us
            .store(self.pool.disk().now_us(), Ordering::Relaxed);
    }

    /// Gives the transaction its id and an undo stream, at its first write. Called with no latch held.
    pub fn ensure_id(&self, trx: &mut Trx) -> Result<TrxId> {
        let id = trx.id();
        if id != 0 {
            assert!(
                trx.phase == Phase::Working,
                "a prepared or ended transaction writes nothing"
            );
            return Ok(id);
        }
        self.pool.check_alive()?;
        let tail = self.take_stream()?;
        let id = match self.draw_id() {
            Ok(id) => id,
            Err(error) => {
                self.history.end(tail, None);
                return Err(error);
            }
        };
        trx.stream = Some(tail);
        self.active.add(id, &trx.shared);
        self.locks.accept_implicit(&trx.shared, id);
        trx.shared.id.store(id, Ordering::Release);
        for view in [&mut trx.view, &mut trx.statement_view].into_iter().flatten() {
            Arc::make_mut(view).own = id;
        }
        self.counters.active_transactions.inc();
        self.counters.max_trx_id.raise(id + 1);
        Ok(id)
    }

    /// A stream with room for an end marker.
    fn take_stream(&self) -> Result<Box<StreamTail>> {
        let mut tail = match self.history.take_stream()? {
            Taken::Free(tail) => tail,
            Taken::Make(number) => match self.directory.add_stream(&self.pool, number) {
                Ok(tail) => {
                    self.history.add_stream(&tail);
                    self.stream_pages.inc();
                    Box::new(tail)
                }
                Err(error) => {
                    self.history.give_number_back(number);
                    return Err(error);
                }
            },
        };
        if tail.has_room_to_end() {
            return Ok(tail);
        }
        match self.reserve(&mut tail, 0) {
            Ok(()) => Ok(tail),
            Err(error) => {
                self.history.end(tail, None);
                Err(error)
            }
        }
    }

    fn reserve(&self, tail: &mut StreamTail, bytes: usize) -> Result<()> {
        let added = tail.reserve(&self.pool, self.ceiling(), bytes)?;
        self.stream_pages.add(added as u64);
        Ok(())
    }

    /// The next id, active at once: no view falls between the two.
    fn draw_id(&self) -> Result<TrxId> {
        loop {
            {
                let mut state = self.state.lock();
                if state.can_draw() {
                    let id = state.next;
                    state.next += 1;
                    if state.active.is_empty() {
                        self.active.low.store(id, Ordering::Release);
                    }
                    state.active.push(id);
                    return Ok(id);
                }
            }
            self.refill_numbers()?;
        }
    }

    fn refill_numbers(&self) -> Result<()> {
        let next = {
            let state = self.state.lock();
            if state.can_draw() {
                return Ok(());
            }
            state.next
        };
        let bound = self.directory.reserve_numbers(&self.pool, next)?;
        let mut state = self.state.lock();
        state.bound = state.bound.max(bound);
        Ok(())
    }

    pub fn is_active(&self, id: TrxId) -> bool {
        self.active.contains(id)
    }

    /// Nobody with a smaller id is active, and whatever they did is to be seen.
    pub fn oldest_active(&self) -> TrxId {
        self.active.low.load(Ordering::Acquire)
    }

    /// The active transaction of that id. O(1) "no" for old ids.
    pub fn active(&self, id: TrxId) -> Option<Arc<TrxShared>> {
        self.active.get(id)
    }

    /// Makes the consistent-read view if there is none.
    pub fn open_view(&self, trx: &mut Trx) -> Arc<ReadView> {
        trx.view_is_fresh = false;
        if let Some(view) = &trx.view {
            return view.clone();
        }
        let (view, slot) = self.register_view(trx);
        trx.view_slot = Some(slot);
        trx.view = Some(view.clone());
        view
    }

    /// Makes the view that judges nothing if there is none.
    pub fn open_statement_view(&self, trx: &mut Trx) -> Arc<ReadView> {
        if let Some(view) = &trx.statement_view {
            return view.clone();
        }
        let (view, slot) = self.register_view(trx);
        trx.statement_view_slot = Some(slot);
        trx.statement_view = Some(view.clone());
        view
    }

    fn register_view(&self, trx: &mut Trx) -> (Arc<ReadView>, ViewSlot) {
        let mut view = trx.spare_view.take().unwrap_or_default();
        if Arc::get_mut(&mut view).is_none() {
            view = Arc::default();
        }
        let content = Arc::get_mut(&mut view).expect("nobody else holds it");
        content.own = trx.id();
        let opened_us = self.about_now_us(&trx.shared);
        trx.shared.snapshot_us.store(opened_us, Ordering::Relaxed);
        let mut state = self.state.lock();
        content.high = state.next;
        content.low = state.active.first().copied().unwrap_or(state.next);
        content.active.clone_from(&state.active);
        content.commit_no = state.commit_no();
        self.settle(&mut state);
        content.unsettled = state.unsettled();
        let slot = state.views.open(content, trx.shared.connection, opened_us);
        if state.views.len() == 1 {
            self.oldest_view_low.store(content.low, Ordering::Release);
        }
        drop(state);
        (view, slot)
    }

    /// Closes the statement's, too.
    pub fn close_view(&self, trx: &mut Trx) {
        self.note_shown(trx);
        let views = [trx.view.take(), trx.statement_view.take()];
        let slots = [trx.view_slot.take(), trx.statement_view_slot.take()];
        self.close_views(trx, views, slots);
    }

    /// Not the statement's: that goes on.
    pub fn close_own_view(&self, trx: &mut Trx) {
        self.note_shown(trx);
        let (view, slot) = (trx.view.take(), trx.view_slot.take());
        self.close_views(trx, [view, None], [slot, None]);
    }

    fn close_views(&self, trx: &mut Trx, views: [Option<Arc<ReadView>>; 2], slots: [Option<ViewSlot>; 2]) {
        if slots == [None, None] {
            return;
        }
        if trx.statement_view.is_none() {
            trx.shared.snapshot_us.store(0, Ordering::Relaxed);
        }
        trx.spare_view = views.into_iter().flatten().next();
        let mut state = self.state.lock();
        let mut was_oldest = false;
        for slot in slots.into_iter().flatten() {
            was_oldest |= state.views.close(slot);
        }
        if was_oldest {
            let low = state.views.oldest().map_or(u64::MAX, |view| view.low);
            self.oldest_view_low.store(low, Ordering::Release);
        }
    }

    /// The clock to the second, for nothing: no statement asks the system for the time because it makes a snapshot.
    fn about_now_us(&self, trx: &TrxShared) -> u64 {
        let tick = self.tick_us.load(Ordering::Relaxed);
        trx.started_us.load(Ordering::Relaxed).max(tick).max(1)
    }
    /// Called about once a second.
    pub fn tick(&self) {
        self.tick_us.store(self.pool.disk().now_us(), Ordering::Relaxed);
    }

    /// As `open_view`, for a locking read that can do with a newer one as long as it has seen nothing.
    pub fn open_fresh_view(&self, trx: &mut Trx) {
        self.open_view(trx);
        trx.view_is_fresh = true;
    }

    /// The view that holds purge back, and how many are open.
    pub fn oldest_view(&self) -> (Option<OldestView>, usize) {
        let state = self.state.lock();
        (state.views.oldest(), state.views.len())
    }

    /// Every transaction below this id is committed and visible to every present and future view.
    pub fn all_see_below(&self) -> TrxId {
        // In this order: a view that is older than `low` as read here had stored its own before `low` moved on.
        let low = self.active.low.load(Ordering::Acquire);
        low.min(self.oldest_view_low.load(Ordering::Acquire))
    }

    /// Appends an undo record in `mtr` (undo page latches come after tree latches) and moves `trx.undo_top` to it. Errors
    /// (Full) come before any change. Without enough reserved, the stream gets its next page in `mtr` too, under latches of
    /// the undo file's space pages; so an Mtr that already holds space pages of another file reserves before it begins.
    pub fn append_undo(&self, trx: &mut Trx, mtr: &mut Mtr<'_>, payload: &[u8]) -> Result<UndoPtr> {
        let id = trx.id();
        let tail = trx.stream.as_mut().expect("append_undo comes after ensure_id");
        let added = tail.make_room(mtr, self.ceiling(), payload.len())?;
        if added > 0 {
            self.stream_pages.add(added as u64);
        }
        let at = tail.append(mtr, Kind::Row, id, trx.undo_top, 0, payload)?;
        trx.undo_top = at;
        trx.shared.undo_records.fetch_add(1, Ordering::Relaxed);
        trx.shared.undo_bytes.fetch_add(payload.len() as u64, Ordering::Relaxed);
        Ok(at)
    }

    /// Makes sure that the next `append_undo` of up to `bytes` needs no new page (allocates stream pages in an Mtr of its own
    /// if needed). After `ensure_id`, with no latch held.
    pub fn reserve_undo(&self, trx: &mut Trx, bytes: usize) -> Result<()> {
        let tail = trx.stream.as_mut().expect("reserve_undo comes after ensure_id");
        self.reserve(tail, bytes)
    }

    /// Before the first undo record of a load: versions that know none must not read what follows. With no latch held.
    pub fn allow_loads(&self) -> Result<()> {
        self.directory.note_loads(&self.pool)
    }

    /// Takes S latches on undo pages, one at a time. The caller holds an open view that does not see the record's
    /// transaction, or is that transaction (`purge.rs` says why that suffices).
    pub fn read_undo(&self, at: UndoPtr) -> Result<UndoRecord> {
        let mut reader = Reader::open(&self.pool, at)?;
        match reader.header()? {
            Some((_, header)) if header.kind == Kind::Row => Ok(UndoRecord {
                trx: header.trx,
                prev: header.prev,
                payload: reader.payload(&header)?,
            }),
            _ => Err(undo::corrupt(at, "is not there")),
        }
    }

    /// The transaction's newest record, `at`, has been undone.
    pub fn undone(&self, trx: &mut Trx, at: UndoPtr, record: &UndoRecord) {
        let mut loaded = 0;
        if trx.loads.last().is_some_and(|(load, _)| *load == at) {
            loaded = trx.loads.pop().map_or(0, |(_, rows)| rows);
        }
        // By its own thread alone. Of one found at open neither number need be exact: they may be too small, or too large.
        let less = |number: &AtomicU64, n: u64| {
            let left = number.load(Ordering::Relaxed).saturating_sub(n);
            number.store(left, Ordering::Relaxed);
        };
        less(&trx.shared.undo_records, 1 + loaded);
        less(&trx.shared.undo_bytes, record.payload.len() as u64);
        self.counters.rollback_records.inc();
        self.rolled_back_to(trx, record.prev);
    }

    /// Undo records of all that are being rolled back: still to be undone.
    pub fn rollback_records_left(&self) -> u64 {
        let all = self.everyone();
        let rolling_back = all.iter().filter(|trx| trx.rolling_back.load(Ordering::Relaxed));
        rolling_back.map(|trx| trx.undo_records.load(Ordering::Relaxed)).sum()
    }

    /// Rollback went back to `to`: later records are undone and will be skipped, also after a crash
    /// (once the next record, note ([`TrxSys::note_undone`]) or end marker is written).
    pub fn rolled_back_to(&self, trx: &mut Trx, to: UndoPtr) {
        trx.undo_top = to;
    }
}

impl State {
    /// Each active transaction will draw one number more, for its end.
    fn can_draw(&self) -> bool {
        self.next + self.active.len() as u64 + 1 < self.bound
    }
    /// Whoever ended with a number below it is visible.
    pub fn commit_no(&self) -> u64 {
        self.committing.iter().copied().min().unwrap_or(self.next)
    }
    pub fn begin_end(&mut self) -> u64 {
        let number = self.next;
        assert!(
            number < self.bound,
            "every active transaction has a number reserved for its end"
        );
        self.next += 1;
        self.committing.push(number);
        number
    }
    pub fn end_committing(&mut self, number: Option<u64>) {
        if let Some(number) = number {
            let at = self.committing.iter().position(|n| *n == number);
            self.committing.swap_remove(at.expect("it was noted"));
        }
    }
    /// Removes an active id; returns the oldest that remains.
    pub fn leave(&mut self, id: TrxId) -> TrxId {
        let at = self
            .active
            .binary_search(&id)
            .expect("an active transaction is in the list");
        self.active.remove(at);
        self.active.first().copied().unwrap_or(self.next)
    }
}
