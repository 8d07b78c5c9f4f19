//! First committer wins: what a snapshot lets a locking read or a change do.
//!
//! Takes no latch; opens and closes views. Called by row changes and by scans.
use crate::base::{Error, Result, TrxId};
use crate::table::catalog::layout::Layout;
use crate::txn::{Isolation, Trx, TrxSys};
use std::sync::Arc;

/// First committer wins: under snapshot isolation a row made by a transaction that the snapshot does not see may be neither
/// locked nor changed.
pub(in crate::table) fn check_conflict(trx: &Trx, maker: TrxId) -> Result<()> {
    if trx.isolation < Isolation::RepeatableRead || maker == trx.id() {
        return Ok(());
    }
    match trx.view() {
        Some(view) if !view.sees(maker) && trx.snapshot_isolation => Err(Error::Conflict),
        _ => Ok(()),
    }
}

/// The snapshots of locking reads and of changes.
#[derive(Clone)]
pub(in crate::table) struct Snapshots {
    trx_sys: Arc<TrxSys>,
}

impl Snapshots {
    pub fn new(trx_sys: Arc<TrxSys>) -> Snapshots {
        Snapshots { trx_sys }
    }

    /// For locking reads, and inserts that change the row they meet: `check_conflict` goes by the rows' makers, which a table or an index that
    /// is younger than the snapshot does not tell. So it is refused, as to a consistent read (index: 0 = clustered, i + 1 = secondary i).
    pub fn check_not_younger(&self, trx: &mut Trx, layout: &Layout, index: u32) -> Result<()> {
        let Some(view) = trx.view() else { return Ok(()) };
        if trx.isolation < Isolation::RepeatableRead || layout.is_seen_by(view, index) {
            return Ok(());
        }
        if !trx.snapshot_isolation {
            return Ok(());
        }
        if !trx.view_is_fresh() {
            return Err(Error::TableChanged);
        }
        self.renew_fresh_view(trx);
        Ok(())
    }

    /// What a locking read found stays as it was, for it is locked; what it did not find may appear, for below SERIALIZABLE nothing
    /// locks the gaps. So the snapshot is taken before such a read looks: what appears later is a conflict to the next locking read,
    /// and unseen by a consistent one.
    pub fn guard_by_snapshot(&self, trx: &mut Trx) {
        let wanted = trx.snapshot_by_locking && trx.isolation == Isolation::RepeatableRead && trx.view().is_none();
        if wanted && trx.snapshot_isolation {
            self.trx_sys.visibility.open_fresh_view(trx);
        }
    }

    /// What a locking read should do that ended so: true = once more, with a new snapshot. The one it took itself is older than
    /// the row that it waited for, and nobody has seen anything by it: a conflict would send the user back to where he is.
    pub fn conflicts_with_fresh_snapshot<T>(&self, trx: &mut Trx, result: &Result<T>) -> bool {
        if result.is_ok() {
            trx.keep_view();
        }
        if !trx.view_is_fresh() || !matches!(result, Err(Error::Conflict)) {
            return false;
        }
        self.renew_fresh_view(trx);
        true
    }

    /// Nobody has seen anything by it.
    fn renew_fresh_view(&self, trx: &mut Trx) {
        self.trx_sys.visibility.close_own_view(trx);
        self.trx_sys.visibility.open_fresh_view(trx);
    }
}
