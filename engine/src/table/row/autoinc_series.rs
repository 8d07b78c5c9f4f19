//! AUTO_INCREMENT: the values that a statement takes from a table's counter.
//!
//! The counter is the next value to give (0: never set). Its values are durable with the next row
//! change of the table (`dml/insert.rs`); [`Table`](crate::table::Table) has the counter itself. No
//! latches: the counter is one atomic number.
//!
//! Called by: `ffi` (`slc_table_autoinc_reserve`).
use crate::table::catalog::table::Table;
use std::sync::atomic::Ordering;

/// The values that a session's inserts may have: `offset`, `offset + increment`, ... up to `limit`.
#[derive(Clone, Copy, Debug)]
pub struct AutoincSeries {
    pub offset: u64,
    /// 0 is as 1.
    pub increment: u64,
    /// The greatest value of the column.
    pub limit: u64,
}

/// Values taken: `first`, `first + increment`, ...
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AutoincValues {
    /// Above the series' limit: the column is exhausted.
    pub first: u64,
    /// At least 1.
    pub count: u64,
}

impl AutoincSeries {
    fn step(&self) -> u64 {
        self.increment.max(1)
    }
    /// The least value of the series `offset`, `offset + step`, ... that is at least `from` (above
    /// 0), by the server's formula, which wraps. The greatest number if there is none.
    fn at_least(&self, from: u64, offset: u64) -> u64 {
        let step = self.step();
        if step == 1 {
            return from;
        }
        let steps = (from - 1).wrapping_add(step).wrapping_sub(offset) / step;
        let value = steps.wrapping_mul(step).wrapping_add(offset);
        if value < from {
            return u64::MAX;
        }
        value
    }
    /// What the counter becomes when `value` is the last one taken: the next value of the series,
    /// as InnoDB's counter. An offset above the increment does not count here.
    pub fn after(&self, value: u64) -> u64 {
        let offset = if self.offset > self.step() { 0 } else { self.offset };
        let after = self.at_least(value.saturating_add(1), offset);
        debug_assert!(after > value || after == u64::MAX, "a value is given once");
        after
    }

    /// Up to `wanted` values from `counter` on, and what the counter becomes. Where no value is
    /// left within the limit the counter stays, and the server reports that the column is
    /// exhausted.
    fn values(&self, counter: u64, wanted: u64) -> (AutoincValues, u64) {
        let counter = counter.max(1);
        let found = self.at_least(counter, self.offset);
        // As the server does with the answer: for an offset above the increment the formula may
        // miss the series at first.
        let next = self.at_least(found, self.offset);
        // The server computes the number after the last value. Where no u64 has it, the server asks
        // again.
        let count = wanted.min((u64::MAX - next) / self.step()).max(1);
        let after = match next <= self.limit {
            true => self.after(next.saturating_add(self.step().saturating_mul(count - 1))),
            false => counter,
        };
        // With no value left in the series the server finds none either, and reports it.
        let first = if found < u64::MAX { found } else { counter };
        debug_assert!(first >= counter && after >= counter, "the counter does not go back");
        debug_assert!((1..=wanted.max(1)).contains(&count), "no more values than are wanted");
        (AutoincValues { first, count }, after)
    }
}

impl Table {
    /// Takes up to `wanted` values of the series: the counter moves beyond them.
    pub fn autoinc_reserve(&self, series: &AutoincSeries, wanted: u64) -> AutoincValues {
        let mut counter = self.autoinc.load(Ordering::Relaxed);
        loop {
            let (values, after) = series.values(counter, wanted);
            if after <= counter {
                return values;
            }
            let raised = self
                .autoinc
                .compare_exchange_weak(counter, after, Ordering::Relaxed, Ordering::Relaxed);
            match raised {
                Ok(_) => return values,
                Err(now) => counter = now,
            }
        }
    }
    /// The value that the next row would get; the counter stays.
    pub fn autoinc_next(&self, series: &AutoincSeries) -> AutoincValues {
        series.values(self.autoinc(), 1).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(offset: u64, increment: u64, limit: u64) -> AutoincSeries {
        AutoincSeries {
            offset,
            increment,
            limit,
        }
    }
    /// First value, count, and what the counter becomes.
    fn values(of: &AutoincSeries, counter: u64, wanted: u64) -> (u64, u64, u64) {
        let (values, after) = of.values(counter, wanted);
        (values.first, values.count, after)
    }

    #[test]
    fn a_series_of_step_one_takes_the_counter() {
        let plain = series(1, 1, 127);
        assert_eq!(values(&plain, 0, 1), (1, 1, 2), "a counter that was never set");
        assert_eq!(values(&plain, 5, 3), (5, 3, 8));
        assert_eq!(values(&series(1, 0, 127), 5, 3), (5, 3, 8), "an increment of 0 is 1");
    }

    #[test]
    fn the_counter_is_the_next_value_of_the_series() {
        let fives = series(3, 5, u64::MAX);
        assert_eq!(values(&fives, 1, 2), (3, 2, 13));
        assert_eq!(values(&fives, 3, 1), (3, 1, 8));
        assert_eq!(values(&fives, 4, 1), (8, 1, 13));
        assert_eq!(
            values(&series(0, 5, u64::MAX), 1, 1),
            (5, 1, 10),
            "no offset: multiples"
        );
        assert_eq!(fives.after(9), 13);
    }

    #[test]
    fn the_counter_passes_the_limit_once() {
        let tiny = series(1, 1, 127);
        assert_eq!(
            values(&tiny, 126, 10),
            (126, 10, 136),
            "the server is given more than the column has"
        );
        assert_eq!(values(&tiny, 127, 1), (127, 1, 128));
        assert_eq!(
            values(&tiny, 128, 1),
            (128, 1, 128),
            "exhausted: the server sees a value above the limit"
        );
        assert_eq!(values(&series(1, 10, 127), 122, 1), (131, 1, 122));
    }

    #[test]
    fn numbers_end_at_the_greatest() {
        let all = series(1, 1, u64::MAX);
        assert_eq!(values(&all, u64::MAX - 1, 5), (u64::MAX - 1, 1, u64::MAX));
        assert_eq!(values(&all, u64::MAX, 5), (u64::MAX, 1, u64::MAX));
        let tens = series(1, 10, u64::MAX);
        let (values, _) = tens.values(u64::MAX - 2, 5);
        assert_eq!(values.first, u64::MAX - 2, "none is left in the series");
    }
}
