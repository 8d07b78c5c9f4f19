//! Purge: removes what only old views needed. It walks the undo records of ended transactions that
//! every view sees. The record alone says what to do; no lookup is needed.
//!
//! Rules (`docs/decisions/2026-11-21-secondary-entry-stamps.md`): an entry marked by the record's
//! transaction is removed. A clustered entry that the record delete-marked is removed if nothing
//! has changed it since. The overflow pages of the version before are freed. A row that was deleted
//! and put back within the job is not read: its leaf may have been evicted since. Every action is
//! idempotent: after a crash a job is done again.
//!
//! Latches: one leaf (X), or a path while nodes are merged. Called by the purge workers, by bounded
//! steps (I7), and by slow shutdown.
use crate::base::sync::holds_no_latch;
use crate::base::{Counters, Error, Result, TrxId, UndoPtr};
use crate::btree::{overflow, Intent};
use crate::change::Op;
use crate::index::{ChainRef, RowHeader};
use crate::pool::Pool;
use crate::redo::Redo;
use crate::table::catalog::damage_log::DamageLog;
use crate::table::catalog::dictionary::Catalog;
use crate::table::catalog::layout::Layout;
use crate::table::catalog::table::Table;
use crate::table::row::entry::submit_if_there;
use crate::table::row::overflow_row::free_chain;
use crate::table::row::undo_record::{Record, What};
use crate::table::row::version::{points_at, split};
use crate::table::undo::read_retries::ReadRetries;
use crate::txn::{PurgeRecord, TrxSys};
use std::collections::HashSet;
use std::sync::Arc;

/// Delete marks, by their maker and its undo record, over which another version was put for good.
type PutBack = HashSet<(TrxId, UndoPtr)>;

/// The marks that these records replaced. A record that was undone replaced nothing.
fn put_back(records: &[PurgeRecord]) -> PutBack {
    let marks = records.iter().filter(|purged| !purged.undone).filter_map(|purged| {
        match Record::decode(&purged.record.payload).ok()?.what {
            What::Update { old, .. } if old.marked() => Some((old.trx, old.undo)),
            _ => None,
        }
    });
    marks.collect()
}

/// Removes what only old views needed.
pub struct Purger {
    pub(in crate::table) pool: Arc<Pool>,
    pub(in crate::table) redo: Arc<Redo>,
    pub(in crate::table) trx_sys: Arc<TrxSys>,
    pub(in crate::table) counters: Arc<Counters>,
    pub(in crate::table) catalog: Arc<Catalog>,
    pub(in crate::table) log: DamageLog,
    pub(in crate::table) tries: ReadRetries,
}

impl Purger {
    /// One job of at most `records_max` records. False: nothing is old enough.
    pub fn purge_step(&self, records_max: usize) -> Result<bool> {
        self.pool.check_alive()?;
        let Some(job) = self.trx_sys.next_purge(records_max)? else {
            return Ok(false);
        };
        debug_assert!(job.records.len() <= records_max.max(1), "I7: a job is bounded");
        let put_back = put_back(&job.records);
        for record in &job.records {
            debug_assert!(holds_no_latch(), "I5: room in the log is waited for with no latch held");
            let done = self.purge_record(record.record.trx, record, &put_back);
            let passed_over = done.or_else(|e| self.pass_over_if_broken(record, e));
            if let Err(e) = passed_over {
                self.trx_sys.undo.purge_failed(job, &e);
                return Err(e);
            }
            self.counters.purged_records.inc();
        }
        self.trx_sys.purged(job)?;
        Ok(true)
    }

    /// What only old views needed stays where it cannot be removed: no view sees it.
    fn pass_over_if_broken(&self, record: &PurgeRecord, e: Error) -> Result<()> {
        let table = Record::decode(&record.record.payload).ok().map(|r| r.table);
        match (table.and_then(|id| self.catalog.by_id(id)), e) {
            (Some(table), e @ Error::Corrupt(_)) => self.pass_over(&table, e),
            (Some(table), Error::Io(why)) if self.fails_for_long(&table, record.at) => {
                let named = format!("table {}: {}", self.catalog.shown(&table), why.what);
                let way_out = "ALTER TABLE ... FORCE leaves out what stays there, once all can be read";
                self.pass_over(&table, Error::io(format!("{named}; {way_out}")));
            }
            (_, e) => return Err(e),
        }
        Ok(())
    }

    /// Purge leaves a record out, and logs the first one of a table.
    fn pass_over(&self, table: &Table, why: Error) {
        self.counters.purge_passed_over.inc();
        if !table.is_damage_logged() {
            self.log.error(&format!(
                "purge passes over what it cannot reach: {}",
                self.log.name_damage(why)
            ));
        }
    }

