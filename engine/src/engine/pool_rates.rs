//! Statistics of the buffer pool: totals, and what has been added since the last call.
//!
//! Lock: one of rank `Leaf`. Called by: `pool_control`.
use crate::base::sync::{Rank, RankedMutex};
use crate::base::Counters;
use crate::pool::PoolHeat;

/// Totals at one moment.
#[derive(Clone, Copy, Default, Debug)]
pub struct PoolTotals {
    pub read: u64,
    pub read_ahead: u64,
    pub created: u64,
    pub written: u64,
    pub evicted: u64,
    pub requested: u64,
}

/// Statistics of one moment.
#[derive(Clone, Copy, Default, Debug)]
pub struct PoolStats {
    pub pages: u64,
    pub free: u64,
    pub heat: PoolHeat,
    pub dirty: u64,
    pub totals: PoolTotals,
    /// The totals' growth since the last call.
    pub since: PoolTotals,
    /// Seconds since the last call.
    pub seconds: f64,
}

impl PoolStats {
    /// Of a thousand requests since the last call, those that found their page in the pool.
    pub fn hits_per_thousand(&self) -> u64 {
        let misses = 1000 * self.since.read.min(self.since.requested);
        misses
            .checked_div(self.since.requested)
            .map_or(0, |missed| 1000 - missed)
    }
    /// A growth since the last call, per second.
    pub fn rate(&self, since: u64) -> f64 {
        if self.seconds > 0.0 {
            since as f64 / self.seconds
        } else {
            0.0
        }
    }
}

/// The totals at the last call, and its time in microseconds.
pub(super) struct PoolRates(RankedMutex<(PoolTotals, u64)>);

impl PoolRates {
    pub fn new() -> PoolRates {
        PoolRates(RankedMutex::new(Rank::Leaf, Default::default()))
    }
    pub fn stats(&self, counters: &Counters, heat: PoolHeat, now_us: u64) -> PoolStats {
        debug_assert!(
            heat.cold <= heat.pages && heat.in_flight <= heat.pages,
            "parts of the pages in the pool"
        );
        let totals = PoolTotals {
            read: counters.buffer_pool_reads.get(),
            read_ahead: counters.buffer_pool_read_ahead.get(),
            created: counters.pages_created.get(),
            written: counters.buffer_pool_pages_flushed.get(),
            evicted: counters.buffer_pool_pages_evicted.get(),
            requested: counters.buffer_pool_read_requests.get(),
        };
        let (before, then_us) = std::mem::replace(&mut *self.0.lock(), (totals, now_us));
        PoolStats {
            pages: counters.buffer_pool_pages_total.get(),
            free: counters.buffer_pool_pages_free.get(),
            heat,
            dirty: counters.buffer_pool_pages_dirty.get(),
            totals,
            since: PoolTotals {
                read: totals.read.saturating_sub(before.read),
                read_ahead: totals.read_ahead.saturating_sub(before.read_ahead),
                created: totals.created.saturating_sub(before.created),
                written: totals.written.saturating_sub(before.written),
                evicted: totals.evicted.saturating_sub(before.evicted),
                requested: totals.requested.saturating_sub(before.requested),
            },
            seconds: now_us.saturating_sub(then_us) as f64 / 1e6,
        }
    }
}
