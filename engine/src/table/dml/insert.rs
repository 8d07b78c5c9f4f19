//! INSERT of a row: the clustered entry with its undo record in one Mtr, then each secondary entry.
//! All or nothing: a step that fails rolls back to the savepoint taken at the start.
//!
//! Latches: the clustered leaf (X), then the undo page, then the file's header page. Row locks are
//! waited for before.
use crate::base::sync::holds_no_latch;
use crate::base::{sync_point, Error, Result, SyncPoint};
use crate::btree::Intent;
use crate::index::RowHeader;
use crate::table::catalog::layout::Layout;
use crate::table::catalog::table::Table;
use crate::table::dml::change::{duplicate_mode, Attempt, Obstacle, RawParts, RowChange, RowWriter};
use crate::table::dml::changed_row::ChangedRow;
use crate::table::dml::references::References;
use crate::table::row::entry::{check_key, check_key_len, secondary, EntryKey, NewEntry};
use crate::table::row::new_row::NewRow;
use crate::table::row::row_lock::Locked;
use crate::table::row::scratch::{self, Scratch};
use crate::table::row::snapshot::check_conflict;
use crate::table::row::undo_record::{self, Touch};
use crate::txn::{LockMode, LockPolicy, Trx};

impl RowWriter {
    /// An insert that changes the row it meets: that row is locked exclusively when the result is
    /// `Duplicate`. A table that is younger than the snapshot is refused, because it may lack a row
    /// that the snapshot has.
    pub fn insert_replacing(&self, trx: &mut Trx, table: &Table, new: &NewRow<'_>) -> Result<()> {
        self.snapshots.check_not_younger(trx, table.layout(), 0)?;
        self.insert(trx, table, new, true)
    }
    /// `x_on_duplicate`: if the result is `Duplicate`, the existing row is locked exclusively, else
    /// shared.
    pub fn insert(&self, trx: &mut Trx, table: &Table, new: &NewRow<'_>, x_on_duplicate: bool) -> Result<()> {
        let changed = ChangedRow::Inserted(new);
        self.change_row(trx, table, &changed, duplicate_mode(x_on_duplicate))?;
        self.counters.rows_inserted.inc();
        Ok(())
    }

    /// False: the operation runs again.
    pub(in crate::table) fn insert_steps(
        &self,
        trx: &mut Trx,
        table: &Table,
        new: &NewRow<'_>,
        mode: LockMode,
        references: &mut References,
    ) -> Result<bool> {
        let NewRow { pk, row, entries } = *new;
        let change = RowChange::new(table, pk, mode);
        let layout = change.layout;
        check_key_len(&layout.clustered, pk, 0)?;
        for e in entries {
            check_key(layout, e.index, e.key, pk)?;
        }
        self.check_ranges(trx, layout, new)?;
        scratch::with(|s| {
            if !self.check_references(trx, table, references, layout.clustered.id)? {
                return Ok(false);
            }
            self.long_rows.make_value(trx, layout, pk, row, &mut s.value)?;
            self.place_row(trx, &change, new, s)?;
            for e in entries {
                let index = secondary(layout, e.index)?.index.id;
                if !self.check_references(trx, table, references, index)? {
                    return Ok(false);
                }
                let entry = NewEntry {
                    index: e.index,
                    user_key_len: e.user_key_len as usize,
                    unique_check: !e.has_null,
                    key: e.key,
                    raw: e.value,
                };
                self.entries
                    .put_entry(trx, layout, &entry, pk.len(), change.mode, &mut s.entry)?;
            }
            self.ranges_still_free(trx, layout, new)
        })
    }

    /// Waits for readers that have locked the ranges of the row's keys.
    fn check_ranges(&self, trx: &mut Trx, layout: &Layout, new: &NewRow<'_>) -> Result<()> {
        let locks = self.trx_sys.locks();
        locks.check_insert(trx, layout.clustered.id, new.pk)?;
        for e in new.entries {
            locks.check_insert(trx, secondary(layout, e.index)?.index.id, e.key)?;
        }
        Ok(())
    }

    fn place_row(&self, trx: &mut Trx, change: &RowChange<'_>, new: &NewRow<'_>, s: &mut Scratch) -> Result<()> {
        let (layout, pk) = (change.layout, change.pk);
        let mut intent = Intent::Leaf;
        let mut raw_parts: Option<RawParts> = None;
        loop {
            let attempt = Attempt {
                intent,
                leaf: None,
                raw_parts: raw_parts.as_ref(),
            };
            match self.try_place_row(trx, change, new, &attempt, s)? {
                None => break,
                Some(Obstacle::Row) => self.meet_row(trx, change)?,
                Some(Obstacle::Room) => {
                    debug_assert_eq!(intent, Intent::Leaf, "a leaf that was split has room");
                    intent = Intent::Grow(pk.len() + s.value.len());
                }
                Some(Obstacle::RawParts(own)) => {
                    debug_assert!(raw_parts.is_none(), "raw parts are read once");
                    raw_parts = Some(self.raw_parts_left(trx, layout, new, own)?);
                }
                Some(Obstacle::Range) => self.trx_sys.locks().check_insert(trx, layout.clustered.id, pk)?,
            }
        }
        change.table.statistics.counts.inserted(1);
        Ok(())
    }

