//! Transactions in doubt: they have written, have not ended, and no connection executes them.
//!
//! - Prepared ones, whose decision may come after their connection has ended, or after a restart.
//!   They were found at open, or prepared by a connection that may end. The server may let another
//!   connection decide before it reports that the first connection has ended, or without a report.
//! - Prepared ones whose decision was begun and could not be made durable. The engine has stopped;
//!   the next start finds them prepared or ended.
//! - Losers found at open, until the background thread has rolled them back; and transactions whose
//!   rollback waits (`table/undo/waiting.rs`).
//!
//! The server's metadata locks keep a definition from changing under a transaction. These locks end
//! with the statement or the connection, so DDL asks here first ([`InDoubt::find_writer`]). An
//! index built from rows of a transaction in doubt would keep the rows after its rollback. A table
//! that is replaced by a copy would lose the rows at its commit.
//!
//! While a background thread rolls losers back, it is unknown which tables they still have to undo.
//! Until then no index is built. A transaction whose rollback waits may wait for days. Its undo
//! records name its tables, and only these get no index. They may be dropped and replaced: the
//! transaction will not commit, and its rollback may wait for the drop.
//!
//! One mutex around all lists, taken with no latch held; an end marker may be written under it.
//! Called by: `transactions.rs`, `ffi`.
use crate::base::sync::{Rank, RankedMutex};
use crate::base::{Error, FileId, Result, TrxId, UndoPtr};
use crate::table::row::undo_record::Record;
use crate::table::Store;
use crate::txn::{RecoveredTrx, Trx, Xid};
use std::sync::Arc;

#[derive(Default)]
struct Lists {
    /// Prepared, found at open and not decided yet.
    found: Vec<RecoveredTrx>,
    /// Prepared by connections that may go away before the decision.
    kept: Vec<(Xid, Trx)>,
    /// Prepared; the decision was begun and could not be made durable.
    cut_short: Vec<Xid>,
    /// Ids of prepared transactions that have written, with the newest undo record each. Those that
    /// have ended since are dropped at the next look.
    writers: Vec<(TrxId, UndoPtr)>,
    /// Losers found at open, until the background takes them.
    losers: Vec<RecoveredTrx>,
}

pub struct InDoubt {
    store: Arc<Store>,
    lists: RankedMutex<Lists>,
    /// Every loser found at open.
    losers: Vec<TrxId>,
}

impl InDoubt {
    pub(super) fn found_at_open(store: &Arc<Store>, recovered: Vec<RecoveredTrx>) -> InDoubt {
        debug_assert!(
            recovered.iter().all(|r| store.trx_sys.is_active(r.id)),
            "a transaction that was found at open is active until it is decided or undone"
        );
        let (found, losers): (Vec<RecoveredTrx>, Vec<RecoveredTrx>) =
            recovered.into_iter().partition(|r| r.xid.is_some());
        let writers = found.iter().map(|r| (r.id, store.trx_sys.undo_top_found(r)));
        InDoubt {
            store: store.clone(),
            losers: losers.iter().map(|loser| loser.id).collect(),
            lists: RankedMutex::new(
                Rank::InDoubt,
                Lists {
                    writers: writers.collect(),
                    found,
                    losers,
                    ..Lists::default()
                },
            ),
        }
    }

    /// The losers found at open: the caller rolls them back.
    pub(super) fn take_losers(&self) -> Vec<RecoveredTrx> {
        let losers = std::mem::take(&mut self.lists.lock().losers);
        debug_assert!(
            losers
                .iter()
                .all(|loser| loser.xid.is_none() && self.losers.contains(&loser.id)),
            "a transaction in doubt is not rolled back unasked"
        );
        losers
    }

    // ---- prepared ----

    /// Names of the prepared transactions that were found at open, or left by their connections,
    /// and are not decided yet.
    pub fn prepared(&self) -> Vec<Xid> {
        let lists = self.lists.lock();
        let found = lists.found.iter().filter_map(|r| r.xid.clone());
        found.chain(lists.kept.iter().map(|(xid, _)| xid.clone())).collect()
    }

    /// The transaction was prepared and may outlive its connection. Called before the connection
    /// can end. The transaction reads nothing any more: its view, which would hold purge back until
    /// the decision, is closed.
    pub fn may_outlive_connection(&self, trx: &mut Trx) {
        self.store.trx_sys.visibility.close_view(trx);
        debug_assert!(
            trx.is_prepared() || trx.undo_top().is_none(),
            "what outlives its connection is prepared"
        );
        debug_assert!(
            trx.view().is_none(),
            "an open view would hold purge back until the decision"
        );
        let mut lists = self.lists.lock();
        lists.writers.retain(|(id, _)| self.store.trx_sys.is_active(*id));
        if trx.id() != 0 {
            lists.writers.push((trx.id(), trx.undo_top()));
        }
    }

