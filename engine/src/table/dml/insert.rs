//! INSERT of a row: the clustered entry with its undo record in one Mtr, then each secondary entry. All or nothing: a step that
//! fails rolls back to the savepoint taken at the start.
//!
//! Latches: the clustered leaf (X), then the undo page, then the file's header page; row locks are waited for before.
use crate::base::bytes::get_u64;
use crate::base::{sync_point, Error, Result, SyncPoint};
use crate::btree::{Intent, LeafWrite, Placed};
use crate::index::{RowHeader, ROW_HEADER};
use crate::pool::Mtr;
use crate::space;
use crate::table::catalog::table::{Layout, Table};
use crate::table::dml::row_lock::Locked;
use crate::table::dml::scratch::{self, Scratch};
use crate::table::dml::secondary::{check_key_len, EntryKey, NewEntry};
use crate::table::store::{NewRow, Store};
use crate::table::undo::record::{self, Touch};
use crate::txn::{LockMode, LockPolicy, Trx};
use std::sync::atomic::{fence, Ordering};

/// Raw parts of entries that this transaction left marked earlier, one per entry (see [`Touch::raw`]).
pub(in crate::table) type Raws = Vec<Option<Vec<u8>>>;

/// What stood in the way of placing a clustered entry; nothing was changed.
pub(in crate::table) enum Obstacle {
    /// A row that is there, or whose maker is active.
    Row,
    /// No room in the leaf.
    Room,
    /// The raw parts of entries are needed first; the version before, which is locked, has this header.
    Raws(RowHeader),
    /// Somebody else's range lock.
    Range,
}

impl Store {
    /// An insert that changes the row it meets: that is locked exclusively when the result is `Duplicate`. A table that is younger than the
    /// snapshot is refused, for it may lack a row that the snapshot has.
    pub fn insert_replacing(&self, trx: &mut Trx, table: &Table, new: &NewRow<'_>) -> Result<()> {
        self.check_not_younger(trx, table.layout(), 0)?;
        self.insert(trx, table, new, true)
    }
    /// `x_on_duplicate`: how the row in the way is locked (exclusive, else shared) when the result is `Duplicate`.
    pub fn insert(&self, trx: &mut Trx, table: &Table, new: &NewRow<'_>, x_on_duplicate: bool) -> Result<()> {
        self.change_rows(trx, &mut |trx| {
            self.insert_steps(trx, table, new, x_on_duplicate)?;
            self.ranges_still_free(trx, table.layout(), new)
        })?;
        self.counters.rows_inserted.inc();
        Ok(())
    }

    /// Runs the steps of one row operation. Failed steps leave nothing behind; steps that say `false` are undone and taken again.
    pub(in crate::table) fn change_rows(
        &self,
        trx: &mut Trx,
        steps: &mut dyn FnMut(&mut Trx) -> Result<bool>,
    ) -> Result<()> {
        loop {
            self.begin_change(trx)?;
            let savepoint = trx.undo_top();
            let result = steps(trx);
            if result == Ok(true) {
                return Ok(());
            }
            match result {
                Ok(_) => self.take_back(trx, savepoint)?,
                Err(_) => self.rollback_to(trx, savepoint)?,
            }
            result?;
        }
    }

    /// False: a reader who locks gaps locked a range around a new entry between our check and our change. He locks first and reads then; we
    /// change first and look then; so one of the two meets the other.
    pub(in crate::table) fn ranges_still_free(&self, trx: &Trx, layout: &Layout, new: &NewRow<'_>) -> Result<bool> {
        fence(Ordering::SeqCst);
        let locks = self.trx_sys.locks();
        let mut free = locks.insert_is_free(trx, layout.clustered.id, new.pk);
        for e in new.entries {
            free &= locks.insert_is_free(trx, self.secondary(layout, e.index)?.index.id, e.key);
        }
        Ok(free)
    }

