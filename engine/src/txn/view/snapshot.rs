//! The visibility rule, alone and pure. `visibility.rs` makes views, `registry.rs` lists them.
//! Called by the table layer for each row version.
use crate::base::TrxId;
use crate::txn::durable_reads::NotDurable;

/// What a consistent read may see: everything committed when the view was made, and its own
/// changes.
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
    /// Some: not everything that the view sees is durable, and the view notes what it shows of
    /// that.
    pub(in crate::txn) not_durable: Option<NotDurable>,
}

impl ReadView {
    #[inline]
    pub fn sees(&self, trx: TrxId) -> bool {
        debug_assert!(self.low <= self.high, "what a view does not know is above what it sees");
        if trx == self.own {
            return true;
        }
        let sees = trx < self.low || (trx < self.high && self.active.binary_search(&trx).is_err());
        if let Some(not_durable) = self.not_durable.as_ref().filter(|_| sees) {
            not_durable.note(trx);
        }
        sees
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sees_what_was_committed_and_its_own() {
        let view = ReadView {
            own: 12,
            low: 10,
            high: 20,
            active: vec![10, 12, 15],
            commit_no: 20,
            ..ReadView::default()
        };
        let seen: Vec<TrxId> = (0..25).filter(|id| view.sees(*id)).collect();
        assert_eq!(seen, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 16, 17, 18, 19]);
    }

    #[test]
    fn an_id_given_after_the_view_is_its_own() {
        let mut view = ReadView {
            low: 10,
            high: 10,
            ..ReadView::default()
        };
        assert!(!view.sees(30));
        view.own = 30;
        assert!(view.sees(30));
        assert!(!view.sees(29));
    }
}
