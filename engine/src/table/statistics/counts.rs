//! Rows of a table and changes of it, counted in memory by every row operation: one addition each.
//!
//! Counts include changes that are not committed; a rollback counts what it undoes. Takes no lock.
//! Called by the row operations, rollback, loads, and the statistics.
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

#[derive(Default)]
pub struct RowCounts {
    /// Rows there were when counting began.
    first: AtomicI64,
    is_known: AtomicBool,
    inserted: AtomicU64,
    deleted: AtomicU64,
    updated: AtomicU64,
}

impl RowCounts {
    /// Of a table that was just made.
    pub fn empty() -> RowCounts {
        let counts = RowCounts::default();
        counts.is_known.store(true, Ordering::Relaxed);
        counts
    }
    pub fn inserted(&self, rows: u64) {
        self.inserted.fetch_add(rows, Ordering::Relaxed);
    }
    pub fn deleted(&self, rows: u64) {
        self.deleted.fetch_add(rows, Ordering::Relaxed);
    }
    pub fn updated(&self) {
        self.updated.fetch_add(1, Ordering::Relaxed);
    }
    fn difference(&self) -> i64 {
        let inserted = self.inserted.load(Ordering::Relaxed);
        inserted.wrapping_sub(self.deleted.load(Ordering::Relaxed)) as i64
    }
    /// Rows now, an estimate.
    pub fn rows(&self) -> u64 {
        (self.first.load(Ordering::Relaxed) + self.difference()).max(0) as u64
    }
    /// Rows inserted, deleted or updated since the table was first used.
    pub fn changes(&self) -> u64 {
        let sum = self.inserted.load(Ordering::Relaxed) + self.deleted.load(Ordering::Relaxed);
        sum + self.updated.load(Ordering::Relaxed)
    }
    /// False: `rows` says how many there are more than when counting began.
    pub fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Acquire)
    }
    /// There are so many rows now. Only the first caller sets the number.
    pub fn know(&self, rows: u64) {
        if !self.is_known.swap(true, Ordering::AcqRel) {
            self.first.store(rows as i64 - self.difference(), Ordering::Relaxed);
        }
    }
    /// The table was emptied.
    pub fn truncated(&self) {
        self.deleted(self.rows());
        self.first.store(-self.difference(), Ordering::Relaxed);
        self.is_known.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_before_the_number_was_known_is_not_counted_twice() {
        let counts = RowCounts::default();
        counts.inserted(5);
        counts.deleted(1);
        counts.know(100);
        assert_eq!((counts.rows(), counts.changes()), (100, 6));
        counts.know(7);
        counts.inserted(1);
        assert_eq!((counts.rows(), counts.changes()), (101, 7));
        counts.truncated();
        assert_eq!((counts.rows(), counts.changes()), (0, 108));
        counts.updated();
        counts.inserted(2);
        assert_eq!((counts.rows(), counts.changes()), (2, 111));
    }
}