    pub(in crate::table) fn insert_steps(
        &self,
        trx: &mut Trx,
        table: &Table,
        new: &NewRow<'_>,
        x_on_duplicate: bool,
    ) -> Result<()> {
        let layout = table.layout();
        let NewRow { pk, row, entries } = *new;
        let mode = duplicate_mode(x_on_duplicate);
        check_key_len(&layout.clustered, pk, 0)?;
        for e in entries {
            self.check_key(layout, e.index, e.key, pk)?;
        }
        self.check_ranges(trx, layout, new)?;
        scratch::with(|s| {
            self.make_value(trx, layout, pk, row, &mut s.value)?;
            self.place_row(trx, table, layout, new, mode, s)?;
            for e in entries {
                let entry = NewEntry {
                    index: e.index,
                    user_key_len: e.user_key_len as usize,
                    unique_check: !e.has_null,
                    key: e.key,
                    raw: e.value,
                };
                self.put_entry(trx, layout, &entry, pk.len(), mode, &mut s.entry)?;
            }
            Ok(())
        })
    }

    /// Waits for readers who have locked the ranges that the row falls into.
    fn check_ranges(&self, trx: &mut Trx, layout: &Layout, new: &NewRow<'_>) -> Result<()> {
        let locks = self.trx_sys.locks();
        locks.check_insert(trx, layout.clustered.id, new.pk)?;
        for e in new.entries {
            locks.check_insert(trx, self.secondary(layout, e.index)?.index.id, e.key)?;
        }
        Ok(())
    }

    fn place_row(
        &self,
        trx: &mut Trx,
        table: &Table,
        layout: &Layout,
        new: &NewRow<'_>,
        mode: LockMode,
        s: &mut Scratch,
    ) -> Result<()> {
        let pk = new.pk;
        let mut intent = Intent::Leaf;
        let mut raws: Option<Raws> = None;
        loop {
            match self.try_place_row(trx, table, layout, new, intent, raws.as_ref(), s)? {
                None => break,
                Some(Obstacle::Row) => self.meet_row(trx, layout, pk, mode)?,
                Some(Obstacle::Room) => intent = Intent::Grow(pk.len() + s.value.len()),
                Some(Obstacle::Raws(own)) => raws = Some(self.raws_left(trx, layout, new, own)?),
                Some(Obstacle::Range) => self.trx_sys.locks().check_insert(trx, layout.clustered.id, pk)?,
            }
        }
        table.statistics.counts.inserted(1);
        Ok(())
    }

    /// One Mtr: the undo record and the entry, or nothing and what is in the way.
    #[allow(clippy::too_many_arguments)]
    fn try_place_row(
        &self,
        trx: &mut Trx,
        table: &Table,
        layout: &Layout,
        new: &NewRow<'_>,
        intent: Intent,
        raws: Option<&Raws>,
        s: &mut Scratch,
    ) -> Result<Option<Obstacle>> {
        let NewRow { pk, entries, .. } = *new;
        let tree = &layout.clustered.tree;
        let (mtr, at) = loop {
            let rising = table.rising();
            sync_point(SyncPoint::AppendHintRead);
            let mut mtr = self.pool.begin();
            let at = tree.leaf_for_write(&mut mtr, pk, intent, rising.leaf())?;
            if table.is_still_rising(rising) {
                let ends = at.is_at_end(&mtr);
                table.note_rising(rising, if ends { mtr.id(at.page).no } else { 0 });
                break (mtr, at);
            }
        };
        if at.found {
            let old = RowHeader::read(at.value(&mtr));
            if !old.marked() || self.made_by_other_active(trx, &old) {
                return Ok(Some(Obstacle::Row));
            }
            self.check_conflict(trx, old.trx)?;
            if old.trx == trx.id() && raws.is_none() && !entries.is_empty() {
                return Ok(Some(Obstacle::Raws(old)));
            }
        }
        // Under the latch: a load locks all keys first and looks then whether the table is empty.
        if !self.trx_sys.locks().insert_is_free(trx, layout.clustered.id, pk) {
            return Ok(Some(Obstacle::Range));
        }
        if intent == Intent::Leaf && !at.has_room(&mtr, pk.len(), s.value.len()) {
            return Ok(Some(Obstacle::Room));
        }
        if at.found {
            record::begin_update(&mut s.undo, layout.id, pk, at.value(&mtr), &s.value, entries.len());
        } else {
            record::begin_insert(&mut s.undo, layout.id, pk, entries.len());
        }
        for (i, e) in entries.iter().enumerate() {
            let touch = Touch {
                index: layout.secondary[e.index as usize].index.id,
                old: None,
                new: Some(&e.key[..e.key.len() - pk.len()]),
                raw: raws.and_then(|r| r[i].as_deref()),
            };
            record::push_touch(&mut s.undo, &touch);
        }
        self.write_version(trx, table, layout, mtr, &at, pk, s)?;
        Ok(None)
    }

