//! The geometry of the pool: the sizes from which everything that depends on the pool is built.
//!
//! The parts of the pool take a [`PoolGeometry`] when they are made. A layer above that sizes
//! something by the pool registers a [`GeometryObserver`]. A resize changes the parts of the pool
//! first, and then notifies the observers.
//!
//! Lock: one of rank `Leaf`, not held while observers run.
//! Called by: `store` and the constructors of the parts; `buffer_pool`, which registers observers.
use crate::base::sync::{Rank, RankedMutex};
use crate::pool::page::PAGE_SIZE;
use std::sync::{Arc, Weak};

/// Fewer frames cannot hold the latched pages of a few splits at once.
pub(in crate::pool) const FRAMES_MIN: usize = 16;
/// Without a setting a pool can grow to so many times its size at the start.
const GROWTH: u64 = 8;
/// Without a setting a pool can grow to at least so many bytes.
const GROWTH_MIN: u64 = if cfg!(test) { 64 << 20 } else { 64 << 30 };
/// Bytes of addresses that are reserved without a setting, at most.
const ADDRESSES_MAX: u64 = 8 << 40;

/// How much memory the pool has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolGeometry {
    frames: usize,
    frames_max: usize,
}

impl PoolGeometry {
    /// The geometry of a pool of about `bytes`: whole pages, and never fewer than a few.
    pub(in crate::pool) fn for_size(bytes: u64) -> PoolGeometry {
        let frames = (bytes as usize / PAGE_SIZE).max(FRAMES_MIN);
        PoolGeometry::of(frames, frames)
    }
    pub(in crate::pool) fn of(frames: usize, frames_max: usize) -> PoolGeometry {
        debug_assert!(
            frames > 0 && frames <= frames_max,
            "a pool has frames, and addresses for them"
        );
        PoolGeometry { frames, frames_max }
    }
    /// A pool that can grow to about `bytes_max`. 0: to [`GROWTH`] times its size, at least to
    /// [`GROWTH_MIN`].
    pub(in crate::pool) fn growing_to(self, bytes_max: u64) -> PoolGeometry {
        let bytes_max = match bytes_max {
            0 => (GROWTH * self.bytes())
                .max(GROWTH_MIN)
                .min(ADDRESSES_MAX.max(self.bytes())),
            bytes => bytes,
        };
        PoolGeometry {
            frames_max: (bytes_max as usize / PAGE_SIZE).max(self.frames),
            ..self
        }
    }
    /// Pages that the pool can hold.
    pub fn frames(&self) -> usize {
        self.frames
    }
    /// Bytes of these pages.
    pub fn bytes(&self) -> u64 {
        (self.frames * PAGE_SIZE) as u64
    }
    /// Pages that the pool can hold after it has grown.
    pub fn frames_max(&self) -> usize {
        self.frames_max
    }
}

/// Something outside of the pool that takes its size from the pool.
pub trait GeometryObserver: Send + Sync {
    /// The pool has this geometry now. It may be the same as at the last call.
    fn geometry_changed(&self, geometry: &PoolGeometry);
}

/// The observers of one pool. The pool does not keep them alive.
pub(in crate::pool) struct GeometryObservers {
    list: RankedMutex<Vec<Weak<dyn GeometryObserver>>>,
}

impl GeometryObservers {
    pub fn new() -> GeometryObservers {
        GeometryObservers {
            list: RankedMutex::new(Rank::Leaf, Vec::new()),
        }
    }
    /// Adds an observer, and notifies all of them of the current geometry.
    pub fn register(&self, observer: Weak<dyn GeometryObserver>, geometry: &PoolGeometry) {
        self.list.lock().push(observer);
        self.notify(geometry);
    }
    /// Calls every observer that still exists.
    pub fn notify(&self, geometry: &PoolGeometry) {
        let observers: Vec<Arc<dyn GeometryObserver>> = {
            let mut list = self.list.lock();
            list.retain(|observer| observer.strong_count() > 0);
            list.iter().filter_map(Weak::upgrade).collect()
        };
        for observer in observers {
            observer.geometry_changed(geometry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    struct Bytes(AtomicU64);

    impl GeometryObserver for Bytes {
        fn geometry_changed(&self, geometry: &PoolGeometry) {
            self.0.store(geometry.bytes(), Ordering::Relaxed);
        }
    }

    #[test]
    fn a_pool_has_whole_pages_and_a_few_at_least() {
        assert_eq!(PoolGeometry::for_size(0).frames(), FRAMES_MIN);
        let geometry = PoolGeometry::for_size(100 * PAGE_SIZE as u64 + 7);
        assert_eq!((geometry.frames(), geometry.bytes()), (100, 100 * PAGE_SIZE as u64));
    }

    #[test]
    fn observers_learn_the_geometry_until_they_are_dropped() {
        let observers = GeometryObservers::new();
        let (first, second) = (Arc::new(Bytes(AtomicU64::new(0))), Arc::new(Bytes(AtomicU64::new(0))));
        let (small, large) = (PoolGeometry::for_size(1 << 20), PoolGeometry::for_size(1 << 30));
        let watch = |observer: &Arc<Bytes>| -> Weak<dyn GeometryObserver> { Arc::<Bytes>::downgrade(observer) };
        observers.register(watch(&first), &small);
        assert_eq!(first.0.load(Ordering::Relaxed), 1 << 20);
        observers.register(watch(&second), &large);
        assert_eq!(first.0.load(Ordering::Relaxed), 1 << 30);
        assert_eq!(second.0.load(Ordering::Relaxed), 1 << 30);
        drop(first);
        observers.notify(&small);
        assert_eq!(observers.list.lock().len(), 1);
    }
}
