//! How transactions end: prepare, commit, rollback's last step.
//!
//! How a transaction ends (`end`):
//! 1. latch where the end marker goes: a page that cannot be read is met before a number is drawn. (Each active transaction has one number
//!    reserved, and a rollback that waits for the page tries this again and again.) Under the mutex: draw the commit number, note it as
//!    *committing*;
//! 2. append the end marker to its stream, in one redo group: from here on its fate is the log's;
//! 3. under the mutex: leave the active ids, so that new views see it, and the committing numbers.
//!
//! Visible before the marker is in the log (3 before 2) would let a second transaction build on it and become durable
//! alone. A view made between 1 and 3 does not see the transaction, and takes its `commit_no` from the oldest committing
//! number, not from the counter: so "number below the view's" always implies "seen by the view", which purge lives on
//! (`purge.rs`).
//!
//! A transaction that wrote no undo has no marker and needs no number. Called by the engine with no latch held; the only
//! page touched is the tail of the transaction's own stream.
use super::history::End;
use super::recover;
use super::stream::StreamTail;
use super::trx::Phase;
use super::undo::{Kind, HEADER_MAX, POSITION_MAX};
use super::{Trx, TrxSys, Xid};
use crate::base::{planted, sync_point, Error, Lsn, Mutant, Result, SyncPoint, UndoPtr};
use std::sync::atomic::Ordering;

impl TrxSys {
    /// Writes the prepared record; to be flushed up to the LSN returned (0: the transaction has written nothing).
    pub fn prepare(&self, trx: &mut Trx, xid: &Xid) -> Result<Lsn> {
        trx.check_not_doomed()?;
        let id = trx.id();
        assert!(trx.phase == Phase::Working, "a transaction is prepared once");
        let Some(tail) = trx.stream.as_mut().filter(|tail| tail.used) else {
            if id == 0 {
                // It may hold locks, and people see it.
                trx.shared.prepared.store(true, Ordering::Relaxed);
            }
            return Ok(self.shown_lsn(trx));
        };
        let payload = recover::encode_xid(xid);
        // And for the record with which its rollback begins, for which there may be no room later.
        let bytes = payload.len() + HEADER_MAX;
        self.stream_pages
            .add(tail.reserve(&self.pool, self.ceiling(), bytes)? as u64);
        let mut mtr = self.pool.begin();
        tail.append(&mut mtr, Kind::Prepared, id, trx.undo_top, 0, &payload)?;
        trx.last_lsn = mtr.commit();
        self.pool.check_alive()?;
        trx.phase = Phase::Prepared;
        trx.shared.prepared.store(true, Ordering::Relaxed);
        Ok(trx.last_lsn)
    }

    /// A prepared transaction is going to be rolled back: from here on a crash leaves a loser. It must not leave a prepared
    /// transaction of which half is undone, for that half could be committed. Does nothing to one that is not prepared; an
    /// error leaves it prepared.
    pub fn resume(&self, trx: &mut Trx) -> Result<()> {
        let id = trx.id();
        let Some(tail) = trx.stream.as_mut().filter(|_| trx.phase == Phase::Prepared) else {
            return Ok(());
        };
        if !planted(Mutant::PreparedRollbackNotLogged) {
            self.stream_pages
                .add(tail.reserve(&self.pool, self.ceiling(), 0)? as u64);
            let mut mtr = self.pool.begin();
            tail.append(&mut mtr, Kind::Resumed, id, trx.undo_top, 0, &[])?;
            trx.last_lsn = mtr.commit();
            self.pool.check_alive()?;
        }
        trx.phase = Phase::Working;
        Ok(())
    }

    /// Notes in the undo stream that what follows `trx.undo_top` is undone: a rollback that a crash
    /// cuts short goes on from there. The rows' changes come before it in the log. Without room for
    /// the note there is none, and more is undone again.
    pub fn note_undone(&self, trx: &mut Trx) -> Result<()> {
        let (id, top) = (trx.id(), trx.undo_top);
        let left = trx.shared.undo_records.load(Ordering::Relaxed).to_le_bytes();
        let Some(tail) = trx.stream.as_mut().filter(|tail| tail.used) else {
            return Ok(());
        };
        assert!(trx.phase == Phase::Working, "a rollback has begun");
        let noted = (|| -> Result<Lsn> {
            let added = tail.reserve(&self.pool, self.ceiling(), left.len())?;
            self.stream_pages.add(added as u64);
            let mut mtr = self.pool.begin();
            tail.append(&mut mtr, Kind::Resumed, id, top, 0, &left)?;
            Ok(mtr.commit())
        })();
        match noted {
            Ok(lsn) => trx.last_lsn = trx.last_lsn.max(lsn),
            Err(_) => self.pool.check_alive()?,
        }
        Ok(())
    }

    /// Writes the end marker (in memory), gives the commit number, makes it visible. No I/O, cannot fail. Locks are still held.
    /// A doomed transaction is left as it is: `Engine::commit` rolls it back. So is one that becomes doomed here, because the page of its
    /// end marker was written, forgotten and is broken now; of a prepared one the others may have been told: the engine stops.
    /// On a poisoned engine it is visible in memory only, and flushing the LSN reports the poison.
    pub fn commit_ordered(&self, trx: &mut Trx) {
        if trx.phase == Phase::Committed || trx.is_doomed() {
            return;
        }
        let before = std::mem::replace(&mut trx.phase, Phase::Committed);
        if trx.id() == 0 {
            return;
        }
        let Err(error) = self.end(trx, Kind::Committed) else {
            return;
        };
        if trx.stream.is_some() {
            trx.phase = before;
            trx.doom(&error);
        } else {
            self.pool.poison(&format!("a commit could not be logged: {error}"));
        }
    }

