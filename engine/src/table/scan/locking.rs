//! Locking reads: the newest committed version of each row, its lock held before it is handed out.
//!
//! The lock is on the row (clustered index, clustered key), whatever index is scanned. An entry is looked at, the row locked,
//! the entry looked at again: a page that has not changed since makes that a comparison of two LSNs. Who locks gaps also locks the
//! key ranges passed over, before it trusts that nothing is in them.
use crate::base::{moment, Error, Moment, Result, TrxId};
use crate::change;
use crate::index::scan::Direction;
use crate::index::{RowHeader, ROW_OVERFLOW};
use crate::table::catalog::index_quarantine::check_not_aside;
use crate::table::catalog::layout::Layout;
use crate::table::row::entry::decode_entry;
use crate::table::row::row_lock::Locked;
use crate::table::row::snapshot::check_conflict;
use crate::table::row::version::split;
use crate::table::row::version::KeyWatch;
use crate::table::scan::cursor::{Cursor, OnLocked};
use crate::table::scan::version_cache::Answer;
use crate::txn::{Granted, LockMode, LockPolicy, Trx};
use std::cell::Cell;
use std::sync::atomic::{fence, Ordering};

/// What came of one entry.
pub(in crate::table) enum Outcome {
    HandedOut,
    Skipped,
}

impl Cursor {
    pub(in crate::table) fn next_locked(&mut self, trx: &mut Trx, layout: &Layout) -> Result<bool> {
        self.reader.snapshots.guard_by_snapshot(trx);
        if !trx.view_is_fresh {
            return self.lock_next(trx, layout);
        }
        let (from, was_positioned) = (self.last.clone(), self.positioned);
        loop {
            let result = self.lock_next(trx, layout);
            if !self.reader.snapshots.conflicts_with_fresh_snapshot(trx, &result) {
                return result;
            }
            self.step_back_to(&from, was_positioned);
            self.forget_pass();
        }
    }

    fn lock_next(&mut self, trx: &mut Trx, layout: &Layout) -> Result<bool> {
        self.begin_pass();
        loop {
            if !self.step_in_range(trx, layout)? {
                if self.goes_through_again() {
                    continue;
                }
                return Ok(false);
            }
            let outcome = match self.index {
                0 => self.lock_clustered(trx, layout)?,
                _ => self.lock_secondary(trx, layout)?,
            };
            if let Outcome::HandedOut = outcome {
                self.end_passes();
                return Ok(true);
            }
            if self.has_skipped_young() {
                // The row may lie ahead now, where the scan has learned that there is nothing.
                self.restart_scan();
            }
        }
    }

    /// The next entry; where gaps are locked, with the range from the last one to it locked.
    fn step_in_range(&mut self, trx: &mut Trx, layout: &Layout) -> Result<bool> {
        if !self.locks_gaps(trx) {
            return self.step(trx, 1);
        }
        let index = layout.index(self.index).expect("checked by begin").id;
        let was_positioned = self.positioned;
        let from = if was_positioned || self.seek_inclusive.is_some() {
            self.last.clone()
        } else {
            self.lower_bound().to_vec()
        };
        let mut locked_to: Option<Option<Vec<u8>>> = None;
        loop {
            let there = self.step(trx, 1)?;
            let key = there.then(|| self.last.clone());
            if locked_to.as_ref() == Some(&key) {
                return Ok(there);
            }
            let reached = |k: &Vec<u8>| [&k[..], &[0]].concat();
            let (lo, hi) = match self.direction {
                Direction::Forward => {
                    let hi = key.as_ref().map(reached).or(self.upper_bound().map(<[u8]>::to_vec));
                    (from.clone(), hi)
                }
                Direction::Backward => {
                    let lo = key.clone().unwrap_or(self.lower_bound().to_vec());
                    let whole = !was_positioned && self.seek_inclusive.is_none();
                    (
                        lo,
                        if whole {
                            self.upper_bound().map(<[u8]>::to_vec)
                        } else {
                            Some(reached(&from))
                        },
                    )
                }
            };
            self.reader.trx_sys.locks().lock_range(trx, index, &lo, hi.as_deref());
            // As in `RowWriter::ranges_still_free`.
            fence(Ordering::SeqCst);
            locked_to = Some(key);
            // Look again: what came in before the range was locked is met now, what comes later waits.
            self.step_back_to(&from, was_positioned);
        }
    }

