//! [`Position`]: where a scan of one index is, and the batch of entries that it has copied there.
//!
//! Between calls it holds no latch and no page. Called by the readers and by `cursor`.
use crate::base::bytes::raise_to_prefix_end;
use crate::base::{Counters, Error, Result, UndoPtr};
use crate::btree::Seek;
use crate::index::scan::{Batch, Direction, Limit, Scan};
use crate::index::Index;
use crate::pool::Pool;
use crate::table::catalog::index_quarantine::check_not_quarantined;
use crate::table::scan::reader::Reader;
use crate::txn::Trx;

/// Batches grow as a scan goes on: a point lookup copies one entry, and a long scan seldom pays for
/// a latch. A scan with a bound copies nothing past it, and is seldom given up early: it begins
/// with more entries.
const BATCH_GROWTH: usize = 4;
const BATCH_ENTRIES_BOUNDED: usize = 8;
const BATCH_ENTRIES_MAX: usize = 256;
/// So few that the batches of many connections stay in the processor's cache.
const BATCH_BYTES_MAX: usize = 8 << 10;
/// Entries looked at between two polls of `Waiter::killed`.
pub(in crate::table) const KILL_POLL: u32 = 1000;
/// So many versions cost as much as an entry.
const STEPS_PER_POLL: u32 = 4;

/// What is counted step by step.
#[derive(Default)]
pub(in crate::table) struct Steps {
    /// Since the last look whether the statement was killed.
    polls: u32,
    /// Rows handed out that the counter does not have yet.
    rows_read: u64,
    /// `pass` was called, and `Position::last` is not the key of the entry passed; see `catch_up`.
    last_is_stale: bool,
}

impl Steps {
    /// The entry at hand is handed out, and its key is not copied. The caller moves
    /// `Position::next`.
    #[inline]
    pub fn pass(&mut self) {
        self.polls += 1;
        self.rows_read += 1;
        self.last_is_stale = true;
    }
}

pub(in crate::table) struct Position {
    scan: Option<Scan>,
    pub direction: Direction,
    pub batch: Batch,
    /// Entry of the batch that comes next; the one handed out last is before it.
    pub next: usize,
    batch_entries: usize,
    expected: u64,
    /// The transaction's newest undo record when the batch was copied: its own later changes make
    /// the rest of the batch stale.
    batch_undo: UndoPtr,
    lo: Vec<u8>,
    hi: Vec<u8>,
    has_hi: bool,
    /// Key of the entry looked at last, if `positioned`; else the key given to `seek`.
    pub last: Vec<u8>,
    pub positioned: bool,
    /// How `seek` began: at its key or after it; None = at an end of the range.
    pub seek_inclusive: Option<bool>,
    pub steps: Steps,
}

impl Position {
    pub fn new() -> Position {
        Position {
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
            positioned: false,
            seek_inclusive: None,
            steps: Steps::default(),
        }
    }
    /// A scan of this index; `reset` was called before.
    pub fn begin(&mut self, index: &Index) {
        debug_assert!(
            self.batch.is_empty() && !self.positioned,
            "a scan that begins has no entry of the one before"
        );
        match &mut self.scan {
            Some(scan) if *scan.tree() == index.tree => scan.restart(&[], None),
            scan => *scan = Some(Scan::new(index, &[], None)),
        }
    }
    pub fn is_begun(&self) -> bool {
        self.scan.is_some()
    }
    /// Forgets place and bounds, keeps buffers.
    pub fn reset(&mut self) {
        self.forget_batch();
        self.steps.last_is_stale = false;
        self.batch_entries = 1;
        self.expected = 0;
        self.lo.clear();
        self.has_hi = false;
        self.positioned = false;
    }

    pub fn set_bounds(&mut self, lo: &[u8], hi: Option<&[u8]>) {
        self.hi.clear();
        self.hi.extend_from_slice(hi.unwrap_or_default());
        self.has_hi = hi.is_some();
        self.restart_from(lo);
    }
    /// As [`Position::set_bounds`]; the upper bound is the end of the keys that start with
    /// `prefix`.
    pub fn set_bounds_to_prefix(&mut self, lo: &[u8], prefix: &[u8]) {
        self.hi.clear();
        self.hi.extend_from_slice(prefix);
        self.has_hi = raise_to_prefix_end(&mut self.hi);
        self.restart_from(lo);
    }
    /// The upper bound is set already.
    fn restart_from(&mut self, lo: &[u8]) {
        self.lo.clear();
        self.lo.extend_from_slice(lo);
        if let Some(scan) = &mut self.scan {
            scan.restart(lo, self.has_hi.then_some(&self.hi[..]));
            self.drop_batch();
        }
    }
    pub fn upper_bound(&self) -> Option<&[u8]> {
        self.has_hi.then_some(&self.hi[..])
    }
    pub fn lower_bound(&self) -> &[u8] {
        &self.lo
    }
    /// About so many entries will be wanted; 0 = unknown.
    pub fn expect(&mut self, rows: u64) {
        self.expected = rows;
        if rows > 1 {
            self.batch_entries = self.batch_entries.max((rows as usize).min(BATCH_ENTRIES_MAX));
        }
    }

