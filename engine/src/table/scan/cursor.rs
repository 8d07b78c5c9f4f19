//! Reading: one cursor per user, for any index of its table, in both directions.
//!
//! A cursor holds no latch and no page between calls. Consistent reads (`cursor_consistent`) copy growing batches of entries
//! under one latch hold and resolve them one by one; locking reads (`cursor_locking`) go entry by entry. Here: setting up a
//! scan, moving, and handing out.
//!
//! What is handed out lies in the cursor's buffers and is valid until its next call.
use crate::base::{Error, Result, UndoPtr};
use crate::btree::Seek;
use crate::index::scan::{Batch, Direction, Limit, Scan};
use crate::index::{RowHeader, ROW_HEADER, ROW_OVERFLOW};
use crate::table::catalog::index_quarantine::aside_error;
use crate::table::catalog::index_quarantine::check_not_aside;
use crate::table::catalog::layout::Layout;
use crate::table::catalog::table::Table;
use crate::table::row::version::split;
use crate::table::scan::reader::Reader;
use crate::table::scan::relocated::Following;
use crate::table::scan::version_cache::Rewinds;
use crate::txn::{Granted, Isolation, LockMode, LockPolicy, ReadView, Trx};
use std::sync::Arc;

/// What to do with a row that another transaction has locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnLocked {
    #[default]
    Wait,
    /// `Error::Locked`.
    Refuse,
    Skip,
}

/// How the rows of a scan are locked. `mode` None: consistent read by a view.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LockChoice {
    pub mode: Option<LockMode>,
    pub on_locked: OnLocked,
    /// A consistent read is by the view of the statement, which judges nothing, and not by the transaction's.
    pub by_statement_view: bool,
    /// The gaps between the rows are locked, too, whatever the level (`Trx::locks_gaps`).
    pub gaps: bool,
}

impl LockChoice {
    pub fn policy(&self) -> LockPolicy {
        match self.on_locked {
            OnLocked::Wait => LockPolicy::Wait,
            OnLocked::Refuse | OnLocked::Skip => LockPolicy::NoWait,
        }
    }
}

/// An entry handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    /// `row` is the raw part of a secondary entry, not the clustered row.
    pub covering: bool,
    /// Clustered key, or index key + clustered key.
    pub key: &'a [u8],
    pub pk: &'a [u8],
    pub row: &'a [u8],
}

/// Where the row that was handed out lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::table) enum RowAt {
    /// In the batch's value, behind this many bytes.
    Batch(usize),
    /// In `Cursor::version`, behind a row header.
    Version,
    /// In `Cursor::whole`.
    Whole,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::table) struct Current {
    /// By a point read: the key is `get_key`, not the batch's.
    pub point: bool,
    pub covering: bool,
    pub pk_len: usize,
    pub row: RowAt,
}

/// Batches grow as a scan goes on: a point lookup copies one entry, a long scan pays for its latch seldom. One that knows where it ends copies
/// nothing beyond, and is seldom given up before: it begins with more.
const BATCH_GROWTH: usize = 4;
const BATCH_ENTRIES_BOUNDED: usize = 8;
const BATCH_ENTRIES_MAX: usize = 256;
/// Little enough that the batches of many connections stay in the processor's cache.
const BATCH_BYTES_MAX: usize = 8 << 10;
/// Entries looked at between two polls of `Waiter::killed`.
pub(in crate::table) const KILL_POLL: u32 = 1000;

pub struct Cursor {
    pub(in crate::table) reader: Arc<Reader>,
    /// None only while `with_layout` lends it.
    table: Option<Arc<Table>>,
    /// 0 = clustered, i + 1 = secondary i.
    pub(in crate::table) index: u32,
    pub(in crate::table) lock: LockChoice,
    pub(in crate::table) covering: bool,
    pub(in crate::table) semi_consistent: bool,
    pub(in crate::table) view: Option<Arc<ReadView>>,
    /// Of a locking scan that misses no row that moves (`cursor_moved`).
    pub(in crate::table) following: Option<Box<Following>>,

