//! Rollback: to a savepoint, or whole. Each record is undone by itself: its secondary entries
//! first, the clustered entry last.
//!
//! A clustered entry that does not point at the record shows that the record was undone before, or
//! that its change never came. So undoing again after a crash does no harm. Little is undone again:
//! see `progress.rs`.
//!
//! Latches: one leaf (X), or a path where a version needs room. Called by the row operations (a
//! failed statement), by the user, and by the rollback worker for transactions found at open.
use crate::base::bytes::prefix_successor;
use crate::base::sync::holds_no_latch;
use crate::base::{planted, Counters, Error, IndexId, Mutant, Result, TrxId, UndoPtr};
use crate::btree::{Intent, LeafWrite, Placed};
use crate::change::{Op, DELTA_BIT};
use crate::index::secondary;
use crate::index::{ChainRef, RowHeader, ROW_HEADER};
use crate::pool::{Mtr, Pool};
use crate::redo::Redo;
use crate::table::catalog::damage_log::DamageLog;
use crate::table::catalog::ddl::Tables;
use crate::table::catalog::dictionary::Catalog;
use crate::table::catalog::layout::Layout;
use crate::table::catalog::table::Table;
use crate::table::row::entry::submit_if_there;
use crate::table::row::overflow_row::free_chain;
use crate::table::row::undo_record::{Record, Touch, What};
use crate::table::row::version::points_at;
use crate::table::undo::load_rollback::LoadRollback;
use crate::table::undo::progress::ProgressNotes;
use crate::table::undo::read_retries::ReadRetries;
use crate::table::undo::waiting::WaitingRollbacks;
use crate::txn::{Isolation, Trx, TrxSys, UndoRecord};
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// What undoing a record leaves of the clustered entry.
enum Restore<'a> {
    Remove,
    Value(&'a [u8]),
    Header(RowHeader),
}

/// A point to roll back to: the transaction's newest undo record at that time.
pub type Savepoint = UndoPtr;

/// Undoes changes.
pub struct Rollback {
    pub(in crate::table) pool: Arc<Pool>,
    pub(in crate::table) redo: Arc<Redo>,
    pub(in crate::table) trx_sys: Arc<TrxSys>,
    pub(in crate::table) counters: Arc<Counters>,
    pub(in crate::table) catalog: Arc<Catalog>,
    pub(in crate::table) tables: Arc<Tables>,
    pub(in crate::table) log: DamageLog,
    pub(in crate::table) loads: LoadRollback,
    pub(in crate::table) progress: ProgressNotes,
    pub(in crate::table) tries: ReadRetries,
    pub(in crate::table) waiting: WaitingRollbacks,
}

impl Rollback {
    /// A mark to roll back to.
    pub fn savepoint(&self, trx: &Trx) -> Savepoint {
        self.trx_sys.locks().savepoint(trx);
        trx.undo_top()
    }

    /// Undoes everything after `savepoint`; the transaction goes on.
    pub fn rollback_to(&self, trx: &mut Trx, savepoint: Savepoint) -> Result<()> {
        if trx.isolation == Isolation::Serializable {
            self.lock_keys_made(trx, savepoint);
        }
        self.take_back(trx, savepoint)
    }

    /// The same for a change that is tried again: its result was not reported.
    pub(in crate::table) fn take_back(&self, trx: &mut Trx, savepoint: Savepoint) -> Result<()> {
        debug_assert!(holds_no_latch(), "I5: room in the log is waited for with no latch held");
        if trx.undo_top() == savepoint {
            return Ok(());
        }
        self.counters.partial_rollbacks.inc();
        let undone = self.undo_until(trx, savepoint);
        trx.shared.rolling_back.store(false, Ordering::Relaxed);
        undone
    }

