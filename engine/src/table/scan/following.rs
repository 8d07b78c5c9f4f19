//! [`Following`]: what a locking scan knows of rows whose key another transaction changed while the
//! scan was under way (`relocated`).
//!
//! Takes no latch and no lock. Called by the locking reads and `cursor`.
use crate::base::Result;
use crate::index::scan::Direction;
use crate::table::scan::position::Position;

/// Appends the key that a row (clustered key, bytes) has in the scanned index to the buffer,
/// without the clustered key.
pub type KeyOf = Box<dyn Fn(&[u8], &[u8], &mut Vec<u8>) -> Result<()> + Send>;

/// Of a scan that follows rows to changed keys.
pub(in crate::table) struct Following {
    pub key_of: KeyOf,
    /// Where the scan began: the key given to `seek`; `seek_inclusive` says how.
    start: Vec<u8>,
    direction: Direction,
    /// Key of the version looked at.
    pub key: Vec<u8>,
    /// The entry looked at was marked after the view was opened.
    met_young: bool,
    passes: Passes,
}

/// Two updates can move a unique value to a row that the scan has passed. (`SET u = NULL` of the
/// old row, and `SET u = 90` of an earlier one.) The scan waited at the old row, and then finds no
/// row with the value. So a scan that has handed out no row may repeat its range. It does so if it
/// met more entries marked after the view than in the pass before. [`PASSES_AGAIN_MAX`] bounds the
/// repetitions: other transactions may move rows as fast.
#[derive(Default)]
struct Passes {
    /// It has handed out a row.
    is_over: bool,
    is_begun: bool,
    /// Before the first entry: `Position::last` and `Position::positioned`.
    from: Vec<u8>,
    was_positioned: bool,
    /// Entries marked after the view: in this pass, and in the one before.
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

impl Following {
    pub fn new(key_of: KeyOf) -> Following {
        Following {
            key_of,
            start: Vec::new(),
            direction: Direction::Forward,
            key: Vec::new(),
            met_young: false,
            passes: Passes::default(),
        }
    }
    /// The scan begins at `key`.
    pub fn start_at(&mut self, key: &[u8], direction: Direction) {
        self.start.clear();
        self.start.extend_from_slice(key);
        self.direction = direction;
        self.passes.start_over();
    }
    /// The entry looked at was marked after the statement's view.
    pub fn note_young(&mut self) {
        self.met_young = true;
    }
    /// Whether the entry that was just skipped was marked after the statement's view.
    pub fn has_skipped_young(&mut self) -> bool {
        let is_young = std::mem::take(&mut self.met_young);
        self.passes.young += u64::from(is_young);
        is_young
    }
    /// Before the scan looks for a row.
    pub fn begin_pass(&mut self, at: &Position) {
        let passes = &mut self.passes;
        if passes.is_begun {
            return;
        }
        passes.is_begun = true;
        passes.from.clear();
        passes.from.extend_from_slice(&at.last);
        passes.was_positioned = at.positioned;
    }
    /// A row was handed out.
    pub fn end_passes(&mut self) {
        self.passes.is_over = true;
    }
    /// The scan goes back to before its first entry, or to the row that it handed out last.
    pub fn forget_pass(&mut self) {
        self.passes.young = 0;
    }
    /// At the end of the range. True: the scan is before its first entry again.
    pub fn goes_through_again(&mut self, at: &mut Position) -> bool {
        let passes = &mut self.passes;
        let again = !passes.is_over && passes.young > passes.young_before && passes.again < PASSES_AGAIN_MAX;
        passes.again += u32::from(again);
        passes.young_before = std::mem::take(&mut passes.young);
        if again {
            debug_assert!(passes.is_begun, "a pass goes back to where it began");
            debug_assert!(
                passes.again <= PASSES_AGAIN_MAX,
                "I7: the passes over a range are bounded"
            );
            at.step_back_to(&passes.from, passes.was_positioned);
        }
        again
    }
    /// The key of the version looked at lies between the scan's beginning and the entry with key
    /// `entry`, or is that very key.
    pub fn has_passed_key(&self, at: &Position, entry: &[u8]) -> bool {
        let (key, start) = (&self.key[..], &self.start[..]);
        if at.direction != self.direction {
            return false;
        }
        match (at.direction, at.seek_inclusive) {
            (Direction::Forward, _) if key > entry => false,
            (Direction::Forward, Some(true)) => key >= start,
            (Direction::Forward, Some(false)) => key > start,
            (Direction::Forward, None) => key >= at.lower_bound(),
            (Direction::Backward, _) if key < entry => false,
            (Direction::Backward, Some(true)) => key <= start,
            (Direction::Backward, Some(false)) => key < start,
            (Direction::Backward, None) => at.upper_bound().is_none_or(|hi| key < hi),
        }
    }
}
