//! Consistent reads: what the transaction's view sees, without locks. READ UNCOMMITTED has no view,
//! nor has a reader that keeps writers out (`LockChoice::newest`). They take the newest version.
//!
//! Clustered index: the entry's maker decides, else undo. Secondary index: the entry's stamp
//! decides, else the row's versions, by rule 2 of
//! `docs/decisions/2026-11-21-secondary-entry-stamps.md`. A row is handed out for the one entry
//! whose key its visible version has, so never twice in a scan.
//!
//! Latches: one leaf at a time, shared, while it is copied. Called by `cursor`.
use crate::base::sync::holds_no_latch;
use crate::base::{sync_point, Error, Lsn, PageNo, Result, SyncPoint, TrxId};
use crate::change;
use crate::index::secondary;
use crate::index::RowHeader;
use crate::table::catalog::index_quarantine::check_not_quarantined;
use crate::table::catalog::layout::{Layout, Secondary};
use crate::table::row::entry::decode_entry;
use crate::table::row::version::{KeyThen, KeyWatch};
use crate::table::scan::row_scan::{RowAt, RowScan};
use crate::table::scan::version_cache::Answer;
use crate::txn::Trx;

/// What a secondary entry said when it was read.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Mark {
    marked: bool,
    dead: bool,
    stamp: TrxId,
}

impl Mark {
    fn of(e: &secondary::Entry<'_>) -> Mark {
        Mark {
            marked: e.marked,
            dead: e.dead,
            stamp: e.stamp,
        }
    }
    /// Whether the newest version of the row has this entry's key. None: its maker is rolling back.
    /// Over a row of this transaction (`is_own`) no other one rolls back. Another transaction
    /// marked the entry after the snapshot, and then this one changed the row.
    fn tells(&self, is_own: bool) -> Option<bool> {
        let is_open = self.marked && !self.dead && !is_own;
        (!is_open).then_some(!self.marked)
    }
}

/// The secondary entry that a scan has come to.
struct EntryRead<'a> {
    secondary: &'a Secondary,
    key: &'a [u8],
    /// Length of the index key inside `key`; the row's clustered key follows it.
    user_len: usize,
}

impl<'a> EntryRead<'a> {
    fn user_key(&self) -> &'a [u8] {
        &self.key[..self.user_len]
    }
    fn pk(&self) -> &'a [u8] {
        &self.key[self.user_len..]
    }
}

/// What follows the read of an entry's row.
#[derive(Clone, Copy)]
enum First {
    /// First go back in the row's versions, by what the entry said when it was read. Only if that
    /// does not decide, read the entry again.
    Rewind(Mark),
    /// First read the entry again, then go back in the row's versions, which may take long. Nothing
    /// has to stay unchanged but between the two reads, which is short.
    Look,
}

/// Reads by a view, or dirty.
pub(in crate::table) struct ConsistentReader<'s> {
    pub scan: &'s mut RowScan,
    pub layout: &'s Layout,
}

