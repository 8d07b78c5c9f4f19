//! Reading: one cursor per user, for any index of its table, in both directions.
//!
//! A cursor holds no latch and no page between calls. Consistent reads (`consistent`) copy growing
//! batches of entries under one latch hold and resolve them one by one. Locking reads (`locking`)
//! go entry by entry. Here: setting up a scan, moving, and handing out.
//!
//! What is handed out lies in the cursor's buffers and is valid until its next call. Called by the
//! engine, the C ABI and `health`.
use crate::base::sync::holds_no_latch;
use crate::base::{Error, Result};
use crate::btree::Seek;
use crate::index::scan::Direction;
use crate::index::secondary;
use crate::index::{RowHeader, ROW_HEADER, ROW_MARKED, ROW_OVERFLOW};
use crate::table::catalog::index_quarantine::quarantined_error;
use crate::table::catalog::layout::Layout;
use crate::table::catalog::table::Table;
use crate::table::scan::consistent::ConsistentReader;
use crate::table::scan::following::{Following, KeyOf};
use crate::table::scan::lock_choice::LockChoice;
use crate::table::scan::reader::Reader;
use crate::table::scan::row_locking::LockingReader;
use crate::table::scan::row_scan::{Current, Found, RowAt, RowScan};
use crate::txn::{Granted, Isolation, Trx};
use std::sync::Arc;

pub struct Cursor {
    table: Arc<Table>,
    scan: RowScan,
    /// Of a locking scan that misses no row that moves (`relocated`).
    following: Option<Box<Following>>,
}

impl Cursor {
    pub fn new(reader: Arc<Reader>, table: Arc<Table>) -> Cursor {
        Cursor {
            table,
            scan: RowScan::new(reader),
            following: None,
        }
    }
    /// See `DamageLog::name_damage`.
    pub fn name_damage(&self, error: Error) -> Error {
        self.scan.reader.log.name_damage(error)
    }
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Sets up a scan of an index (0 = clustered, i + 1 = secondary i). `covering`: a secondary
    /// entry that the view sees is handed out as it is.
    pub fn begin(&mut self, trx: &mut Trx, index: u32, lock: LockChoice, covering: bool) -> Result<()> {
        self.reset();
        debug_assert!(holds_no_latch(), "a cursor holds no latch between calls");
        let layout = self.table.layout();
        self.scan.use_view(trx, layout, index, lock)?;
        let missing = || Error::Unsupported(format!("table {} has no index {index}", layout.id));
        let found = layout.index(index).ok_or_else(missing)?;
        if index > 0 && layout.secondary[index as usize - 1].quarantined {
            return Err(quarantined_error(layout.id, found));
        }
        self.scan.at.begin(found);
        self.scan.index = index;
        self.scan.lock = lock;
        self.scan.covering = covering && index > 0;
        Ok(())
    }
    /// After `begin`, of a secondary index and a locking scan: rows that move while the scan is
    /// under way are not missed.
    pub fn follow_moved(&mut self, trx: &mut Trx, key_of: KeyOf) {
        debug_assert!(
            self.scan.lock.mode.is_some() && self.scan.index > 0,
            "rows move in secondary indexes, and only locking scans follow them"
        );
        self.scan.reader.trx_sys.visibility.open_statement_view(trx);
        debug_assert!(
            trx.statement_view().is_some(),
            "the statement's view tells which entries moved while the scan went on"
        );
        self.following = Some(Box::new(Following::new(key_of)));
    }
    /// The scan goes on in another statement, after the entry that was handed out last. That
    /// statement may read otherwise: HANDLER locks in a SERIALIZABLE transaction, and nowhere else.
    pub fn go_on_with(&mut self, trx: &mut Trx, lock: LockChoice) -> Result<()> {
        let scan = &mut self.scan;
        let dirty = lock.newest || trx.isolation == Isolation::ReadUncommitted;
        if lock == scan.lock && (lock.mode.is_some() || scan.view.is_none() == dirty) {
            return Ok(());
        }
        scan.at.drop_batch();
        scan.lock = lock;
        scan.use_view(trx, self.table.layout(), scan.index, lock)
    }

