//! How fast the page cleaner works, and how it sleeps.
//!
//! Redo sets the pace: while its age (LSN minus checkpoint) is under 3/8 of the ring, hot pages are left to gather changes.
//! Above, the cleaner writes the pages that hold back as many bytes of redo as were produced in the last round, times a
//! gain that rises evenly from 0 at 3/8 to 2 at 3/4: where it passes 1, age stands still. So the age settles at little more than half
//! of the ring under a steady load and nothing comes in bursts. The dirty share adds to it; all of it is
//! bounded by `io_capacity_max`, except when writers wait for room in the ring. An idle engine writes at `io_capacity`.
//! The free list is filled beside that, whenever it is short.
use crate::base::sync::{Rank, RankedMutex};
use crate::pool::Pool;
use parking_lot::Condvar;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Rounds per second. A cleaner that is woken in between only fills the free list: a target for so short a time would be a batch of few
/// pages, with the syncs of a large one.
const ROUNDS: usize = 10;
const ROUND_US: u64 = 1_000_000 / ROUNDS as u64;
const DIRTY_SHARE_MAX: f64 = 0.75;

pub(in crate::pool) struct Pace {
    io_capacity: AtomicU32,
    io_capacity_max: AtomicU32,
    /// When the last round began, and the redo LSN then.
    last_lsn: AtomicU64,
    last_us: AtomicU64,
    woken: RankedMutex<bool>,
    wake: Condvar,
}

impl Pace {
    pub fn new(io_capacity: u32, io_capacity_max: u32) -> Pace {
        Pace {
            io_capacity: AtomicU32::new(io_capacity),
            io_capacity_max: AtomicU32::new(io_capacity_max.max(io_capacity)),
            last_lsn: AtomicU64::new(0),
            last_us: AtomicU64::new(0),
            woken: RankedMutex::new(Rank::Leaf, false),
            wake: Condvar::new(),
        }
    }
}

/// Gain by age as a share of the ring.
fn gain(age_share: f64) -> f64 {
    ((age_share - 0.375) / (0.75 - 0.375) * 2.0).max(0.0)
}

impl Pool {
    /// How many of the oldest pages the cleaner should write in this round: from age of the log, dirty share and io_capacity. 0 within
    /// a round, unless writers wait.
    pub fn flush_target(&self) -> usize {
        let now = self.disk.now_us();
        let since = now.saturating_sub(self.pace.last_us.load(Ordering::Relaxed));
        if since >= ROUND_US / 10 * 9 {
            self.pace.last_us.store(now, Ordering::Relaxed);
        } else if !self.redo.wanted() {
            return 0;
        }
        let idle_pages = (self.pace.io_capacity.load(Ordering::Relaxed) as usize / ROUNDS).max(1);
        let pages_max = (self.pace.io_capacity_max.load(Ordering::Relaxed) as usize / ROUNDS).max(1);
        let lsn = self.redo.lsn();
        let produced = lsn - self.pace.last_lsn.swap(lsn, Ordering::Relaxed).min(lsn);
        let age = self.redo.age();
        let capacity = self.redo.capacity().max(1);
        let dirty = self.dirty.count();

        let mut target = 0;
        if produced == 0 {
            target = idle_pages.min(dirty);
        }
        let gain = gain(age as f64 / capacity as f64);
        if gain > 0.0 {
            let oldest = self.checkpoint_lsn();
            let advance = (produced as f64 * gain) as u64;
            target = target.max(self.dirty.older_than(oldest + advance));
        }
        let share = self.dirty_share();
        if share > DIRTY_SHARE_MAX {
            let urgency = (share - DIRTY_SHARE_MAX) / (1.0 - DIRTY_SHARE_MAX);
            target = target.max((pages_max as f64 * urgency) as usize + 1);
        }
        target = target.min(pages_max);
        if self.redo.wanted() {
            // All that stands in the way of half a ring.
            let needed = self.dirty.older_than(lsn.saturating_sub(capacity / 2));
            target = target.max(needed).max(idle_pages);
        }
        target
    }
    /// Frames are missing from the free list.
    pub fn is_short(&self) -> bool {
        self.clock.deficit() > 0
    }
    pub(in crate::pool) fn dirty_share(&self) -> f64 {
        self.dirty.count() as f64 / self.frames.len() as f64
    }
    /// Pages a second in the background: usually, and when pressed.
    pub fn io_capacity(&self) -> (u32, u32) {
        let get = |n: &AtomicU32| n.load(Ordering::Relaxed);
        (get(&self.pace.io_capacity), get(&self.pace.io_capacity_max))
    }
    /// Raises the maximum along if it would be lower.
    pub fn set_io_capacity(&self, pages_per_second: u32) {
        self.pace.io_capacity.store(pages_per_second, Ordering::Relaxed);
        self.pace.io_capacity_max.fetch_max(pages_per_second, Ordering::Relaxed);
    }
    /// Not below the usual capacity.
    pub fn set_io_capacity_max(&self, pages_per_second: u32) {
        let usual = self.pace.io_capacity.load(Ordering::Relaxed);
        self.pace
            .io_capacity_max
            .store(pages_per_second.max(usual), Ordering::Relaxed);
    }
    /// Blocks the page cleaner until there is something to do or the timeout ends.
    pub fn wait_for_work(&self, timeout_ms: u64) {
        let mut woken = self.pace.woken.lock();
        if !*woken {
            self.pace.wake.wait_for(woken.raw(), Duration::from_millis(timeout_ms));
        }
        *woken = false;
    }
    pub fn wake_cleaner(&self) {
        let mut woken = self.pace.woken.lock();
        if !*woken {
            *woken = true;
            self.pace.wake.notify_all();
        }
    }
    /// Brings the pool's gauges, and the request counter (kept apart per thread), into [`crate::base::Counters`].
    pub fn update_gauges(&self) {
        self.counters.buffer_pool_read_requests.set(self.requests.sum());
        self.counters.buffer_pool_pages_total.set(self.frames.len() as u64);
        self.counters.buffer_pool_pages_free.set(self.clock.free_count() as u64);
        self.counters.buffer_pool_pages_dirty.set(self.dirty.count() as u64);
        self.counters.buffer_pool_imprints.set(self.imprints());
    }
}

#[cfg(test)]
mod tests {
    use super::gain;

    #[test]
    fn gain_rises_evenly_from_three_eighths() {
        assert_eq!(gain(0.0), 0.0);
        assert_eq!(gain(0.375), 0.0);
        assert!((gain(0.5625) - 1.0).abs() < 1e-9);
        assert!((gain(0.75) - 2.0).abs() < 1e-9);
    }
}