    /// A disk that fails for a moment is waited for, as long as the engine lives.
    fn fails_for_long(&self, table: &Table, record: UndoPtr) -> bool {
        let now_us = self.pool.disk().now_us();
        self.pool.check_alive().is_ok() && self.tries.failed((table.layout().id, 0), record, now_us)
    }

    fn purge_record(&self, maker: TrxId, purged: &PurgeRecord, put_back: &PutBack) -> Result<()> {
        debug_assert!(
            !self.trx_sys.is_active(maker),
            "I9: the records of an active transaction stay"
        );
        self.redo.reserve_to_go_on()?;
        let record = Record::decode(&purged.record.payload)?;
        let is_insert = matches!(record.what, What::Insert | What::Chain { .. } | What::Load { .. });
        if is_insert {
            return Ok(()); // A rollback has removed what it put; a commit leaves nothing old.
        }
        let Some(table) = self.catalog.by_id(record.table) else {
            return Ok(());
        };
        let _gate = table.gate.read();
        let layout = table.layout();
        if table.is_dropped() || layout.id != record.table {
            return Ok(());
        }
        self.log.check_whole(&table)?;
        self.purge_touches(layout, &record, maker, purged.undone)?;
        match record.what {
            // Undone: the version before was restored, and its chain is in use.
            What::Update { old, chain, .. } if purged.undone && old.marked() => {
                self.remove_left_mark(layout, record.pk, &old, chain)?
            }
            What::Update { chain: Some(chain), .. } if !purged.undone => free_chain(&self.pool, layout, chain)?,
            What::Delete { chain: None, .. } if put_back.contains(&(maker, purged.at)) => {}
            What::Delete { chain, .. } if !purged.undone => {
                let wanted = |value: &[u8]| points_at(value, maker, purged.at);
                self.remove_marked(layout, record.pk, chain, &wanted)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Removes entries marked by the record's transaction. Entries under new keys only if the
    /// record was undone: they may have been left dead.
    fn purge_touches(&self, layout: &Layout, record: &Record<'_>, maker: TrxId, undone: bool) -> Result<()> {
        let mut key = Vec::new();
        for touch in record.touches() {
            let new = if undone { touch.new } else { None };
            for user_key in [touch.old, new].into_iter().flatten() {
                key.clear();
                key.extend_from_slice(user_key);
                key.extend_from_slice(record.pk);
                let op = Op::Remove {
                    key: &key,
                    if_stamp: maker,
                    marked: true,
                };
                submit_if_there(&self.pool, layout, touch.index, op)?;
            }
        }
        Ok(())
    }

    /// A rollback restored the delete-marked version `old`, with chain `chain`. The purge of that
    /// version may have passed by then. The maker of `old` ended before the undone transaction
    /// could change the row. So every view that sees the end of the latter sees the deletion.
    fn remove_left_mark(&self, layout: &Layout, pk: &[u8], old: &RowHeader, chain: Option<ChainRef>) -> Result<()> {
        let wanted = |value: &[u8]| split(value).0 == *old;
        self.remove_marked(layout, pk, chain, &wanted)
    }

    /// Removes the entry if `wanted`, and then its chain, which the record calls `chain`. After a
    /// crash or a failing read in between the job is done again. Then there may be another row of
    /// that key. The chain's first page says whether the chain is still given up.
    fn remove_marked(
        &self,
        layout: &Layout,
        pk: &[u8],
        mut chain: Option<ChainRef>,
        wanted: &dyn Fn(&[u8]) -> bool,
    ) -> Result<()> {
        let tree = &layout.clustered.tree;
        let mut mtr = self.pool.begin();
        let at = tree.leaf_for_write(&mut mtr, pk, Intent::Leaf, None)?;
        let mut too_empty = false;
        if at.found && wanted(at.value(&mtr)) {
            debug_assert!(
                RowHeader::read(at.value(&mtr)).marked(),
                "a row that is not deleted stays"
            );
            chain = ChainRef::of(at.value(&mtr));
            if let Some(chain) = chain {
                overflow::condemn(&mut mtr, layout.id, chain.first, chain.owner)?;
            }
            too_empty = at.remove(&mut mtr)?;
            mtr.commit();
        } else {
            drop(mtr);
        }
        if let Some(chain) = chain {
            overflow::free_condemned(&self.pool, layout.id, chain.first, chain.owner)?;
        }
        if too_empty {
            // An error here makes purge pass over the record, and is logged.
            tree.merge_nodes(&self.pool, pk)?;
        }
        Ok(())
    }
}
