//! Judges a history: what transactions wrote and what they were shown, and a level of isolation, make a list of everything that the level
//! forbids, with the shortest example of each.
//!
//! Made after Elle (Kingsbury, Alvaro, VLDB 2020): lists that are only appended to show the order of their writes to every reader, so the
//! dependencies between transactions are read off what they saw, and no engine is asked to tell about itself.
//!
//! Who makes histories: `lab/isolation` (connections to a server), and the engine's own tests (`engine/tests/histories/`: turns of sessions
//! drawn from a seed). Reading order: `history`; what needs no graph: `versions`, `registers`, `internal`, `times`; `graph`; `findings`.
pub mod describe;
pub mod findings;
pub mod graph;
pub mod history;
pub mod internal;
pub mod registers;
#[cfg(test)]
mod tests;
pub mod times;
pub mod versions;

pub use findings::{Anomaly, Findings, Level};
pub use history::{End, Form, History, Item, Lock, Op, Path, Seen, Time, Transaction, Value, Version, Way, What};

pub fn judge(history: &History, level: Level) -> Findings {
    let mut findings = Findings::default();
    let versions = versions::judge(history, level, &mut findings);
    internal::judge(history, level, &mut findings);
    let absences = times::judge(history, &versions, level, &mut findings);
    graph::Graph::new(history, &versions, &absences).judge(&mut findings);
    findings
}
