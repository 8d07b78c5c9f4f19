//! [`RowChange`]: one change of a row, as the steps of insert, update and delete see it.
//! [`RowWriter`] runs such steps. Steps that fail are rolled back to where they began.
//!
//! Latches: the clustered leaf (X), then the undo page, then the file's header page. Row locks are
//! waited for before any latch is taken. Called by `insert`, `update`, `delete`, and by loads.
use crate::base::sync::holds_no_latch;
use crate::base::{Counters, Error, PageNo, Result, TrxId};
use crate::btree::{Intent, LeafWrite, Placed};
use crate::index::{RowHeader, ROW_HEADER, ROW_MARKED};
use crate::pool::{Mtr, Pool};
use crate::redo::Redo;
use crate::table::catalog::layout::Layout;
use crate::table::catalog::table::Table;
use crate::table::row::autoinc::save_autoinc;
use crate::table::row::child_search::ChildSearch;
use crate::table::row::entry::secondary;
use crate::table::row::new_row::NewRow;
use crate::table::row::overflow_row::LongRows;
use crate::table::row::parent_check::ParentCheck;
use crate::table::row::row_lock::{Locked, RowLocks};
use crate::table::row::scratch::Scratch;
use crate::table::row::secondary::EntryWriter;
use crate::table::row::snapshot::{check_conflict, Snapshots};
use crate::table::row::undo_record::{Record, What};
use crate::table::undo::rollback::Rollback;
use crate::txn::{Granted, LockMode, LockPolicy, Trx, TrxSys};
use std::sync::atomic::{fence, Ordering};
use std::sync::Arc;

/// Inserts, updates and deletes rows.
pub struct RowWriter {
    pub(in crate::table) pool: Arc<Pool>,
    pub(in crate::table) redo: Arc<Redo>,
    pub(in crate::table) trx_sys: Arc<TrxSys>,
    pub(in crate::table) counters: Arc<Counters>,
    pub(in crate::table) locks: RowLocks,
    pub(in crate::table) snapshots: Snapshots,
    pub(in crate::table) long_rows: LongRows,
    pub(in crate::table) entries: EntryWriter,
    pub(in crate::table) rollback: Arc<Rollback>,
    pub(in crate::table) parents: ParentCheck,
    pub(in crate::table) children: ChildSearch,
}

/// The row that is being changed.
#[derive(Clone, Copy)]
pub(in crate::table) struct RowChange<'a> {
    pub table: &'a Table,
    pub layout: &'a Layout,
    /// Clustered key.
    pub pk: &'a [u8],
    /// How a row in the way is locked before `Duplicate`.
    pub mode: LockMode,
}

impl<'a> RowChange<'a> {
    pub fn new(table: &'a Table, pk: &'a [u8], mode: LockMode) -> RowChange<'a> {
        RowChange {
            table,
            layout: table.layout(),
            pk,
            mode,
        }
    }
}

/// For each entry of a change, in order: its raw part before the change, as the undo record takes
/// it (`Touch::raw`). (The raw part is the bytes of columns that cannot be decoded from the
/// entry's key.) None: a rollback does not need it.
pub(in crate::table) type RawParts = Vec<Option<Vec<u8>>>;

/// The arguments of one attempt to write a version into the clustered leaf.
#[derive(Clone, Copy)]
pub(in crate::table) struct Attempt<'a> {
    pub intent: Intent,
    /// The leaf where the transaction has just seen the row.
    pub leaf: Option<PageNo>,
    /// None: not read yet.
    pub raw_parts: Option<&'a RawParts>,
}

/// The obstacle to writing a clustered entry; nothing was changed.
pub(in crate::table) enum Obstacle {
    /// An existing row, or a row whose maker is active.
    Row,
    /// No room in the leaf.
    Room,
    /// The raw parts of the entries must be read first, without the leaf's latch. The header is
    /// that of the version before the change. The transaction holds that row's lock.
    RawParts(RowHeader),
    /// A range lock of another transaction.
    Range,
}