    /// Locks what was free before the changes after `savepoint` were made: clustered keys and the
    /// values of unique indexes. Before they are undone, so that an insert of such a key meets the
    /// row or the range. An unreadable undo record is left to the rollback itself.
    fn lock_keys_made(&self, trx: &mut Trx, savepoint: Savepoint) {
        let mut at = trx.undo_top();
        while at != savepoint && !at.is_none() {
            let Ok(undo) = self.trx_sys.undo.read(at) else { return };
            let Ok(record) = Record::decode(&undo.payload) else {
                return;
            };
            if let Some(table) = self.catalog.by_id(record.table) {
                self.lock_keys_of(trx, table.layout(), &record);
            }
            at = undo.prev;
        }
    }

    fn lock_keys_of(&self, trx: &mut Trx, layout: &Layout, record: &Record<'_>) {
        let locks = self.trx_sys.locks();
        let row_is_new = match record.what {
            What::Insert => true,
            What::Update { old, .. } => old.marked(),
            What::Load { linked: true, .. } => {
                // The table was empty: nothing was there at all.
                return locks.lock_range(trx, layout.clustered.id, &[], None);
            }
            What::Delete { .. } | What::Chain { .. } | What::Load { .. } => return,
        };
        if row_is_new {
            let just_above = [record.pk, &[0]].concat();
            locks.lock_range(trx, layout.clustered.id, record.pk, Some(&just_above));
        }
        for touch in record.touches() {
            let unique = layout.secondary_by_id(touch.index).is_some_and(|s| s.index.unique);
            if let (true, Some(value)) = (unique && touch.new != touch.old, touch.new) {
                locks.lock_range(trx, touch.index, value, prefix_successor(value).as_deref());
            }
        }
    }

    /// Undoes everything and ends the transaction. A rollback that cannot be finished now waits,
    /// and an error says so; `trx` is a fresh one then. A prepared transaction whose rollback
    /// cannot begin stays prepared. It may be asked again, or made to wait
    /// ([`Rollback::let_rollback_wait`]).
    pub fn rollback(&self, trx: &mut Trx) -> Result<()> {
        self.trx_sys.resume(trx)?;
        let undone = self.undo_until(trx, UndoPtr::NONE);
        let ended = undone.and_then(|()| self.trx_sys.end_rollback(trx));
        debug_assert!(ended.is_err() || !trx.is_started(), "a rollback ends the transaction");
        ended.inspect_err(|e| self.let_rollback_wait(trx, e))
    }

    /// Makes a failed rollback go on later, without `trx`, which is a fresh one on return.
    pub fn let_rollback_wait(&self, trx: &mut Trx, why: &Error) {
        match self.can_wait(why) {
            true => self.keep_waiting(trx, why),
            false => self.pool.poison(&format!("a rollback failed: {why}")),
        }
    }

    /// Keeps a transaction whose rollback cannot be finished now; `trx` is a fresh one afterwards.
    pub fn keep_waiting(&self, trx: &mut Trx, why: &Error) {
        self.trx_sys.visibility.close_view(trx);
        let stuck = self.trx_sys.leave(trx);
        debug_assert!(!trx.is_started(), "the caller goes on with a fresh transaction");
        self.log_rollback_waits(stuck.id(), why);
        self.waiting.add(stuck);
    }

    pub fn log_rollback_waits(&self, id: TrxId, why: &Error) {
        self.log.error(&format!(
            "the rollback of transaction {id} waits: {}; nobody sees its changes, and its rows stay locked",
            self.log.name_damage(why.clone())
        ));
    }

    /// One bounded piece (I7) of a rollback: at most `records_max` records. True: nothing is left
    /// to undo.
    pub fn rollback_step(&self, trx: &mut Trx, records_max: usize) -> Result<bool> {
        debug_assert!(records_max > 0, "I7: a step undoes a record at least");
        self.trx_sys.resume(trx)?;
        self.progress.goes_on(trx, UndoPtr::NONE);
        for _ in 0..records_max {
            if trx.undo_top().is_none() {
                break;
            }
            self.undo_top_record(trx)?;
            self.progress.progresses(trx)?;
        }
        let done = trx.undo_top().is_none();
        if done {
            self.progress.ends(trx, true);
        }
        Ok(done)
    }