    /// Places the scan before the first entry that `seek` means.
    pub fn seek(&mut self, seek: Seek, key: &[u8]) {
        let scan = self.scan.as_mut().expect("begun");
        scan.restart(&self.lo, self.has_hi.then_some(&self.hi[..]));
        use Direction::{Backward, Forward};
        self.last.clear();
        self.last.extend_from_slice(key);
        self.steps.last_is_stale = false;
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
        let bounded = match direction {
            Forward => self.has_hi,
            Backward => !self.lo.is_empty(),
        };
        self.batch_entries = match self.expected {
            0 if bounded => BATCH_ENTRIES_BOUNDED,
            0 => 1,
            n => (n as usize).clamp(1, BATCH_ENTRIES_MAX),
        };
        debug_assert!(
            (1..=BATCH_ENTRIES_MAX).contains(&self.batch_entries),
            "a batch has an entry, and not too many"
        );
        self.restart();
    }
    /// The next step is in that direction; drops a batch that does not serve it.
    pub fn turn(&mut self, trx: &Trx, direction: Direction) {
        if direction != self.direction || (self.next < self.batch.len() && self.batch_undo != trx.undo_top()) {
            self.direction = direction;
            self.drop_batch();
        }
    }

    /// Forgets entries that were copied and not handed out: the scan goes on after the last one
    /// looked at.
    pub fn drop_batch(&mut self) {
        self.catch_up();
        if self.positioned {
            self.restart();
        }
        self.forget_batch();
    }
    fn forget_batch(&mut self) {
        self.batch.clear();
        self.next = 0;
    }
    /// The scan goes on after `last`, or begins where `seek` said.
    pub fn restart(&mut self) {
        debug_assert!(
            !self.positioned || !self.steps.last_is_stale,
            "a scan goes on after a key that was copied"
        );
        self.forget_batch();
        let scan = self.scan.as_mut().expect("begun");
        match (self.positioned, self.seek_inclusive) {
            (true, _) => scan.go_on_from(&self.last, false),
            (false, Some(inclusive)) => scan.go_on_from(&self.last, inclusive),
            (false, None) => scan.restart(&self.lo, self.has_hi.then_some(&self.hi[..])),
        }
    }
    /// Undoes `step`: the scan is where it was.
    pub fn step_back_to(&mut self, from: &[u8], was_positioned: bool) {
        self.last.clear();
        self.last.extend_from_slice(from);
        self.positioned = was_positioned;
        self.restart();
    }

    /// The next entry to look at, in `batch` at `next - 1`; its key is in `last`. False: the range
    /// ends.
    pub fn step(&mut self, reader: &Reader, trx: &Trx, batch_max: usize) -> Result<bool> {
        debug_assert!(batch_max > 0, "a step may copy an entry");
        debug_assert!(!self.steps.last_is_stale, "the key of the entry passed last was copied");
        self.steps.polls += 1;
        if self.steps.polls >= KILL_POLL {
            self.steps.polls = 0;
            if trx.shared.waiter.killed() {
                return Err(Error::Interrupted);
            }
        }
        if self.next >= self.batch.len() {
            self.count_rows(&reader.counters);
            let scan = self.scan.as_mut().expect("begun");
            self.batch_entries = self.batch_entries.max(scan.least_batch());
            let limit = Limit {
                entries: self.batch_entries.min(batch_max),
                bytes: BATCH_BYTES_MAX,
            };
            self.next = 0;
            self.batch_undo = trx.undo_top();
            let filled = scan.fill(&reader.pool, &mut self.batch, self.direction, limit)?;
            check_not_quarantined(scan.index())?;
            if let Some(key) = scan.take_dense() {
                reader.merge_met(scan.index(), &key)?;
            }
            if filled == 0 {
                return Ok(false);
            }
            self.batch_entries = (self.batch_entries * BATCH_GROWTH).min(BATCH_ENTRIES_MAX);
        }
        debug_assert!(self.next < self.batch.len(), "a batch that was filled has an entry");
        self.last.clear();
        self.last.extend_from_slice(self.batch.key(self.next));
        self.positioned = true;
        self.next += 1;
        Ok(true)
    }

    /// Whether the next entry in that direction lies in the batch, is current, and may be passed.
    #[inline]
    pub fn is_at_hand(&self, trx: &Trx, direction: Direction) -> bool {
        let goes_on = self.next < self.batch.len() && direction == self.direction && self.batch_undo == trx.undo_top();
        goes_on && self.steps.polls + 1 < KILL_POLL
    }
    /// Copies the key that `Steps::pass` left out, before the batch goes or the long way is taken.
    pub fn catch_up(&mut self) {
        if self.steps.last_is_stale {
            debug_assert!(
                self.next > 0 && self.next <= self.batch.len(),
                "the entry passed last is in the batch"
            );
            self.steps.last_is_stale = false;
            self.last.clear();
            self.last.extend_from_slice(self.batch.key(self.next - 1));
        }
    }

    /// Key and value of the current entry.
    pub fn entry(&self) -> (&[u8], &[u8]) {
        debug_assert!(self.next > 0, "an entry was stepped to");
        self.batch.entry(self.next - 1)
    }
    pub fn key(&self) -> &[u8] {
        self.batch.key(self.next - 1)
    }
    pub fn value(&self) -> &[u8] {
        self.batch.value(self.next - 1)
    }
    /// The current entry is as it was copied, as far as its leaf and its pending changes show.
    pub fn is_unchanged(&self, pool: &Pool) -> bool {
        let scan = self.scan.as_ref().expect("begun");
        scan.is_unchanged(pool, &self.batch, self.next - 1)
    }

    /// Counts towards the next look whether the statement was killed: one entry may take thousands
    /// of steps.
    pub fn count_steps(&mut self, steps: u32) {
        debug_assert!(self.steps.polls < KILL_POLL, "a kill is looked for again and again");
        self.steps.polls = self
            .steps
            .polls
            .saturating_add(steps / STEPS_PER_POLL)
            .min(KILL_POLL - 1);
    }
    /// A row is handed out.
    pub fn count_row(&mut self) {
        self.steps.rows_read += 1;
    }
    pub fn count_rows(&mut self, counters: &Counters) {
        if self.steps.rows_read > 0 {
            counters.rows_read.add(self.steps.rows_read);
            self.steps.rows_read = 0;
        }
    }
}
