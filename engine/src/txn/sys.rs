//! The transaction system: the table layer's and the engine's door to everything in `txn`.
//!
//! One counter gives transaction ids and commit numbers (`numbers.rs`). A durable upper bound is
//! reserved ahead in steps, so that no number is ever given twice, whatever a crash loses (I10).
//!
//! [`TrxSys`] joins what the parts keep: ids and views ([`Visibility`]), locks ([`LockSys`]), undo
//! ([`UndoStreams`]). This file begins transactions and writes their undo; `commit.rs` ends them,
//! `purge.rs` takes their undo away, `report.rs` shows them.
//!
//! Locks: two leaf mutexes, around the lists of all transactions and of the recovered ones.
use super::isolation::Isolation;
use super::lock::sys::LockSys;
use super::lock::wait::{NoConnection, Waiter};
use super::recover::{self, Unfinished};
use super::shared::TrxShared;
use super::trx::{Phase, Trx};
use super::undo::directory::Position;
use super::undo::format::{Kind, POSITION_MAX};
use super::undo::streams::{UndoRecord, UndoStreams};
use super::visibility::Visibility;
use super::xid::Xid;
use crate::base::sync::{Rank, RankedMutex};
use crate::base::{Counters, Error, Lsn, Result, TrxId, UndoPtr};
use crate::pool::{Mtr, Pool};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// A transaction found in the undo streams at open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredTrx {
    pub id: TrxId,
    /// Some: prepared (XA), in doubt until decided. None: a loser, to be rolled back.
    pub xid: Option<Xid>,
}

pub struct TrxSys {
    pub(super) pool: Arc<Pool>,
    pub(super) counters: Arc<Counters>,
    pub(super) locks: LockSys,
    /// Undo in the undo file.
    pub undo: UndoStreams,
    /// Ids, active transactions, read views.
    pub visibility: Visibility,
    /// History list length from which on the engine warns (`engine/purge_lag.rs`); 0 = never.
    pub purge_lag_warning: AtomicU64,
    /// Recovered transactions that are not adopted yet.
    recovered: RankedMutex<HashMap<TrxId, (Arc<TrxShared>, Unfinished)>>,
    /// Every transaction object, for reports.
    everyone: RankedMutex<Vec<Weak<TrxShared>>>,
}

impl TrxSys {
    /// Creates the undo file with the transaction system page (fresh engine).
    pub fn create(pool: &Arc<Pool>) -> Result<()> {
        UndoStreams::create(pool)
    }

    /// Reads the undo streams (after redo; the undo file is open). Ids continue above all seen;
    /// losers and prepared transactions are active again, with their implicit locks.
    pub fn open(pool: Arc<Pool>, counters: Arc<Counters>) -> Result<(Arc<TrxSys>, Vec<RecoveredTrx>)> {
        let (undo, system_page) = UndoStreams::open(pool.clone(), counters.clone())?;
        let found = recover::walk_all(&undo)?;
        let bound = system_page.number_bound;
        if found.numbers_seen >= bound {
            return Err(Error::corrupt(format!(
                "the undo file holds number {}, but the transaction system page says that only those below {bound} were given",
                found.numbers_seen
            )));
        }
        let mut ids: Vec<TrxId> = found.unfinished.iter().map(|u| u.id).collect();
        ids.sort_unstable();
        let newer = |a: Position, b: Position| if a.0 < b.0 { b } else { a };
        let position = found.position.into_iter().fold(system_page.position, newer);
        let disk = pool.disk().clone();
        let sys = TrxSys {
            locks: LockSys::new(counters.clone(), Box::new(move || disk.now_us())),
            visibility: Visibility::new(pool.clone(), bound, ids, position),
            undo,
            purge_lag_warning: AtomicU64::new(0),
            recovered: RankedMutex::new(Rank::Leaf, HashMap::new()),
            everyone: RankedMutex::new(Rank::Leaf, Vec::new()),
            pool,
            counters,
        };
        sys.counters.active_transactions.set(found.unfinished.len() as u64);
        sys.counters.max_trx_id.set(bound);
        let recovered = sys.revive(found.unfinished);
        Ok((Arc::new(sys), recovered))
    }

