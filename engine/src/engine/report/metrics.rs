//! All counters with what they mean, for INFORMATION_SCHEMA. Called by `ffi`.
use crate::base::counters::Kind;
use crate::base::Counters;
use crate::engine::instance::Engine;

/// A counter.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    pub name: &'static str,
    pub subsystem: &'static str,
    pub value: u64,
    /// None: not a total.
    pub per_second: Option<f64>,
    pub kind: Kind,
    pub comment: String,
}

/// Seconds since the engine was opened, and every counter.
pub fn metrics(engine: &Engine) -> (f64, Vec<Metric>) {
    let values = engine.counter_values();
    debug_assert_eq!(values.len(), Counters::NAMES.len(), "every counter has a value");
    let age_s = engine.last_report.age_s(engine.store.pool.disk().now_us());
    let metric = |(i, value): (usize, &u64)| {
        let kind = Counters::kind(i);
        let is_total = kind == Kind::Total && age_s > 0.0;
        Metric {
            name: Counters::NAMES[i],
            subsystem: Counters::subsystem(i),
            value: *value,
            per_second: is_total.then(|| *value as f64 / age_s),
            kind,
            comment: Counters::comment(i),
        }
    };
    (age_s, values.iter().enumerate().map(metric).collect())
}
