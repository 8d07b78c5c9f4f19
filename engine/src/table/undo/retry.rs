//! Rollbacks that wait are tried again, by bounded pieces (I7). Called by the rollback worker, with
//! no latch held.
use crate::base::{Result, TrxId, UndoPtr};
use crate::table::undo::rollback::Rollback;

impl Rollback {
    /// One bounded piece of the rollbacks that wait. False: there is none, or the next one still
    /// cannot go on.
    pub fn retry_rollback(&self, records_max: usize) -> Result<bool> {
        let Some(mut trx) = self.waiting.take() else {
            return Ok(false);
        };
        let id = trx.id();
        let step = self.rollback_step(&mut trx, records_max);
        let step = step.and_then(|undone| {
            if undone {
                self.trx_sys.end_rollback(&mut trx).map(|()| true)
            } else {
                Ok(false)
            }
        });
        match step {
            Ok(true) => {
                debug_assert!(!trx.is_started(), "a rollback that is finished ends its transaction");
                self.waiting.done();
                self.log_rollback_finished(id);
                Ok(true)
            }
            Ok(false) => {
                self.waiting.first(trx);
                Ok(true)
            }
            Err(e) => {
                self.waiting.last(trx);
                match self.can_wait(&e) {
                    true => Ok(false),
                    false => Err(e),
                }
            }
        }
    }

    pub fn log_rollback_finished(&self, id: TrxId) {
        self.log.info(&format!("the rollback of transaction {id} is finished"));
    }

    /// Transactions whose rollback waits.
    pub fn rollbacks_waiting(&self) -> usize {
        self.waiting.len()
    }
    /// The waiting ones, and the one that is being tried again, each with the newest record that
    /// may not be undone yet.
    pub(crate) fn waiting_rollbacks(&self) -> Vec<(TrxId, UndoPtr)> {
        self.waiting.list()
    }
}