    pub(in crate::table) scan: Option<Scan>,
    pub(in crate::table) direction: Direction,
    pub(in crate::table) batch: Batch,
    /// Entry of the batch that comes next; the one handed out last is before it.
    pub(in crate::table) next: usize,
    batch_entries: usize,
    expected: u64,
    /// The transaction's newest undo record when the batch was copied: its own later changes make the rest of the batch stale.
    pub(in crate::table) batch_undo: UndoPtr,
    lo: Vec<u8>,
    hi: Vec<u8>,
    has_hi: bool,
    /// Key of the entry looked at last, if `positioned`; else the key given to `seek`.
    pub(in crate::table) last: Vec<u8>,
    /// `take_at_hand` has gone on in the batch and left `last` behind; see `catch_up`.
    pub(in crate::table) last_is_behind: bool,
    pub(in crate::table) positioned: bool,
    /// How `seek` began: at its key or behind it; None = at an end of the range.
    pub(in crate::table) seek_inclusive: Option<bool>,

    /// Value of the clustered entry (header and stored bytes), when it is not the batch's.
    pub(in crate::table) version: Vec<u8>,
    /// Value of a secondary entry that was looked at again.
    pub(in crate::table) entry: Vec<u8>,
    /// A row fetched from overflow pages.
    pub(in crate::table) whole: Vec<u8>,
    /// What was rewound for entries before (`rewound`).
    pub(in crate::table) rewinds: Rewinds,
    /// Key of a point read.
    get_key: Vec<u8>,
    pub(in crate::table) current: Option<Current>,
    /// The lock that the row handed out last got by this scan.
    pub(in crate::table) taken: Option<Granted>,
    pub(in crate::table) was_semi_consistent: bool,
    pub(in crate::table) polls: u32,
    pub(in crate::table) rows_read: u64,
}

impl Cursor {
    pub fn new(reader: Arc<Reader>, table: Arc<Table>) -> Cursor {
        Cursor {
            reader,
            table: Some(table),
            index: 0,
            lock: LockChoice::default(),
            covering: false,
            semi_consistent: false,
            view: None,
            following: None,
            scan: None,
            direction: Direction::Forward,
            batch: Batch::new(),
            next: 0,
            batch_entries: 1,
            expected: 0,
            batch_undo: UndoPtr::NONE,
            lo: Vec::new(),
            hi: Vec::new(),
            has_hi: false,
            last: Vec::new(),
            last_is_behind: false,
            positioned: false,
            seek_inclusive: None,
            version: Vec::new(),
            entry: Vec::new(),
            whole: Vec::new(),
            rewinds: Rewinds::default(),
            get_key: Vec::new(),
            current: None,
            taken: None,
            was_semi_consistent: false,
            polls: 0,
            rows_read: 0,
        }
    }
    /// See `DamageLog::name_damage`.
    pub fn name_damage(&self, error: Error) -> Error {
        self.reader.log.name_damage(error)
    }
    pub fn table(&self) -> &Arc<Table> {
        self.table.as_ref().expect("lent only inside a call")
    }
    /// Runs `body` with the table's layout. The table is moved out for that time: a clone would have every reader of a table
    /// write to its reference count at every row.
    pub(in crate::table) fn with_layout<T>(&mut self, body: impl FnOnce(&mut Cursor, &Layout) -> T) -> T {
        let table = self.table.take().expect("lent to one call at a time");
        let result = body(self, table.layout());
        self.table = Some(table);
        result
    }

    /// Sets up a scan of an index (0 = clustered, i + 1 = secondary i). `covering`: a secondary entry that the view sees is handed
    /// out as it is.
    pub fn begin(&mut self, trx: &mut Trx, index: u32, lock: LockChoice, covering: bool) -> Result<()> {
        self.reset();
        self.with_layout(|cursor, layout| {
            cursor.use_view(trx, layout, index, lock)?;
            let missing = || Error::Unsupported(format!("table {} has no index {index}", layout.id));
            let found = layout.index(index).ok_or_else(missing)?;
            if index > 0 && layout.secondary[index as usize - 1].aside {
                return Err(aside_error(layout.id, found));
            }
            match &mut cursor.scan {
                Some(scan) if *scan.tree() == found.tree => scan.restart(&[], None),
                scan => *scan = Some(Scan::new(found, &[], None)),
            }
            Ok(())
        })?;
        self.index = index;
        self.lock = lock;
        self.covering = covering && index > 0;
        Ok(())
    }