    /// One Mtr: the undo record and the entry, or nothing and the obstacle.
    fn try_place_row(
        &self,
        trx: &mut Trx,
        change: &RowChange<'_>,
        new: &NewRow<'_>,
        attempt: &Attempt<'_>,
        s: &mut Scratch,
    ) -> Result<Option<Obstacle>> {
        let (table, layout, intent) = (change.table, change.layout, attempt.intent);
        let NewRow { pk, entries, .. } = *new;
        let tree = &layout.clustered.tree;
        let (mtr, at) = loop {
            let hint = table.append_hint.recall();
            sync_point(SyncPoint::AppendHintRead);
            let mut mtr = self.pool.begin();
            let at = tree.leaf_for_write(&mut mtr, pk, intent, hint.leaf())?;
            if table.append_hint.holds(hint) {
                let ends = at.is_at_end(&mtr);
                table.append_hint.note(hint, if ends { mtr.id(at.page).no } else { 0 });
                break (mtr, at);
            }
        };
        if at.found {
            let old = RowHeader::read(at.value(&mtr));
            if !old.marked() || self.locks.made_by_other_active(trx, &old) {
                return Ok(Some(Obstacle::Row));
            }
            check_conflict(trx, old.trx)?;
            if old.trx == trx.id() && attempt.raw_parts.is_none() && !entries.is_empty() {
                return Ok(Some(Obstacle::RawParts(old)));
            }
        }
        // Under the latch: a load first locks all keys, and then checks whether the table is empty.
        if !self.trx_sys.locks().insert_is_free(trx, layout.clustered.id, pk) {
            return Ok(Some(Obstacle::Range));
        }
        if intent == Intent::Leaf && !at.has_room(&mtr, pk.len(), s.value.len()) {
            return Ok(Some(Obstacle::Room));
        }
        let undo = &mut s.undo;
        if at.found {
            undo_record::begin_update(undo, layout.id, pk, at.value(&mtr), &s.value, entries.len());
        } else {
            undo_record::begin_insert(undo, layout.id, pk, entries.len());
        }
        for (i, e) in entries.iter().enumerate() {
            let touch = Touch {
                index: layout.secondary[e.index as usize].index.id,
                old: None,
                new: Some(&e.key[..e.key.len() - pk.len()]),
                raw: attempt.raw_parts.and_then(|r| r[i].as_deref()),
            };
            undo_record::push_touch(undo, &touch);
        }
        debug_assert!(
            attempt
                .raw_parts
                .is_none_or(|raw_parts| raw_parts.len() == entries.len()),
            "a raw part, or none, for each entry"
        );
        self.write_version(trx, change, mtr, &at, s)?;
        Ok(None)
    }

    /// A row with the same clustered key exists: waits for its lock. `Duplicate` if the row stays.
    fn meet_row(&self, trx: &mut Trx, change: &RowChange<'_>) -> Result<()> {
        let (layout, pk, mode) = (change.layout, change.pk, change.mode);
        match self
            .locks
            .lock_row(trx, layout, pk, mode, LockPolicy::Wait, &mut |_| ())?
        {
            Locked::Row(..) => Err(Error::Duplicate {
                index: 0,
                pk: pk.to_vec(),
            }),
            Locked::Gone(_) => Ok(()),
        }
    }

    fn raw_parts_left(&self, trx: &Trx, layout: &Layout, new: &NewRow<'_>, own: RowHeader) -> Result<RawParts> {
        debug_assert!(
            holds_no_latch(),
            "I5: raw parts are read without the latch of the row's leaf"
        );
        debug_assert_eq!(
            own.trx,
            trx.id(),
            "a transaction looks for entries that it has left itself"
        );
        let keys: Vec<EntryKey<'_>> = new.entries.iter().map(|e| (e.index, e.key)).collect();
        let left = self.entries.left_marked(trx, layout, new.pk.len(), &keys, own)?;
        let raw_parts = keys.iter().zip(left).map(|((index, key), left)| match left {
            true => self.entries.raw_of(layout, *index, key, Some(trx.id())),
            false => Ok(None),
        });
        raw_parts.collect()
    }
}