impl ConsistentReader<'_> {
    /// The row of a key. False: there is none.
    pub fn get(&mut self, pk: &[u8]) -> Result<bool> {
        debug_assert!(self.scan.lock.mode.is_none(), "a consistent read takes no row locks");
        if !self.scan.copy_newest(self.layout, pk)? || !self.scan.rewind_version(self.layout, pk)? {
            return Ok(false);
        }
        self.scan.hand_out_version(self.layout, pk)
    }

    pub fn next(&mut self, trx: &Trx) -> Result<bool> {
        debug_assert!(self.scan.lock.mode.is_none(), "a consistent read takes no row locks");
        debug_assert!(
            self.scan.view.as_ref().is_none_or(|view| self.scan.is_open(trx, view)),
            "I9: the view of a scan holds purge back"
        );
        while self.scan.at.step(&self.scan.reader, trx, usize::MAX)? {
            let shown = match self.scan.index {
                0 => self.show_clustered()?,
                i => self.show_secondary(trx, &self.layout.secondary[i as usize - 1])?,
            };
            if shown {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn show_clustered(&mut self) -> Result<bool> {
        let value = self.scan.at.value();
        let header = RowHeader::read(value);
        if self.scan.view.as_ref().is_none_or(|v| v.sees(header.trx)) {
            if header.marked() {
                return Ok(false);
            }
            return self.scan.hand_out_batch(self.layout);
        }
        self.scan.version.clear();
        self.scan.version.extend_from_slice(value);
        let pk = std::mem::take(&mut self.scan.at.last);
        let shown = match self.scan.rewind_version(self.layout, &pk) {
            Ok(true) => self.scan.hand_out_version(self.layout, &pk),
            nothing => nothing,
        };
        self.scan.at.last = pk;
        shown
    }

    fn show_secondary(&mut self, trx: &Trx, secondary: &Secondary) -> Result<bool> {
        let (key, value) = self.scan.at.entry();
        let found = decode_entry(self.layout, value)?;
        let (pk_len, raw_at) = (found.pk_len, value.len() - found.raw.len());
        let is_enough = self.scan.covering && found.is_whole(secondary.index.tree.entry_max(), key.len());
        let mark = Mark::of(&found);
        let user_len = key.len() - pk_len;
        if self.decides(mark) {
            if mark.marked {
                return Ok(false);
            }
            if is_enough {
                self.scan.hand_out(true, pk_len, RowAt::Batch(raw_at));
                return Ok(true);
            }
        }
        let key = std::mem::take(&mut self.scan.at.last);
        let entry = EntryRead {
            secondary,
            key: &key,
            user_len,
        };
        let mut first = First::Rewind(mark);
        let shown = loop {
            match self.show_row_of(&entry, first) {
                Ok(Some(true)) => break self.scan.hand_out_version(self.layout, entry.pk()),
                Ok(Some(false)) => break Ok(false),
                Ok(None) if trx.shared.waiter.killed() => break Err(Error::Interrupted),
                Ok(None) => first = First::Look,
                Err(e) => break Err(e),
            }
        };
        self.scan.at.last = key;
        shown
    }

    /// The visible version of the entry's row in `version`, if it belongs to this entry. None:
    /// another transaction changed row or entry meanwhile, or has not ended. Then it is tried again
    /// by `First::Look`.
    fn show_row_of(&mut self, entry: &EntryRead<'_>, first: First) -> Result<Option<bool>> {
        let Some(from) = self.scan.copy_newest_from(self.layout, entry.pk())? else {
            return Ok(Some(false));
        };
        let is_own = self.newest_is_own();
        if let First::Rewind(mark) = first {
            if let Some(decided) = self.rewind_by_key(entry, mark)? {
                return Ok(Some(decided));
            }
        }
        // If the entry has the key of the newest version, its mark says whether that version
        // exists. The entry must be no older than our read of the row, and the row no newer. For a
        // maker that rolls back to a savepoint and goes on makes the same entry twice, with no row
        // in between.
        let now = match self.look_at_entry(entry, from)? {
            Looked::Gone => return Ok(Some(false)),
            Looked::Touched => return Ok(None),
            Looked::Now(now) => now,
        };
        let decided = match first {
            First::Rewind(mark) if now != mark => return Ok(None),
            First::Rewind(_) => None,
            First::Look => self.rewind_by_key(entry, now)?,
        };
        Ok(decided.or_else(|| now.tells(is_own)))
    }

    /// Goes back in `version` to what the view sees. Decides by the entry's stamp, or by the key of
    /// that version, whether the version belongs to the entry. None: the version has the key of the
    /// newest one.
    fn rewind_by_key(&mut self, entry: &EntryRead<'_>, mark: Mark) -> Result<Option<bool>> {
        let pk = entry.pk();
        if self.decides(mark) {
            // Unmarked and visible: the row that the view sees has this key.
            let shown = self.scan.rewind_version(self.layout, pk)?;
            return Ok(Some(shown && !mark.marked));
        }
        let (newest, view) = (RowHeader::read(&self.scan.version), self.scan.view.clone());
        let view = view.expect("without one every entry decides");
        if let Some(Answer::Version(seen, key)) = self.scan.cache.get(&view, self.scan.index, pk, &newest) {
            let is_its = key.as_deref() == Some(entry.user_key());
            if is_its {
                self.scan.version.clone_from(seen);
                debug_assert!(
                    view.sees(RowHeader::read(&self.scan.version).trx),
                    "a version that was kept is one that the view sees"
                );
            }
            return Ok(Some(is_its));
        }
        let mut watch = KeyWatch::new(entry.secondary.index.id);
        let shown = self.scan.rewind_watching(self.layout, pk, Some(&mut watch))?;
        let key = match (shown, watch.key) {
            (true, None) => return Ok(None),
            (true, Some(KeyThen::Is(key))) => Some(key),
            (true, Some(KeyThen::None)) | (false, _) => None,
        };
        let is_its = key.as_deref() == Some(entry.user_key());
        let seen = &self.scan.version;
        let answer = || Answer::Version(seen.clone(), key);
        self.scan
            .cache
            .put((&view, self.scan.index), (pk, newest), watch.steps, answer);
        Ok(Some(is_its))
    }

    /// Whether the view sees the entry's stamp, so that the entry's state holds for the view. Not
    /// if the reader killed the entry itself in a rollback. Then the entry replaced another
    /// transaction's mark, perhaps set after the view, which sees the row as it was before.
    fn decides(&self, mark: Mark) -> bool {
        let Some(view) = &self.scan.view else { return true };
        view.sees(mark.stamp) && !(mark.dead && mark.stamp == view.own)
    }

    /// Reads the entry's state, while the row's leaf is as it was when it was copied.
    fn look_at_entry(&mut self, entry: &EntryRead<'_>, from: (PageNo, Lsn)) -> Result<Looked> {
        debug_assert!(holds_no_latch(), "I5: an entry is read again with no latch held");
        sync_point(SyncPoint::RowOfEntryCopied);
        let index = &entry.secondary.index;
        if !change::get(&self.scan.reader.pool, index, entry.key, &mut self.scan.entry)? {
            return Ok(Looked::Gone);
        }
        check_not_quarantined(index)?;
        let now = Mark::of(&decode_entry(self.layout, &self.scan.entry)?);
        let leaf = self.layout.clustered.tree.get(&self.scan.reader.pool, entry.pk())?;
        let is_untouched = leaf.is_some_and(|leaf| (leaf.page_no(), leaf.version()) == from);
        Ok(if is_untouched {
            Looked::Now(now)
        } else {
            Looked::Touched
        })
    }

    /// True if the newest version, just copied, is this transaction's.
    fn newest_is_own(&self) -> bool {
        let maker = RowHeader::read(&self.scan.version).trx;
        maker != 0 && self.scan.view.as_ref().is_some_and(|view| maker == view.own)
    }
}

enum Looked {
    Gone,
    Now(Mark),
    /// Something in the row's leaf was changed meanwhile.
    Touched,
}