/// The lock on a row that is going to be changed, and the leaf where the transaction has just seen
/// the row.
#[derive(Clone, Copy)]
pub(in crate::table) struct LockedRow {
    pub granted: Granted,
    pub leaf: Option<PageNo>,
}

impl RowWriter {
    /// What every change does first, with no latch held: room in the log, an id and an undo stream.
    pub(in crate::table) fn begin_change(&self, trx: &mut Trx) -> Result<TrxId> {
        debug_assert!(holds_no_latch(), "I5: room in the log is waited for with no latch held");
        self.pool.check_alive()?;
        trx.check_not_doomed()?;
        self.redo.reserve_wait()?;
        let id = self.trx_sys.ensure_id(trx)?;
        debug_assert!(
            id != 0 && id == trx.id(),
            "I10: a change has a transaction with a number"
        );
        Ok(id)
    }

    /// Runs the steps of one row operation. Steps that fail are rolled back. Steps that return
    /// `false` are rolled back and run again.
    pub(in crate::table) fn change_rows(
        &self,
        trx: &mut Trx,
        steps: &mut dyn FnMut(&mut Trx) -> Result<bool>,
    ) -> Result<()> {
        loop {
            self.begin_change(trx)?;
            let savepoint = trx.undo_top();
            let result = steps(trx);
            debug_assert!(holds_no_latch(), "the steps of a row change give their latches back");
            if result == Ok(true) {
                debug_assert!(
                    trx.undo_top() != savepoint,
                    "I9: a row that was changed has an undo record"
                );
                return Ok(());
            }
            match result {
                Ok(_) => self.rollback.take_back(trx, savepoint)?,
                Err(_) => self.rollback.rollback_to(trx, savepoint)?,
            }
            result?;
            debug_assert!(trx.undo_top() == savepoint, "steps that failed leave nothing");
        }
    }

    /// False: a reader that locks gaps locked a range around a new entry between our check and our
    /// change. Such a reader first locks and then reads. This thread first changes and then checks.
    /// So one of the two finds the other.
    pub(in crate::table) fn ranges_still_free(&self, trx: &Trx, layout: &Layout, new: &NewRow<'_>) -> Result<bool> {
        fence(Ordering::SeqCst);
        debug_assert!(
            holds_no_latch(),
            "the ranges are asked about after the change, not under its latch"
        );
        let locks = self.trx_sys.locks();
        let mut free = locks.insert_is_free(trx, layout.clustered.id, new.pk);
        for e in new.entries {
            free &= locks.insert_is_free(trx, secondary(layout, e.index)?.index.id, e.key);
        }
        Ok(free)
    }

    /// Takes the row's exclusive lock, usually without reading the row: the Mtr that follows reads
    /// it.
    pub(in crate::table) fn lock_for_change(&self, trx: &mut Trx, layout: &Layout, pk: &[u8]) -> Result<LockedRow> {
        let index = layout.clustered.id;
        debug_assert!(holds_no_latch(), "I5: row locks are waited for before a change latches");
        let leaf = trx.take_cached_leaf(index, pk);
        let granted = match leaf {
            Some(_) => Granted::Held,
            None => {
                let locks = self.trx_sys.locks();
                locks.lock(trx, index, pk, LockMode::Exclusive, LockPolicy::Wait)?
            }
        };
        Ok(LockedRow { granted, leaf })
    }

    /// The row's maker is active and holds the row by an implicit lock: waits for it. `NotFound` if
    /// no row is left.
    pub(in crate::table) fn lock_again(&self, trx: &mut Trx, change: &RowChange<'_>, granted: Granted) -> Result<()> {
        let (layout, pk) = (change.layout, change.pk);
        self.locks.unlock_if_new(trx, layout, pk, granted);
        let (mode, policy) = (LockMode::Exclusive, LockPolicy::Wait);
        match self.locks.lock_row(trx, layout, pk, mode, policy, &mut |_| ())? {
            Locked::Row(..) => Ok(()),
            Locked::Gone(Some(header)) => {
                check_conflict(trx, header.trx)?;
                Err(Error::NotFound)
            }
            Locked::Gone(None) => Err(Error::NotFound),
        }
    }