    fn undo_until(&self, trx: &mut Trx, savepoint: Savepoint) -> Result<()> {
        debug_assert!(
            !trx.is_prepared(),
            "a prepared transaction is resumed before its rollback"
        );
        // The row may have been one of these changes. Then its table may be empty, and its leaf
        // that of a failed load.
        trx.forget_cached_leaf();
        self.progress.goes_on(trx, savepoint);
        let undone = self.undo_all_until(trx, savepoint);
        self.progress.ends(trx, undone.is_ok());
        undone
    }

    fn undo_all_until(&self, trx: &mut Trx, savepoint: Savepoint) -> Result<()> {
        while trx.undo_top() != savepoint {
            if trx.undo_top().is_none() {
                return Err(Error::NotFound);
            }
            let undone = self.undo_top_record(trx);
            if let Err(e) = undone.and_then(|()| self.progress.progresses(trx)) {
                // Half a statement may not be committed later (I6).
                if self.can_wait(&e) {
                    debug_assert!(
                        trx.undo_top() != savepoint,
                        "a transaction that is doomed has something left to undo"
                    );
                    trx.doom(&e);
                } else {
                    self.pool.poison(&format!("a rollback failed: {e}"));
                }
                return Err(e);
            }
        }
        Ok(())
    }

    /// A secondary index that keeps the record from being undone is quarantined, and left out.
    fn undo_top_record(&self, trx: &mut Trx) -> Result<()> {
        loop {
            let Err(e) = self.try_undo_top_record(trx) else {
                return Ok(());
            };
            let Some((table, index)) = self.broken_secondary(&e, trx.undo_top()) else {
                return Err(e);
            };
            debug_assert!(holds_no_latch(), "an index is quarantined with no latch held");
            self.tables.quarantine_index(&table, index, &e)?;
        }
    }

    /// The secondary index, not quarantined yet, that keeps `record` from being undone: a page of
    /// it is broken, or could not be read for long.
    fn broken_secondary(&self, error: &Error, record: UndoPtr) -> Option<(Arc<Table>, IndexId)> {
        let (Error::Corrupt(damage) | Error::Io(damage)) = error else {
            return None;
        };
        let table = self.catalog.by_id(damage.file)?;
        let found = table.layout().secondary_by_id(damage.index & !DELTA_BIT)?;
        let id = found.index.id;
        if found.quarantined || !self.can_wait(error) {
            return None;
        }
        let is_broken = error.is_corrupt() || {
            let now_us = self.pool.disk().now_us();
            self.tries.failed((damage.file, id), record, now_us)
        };
        is_broken.then_some((table, id))
    }

    /// Whether a failed rollback can be finished later; else the engine is poisoned. While the
    /// engine lives, `Io` is a read, or a file that could not be opened or made longer. A failed
    /// write or sync ends the engine (I6), and so does an Mtr that is abandoned after its first
    /// change.
    pub fn can_wait(&self, error: &Error) -> bool {
        matches!(error, Error::Corrupt(_) | Error::Full(_) | Error::Io(_)) && self.pool.check_alive().is_ok()
    }

    fn try_undo_top_record(&self, trx: &mut Trx) -> Result<()> {
        self.redo.reserve_to_go_on()?;
        let at = trx.undo_top();
        let record = self.trx_sys.undo.read(at)?;
        if planted(Mutant::RollbackNotedAhead) {
            self.trx_sys.rolled_back_to(trx, record.prev);
            let noted = self.trx_sys.note_undone(trx);
            self.trx_sys.rolled_back_to(trx, at);
            noted?;
        }
        let skipped = planted(Mutant::RollbackSkipsRecord) && record.prev.is_none();
        if skipped || self.undo_record(trx, at, &record)? {
            self.trx_sys.undone(trx, at, &record);
            debug_assert!(
                trx.undo_top() == record.prev,
                "records are undone from the newest one back"
            );
        }
        Ok(())
    }

