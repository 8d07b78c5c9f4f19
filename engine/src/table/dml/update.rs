//! UPDATE and DELETE of a row, and the move to another clustered key. The row is locked exclusively first; then as in `insert`:
//! the clustered entry with its undo record in one Mtr, then the secondary entries; all or nothing.
use crate::base::{Error, PageNo, Result};
use crate::btree::Intent;
use crate::change::{self, Op};
use crate::index::{RowHeader, ROW_HEADER, ROW_MARKED};
use crate::table::catalog::table::{Layout, Table};
use crate::table::dml::insert::{duplicate_mode, Obstacle, Raws};
use crate::table::dml::row_lock::Locked;
use crate::table::dml::scratch::{self, Scratch};
use crate::table::dml::secondary::{EntryKey, NewEntry};
use crate::table::store::{Entry, EntryChange, NewRow, Store};
use crate::table::undo::record::{self, Touch};
use crate::txn::{Granted, LockMode, LockPolicy, Trx};
use std::sync::atomic::{fence, Ordering};

/// A row that is going to be changed: how its lock was had, and the leaf where the transaction has just seen it.
#[derive(Clone, Copy)]
struct Hold {
    granted: Granted,
    leaf: Option<PageNo>,
}

impl Store {
    /// `NotFound` when the row is not (any more) there.
    pub fn update(
        &self,
        trx: &mut Trx,
        table: &Table,
        pk: &[u8],
        new_row: &[u8],
        changes: &[EntryChange<'_>],
        x_on_duplicate: bool,
    ) -> Result<()> {
        let mode = duplicate_mode(x_on_duplicate);
        self.change_rows(trx, &mut |trx| {
            self.update_steps(trx, table, pk, new_row, changes, mode)?;
            self.changes_still_free(trx, table.layout(), changes)
        })?;
        let locks = self.trx_sys.locks();
        locks.leave_to_version(trx, table.layout().clustered.id, pk);
        self.counters.rows_updated.inc();
        table.statistics.counts.updated();
        Ok(())
    }

    pub fn delete(&self, trx: &mut Trx, table: &Table, pk: &[u8], entries: &[Entry<'_>]) -> Result<()> {
        self.change_rows(trx, &mut |trx| {
            self.delete_steps(trx, table, pk, entries).map(|()| true)
        })?;
        let locks = self.trx_sys.locks();
        locks.leave_to_version(trx, table.layout().clustered.id, pk);
        self.counters.rows_deleted.inc();
        Ok(())
    }

    /// The clustered key changes: the old row is deleted, the new one inserted.
    pub fn move_row(
        &self,
        trx: &mut Trx,
        table: &Table,
        old_pk: &[u8],
        old_entries: &[Entry<'_>],
        new: &NewRow<'_>,
        x_on_duplicate: bool,
    ) -> Result<()> {
        self.change_rows(trx, &mut |trx| {
            self.delete_steps(trx, table, old_pk, old_entries)?;
            self.insert_steps(trx, table, new, x_on_duplicate)?;
            self.ranges_still_free(trx, table.layout(), new)
        })?;
        self.counters.rows_updated.inc();
        Ok(())
    }

    fn update_steps(
        &self,
        trx: &mut Trx,
        table: &Table,
        pk: &[u8],
        new_row: &[u8],
        changes: &[EntryChange<'_>],
        mode: LockMode,
    ) -> Result<()> {
        let layout = table.layout();
        for c in changes {
            self.check_key(layout, c.index, c.new_key, pk)?;
            self.check_key(layout, c.index, c.old_key, pk)?;
            if c.old_key != c.new_key {
                let index = self.secondary(layout, c.index)?.index.id;
                self.trx_sys.locks().check_insert(trx, index, c.new_key)?;
            }
        }
        let hold = self.lock_for_change(trx, layout, pk)?;
        scratch::with(|s| {
            self.make_value(trx, layout, pk, new_row, &mut s.value)?;
            self.replace_version(trx, table, layout, pk, changes, hold, s)?;
            for c in changes {
                self.change_entry(trx, layout, c, pk.len(), mode, &mut s.entry)?;
            }
            Ok(())
        })
    }

    /// As `ranges_still_free`, for the keys that an update moves entries to.
    fn changes_still_free(&self, trx: &Trx, layout: &Layout, changes: &[EntryChange<'_>]) -> Result<bool> {
        fence(Ordering::SeqCst);
        let mut free = true;
        for c in changes.iter().filter(|c| c.old_key != c.new_key) {
            let index = self.secondary(layout, c.index)?.index.id;
            free &= self.trx_sys.locks().insert_is_free(trx, index, c.new_key);
        }
        Ok(free)
    }

    /// The row's exclusive lock, the ordinary case without looking at the row: the Mtr that follows does.
    fn lock_for_change(&self, trx: &mut Trx, layout: &Layout, pk: &[u8]) -> Result<Hold> {
        let index = layout.clustered.id;
        let leaf = trx.take_found(index, pk);
        let granted = match leaf {
            Some(_) => Granted::Held,
            None => {
                let locks = self.trx_sys.locks();
                locks.lock(trx, index, pk, LockMode::Exclusive, LockPolicy::Wait)?
            }
        };
        Ok(Hold { granted, leaf })
    }

    #[allow(clippy::too_many_arguments)]
    fn replace_version(
        &self,
        trx: &mut Trx,
        table: &Table,
        layout: &Layout,
        pk: &[u8],
        changes: &[EntryChange<'_>],
        hold: Hold,
        s: &mut Scratch,
    ) -> Result<()> {
        let mut intent = Intent::Leaf;
        let mut raws = None;
        loop {
            match self.try_replace_version(trx, table, layout, pk, changes, (intent, hold.leaf), raws.as_ref(), s)? {
                None => return Ok(()),
                Some(Obstacle::Row) => self.lock_again(trx, layout, pk, hold.granted)?,
                Some(Obstacle::Room) => intent = Intent::Grow(pk.len() + s.value.len()),
                Some(Obstacle::Raws(old)) => raws = Some(self.raws_before(trx, layout, pk.len(), changes, old)?),
                Some(Obstacle::Range) => unreachable!("no clustered key is inserted"),
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn try_replace_version(
        &self,
        trx: &mut Trx,
        table: &Table,
        layout: &Layout,
        pk: &[u8],
        changes: &[EntryChange<'_>],
        (intent, leaf): (Intent, Option<PageNo>),
        raws: Option<&Raws>,
        s: &mut Scratch,
    ) -> Result<Option<Obstacle>> {
        let tree = &layout.clustered.tree;
        let mut mtr = self.pool.begin();
        let at = tree.leaf_for_write(&mut mtr, pk, intent, leaf)?;
        if !at.found {
            return Ok(Some(Obstacle::Row));
        }
        let old = RowHeader::read(at.value(&mtr));
        if old.marked() || self.made_by_other_active(trx, &old) {
            return Ok(Some(Obstacle::Row));
        }
        self.check_conflict(trx, old.trx)?;
        let may_need_raws = old.trx == trx.id() || changes.iter().any(|c| c.old_key == c.new_key);
        if raws.is_none() && !changes.is_empty() && may_need_raws {
            return Ok(Some(Obstacle::Raws(old)));
        }
        if intent == Intent::Leaf && !at.has_room(&mtr, pk.len(), s.value.len()) {
            return Ok(Some(Obstacle::Room));
        }
        record::begin_update(&mut s.undo, layout.id, pk, at.value(&mtr), &s.value, changes.len());
        for (i, c) in changes.iter().enumerate() {
            let touch = Touch {
                index: layout.secondary[c.index as usize].index.id,
                old: Some(&c.old_key[..c.old_key.len() - pk.len()]),
                new: Some(&c.new_key[..c.new_key.len() - pk.len()]),
                raw: raws.and_then(|r| r[i].as_deref()),
            };
            record::push_touch(&mut s.undo, &touch);
        }
        self.write_version(trx, table, layout, mtr, &at, pk, s)?;
        Ok(None)
    }

    /// Raw parts that a rollback will need: of a key that stays, and of a key that this transaction left earlier. `old`: the header of the
    /// version before. The row is locked, and that it is has been seen: what is read before that may be what another takes back.
    fn raws_before(
        &self,
        trx: &Trx,
        layout: &Layout,
        pk_len: usize,
        changes: &[EntryChange<'_>],
        old: RowHeader,
    ) -> Result<Raws> {
        let keys: Vec<EntryKey<'_>> = changes.iter().map(|c| (c.index, c.new_key)).collect();
        let left = self.left_marked(trx, layout, pk_len, &keys, old)?;
        let before = |(c, left): (&EntryChange<'_>, bool)| match (c.old_key == c.new_key, left) {
            (true, _) => self.raw_of(layout, c.index, c.new_key, None),
            (false, true) => self.raw_of(layout, c.index, c.new_key, Some(trx.id())),
            (false, false) => Ok(None),
        };
        changes.iter().zip(left).map(before).collect()
    }

    /// The lock turned out to be about nothing: queues behind the row's maker; `NotFound` when no row is left.
    fn lock_again(&self, trx: &mut Trx, layout: &Layout, pk: &[u8], granted: Granted) -> Result<()> {
        self.unlock_if_new(trx, layout, pk, granted);
        match self.lock_row(trx, layout, pk, LockMode::Exclusive, LockPolicy::Wait, &mut |_| ())? {
            Locked::Row(..) => Ok(()),
            Locked::Gone(Some(header)) => {
                self.check_conflict(trx, header.trx)?;
                Err(Error::NotFound)
            }
            Locked::Gone(None) => Err(Error::NotFound),
        }
    }

    fn change_entry(
        &self,
        trx: &mut Trx,
        layout: &Layout,
        c: &EntryChange<'_>,
        pk_len: usize,
        mode: LockMode,
        value: &mut Vec<u8>,
    ) -> Result<()> {
        let same = c.old_key == c.new_key;
        if !same {
            self.mark_entry(trx, layout, c.index, c.old_key)?;
        }
        let new = NewEntry {
            index: c.index,
            user_key_len: c.user_key_len as usize,
            // The value is its own already where the key stays.
            unique_check: !c.has_null && !same,
            key: c.new_key,
            raw: c.new_value,
        };
        self.put_entry(trx, layout, &new, pk_len, mode, value)
    }

    fn delete_steps(&self, trx: &mut Trx, table: &Table, pk: &[u8], entries: &[Entry<'_>]) -> Result<()> {
        let layout = table.layout();
        for e in entries {
            self.check_key(layout, e.index, e.key, pk)?;
        }
        let hold = self.lock_for_change(trx, layout, pk)?;
        scratch::with(|s| {
            while let Some(obstacle) = self.try_mark_row(trx, layout, pk, entries, hold.leaf, s)? {
                assert!(matches!(obstacle, Obstacle::Row), "a mark needs no room");
                self.lock_again(trx, layout, pk, hold.granted)?;
            }
            table.statistics.counts.deleted(1);
            for e in entries {
                self.mark_entry(trx, layout, e.index, e.key)?;
            }
            Ok(())
        })
    }

    fn try_mark_row(
        &self,
        trx: &mut Trx,
        layout: &Layout,
        pk: &[u8],
        entries: &[Entry<'_>],
        leaf: Option<PageNo>,
        s: &mut Scratch,
    ) -> Result<Option<Obstacle>> {
        let tree = &layout.clustered.tree;
        let mut mtr = self.pool.begin();
        let at = tree.leaf_for_write(&mut mtr, pk, Intent::Leaf, leaf)?;
        if !at.found {
            return Ok(Some(Obstacle::Row));
        }
        let old = RowHeader::read(at.value(&mtr));
        if old.marked() || self.made_by_other_active(trx, &old) {
            return Ok(Some(Obstacle::Row));
        }
        self.check_conflict(trx, old.trx)?;
        record::begin_delete(&mut s.undo, layout.id, pk, at.value(&mtr), entries.len());
        for e in entries {
            let touch = Touch {
                index: layout.secondary[e.index as usize].index.id,
                old: Some(&e.key[..e.key.len() - pk.len()]),
                new: None,
                raw: None,
            };
            record::push_touch(&mut s.undo, &touch);
        }
        let undo = self.trx_sys.append_undo(trx, &mut mtr, &s.undo)?;
        let mut header = [0; ROW_HEADER];
        RowHeader {
            flags: old.flags | ROW_MARKED,
            trx: trx.id(),
            undo,
        }
        .write(&mut header);
        at.patch_value(&mut mtr, 0, &header);
        trx.note_lsn(mtr.commit());
        Ok(None)
    }

    /// Rollback and purge: one blind operation on a secondary index that may have been dropped since.
    pub(in crate::table) fn submit_if_there(&self, layout: &Layout, index: u32, op: Op<'_>) -> Result<()> {
        match layout.secondary_by_id(index) {
            Some(s) if !s.aside => change::submit(&self.pool, &s.index, op).map(|_| ()),
            _ => Ok(()),
        }
    }
}
