//! The memory budget that the filters of one kind share, over all indexes.
//!
//! Locks: none. Called by: `filter::counting`, `filter::bloom`.
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::base::sync::Arc;

/// The part (1/n) of the budget that only first filters may take. A few large filters must leave
/// room for the small first filters of thousands of indexes.
const RESERVED_FOR_FIRST: u64 = 4;

/// Bytes taken, and their bound.
pub struct MemoryBudget {
    taken: AtomicU64,
    max: AtomicU64,
}

/// Bytes taken from a budget. Dropping the reservation returns them.
pub struct Reservation {
    bytes: u64,
    budget: Arc<MemoryBudget>,
}

impl MemoryBudget {
    /// A budget of `max` bytes.
    pub fn new(max: u64) -> Arc<MemoryBudget> {
        Arc::new(MemoryBudget {
            taken: AtomicU64::new(0),
            max: AtomicU64::new(max),
        })
    }
    /// What is taken beyond a smaller budget stays taken until its owner returns it.
    pub fn set_max(&self, max: u64) {
        self.max.store(max, Ordering::Relaxed);
    }
    fn bytes_max(&self) -> u64 {
        self.max.load(Ordering::Relaxed)
    }
    /// Bytes for the first filter of an index or a partition. None: the budget is used up.
    pub fn reserve_first(self: &Arc<Self>, bytes: u64) -> Option<Reservation> {
        self.reserve(bytes, self.bytes_max())
    }
    /// Bytes for a filter that follows a smaller one. None: that part of the budget is used up.
    pub fn reserve_larger(self: &Arc<Self>, bytes: u64) -> Option<Reservation> {
        let max = self.bytes_max();
        self.reserve(bytes, max - max / RESERVED_FOR_FIRST)
    }
    fn reserve(self: &Arc<Self>, bytes: u64, max: u64) -> Option<Reservation> {
        debug_assert!(bytes > 0, "a filter takes memory");
        let raise = |taken: u64| taken.checked_add(bytes).filter(|taken| *taken <= max);
        self.taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, raise)
            .ok()?;
        let budget = self.clone();
        Some(Reservation { bytes, budget })
    }
    #[cfg(test)]
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
    #[cfg(test)]
    pub fn max(&self) -> u64 {
        self.bytes_max()
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let before = self.budget.taken.fetch_sub(self.bytes, Ordering::Relaxed);
        debug_assert!(before >= self.bytes, "a reservation returns only what it took");
    }
}
