//! What was found: how often each anomaly, the shortest example of it, and which level forbids it.
use crate::describe::describe;
use crate::graph::Edge;
use crate::history::{History, TrxNo};
use std::collections::BTreeMap;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Level {
    ReadUncommitted,
    ReadCommitted,
    /// Consistent reads see a snapshot. Locking reads and writes see the newest rows.
    LooseRepeatableRead,
    /// Snapshot isolation.
    RepeatableRead,
    Serializable,
}

impl Level {
    pub fn sql(self) -> &'static str {
        match self {
            Level::ReadUncommitted => "READ UNCOMMITTED",
            Level::ReadCommitted => "READ COMMITTED",
            Level::LooseRepeatableRead | Level::RepeatableRead => "REPEATABLE READ",
            Level::Serializable => "SERIALIZABLE",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Anomaly {
    /// A value that no transaction wrote, a value twice, a row twice or out of its range.
    Garbage,
    /// The write of a committed transaction is missing at the end.
    LostWrite,
    /// The write of a transaction that was rolled back is there at the end.
    KeptWrite,
    /// A conflict that a transaction learned of only at its COMMIT.
    RefusedCommit,
    DirtyWrite,
    AbortedRead,
    IntermediateRead,
    /// Two reads that no order of the writes explains.
    IncompatibleOrder,
    CircularFlow,
    /// A read misses what was reported as committed, or shown to another reader, before the read's
    /// state could be the newest.
    StaleRead,
    /// A transaction does not see its own writes, or its own snapshot.
    Internal,
    LostUpdate,
    ReadSkew,
    /// As a read skew, through a row that was absent.
    PhantomSkew,
    /// A cycle that snapshot isolation forbids although it has several anti-dependencies: no two of
    /// them follow each other.
    NonAdjacent,
    WriteSkew,
    Phantom,
}

impl Anomaly {
    pub const ALL: [Anomaly; 17] = [
        Anomaly::Garbage,
        Anomaly::LostWrite,
        Anomaly::KeptWrite,
        Anomaly::RefusedCommit,
        Anomaly::DirtyWrite,
        Anomaly::AbortedRead,
        Anomaly::IntermediateRead,
        Anomaly::IncompatibleOrder,
        Anomaly::CircularFlow,
        Anomaly::StaleRead,
        Anomaly::Internal,
        Anomaly::LostUpdate,
        Anomaly::ReadSkew,
        Anomaly::PhantomSkew,
        Anomaly::NonAdjacent,
        Anomaly::WriteSkew,
        Anomaly::Phantom,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Anomaly::Garbage => "values or rows that nobody wrote",
            Anomaly::LostWrite => "committed writes lost",
            Anomaly::KeptWrite => "rolled-back writes kept",
            Anomaly::RefusedCommit => "conflicts told at COMMIT",
            Anomaly::DirtyWrite => "dirty write (G0)",
            Anomaly::AbortedRead => "aborted read (G1a)",
            Anomaly::IntermediateRead => "intermediate read (G1b)",
            Anomaly::IncompatibleOrder => "incompatible orders of writes",
            Anomaly::CircularFlow => "circular information flow (G1c)",
            Anomaly::StaleRead => "stale read",
            Anomaly::Internal => "internal consistency",
            Anomaly::LostUpdate => "lost update (P4)",
            Anomaly::ReadSkew => "read skew (G-single)",
            Anomaly::PhantomSkew => "read skew by a missing row (G-single)",
            Anomaly::NonAdjacent => "long fork and kin (G-nonadjacent)",
            Anomaly::WriteSkew => "write skew (G2-item)",
            Anomaly::Phantom => "phantom (G2)",
        }
    }

    /// The lowest level that forbids it.
    pub fn forbidden_from(self) -> Level {
        match self {
            Anomaly::Garbage
            | Anomaly::LostWrite
            | Anomaly::KeptWrite
            | Anomaly::RefusedCommit
            | Anomaly::DirtyWrite => Level::ReadUncommitted,
            Anomaly::AbortedRead
            | Anomaly::IntermediateRead
            | Anomaly::IncompatibleOrder
            | Anomaly::CircularFlow
            | Anomaly::StaleRead => Level::ReadCommitted,
            Anomaly::Internal
            | Anomaly::LostUpdate
            | Anomaly::ReadSkew
            | Anomaly::PhantomSkew
            | Anomaly::NonAdjacent => Level::RepeatableRead,
            Anomaly::WriteSkew | Anomaly::Phantom => Level::Serializable,
        }
    }
}

pub struct Example {
    pub transactions: Vec<TrxNo>,
    pub edges: Vec<Edge>,
    pub text: String,
}

#[derive(Default)]
pub struct Findings {
    pub counts: BTreeMap<Anomaly, u64>,
    examples: BTreeMap<Anomaly, Example>,
    /// A search ended early: there may be more.
    pub at_least: std::collections::BTreeSet<Anomaly>,
}

impl Findings {
    pub fn add(&mut self, anomaly: Anomaly, example: Example) {
        *self.counts.entry(anomaly).or_default() += 1;
        let shortest = self
            .examples
            .get(&anomaly)
            .is_none_or(|known| known.transactions.len() > example.transactions.len());
        if shortest {
            self.examples.insert(anomaly, example);
        }
    }

    pub fn say(&mut self, anomaly: Anomaly, transactions: Vec<TrxNo>, text: String) {
        let example = Example {
            transactions,
            edges: Vec::new(),
            text,
        };
        self.add(anomaly, example);
    }

    pub fn count(&self, anomaly: Anomaly) -> u64 {
        self.counts.get(&anomaly).copied().unwrap_or(0)
    }

    pub fn forbidden(&self, level: Level) -> Vec<Anomaly> {
        let is_forbidden = |a: &Anomaly| a.forbidden_from() <= level && self.count(*a) > 0;
        Anomaly::ALL.into_iter().filter(is_forbidden).collect()
    }

    /// The table of counts, then an example of each anomaly that was found.
    pub fn report(&self, history: &History, level: Level) -> String {
        let mut lines = vec![format!("{:<40} {:>10}  at {}", "anomaly", "found", level.sql())];
        for anomaly in Anomaly::ALL {
            let more = if self.at_least.contains(&anomaly) { ">=" } else { "" };
            let count = format!("{more}{}", self.count(anomaly));
            let judged = match (anomaly.forbidden_from() <= level, self.count(anomaly)) {
                (true, 0) => "forbidden",
                (true, _) => "FORBIDDEN",
                (false, _) => "allowed",
            };
            lines.push(format!("{:<40} {count:>10}  {judged}", anomaly.name()));
        }
        for (anomaly, example) in &self.examples {
            lines.push(String::new());
            lines.push(format!("example: {}: {}", anomaly.name(), example.text));
            lines.extend(example.edges.iter().map(|edge| format!("  {edge}")));
            for &trx in &example.transactions {
                lines.push(format!("  T{trx}"));
                let described = describe(&history.transactions[trx as usize]);
                lines.extend(described.iter().map(|line| format!("    {line}")));
            }
        }
        lines.join("\n")
    }
}
