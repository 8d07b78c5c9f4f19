//! How transactions end: prepare, commit, the last step of a rollback.
//!
//! The steps of an end ([`TrxSys::end`]):
//! 1. Latch the page where the end marker goes, so that a page that cannot be read is met before a
//!    number is drawn. (Each active transaction has one number reserved. A rollback that waits for
//!    the page tries this again and again.) Then draw the commit number, and note it as
//!    *committing*.
//! 2. Append the end marker to the transaction's stream, in one redo group. From here on the log
//!    decides.
//! 3. Leave the active ids, so that new views see the end, and the committing numbers.
//!
//! With step 3 before step 2 a second transaction could build on the first, and become durable
//! alone. A view made between 1 and 3 does not see the transaction. It takes its `commit_no` from
//! the oldest committing number, not from the counter. So "number below the view's" always implies
//! "seen by the view", which purge depends on (`undo/purge.rs`).
//!
//! A transaction that wrote no undo has no marker and needs no number. Called by the engine with no
//! latch held; the only page touched is the tail of the transaction's own stream.
use super::sys::TrxSys;
use super::trx::{Phase, Trx};
use super::undo::format::{encode_xid, Kind, HEADER_MAX, POSITION_MAX};
use super::undo::history::End;
use super::undo::stream::StreamTail;
use super::visibility::VisibleEnd;
use super::xid::Xid;
use crate::base::sync::holds_no_latch;
use crate::base::{planted, sync_point, Error, Lsn, Mutant, Result, SyncPoint};
use std::sync::atomic::Ordering;

impl TrxSys {
    /// Writes the prepared record; to be flushed up to the LSN returned (0: the transaction has
    /// written nothing).
    pub fn prepare(&self, trx: &mut Trx, xid: &Xid) -> Result<Lsn> {
        trx.check_not_doomed()?;
        let id = trx.id();
        assert!(trx.phase() == Phase::Working, "a transaction is prepared once");
        debug_assert!(holds_no_latch(), "I5: room for undo is waited for with no latch held");
        let active = trx.active_mut();
        let Some(tail) = active.stream.as_mut().filter(|tail| tail.used) else {
            if id == 0 {
                // It may hold locks, and reports show it.
                trx.shared.prepared.store(true, Ordering::Relaxed);
            }
            return Ok(self.visibility.shown_lsn(trx));
        };
        let payload = encode_xid(xid);
        // Room also for the record with which a rollback begins: there may be none later.
        self.undo.reserve(tail, payload.len() + HEADER_MAX)?;
        let mut mtr = self.pool.begin();
        tail.append(&mut mtr, Kind::Prepared, id, active.undo_top, 0, &payload)?;
        active.last_lsn = mtr.commit();
        self.pool.check_alive()?;
        debug_assert!(
            tail.has_room(0),
            "room for the record with which a rollback begins, and for the end"
        );
        active.phase = Phase::Prepared;
        let lsn = active.last_lsn;
        trx.shared.prepared.store(true, Ordering::Relaxed);
        Ok(lsn)
    }

    /// A prepared transaction is going to be rolled back: from here on a crash leaves a loser. A
    /// crash must not leave a prepared transaction of which half is undone, since that half could
    /// be committed. Does nothing to a transaction that is not prepared; an error leaves it
    /// prepared.
    pub fn resume(&self, trx: &mut Trx) -> Result<()> {
        if trx.phase() != Phase::Prepared {
            return Ok(());
        }
        let id = trx.id();
        let active = trx.active_mut();
        let Some(tail) = active.stream.as_mut() else {
            return Ok(());
        };
        if !planted(Mutant::PreparedRollbackNotLogged) {
            self.undo.reserve(tail, 0)?;
            let mut mtr = self.pool.begin();
            tail.append(&mut mtr, Kind::Resumed, id, active.undo_top, 0, &[])?;
            active.last_lsn = mtr.commit();
            self.pool.check_alive()?;
        }
        active.phase = Phase::Working;
        Ok(())
    }

    /// Notes in the undo stream that what follows the transaction's `undo_top` is undone: a
    /// rollback that a crash cuts short goes on from there. The rows' changes come before it in the
    /// log. Without room for the note there is none, and more is undone again.
    pub fn note_undone(&self, trx: &mut Trx) -> Result<()> {
        let (id, left) = (trx.id(), trx.shared.undo_records.load(Ordering::Relaxed));
        let active = trx.active_mut();
        let Some(tail) = active.stream.as_mut().filter(|tail| tail.used) else {
            return Ok(());
        };
        assert!(active.phase == Phase::Working, "a rollback has begun");
        debug_assert!(holds_no_latch(), "I5: room for undo is waited for with no latch held");
        let left = left.to_le_bytes();
        let noted = self.undo.reserve(tail, left.len()).and_then(|()| {
            let mut mtr = self.pool.begin();
            tail.append(&mut mtr, Kind::Resumed, id, active.undo_top, 0, &left)?;
            Ok(mtr.commit())
        });
        match noted {
            Ok(lsn) => trx.note_lsn(lsn),
            Err(_) => self.pool.check_alive()?,
        }
        Ok(())
    }

