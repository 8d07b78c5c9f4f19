//! The ends of prepared transactions that their own connections do not end: found at open, or left by connections that have gone.
use super::Engine;
use crate::base::{Error, Result};
use crate::txn::{Trx, Xid};
use parking_lot::MutexGuard;
use std::time::Duration;

/// Nobody is woken when the transaction ends in another way.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How often: for a minute. A verdict waits for the connection that prepared the transaction to let go of it: the server offers the
/// transaction to others before that connection has freed what it has, its variables, temporary tables and cached routines.
const LOOKS_MAX: usize = 1200;

impl Engine {
    /// Names of the prepared transactions that were found at open, or left by their connections, and are not decided yet.
    pub fn recovered_prepared(&self) -> Vec<Xid> {
        let mut xids: Vec<Xid> = self.prepared.lock().iter().filter_map(|r| r.xid.clone()).collect();
        xids.extend(self.parked.lock().iter().map(|(xid, _)| xid.clone()));
        xids
    }
    /// Keeps a prepared transaction whose connection ends, until [`Engine::decide`]; not its view, which would hold purge back.
    pub fn park(&self, xid: Xid, mut trx: Trx) {
        self.store.trx_sys.close_view(&mut trx);
        self.parked.lock().push((xid, trx));
        self.parks.notify_all();
    }

    /// Commits or rolls back a prepared transaction found at open or parked; one whose connection is just going is waited for.
    /// `NotFound` if unknown.
    pub fn decide(&self, xid: &Xid, commit: bool) -> Result<()> {
        // An engine that has stopped keeps all that is undecided for the next start; what a failed verdict took is unknown here.
        self.store.pool.check_alive()?;
        let mut trx = self.take_prepared(xid)?;
        if commit {
            return self.commit(&mut trx, true);
        }
        if let Err(e) = self.store.rollback(&mut trx) {
            if trx.is_prepared() {
                // It has not begun (the disk is full): the verdict can be given again.
                self.park(xid.clone(), trx);
            }
            return Err(e);
        }
        self.flush_log()
    }

    pub(super) fn take_prepared(&self, xid: &Xid) -> Result<Trx> {
        if let Some(trx) = self.take_parked(self.parked.lock(), xid)? {
            return Ok(trx);
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

    /// None if no connection has it, nor had it.
    fn take_parked(&self, mut parked: MutexGuard<'_, Vec<(Xid, Trx)>>, xid: &Xid) -> Result<Option<Trx>> {
        let mut looks = 0;
        while looks < LOOKS_MAX {
            if let Some(at) = parked.iter().position(|(x, _)| x == xid) {
                return Ok(Some(parked.swap_remove(at).1));
            }
            if !self.is_attended(xid) {
                return Ok(None);
            }
            looks += usize::from(self.parks.wait_for(&mut parked, LOOK_AGAIN).timed_out());
        }
        Err(Error::LockWaitTimeout)
    }
}
