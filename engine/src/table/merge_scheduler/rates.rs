//! Rates of the change worker: what the last second brought, and how fast a merge goes. Called by
//! `rounds`.
use std::collections::VecDeque;

/// Rounds a second.
pub const ROUNDS: usize = 10;
pub(in crate::table) const SECOND_US: u64 = 1_000_000;

/// How much came in the last rounds, which make up a second, or in the last one if that took
/// longer. (A fading mean remembers a load for as long as the load was heavy.)
#[derive(Debug, Default)]
pub(in crate::table) struct Recent {
    /// For each round: microseconds since the round before began, and how much came meanwhile.
    rounds: VecDeque<(u64, u64)>,
    us: u64,
    at_us: Option<u64>,
}

impl Recent {
    pub(in crate::table) fn note(&mut self, now_us: u64, much: u64) {
        // No round comes earlier (and the clock of a simulation may stand still).
        let least = SECOND_US / ROUNDS as u64;
        let since = self.at_us.replace(now_us).map_or(0, |at| now_us.saturating_sub(at));
        self.rounds.push_back((since.max(least), much));
        self.us += since.max(least);
        while let Some(&(us, _)) = self.rounds.front() {
            if self.us - us < SECOND_US {
                break;
            }
            self.us -= us;
            self.rounds.pop_front();
        }
        debug_assert_eq!(
            self.us,
            self.rounds.iter().map(|(us, _)| us).sum::<u64>(),
            "the sum of the rounds"
        );
    }
    /// How much comes in a second. As long as that is not known: much.
    pub(in crate::table) fn a_second(&self) -> u64 {
        let all: u128 = self.rounds.iter().map(|(_, much)| *much as u128).sum();
        match self.us < SECOND_US {
            true => u64::MAX,
            false => (all * SECOND_US as u128 / self.us as u128) as u64,
        }
    }
}

/// The expected time of a drain is taken from so long a time: a changed pace is forgotten as soon.
const SPEED_US: u64 = 2 * SECOND_US;

/// Entries a second, of the last two seconds. Or of the time since merging began if that is less,
/// or of the last round if that took longer. (After a load of 100,000 a second a fading mean needed
/// half a minute, and reported seconds for what took minutes.)
#[derive(Debug, Default)]
pub(in crate::table) struct Speed {
    /// For each look: its time, and how many entries were merged until then.
    looks: VecDeque<(u64, u64)>,
}

impl Speed {
    /// `count`: of all entries until now.
    pub(in crate::table) fn look(&mut self, now_us: u64, count: u64) {
        if self.per_second() == 0.0 {
            self.begin_anew();
        }
        let grows = |before: &(u64, u64)| before.0 <= now_us && before.1 <= count;
        debug_assert!(self.looks.back().is_none_or(grows), "time and count only grow");
        self.looks.push_back((now_us, count));
        while self.looks.len() > 2 && now_us.saturating_sub(self.looks[1].0) >= SPEED_US {
            self.looks.pop_front();
        }
    }
    /// What was merged until now says nothing of what comes.
    pub(in crate::table) fn begin_anew(&mut self) {
        self.looks.drain(..self.looks.len().saturating_sub(1));
    }
    fn per_second(&self) -> f64 {
        match (self.looks.front(), self.looks.back()) {
            (Some(first), Some(last)) if first.0 < last.0 => {
                (last.1 - first.1) as f64 * SECOND_US as f64 / (last.0 - first.0) as f64
            }
            _ => 0.0,
        }
    }
    /// Seconds for so many entries. 0 = next to nothing is being merged, and nothing is expected to
    /// be.
    pub(in crate::table) fn seconds_for(&self, entries: u64, expected: u64) -> u64 {
        let per_second = self.per_second();
        match per_second < 1.0 {
            true if expected == 0 => 0,
            true => entries.div_ceil(expected),
            false => (entries as f64 / per_second).ceil() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Speed;

    /// The mean began at zero: a second into a drain of ten seconds it reported a minute.
    #[test]
    fn the_time_that_a_drain_takes_is_shown_from_its_beginning() {
        let mut speed = Speed::default();
        let (mut now_us, mut merged) = (1_000_000, 0);
        let mut rounds = |n: usize, entries: u64| {
            for _ in 0..n {
                now_us += 100_000;
                merged += entries;
                speed.look(now_us, merged);
            }
            speed.seconds_for(50_000, 0)
        };
        assert_eq!(rounds(10, 0), 0, "nothing is merged");
        assert_eq!(rounds(1, 1000), 5);
        assert_eq!(rounds(20, 1000), 5);
        // Half as fast: known two seconds later.
        assert_eq!([rounds(10, 500), rounds(10, 500), rounds(100, 500)], [7, 10, 10]);
        // A hundredth.
        assert_eq!(rounds(20, 5), 1000);
        assert_eq!(rounds(1000, 0), 0);
    }

    /// A trickle of merges before a drain made the reported time ten times too long. The mean took
    /// seconds to forget it.
    #[test]
    fn the_time_of_a_drain_is_not_shown_at_the_speed_of_what_came_before_it() {
        let mut speed = Speed::default();
        let (mut now_us, mut merged) = (1_000_000, 0);
        let mut rounds = |speed: &mut Speed, n: usize, entries: u64| {
            for _ in 0..n {
                now_us += 100_000;
                merged += entries;
                speed.look(now_us, merged);
            }
        };
        rounds(&mut speed, 100, 10);
        assert_eq!(speed.seconds_for(50_000, 0), 500);
        speed.begin_anew();
        assert_eq!(speed.seconds_for(50_000, 10_000), 5);
        rounds(&mut speed, 1, 1000);
        assert_eq!(speed.seconds_for(50_000, 10_000), 5);
    }
}
