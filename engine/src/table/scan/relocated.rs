//! Rows that move while a locking scan of a secondary index is under way: it has passed their new key by the time that it comes to the old one,
//! whose entry is marked. In a transaction that is a conflict (`check_moved`). UPDATE and DELETE outside of one lock the row and hand it out there
//! and then, by its newest version, as if it had been met at its new key. (Where the order of the rows may matter, the statement locks the gaps
//! behind it, and nothing can move there: `LockChoice::gaps`.)
//!
//! The statement's view keeps such entries from purge, and tells those that were marked since from older ones; it judges nothing. A row is
//! handed out by an old entry if its newest key lies in what the scan has passed (or is that entry's again), and the transaction does not hold
//! the lock that the scan asks for: what a scan has met stays locked, and cannot move any more. (So a row that another scan of the same statement
//! has locked so, or more strongly, may be missed: a table joined with itself.) If its key lies ahead, the scan is going to meet it there, or the mark that it leaves; elsewhere, it has left the range.
//!
//! Only the plugin can compute keys: it gives the scan a function that does.
use crate::base::{moment, Error, Moment, Result, TrxId};
use crate::index::scan::Direction;
use crate::index::{RowHeader, ROW_OVERFLOW};
use crate::table::catalog::layout::Layout;
use crate::table::row::row_lock::Locked;
use crate::table::row::snapshot::check_conflict;
use crate::table::row::version::split;
use crate::table::scan::cursor::{Cursor, KILL_POLL};
use crate::table::scan::locking::Outcome;
use crate::txn::{Granted, Trx};

/// Puts the key that a row (clustered key, bytes) has in the scanned index behind what is in the buffer, without the clustered key.
pub type KeyOf = Box<dyn Fn(&[u8], &[u8], &mut Vec<u8>) -> Result<()> + Send>;

/// Of a scan that misses no row that moves.
pub(in crate::table) struct Following {
    key_of: KeyOf,
    /// Where the scan began, as `seek` was told; `seek_inclusive` says how.
    start: Vec<u8>,
    direction: Direction,
    /// Key of the version looked at.
    key: Vec<u8>,
    /// The entry looked at was marked since the view.
    met_young: bool,
    passes: Passes,
}

/// A value may go over to a row that comes before the one that had it: `UPDATE t SET u = NULL` there, `SET u = 90` here. The scan stood at the old
/// row, and finds nobody. So one that has handed out nothing goes through its range again, if it met more entries that were marked since than
/// before. Not for ever: where others are quick to move rows there are always more.
#[derive(Default)]
struct Passes {
    /// It has handed out a row.
    is_over: bool,
    is_begun: bool,
    /// Before the first entry: what `Cursor::last` and `Cursor::positioned` were.
    from: Vec<u8>,
    was_positioned: bool,
    /// Entries marked since the view: in this pass, and in the one before.
    young: u64,
    young_before: u64,
    again: u32,
}
const PASSES_AGAIN_MAX: u32 = 2;

impl Passes {
    fn start_over(&mut self) {
        let mut from = std::mem::take(&mut self.from);
        from.clear();
        *self = Passes {
            from,
            ..Passes::default()
        };
    }
}

