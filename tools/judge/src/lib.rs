//! Judges a history: what transactions wrote, and what they were shown. The result lists everything
//! that an isolation level forbids, with the shortest example of each.
//!
//! The method is Elle's (Kingsbury, Alvaro, VLDB 2020). Lists that are only appended to show the
//! order of their writes to every reader. So the dependencies between transactions follow from
//! what they saw, without any statement of the engine about itself.
//!
//! Histories come from `lab/isolation` (connections to a server) and from the engine's own tests
//! (`engine/tests/histories`: turns of sessions from a seed). Reading order: `history`; what needs
//! no graph: `versions`, `registers`, `internal`, `times`; `graph`; `findings`.
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