    /// Undoes `step`: the scan is again where it was.
    pub(in crate::table) fn step_back_to(&mut self, from: &[u8], was_positioned: bool) {
        self.last.clear();
        self.last.extend_from_slice(from);
        self.positioned = was_positioned;
        self.restart_scan();
    }

    pub(in crate::table) fn locks_gaps(&self, trx: &Trx) -> bool {
        self.lock.gaps || trx.locks_gaps()
    }

    /// Where gaps are locked, a key without a row is.
    pub(in crate::table) fn lock_by_key(&mut self, trx: &mut Trx, layout: &Layout, pk: &[u8]) -> Result<bool> {
        let there = self.lock_row_by_key(trx, layout, pk)?;
        if there || !self.locks_gaps(trx) {
            return Ok(there);
        }
        let just_above = [pk, &[0]].concat();
        let locks = self.reader.trx_sys.locks();
        locks.lock_range(trx, layout.clustered.id, pk, Some(&just_above));
        // As in `RowWriter::ranges_still_free`: what came in before the key was locked is met now, what comes later waits.
        fence(Ordering::SeqCst);
        self.lock_row_by_key(trx, layout, pk)
    }

    fn lock_row_by_key(&mut self, trx: &mut Trx, layout: &Layout, pk: &[u8]) -> Result<bool> {
        match self.lock_newest(trx, layout, pk)? {
            Some(Locked::Row(header, granted)) => {
                check_conflict(trx, header.trx)?;
                self.taken = Some(granted);
                self.hand_out_version(layout, pk)
            }
            Some(Locked::Gone(header)) => {
                self.check_gone(trx, layout, pk, header)?;
                Ok(false)
            }
            None if self.lock.on_locked == OnLocked::Refuse => Err(Error::Locked),
            None => Ok(false),
        }
    }

    fn lock_clustered(&mut self, trx: &mut Trx, layout: &Layout) -> Result<Outcome> {
        let header = RowHeader::read(self.batch.value(self.next - 1));
        let pk = std::mem::take(&mut self.last);
        let result = self.lock_clustered_row(trx, layout, &pk, header);
        self.last = pk;
        result
    }

    fn lock_clustered_row(&mut self, trx: &mut Trx, layout: &Layout, pk: &[u8], header: RowHeader) -> Result<Outcome> {
        moment(Moment::EntryCopied);
        let settled = !self.reader.locks.made_by_other_active(trx, &header);
        if settled {
            self.reader.trx_sys.note_newest(trx, header.trx);
        }
        if settled && header.marked() {
            if !self.row_is_still(layout, pk, &header)? {
                return self.lock_changed_row(trx, layout, pk);
            }
            self.check_gone(trx, layout, pk, Some(header))?;
            return Ok(Outcome::Skipped);
        }
        if settled {
            let Some(granted) = self.try_lock(trx, layout, pk)? else {
                return self.row_is_locked(trx, layout, pk);
            };
            if self.is_unchanged() {
                check_conflict(trx, header.trx)?;
                self.taken = Some(granted);
                self.hand_out_batch(layout)?;
                return Ok(Outcome::HandedOut);
            }
            self.reader.locks.unlock_if_new(trx, layout, pk, granted);
        }
        self.lock_changed_row(trx, layout, pk)
    }

