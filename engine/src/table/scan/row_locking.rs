//! [`LockingReader`]: locks a row and hands out its newest version; and what is done if the lock is
//! held by others.
//!
//! No latch is held while a lock is waited for (I5). Called by `locking` and `relocated`.
use crate::base::{sync_point, Error, Result, SyncPoint};
use crate::index::{RowHeader, ROW_OVERFLOW};
use crate::table::catalog::layout::Layout;
use crate::table::row::row_lock::Locked;
use crate::table::row::snapshot::check_conflict;
use crate::table::row::version::{split, KeyWatch};
use crate::table::scan::following::Following;
use crate::table::scan::lock_choice::OnLocked;
use crate::table::scan::row_scan::RowScan;
use crate::table::scan::version_cache::Answer;
use crate::txn::{Granted, LockMode, LockPolicy, Trx};
use std::cell::Cell;

/// What came of one entry.
pub(in crate::table) enum Outcome {
    HandedOut,
    Skipped,
}

/// Reads with locks.
pub(in crate::table) struct LockingReader<'s> {
    pub scan: &'s mut RowScan,
    /// Of a scan that misses no row that moves.
    pub following: &'s mut Option<Box<Following>>,
    pub layout: &'s Layout,
}

impl LockingReader<'_> {
    fn mode(&self) -> LockMode {
        self.scan.lock.mode.expect("a locking read")
    }

    fn effective_policy(&self) -> LockPolicy {
        if self.scan.semi_consistent && self.scan.lock.on_locked == OnLocked::Wait {
            LockPolicy::NoWait
        } else {
            self.scan.lock.policy()
        }
    }

    /// Takes the lock on a row that no transaction is changing. None: another transaction holds it,
    /// and the policy is not to wait.
    pub fn try_lock(&mut self, trx: &mut Trx, pk: &[u8]) -> Result<Option<Granted>> {
        let policy = self.effective_policy();
        let locks = &self.scan.reader.locks;
        match locks.lock_name_of(trx, self.layout, pk, self.mode(), policy) {
            Ok(granted) => Ok(Some(granted)),
            Err(Error::Locked) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Locks the row and copies its newest version into `version`. None: another transaction holds
    /// the lock, and the policy is not to wait.
    pub fn lock_newest(&mut self, trx: &mut Trx, pk: &[u8]) -> Result<Option<Locked>> {
        debug_assert!(
            self.scan.view.is_none(),
            "a locking read takes the newest version, not a view's"
        );
        let (mode, policy) = (self.mode(), self.effective_policy());
        let (locks, version) = (&self.scan.reader.locks, &mut self.scan.version);
        let mut copy = |value: &[u8]| {
            version.clear();
            version.extend_from_slice(value);
        };
        match locks.lock_row(trx, self.layout, pk, mode, policy, &mut copy) {
            Ok(locked) => Ok(Some(locked)),
            Err(Error::Locked) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Another transaction holds the row, and we are not to wait.
    pub fn row_is_locked(&mut self, trx: &mut Trx, pk: &[u8]) -> Result<Outcome> {
        match self.scan.lock.on_locked {
            OnLocked::Skip => Ok(Outcome::Skipped),
            OnLocked::Refuse => Err(Error::Locked),
            OnLocked::Wait => self.show_committed(trx, pk),
        }
    }

    /// Semi-consistent read: hands out the last committed version, without a lock. If the row
    /// matches, the caller reads it again by its key, with the lock.
    fn show_committed(&mut self, trx: &mut Trx, pk: &[u8]) -> Result<Outcome> {
        debug_assert!(
            self.scan.semi_consistent,
            "only a semi-consistent read shows a row that others have locked"
        );
        if !self.scan.copy_newest(self.layout, pk)? {
            return Ok(Outcome::Skipped);
        }
        let newest = RowHeader::read(&self.scan.version);
        let is_whole = newest.flags & ROW_OVERFLOW == 0;
        let has_ended = is_whole && !self.scan.reader.locks.made_by_other_active(trx, &newest);
        if has_ended && !self.scan.newest_differs(self.layout, pk, &newest)? {
            return self.show_version(trx, pk, !newest.marked());
        }
        // Purge may take the undo records and the overflow pages of older versions, unless a view
        // is open.
        let for_this = trx.view().is_none();
        if for_this {
            self.scan.reader.trx_sys.visibility.open_view(trx);
        }
        let done = self.show_committed_in_view(trx, pk);
        if for_this {
            self.scan.reader.trx_sys.visibility.close_own_view(trx);
        }
        debug_assert_eq!(
            trx.view().is_none(),
            for_this,
            "a view that was opened for one row ends with it, and no other"
        );
        done
    }

    fn show_committed_in_view(&mut self, trx: &mut Trx, pk: &[u8]) -> Result<Outcome> {
        debug_assert!(
            trx.view().is_some(),
            "I9: an open view keeps the undo of older versions"
        );
        let shown = loop {
            if !self.scan.copy_newest(self.layout, pk)? {
                return Ok(Outcome::Skipped);
            }
            sync_point(SyncPoint::VersionCopied);
            let newest = RowHeader::read(&self.scan.version);
            let shown = self.rewind_to_committed(trx, pk)?;
            // Its maker may have rolled back since the version was copied: then the version is
            // gone.
            let is_newest = RowHeader::read(&self.scan.version) == newest;
            if !is_newest || newest.trx == trx.id() || !self.scan.newest_differs(self.layout, pk, &newest)? {
                break shown;
            }
        };
        sync_point(SyncPoint::CommittedVersionFound);
        self.show_version(trx, pk, shown)
    }

    fn show_version(&mut self, trx: &mut Trx, pk: &[u8], is_there: bool) -> Result<Outcome> {
        self.scan
            .reader
            .trx_sys
            .visibility
            .note_newest(trx, RowHeader::read(&self.scan.version).trx);
        if !is_there {
            return Ok(Outcome::Skipped);
        }
        debug_assert!(
            self.scan.taken.is_none(),
            "no lock is noted for a row that is shown without one"
        );
        self.scan.was_semi_consistent = true;
        self.scan.hand_out_version(self.layout, pk)?;
        Ok(Outcome::HandedOut)
    }

    fn rewind_to_committed(&mut self, trx: &Trx, pk: &[u8]) -> Result<bool> {
        let reader = self.scan.reader.clone();
        // A transaction that is about to end is still active, but seen by views already. Such views
        // do not keep its records from purge.
        let seen = |id| trx.view().is_some_and(|view| view.sees(id));
        // A transaction that was active when its newest version was read has committed none of its
        // older ones, though it may have ended since.
        let is_open = Cell::new(None);
        let has_ended = |header: &RowHeader| {
            if is_open.get() == Some(header.trx) {
                return false;
            }
            let has_ended = seen(header.trx) || !reader.locks.made_by_other_active(trx, header);
            if !has_ended {
                is_open.set(Some(header.trx));
            }
            has_ended
        };
        self.scan.rewind_until(self.layout, pk, &has_ended, None)
    }

    /// A row that is gone: a conflict under snapshot isolation if the view still sees it.
    pub fn check_gone(&mut self, trx: &Trx, pk: &[u8], header: Option<RowHeader>) -> Result<()> {
        let Some(header) = header else { return Ok(()) };
        if check_conflict(trx, header.trx).is_ok() {
            return Ok(());
        }
        if self.view_sees_row(trx, pk)? {
            return Err(Error::Conflict);
        }
        Ok(())
    }

    /// A secondary entry marked by `stamp`, which has ended: a conflict if the view does not see
    /// that, and sees the row.
    pub fn check_moved(&mut self, trx: &Trx, pk: &[u8], stamp: u64) -> Result<()> {
        if check_conflict(trx, stamp).is_ok() {
            return Ok(());
        }
        if !self.scan.copy_newest(self.layout, pk)? {
            return Ok(());
        }
        let (header, _) = split(&self.scan.version);
        // Rolled back: the row is as the view knows it.
        if check_conflict(trx, header.trx).is_ok() {
            return Ok(());
        }
        self.check_gone(trx, pk, Some(header))
    }

    fn view_sees_row(&mut self, trx: &Trx, pk: &[u8]) -> Result<bool> {
        let Some(view) = trx.view().cloned() else {
            return Ok(false);
        };
        if !self.scan.copy_newest(self.layout, pk)? {
            return Ok(false);
        }
        let newest = RowHeader::read(&self.scan.version);
        if let Some(Answer::Sees(sees)) = self.scan.cache.get(&view, self.scan.index, pk, &newest) {
            return Ok(*sees);
        }
        let mut watch = KeyWatch::new(self.layout.clustered.id);
        let sees = self
            .scan
            .rewind_until(self.layout, pk, &|header| view.sees(header.trx), Some(&mut watch))?;
        self.scan
            .cache
            .put((&view, self.scan.index), (pk, newest), watch.steps, || {
                Answer::Sees(sees)
            });
        Ok(sees)
    }

    pub fn locks_gaps(&self, trx: &Trx) -> bool {
        self.scan.lock.gaps || trx.locks_gaps()
    }
}
