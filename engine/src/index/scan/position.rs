//! [`Position`]: the range of a scan, where the scan stands in it, and its read-ahead.
//!
//! Both ways of a scan keep it, so that a scan may change its way between two fills. Called by:
//! `scan`, `plain` and `merged`.
use super::batch::{Batch, Direction, Place};
use crate::btree::READ_AHEAD_MAX;

/// A scan that has crossed this many leaf borders is taken for a long one.
const AHEAD_AFTER: u32 = 2;
const AHEAD_FIRST: usize = 8;

/// Where the scan continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum At {
    /// At a bound of the range.
    Start,
    /// At `Position::last`: with it or beyond it.
    Key { inclusive: bool },
    /// In a leaf, just after `Position::last`. Forward: at the next slot; backward: one above it.
    Leaf { place: Place, direction: Direction },
    /// At the end of the range. `reported`: a `fill` returned nothing, so the caller knows. A turn
    /// then begins at the bound, else at `Position::last`.
    End { direction: Direction, reported: bool },
}

/// The range [lo, hi) and the place of a scan in it.
pub(super) struct Position {
    pub lo: Vec<u8>,
    /// None: no bound.
    pub hi: Option<Vec<u8>>,
    pub at: At,
    /// The key that the scan returned last.
    pub last: Vec<u8>,
    ahead: ReadAhead,
}

/// When to read ahead, and how far.
struct ReadAhead {
    /// Leaf borders crossed since the scan began or turned.
    crossed: u32,
    /// The next read-ahead is due at this many borders.
    due_at: u32,
    /// It asks for this many leaves.
    leaves: usize,
}

impl ReadAhead {
    const NEW: ReadAhead = ReadAhead {
        crossed: 0,
        due_at: AHEAD_AFTER,
        leaves: AHEAD_FIRST,
    };
}

impl Position {
    pub fn new(lo: &[u8], hi: Option<&[u8]>) -> Position {
        Position {
            lo: lo.to_vec(),
            hi: hi.map(<[u8]>::to_vec),
            at: At::Start,
            last: Vec::new(),
            ahead: ReadAhead::NEW,
        }
    }
    /// A new range; buffers are kept.
    pub fn restart(&mut self, lo: &[u8], hi: Option<&[u8]>) {
        set(&mut self.lo, lo);
        set_bound(&mut self.hi, hi);
        self.at = At::Start;
        self.ahead = ReadAhead::NEW;
    }
    pub fn go_on_from(&mut self, key: &[u8], inclusive: bool) {
        set(&mut self.last, key);
        self.at = At::Key { inclusive };
    }
    pub fn end(&mut self, direction: Direction) {
        let reported = false;
        self.at = At::End { direction, reported };
    }
    /// The batch is in order, and its keys lie in [lo, hi). For asserts.
    pub fn may_give(&self, batch: &Batch, direction: Direction) -> bool {
        let in_order = |i: usize| match direction {
            Direction::Forward => batch.key(i - 1) < batch.key(i),
            Direction::Backward => batch.key(i - 1) > batch.key(i),
        };
        let is_inside = |key: &[u8]| key >= &self.lo[..] && self.hi.as_ref().is_none_or(|hi| key < &hi[..]);
        (0..batch.len()).all(|i| is_inside(batch.key(i)) && (i == 0 || in_order(i)))
    }
    pub fn keep_last(&mut self, batch: &Batch) {
        if !batch.is_empty() {
            set(&mut self.last, batch.key(batch.len() - 1));
        }
    }
    /// A scan that turns begins to count borders anew.
    pub fn note_turn(&mut self, direction: Direction) {
        if matches!(self.at, At::Leaf { direction: before, .. } | At::End { direction: before, .. } if before != direction)
        {
            self.ahead = ReadAhead::NEW;
        }
    }

    pub fn cross_border(&mut self) {
        self.ahead.crossed += 1;
    }
    /// Leaves to ask the pool for now. None: no read-ahead is due.
    pub fn leaves_ahead(&self) -> Option<usize> {
        (self.ahead.crossed >= self.ahead.due_at).then_some(self.ahead.leaves)
    }
    /// The pool was asked for `asked` leaves.
    pub fn asked_ahead(&mut self, asked: usize) {
        debug_assert!(asked <= READ_AHEAD_MAX, "as many as one call asks for");
        debug_assert!(self.ahead.crossed >= self.ahead.due_at, "a read-ahead was due");
        self.ahead.leaves = (self.ahead.leaves * 2).min(READ_AHEAD_MAX);
        self.ahead.due_at = self.ahead.crossed + (asked as u32 / 2).max(1);
    }
}

/// Copies a bound into a buffer.
pub(super) fn set_bound(to: &mut Option<Vec<u8>>, from: Option<&[u8]>) {
    match (from, &mut *to) {
        (Some(from), Some(to)) => set(to, from),
        (from, _) => *to = from.map(<[u8]>::to_vec),
    }
}
/// Copies a key into a buffer.
pub(super) fn set(to: &mut Vec<u8>, from: &[u8]) {
    to.clear();
    to.extend_from_slice(from);
}