    /// Writes the end marker (in memory), gives the commit number, makes the commit visible. No
    /// I/O, cannot fail. Locks are still held.
    ///
    /// A doomed transaction is left as it is: `Engine::commit` rolls it back. A transaction becomes
    /// doomed here if the page of its end marker was written, forgotten and is broken now. If it
    /// was prepared, the other participants may know of the commit: the engine stops. On a poisoned
    /// engine the commit is visible in memory only, and flushing the LSN reports the poison.
    pub fn commit_ordered(&self, trx: &mut Trx) {
        if trx.phase() == Phase::Committed || trx.is_doomed() || !trx.is_started() {
            return;
        }
        let before = std::mem::replace(&mut trx.active_mut().phase, Phase::Committed);
        if trx.id() == 0 {
            return;
        }
        let Err(error) = self.end(trx, Kind::Committed) else {
            return;
        };
        if trx.active_mut().stream.is_some() {
            trx.active_mut().phase = before;
            trx.doom(&error);
        } else {
            self.pool.poison(&format!("a commit could not be logged: {error}"));
        }
    }

    /// `commit_ordered` if not done; releases locks; the Trx is ready for the next transaction.
    ///
    /// Returns the LSN to be made durable: the transaction's own, or that of what it was shown. The
    /// caller flushes per its mode. 0: none. `Lsn::MAX`: the commit could not be logged, and
    /// flushing reports why. A doomed transaction is as it was: the caller rolls it back.
    pub fn commit(&self, trx: &mut Trx) -> Lsn {
        self.commit_ordered(trx);
        if trx.is_doomed() {
            return 0;
        }
        let lsn = match trx.active.as_ref().map_or(0, |active| active.last_lsn) {
            0 => self.visibility.shown_lsn(trx),
            own => own,
        };
        if trx.is_started() {
            self.counters.commits.inc();
        }
        self.finish(trx);
        lsn
    }

    /// After all undo records were applied: end marker "rolled back", inactive, locks released. On
    /// an error the transaction stays active, its rows locked. The caller asks again, or the next
    /// start rolls the transaction back.
    pub fn end_rollback(&self, trx: &mut Trx) -> Result<()> {
        if trx.id() != 0 {
            self.pool.check_alive()?;
            self.end(trx, Kind::RolledBack)?;
        }
        if trx.is_started() {
            self.counters.rollbacks.inc();
        }
        self.finish(trx);
        Ok(())
    }

    /// Ends a transaction that has an id: see the head of this file. An error leaves a rollback
    /// active. A commit stays active too if its page is broken and it was not prepared (it has its
    /// stream then). Else the commit is visible, with an LSN that no flush can reach.
    fn end(&self, trx: &mut Trx, kind: Kind) -> Result<()> {
        let id = trx.id();
        let tail = trx.active_mut().stream.take();
        let mut tail = tail.expect("a transaction with an id owns a stream");
        let mut number = None;
        debug_assert!(kind.is_end(), "the record with which a transaction ends");
        debug_assert!(holds_no_latch(), "an end is called with no latch held");
        debug_assert!(
            tail.has_room_to_end(),
            "the end of a transaction cannot fail for want of room"
        );
        let written = match tail.used {
            true => self.write_end(trx, &mut tail, kind, &mut number).map(Some),
            false => Ok(None),
        };
        let prepared = trx.shared.prepared.load(Ordering::Relaxed);
        let can_be_undone = |e: &Error| !prepared && e.is_corrupt() && self.pool.check_alive().is_ok();
        let active = trx.active_mut();
        if (written.as_ref()).is_err_and(|e| kind == Kind::RolledBack || can_be_undone(e)) {
            active.stream = Some(tail);
            self.visibility.take_end_back(number);
            return written.map(|_| ());
        }
        let commits = kind == Kind::Committed;
        self.visibility.end(VisibleEnd {
            id,
            number,
            commit_lsn: (commits && !prepared).then_some(active.last_lsn),
            position: if commits { &active.position } else { &[] },
        });
        sync_point(SyncPoint::EndSeen);
        self.visibility.hide(id);
        self.counters.active_transactions.sub(1);
        match &written {
            Ok(end) => self.undo.end_owner(tail, *end),
            // The stream is not used again: what its page holds is not known.
            Err(_) => active.last_lsn = Lsn::MAX,
        }
        written.map(|_| ())
    }

    /// `drawn`: the commit number, once there is one.
    fn write_end(&self, trx: &mut Trx, tail: &mut StreamTail, kind: Kind, drawn: &mut Option<u64>) -> Result<End> {
        let id = trx.id();
        let active = trx.active_mut();
        let position: &[u8] = if kind == Kind::Committed { &active.position } else { &[] };
        assert!(position.len() <= POSITION_MAX, "a replication position is too long");
        self.pool.check_alive()?;
        let mut mtr = self.pool.begin();
        tail.latch_for_end(&mut mtr)?;
        let number = *drawn.insert(self.visibility.begin_end());
        debug_assert!(number > id, "one counter gives ids and commit numbers");
        let at = tail.append(&mut mtr, kind, id, active.undo_top, number, position)?;
        let lsn = mtr.commit();
        debug_assert!(
            lsn >= active.last_lsn,
            "an end comes after the changes of its transaction in the log"
        );
        active.last_lsn = lsn;
        sync_point(SyncPoint::EndLogged);
        self.pool.check_alive()?;
        Ok(End { at, number })
    }

    /// The last steps of every end. What the transaction was goes away as a whole.
    fn finish(&self, trx: &mut Trx) {
        debug_assert!(
            trx.phase() != Phase::Prepared,
            "a prepared transaction goes away with an end in the log, or a rollback that began there"
        );
        self.visibility.close_view(trx);
        self.locks.release_all(&trx.shared);
        debug_assert!(!trx.shared.holds_locks(), "all locks of a transaction go with it");
        trx.end();
    }
}