    /// Makes the transactions found active again.
    fn revive(&self, found: Vec<Unfinished>) -> Vec<RecoveredTrx> {
        let mut recovered = Vec::new();
        for unfinished in found {
            // It never waits for a lock: its waiter is only a name that other waiters see.
            let shared = self.new_shared(Arc::new(NoConnection), 0);
            let id = unfinished.id;
            shared.id.store(id, Ordering::Release);
            shared.undo_records.store(unfinished.undo_records, Ordering::Relaxed);
            shared.prepared.store(unfinished.xid.is_some(), Ordering::Relaxed);
            *shared.xid.lock() = unfinished.xid.clone();
            shared.rolling_back.store(unfinished.xid.is_none(), Ordering::Relaxed);
            self.locks.accept_implicit(&shared, id);
            self.visibility.show(id, &shared);
            recovered.push(RecoveredTrx {
                id,
                xid: unfinished.xid.clone(),
            });
            self.recovered.lock().insert(id, (shared, unfinished));
        }
        recovered
    }

    /// The newest undo record of a recovered transaction that is not adopted yet.
    pub fn undo_top_found(&self, recovered: &RecoveredTrx) -> UndoPtr {
        let found = self.recovered.lock();
        found
            .get(&recovered.id)
            .map_or(UndoPtr::NONE, |(_, unfinished)| unfinished.undo_top)
    }

    /// A Trx for a recovered transaction, so that it can be rolled back or committed by the
    /// ordinary path. Once for each transaction.
    pub fn adopt(&self, recovered: &RecoveredTrx) -> Result<Trx> {
        // The end needs a number, and room in the stream: both are taken before the transaction
        // leaves the list.
        self.refill_numbers()?;
        let Some((shared, mut unfinished)) = self.recovered.lock().remove(&recovered.id) else {
            return Err(Error::NotFound);
        };
        if let Err(error) = self.undo.reserve(&mut unfinished.tail, 0) {
            self.recovered.lock().insert(recovered.id, (shared, unfinished));
            return Err(error);
        }
        let mut trx = Trx::new(shared);
        let active = trx.begin();
        active.undo_top = unfinished.undo_top;
        active.stream = Some(unfinished.tail);
        if let Some(xid) = &unfinished.xid {
            active.phase = Phase::Prepared;
            trx.name(xid);
        }
        debug_assert_eq!(trx.id(), recovered.id, "the shared half is the one that was found");
        Ok(trx)
    }

    /// The newest replication position that was committed, and survives.
    pub fn position(&self) -> Vec<u8> {
        self.visibility.position().1
    }

    /// Stores a position without a change of rows, by a transaction of its own. The caller flushes
    /// the log up to the LSN returned.
    pub fn set_position(&self, position: &[u8]) -> Result<Lsn> {
        let mut trx = self.new_trx(Arc::new(NoConnection), 0);
        self.start(&mut trx, Isolation::ReadCommitted, 0);
        if let Err(error) = self.begin_writing(&mut trx) {
            self.end_rollback(&mut trx)?;
            return Err(error);
        }
        trx.set_position(position.to_vec());
        Ok(self.commit(&mut trx))
    }

    /// Gives the transaction an id, so that its end has a marker even if it changes no row.
    pub fn begin_writing(&self, trx: &mut Trx) -> Result<()> {
        self.ensure_id(trx)?;
        self.reserve_undo(trx, POSITION_MAX)?;
        let stream = trx.active_mut().stream.as_mut();
        stream.expect("a transaction with an id owns a stream").used = true;
        Ok(())
    }

    pub fn locks(&self) -> &LockSys {
        &self.locks
    }

    pub fn new_trx(&self, waiter: Arc<dyn Waiter>, connection: u64) -> Trx {
        Trx::new(self.new_shared(waiter, connection))
    }

    /// The owner leaves its transaction, which goes on without it: the result. `trx` is a fresh one
    /// then, with the owner's settings.
    pub fn leave(&self, trx: &mut Trx) -> Trx {
        let (waiter, connection) = (trx.shared.waiter.clone(), trx.shared.connection);
        let mut fresh = self.new_trx(waiter, connection);
        fresh.take_settings_of(trx);
        std::mem::replace(trx, fresh)
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
        if trx.is_started() {
            return;
        }
        trx.begin();
        trx.isolation = isolation;
        trx.shared.isolation.store(isolation as u8, Ordering::Relaxed);
        trx.shared
            .started_us
            .store(self.pool.disk().now_us(), Ordering::Relaxed);
    }

