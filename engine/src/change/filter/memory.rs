//! The memory that filters of one kind take, for all indexes together, and its bound.
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// The part of the bound that only first filters may take: 1/4. Of a few large ones the small ones of thousands of indexes are not to find nothing left.
const FOR_FIRST: u64 = 4;

/// Bytes taken, and their bound.
pub(in crate::change) struct Memory {
    taken: AtomicU64,
    /// Follows the size of the pool.
    max: AtomicU64,
}

/// So many bytes of it are somebody's, until this is dropped.
pub(in crate::change) struct Share {
    bytes: u64,
    of: Arc<Memory>,
}

impl Memory {
    pub fn new(max: u64) -> Arc<Memory> {
        let taken = AtomicU64::new(0);
        let max = AtomicU64::new(max);
        Arc::new(Memory { taken, max })
    }
    /// A lower bound holds for what is taken from now on.
    pub fn set_max(&self, max: u64) {
        self.max.store(max, Ordering::Relaxed);
    }
    fn bound(&self) -> u64 {
        self.max.load(Ordering::Relaxed)
    }
    /// For the first filter that somebody has; None: nothing is left.
    pub fn take_first(self: &Arc<Self>, bytes: u64) -> Option<Share> {
        self.take(bytes, self.bound())
    }
    /// For a larger one.
    pub fn take_more(self: &Arc<Self>, bytes: u64) -> Option<Share> {
        let max = self.bound();
        self.take(bytes, max - max / FOR_FIRST)
    }
    fn take(self: &Arc<Self>, bytes: u64, max: u64) -> Option<Share> {
        let raise = |taken: u64| taken.checked_add(bytes).filter(|taken| *taken <= max);
        self.taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, raise)
            .ok()?;
        let of = self.clone();
        Some(Share { bytes, of })
    }
    #[cfg(test)]
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
    #[cfg(test)]
    pub fn max(&self) -> u64 {
        self.bound()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