    /// Forward scans end at a key >= `hi`, backward ones at a key < `lo`. Before an entry is locked
    /// or handed out.
    pub fn set_bounds(&mut self, lo: &[u8], hi: Option<&[u8]>) {
        self.scan.at.set_bounds(lo, hi);
    }
    /// As [`Cursor::set_bounds`]; the upper bound is the end of the keys that start with `prefix`.
    pub fn set_bounds_to_prefix(&mut self, lo: &[u8], prefix: &[u8]) {
        self.scan.at.set_bounds_to_prefix(lo, prefix);
    }
    /// About so many entries will be wanted; 0 = unknown.
    pub fn expect(&mut self, rows: u64) {
        self.scan.at.expect(rows);
    }
    pub fn set_semi_consistent(&mut self, on: bool) {
        self.scan.semi_consistent = on;
        self.scan.was_semi_consistent = false;
    }
    pub fn was_semi_consistent(&self) -> bool {
        self.scan.was_semi_consistent
    }

    /// Positions and hands out the first entry. False: there is none.
    pub fn seek(&mut self, trx: &mut Trx, seek: Seek, key: &[u8]) -> Result<bool> {
        if !self.scan.at.is_begun() {
            return Err(Error::Unsupported("a seek before the scan was begun".into()));
        }
        self.scan.renew_view(trx);
        self.scan.at.seek(seek, key);
        if let Some(following) = &mut self.following {
            following.start_at(key, self.scan.at.direction);
        }
        self.advance(trx)
    }
    /// The next entry in key order, whatever direction the scan had so far.
    pub fn next(&mut self, trx: &mut Trx) -> Result<bool> {
        self.go(trx, Direction::Forward)
    }
    pub fn prev(&mut self, trx: &mut Trx) -> Result<bool> {
        self.go(trx, Direction::Backward)
    }

    fn go(&mut self, trx: &mut Trx, direction: Direction) -> Result<bool> {
        if self.take_at_hand(trx, direction).is_some() {
            return Ok(true);
        }
        self.scan.at.catch_up();
        if !self.scan.at.is_begun() {
            return Err(Error::Unsupported("a move before the scan was begun".into()));
        }
        self.scan.renew_view(trx);
        self.scan.at.turn(trx, direction);
        self.advance(trx)
    }

    fn advance(&mut self, trx: &mut Trx) -> Result<bool> {
        self.scan.clear_found();
        debug_assert!(holds_no_latch(), "a cursor holds no latch between calls");
        let layout = self.table.layout();
        let there = if self.scan.lock.mode.is_some() {
            locking(&mut self.scan, &mut self.following, layout).next(trx)
        } else {
            consistent(&mut self.scan, layout).next(trx)
        };
        debug_assert!(
            there != Ok(true) || self.scan.current.is_some(),
            "an entry that is there is at hand"
        );
        there
    }

