//! The ends of prepared transactions that anybody may decide: found at open, or prepared by a connection that may go before. These are not
//! the connection's any more: the server offers them to others before it tells that the connection goes, or without telling it at all.
use super::Engine;
use crate::base::{Error, Result};
use crate::txn::{Trx, Xid};

impl Engine {
    /// Names of the prepared transactions that were found at open, or left by their connections, and are not decided yet.
    pub fn recovered_prepared(&self) -> Vec<Xid> {
        let mut xids: Vec<Xid> = self.prepared.lock().iter().filter_map(|r| r.xid.clone()).collect();
        xids.extend(self.parked.lock().iter().map(|(xid, _)| xid.clone()));
        xids
    }
    /// Keeps a prepared transaction until [`Engine::decide`] or [`Engine::take_prepared`]; not its view, which would hold purge back. Its
    /// connection may be there still: [`TrxShared::detach`](crate::txn::TrxShared::detach) says when it is not.
    pub fn park(&self, xid: Xid, mut trx: Trx) {
        self.store.trx_sys.close_view(&mut trx);
        trx.name(&xid);
        self.parked.lock().push((xid, trx));
    }

    /// Its commit is in the log, in the order that the caller keeps; [`Engine::take_prepared`] and a commit end it.
    pub fn commit_parked_ordered(&self, xid: &Xid) {
        let mut parked = self.parked.lock();
        if let Some((_, trx)) = parked.iter_mut().find(|(x, _)| x == xid) {
            self.store.trx_sys.commit_ordered(trx);
        }
    }

    /// Commits or rolls back a prepared transaction found at open or parked. `NotFound` if unknown.
    pub fn decide(&self, xid: &Xid, commit: bool) -> Result<()> {
        let mut trx = self.take_prepared(xid)?;
        let ended = match commit {
            true => self.commit(&mut trx, true),
            false => self.roll_back_parked(xid, trx),
        };
        if ended.is_err() && self.store.pool.check_alive().is_err() {
            self.cut_short.lock().push(xid.clone());
        }
        ended
    }
    fn roll_back_parked(&self, xid: &Xid, mut trx: Trx) -> Result<()> {
        if let Err(e) = self.store.rollbacks().rollback(&mut trx) {
            if trx.is_prepared() {
                // It has not begun (the disk is full): the verdict can be given again.
                self.park(xid.clone(), trx);
            }
            return Err(e);
        }
        self.flush_log()
    }

    /// Gives it to the caller, who ends it. `NotFound` if unknown.
    pub fn take_prepared(&self, xid: &Xid) -> Result<Trx> {
        {
            let mut parked = self.parked.lock();
            if let Some(at) = parked.iter().position(|(x, _)| x == xid) {
                return Ok(parked.swap_remove(at).1);
            }
        }
        if self.cut_short.lock().contains(xid) {
            self.store.pool.check_alive()?;
        }
        let found = {
            let mut prepared = self.prepared.lock();
            let at = prepared.iter().position(|r| r.xid.as_ref() == Some(xid));
            prepared.swap_remove(at.ok_or(Error::NotFound)?)
        };
        self.store
            .trx_sys
            .adopt(&found)
            .inspect_err(|_| self.prepared.lock().push(found))
    }
}
