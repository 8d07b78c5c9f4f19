//! Consistent reads: what the transaction's view sees, without locks. READ UNCOMMITTED has no view and takes the newest version.
//!
//! Clustered index: the entry's maker decides, else undo. Secondary index: the entry's stamp decides, else the row's versions, by
//! rule 2 of `docs/decisions/2026-11-21-secondary-entry-stamps.md`; a row is handed out for the one entry whose key its visible version has,
//! so never twice in a scan.
use crate::base::{moment, Error, Lsn, Moment, PageNo, Result, TrxId};
use crate::change::{self, entry};
use crate::index::scan::Direction;
use crate::index::{RowHeader, ROW_HEADER, ROW_MARKED, ROW_OVERFLOW};
use crate::table::catalog::index_quarantine::check_not_aside;
use crate::table::catalog::layout::Layout;
use crate::table::catalog::layout::Secondary;
use crate::table::row::entry::decode_entry;
use crate::table::row::version::KeyThen;
use crate::table::row::version::KeyWatch;
use crate::table::row::version::Version;
use crate::table::scan::cursor::{Current, Cursor, Found, LockChoice, RowAt, KILL_POLL};
use crate::table::scan::version_cache::Answer;
use crate::txn::{Isolation, ReadView, Trx};
use std::cell::Cell;
use std::sync::Arc;

/// Versions that cost as much as an entry.
const STEPS_PER_POLL: u32 = 4;

/// What a secondary entry said when it was read.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Mark {
    marked: bool,
    dead: bool,
    stamp: TrxId,
}

impl Mark {
    fn of(e: &entry::Entry<'_>) -> Mark {
        Mark {
            marked: e.marked,
            dead: e.dead,
            stamp: e.stamp,
        }
    }
    /// Whether the newest version of the row has this entry's key. None: its maker is rolling back. Over a row of its own (`is_own`) nobody
    /// does: another marked the entry after the snapshot, and then this transaction changed the row.
    fn tells(&self, is_own: bool) -> Option<bool> {
        let undecided = self.marked && !self.dead && !is_own;
        (!undecided).then_some(!self.marked)
    }
}

/// The secondary entry that a scan has come to.
struct EntryRead<'a> {
    layout: &'a Layout,
    secondary: &'a Secondary,
    key: &'a [u8],
    /// Length of the index key inside `key`; the row's clustered key is behind it.
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

/// What follows the look at an entry's row.
#[derive(Clone, Copy)]
enum First {
    /// The row is rewound, by what the entry said when it was read; then, only if that does not decide, one looks at the entry again.
    Rewind(Mark),
    /// One looks at the entry again, and then the row is rewound, which may take long: nothing need stay unchanged but between two looks,
    /// which are short.
    Look,
}

impl Cursor {
    /// A scan may outlive the transaction that it was begun in (HANDLER does). Its view holds purge back no longer then: what the view
    /// needs may be gone. The scan goes on with the view of the present transaction.
    pub(in crate::table) fn renew_view(&mut self, trx: &mut Trx) {
        let Some(view) = &self.view else { return };
        if !self.is_open(trx, view) {
            self.view = Some(self.open_view(trx, self.lock));
            self.drop_batch();
        }
    }

    fn is_open(&self, trx: &Trx, view: &Arc<ReadView>) -> bool {
        let open = match self.lock.by_statement_view {
            true => &trx.statement_view,
            false => &trx.view,
        };
        open.as_ref().is_some_and(|open| Arc::ptr_eq(open, view))
    }

    /// The scan goes on in another statement, behind the entry that was handed out last. That statement may read otherwise: HANDLER locks in
    /// a SERIALIZABLE transaction, and nowhere else.
    pub fn go_on_with(&mut self, trx: &mut Trx, lock: LockChoice) -> Result<()> {
        let dirty = trx.isolation == Isolation::ReadUncommitted;
        if lock == self.lock && (lock.mode.is_some() || self.view.is_none() == dirty) {
            return Ok(());
        }
        self.drop_batch();
        self.lock = lock;
        let index = self.index;
        self.with_layout(|cursor, layout| cursor.use_view(trx, layout, index, lock))
    }

