//! Rows whose key another transaction changes while a locking scan of a secondary index is under
//! way. The scan may have passed the new key by the time that it comes to the old entry, which is
//! marked. In a transaction that is a conflict (`check_moved`). UPDATE and DELETE with autocommit
//! lock the row and return it at once, by its newest version, as if found at its new key. (Where
//! the order of the rows may matter, the statement locks the gaps that it passes, and no key can
//! change to one there: `LockChoice::gaps`.)
//!
//! The statement's view keeps such entries from purge, and separates those that were marked after
//! it from older ones. It raises no conflicts.
//!
//! The scan returns a row at its old, marked entry if both are true:
//!
//! - The row's newest key is in the part that was scanned, or equals this entry's key again.
//! - The transaction did not hold the lock that the scan asks for, or a stronger one. A row that
//!   the scan has returned stays locked, so its key cannot change any more. (So a join of a table
//!   with itself may miss a row: another scan of the statement may hold that lock.)
//!
//! If the newest key is in the part to come, the scan will meet it there, or the marked entry that
//! it leaves. Otherwise the row has left the range.
//!
//! Only the plugin can compute keys: it gives the scan a function that does. Called by `locking`.
use crate::base::{sync_point, Error, Result, SyncPoint, TrxId};
use crate::index::{RowHeader, ROW_OVERFLOW};
use crate::table::row::row_lock::Locked;
use crate::table::row::snapshot::check_conflict;
use crate::table::row::version::split;
use crate::table::scan::following::Following;
use crate::table::scan::position::KILL_POLL;
use crate::table::scan::row_locking::{LockingReader, Outcome};
use crate::txn::{Granted, Trx};

impl LockingReader<'_> {
    pub fn note_young(&mut self) {
        if let Some(following) = self.following {
            following.note_young();
        }
    }

    /// The entry is marked for good: by `stamp`.
    pub fn lock_if_moved(&mut self, trx: &mut Trx, key: &[u8], pk: &[u8], stamp: TrxId) -> Result<Outcome> {
        let is_young = |trx: &Trx| trx.statement_view().is_some_and(|view| !view.sees(stamp));
        if self.following.is_none() || !is_young(trx) {
            return Ok(Outcome::Skipped);
        }
        self.note_young();
        if !self.may_have_been_passed(trx, key, pk)? {
            return Ok(Outcome::Skipped);
        }
        sync_point(SyncPoint::MovedRowFound);
        match self.lock_newest(trx, pk)? {
            None => self.row_is_locked(trx, pk),
            Some(Locked::Gone(header)) => {
                self.check_gone(trx, pk, header)?;
                Ok(Outcome::Skipped)
            }
            Some(Locked::Row(header, granted)) => self.take_if_moved(trx, key, (pk, header, granted)),
        }
    }

    /// The row is locked, its newest version is in `version`, and its entry here does not stand
    /// (any more).
    pub fn take_if_moved(
        &mut self,
        trx: &mut Trx,
        key: &[u8],
        (pk, header, granted): (&[u8], RowHeader, Granted),
    ) -> Result<Outcome> {
        self.note_young();
        debug_assert!(
            RowHeader::read(&self.scan.version) == header,
            "the version at hand is the one that was locked"
        );
        let is_met = granted == Granted::Held || is_own(trx, &header);
        if is_met || !self.has_passed(key, pk)? {
            self.scan.reader.locks.unlock_if_new(trx, self.layout, pk, granted);
            return Ok(Outcome::Skipped);
        }
        if let Err(e) = check_conflict(trx, header.trx) {
            self.scan.reader.locks.unlock_if_new(trx, self.layout, pk, granted);
            return Err(e);
        }
        self.scan.taken = Some(granted);
        self.scan.hand_out_version(self.layout, pk)?;
        Ok(Outcome::HandedOut)
    }

    /// Asked before the row's lock is waited for: the wait may be long, and needless if the row is
    /// not in the scan's range. True: the newest version, or one that a rollback would make the
    /// newest, has a key that the scan has passed.
    fn may_have_been_passed(&mut self, trx: &Trx, key: &[u8], pk: &[u8]) -> Result<bool> {
        loop {
            if !self.scan.copy_newest(self.layout, pk)? {
                return Ok(false);
            }
            let newest = RowHeader::read(&self.scan.version);
            if is_own(trx, &newest) {
                return Ok(false);
            }
            if self.any_open_version_has_passed(trx, key, pk)? {
                return Ok(true);
            }
            // A maker that has ended since the row was copied has committed, if that version is
            // still there.
            if !self.scan.newest_differs(self.layout, pk, &newest)? {
                return Ok(false);
            }
            if trx.shared.waiter.killed() {
                return Err(Error::Interrupted);
            }
        }
    }

    /// Looks at the version at hand, and back to the first one whose maker has ended.
    fn any_open_version_has_passed(&mut self, trx: &Trx, key: &[u8], pk: &[u8]) -> Result<bool> {
        for turn in 1u32.. {
            if turn % KILL_POLL == 0 && trx.shared.waiter.killed() {
                return Err(Error::Interrupted);
            }
            let header = RowHeader::read(&self.scan.version);
            // A transaction that is about to end is still active, but seen by views already. Such
            // views do not keep its records from purge.
            let seen = trx.statement_view().is_some_and(|view| view.sees(header.trx));
            let is_open = !seen && self.scan.reader.locks.made_by_other_active(trx, &header);
            // Its overflow pages may be gone unless the row is locked.
            let is_long = header.flags & ROW_OVERFLOW != 0;
            if !header.marked() && (is_long || self.has_passed(key, pk)?) {
                return Ok(true);
            }
            if !is_open {
                return Ok(false);
            }
            self.scan
                .rewind_until(self.layout, pk, &|older| *older != header, None)?;
            if RowHeader::read(&self.scan.version) == header {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// The row in `version` has a key between the scan's beginning and the entry of `at`, or that
    /// very key. It may have come back to that key since the mark was read.
    fn has_passed(&mut self, at: &[u8], pk: &[u8]) -> Result<bool> {
        let Some(mut following) = self.following.take() else {
            return Ok(false);
        };
        let computed = self.compute_key(&mut following, pk);
        let has_passed = following.has_passed_key(&self.scan.at, at);
        *self.following = Some(following);
        computed.map(|()| has_passed)
    }

    fn compute_key(&mut self, following: &mut Following, pk: &[u8]) -> Result<()> {
        let scan = &mut *self.scan;
        let (header, stored) = split(&scan.version);
        let versions = &scan.reader.versions;
        let fetched = versions.fetch_whole(self.layout, &header, stored, &mut scan.whole)?;
        let row = if fetched { &scan.whole } else { stored };
        following.key.clear();
        (following.key_of)(pk, row, &mut following.key)?;
        following.key.extend_from_slice(pk);
        Ok(())
    }
}

/// A transaction has no id before its first change. Neither has a row whose maker is forgotten.
fn is_own(trx: &Trx, header: &RowHeader) -> bool {
    trx.id() != 0 && header.trx == trx.id()
}
