//! Rows longer than a leaf takes: a prefix stays in the leaf, the rest goes to a chain of overflow
//! pages.
//!
//! A chain is filled before the row that names it is written. The undo record that names the chain
//! comes before both. So a rollback, also after a crash, finds every chain that no row names. A
//! chain of an older version lives as long as the undo record of that version: purge frees it. A
//! chain belongs to one version: an update writes a new one.
//!
//! Latches: the table's space pages, then the undo page. Called by row changes, loads and reads.
use crate::base::bytes::{get_u32, get_u64};
use crate::base::{Error, Result};
use crate::btree::overflow;
use crate::index::{ChainRef, OVERFLOW_REF, ROW_HEADER, ROW_OVERFLOW};
use crate::pool::Pool;
use crate::redo::Redo;
use crate::table::catalog::layout::Layout;
use crate::table::row::undo_record;
use crate::txn::{Trx, TrxSys};
use std::sync::Arc;

/// Longest row.
pub const ROW_MAX: usize = u32::MAX as usize;

/// Writes and reads rows that may be long.
#[derive(Clone)]
pub(in crate::table) struct LongRows {
    pool: Arc<Pool>,
    redo: Arc<Redo>,
    trx_sys: Arc<TrxSys>,
}

impl LongRows {
    pub fn new(pool: Arc<Pool>, redo: Arc<Redo>, trx_sys: Arc<TrxSys>) -> LongRows {
        LongRows { pool, redo, trx_sys }
    }

    /// Makes the clustered entry's value for `row` in `out`. The header is blank but for the
    /// overflow flag. The tail of a long row is written to its chain.
    pub fn make_value(&self, trx: &mut Trx, layout: &Layout, pk: &[u8], row: &[u8], out: &mut Vec<u8>) -> Result<()> {
        self.value_of(layout, pk, row, out, &mut |tail| {
            let first = self.write_chain(trx, layout, tail)?;
            let owner = trx.id();
            Ok(ChainRef { first, owner })
        })
    }
    /// The same for a row of a new table that is loaded (`table_load`). No undo record names the
    /// chain: it goes with the table's file if the load fails. Owner 0: no other chain of the file
    /// ever has it.
    pub fn make_loaded_value(&self, layout: &Layout, pk: &[u8], row: &[u8], out: &mut Vec<u8>) -> Result<()> {
        self.value_of(layout, pk, row, out, &mut |tail| {
            self.redo.reserve_wait()?;
            let mut mtr = self.pool.begin();
            let first = overflow::create(&mut mtr, layout.id, layout.clustered.id, 0)?;
            mtr.commit();
            overflow::fill(&self.pool, layout.id, first, tail)?;
            Ok(ChainRef { first, owner: 0 })
        })
    }

    /// `write_tail` makes the chain of a long row.
    fn value_of(
        &self,
        layout: &Layout,
        pk: &[u8],
        row: &[u8],
        out: &mut Vec<u8>,
        write_tail: &mut dyn FnMut(&[u8]) -> Result<ChainRef>,
    ) -> Result<()> {
        out.clear();
        out.resize(ROW_HEADER, 0);
        debug_assert!(pk.len() <= layout.clustered.tree.key_max(), "longer keys were refused");
        let entry_max = layout.clustered.tree.entry_max();
        if pk.len() + ROW_HEADER + row.len() <= entry_max {
            out.extend_from_slice(row);
            return Ok(());
        }
        if row.len() > ROW_MAX {
            return Err(Error::TooBig(format!(
                "row of {} bytes; {ROW_MAX} is the most",
                row.len()
            )));
        }
        let room = entry_max - pk.len() - ROW_HEADER - OVERFLOW_REF;
        // Less than could stay: several such rows should fit a leaf.
        let (prefix, tail) = row.split_at(room.min(entry_max / 4));
        debug_assert!(!tail.is_empty(), "a row that fits its leaf has no overflow pages");
        let chain = write_tail(tail)?;
        out[0] = ROW_OVERFLOW;
        out.resize(ROW_HEADER + OVERFLOW_REF, 0);
        chain.write(out, row.len() as u64);
        out.extend_from_slice(prefix);
        debug_assert!(pk.len() + out.len() <= entry_max, "the rest fits a leaf");
        Ok(())
    }

    fn write_chain(&self, trx: &mut Trx, layout: &Layout, tail: &[u8]) -> Result<u32> {
        debug_assert_ne!(trx.id(), 0, "the chain's owner has an id (I10)");
        let mut undo = Vec::with_capacity(32);
        undo_record::chain(&mut undo, layout.id, u32::MAX);
        // The Mtr below latches the table's space pages first: the undo stream must not need any
        // then.
        let reserved = undo.len();
        self.trx_sys.reserve_undo(trx, undo.len())?;
        let mut mtr = self.pool.begin();
        let first = overflow::create(&mut mtr, layout.id, layout.clustered.id, trx.id())?;
        undo_record::chain(&mut undo, layout.id, first);
        debug_assert!(
            undo.len() <= reserved,
            "the record takes no more room than was reserved for it"
        );
        let logged = self.trx_sys.append_undo(trx, &mut mtr, &undo);
        if logged.is_err() {
            overflow::take_back(&mut mtr, layout.id, first)?;
        }
        let lsn = mtr.commit();
        logged?;
        trx.note_lsn(lsn);
        let lsn = overflow::fill(&self.pool, layout.id, first, tail)?;
        trx.note_lsn(lsn);
        Ok(first)
    }

    /// Reads the whole of a long row. `stored`: the bytes after the header in its leaf.
    pub fn read_long_row(&self, layout: &Layout, stored: &[u8], row: &mut Vec<u8>) -> Result<()> {
        let bad = || Error::corrupt(format!("a long row of table {} has not the length it says", layout.id));
        if stored.len() < OVERFLOW_REF {
            return Err(bad());
        }
        let (total, first) = (get_u64(stored, 0) as usize, get_u32(stored, 8));
        row.clear();
        row.extend_from_slice(&stored[OVERFLOW_REF..]);
        overflow::read(&self.pool, layout.id, first, row)?;
        if row.len() != total {
            return Err(bad());
        }
        Ok(())
    }
}

pub(in crate::table) fn free_chain(pool: &Pool, layout: &Layout, chain: ChainRef) -> Result<()> {
    overflow::free(pool, layout.id, chain.first, chain.owner)
}
