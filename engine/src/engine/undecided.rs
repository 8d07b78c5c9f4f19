//! Transactions that have written and that nobody attends to: prepared ones, whose decision may come after their connection has
//! gone or after a restart; losers found at open, until the background has rolled them back; those whose rollback waits (`table/undo/mod.rs`).
//!
//! Users keep a definition from changing under a transaction by locks of their own (the server's metadata locks), and these go
//! away with the statement or the connection. So whoever changes a table's definition asks here first: an index built from rows of an undecided
//! transaction would keep them after its rollback, and a table that is replaced by a copy would lose them at its commit.
//!
//! Of a loser nobody knows what it has left to undo while the background is at it: then no index is built. One whose rollback waits may wait for
//! days: its undo records tell its tables, and only these get no index. They may be dropped and replaced: it will not commit, and that may
//! be what it waits for.
use super::Engine;
use crate::base::{Error, FileId, Result, TrxId, UndoPtr};
use crate::table::row::undo_record::Record;
use crate::txn::{RecoveredTrx, Trx};
use parking_lot::Mutex;

#[derive(Default)]
pub(super) struct Undecided {
    /// With the newest undo record each; those that have ended since are dropped at the next look.
    prepared: Mutex<Vec<(TrxId, UndoPtr)>>,
    losers: Vec<TrxId>,
}

impl Undecided {
    pub fn found_at_open(prepared: Vec<(TrxId, UndoPtr)>, losers: &[RecoveredTrx]) -> Undecided {
        Undecided {
            prepared: Mutex::new(prepared),
            losers: losers.iter().map(|loser| loser.id).collect(),
        }
    }
}

impl Engine {
    /// The transaction was prepared and may outlive its connection. Before the connection can go. It reads nothing any more: its view, which
    /// would hold purge back until the decision, is closed.
    pub fn may_outlive_connection(&self, trx: &mut Trx) {
        self.store().trx_sys.close_view(trx);
        let mut prepared = self.undecided.prepared.lock();
        prepared.retain(|(id, _)| self.store().trx_sys.is_active(*id));
        if trx.id() != 0 {
            prepared.push((trx.id(), trx.undo_top));
        }
    }

    /// An undecided transaction that has changed the table's rows; with `losers`, also one that may have and is being rolled back, or whose
    /// rollback waits. A table that does not exist has no rows.
    pub fn undecided_about(&self, table: &str, losers: bool) -> Result<Option<TrxId>> {
        let trx_sys = &self.store().trx_sys;
        // First: who is set aside behind this look still counts as what he was.
        let aside = self.store().rollbacks().waiting_rollbacks();
        let is_unknown = |id: TrxId| trx_sys.is_active(id) && aside.iter().all(|(known, _)| *known != id);
        if let Some(loser) = self.undecided.losers.iter().find(|id| losers && is_unknown(**id)) {
            return Ok(Some(*loser));
        }
        let id = match self.store().tables().table_named(table) {
            Ok(table) if table.layout().temporary => return Ok(None),
            Ok(table) => table.layout().id,
            Err(Error::NoSuchTable(_)) => return Ok(None),
            Err(e) => return Err(e),
        };
        let mut prepared = self.undecided.prepared.lock();
        prepared.retain(|(id, _)| trx_sys.is_active(*id));
        let looked_at = prepared.clone();
        drop(prepared);
        for (trx, top) in looked_at {
            if is_unknown(trx) && self.has_changed(trx, top, id)? {
                return Ok(Some(trx));
            }
        }
        for (trx, top) in aside.iter().filter(|_| losers) {
            match self.has_changed(*trx, *top, id) {
                Ok(false) => {}
                // What is in its way may be its undo.
                Err(e) if !e.is_corrupt() => return Err(e),
                Ok(true) | Err(_) => return Ok(Some(*trx)),
            }
        }
        Ok(None)
    }

    /// Walks the undo records of a transaction that nobody attends to. If it ends meanwhile, they may be purged: then it has not.
    fn has_changed(&self, trx: TrxId, top: UndoPtr, table: FileId) -> Result<bool> {
        let trx_sys = &self.store().trx_sys;
        let mut at = top;
        while !at.is_none() {
            let step = trx_sys
                .read_undo(at)
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
