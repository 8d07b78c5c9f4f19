//! DELETE of a row. The row is locked exclusively, and its clustered entry is marked, with the undo
//! record in the same Mtr. Then the secondary entries are marked. All or nothing.
//!
//! Latches: as in `insert`.
use crate::base::Result;
use crate::btree::Intent;
use crate::index::{RowHeader, ROW_HEADER, ROW_MARKED};
use crate::table::catalog::table::Table;
use crate::table::dml::change::{is_about, LockedRow, RowChange, RowWriter};
use crate::table::dml::changed_row::ChangedRow;
use crate::table::row::entry::check_key;
use crate::table::row::new_row::Entry;
use crate::table::row::scratch::{self, Scratch};
use crate::table::row::undo_record::{self, Touch};
use crate::txn::{LockMode, Trx};

impl RowWriter {
    pub fn delete(&self, trx: &mut Trx, table: &Table, pk: &[u8], entries: &[Entry<'_>]) -> Result<()> {
        let changed = ChangedRow::Deleted { pk, entries };
        self.change_row(trx, table, &changed, LockMode::Exclusive)?;
        let locks = self.trx_sys.locks();
        locks.leave_to_version(trx, table.layout().clustered.id, pk);
        self.counters.rows_deleted.inc();
        Ok(())
    }

    pub(in crate::table) fn delete_steps(
        &self,
        trx: &mut Trx,
        table: &Table,
        pk: &[u8],
        entries: &[Entry<'_>],
    ) -> Result<()> {
        let change = RowChange::new(table, pk, LockMode::Exclusive);
        let layout = change.layout;
        for e in entries {
            check_key(layout, e.index, e.key, pk)?;
        }
        let locked = self.lock_for_change(trx, layout, pk)?;
        scratch::with(|s| {
            while !self.try_mark_row(trx, &change, entries, locked, s)? {
                self.lock_again(trx, &change, locked.granted)?;
            }
            table.statistics.counts.deleted(1);
            for e in entries {
                self.entries.mark_entry(trx, layout, e.index, e.key)?;
            }
            Ok(())
        })
    }

    /// One Mtr: the undo record and the mark. False: the row's maker is active, and its lock must
    /// be waited for.
    fn try_mark_row(
        &self,
        trx: &mut Trx,
        change: &RowChange<'_>,
        entries: &[Entry<'_>],
        locked: LockedRow,
        s: &mut Scratch,
    ) -> Result<bool> {
        let (layout, pk) = (change.layout, change.pk);
        // A mark needs no room.
        let Some((mut mtr, at, old)) = self.latch_current(trx, change, Intent::Leaf, locked.leaf)? else {
            return Ok(false);
        };
        undo_record::begin_delete(&mut s.undo, layout.id, pk, at.value(&mtr), entries.len());
        for e in entries {
            let touch = Touch {
                index: layout.secondary[e.index as usize].index.id,
                old: Some(&e.key[..e.key.len() - pk.len()]),
                new: None,
                raw: None,
            };
            undo_record::push_touch(&mut s.undo, &touch);
        }
        debug_assert!(
            is_about(&s.undo, change),
            "I9: the undo record of a mark can be read, and is about its row"
        );
        debug_assert_ne!(trx.id(), 0, "begin_change gave the transaction an id (I10)");
        let undo = self.trx_sys.append_undo(trx, &mut mtr, &s.undo)?;
        let mut header = [0; ROW_HEADER];
        debug_assert!(!old.marked(), "a row is deleted once");
        RowHeader {
            flags: old.flags | ROW_MARKED,
            trx: trx.id(),
            undo,
        }
        .write(&mut header);
        at.patch_value(&mut mtr, 0, &header);
        trx.note_lsn(mtr.commit());
        debug_assert!(
            trx.undo_top() == undo,
            "the mark points to the newest undo record of its transaction"
        );
        change.table.touch(pk);
        Ok(true)
    }
}