    /// The usual step of a consistent scan, a part of `next` and `prev`. Hands out the next entry
    /// in that direction if it lies in the batch and is itself what the view sees. None: nothing
    /// was done. Nearly every step of a long scan ends here, so it copies nothing.
    #[inline]
    pub fn take_at_hand(&mut self, trx: &Trx, direction: Direction) -> Option<Found<'_>> {
        let scan = &mut self.scan;
        if !scan.at.is_at_hand(trx, direction) || scan.lock.mode.is_some() {
            return None;
        }
        let view = scan.view.as_ref()?;
        if !scan.is_open(trx, view) {
            return None;
        }
        let (key, value) = scan.at.batch.entry(scan.at.next);
        let (pk_len, row_at) = if scan.index == 0 {
            let header = RowHeader::read(value);
            let is_shown = header.flags & (ROW_MARKED | ROW_OVERFLOW) == 0 && view.sees(header.trx);
            is_shown.then_some((key.len(), ROW_HEADER))?
        } else {
            let layout = self.table.layout();
            let found = secondary::decode(value, layout.pk_fixed_len)?;
            let entry_max = layout.index(scan.index)?.tree.entry_max();
            let is_shown =
                scan.covering && !found.marked && view.sees(found.stamp) && found.is_whole(entry_max, key.len());
            is_shown.then_some((found.pk_len, value.len() - found.raw.len()))?
        };
        scan.at.next += 1;
        debug_assert!(
            scan.at.next <= scan.at.batch.len(),
            "the entry handed out is one of the batch"
        );
        scan.at.steps.pass();
        scan.taken = None;
        scan.was_semi_consistent = false;
        let current = Current {
            point: false,
            covering: scan.index > 0,
            pk_len,
            row: RowAt::Batch(row_at),
        };
        scan.current = Some(current);
        Some(Found {
            covering: current.covering,
            key,
            pk: &key[key.len() - pk_len..],
            row: &value[row_at..],
        })
    }

    /// What the last successful call handed out.
    pub fn found(&self) -> Option<Found<'_>> {
        self.scan.found()
    }

    /// The clustered row of a key, read as a scan begun with `lock` would read it. False: there is
    /// none. A scan that is going on is not disturbed.
    pub fn get(&mut self, trx: &mut Trx, pk: &[u8], lock: LockChoice) -> Result<bool> {
        let scan = &mut self.scan;
        scan.clear_found();
        scan.get_key.clear();
        scan.get_key.extend_from_slice(pk);
        let of_scan = (scan.lock, scan.view.take(), scan.semi_consistent);
        scan.lock = lock;
        scan.semi_consistent = false;
        let result = self.get_row(trx, pk);
        debug_assert!(holds_no_latch(), "a cursor holds no latch between calls");
        let scan = &mut self.scan;
        (scan.lock, scan.view, scan.semi_consistent) = of_scan;
        debug_assert!(
            result != Ok(true) || scan.current.is_some(),
            "a row that is there is at hand"
        );
        if let (Ok(true), Some(current)) = (&result, &mut scan.current) {
            current.point = true;
        }
        result
    }

    fn get_row(&mut self, trx: &mut Trx, pk: &[u8]) -> Result<bool> {
        let (scan, layout) = (&mut self.scan, self.table.layout());
        scan.use_view(trx, layout, 0, scan.lock)?;
        if scan.lock.mode.is_some() {
            return locking(scan, &mut self.following, layout).get(trx, pk);
        }
        consistent(scan, layout).get(pk)
    }

    /// The last row does not match the WHERE: gives its lock back if this scan took it (READ
    /// COMMITTED and below).
    pub fn unlock_row(&mut self, trx: &mut Trx) {
        self.scan.was_semi_consistent = false;
        let Some(granted) = self.scan.taken.take() else { return };
        if trx.isolation > Isolation::ReadCommitted || granted != Granted::New {
            return;
        }
        if let Some(found) = self.found() {
            let pk = found.pk.to_vec();
            let index = self.table.layout().clustered.id;
            self.scan.reader.trx_sys.locks().unlock_unwanted(trx, index, &pk);
        }
    }

    /// Ends the scan: forgets position and bounds, keeps buffers.
    pub fn reset(&mut self) {
        let scan = &mut self.scan;
        scan.at.count_rows(&scan.reader.counters);
        scan.at.reset();
        scan.clear_found();
        scan.view = None;
        scan.cache.forget();
        self.following = None;
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        let scan = &mut self.scan;
        scan.at.count_rows(&scan.reader.counters);
    }
}

fn locking<'s>(
    scan: &'s mut RowScan,
    following: &'s mut Option<Box<Following>>,
    layout: &'s Layout,
) -> LockingReader<'s> {
    LockingReader {
        scan,
        following,
        layout,
    }
}

fn consistent<'s>(scan: &'s mut RowScan, layout: &'s Layout) -> ConsistentReader<'s> {
    ConsistentReader { scan, layout }
}
