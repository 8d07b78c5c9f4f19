//! Transactions that have written and that nobody attends to: prepared ones, whose decision may come after their connection has
//! gone or after a restart, and losers found at open, until the background has rolled them back.
//!
//! Users keep a definition from changing under a transaction by locks of their own (the server's metadata locks), and these go
//! away with the connection. So whoever changes a table's definition asks here first: an index built from rows of an undecided
//! transaction would keep them after its rollback, and a table that is replaced by a copy would lose them at its commit.
use super::Engine;
use crate::base::{Error, FileId, Result, TrxId, UndoPtr};
use crate::table::undo_format::Record;
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
    /// The transaction was prepared and may outlive its connection. Before the connection can go.
    pub fn may_outlive_connection(&self, trx: &Trx) {
        let mut prepared = self.undecided.prepared.lock();
        prepared.retain(|(id, _)| self.store().trx_sys.is_active(*id));
        if trx.id() != 0 {
            prepared.push((trx.id(), trx.undo_top));
        }
    }

    /// Whether an undecided transaction has changed the table's rows; with `losers`, whether any loser may have. A table that does not
    /// exist has no rows.
    pub fn has_undecided_rows(&self, table: &str, losers: bool) -> Result<bool> {
        let trx_sys = &self.store().trx_sys;
        if losers && self.undecided.losers.iter().any(|id| trx_sys.is_active(*id)) {
            return Ok(true);
        }
        let id = match self.store().table_named(table) {
            Ok(table) if table.layout().temporary => return Ok(false),
            Ok(table) => table.layout().id,
            Err(Error::NoSuchTable(_)) => return Ok(false),
            Err(e) => return Err(e),
        };
        let mut prepared = self.undecided.prepared.lock();
        prepared.retain(|(id, _)| trx_sys.is_active(*id));
        let looked_at = prepared.clone();
        drop(prepared);
        for (trx, top) in looked_at {
            if self.has_changed(trx, top, id)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Walks the undo records of a prepared transaction. If it is decided meanwhile, they may be purged: then it has not.
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