    /// Keeps a prepared transaction until `Engine::decide` or [`InDoubt::take`]. Its view is
    /// closed, because it would hold purge back. Its connection may still exist:
    /// [`TrxShared::detach`](crate::txn::TrxShared::detach) is called when it ends.
    pub fn keep(&self, xid: Xid, mut trx: Trx) {
        self.store.trx_sys.visibility.close_view(&mut trx);
        debug_assert!(
            trx.view().is_none(),
            "an open view would hold purge back until the decision"
        );
        debug_assert!(
            trx.is_prepared(),
            "only a prepared transaction is kept for its decision"
        );
        trx.name(&xid);
        let mut lists = self.lists.lock();
        debug_assert!(
            lists.kept.iter().all(|(kept, _)| *kept != xid),
            "one transaction of a name"
        );
        debug_assert!(
            lists.found.iter().all(|found| found.xid.as_ref() != Some(&xid)),
            "one transaction of a name"
        );
        lists.kept.push((xid, trx));
    }

    /// The commit is in the log, in the order that the caller keeps; [`InDoubt::take`] and a commit
    /// end the transaction.
    pub fn commit_ordered(&self, xid: &Xid) {
        let mut lists = self.lists.lock();
        if let Some((_, trx)) = lists.kept.iter_mut().find(|(x, _)| x == xid) {
            debug_assert!(
                trx.is_started() && trx.view().is_none(),
                "a kept transaction waits for its decision"
            );
            self.store.trx_sys.commit_ordered(trx);
        }
    }

    /// Gives a prepared transaction to the caller, which ends it. `NotFound` if unknown.
    pub fn take(&self, xid: &Xid) -> Result<Trx> {
        let found = {
            let mut lists = self.lists.lock();
            if let Some(at) = lists.kept.iter().position(|(x, _)| x == xid) {
                return Ok(lists.kept.swap_remove(at).1);
            }
            if lists.cut_short.contains(xid) {
                self.store.pool.check_alive()?;
            }
            let at = lists.found.iter().position(|r| r.xid.as_ref() == Some(xid));
            lists.found.swap_remove(at.ok_or(Error::NotFound)?)
        };
        let adopted = self.store.trx_sys.adopt(&found);
        debug_assert!(
            adopted.as_ref().map_or(true, Trx::is_prepared),
            "what has a name is prepared"
        );
        adopted.inspect_err(|_| self.lists.lock().found.push(found))
    }

    /// A decision was begun, and the engine stopped before it was durable.
    pub(super) fn note_cut_short(&self, xid: &Xid) {
        debug_assert!(
            self.store.pool.check_alive().is_err(),
            "only a stop of the engine cuts a decision short"
        );
        self.lists.lock().cut_short.push(xid.clone());
    }

    // ---- for DDL ----

    /// A prepared transaction that has changed the table's rows. With `losers`, also one that may
    /// have changed them and is being rolled back, or whose rollback waits. A table that does not
    /// exist has no rows.
    pub fn find_writer(&self, table: &str, losers: bool) -> Result<Option<TrxId>> {
        let trx_sys = &self.store.trx_sys;
        // First: a transaction whose rollback begins to wait after this check counts as prepared.
        let waiting = self.store.rollbacks().waiting_rollbacks();
        let is_unknown = |id: TrxId| trx_sys.is_active(id) && waiting.iter().all(|(known, _)| *known != id);
        if let Some(loser) = self.losers.iter().find(|id| losers && is_unknown(**id)) {
            return Ok(Some(*loser));
        }
        let id = match self.store.tables().table_named(table) {
            Ok(table) if table.layout().temporary => return Ok(None),
            Ok(table) => table.layout().id,
            Err(Error::NoSuchTable(_)) => return Ok(None),
            Err(e) => return Err(e),
        };
        let writers = {
            let mut lists = self.lists.lock();
            lists.writers.retain(|(id, _)| trx_sys.is_active(*id));
            lists.writers.clone()
        };
        for (trx, top) in writers {
            if is_unknown(trx) && self.has_changed(trx, top, id)? {
                return Ok(Some(trx));
            }
        }
        for (trx, top) in waiting.iter().filter(|_| losers) {
            match self.has_changed(*trx, *top, id) {
                Ok(false) => {}
                // The record that cannot be read may be the transaction's own undo.
                Err(e) if !e.is_corrupt() => return Err(e),
                Ok(true) | Err(_) => return Ok(Some(*trx)),
            }
        }
        Ok(None)
    }

    /// Walks the undo records of a transaction. If the transaction ends meanwhile, the records may
    /// be purged: then the answer is no.
    fn has_changed(&self, trx: TrxId, top: UndoPtr, table: FileId) -> Result<bool> {
        let trx_sys = &self.store.trx_sys;
        let mut at = top;
        while !at.is_none() {
            let step = trx_sys
                .undo
                .read(at)
                .and_then(|undo| Ok((Record::decode(&undo.payload)?.table, undo.prev)));
            match step {
                Ok((changed, _)) if changed == table => return Ok(true),
                Ok((_, prev)) => at = prev,
                Err(_) if !trx_sys.is_active(trx) => return Ok(false),
                Err(e) => return Err(e),
            }
        }
        Ok(false)
    }
}
