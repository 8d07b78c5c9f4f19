//! Makes a schedule that finds something shorter, as long as it still finds something.
use super::run::run;
use super::schedule::Schedule;

/// Runs spent on one finding.
const RUNS_MAX: usize = 600;

/// Indexes of the ops that are enough, and what they find.
pub fn shrink(schedule: &Schedule, finding: String) -> (Vec<usize>, String) {
    let mut kept: Vec<usize> = (0..schedule.ops.len()).collect();
    let mut finding = finding;
    let mut runs = 0;
    let mut piece = kept.len().div_ceil(2);
    while piece > 0 && runs < RUNS_MAX {
        let mut shorter = false;
        let mut at = 0;
        while at < kept.len() && runs < RUNS_MAX {
            let mut fewer = kept.clone();
            fewer.drain(at..(at + piece).min(kept.len()));
            runs += 1;
            match run(&keep(schedule, &fewer)).finding {
                Some(found) => {
                    (kept, finding, shorter) = (fewer, found, true);
                }
                None => at += piece,
            }
        }
        if !shorter || piece > 1 {
            piece /= 2;
        }
    }
    (kept, finding)
}

pub fn keep(schedule: &Schedule, kept: &[usize]) -> Schedule {
    Schedule {
        setup: schedule.setup,
        ops: kept.iter().filter_map(|i| schedule.ops.get(*i)).copied().collect(),
    }
}
