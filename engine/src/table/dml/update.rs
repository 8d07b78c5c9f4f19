//! UPDATE of a row, and the move to another clustered key. The row is locked exclusively. Then, as
//! in `insert`, the clustered entry changes with its undo record in one Mtr, then the secondary
//! entries. All or nothing.
//!
//! Latches: as in `insert`.
use crate::base::sync::holds_no_latch;
use crate::base::Result;
use crate::btree::Intent;
use crate::index::RowHeader;
use crate::table::catalog::layout::Layout;
use crate::table::catalog::table::Table;
use crate::table::dml::change::{duplicate_mode, Attempt, LockedRow, Obstacle, RawParts, RowChange, RowWriter};
use crate::table::dml::changed_row::ChangedRow;
use crate::table::dml::references::References;
use crate::table::row::entry::{check_key, secondary, EntryKey, NewEntry};
use crate::table::row::new_row::{Entry, EntryChange, NewRow, RowUpdate};
use crate::table::row::scratch::{self, Scratch};
use crate::table::row::undo_record::{self, Touch};
use crate::txn::{LockMode, Trx};
use std::sync::atomic::{fence, Ordering};

impl RowWriter {
    /// `NotFound` when there is no such row (any more).
    pub fn update(
        &self,
        trx: &mut Trx,
        table: &Table,
        pk: &[u8],
        new_row: &[u8],
        changes: &[EntryChange<'_>],
        x_on_duplicate: bool,
    ) -> Result<()> {
        let update = RowUpdate {
            pk,
            row: new_row,
            changes,
            pk_rewritten: false,
            keeps_unindexed: false,
        };
        self.update_row(trx, table, &update, x_on_duplicate)
    }
    /// `NotFound` when there is no such row (any more).
    pub fn update_row(&self, trx: &mut Trx, table: &Table, update: &RowUpdate<'_>, x_on_duplicate: bool) -> Result<()> {
        self.change_row(trx, table, &ChangedRow::Updated(update), duplicate_mode(x_on_duplicate))?;
        let locks = self.trx_sys.locks();
        locks.leave_to_version(trx, table.layout().clustered.id, update.pk);
        self.counters.rows_updated.inc();
        table.statistics.counts.updated();
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
        let changed = ChangedRow::Moved {
            pk: old_pk,
            entries: old_entries,
            new,
        };
        self.change_row(trx, table, &changed, duplicate_mode(x_on_duplicate))?;
        self.counters.rows_updated.inc();
        Ok(())
    }

    /// False: the operation runs again.
    pub(in crate::table) fn update_steps(
        &self,
        trx: &mut Trx,
        table: &Table,
        update: &RowUpdate<'_>,
        mode: LockMode,
        references: &mut References,
    ) -> Result<bool> {
        let RowUpdate { pk, row, changes, .. } = *update;
        // Made anew for each attempt: an index may have been quarantined since.
        let change = &RowChange::new(table, pk, mode);
        let layout = change.layout;
        for c in changes {
            check_key(layout, c.index, c.new_key, pk)?;
            check_key(layout, c.index, c.old_key, pk)?;
            if c.old_key != c.new_key {
                let index = secondary(layout, c.index)?.index.id;
                self.trx_sys.locks().check_insert(trx, index, c.new_key)?;
            }
        }
        let locked = self.lock_for_change(trx, layout, pk)?;
        scratch::with(|s| {
            self.long_rows.make_value(trx, layout, pk, row, &mut s.value)?;
            self.replace_version(trx, change, changes, locked, s)?;
            for c in changes {
                let index = secondary(layout, c.index)?.index.id;
                if !self.check_references(trx, table, references, index)? {
                    return Ok(false);
                }
                self.change_entry(trx, change, c, &mut s.entry)?;
            }
            self.changes_still_free(trx, layout, changes)
        })
    }

    /// As `ranges_still_free`, for the keys that an update moves entries to.
    fn changes_still_free(&self, trx: &Trx, layout: &Layout, changes: &[EntryChange<'_>]) -> Result<bool> {
        debug_assert!(
            holds_no_latch(),
            "ranges are asked about after the change, not under its latch"
        );
        fence(Ordering::SeqCst);
        let mut free = true;
        for c in changes.iter().filter(|c| c.old_key != c.new_key) {
            let index = secondary(layout, c.index)?.index.id;
            free &= self.trx_sys.locks().insert_is_free(trx, index, c.new_key);
        }
        Ok(free)
    }

    fn replace_version(
        &self,
        trx: &mut Trx,
        change: &RowChange<'_>,
        changes: &[EntryChange<'_>],
        locked: LockedRow,
        s: &mut Scratch,
    ) -> Result<()> {
        let mut intent = Intent::Leaf;
        let mut raw_parts: Option<RawParts> = None;
        loop {
            let attempt = Attempt {
                intent,
                leaf: locked.leaf,
                raw_parts: raw_parts.as_ref(),
            };
            match self.try_replace_version(trx, change, changes, &attempt, s)? {
                None => return Ok(()),
                Some(Obstacle::Row) => self.lock_again(trx, change, locked.granted)?,
                Some(Obstacle::Room) => {
                    debug_assert_eq!(intent, Intent::Leaf, "a leaf that was split has room");
                    intent = Intent::Grow(change.pk.len() + s.value.len());
                }
                Some(Obstacle::RawParts(old)) => {
                    debug_assert!(raw_parts.is_none(), "raw parts are read once");
                    raw_parts = Some(self.raw_parts_before(trx, change, changes, old)?);
                }
                Some(Obstacle::Range) => unreachable!("no clustered key is inserted"),
            }
        }
    }

    fn try_replace_version(
        &self,
        trx: &mut Trx,
        change: &RowChange<'_>,
        changes: &[EntryChange<'_>],
        attempt: &Attempt<'_>,
        s: &mut Scratch,
    ) -> Result<Option<Obstacle>> {
        let (layout, pk, intent) = (change.layout, change.pk, attempt.intent);
        let Some((mtr, at, old)) = self.latch_current(trx, change, intent, attempt.leaf)? else {
            return Ok(Some(Obstacle::Row));
        };
        let may_need_raw_parts = old.trx == trx.id() || changes.iter().any(|c| c.old_key == c.new_key);
        if attempt.raw_parts.is_none() && !changes.is_empty() && may_need_raw_parts {
            return Ok(Some(Obstacle::RawParts(old)));
        }
        if intent == Intent::Leaf && !at.has_room(&mtr, pk.len(), s.value.len()) {
            return Ok(Some(Obstacle::Room));
        }
        let (undo, old_value) = (&mut s.undo, at.value(&mtr));
        undo_record::begin_update(undo, layout.id, pk, old_value, &s.value, changes.len());
        for (i, c) in changes.iter().enumerate() {
            let touch = Touch {
                index: layout.secondary[c.index as usize].index.id,
                old: Some(&c.old_key[..c.old_key.len() - pk.len()]),
                new: Some(&c.new_key[..c.new_key.len() - pk.len()]),
                raw: attempt.raw_parts.and_then(|r| r[i].as_deref()),
            };
            undo_record::push_touch(undo, &touch);
        }
        debug_assert!(
            attempt
                .raw_parts
                .is_none_or(|raw_parts| raw_parts.len() == changes.len()),
            "a raw part, or none, for each changed entry"
        );
        self.write_version(trx, change, mtr, &at, s)?;
        Ok(None)
    }

    /// The raw parts that a rollback will need: of an unchanged key, and of a key that this
    /// transaction removed earlier. `old`: the header of the version before. Called only while the
    /// row's lock is known to be held: an earlier read may see entries that another transaction
    /// still rolls back.
    fn raw_parts_before(
        &self,
        trx: &Trx,
        change: &RowChange<'_>,
        changes: &[EntryChange<'_>],
        old: RowHeader,
    ) -> Result<RawParts> {
        debug_assert!(
            holds_no_latch(),
            "I5: raw parts are read without the latch of the row's leaf"
        );
        let (layout, entries) = (change.layout, &self.entries);
        let keys: Vec<EntryKey<'_>> = changes.iter().map(|c| (c.index, c.new_key)).collect();
        let left = entries.left_marked(trx, layout, change.pk.len(), &keys, old)?;
        let before = |(c, left): (&EntryChange<'_>, bool)| match (c.old_key == c.new_key, left) {
            (true, _) => entries.raw_of(layout, c.index, c.new_key, None),
            (false, true) => entries.raw_of(layout, c.index, c.new_key, Some(trx.id())),
            (false, false) => Ok(None),
        };
        changes.iter().zip(left).map(before).collect()
    }

    fn change_entry(
        &self,
        trx: &mut Trx,
        change: &RowChange<'_>,
        c: &EntryChange<'_>,
        value: &mut Vec<u8>,
    ) -> Result<()> {
        let (layout, same) = (change.layout, c.old_key == c.new_key);
        if !same {
            self.entries.mark_entry(trx, layout, c.index, c.old_key)?;
        }
        let new = NewEntry {
            index: c.index,
            user_key_len: c.user_key_len as usize,
            // An unchanged key needs no unique check: its value is the row's own.
            unique_check: !c.has_null && !same,
            key: c.new_key,
            raw: c.new_value,
        };
        self.entries
            .put_entry(trx, layout, &new, change.pk.len(), change.mode, value)
    }
}