    /// X-latches the leaf of the row that is changed, and reads the header of its newest version.
    /// None: no row is left, or its maker is active. `Conflict`: the row changed since the
    /// snapshot.
    pub(in crate::table) fn latch_current(
        &self,
        trx: &Trx,
        change: &RowChange<'_>,
        intent: Intent,
        leaf: Option<PageNo>,
    ) -> Result<Option<(Mtr<'_>, LeafWrite, RowHeader)>> {
        debug_assert!(holds_no_latch(), "I5: a change latches with nothing latched before");
        let mut mtr = self.pool.begin();
        let tree = &change.layout.clustered.tree;
        let at = tree.leaf_for_write(&mut mtr, change.pk, intent, leaf)?;
        if !at.found {
            return Ok(None);
        }
        let header = RowHeader::read(at.value(&mtr));
        if header.marked() || self.locks.made_by_other_active(trx, &header) {
            return Ok(None);
        }
        check_conflict(trx, header.trx)?;
        Ok(Some((mtr, at, header)))
    }

    /// Ends the Mtr of a row change: undo record, new version, AUTO_INCREMENT. Room was checked, or
    /// the intent is Grow.
    pub(in crate::table) fn write_version(
        &self,
        trx: &mut Trx,
        change: &RowChange<'_>,
        mut mtr: Mtr<'_>,
        at: &LeafWrite,
        s: &mut Scratch,
    ) -> Result<()> {
        debug_assert_ne!(trx.id(), 0, "begin_change gave the transaction an id (I10)");
        debug_assert!(
            is_about(&s.undo, change),
            "I9: the undo record of a version can be read, and is about its row"
        );
        debug_assert!(
            Record::decode(&s.undo).is_ok_and(|record| matches!(record.what, What::Insert) != at.found),
            "I9: a rollback removes an entry that was not there, and restores one that was"
        );
        let undo = self.trx_sys.append_undo(trx, &mut mtr, &s.undo)?;
        debug_assert!(s.value.len() >= ROW_HEADER, "a version begins with its header");
        debug_assert!(
            s.value[0] & ROW_MARKED == 0,
            "the row of a version that is written is there"
        );
        debug_assert!(!undo.is_none(), "every version but that of a load has an undo record");
        let header = RowHeader {
            flags: s.value[0],
            trx: trx.id(),
            undo,
        };
        header.write(&mut s.value[..ROW_HEADER]);
        let placed = if at.found {
            at.set_value(&mut mtr, &s.value)
        } else {
            at.insert(&mut mtr, change.pk, &s.value)
        };
        assert_ne!(placed, Ok(Placed::NoRoom), "room was checked under this latch");
        // If `placed` is an error, the version of the undo record does not exist. The rollback sees
        // that the row does not point at the record.
        let saved = placed.and_then(|_| save_autoinc(change.table, change.layout, &mut mtr));
        trx.note_lsn(mtr.commit());
        debug_assert!(
            trx.undo_top() == undo,
            "the newest version points to the newest undo record of its transaction"
        );
        change.table.touch(change.pk);
        change.table.autoinc_is_saved(saved?);
        Ok(())
    }
}

/// For asserts: the undo record in `undo` can be decoded, and names the row.
pub(in crate::table) fn is_about(undo: &[u8], change: &RowChange<'_>) -> bool {
    Record::decode(undo).is_ok_and(|record| record.table == change.layout.id && record.pk == change.pk)
}

pub(in crate::table) fn duplicate_mode(x_on_duplicate: bool) -> LockMode {
    if x_on_duplicate {
        LockMode::Exclusive
    } else {
        LockMode::Shared
    }
}