    /// The row has changed since the entry was copied, or is being changed: locks it and takes it as it is then.
    fn lock_changed_row(&mut self, trx: &mut Trx, layout: &Layout, pk: &[u8]) -> Result<Outcome> {
        match self.lock_newest(trx, layout, pk)? {
            None => self.row_is_locked(trx, layout, pk),
            Some(Locked::Row(header, granted)) => {
                check_conflict(trx, header.trx)?;
                self.taken = Some(granted);
                self.hand_out_version(layout, pk)?;
                Ok(Outcome::HandedOut)
            }
            Some(Locked::Gone(header)) => {
                self.check_gone(trx, layout, pk, header)?;
                Ok(Outcome::Skipped)
            }
        }
    }

    fn lock_secondary(&mut self, trx: &mut Trx, layout: &Layout) -> Result<Outcome> {
        let value = self.batch.value(self.next - 1);
        let entry = decode_entry(layout, value)?;
        let (pk_len, marked, stamp) = (entry.pk_len, entry.marked, entry.stamp);
        moment(Moment::EntryCopied);
        let settled = stamp == trx.id() || !self.reader.trx_sys.is_active(stamp);
        let key = std::mem::take(&mut self.last);
        let pk = &key[key.len() - pk_len..];
        let result = match marked && settled {
            false => self.lock_secondary_row(trx, layout, &key, pk),
            true => self.skip_marked(trx, layout, &key, pk, stamp),
        };
        self.last = key;
        result
    }

    /// A secondary entry that was marked by `stamp`, which has ended: by its commit, or it took the mark back before.
    fn skip_marked(&mut self, trx: &mut Trx, layout: &Layout, key: &[u8], pk: &[u8], stamp: TrxId) -> Result<Outcome> {
        if !self.mark_is_still(layout, key, stamp)? {
            return self.lock_secondary_row(trx, layout, key, pk);
        }
        self.reader.trx_sys.note_newest(trx, stamp);
        self.check_moved(trx, layout, pk, stamp)?;
        self.lock_if_moved(trx, layout, key, pk, stamp)
    }

    fn lock_secondary_row(&mut self, trx: &mut Trx, layout: &Layout, key: &[u8], pk: &[u8]) -> Result<Outcome> {
        let (header, granted) = match self.lock_newest(trx, layout, pk)? {
            None => return self.row_is_locked(trx, layout, pk),
            Some(Locked::Gone(header)) => {
                self.check_gone(trx, layout, pk, header)?;
                self.note_young();
                return Ok(Outcome::Skipped);
            }
            Some(Locked::Row(header, granted)) => (header, granted),
        };
        if let Err(e) = check_conflict(trx, header.trx) {
            self.reader.locks.unlock_if_new(trx, layout, pk, granted);
            return Err(e);
        }
        if !self.entry_stands(layout, key)? {
            return self.take_if_moved(trx, layout, key, (pk, header, granted));
        }
        self.taken = Some(granted);
        self.hand_out_version(layout, pk)?;
        Ok(Outcome::HandedOut)
    }

    /// The secondary entry is still there and unmarked, now that its row is locked.
    fn entry_stands(&mut self, layout: &Layout, key: &[u8]) -> Result<bool> {
        let index = layout.index(self.index).expect("checked by begin");
        check_not_aside(index)?;
        if self.is_unchanged() {
            let value = self.batch.value(self.next - 1);
            return Ok(!decode_entry(layout, value)?.marked);
        }
        let found = change::get(&self.reader.pool, index, key, &mut self.entry)?;
        Ok(found && !decode_entry(layout, &self.entry)?.marked)
    }

    /// Asked once the maker of a mark has ended, for the entry was copied before that: a rollback in between took the mark back. True:
    /// the mark is as it was copied, or purge was here already, so it stays.
    fn mark_is_still(&mut self, layout: &Layout, key: &[u8], stamp: TrxId) -> Result<bool> {
        let index = layout.index(self.index).expect("checked by begin");
        check_not_aside(index)?;
        if self.is_unchanged() {
            return Ok(true);
        }
        if !change::get(&self.reader.pool, index, key, &mut self.entry)? {
            return Ok(true);
        }
        let entry = decode_entry(layout, &self.entry)?;
        Ok(entry.marked && entry.stamp == stamp)
    }

