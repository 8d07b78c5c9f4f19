//! Taking back a load of a table that other transactions know (`bulk/stamped_load.rs`), by its two
//! undo records.
//!
//! LOAD BEGUN gives back the extents that were not linked. LOAD LINKED takes rows and entries out
//! of the trees again, leaf by leaf. It takes those with the transaction's stamp, because other
//! transactions may have inserted theirs among them since. All later changes of the transaction
//! have been undone before, so what it loaded is as it was loaded. Among other transactions' rows
//! only dead entries bear its stamp. Old views may need these, and purge takes them. Entries go
//! first and rows last, as in every rollback.
//!
//! Both may be done again after a crash. A list that is no longer there is recognised (I10), and a
//! removed row is not met again. Steps are bounded (I7): a step goes over some leaves. The place
//! where the next step begins is kept in the transaction, and lost in a crash.
//!
//! The table is not locked for a transaction that was found at open or whose rollback waits.
//! Between two steps the table may be dropped, and its indexes dropped or reordered. So the place
//! names its record, and indexes by their numbers (I10), not by ordinals. An index begun twice does
//! no harm; an index passed over would.
//!
//! Latches: a leaf (X) at a time. Called by `rollback`, under the table's gate.
use crate::base::{planted, Mutant, PageId, Result, TrxId, UndoPtr};
use crate::btree::extents::ExtentList;
use crate::btree::overflow;
use crate::change::{self, Op};
use crate::index::RowHeader;
use crate::pool::Pool;
use crate::table::catalog::damage_log::DamageLog;
use crate::table::catalog::dictionary::Catalog;
use crate::table::catalog::layout::{Layout, Secondary};
use crate::table::catalog::table::Table;
use crate::table::row::entry::decode_entry;
use crate::table::row::undo_record::Record;
use crate::txn::{HalfUndone, Trx};
use std::sync::Arc;

/// Leaves of one step.
const LEAVES_MAX: usize = 64;

/// Takes back what loads have made.
pub(in crate::table) struct LoadRollback {
    pub pool: Arc<Pool>,
    pub catalog: Arc<Catalog>,
    pub log: DamageLog,
}

impl LoadRollback {
    /// LOAD BEGUN.
    pub fn undo_load_begun(&self, table: &Table, layout: &Layout, record: &Record<'_>, maker: TrxId) -> Result<()> {
        debug_assert!(table.gate.is_locked(), "a load is taken back under the table's gate");
        table.append_hint.begin_load();
        for (index, page) in record.loaded_trees() {
            let list = ExtentList {
                file: layout.id,
                page,
                index,
                owner: maker,
            };
            match list.free_all(&self.pool) {
                Err(e) if e.is_corrupt() && overflow::is_past(&self.pool, PageId::new(layout.id, page))? => {}
                // The transaction must end.
                Err(e) if e.is_corrupt() => self.log.error(&format!(
                    "table {}: pages given to a load that was taken back are not freed; {}",
                    self.catalog.shown(table),
                    self.log.name_damage(e)
                )),
                done => done?,
            }
        }
        table.append_hint.begin_load();
        Ok(())
    }

    /// One step of LOAD LINKED, the record at `at`. True: all rows and entries are removed.
    pub fn undo_load_linked(
        &self,
        trx: &mut Trx,
        at: UndoPtr,
        table: &Table,
        layout: &Layout,
        maker: TrxId,
    ) -> Result<bool> {
        debug_assert!(table.gate.is_locked(), "a load is taken back under the table's gate");
        if planted(Mutant::LoadSurvivesRollback) {
            return Ok(true);
        }
        let kept = trx.take_half_undone().filter(|place| place.record == at);
        let mut place = kept.unwrap_or_else(|| HalfUndone::of(at));
        let all = self.remove_some(&mut place, table, layout, maker)?;
        debug_assert!(place.record == at, "the place to go on from is one of this record");
        trx.set_half_undone((!all).then_some(place));
        Ok(all)
    }

    /// Goes on at `place`, over a step's leaves. True: every index is done, the clustered one last.
    fn remove_some(&self, place: &mut HalfUndone, table: &Table, layout: &Layout, maker: TrxId) -> Result<bool> {
        let mut left = LEAVES_MAX;
        for secondary in layout.secondary.iter().filter(|s| !s.quarantined) {
            let index = secondary.index.id;
            if place.done.contains(&index) {
                continue;
            }
            place.go_to(index);
            if !self.remove_from_index(secondary, layout, maker, &mut place.from, &mut left)? {
                return Ok(false);
            }
            place.done.push(index);
        }
        place.go_to(layout.clustered.id);
        let tree = &layout.clustered.tree;
        let is_loaded = &mut |_: &[u8], value: &[u8]| Ok(is_loaded_by(&RowHeader::read(value), maker));
        let (removed, all) = crate::btree::remove_loaded(&self.pool, tree, &mut place.from, &mut left, is_loaded)?;
        table.statistics.counts.deleted(removed as u64);
        Ok(all)
    }

    /// An entry with pending changes is removed like any other entry (I3), all others directly from
    /// their leaves. True: this index is done.
    fn remove_from_index(
        &self,
        secondary: &Secondary,
        layout: &Layout,
        maker: TrxId,
        from: &mut Vec<u8>,
        left: &mut usize,
    ) -> Result<bool> {
        let delta = secondary.index.delta.as_deref();
        if let Some(delta) = delta {
            delta.load(&self.pool)?;
        }
        let mut pending: Vec<Vec<u8>> = Vec::new();
        let is_loaded = &mut |key: &[u8], value: &[u8]| {
            let entry = decode_entry(layout, value)?;
            if entry.stamp != maker {
                return Ok(false);
            }
            // Pending changes may have marked it, or have taken its mark back.
            let waits = delta.is_some_and(|delta| delta.maybe_pending(key));
            if waits {
                pending.push(key.to_vec());
            }
            Ok(!waits && !entry.marked)
        };
        let (_, done) = crate::btree::remove_loaded(&self.pool, &secondary.index.tree, from, left, is_loaded)?;
        for key in pending {
            let op = Op::Remove {
                key: &key,
                if_stamp: maker,
                marked: false,
            };
            change::submit(&self.pool, &secondary.index, op)?;
        }
        Ok(done)
    }
}

/// Whether a row was made by a load of this transaction, and has not changed since, or is again as
/// it was loaded.
fn is_loaded_by(header: &RowHeader, trx: TrxId) -> bool {
    header.trx == trx && header.undo.is_none()
}
