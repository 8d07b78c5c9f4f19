//! How much was counted since the last report of the status, per second.
//!
//! Each report begins a new interval for all users, as InnoDB's does. The first interval begins
//! when the engine is opened. Mutex: held for moments, no latch taken under it. Called by `status`.
use crate::base::sync::RankedMutex;
use crate::base::Counters;

/// The counters at the end of the last report.
pub(in crate::engine) struct LastReport {
    opened_us: u64,
    last: RankedMutex<(u64, Vec<u64>)>,
}

/// The counters, with those of the last report.
pub(super) struct Interval {
    before: Vec<u64>,
    now: Vec<u64>,
    us: u64,
}

impl LastReport {
    pub fn new(now_us: u64) -> LastReport {
        LastReport {
            opened_us: now_us,
            last: RankedMutex::default(),
        }
    }
    /// Seconds since the engine was opened.
    pub fn age_s(&self, now_us: u64) -> f64 {
        now_us.saturating_sub(self.opened_us) as f64 / 1e6
    }
    /// Ends an interval, and begins the next one.
    pub(super) fn interval(&self, now_us: u64, now: Vec<u64>) -> Interval {
        let mut last = self.last.lock();
        debug_assert_eq!(now.len(), Counters::NAMES.len(), "a report has every counter");
        debug_assert!(now_us >= self.opened_us, "the engine's clock does not go back");
        let (then_us, before) = std::mem::replace(&mut *last, (now_us, now.clone()));
        let is_first = before.is_empty();
        assert!(is_first || before.len() == now.len(), "the counters stay the same");
        Interval {
            before: if is_first { vec![0; now.len()] } else { before },
            now,
            us: now_us.saturating_sub(if is_first { self.opened_us } else { then_us }),
        }
    }
}

impl Interval {
    fn at(name: &str) -> usize {
        let at = Counters::NAMES.iter().position(|n| *n == name);
        at.expect("the report names counters that exist")
    }
    pub fn seconds(&self) -> f64 {
        self.us as f64 / 1e6
    }
    /// The counter now.
    pub fn value(&self, name: &str) -> u64 {
        self.now[Interval::at(name)]
    }
    /// What was counted in the interval.
    pub fn grown(&self, name: &str) -> u64 {
        let at = Interval::at(name);
        self.now[at].saturating_sub(self.before[at])
    }
    pub fn per_second(&self, name: &str) -> f64 {
        match self.us {
            0 => 0.0,
            us => self.grown(name) as f64 * 1e6 / us as f64,
        }
    }
    /// Hits per thousand: the share of the requests (counter `of`) that are not counted by
    /// `misses`. None: there were no requests.
    pub fn hits_permille(&self, of: &str, misses: &str) -> Option<u64> {
        let (all, missed) = (self.grown(of), self.grown(misses));
        (all > 0).then(|| 1000 - (missed.min(all) * 1000).div_ceil(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(requests: u64, reads: u64) -> Vec<u64> {
        let mut values = vec![0; Counters::NAMES.len()];
        values[Interval::at("buffer_pool_read_requests")] = requests;
        values[Interval::at("buffer_pool_reads")] = reads;
        values
    }

    #[test]
    fn an_interval_ends_with_a_report() {
        let last = LastReport::new(1_000_000);
        let first = last.interval(3_000_000, counted(100, 5));
        assert_eq!(first.per_second("buffer_pool_read_requests"), 50.0);
        assert_eq!(
            first.hits_permille("buffer_pool_read_requests", "buffer_pool_reads"),
            Some(950)
        );
        let second = last.interval(3_500_000, counted(110, 5));
        assert_eq!(
            (second.seconds(), second.per_second("buffer_pool_read_requests")),
            (0.5, 20.0)
        );
        assert_eq!(
            second.hits_permille("buffer_pool_read_requests", "buffer_pool_reads"),
            Some(1000)
        );
        let third = last.interval(3_500_000, counted(110, 5));
        assert_eq!(third.per_second("buffer_pool_read_requests"), 0.0);
        assert_eq!(
            third.hits_permille("buffer_pool_read_requests", "buffer_pool_reads"),
            None
        );
    }
}