impl Cursor {
    /// Behind `begin`, of a secondary index and a locking scan: rows that move while it is under way are not missed.
    pub fn follow_moved(&mut self, trx: &mut Trx, key_of: KeyOf) {
        self.reader.trx_sys.open_statement_view(trx);
        self.following = Some(Box::new(Following {
            key_of,
            start: Vec::new(),
            direction: Direction::Forward,
            key: Vec::new(),
            met_young: false,
            passes: Passes::default(),
        }));
    }
    pub(in crate::table) fn note_young(&mut self) {
        if let Some(following) = &mut self.following {
            following.met_young = true;
        }
    }
    /// The entry that was just skipped has been marked since the statement's view.
    pub(in crate::table) fn has_skipped_young(&mut self) -> bool {
        let Some(following) = &mut self.following else {
            return false;
        };
        let is_young = std::mem::take(&mut following.met_young);
        following.passes.young += u64::from(is_young);
        is_young
    }
    /// Before the scan looks for a row.
    pub(in crate::table) fn begin_pass(&mut self) {
        let (last, positioned) = (&self.last, self.positioned);
        let Some(passes) = self.following.as_mut().map(|following| &mut following.passes) else {
            return;
        };
        if passes.is_begun {
            return;
        }
        passes.is_begun = true;
        passes.from.clear();
        passes.from.extend_from_slice(last);
        passes.was_positioned = positioned;
    }
    pub(in crate::table) fn end_passes(&mut self) {
        if let Some(following) = &mut self.following {
            following.passes.is_over = true;
        }
    }
    /// The scan goes back to before its first entry, or to the row that it handed out last.
    pub(in crate::table) fn forget_pass(&mut self) {
        if let Some(following) = &mut self.following {
            following.passes.young = 0;
        }
    }
    /// At the end of the range. True: the scan is before its first entry again.
    pub(in crate::table) fn goes_through_again(&mut self) -> bool {
        let Some(mut following) = self.following.take() else {
            return false;
        };
        let passes = &mut following.passes;
        let again = !passes.is_over && passes.young > passes.young_before && passes.again < PASSES_AGAIN_MAX;
        passes.again += u32::from(again);
        passes.young_before = std::mem::take(&mut passes.young);
        if again {
            self.step_back_to(&passes.from, passes.was_positioned);
        }
        self.following = Some(following);
        again
    }
    /// The scan begins at `key`.
    pub(in crate::table) fn follow_from(&mut self, key: &[u8]) {
        if let Some(following) = &mut self.following {
            following.start.clear();
            following.start.extend_from_slice(key);
            following.direction = self.direction;
            following.passes.start_over();
        }
    }

    /// The entry's mark is settled: by `stamp`.
    pub(in crate::table) fn lock_if_moved(
        &mut self,
        trx: &mut Trx,
        layout: &Layout,
        key: &[u8],
        pk: &[u8],
        stamp: TrxId,
    ) -> Result<Outcome> {
        let is_young = |trx: &Trx| trx.statement_view.as_ref().is_some_and(|view| !view.sees(stamp));
        if self.following.is_none() || !is_young(trx) {
            return Ok(Outcome::Skipped);
        }
        self.note_young();
        if !self.may_have_been_passed(trx, layout, key, pk)? {
            return Ok(Outcome::Skipped);
        }
        moment(Moment::MovedRowFound);
        match self.lock_newest(trx, layout, pk)? {
            None => self.row_is_locked(trx, layout, pk),
            Some(Locked::Gone(header)) => {
                self.check_gone(trx, layout, pk, header)?;
                Ok(Outcome::Skipped)
            }
            Some(Locked::Row(header, granted)) => self.take_if_moved(trx, layout, key, (pk, header, granted)),
        }
    }

    /// The row is locked, its newest version is in `version`, and its entry here does not stand (any more).
    pub(in crate::table) fn take_if_moved(
        &mut self,
        trx: &mut Trx,
        layout: &Layout,
        key: &[u8],
        (pk, header, granted): (&[u8], RowHeader, Granted),
    ) -> Result<Outcome> {
        self.note_young();
        let is_met = granted == Granted::Held || is_own(trx, &header);
        if is_met || !self.has_passed(layout, key, pk)? {
            self.reader.locks.unlock_if_new(trx, layout, pk, granted);
            return Ok(Outcome::Skipped);
        }
        if let Err(e) = check_conflict(trx, header.trx) {
            self.reader.locks.unlock_if_new(trx, layout, pk, granted);
            return Err(e);
        }
        self.taken = Some(granted);
        self.hand_out_version(layout, pk)?;
        Ok(Outcome::HandedOut)
    }

