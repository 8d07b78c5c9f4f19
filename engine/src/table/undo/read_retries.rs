//! How long purge and rollback wait for what the disk fails to read. Such a failure may pass
//! (rights, too many open files, a cable), so the record is tried again.
//!
//! But the oldest stream always comes first, and one bad sector would hold up all purge. So a
//! record that fails so often, over such a time, is passed over as if the page were broken. Other
//! records that fail in the same table in a row are then passed over at once. A rollback
//! quarantines the secondary index then.
//!
//! One leaf lock. Called by `purge` and `rollback`.
use crate::base::sync::{Rank, RankedMutex};
use crate::base::{FileId, IndexId, UndoPtr};

/// Tries after which a record fails for long, and the time that they take.
const TRIES_LASTING: u32 = 3;
const LASTING_US: u64 = 10 * 1_000_000;
/// When nothing has failed anywhere for so long, the next failure is waited for again.
const FORGOTTEN_US: u64 = 6 * LASTING_US;
/// Passing failures that are known at a time. Each stream of undo has one at most. Lasting failures
/// are known until they are forgotten, one for each place.
const PASSING_MAX: usize = 1024;

/// Where something cannot be read; index 0: anywhere in the table.
type Place = (FileId, IndexId);

struct Failure {
    place: Place,
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

pub(in crate::table) struct ReadRetries(RankedMutex<Vec<Failure>>);

impl Default for ReadRetries {
    fn default() -> ReadRetries {
        ReadRetries(RankedMutex::new(Rank::Leaf, Vec::new()))
    }
}

impl ReadRetries {
    /// A read there failed when that undo record was purged or undone. True: the record is not
    /// waited for any longer.
    pub fn failed(&self, place: Place, record: UndoPtr, now_us: u64) -> bool {
        let mut known = self.0.lock();
        // Failures of other places in between are each waited for. They do not restart the wait for
        // a known one.
        let last_us = known.iter().map(|failure| failure.last_us).max().unwrap_or(0);
        if now_us.saturating_sub(last_us) >= FORGOTTEN_US {
            known.clear();
        }
        let is_same = |failure: &Failure| failure.place == place && (failure.is_lasting() || failure.record == record);
        let at = known.iter().position(is_same).unwrap_or_else(|| {
            make_room(&mut known);
            known.push(Failure {
                place,
                record,
                since_us: now_us,
                last_us: now_us,
                tries: 0,
            });
            known.len() - 1
        });
        known[at].again(now_us);
        debug_assert!(
            known[at].since_us <= known[at].last_us,
            "time goes on between two tries"
        );
        debug_assert!(known[at].tries > 0, "a place is known by a try that failed");
        let is_lasting = known[at].is_lasting();
        if is_lasting {
            // It stands for the place's other failures.
            known.retain(|failure| failure.place != place || failure.is_lasting());
        }
        is_lasting
    }
}

fn make_room(known: &mut Vec<Failure>) {
    if known.iter().filter(|failure| !failure.is_lasting()).count() == PASSING_MAX {
        let oldest = known.iter().position(|failure| !failure.is_lasting());
        known.remove(oldest.expect("there are so many"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the 65th table on each failure was pushed out before its turn came again, and purge
    /// waited anew for every one.
    #[test]
    fn many_tables_that_cannot_be_read_are_each_waited_for_once() {
        let tries = ReadRetries::default();
        let record = UndoPtr { page: 7, offset: 40 };
        let tables = 2000;
        let mut now_us = 0;
        let mut fails = |table, record| {
            now_us += 1_000;
            tries.failed((table, 0), record, now_us)
        };
        for first in (0..tables).step_by(500) {
            let mut rounds = 0;
            while !(first..first + 500)
                .map(|table| fails(table, record))
                .fold(true, |all, lasts| all & lasts)
            {
                rounds += 1;
                assert!(rounds < 100, "tables from {first} on are waited for again and again");
            }
        }
        for table in 0..tables {
            for offset in 0..2 {
                assert!(
                    fails(table, UndoPtr { page: 8, offset }),
                    "table {table} is waited for anew"
                );
            }
        }
        assert_eq!(tries.0.lock().len(), tables as usize);
    }
}