    /// Ends the Mtr of a row change: undo record, new version, AUTO_INCREMENT. Room was checked, or the intent is Grow.
    #[allow(clippy::too_many_arguments)]
    pub(in crate::table) fn write_version(
        &self,
        trx: &mut Trx,
        table: &Table,
        layout: &Layout,
        mut mtr: Mtr<'_>,
        at: &LeafWrite,
        pk: &[u8],
        s: &mut Scratch,
    ) -> Result<()> {
        let undo = self.trx_sys.append_undo(trx, &mut mtr, &s.undo)?;
        let header = RowHeader {
            flags: s.value[0],
            trx: trx.id(),
            undo,
        };
        header.write(&mut s.value[..ROW_HEADER]);
        let placed = if at.found {
            at.set_value(&mut mtr, &s.value)
        } else {
            at.insert(&mut mtr, pk, &s.value)
        };
        assert_ne!(placed, Ok(Placed::NoRoom), "room was checked under this latch");
        // With `placed` an error, the undo record is about a version that never was: the rollback sees that the row
        // does not point at it.
        let saved = placed.and_then(|_| self.save_autoinc(table, layout, &mut mtr));
        trx.note_lsn(mtr.commit());
        table.autoinc_is_saved(saved?);
        Ok(())
    }

    /// Writes a raised AUTO_INCREMENT counter into the file's header, in the row's own Mtr. Returns what the header holds then, for
    /// [`Table::autoinc_is_saved`] once the Mtr is committed; 0 if it was not looked at.
    pub(in crate::table) fn save_autoinc(&self, table: &Table, layout: &Layout, mtr: &mut Mtr<'_>) -> Result<u64> {
        let next = table.autoinc.load(Ordering::Relaxed);
        if next <= table.autoinc_saved.load(Ordering::Acquire) {
            return Ok(0);
        }
        let header = space::header(mtr, layout.id)?;
        // Under the page's latch, so that the counter on disk never goes back.
        let saved = get_u64(mtr.bytes(header), space::AUTOINC_OFFSET);
        let next = table.autoinc.load(Ordering::Relaxed);
        if next > saved {
            mtr.edit_u64(header, space::AUTOINC_OFFSET, next);
            sync_point(SyncPoint::CounterWritten);
        }
        Ok(next.max(saved))
    }

    /// A row with the same clustered key: waits for whoever holds it; `Duplicate` if it stays.
    fn meet_row(&self, trx: &mut Trx, layout: &Layout, pk: &[u8], mode: LockMode) -> Result<()> {
        match self.lock_row(trx, layout, pk, mode, LockPolicy::Wait, &mut |_| ())? {
            Locked::Row(..) => Err(Error::Duplicate {
                index: 0,
                pk: pk.to_vec(),
            }),
            Locked::Gone(_) => Ok(()),
        }
    }

    fn raws_left(&self, trx: &Trx, layout: &Layout, new: &NewRow<'_>, own: RowHeader) -> Result<Raws> {
        let keys: Vec<EntryKey<'_>> = new.entries.iter().map(|e| (e.index, e.key)).collect();
        let left = self.left_marked(trx, layout, new.pk.len(), &keys, own)?;
        let raws = keys.iter().zip(left).map(|((index, key), left)| match left {
            true => self.raw_of(layout, *index, key, Some(trx.id())),
            false => Ok(None),
        });
        raws.collect()
    }
}

pub(in crate::table) fn duplicate_mode(x_on_duplicate: bool) -> LockMode {
    if x_on_duplicate {
        LockMode::Exclusive
    } else {
        LockMode::Shared
    }
}