    /// Gives the transaction its id and an undo stream, at its first write. Called with no latch
    /// held.
    pub fn ensure_id(&self, trx: &mut Trx) -> Result<TrxId> {
        let id = trx.id();
        if id != 0 {
            assert!(
                trx.phase() == Phase::Working,
                "a prepared or ended transaction writes nothing"
            );
            return Ok(id);
        }
        self.pool.check_alive()?;
        let tail = self.undo.take()?;
        let id = match self.draw_id() {
            Ok(id) => id,
            Err(error) => {
                self.undo.give_back(tail);
                return Err(error);
            }
        };
        debug_assert!(
            trx.active_mut().stream.is_none(),
            "a transaction takes a stream with its id, and only one"
        );
        debug_assert!(
            !tail.used,
            "a stream that is given away holds nothing of an unfinished transaction"
        );
        trx.active_mut().stream = Some(tail);
        self.visibility.show(id, &trx.shared);
        self.locks.accept_implicit(&trx.shared, id);
        trx.shared.id.store(id, Ordering::Release);
        Visibility::show_own(trx.active_mut(), id);
        self.counters.active_transactions.inc();
        self.counters.max_trx_id.raise(id + 1);
        debug_assert!(
            self.is_active(id),
            "an id is in the active set before any row can carry it"
        );
        Ok(id)
    }

    fn draw_id(&self) -> Result<TrxId> {
        loop {
            match self.visibility.begin() {
                Some(id) => return Ok(id),
                None => self.refill_numbers()?,
            }
        }
    }

    fn refill_numbers(&self) -> Result<()> {
        if let Some(next) = self.visibility.next_unreserved() {
            let bound = self.undo.reserve_numbers(next)?;
            debug_assert!(bound > next, "I10: a number is given only below the durable bound");
            self.visibility.raise_bound(bound);
        }
        Ok(())
    }

    pub fn is_active(&self, id: TrxId) -> bool {
        self.visibility.is_active(id)
    }

    /// No transaction with a smaller id is active, and the ends of all such are visible.
    pub fn oldest_active(&self) -> TrxId {
        self.visibility.oldest_active()
    }

    /// The active transaction of that id. O(1) "no" for old ids.
    pub fn active(&self, id: TrxId) -> Option<Arc<TrxShared>> {
        self.visibility.get(id)
    }

    /// Appends an undo record in `mtr` and moves `undo_top` to it. Undo page latches come after
    /// tree latches. Errors (`Full`) come before any change. Without enough reserved, the stream
    /// gets its next page in `mtr` too, under latches of the undo file's space pages. So an Mtr
    /// that already holds space pages of another file needs room reserved before it begins.
    pub fn append_undo(&self, trx: &mut Trx, mtr: &mut Mtr<'_>, payload: &[u8]) -> Result<UndoPtr> {
        let id = trx.id();
        let active = trx.active_mut();
        let tail = active.stream.as_mut().expect("append_undo comes after ensure_id");
        self.undo.make_room(mtr, tail, payload.len())?;
        let at = tail.append(mtr, Kind::Row, id, active.undo_top, 0, payload)?;
        debug_assert!(
            active.phase == Phase::Working,
            "a prepared or ended transaction writes nothing"
        );
        debug_assert!(
            at.page != active.undo_top.page || at.offset > active.undo_top.offset,
            "an undo record lies after the one before it"
        );
        active.undo_top = at;
        trx.shared.undo_records.fetch_add(1, Ordering::Relaxed);
        trx.shared.undo_bytes.fetch_add(payload.len() as u64, Ordering::Relaxed);
        Ok(at)
    }

    /// Makes sure that the next `append_undo` of up to `bytes` needs no new page (allocates stream
    /// pages in an Mtr of its own if needed). After `ensure_id`, with no latch held.
    pub fn reserve_undo(&self, trx: &mut Trx, bytes: usize) -> Result<()> {
        let tail = &mut trx.active_mut().stream;
        let tail = tail.as_mut().expect("reserve_undo comes after ensure_id");
        self.undo.reserve(tail, bytes)
    }

    /// The transaction's newest record, `at`, has been undone.
    pub fn undone(&self, trx: &mut Trx, at: UndoPtr, record: &UndoRecord) {
        let loaded = trx.take_load(at);
        // Written by the transaction's own thread alone. Of a transaction found at open neither
        // number need be exact: they may be too small, or too large.
        let less = |number: &AtomicU64, n: u64| {
            let left = number.load(Ordering::Relaxed).saturating_sub(n);
            number.store(left, Ordering::Relaxed);
        };
        less(&trx.shared.undo_records, 1 + loaded);
        less(&trx.shared.undo_bytes, record.payload.len() as u64);
        self.counters.rollback_records.inc();
        self.rolled_back_to(trx, record.prev);
    }

    /// Rollback went back to `to`: later records are undone and will be skipped. After a crash,
    /// too, once the next record, note ([`TrxSys::note_undone`]) or end marker is written.
    pub fn rolled_back_to(&self, trx: &mut Trx, to: UndoPtr) {
        trx.active_mut().undo_top = to;
    }
}