    /// The view of a consistent read. Whatever the read: refuses tables and indexes younger than the transaction's snapshot.
    pub(in crate::table) fn use_view(
        &mut self,
        trx: &mut Trx,
        layout: &Layout,
        index: u32,
        lock: LockChoice,
    ) -> Result<()> {
        self.view = None;
        let locking = lock.mode.is_some();
        if locking || trx.view_is_fresh {
            self.reader.snapshots.check_not_younger(trx, layout, index)?;
        }
        if locking || trx.isolation == Isolation::ReadUncommitted {
            return Ok(());
        }
        let view = self.open_view(trx, lock);
        if !layout.is_seen_by(&view, index) {
            return Err(Error::TableChanged);
        }
        self.view = Some(view);
        Ok(())
    }

    pub(in crate::table) fn open_view(&self, trx: &mut Trx, lock: LockChoice) -> Arc<ReadView> {
        match lock.by_statement_view {
            true => self.reader.trx_sys.open_statement_view(trx),
            false => self.reader.trx_sys.open_view(trx),
        }
    }

    /// Forward scans end at a key >= `hi`, backward ones at a key < `lo`. Before an entry is locked or handed out.
    pub fn set_bounds(&mut self, lo: &[u8], hi: Option<&[u8]>) {
        self.lo.clear();
        self.lo.extend_from_slice(lo);
        self.hi.clear();
        self.hi.extend_from_slice(hi.unwrap_or_default());
        self.has_hi = hi.is_some();
        if let Some(scan) = &mut self.scan {
            scan.restart(lo, hi);
            self.drop_batch();
        }
    }
    /// About so many entries will be wanted; 0 = unknown.
    pub fn expect(&mut self, rows: u64) {
        self.expected = rows;
        if rows > 1 {
            self.batch_entries = self.batch_entries.max((rows as usize).min(BATCH_ENTRIES_MAX));
        }
    }
    pub fn set_semi_consistent(&mut self, on: bool) {
        self.semi_consistent = on;
        self.was_semi_consistent = false;
    }
    pub fn was_semi_consistent(&self) -> bool {
        self.was_semi_consistent
    }

    /// Positions and hands out the first entry. False: there is none.
    pub fn seek(&mut self, trx: &mut Trx, seek: Seek, key: &[u8]) -> Result<bool> {
        if self.scan.is_none() {
            return Err(Error::Unsupported("a seek before the scan was begun".into()));
        }
        self.renew_view(trx);
        let scan = self.scan.as_mut().expect("begun");
        scan.restart(&self.lo, self.has_hi.then_some(&self.hi[..]));
        use Direction::{Backward, Forward};
        self.last.clear();
        self.last.extend_from_slice(key);
        self.last_is_behind = false;
        self.positioned = false;
        let (direction, inclusive) = match seek {
            Seek::First => (Forward, None),
            Seek::Last => (Backward, None),
            Seek::Ge => (Forward, Some(true)),
            Seek::Gt => (Forward, Some(false)),
            Seek::Le => (Backward, Some(true)),
            Seek::Lt => (Backward, Some(false)),
        };
        self.seek_inclusive = inclusive;
        self.direction = direction;
        self.follow_from(key);
        let bounded = match direction {
            Forward => self.has_hi,
            Backward => !self.lo.is_empty(),
        };
        self.batch_entries = match self.expected {
            0 if bounded => BATCH_ENTRIES_BOUNDED,
            0 => 1,
            n => (n as usize).clamp(1, BATCH_ENTRIES_MAX),
        };
        self.restart_scan();
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
        self.catch_up();
        if self.scan.is_none() {
            return Err(Error::Unsupported("a move before the scan was begun".into()));
        }
        self.renew_view(trx);
        if direction != self.direction || (self.next < self.batch.len() && self.batch_undo != trx.undo_top) {
            self.direction = direction;
            self.drop_batch();
        }
        self.advance(trx)
    }

    fn advance(&mut self, trx: &mut Trx) -> Result<bool> {
        self.current = None;
        self.taken = None;
        self.was_semi_consistent = false;
        self.with_layout(|cursor, layout| {
            if cursor.lock.mode.is_some() {
                cursor.next_locked(trx, layout)
            } else {
                cursor.next_consistent(trx, layout)
            }
        })
    }