    /// The usual step of a consistent scan, a part of `next` and `prev`: the entry that comes next in that direction, if it lies in
    /// the batch and is itself what the view sees. None: nothing was done. Nearly every step of a long scan ends here, so it copies nothing.
    #[inline]
    pub fn take_at_hand(&mut self, trx: &Trx, direction: Direction) -> Option<Found<'_>> {
        let goes_on = self.next < self.batch.len() && direction == self.direction && self.batch_undo == trx.undo_top;
        if !goes_on || self.lock.mode.is_some() || self.polls + 1 >= KILL_POLL {
            return None;
        }
        let view = self.view.as_ref()?;
        if !self.is_open(trx, view) {
            return None;
        }
        let (key, value) = self.batch.entry(self.next);
        let (pk_len, row_at) = if self.index == 0 {
            let header = RowHeader::read(value);
            let is_shown = header.flags & (ROW_MARKED | ROW_OVERFLOW) == 0 && view.sees(header.trx);
            is_shown.then_some((key.len(), ROW_HEADER))?
        } else {
            let layout = self.table().layout();
            let found = entry::decode(value, layout.pk_fixed_len)?;
            let entry_max = layout.index(self.index)?.tree.entry_max();
            let is_shown =
                self.covering && !found.marked && view.sees(found.stamp) && found.is_whole(entry_max, key.len());
            is_shown.then_some((found.pk_len, value.len() - found.raw.len()))?
        };
        self.polls += 1;
        self.next += 1;
        self.rows_read += 1;
        self.last_is_behind = true;
        self.taken = None;
        self.was_semi_consistent = false;
        let current = Current {
            point: false,
            covering: self.index > 0,
            pk_len,
            row: RowAt::Batch(row_at),
        };
        self.current = Some(current);
        Some(Found {
            covering: current.covering,
            key,
            pk: &key[key.len() - pk_len..],
            row: &value[row_at..],
        })
    }

    /// What `take_at_hand` left undone, before the batch goes or the long way is taken.
    pub(in crate::table) fn catch_up(&mut self) {
        if self.last_is_behind {
            self.last_is_behind = false;
            self.last.clear();
            self.last.extend_from_slice(self.batch.key(self.next - 1));
        }
    }

    pub(in crate::table) fn next_consistent(&mut self, trx: &Trx, layout: &Layout) -> Result<bool> {
        while self.step(trx, usize::MAX)? {
            let shown = match self.index {
                0 => self.show_clustered(layout)?,
                i => self.show_secondary(trx, layout, &layout.secondary[i as usize - 1])?,
            };
            if shown {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn show_clustered(&mut self, layout: &Layout) -> Result<bool> {
        let value = self.batch.value(self.next - 1);
        let header = RowHeader::read(value);
        if self.view.as_ref().is_none_or(|v| v.sees(header.trx)) {
            if header.marked() {
                return Ok(false);
            }
            return self.hand_out_batch(layout);
        }
        self.version.clear();
        self.version.extend_from_slice(value);
        let pk = std::mem::take(&mut self.last);
        let shown = match self.rewind_version(layout, &pk) {
            Ok(true) => self.hand_out_version(layout, &pk),
            nothing => nothing,
        };
        self.last = pk;
        shown
    }

    /// Rewinds `version` to what the view sees. False: no row there.
    pub(in crate::table) fn rewind_version(&mut self, layout: &Layout, pk: &[u8]) -> Result<bool> {
        self.rewind_watching(layout, pk, None)
    }

    fn rewind_watching(&mut self, layout: &Layout, pk: &[u8], watch: Option<&mut KeyWatch>) -> Result<bool> {
        match self.view.clone() {
            None => Ok(!RowHeader::read(&self.version).marked()),
            Some(view) => self.rewind_until(layout, pk, &|header| view.sees(header.trx), watch),
        }
    }

    /// Rewinds `version` to the newest version that is `enough`. False: there is none, or it is delete-marked.
    pub(in crate::table) fn rewind_until(
        &mut self,
        layout: &Layout,
        pk: &[u8],
        enough: &dyn Fn(&RowHeader) -> bool,
        watch: Option<&mut KeyWatch>,
    ) -> Result<bool> {
        let header = RowHeader::read(&self.version);
        if enough(&header) {
            return Ok(!header.marked());
        }
        let steps = Cell::new(0);
        let enough = |header: &RowHeader| {
            steps.set(steps.get() + 1);
            enough(header)
        };
        let mut stored = self.version.split_off(ROW_HEADER);
        let mut version = Version {
            table: layout.id,
            pk,
            header,
            stored: &mut stored,
        };
        let found = self.reader.versions.rewind(&enough, &mut version, watch)?;
        let header = version.header;
        self.count_steps(steps.get());
        header.write(&mut self.version);
        self.version.extend_from_slice(&stored);
        Ok(found && !header.marked())
    }

    fn show_secondary(&mut self, trx: &Trx, layout: &Layout, secondary: &Secondary) -> Result<bool> {
        let (key, value) = self.batch.entry(self.next - 1);
        let found = decode_entry(layout, value)?;
        let (pk_len, raw_at) = (found.pk_len, value.len() - found.raw.len());
        let is_enough = self.covering && found.is_whole(secondary.index.tree.entry_max(), key.len());
        let mark = Mark::of(&found);
        let user_len = key.len() - pk_len;
        if self.decides(mark) {
            if mark.marked {
                return Ok(false);
            }
            if is_enough {
                self.hand_out(true, pk_len, RowAt::Batch(raw_at));
                return Ok(true);
            }
        }
        let key = std::mem::take(&mut self.last);
        let entry = EntryRead {
            layout,
            secondary,
            key: &key,
            user_len,
        };
        let mut first = First::Rewind(mark);
        let shown = loop {
            match self.show_row_of(&entry, first) {
                Ok(Some(true)) => break self.hand_out_version(layout, entry.pk()),
                Ok(Some(false)) => break Ok(false),
                Ok(None) if trx.shared.waiter.killed() => break Err(Error::Interrupted),
                Ok(None) => first = First::Look,
                Err(e) => break Err(e),
            }
        };
        self.last = key;
        shown
    }

    /// The visible version of the entry's row in `version`, if it belongs to this entry. None: who changes the row or the entry came
    /// between, or has not ended; it is to be tried again by `First::Look`.
    fn show_row_of(&mut self, entry: &EntryRead<'_>, first: First) -> Result<Option<bool>> {
        let Some(from) = self.copy_newest_from(entry.layout, entry.pk())? else {
            return Ok(Some(false));
        };
        let is_own = self.newest_is_own();
        if let First::Rewind(mark) = first {
            if let Some(decided) = self.rewind_by_key(entry, mark)? {
                return Ok(Some(decided));
            }
        }
        // With the key of the newest version the entry tells which that is, if it is no older than our look at the row, and the row is
        // no newer: a maker who goes back to a savepoint and on again makes the same entry twice, and no row in between.
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

    /// Rewinds `version` to what the view sees, and decides by the entry's stamp, or by the key of that version, whether it belongs to the
    /// entry. None: it has the key of the newest version.
    fn rewind_by_key(&mut self, entry: &EntryRead<'_>, mark: Mark) -> Result<Option<bool>> {
        let (layout, pk) = (entry.layout, entry.pk());
        if self.decides(mark) {
            // Unmarked and visible: the row that the view sees has this key.
            let shown = self.rewind_version(layout, pk)?;
            return Ok(Some(shown && !mark.marked));
        }
        let (newest, view) = (RowHeader::read(&self.version), self.view.clone());
        let view = view.expect("without one every entry decides");
        if let Some(Answer::Version(seen, key)) = self.rewinds.get(&view, self.index, pk, &newest) {
            let is_its = key.as_deref() == Some(entry.user_key());
            if is_its {
                self.version.clone_from(seen);
            }
            return Ok(Some(is_its));
        }
        let mut watch = KeyWatch::new(entry.secondary.index.id);
        let shown = self.rewind_watching(layout, pk, Some(&mut watch))?;
        let key = match (shown, watch.key) {
            (true, None) => return Ok(None),
            (true, Some(KeyThen::Is(key))) => Some(key),
            (true, Some(KeyThen::None)) | (false, _) => None,
        };
        let is_its = key.as_deref() == Some(entry.user_key());
        let seen = &self.version;
        let answer = || Answer::Version(seen.clone(), key);
        self.rewinds.put((&view, self.index), (pk, newest), watch.steps, answer);
        Ok(Some(is_its))
    }

    /// Towards the next look whether the statement was killed: one entry may take thousands of steps.
    pub(in crate::table) fn count_steps(&mut self, steps: u32) {
        self.polls = self.polls.saturating_add(steps / STEPS_PER_POLL).min(KILL_POLL - 1);
    }

    /// What the entry says holds for the view, for that sees its stamp. Not if the reader itself killed it, going back: then it has put it in
    /// the place of what another had marked, perhaps after the view, which sees the row as it was before.
    fn decides(&self, mark: Mark) -> bool {
        let Some(view) = &self.view else { return true };
        view.sees(mark.stamp) && !(mark.dead && mark.stamp == view.own)
    }

    /// What the entry says while the row's leaf is as it was when it was copied.
    fn look_at_entry(&mut self, entry: &EntryRead<'_>, from: (PageNo, Lsn)) -> Result<Looked> {
        moment(Moment::RowOfEntryCopied);
        let (layout, index) = (entry.layout, &entry.secondary.index);
        if !change::get(&self.reader.pool, index, entry.key, &mut self.entry)? {
            return Ok(Looked::Gone);
        }
        check_not_aside(index)?;
        let now = Mark::of(&decode_entry(layout, &self.entry)?);
        let leaf = layout.clustered.tree.get(&self.reader.pool, entry.pk())?;
        let is_untouched = leaf.is_some_and(|leaf| (leaf.page_no(), leaf.version()) == from);
        Ok(if is_untouched {
            Looked::Now(now)
        } else {
            Looked::Touched
        })
    }
    /// True if the newest version, just copied, is this transaction's.
    fn newest_is_own(&self) -> bool {
        let maker = RowHeader::read(&self.version).trx;
        maker != 0 && self.view.as_ref().is_some_and(|view| maker == view.own)
    }

    /// Copies the newest version of a row to `version`, if there is one. Returns the leaf that it is in, and the leaf's version.
    pub(in crate::table) fn copy_newest_from(&mut self, layout: &Layout, pk: &[u8]) -> Result<Option<(PageNo, Lsn)>> {
        let Some(leaf) = layout.clustered.tree.get(&self.reader.pool, pk)? else {
            return Ok(None);
        };
        self.version.clear();
        self.version.extend_from_slice(leaf.value());
        Ok(Some((leaf.page_no(), leaf.version())))
    }
}

enum Looked {
    Gone,
    Now(Mark),
    /// Something in the row's leaf was changed meanwhile.
    Touched,
}