    /// commit_ordered if not done; releases locks; the Trx is ready for the next transaction. Returns the LSN to be made durable, its own
    /// or that of what it was shown (0: none; `Lsn::MAX`: it could not be logged, and flushing reports why); the caller flushes per its mode.
    /// One that is doomed is as it was: the caller rolls it back.
    pub fn commit(&self, trx: &mut Trx) -> Lsn {
        self.commit_ordered(trx);
        if trx.is_doomed() {
            return 0;
        }
        let lsn = match trx.last_lsn {
            0 => self.shown_lsn(trx),
            own => own,
        };
        if trx.started {
            self.counters.commits.inc();
        }
        self.finish(trx);
        lsn
    }

    /// After all undo records were applied: end marker "rolled back", inactive, locks released. On an error
    /// the transaction stays active, its rows locked: it is asked for again, or rolled back by the next start.
    pub fn end_rollback(&self, trx: &mut Trx) -> Result<()> {
        if trx.id() != 0 {
            self.pool.check_alive()?;
            self.end(trx, Kind::RolledBack)?;
        }
        if trx.started {
            self.counters.rollbacks.inc();
        }
        self.finish(trx);
        Ok(())
    }

    /// Ends a transaction that has an id: see the head of this file. An error leaves a rollback active; a commit, too, if its page is
    /// broken and it was not prepared (it has its stream then), else visible, with an LSN that no flush can reach.
    fn end(&self, trx: &mut Trx, kind: Kind) -> Result<()> {
        let id = trx.id();
        let mut tail = trx.stream.take().expect("a transaction with an id owns a stream");
        let mut number = None;
        let written = match tail.used {
            true => self.write_end(trx, &mut tail, kind, &mut number).map(Some),
            false => Ok(None),
        };
        let prepared = trx.shared.prepared.load(Ordering::Relaxed);
        let can_be_undone = |e: &Error| !prepared && e.is_corrupt() && self.pool.check_alive().is_ok();
        if (written.as_ref()).is_err_and(|e| kind == Kind::RolledBack || can_be_undone(e)) {
            trx.stream = Some(tail);
            self.state.lock().end_committing(number);
            return written.map(|_| ());
        }
        {
            let mut state = self.state.lock();
            state.end_committing(number);
            let low = state.leave(id);
            self.active.low.store(low, Ordering::Release);
            let number = number.unwrap_or(0);
            if kind == Kind::Committed && !prepared {
                state.settling.newest = state.settling.newest.max(trx.last_lsn);
            }
            if kind == Kind::Committed && !trx.position.is_empty() && state.position.0 < number {
                state.position = (number, trx.position.clone());
            }
        }
        sync_point(SyncPoint::EndSeen);
        self.active.remove(id);
        self.counters.active_transactions.sub(1);
        match &written {
            Ok(end) => {
                self.history.end(tail, *end);
                self.counters.history_list_length.set(self.history.len());
            }
            // The stream is not used again: nobody knows what its page holds.
            Err(_) => trx.last_lsn = Lsn::MAX,
        }
        written.map(|_| ())
    }

    /// `drawn`: its commit number, once there is one.
    fn write_end(&self, trx: &mut Trx, tail: &mut StreamTail, kind: Kind, drawn: &mut Option<u64>) -> Result<End> {
        let position: &[u8] = if kind == Kind::Committed { &trx.position } else { &[] };
        assert!(position.len() <= POSITION_MAX, "a replication position is too long");
        self.pool.check_alive()?;
        let mut mtr = self.pool.begin();
        tail.latch_for_end(&mut mtr)?;
        let number = *drawn.insert(self.state.lock().begin_end());
        let at = tail.append(&mut mtr, kind, trx.id(), trx.undo_top, number, position)?;
        trx.last_lsn = mtr.commit();
        sync_point(SyncPoint::EndLogged);
        self.pool.check_alive()?;
        Ok(End { at, number })
    }

    /// What every end has in common once it is decided.
    fn finish(&self, trx: &mut Trx) {
        self.close_view(trx);
        trx.forget_found();
        self.locks.release_all(&trx.shared);
        trx.shared.id.store(0, Ordering::Release);
        trx.shared.undo_records.store(0, Ordering::Relaxed);
        trx.shared.undo_bytes.store(0, Ordering::Relaxed);
        trx.shared.buffered_changes.store(0, Ordering::Relaxed);
        trx.shared.started_us.store(0, Ordering::Relaxed);
        trx.shared.prepared.store(false, Ordering::Relaxed);
        trx.shared.rolling_back.store(false, Ordering::Relaxed);
        trx.started = false;
        trx.undo_top = UndoPtr::NONE;
        trx.half_undone = None;
        trx.rollback = None;
        trx.loads.clear();
        trx.last_lsn = 0;
        trx.shown_lsn = 0;
        trx.shows_newest = false;
        trx.position.clear();
        trx.forget_doom();
        trx.forget_name();
        trx.phase = Phase::Working;
        trx.stream = None;
    }
}
