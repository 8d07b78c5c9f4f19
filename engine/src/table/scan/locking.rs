//! Locking reads: the newest committed version of each row, its lock held before it is handed out.
//!
//! The lock is on the row (clustered index, clustered key), whatever index is scanned. An entry is
//! read, the row locked, the entry read again: if its page has not changed since, that is a
//! comparison of two LSNs. A scan that locks gaps also locks the key ranges passed over, before it
//! trusts that nothing is in them.
//!
//! No latch is held while a lock is waited for (I5). Called by `cursor`.
use crate::base::sync::holds_no_latch;
use crate::base::{sync_point, Error, Result, SyncPoint, TrxId};
use crate::change;
use crate::index::scan::Direction;
use crate::index::RowHeader;
use crate::table::catalog::index_quarantine::check_not_quarantined;
use crate::table::row::entry::decode_entry;
use crate::table::row::row_lock::Locked;
use crate::table::row::snapshot::check_conflict;
use crate::table::scan::lock_choice::OnLocked;
use crate::table::scan::row_locking::{LockingReader, Outcome};
use crate::txn::Trx;
use std::sync::atomic::{fence, Ordering};

impl LockingReader<'_> {
    /// A row that is found is locked and needs no snapshot. That no row is found holds by the
    /// snapshot.
    pub fn get(&mut self, trx: &mut Trx, pk: &[u8]) -> Result<bool> {
        loop {
            let guarded = trx.view().is_some();
            let result = self.lock_by_key(trx, pk);
            if self.scan.reader.snapshots.conflicts_with_fresh_snapshot(trx, &result) {
                continue;
            }
            if guarded || result != Ok(false) {
                return result;
            }
            self.scan.reader.snapshots.guard_by_snapshot(trx);
            if trx.view().is_none() {
                return result;
            }
        }
    }

    pub fn next(&mut self, trx: &mut Trx) -> Result<bool> {
        self.scan.reader.snapshots.guard_by_snapshot(trx);
        if !trx.view_is_fresh() {
            return self.lock_next(trx);
        }
        let (from, was_positioned) = (self.scan.at.last.clone(), self.scan.at.positioned);
        loop {
            let result = self.lock_next(trx);
            if !self.scan.reader.snapshots.conflicts_with_fresh_snapshot(trx, &result) {
                return result;
            }
            self.scan.at.step_back_to(&from, was_positioned);
            if let Some(following) = self.following {
                following.forget_pass();
            }
        }
    }

    fn lock_next(&mut self, trx: &mut Trx) -> Result<bool> {
        if let Some(following) = self.following {
            following.begin_pass(&self.scan.at);
        }
        loop {
            if !self.step_in_range(trx)? {
                let at = &mut self.scan.at;
                if self.following.as_mut().is_some_and(|f| f.goes_through_again(at)) {
                    continue;
                }
                return Ok(false);
            }
            debug_assert!(holds_no_latch(), "I5: no latch is held while a lock is waited for");
            let outcome = match self.scan.index {
                0 => self.lock_clustered(trx)?,
                _ => self.lock_secondary(trx)?,
            };
            if let Outcome::HandedOut = outcome {
                debug_assert!(
                    self.scan.taken.is_some() != self.scan.was_semi_consistent,
                    "a row is handed out locked, or as a semi-consistent read shows it"
                );
                if let Some(following) = self.following {
                    following.end_passes();
                }
                return Ok(true);
            }
            if self.following.as_mut().is_some_and(|f| f.has_skipped_young()) {
                // The row may lie ahead now, where the scan has seen no entry before.
                self.scan.at.restart();
            }
        }
    }

    /// The next entry. Where gaps are locked, the range from the last entry to it is locked.
    fn step_in_range(&mut self, trx: &mut Trx) -> Result<bool> {
        if !self.locks_gaps(trx) {
            return self.scan.at.step(&self.scan.reader, trx, 1);
        }
        let index = self.layout.index(self.scan.index).expect("checked by begin").id;
        let was_positioned = self.scan.at.positioned;
        let from = if was_positioned || self.scan.at.seek_inclusive.is_some() {
            self.scan.at.last.clone()
        } else {
            self.scan.at.lower_bound().to_vec()
        };
        let mut locked_to: Option<Option<Vec<u8>>> = None;
        loop {
            let there = self.scan.at.step(&self.scan.reader, trx, 1)?;
            let key = there.then(|| self.scan.at.last.clone());
            if locked_to.as_ref() == Some(&key) {
                return Ok(there);
            }
            let reached = |k: &Vec<u8>| [&k[..], &[0]].concat();
            let (lo, hi) = match self.scan.at.direction {
                Direction::Forward => {
                    let hi = key
                        .as_ref()
                        .map(reached)
                        .or(self.scan.at.upper_bound().map(<[u8]>::to_vec));
                    (from.clone(), hi)
                }
                Direction::Backward => {
                    let lo = key.clone().unwrap_or(self.scan.at.lower_bound().to_vec());
                    let whole = !was_positioned && self.scan.at.seek_inclusive.is_none();
                    (
                        lo,
                        if whole {
                            self.scan.at.upper_bound().map(<[u8]>::to_vec)
                        } else {
                            Some(reached(&from))
                        },
                    )
                }
            };
            self.scan
                .reader
                .trx_sys
                .locks()
                .lock_range(trx, index, &lo, hi.as_deref());
            // As in `RowWriter::ranges_still_free`.
            fence(Ordering::SeqCst);
            locked_to = Some(key);
            // Look again: an entry inserted before the range was locked is met now, and a later
            // insert waits.
            self.scan.at.step_back_to(&from, was_positioned);
        }
    }

    /// Where gaps are locked, the key is locked even if it has no row.
    fn lock_by_key(&mut self, trx: &mut Trx, pk: &[u8]) -> Result<bool> {
        let there = self.lock_row_by_key(trx, pk)?;
        if there || !self.locks_gaps(trx) {
            return Ok(there);
        }
        let just_above = [pk, &[0]].concat();
        let locks = self.scan.reader.trx_sys.locks();
        locks.lock_range(trx, self.layout.clustered.id, pk, Some(&just_above));
        // As in `RowWriter::ranges_still_free`: a row inserted before the key was locked is met
        // now, and a later insert waits.
        fence(Ordering::SeqCst);
        self.lock_row_by_key(trx, pk)
    }

    fn lock_row_by_key(&mut self, trx: &mut Trx, pk: &[u8]) -> Result<bool> {
        match self.lock_newest(trx, pk)? {
            Some(Locked::Row(header, granted)) => {
                check_conflict(trx, header.trx)?;
                self.scan.taken = Some(granted);
                self.scan.hand_out_version(self.layout, pk)
            }
            Some(Locked::Gone(header)) => {
                self.check_gone(trx, pk, header)?;
                Ok(false)
            }
            None if self.scan.lock.on_locked == OnLocked::Refuse => Err(Error::Locked),
            None => Ok(false),
        }
    }

    fn lock_clustered(&mut self, trx: &mut Trx) -> Result<Outcome> {
        let header = RowHeader::read(self.scan.at.value());
        let pk = std::mem::take(&mut self.scan.at.last);
        let result = self.lock_clustered_row(trx, &pk, header);
        self.scan.at.last = pk;
        result
    }

    fn lock_clustered_row(&mut self, trx: &mut Trx, pk: &[u8], header: RowHeader) -> Result<Outcome> {
        sync_point(SyncPoint::EntryCopied);
        let has_ended = !self.scan.reader.locks.made_by_other_active(trx, &header);
        if has_ended {
            self.scan.reader.trx_sys.visibility.note_newest(trx, header.trx);
        }
        if has_ended && header.marked() {
            if !self.row_is_still(pk, &header)? {
                return self.lock_changed_row(trx, pk);
            }
            self.check_gone(trx, pk, Some(header))?;
            return Ok(Outcome::Skipped);
        }
        if has_ended {
            let Some(granted) = self.try_lock(trx, pk)? else {
                return self.row_is_locked(trx, pk);
            };
            if self.scan.at.is_unchanged(&self.scan.reader.pool) {
                check_conflict(trx, header.trx)?;
                self.scan.taken = Some(granted);
                self.scan.hand_out_batch(self.layout)?;
                return Ok(Outcome::HandedOut);
            }
            self.scan.reader.locks.unlock_if_new(trx, self.layout, pk, granted);
        }
        self.lock_changed_row(trx, pk)
    }

    /// The row has changed since the entry was copied, or is being changed: locks it and hands it
    /// out as it is then.
    fn lock_changed_row(&mut self, trx: &mut Trx, pk: &[u8]) -> Result<Outcome> {
        match self.lock_newest(trx, pk)? {
            None => self.row_is_locked(trx, pk),
            Some(Locked::Row(header, granted)) => {
                check_conflict(trx, header.trx)?;
                self.scan.taken = Some(granted);
                self.scan.hand_out_version(self.layout, pk)?;
                Ok(Outcome::HandedOut)
            }
            Some(Locked::Gone(header)) => {
                self.check_gone(trx, pk, header)?;
                Ok(Outcome::Skipped)
            }
        }
    }

    fn lock_secondary(&mut self, trx: &mut Trx) -> Result<Outcome> {
        let value = self.scan.at.value();
        let entry = decode_entry(self.layout, value)?;
        let (pk_len, marked, stamp) = (entry.pk_len, entry.marked, entry.stamp);
        sync_point(SyncPoint::EntryCopied);
        let has_ended = stamp == trx.id() || !self.scan.reader.trx_sys.is_active(stamp);
        let key = std::mem::take(&mut self.scan.at.last);
        let pk = &key[key.len() - pk_len..];
        let result = match marked && has_ended {
            false => self.lock_secondary_row(trx, &key, pk),
            true => self.skip_marked(trx, &key, pk, stamp),
        };
        self.scan.at.last = key;
        result
    }

    /// A secondary entry that was marked by `stamp`, which has ended: by its commit, or the mark
    /// was rolled back before.
    fn skip_marked(&mut self, trx: &mut Trx, key: &[u8], pk: &[u8], stamp: TrxId) -> Result<Outcome> {
        debug_assert!(
            stamp == trx.id() || !self.scan.reader.trx_sys.is_active(stamp),
            "a mark is for good once its maker has ended"
        );
        if !self.mark_is_still(key, stamp)? {
            return self.lock_secondary_row(trx, key, pk);
        }
        self.scan.reader.trx_sys.visibility.note_newest(trx, stamp);
        self.check_moved(trx, pk, stamp)?;
        self.lock_if_moved(trx, key, pk, stamp)
    }

    fn lock_secondary_row(&mut self, trx: &mut Trx, key: &[u8], pk: &[u8]) -> Result<Outcome> {
        let (header, granted) = match self.lock_newest(trx, pk)? {
            None => return self.row_is_locked(trx, pk),
            Some(Locked::Gone(header)) => {
                self.check_gone(trx, pk, header)?;
                self.note_young();
                return Ok(Outcome::Skipped);
            }
            Some(Locked::Row(header, granted)) => (header, granted),
        };
        if let Err(e) = check_conflict(trx, header.trx) {
            self.scan.reader.locks.unlock_if_new(trx, self.layout, pk, granted);
            return Err(e);
        }
        if !self.entry_stands(key)? {
            return self.take_if_moved(trx, key, (pk, header, granted));
        }
        self.scan.taken = Some(granted);
        self.scan.hand_out_version(self.layout, pk)?;
        Ok(Outcome::HandedOut)
    }

    /// The secondary entry is still there and unmarked, now that its row is locked.
    fn entry_stands(&mut self, key: &[u8]) -> Result<bool> {
        let index = self.layout.index(self.scan.index).expect("checked by begin");
        check_not_quarantined(index)?;
        if self.scan.at.is_unchanged(&self.scan.reader.pool) {
            let value = self.scan.at.value();
            return Ok(!decode_entry(self.layout, value)?.marked);
        }
        let found = change::get(&self.scan.reader.pool, index, key, &mut self.scan.entry)?;
        Ok(found && !decode_entry(self.layout, &self.scan.entry)?.marked)
    }

    /// Called once the maker of a mark has ended. The entry was copied before that, and a rollback
    /// in between took the mark back. True: the mark is as it was copied, or purge has removed the
    /// entry, so the mark stays.
    fn mark_is_still(&mut self, key: &[u8], stamp: TrxId) -> Result<bool> {
        let index = self.layout.index(self.scan.index).expect("checked by begin");
        check_not_quarantined(index)?;
        if self.scan.at.is_unchanged(&self.scan.reader.pool) {
            return Ok(true);
        }
        if !change::get(&self.scan.reader.pool, index, key, &mut self.scan.entry)? {
            return Ok(true);
        }
        let entry = decode_entry(self.layout, &self.scan.entry)?;
        Ok(entry.marked && entry.stamp == stamp)
    }

    /// As `mark_is_still`, of a row.
    fn row_is_still(&self, pk: &[u8], header: &RowHeader) -> Result<bool> {
        if self.scan.at.is_unchanged(&self.scan.reader.pool) {
            return Ok(true);
        }
        let found = self.layout.clustered.tree.get(&self.scan.reader.pool, pk)?;
        Ok(found.is_none_or(|leaf| {
            let now = RowHeader::read(leaf.value());
            now.marked() && now.trx == header.trx
        }))
    }
}
