//! The isolation checker: random transactions over many connections to a server. Then a search
//! finds everything that the isolation level forbids.
//!
//! It prints how often each anomaly was found, and the shortest example of each. It ends with 1 if
//! one is forbidden, or if the tables are broken in the end. `tools/judge` does the judging. The
//! server may be killed and restarted while this runs (scripts/isolation.py does that).
mod workload;

use clap::Parser;
use isolation_judge::{judge, End, Level};
use std::time::Instant;

#[derive(Parser, Clone)]
#[command(about = "Isolation checker: random transactions, and a search for what their isolation level forbids")]
pub struct Plan {
    #[command(flatten)]
    server: lab_server::Address,
    /// Sockets of the further nodes of a Galera cluster; the connections are spread over all
    #[arg(long)]
    node_socket: Vec<String>,
    /// Made anew
    #[arg(long, default_value = "isolation")]
    database: String,
    #[arg(long, default_value = "Sluice")]
    engine: String,
    #[arg(long, value_enum, default_value = "repeatable-read")]
    level: Level,
    /// Committed transactions in the end
    #[arg(long, default_value_t = 20_000)]
    commits: u64,
    /// Rows that are written at a time
    #[arg(long, default_value_t = 16)]
    rows: u32,
    #[arg(long, default_value_t = 32)]
    connections: u32,
    /// Of the statements; how they meet is up to the server
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A file that is updated with the number of commits, for a program that kills the server
    #[arg(long)]
    progress: Option<std::path::PathBuf>,
}

impl Plan {
    /// The servers: one, or the nodes of a cluster.
    fn servers(&self) -> Vec<lab_server::Address> {
        let further = self.node_socket.iter().map(|socket| self.server.at_socket(socket));
        std::iter::once(self.server.clone()).chain(further).collect()
    }
    fn is_cluster(&self) -> bool {
        !self.node_socket.is_empty()
    }
    /// The level that the engine serves: Sluice serves READ UNCOMMITTED as READ COMMITTED.
    fn served(&self) -> Level {
        match (self.level, self.engine.as_str()) {
            (Level::ReadUncommitted, "Sluice") => Level::ReadCommitted,
            (level, _) => level,
        }
    }
}

/// The most that this process had.
fn memory_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    most.and_then(|kb| kb.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(0, |kb| kb / 1024)
}

fn main() {
    let plan = Plan::parse();
    let begun = Instant::now();
    let (history, broken) = match workload::run(&plan) {
        Ok(outcome) => outcome,
        Err(error) => {
            eprintln!("error: {error}");
            std::process::exit(2);
        }
    };
    let ran = begun.elapsed();
    let count = |end: End| history.transactions.iter().filter(|t| t.end == end).count();
    println!(
        "{} at {:?}, seed {}: {} transactions committed, {} rolled back, {} with an unknown end; {} operations",
        plan.engine,
        plan.level,
        plan.seed,
        count(End::Committed),
        count(End::RolledBack),
        count(End::Unknown),
        history.transactions.iter().map(|t| t.ops.len()).sum::<usize>(),
    );
    let findings = judge(&history, plan.served());
    println!(
        "{:.0} commits/s; judged in {:.1} s; {} MiB of memory at most",
        count(End::Committed) as f64 / ran.as_secs_f64(),
        (begun.elapsed() - ran).as_secs_f64(),
        memory_mib()
    );
    println!("{}", findings.report(&history, plan.served()));
    let forbidden = findings.forbidden(plan.served());
    if !forbidden.is_empty() {
        let names: Vec<_> = forbidden.iter().map(|a| a.name()).collect();
        println!("\nforbidden and found: {}", names.join(", "));
    }
    for complaint in &broken {
        println!("\nbroken in the end: {complaint}");
    }
    if !forbidden.is_empty() || !broken.is_empty() {
        std::process::exit(1);
    }
}
