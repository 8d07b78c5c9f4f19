//! What a thread of a load did: operations, latencies, and both by the second, so that stalls show.
//!
//! An operation is what the report counts (a row, a page). A request is what latency is measured of
//! (a statement, a page). Latency begins at the moment a request was due. So a server that stalls
//! under a fixed rate is charged for the requests that waited.
use hdrhistogram::Histogram;
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const LATENCY_MAX_US: u64 = 3_600_000_000;

pub struct Meter {
    start: Instant,
    operations: u64,
    latency_us: Histogram<u64>,
    operations_by_second: Vec<u64>,
    slowest_us_by_second: Vec<u64>,
    errors: BTreeMap<u16, u64>,
}

impl Meter {
    pub fn new(start: Instant) -> Self {
        let latency_us = Histogram::new_with_bounds(1, LATENCY_MAX_US, 3).expect("bounds are valid constants");
        Meter {
            start,
            operations: 0,
            latency_us,
            operations_by_second: vec![],
            slowest_us_by_second: vec![],
            errors: BTreeMap::new(),
        }
    }

    /// One request that was due at `due` has just ended and did `operations`.
    pub fn record(&mut self, due: Instant, operations: u64) {
        let now = Instant::now();
        let latency_us = now.saturating_duration_since(due).as_micros() as u64;
        self.latency_us.saturating_record(latency_us.max(1));
        self.operations += operations;
        let second = now.saturating_duration_since(self.start).as_secs() as usize;
        if self.operations_by_second.len() <= second {
            self.operations_by_second.resize(second + 1, 0);
            self.slowest_us_by_second.resize(second + 1, 0);
        }
        self.operations_by_second[second] += operations;
        self.slowest_us_by_second[second] = self.slowest_us_by_second[second].max(latency_us);
    }

    pub fn error(&mut self, code: u16) {
        *self.errors.entry(code).or_default() += 1;
    }

    pub fn add(&mut self, other: &Meter) {
        self.operations += other.operations;
        self.latency_us.add(&other.latency_us).expect("same bounds");
        let seconds = self.operations_by_second.len().max(other.operations_by_second.len());
        self.operations_by_second.resize(seconds, 0);
        self.slowest_us_by_second.resize(seconds, 0);
        for (second, operations) in other.operations_by_second.iter().enumerate() {
            self.operations_by_second[second] += operations;
            self.slowest_us_by_second[second] =
                self.slowest_us_by_second[second].max(other.slowest_us_by_second[second]);
        }
        for (code, count) in &other.errors {
            *self.errors.entry(*code).or_default() += count;
        }
    }

    pub fn sum(start: Instant, meters: impl IntoIterator<Item = Meter>) -> Meter {
        let mut total = Meter::new(start);
        for meter in meters {
            total.add(&meter);
        }
        total
    }

    fn json(&self) -> Value {
        let at = |quantile| self.latency_us.value_at_quantile(quantile);
        let histogram: Vec<_> = self
            .latency_us
            .iter_log(64, 2.0)
            .map(|step| json!([step.value_iterated_to(), step.count_since_last_iteration()]))
            .collect();
        json!({
            "operations": self.operations,
            "requests": self.latency_us.len(),
            "latency_us": {"mean": self.latency_us.mean(), "p50": at(0.5), "p95": at(0.95), "p99": at(0.99), "p999": at(0.999), "max": self.latency_us.max()},
            "histogram_us": histogram,
            "operations_by_second": self.operations_by_second,
            "slowest_us_by_second": self.slowest_us_by_second,
            "errors": self.errors,
        })
    }
}

/// The document that a load prints: its duration, and its meters by name. The first is the load's
/// headline.
pub fn report(elapsed: Duration, threads: usize, meters: &[(&str, &Meter)]) -> Value {
    let by_name: Map<String, Value> = meters
        .iter()
        .map(|(name, meter)| (name.to_string(), meter.json()))
        .collect();
    json!({"elapsed_s": elapsed.as_secs_f64(), "threads": threads, "headline": meters[0].0, "meters": by_name})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_runs_from_the_moment_a_request_was_due() {
        let start = Instant::now() - Duration::from_millis(1500);
        let mut meter = Meter::new(start);
        meter.record(start, 10);
        assert_eq!(meter.operations_by_second, [0, 10]);
        assert!(meter.slowest_us_by_second[1] >= 1_500_000);
    }

    #[test]
    fn meters_add_up() {
        let start = Instant::now();
        let (mut one, mut two) = (Meter::new(start), Meter::new(start));
        one.record(Instant::now(), 1);
        two.record(Instant::now(), 2);
        two.error(1213);
        let total = Meter::sum(start, [one, two]);
        assert_eq!(
            (total.operations, total.latency_us.len(), total.errors[&1213]),
            (3, 2, 1)
        );
    }
}
