//! First committer wins: what a snapshot lets a locking read or a change do.
//!
//! Takes no latch; opens and closes views. Called by row changes and by scans.
use crate::base::{Error, Result, TrxId};
use crate::table::catalog::layout::Layout;
use crate::txn::{Isolation, Trx, TrxSys};
use std::sync::Arc;

/// First committer wins. Under snapshot isolation a row may be neither locked nor changed if the
/// snapshot does not see its maker.
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

    /// For locking reads, and for inserts that change the row they meet. `check_conflict` judges by
    /// the makers of rows. A table or an index that is younger than the snapshot does not show
    /// them, so it is refused, as to a consistent read. `index`: 0 = clustered, i + 1 = secondary
    /// i.
    pub fn check_not_younger(&self, trx: &mut Trx, layout: &Layout, index: u32) -> Result<()> {
        let Some(view) = trx.view() else { return Ok(()) };
        if trx.isolation < Isolation::RepeatableRead || layout.is_seen_by(view, index) {
            return Ok(());
        }
        if !trx.view_is_fresh() {
            return Err(Error::TableChanged);
        }
        self.renew_fresh_view(trx);
        Ok(())
    }

    /// Opens the snapshot before a locking read looks. A row that the read finds is locked and
    /// stays as it was. A row that it does not find may appear: below SERIALIZABLE, gaps are not
    /// locked. With the snapshot, such a row is a conflict to the next locking read, and unseen by
    /// a consistent one.
    pub fn guard_by_snapshot(&self, trx: &mut Trx) {
        let wanted = trx.snapshot_by_locking && trx.isolation == Isolation::RepeatableRead && trx.view().is_none();
        if wanted && trx.snapshot_isolation {
            self.trx_sys.visibility.open_fresh_view(trx);
            debug_assert!(trx.view_is_fresh(), "nothing was read by a snapshot that is opened");
        }
    }

    /// True: the locking read that ended with `result` is run again, with a new snapshot. The
    /// snapshot that the read opened itself is older than the row that it waited for. Nothing was
    /// read by it yet, and a conflict would make the user repeat the same statement.
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

    /// Replaces a snapshot by which nothing was read.
    fn renew_fresh_view(&self, trx: &mut Trx) {
        debug_assert!(trx.view_is_fresh(), "a snapshot by which something was read stays");
        self.trx_sys.visibility.close_own_view(trx);
        self.trx_sys.visibility.open_fresh_view(trx);
        debug_assert!(
            trx.view_is_fresh(),
            "a conflict with the new snapshot is met by a new one again"
        );
    }
}
