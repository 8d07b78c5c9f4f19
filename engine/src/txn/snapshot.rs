//! The visibility rule, alone and pure.
use crate::base::TrxId;

/// What a consistent read may see: everything committed when it was made, and its own changes.
#[derive(Clone, Debug, Default)]
pub struct ReadView {
    /// Own transaction id (0 = none yet; set when one is assigned).
    pub own: TrxId,
    /// Below: committed before the view was made.
    pub low: TrxId,
    /// At or above: began after.
    pub high: TrxId,
    /// Active at the time, sorted, all in [low, high).
    pub active: Vec<TrxId>,
    /// Commit number at creation: transactions with a commit number below it are visible.
    pub commit_no: u64,
}

impl ReadView {
    pub fn sees(&self, trx: TrxId) -> bool {
        if trx < self.low || trx == self.own {
            return true;
        }
        trx < self.high && self.active.binary_search(&trx).is_err()
    }
}