    /// Forgets entries that were copied and not handed out: the scan goes on behind the last one looked at.
    pub(in crate::table) fn drop_batch(&mut self) {
        self.catch_up();
        if self.positioned {
            self.restart_scan();
        }
        self.forget_batch();
    }
    pub(in crate::table) fn forget_batch(&mut self) {
        self.batch.clear();
        self.next = 0;
    }
    /// The scan goes on behind `last`, or begins where `seek` said.
    pub(in crate::table) fn restart_scan(&mut self) {
        self.forget_batch();
        let scan = self.scan.as_mut().expect("begun");
        match (self.positioned, self.seek_inclusive) {
            (true, _) => scan.go_on_from(&self.last, false),
            (false, Some(inclusive)) => scan.go_on_from(&self.last, inclusive),
            (false, None) => scan.restart(&self.lo, self.has_hi.then_some(&self.hi[..])),
        }
    }

    /// The next entry to look at, in `batch` at `next - 1`; its key is in `last`. False: the range ends.
    pub(in crate::table) fn step(&mut self, trx: &Trx, batch_max: usize) -> Result<bool> {
        self.polls += 1;
        if self.polls >= KILL_POLL {
            self.polls = 0;
            if trx.shared.waiter.killed() {
                return Err(Error::Interrupted);
            }
        }
        if self.next >= self.batch.len() {
            self.count_rows();
            let scan = self.scan.as_mut().expect("begun");
            self.batch_entries = self.batch_entries.max(scan.least_batch());
            let limit = Limit {
                entries: self.batch_entries.min(batch_max),
                bytes: BATCH_BYTES_MAX,
            };
            self.next = 0;
            self.batch_undo = trx.undo_top;
            let filled = scan.fill(&self.reader.pool, &mut self.batch, self.direction, limit)?;
            check_not_aside(scan.index())?;
            if let Some(key) = scan.take_dense() {
                self.reader.merge_met(scan.index(), &key)?;
            }
            if filled == 0 {
                return Ok(false);
            }
            self.batch_entries = (self.batch_entries * BATCH_GROWTH).min(BATCH_ENTRIES_MAX);
        }
        self.last.clear();
        self.last.extend_from_slice(self.batch.key(self.next));
        self.positioned = true;
        self.next += 1;
        Ok(true)
    }

    fn count_rows(&mut self) {
        if self.rows_read > 0 {
            self.reader.counters.rows_read.add(self.rows_read);
            self.rows_read = 0;
        }
    }

    /// Hands out what is in `version`, fetching overflow pages. False: a dirty read found that the row is gone.
    pub(in crate::table) fn hand_out_version(&mut self, layout: &Layout, pk: &[u8]) -> Result<bool> {
        loop {
            let (header, stored) = split(&self.version);
            match self
                .reader
                .versions
                .fetch_whole(layout, &header, stored, &mut self.whole)
            {
                Ok(fetched) => {
                    let row = if fetched { RowAt::Whole } else { RowAt::Version };
                    self.hand_out(false, pk.len(), row);
                    return Ok(true);
                }
                // A dirty read: the version may have been rolled back, and its pages given to others.
                Err(_) if self.is_dirty_read() && self.newest_differs(layout, pk, &header)? => {
                    if !self.copy_newest(layout, pk)? || RowHeader::read(&self.version).marked() {
                        return Ok(false);
                    }
                }
                Err(e) => return Err(e),
            }
        }
    }
    fn is_dirty_read(&self) -> bool {
        self.view.is_none() && self.lock.mode.is_none()
    }
    pub(in crate::table) fn newest_differs(&self, layout: &Layout, pk: &[u8], header: &RowHeader) -> Result<bool> {
        let leaf = layout.clustered.tree.get(&self.reader.pool, pk)?;
        Ok(leaf.is_none_or(|leaf| RowHeader::read(leaf.value()) != *header))
    }
    /// Hands out the row in the batch's clustered entry.
    pub(in crate::table) fn hand_out_batch(&mut self, layout: &Layout) -> Result<bool> {
        let (key, value) = self.batch.entry(self.next - 1);
        if RowHeader::read(value).flags & ROW_OVERFLOW == 0 {
            let pk_len = key.len();
            self.hand_out(false, pk_len, RowAt::Batch(ROW_HEADER));
            return Ok(true);
        }
        self.version.clear();
        self.version.extend_from_slice(value);
        let pk = key.to_vec();
        self.hand_out_version(layout, &pk)
    }
    pub(in crate::table) fn hand_out(&mut self, covering: bool, pk_len: usize, row: RowAt) {
        self.rows_read += 1;
        self.current = Some(Current {
            point: false,
            covering,
            pk_len,
            row,
        });
    }

