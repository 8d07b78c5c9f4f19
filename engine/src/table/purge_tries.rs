//! How long purge waits for what the disk fails to read. Such a failure may pass (rights, too many open files, a cable), so the record is tried
//! again. But the oldest stream always comes first, and one bad sector would hold up all purge: a record that fails so often, over such a
//! time, is passed over as if the page were broken; and so are at once the others that fail in the same table, for as long as they come in a row.
//!
//! One leaf lock. Called by `purge.rs`.
use crate::base::sync::{Rank, RankedMutex};
use crate::base::{FileId, UndoPtr};

/// Tries of a record that fails for long, and the time that they take.
const TRIES_LASTING: u32 = 3;
const LASTING_US: u64 = 10 * 1_000_000;
/// Nothing failed anywhere so long: what comes next is waited for again.
const FORGOTTEN_US: u64 = 6 * LASTING_US;
/// Failures known at a time: more than there are purge threads.
const KNOWN_MAX: usize = 64;

struct Failure {
    table: FileId,
    record: UndoPtr,
    since_us: u64,
    last_us: u64,
    tries: u32,
}

impl Failure {
    fn is_lasting(&self) -> bool {
        self.tries >= TRIES_LASTING && self.last_us.saturating_sub(self.since_us) >= LASTING_US
    }
    fn again(&mut self, now_us: u64) {
        self.tries = self.tries.saturating_add(1);
        self.last_us = now_us;
    }
}

pub(super) struct PurgeTries(RankedMutex<Vec<Failure>>);

impl Default for PurgeTries {
    fn default() -> PurgeTries {
        PurgeTries(RankedMutex::new(Rank::Leaf, Vec::new()))
    }
}

impl PurgeTries {
    /// Something of `table` could not be read when that undo record was purged. True: it is not waited for any longer.
    pub fn failed(&self, table: FileId, record: UndoPtr, now_us: u64) -> bool {
        let mut known = self.0.lock();
        // Others that fail in between, each of which is waited for, are no reason to wait anew for what is known.
        let last_us = known.iter().map(|failure| failure.last_us).max().unwrap_or(0);
        if now_us.saturating_sub(last_us) >= FORGOTTEN_US {
            known.clear();
        }
        let is_same = |failure: &Failure| failure.table == table && (failure.is_lasting() || failure.record == record);
        let at = known.iter().position(is_same).unwrap_or_else(|| {
            if known.len() == KNOWN_MAX {
                known.remove(0);
            }
            known.push(Failure {
                table,
                record,
                since_us: now_us,
                last_us: now_us,
                tries: 0,
            });
            known.len() - 1
        });
        known[at].again(now_us);
        known[at].is_lasting()
    }
}