    /// False: one step is done, and there is more to undo of the record.
    fn undo_record(&self, trx: &mut Trx, at: UndoPtr, undo: &UndoRecord) -> Result<bool> {
        let record = Record::decode(&undo.payload)?;
        let Some(table) = self.catalog.by_id(record.table) else {
            return Ok(true); // The table was dropped.
        };
        let _gate = table.gate.read();
        let layout = table.layout();
        if table.is_dropped() || layout.id != record.table {
            return Ok(true);
        }
        self.log.check_whole(&table)?;
        match record.what {
            What::Chain { first } => {
                let owner = undo.trx;
                free_chain(&self.pool, layout, ChainRef { first, owner })?;
            }
            What::Load { linked: false, .. } => self.loads.undo_load_begun(&table, layout, &record, undo.trx)?,
            What::Load { linked: true, .. } => return self.loads.undo_load_linked(trx, at, &table, layout, undo.trx),
            _ => self.undo_row(trx, at, undo, &record, &table, layout)?,
        }
        Ok(true)
    }

    fn undo_row(
        &self,
        trx: &mut Trx,
        at: UndoPtr,
        undo: &UndoRecord,
        record: &Record<'_>,
        table: &Table,
        layout: &Layout,
    ) -> Result<()> {
        let tree = &layout.clustered.tree;
        debug_assert!(
            table.gate.is_locked(),
            "a row is restored while its table cannot be dropped"
        );
        debug_assert_eq!(undo.trx, trx.id(), "a transaction undoes its own changes");
        let mut value = match tree.get(&self.pool, record.pk)? {
            Some(leaf) if points_at(leaf.value(), undo.trx, at) => leaf.value().to_vec(),
            _ => return Ok(()),
        };
        for touch in record.touches() {
            self.undo_touch(layout, record, &touch, undo.trx)?;
        }
        let lsn = match record.what {
            // Counted once done: a failed removal is done again.
            What::Insert => {
                let lsn = self.restore(layout, record, undo.trx, at, Restore::Remove)?;
                table.statistics.counts.deleted(1);
                lsn
            }
            What::Update { old, diff, .. } => {
                let mut stored = value.split_off(ROW_HEADER);
                diff.apply(&mut stored)?;
                old.write(&mut value);
                value.extend_from_slice(&stored);
                let lsn = self.restore(layout, record, undo.trx, at, Restore::Value(&value))?;
                if old.marked() {
                    table.statistics.counts.deleted(1);
                }
                lsn
            }
            What::Delete { old, .. } => {
                let lsn = self.restore(layout, record, undo.trx, at, Restore::Header(old))?;
                table.statistics.counts.inserted(1);
                lsn
            }
            What::Chain { .. } | What::Load { .. } => unreachable!("about no row"),
        };
        trx.note_lsn(lsn);
        Ok(())
    }