    /// Before one waits for the row's lock, which may be long, and is for nothing where the row is none of the scan's: whether a version of
    /// it that is the newest, or would be after a rollback, has a key that the scan has passed.
    fn may_have_been_passed(&mut self, trx: &Trx, layout: &Layout, key: &[u8], pk: &[u8]) -> Result<bool> {
        loop {
            if !self.copy_newest(layout, pk)? {
                return Ok(false);
            }
            let newest = RowHeader::read(&self.version);
            if is_own(trx, &newest) {
                return Ok(false);
            }
            if self.any_undecided_has_passed(trx, layout, key, pk)? {
                return Ok(true);
            }
            // Who has ended since the row was copied has committed, if that version is still there.
            if !self.newest_differs(layout, pk, &newest)? {
                return Ok(false);
            }
            if trx.shared.waiter.killed() {
                return Err(Error::Interrupted);
            }
        }
    }

    /// From the version at hand back to the first one whose maker has ended.
    fn any_undecided_has_passed(&mut self, trx: &Trx, layout: &Layout, key: &[u8], pk: &[u8]) -> Result<bool> {
        for turn in 1u32.. {
            if turn % KILL_POLL == 0 && trx.shared.waiter.killed() {
                return Err(Error::Interrupted);
            }
            let header = RowHeader::read(&self.version);
            // Who is about to end is active still, and seen by views already: those do not keep his records from purge.
            let seen = trx.statement_view.as_ref().is_some_and(|view| view.sees(header.trx));
            let undecided = !seen && self.reader.locks.made_by_other_active(trx, &header);
            // What is in overflow pages may be gone, but for a lock.
            let is_long = header.flags & ROW_OVERFLOW != 0;
            if !header.marked() && (is_long || self.has_passed(layout, key, pk)?) {
                return Ok(true);
            }
            if !undecided {
                return Ok(false);
            }
            self.rewind_until(layout, pk, &|older| *older != header, None)?;
            if RowHeader::read(&self.version) == header {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// The row in `version` has a key that lies between the scan's beginning and the entry of `at`, or that very key: it may have come back to it
    /// since one looked at the mark.
    fn has_passed(&mut self, layout: &Layout, at: &[u8], pk: &[u8]) -> Result<bool> {
        let Some(mut following) = self.following.take() else {
            return Ok(false);
        };
        let computed = self.compute_key(&mut following, layout, pk);
        let has_passed = self.is_behind(&following, at);
        self.following = Some(following);
        computed.map(|()| has_passed)
    }
    fn compute_key(&mut self, following: &mut Following, layout: &Layout, pk: &[u8]) -> Result<()> {
        let (header, stored) = split(&self.version);
        let fetched = self
            .reader
            .versions
            .fetch_whole(layout, &header, stored, &mut self.whole)?;
        let row = if fetched { &self.whole } else { stored };
        following.key.clear();
        (following.key_of)(pk, row, &mut following.key)?;
        following.key.extend_from_slice(pk);
        Ok(())
    }
    fn is_behind(&self, following: &Following, at: &[u8]) -> bool {
        let (key, start) = (&following.key[..], &following.start[..]);
        if self.direction != following.direction {
            return false;
        }
        match (self.direction, self.seek_inclusive) {
            (Direction::Forward, _) if key > at => false,
            (Direction::Forward, Some(true)) => key >= start,
            (Direction::Forward, Some(false)) => key > start,
            (Direction::Forward, None) => key >= self.lower_bound(),
            (Direction::Backward, _) if key < at => false,
            (Direction::Backward, Some(true)) => key <= start,
            (Direction::Backward, Some(false)) => key < start,
            (Direction::Backward, None) => self.upper_bound().is_none_or(|hi| key < hi),
        }
    }
}

/// Before its first change a transaction has no id, nor does a row whose maker is forgotten have one.
fn is_own(trx: &Trx, header: &RowHeader) -> bool {
    trx.id() != 0 && header.trx == trx.id()
}
