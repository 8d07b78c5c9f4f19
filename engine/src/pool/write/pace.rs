//! How many pages the page cleaner writes in a round.
//!
//! Redo sets the pace. While its age (LSN minus checkpoint) is under 3/8 of the ring, hot pages are
//! left to gather changes. Above that, the cleaner writes the pages that hold back as many bytes of
//! redo as were produced in the last round, times a gain. The gain increases evenly from 0 at 3/8
//! to 2 at 3/4; where it passes 1, age stands still. So under a steady load the age stays at little
//! more than half of the ring, and nothing comes in bursts.
//!
//! The dirty share adds to that. All of it is bounded by `io_capacity_max`, except when writers
//! wait for room in the ring. An idle engine writes at `io_capacity`. The free list is filled apart
//! from that, whenever it is short.
//!
//! Lock: the dirty list's.
//! Called by: `flush`.
use super::batch::BatchWriter;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Rounds per second. A cleaner that is woken between rounds only fills the free list. A target for
/// so short a time would be a batch of few pages, with the syncs of a large one.
const ROUNDS: usize = 10;
const ROUND_US: u64 = 1_000_000 / ROUNDS as u64;
const DIRTY_SHARE_MAX: f64 = 0.75;

pub(in crate::pool) struct Pace {
    io_capacity: AtomicU32,
    io_capacity_max: AtomicU32,
    /// The redo LSN when the last round began.
    last_lsn: AtomicU64,
    /// When the last round began.
    last_us: AtomicU64,
}

impl Pace {
    pub fn new(io_capacity: u32, io_capacity_max: u32) -> Pace {
        Pace {
            io_capacity: AtomicU32::new(io_capacity),
            io_capacity_max: AtomicU32::new(io_capacity_max.max(io_capacity)),
            last_lsn: AtomicU64::new(0),
            last_us: AtomicU64::new(0),
        }
    }
    /// Pages to write in this round. 0 within a round, unless writers wait.
    pub fn target(&self, writer: &BatchWriter) -> usize {
        let (redo, dirty_list) = (&writer.redo, &writer.store.dirty);
        let now = writer.disk.now_us();
        let since = now.saturating_sub(self.last_us.load(Ordering::Relaxed));
        if since >= ROUND_US / 10 * 9 {
            self.last_us.store(now, Ordering::Relaxed);
        } else if !redo.wanted() {
            return 0;
        }
        let (usual, most) = self.io_capacity();
        let idle_pages = (usual as usize / ROUNDS).max(1);
        let pages_max = (most as usize / ROUNDS).max(1);
        let lsn = redo.lsn();
        let produced = lsn - self.last_lsn.swap(lsn, Ordering::Relaxed).min(lsn);
        let age = redo.age();
        let capacity = redo.capacity().max(1);
        let dirty = dirty_list.count();

        let mut target = 0;
        if produced == 0 {
            target = idle_pages.min(dirty);
        }
        let gain = gain(age as f64 / capacity as f64);
        if gain > 0.0 {
            let oldest = writer.checkpoint_lsn();
            let advance = (produced as f64 * gain) as u64;
            target = target.max(dirty_list.older_than(oldest + advance));
        }
        let share = writer.store.dirty_share();
        if share > DIRTY_SHARE_MAX {
            let urgency = (share - DIRTY_SHARE_MAX) / (1.0 - DIRTY_SHARE_MAX);
            target = target.max((pages_max as f64 * urgency) as usize + 1);
        }
        target = target.min(pages_max);
        if redo.wanted() {
            // All pages that hold back half a ring.
            let needed = dirty_list.older_than(lsn.saturating_sub(capacity / 2));
            target = target.max(needed).max(idle_pages);
        }
        target
    }
    /// Pages a second in the background: without pressure, and under it.
    pub fn io_capacity(&self) -> (u32, u32) {
        let get = |n: &AtomicU32| n.load(Ordering::Relaxed);
        (get(&self.io_capacity), get(&self.io_capacity_max))
    }
    /// Raises the maximum, too, if that is lower.
    pub fn set_io_capacity(&self, pages_per_second: u32) {
        self.io_capacity.store(pages_per_second, Ordering::Relaxed);
        self.io_capacity_max.fetch_max(pages_per_second, Ordering::Relaxed);
    }
    /// Not below the usual capacity.
    pub fn set_io_capacity_max(&self, pages_per_second: u32) {
        let usual = self.io_capacity.load(Ordering::Relaxed);
        self.io_capacity_max
            .store(pages_per_second.max(usual), Ordering::Relaxed);
    }
}

/// Gain by age as a share of the ring.
fn gain(age_share: f64) -> f64 {
    ((age_share - 0.375) / (0.75 - 0.375) * 2.0).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::gain;

    #[test]
    fn gain_increases_evenly_from_three_eighths() {
        assert_eq!(gain(0.0), 0.0);
        assert_eq!(gain(0.375), 0.0);
        assert!((gain(0.5625) - 1.0).abs() < 1e-9);
        assert!((gain(0.75) - 2.0).abs() < 1e-9);
    }
}
