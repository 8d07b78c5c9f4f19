//! Transactions of the simulated users, and what the twin learns of their ends.
use super::twin::{Change, RowChanges, State};
use super::world::{Step, World};
use crate::table::Savepoint;
use crate::txn::{Isolation, ThreadWaiter, Trx};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

/// A transaction under way.
pub struct Open {
    pub trx: Trx,
    /// What its view shows; None: READ COMMITTED.
    pub snapshot: Option<Rc<State>>,
    /// Its own changes.
    pub own: RowChanges,
    pub savepoints: Vec<(Savepoint, RowChanges)>,
    /// Tables that DDL must leave alone meanwhile (the server's metadata locks).
    pub tables: BTreeSet<String>,
}

impl World {
    pub fn begin(&mut self, slot: u64, snapshot: bool) {
        if self.trxs[slot as usize].is_some() {
            return;
        }
        let mut trx = self.engine().new_trx(Arc::new(ThreadWaiter::new()), slot);
        let isolation = match snapshot {
            true => Isolation::RepeatableRead,
            false => Isolation::ReadCommitted,
        };
        // No other thread runs, so waiting for a lock is over at once.
        self.engine().start(&mut trx, isolation, 0);
        if snapshot {
            self.store().trx_sys.visibility.open_view(&mut trx);
        }
        self.trxs[slot as usize] = Some(Open {
            trx,
            snapshot: snapshot.then(|| self.history.current().clone()),
            own: RowChanges::new(),
            savepoints: Vec::new(),
            tables: BTreeSet::new(),
        });
    }

    pub fn rollback_to(&mut self, slot: u64) -> Step {
        let store = self.store();
        let Some(open) = &mut self.trxs[slot as usize] else {
            return Ok(());
        };
        let Some((at, own)) = open.savepoints.pop() else {
            return Ok(());
        };
        open.own = own;
        let done = store.rollbacks().rollback_to(&mut open.trx, at);
        self.judge_end("rollback to a savepoint", done)
    }

    pub fn commit(&mut self, slot: u64, flush: u64) -> Step {
        let Some(mut open) = self.trxs[slot as usize].take() else {
            return Ok(());
        };
        let engine = self.engine().clone();
        engine.set("flush_log_at_trx_commit", flush).expect("a known setting");
        let done = engine.commit(&mut open.trx, true);
        if open.own.is_empty() {
            return self.judge_end("commit", done);
        }
        let change = Change::Rows(open.own);
        match done {
            Ok(()) => self.history.add(change, engine.lsn()),
            Err(_) => self.history.doubt(change),
        }
        if done.is_ok() && flush == 1 {
            self.history.all_durable();
        }
        self.judge_end("commit", done)
    }

    pub fn rollback(&mut self, slot: u64) -> Step {
        let Some(mut open) = self.trxs[slot as usize].take() else {
            return Ok(());
        };
        let done = self.engine().rollback(&mut open.trx);
        self.judge_end("rollback", done)
    }

    pub fn prepare(&mut self, slot: u64, flush: u64) -> Step {
        let Some(mut open) = self.trxs[slot as usize].take_if(|o| !o.own.is_empty()) else {
            return Ok(());
        };
        self.next_xid += 1;
        let xid = super::xid(self.next_xid);
        let engine = self.engine().clone();
        engine.set("flush_log_at_trx_commit", flush).expect("a known setting");
        let done = engine.prepare(&mut open.trx, &xid);
        if done.is_err() && !self.is_gone() {
            self.trxs[slot as usize] = Some(open);
            return self.judge_result("prepare", done);
        }
        let change = Change::Prepare(self.next_xid, open.own);
        match done {
            Ok(()) => self.history.add(change, engine.lsn()),
            Err(_) => self.history.doubt(change),
        }
        if done.is_ok() {
            engine.in_doubt.keep(xid, open.trx);
            if flush == 1 {
                self.history.all_durable();
            }
        }
        self.judge_end("prepare", done)
    }

    pub fn decide(&mut self, which: u64, commit: bool) -> Step {
        let prepared: Vec<u32> = self.history.current().prepared.keys().copied().collect();
        if prepared.is_empty() {
            return Ok(());
        }
        let number = prepared[which as usize % prepared.len()];
        let engine = self.engine().clone();
        engine.set("flush_log_at_trx_commit", 1).expect("a known setting");
        if number % 2 == 0 {
            return self.decide_by_own_connection(number, commit);
        }
        let done = engine.decide(&super::xid(number), commit);
        self.end_if_undo_waits(false);
        match done {
            Ok(()) => self.history.add(Change::Decide(number, commit), engine.lsn()),
            Err(_) if self.is_gone() => self.history.doubt(Change::Decide(number, commit)),
            Err(_) => {}
        }
        if done.is_ok() {
            self.history.all_durable();
        }
        self.judge_result("decide", done)
    }
    /// The connection that prepared it decides; or any, as if it had.
    fn decide_by_own_connection(&mut self, number: u32, commit: bool) -> Step {
        let engine = self.engine().clone();
        let mut trx = match engine.in_doubt.take(&super::xid(number)) {
            Ok(trx) => trx,
            Err(e) => return self.judge("decide", &e),
        };
        let done = match commit {
            true => engine.commit(&mut trx, true),
            false => engine.rollback(&mut trx),
        };
        let change = Change::Decide(number, commit);
        match done {
            Ok(()) => self.history.add(change, engine.lsn()),
            Err(_) => self.history.doubt(change),
        }
        if done.is_ok() {
            self.history.all_durable();
        }
        self.judge_end("decide", done)
    }
}