    fn undo_touch(&self, layout: &Layout, record: &Record<'_>, touch: &Touch<'_>, maker: TrxId) -> Result<()> {
        let whole = |user_key: &[u8]| [user_key, record.pk].concat();
        let old = match record.what {
            What::Insert => None,
            What::Update { old, .. } | What::Delete { old, .. } => Some(old),
            What::Chain { .. } | What::Load { .. } => return Ok(()),
        };
        let mut value = Vec::new();
        if let Some(new) = touch.new {
            let key = &whole(new)[..];
            let Some(old) = old else {
                let op = Op::Remove {
                    key,
                    if_stamp: maker,
                    marked: false,
                };
                return submit_if_there(&self.pool, layout, touch.index, op);
            };
            let stays = touch.old == touch.new;
            if let Some(raw) = touch.raw {
                let stamp = match stays {
                    true => self.stamp_of_version(old, maker, touch.index, new)?,
                    false => maker,
                };
                secondary::encode(&mut value, stamp, record.pk.len(), layout.pk_fixed_len, raw);
                submit_if_there(&self.pool, layout, touch.index, Op::Put { key, value: &value })?;
            }
            if stays {
                return Ok(());
            }
            let op = Op::MarkDead { key, if_stamp: maker };
            submit_if_there(&self.pool, layout, touch.index, op)?;
        }
        if let (Some(user_key), Some(old)) = (touch.old, old) {
            let op = Op::Unmark {
                key: &whole(user_key),
                if_stamp: maker,
                stamp: self.stamp_of_version(old, maker, touch.index, user_key)?,
                value: None,
            };
            submit_if_there(&self.pool, layout, touch.index, op)?;
        }
        Ok(())
    }

    /// The stamp for the entry of `version` of a row, under `user_key`. It is not older than the
    /// transaction that put the entry, and is `maker` only if `maker` put it. A version of `maker`
    /// may have left the entry of another transaction as it was. And an entry with `maker`'s stamp
    /// is removed with its load (`LoadRollback::undo_load_linked`). Each of the maker's records is
    /// passed at most once for each that touches the index.
    fn stamp_of_version(&self, mut version: RowHeader, maker: TrxId, index: IndexId, user_key: &[u8]) -> Result<TrxId> {
        while version.trx == maker && !version.undo.is_none() && !planted(Mutant::StampOfVersionBefore) {
            let undo = self.trx_sys.undo.read(version.undo)?;
            let record = Record::decode(&undo.payload)?;
            let put = |touch: Touch<'_>| touch.index == index && touch.new == Some(user_key);
            version = match record.what {
                What::Update { old, .. } | What::Delete { old, .. } if !record.touches().any(put) => old,
                _ => return Ok(maker),
            };
        }
        Ok(version.trx)
    }

    /// Puts the clustered entry back, if it still points at the record.
    fn restore(
        &self,
        layout: &Layout,
        record: &Record<'_>,
        maker: TrxId,
        undo: UndoPtr,
        what: Restore<'_>,
    ) -> Result<u64> {
        let tree = &layout.clustered.tree;
        let mut intent = Intent::Leaf;
        loop {
            let mut mtr = self.pool.begin();
            let at = tree.leaf_for_write(&mut mtr, record.pk, intent, None)?;
            if !at.found || !points_at(at.value(&mtr), maker, undo) {
                return Ok(0);
            }
            match what {
                Restore::Remove => return self.remove_entry(layout, mtr, &at, record.pk),
                Restore::Header(old) => {
                    let mut header = [0; ROW_HEADER];
                    old.write(&mut header);
                    at.patch_value(&mut mtr, 0, &header);
                    return Ok(mtr.commit());
                }
                Restore::Value(value) => {
                    debug_assert!(value.len() >= ROW_HEADER, "a version begins with its header");
                    if intent == Intent::Leaf && !at.has_room(&mtr, record.pk.len(), value.len()) {
                        intent = Intent::Grow(record.pk.len() + value.len());
                        continue;
                    }
                    let placed = at.set_value(&mut mtr, value)?;
                    assert_eq!(placed, Placed::Done, "room was checked under this latch");
                    return Ok(mtr.commit());
                }
            }
        }
    }

    /// Removes a clustered entry and ends the Mtr. Merges the leaf if it became too empty and can
    /// be merged.
    fn remove_entry(&self, layout: &Layout, mut mtr: Mtr<'_>, at: &LeafWrite, pk: &[u8]) -> Result<u64> {
        let tree = &layout.clustered.tree;
        let too_empty = at.remove(&mut mtr)?;
        let lsn = mtr.commit();
        if too_empty {
            tree.try_merge_nodes(&self.pool, pk)?;
        }
        Ok(lsn)
    }
}