    /// As `mark_is_still`, of a row.
    fn row_is_still(&self, layout: &Layout, pk: &[u8], header: &RowHeader) -> Result<bool> {
        if self.is_unchanged() {
            return Ok(true);
        }
        let found = layout.clustered.tree.get(&self.reader.pool, pk)?;
        Ok(found.is_none_or(|leaf| {
            let now = RowHeader::read(leaf.value());
            now.marked() && now.trx == header.trx
        }))
    }

    /// The current entry is as it was copied, as far as its leaf and what is pending for it tell.
    fn is_unchanged(&self) -> bool {
        let scan = self.scan.as_ref().expect("begun");
        scan.is_unchanged(&self.reader.pool, &self.batch, self.next - 1)
    }

    fn mode(&self) -> LockMode {
        self.lock.mode.expect("a locking read")
    }
    fn effective_policy(&self) -> LockPolicy {
        if self.semi_consistent && self.lock.on_locked == OnLocked::Wait {
            LockPolicy::NoWait
        } else {
            self.lock.policy()
        }
    }

    /// The lock on a row that nobody is changing; None: somebody holds it, and the policy is not to wait.
    fn try_lock(&mut self, trx: &mut Trx, layout: &Layout, pk: &[u8]) -> Result<Option<Granted>> {
        let policy = self.effective_policy();
        match self.reader.locks.lock_name_of(trx, layout, pk, self.mode(), policy) {
            Ok(granted) => Ok(Some(granted)),
            Err(Error::Locked) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Locks the row and copies its newest version into `version`; None: it is locked by another, and the policy is not to wait.
    pub(in crate::table) fn lock_newest(
        &mut self,
        trx: &mut Trx,
        layout: &Layout,
        pk: &[u8],
    ) -> Result<Option<Locked>> {
        let (mode, policy) = (self.mode(), self.effective_policy());
        let version = &mut self.version;
        let mut copy = |value: &[u8]| {
            version.clear();
            version.extend_from_slice(value);
        };
        match self.reader.locks.lock_row(trx, layout, pk, mode, policy, &mut copy) {
            Ok(locked) => Ok(Some(locked)),
            Err(Error::Locked) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Another transaction holds the row, and we are not to wait.
    pub(in crate::table) fn row_is_locked(&mut self, trx: &mut Trx, layout: &Layout, pk: &[u8]) -> Result<Outcome> {
        match self.lock.on_locked {
            OnLocked::Skip => Ok(Outcome::Skipped),
            OnLocked::Refuse => Err(Error::Locked),
            OnLocked::Wait => self.show_committed(trx, layout, pk),
        }
    }

    /// Semi-consistent read: the last committed version, without a lock. The caller looks whether the row interests him at all; if so, he
    /// reads it again by its key, with the lock.
    fn show_committed(&mut self, trx: &mut Trx, layout: &Layout, pk: &[u8]) -> Result<Outcome> {
        if !self.copy_newest(layout, pk)? {
            return Ok(Outcome::Skipped);
        }
        let newest = RowHeader::read(&self.version);
        let is_whole = newest.flags & ROW_OVERFLOW == 0;
        let settled = is_whole && !self.reader.locks.made_by_other_active(trx, &newest);
        if settled && !self.newest_differs(layout, pk, &newest)? {
            return self.show_version(trx, layout, pk, !newest.marked());
        }
        // What is read on the way to an older version, or behind a long one, purge may take: but for a view.
        let for_this = trx.view.is_none();
        if for_this {
            self.reader.trx_sys.open_view(trx);
        }
        let done = self.show_committed_in_view(trx, layout, pk);
        if for_this {
            self.reader.trx_sys.close_own_view(trx);
        }
        done
    }
    fn show_committed_in_view(&mut self, trx: &mut Trx, layout: &Layout, pk: &[u8]) -> Result<Outcome> {
        let shown = loop {
            if !self.copy_newest(layout, pk)? {
                return Ok(Outcome::Skipped);
            }
            moment(Moment::VersionCopied);
            let newest = RowHeader::read(&self.version);
            let shown = self.rewind_to_committed(trx, layout, pk)?;
            // Its maker may have ended since it was copied, and by a rollback: then it is not there any more.
            let is_newest = RowHeader::read(&self.version) == newest;
            if !is_newest || newest.trx == trx.id() || !self.newest_differs(layout, pk, &newest)? {
                break shown;
            }
        };
        moment(Moment::CommittedVersionFound);
        self.show_version(trx, layout, pk, shown)
    }
    fn show_version(&mut self, trx: &mut Trx, layout: &Layout, pk: &[u8], is_there: bool) -> Result<Outcome> {
        self.reader.trx_sys.note_newest(trx, RowHeader::read(&self.version).trx);
        if !is_there {
            return Ok(Outcome::Skipped);
        }
        self.was_semi_consistent = true;
        self.hand_out_version(layout, pk)?;
        Ok(Outcome::HandedOut)
    }

    fn rewind_to_committed(&mut self, trx: &Trx, layout: &Layout, pk: &[u8]) -> Result<bool> {
        let reader = self.reader.clone();
        // Who is about to end is active still, and seen by views already: those do not keep his records from purge.
        let seen = |id| trx.view.as_ref().is_some_and(|view| view.sees(id));
        // Who was active when his newest version was looked at has committed none of the older ones, though he may have ended since.
        let undecided = Cell::new(None);
        let settled = |header: &RowHeader| {
            if undecided.get() == Some(header.trx) {
                return false;
            }
            let settled = seen(header.trx) || !reader.locks.made_by_other_active(trx, header);
            if !settled {
                undecided.set(Some(header.trx));
            }
            settled
        };
        self.rewind_until(layout, pk, &settled, None)
    }

    /// A row that is gone: under snapshot isolation a conflict if the view still sees it.
    pub(in crate::table) fn check_gone(
        &mut self,
        trx: &Trx,
        layout: &Layout,
        pk: &[u8],
        header: Option<RowHeader>,
    ) -> Result<()> {
        let Some(header) = header else { return Ok(()) };
        if check_conflict(trx, header.trx).is_ok() {
            return Ok(());
        }
        if self.view_sees_row(trx, layout, pk)? {
            return Err(Error::Conflict);
        }
        Ok(())
    }

    /// A secondary entry marked by `stamp`, which has ended: a conflict if the view does not see that, and sees the row.
    fn check_moved(&mut self, trx: &Trx, layout: &Layout, pk: &[u8], stamp: u64) -> Result<()> {
        if check_conflict(trx, stamp).is_ok() {
            return Ok(());
        }
        if !self.copy_newest(layout, pk)? {
            return Ok(());
        }
        let (header, _) = split(&self.version);
        // Rolled back: the row is as the view knows it.
        if check_conflict(trx, header.trx).is_ok() {
            return Ok(());
        }
        self.check_gone(trx, layout, pk, Some(header))
    }

    fn view_sees_row(&mut self, trx: &Trx, layout: &Layout, pk: &[u8]) -> Result<bool> {
        let Some(view) = trx.view.clone() else {
            return Ok(false);
        };
        if !self.copy_newest(layout, pk)? {
            return Ok(false);
        }
        let newest = RowHeader::read(&self.version);
        if let Some(Answer::Sees(sees)) = self.rewinds.get(&view, self.index, pk, &newest) {
            return Ok(*sees);
        }
        let mut watch = KeyWatch::new(layout.clustered.id);
        let sees = self.rewind_until(layout, pk, &|header| view.sees(header.trx), Some(&mut watch))?;
        self.rewinds
            .put((&view, self.index), (pk, newest), watch.steps, || Answer::Sees(sees));
        Ok(sees)
    }
}
