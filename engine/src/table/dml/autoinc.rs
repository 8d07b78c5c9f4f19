//! AUTO_INCREMENT: the values that a statement takes from a table's counter.
//!
//! The counter is the next value to give (0: never set). Its values are durable with the next row
//! change of the table (`insert.rs`); [`Table`](crate::table::Table) has the counter itself. No latches:
//! the counter is one atomic number.
//!
//! Called by: `ffi` (`slc_table_autoinc_reserve`).
use crate::table::catalog::table::Table;
use std::sync::atomic::Ordering;

/// The values that a session's inserts may have: `offset`, `offset + increment`, ... up to `limit`.
#[derive(Clone, Copy, Debug)]
pub struct AutoincSeries {
    /// As the server does it: an offset above the increment is ignored.
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
    /// The least value of the series that is at least `from`; the greatest number if there is none.
    fn at_least(&self, from: u64) -> u64 {
        let step = self.step();
        if step == 1 {
            return from;
        }
        let offset = if self.offset > step { 0 } else { self.offset };
        if from <= offset {
            return if offset > 0 { offset } else { step };
        }
        let past = (from - offset) % step;
        let missing = if past > 0 { step - past } else { 0 };
        from.checked_add(missing).unwrap_or(u64::MAX)
    }

    /// Up to `wanted` values from `counter` on, and what the counter becomes: one more than the
    /// last value taken. Beyond the limit the counter stops, where the server finds that the column
    /// is exhausted.
    fn values(&self, counter: u64, wanted: u64) -> (AutoincValues, u64) {
        let (step, limit) = (self.step(), self.limit);
        let counter = counter.max(1);
        let next = self.at_least(counter);
        // The server computes the number after the last value. Where no u64 has it, the server asks
        // again.
        let count = wanted.min((u64::MAX - next) / step).max(1);
        let after = if next <= limit && next <= u64::MAX - step {
            next + step * (count.min((limit - next) / step + 1) - 1) + 1
        } else {
            limit.saturating_add(1)
        };
        // With no value left in the series the server finds none either, and reports it.
        let first = if next < u64::MAX { next } else { counter };
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
    fn a_series_of_steps_begins_at_its_offset() {
        let fives = series(3, 5, u64::MAX);
        assert_eq!(values(&fives, 1, 2), (3, 2, 9));
        assert_eq!(values(&fives, 3, 1), (3, 1, 4));
        assert_eq!(values(&fives, 4, 1), (8, 1, 9));
        assert_eq!(values(&series(0, 5, u64::MAX), 1, 1), (5, 1, 6), "no offset: multiples");
        assert_eq!(
            values(&series(7, 5, u64::MAX), 1, 1),
            (5, 1, 6),
            "an offset above the increment is ignored"
        );
    }

    #[test]
    fn the_counter_stops_after_the_limit() {
        let tiny = series(1, 1, 127);
        assert_eq!(
            values(&tiny, 126, 10),
            (126, 10, 128),
            "the server is given more than the column has"
        );
        assert_eq!(values(&tiny, 127, 1), (127, 1, 128));
        assert_eq!(
            values(&tiny, 128, 1),
            (128, 1, 128),
            "exhausted: the server sees a value above the limit"
        );
        assert_eq!(values(&series(1, 10, 127), 122, 1), (131, 1, 128));
    }

    #[test]
    fn numbers_end_at_the_greatest() {
        let all = series(1, 1, u64::MAX);
        assert_eq!(values(&all, u64::MAX - 1, 5), (u64::MAX - 1, 1, u64::MAX));
        assert_eq!(values(&all, u64::MAX, 5), (u64::MAX, 1, u64::MAX));
        let tens = series(1, 10, u64::MAX);
        let counter = u64::MAX - 2;
        assert_eq!(
            values(&tens, counter, 5),
            (counter, 1, u64::MAX),
            "none is left in the series"
        );
    }
}