    /// What the last successful call handed out.
    pub fn found(&self) -> Option<Found<'_>> {
        let current = self.current?;
        let key = if current.point {
            &self.get_key[..]
        } else {
            self.batch.key(self.next - 1)
        };
        let row = match current.row {
            RowAt::Batch(skip) => &self.batch.value(self.next - 1)[skip..],
            RowAt::Version => &self.version[ROW_HEADER..],
            RowAt::Whole => &self.whole,
        };
        Some(Found {
            covering: current.covering,
            key,
            pk: &key[key.len() - current.pk_len..],
            row,
        })
    }

    /// The clustered row of a key, in the way a scan begun with `lock` would see it. False: there is none. A scan that is going on is
    /// not disturbed.
    pub fn get(&mut self, trx: &mut Trx, pk: &[u8], lock: LockChoice) -> Result<bool> {
        self.current = None;
        self.taken = None;
        self.was_semi_consistent = false;
        self.get_key.clear();
        self.get_key.extend_from_slice(pk);
        let of_scan = (self.lock, self.view.take(), self.semi_consistent);
        self.lock = lock;
        self.semi_consistent = false;
        let result = self.with_layout(|cursor, layout| cursor.get_row(trx, pk, layout));
        (self.lock, self.view, self.semi_consistent) = of_scan;
        if let (Ok(true), Some(current)) = (&result, &mut self.current) {
            current.point = true;
        }
        result
    }

    fn get_row(&mut self, trx: &mut Trx, pk: &[u8], layout: &Layout) -> Result<bool> {
        self.use_view(trx, layout, 0, self.lock)?;
        if self.lock.mode.is_some() {
            return self.get_locked(trx, layout, pk);
        }
        if !self.copy_newest(layout, pk)? || !self.rewind_version(layout, pk)? {
            return Ok(false);
        }
        self.hand_out_version(layout, pk)
    }

    /// A row that is there is locked and needs no snapshot; that none is there holds by the snapshot.
    fn get_locked(&mut self, trx: &mut Trx, layout: &Layout, pk: &[u8]) -> Result<bool> {
        loop {
            let guarded = trx.view.is_some();
            let result = self.lock_by_key(trx, layout, pk);
            if self.reader.snapshots.conflicts_with_fresh_snapshot(trx, &result) {
                continue;
            }
            if guarded || result != Ok(false) {
                return result;
            }
            self.reader.snapshots.guard_by_snapshot(trx);
            if trx.view.is_none() {
                return result;
            }
        }
    }

    /// Copies the newest clustered entry into `version`. False: no such key.
    pub(in crate::table) fn copy_newest(&mut self, layout: &Layout, pk: &[u8]) -> Result<bool> {
        Ok(self.copy_newest_from(layout, pk)?.is_some())
    }

    /// The last row does not match the WHERE: gives its lock back if this scan took it (READ COMMITTED and below).
    pub fn unlock_row(&mut self, trx: &mut Trx) {
        self.was_semi_consistent = false;
        let Some(granted) = self.taken.take() else { return };
        if trx.isolation > Isolation::ReadCommitted || granted != Granted::New {
            return;
        }
        if let Some(found) = self.found() {
            let pk = found.pk.to_vec();
            let index = self.table().layout().clustered.id;
            self.reader.trx_sys.locks().unlock_unwanted(trx, index, &pk);
        }
    }

    /// Ends the scan: forgets position and bounds, keeps buffers.
    pub fn reset(&mut self) {
        self.count_rows();
        self.batch.clear();
        self.next = 0;
        self.last_is_behind = false;
        self.batch_entries = 1;
        self.expected = 0;
        self.lo.clear();
        self.has_hi = false;
        self.positioned = false;
        self.current = None;
        self.taken = None;
        self.was_semi_consistent = false;
        self.view = None;
        self.following = None;
        self.rewinds.forget();
    }

    pub(in crate::table) fn upper_bound(&self) -> Option<&[u8]> {
        self.has_hi.then_some(&self.hi[..])
    }
    pub(in crate::table) fn lower_bound(&self) -> &[u8] {
        &self.lo
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.count_rows();
    }
}
