//! The whole engine in simulation: one thread, a simulated disk (`io/sim/mod.rs` states its rules),
//! every run made from a seed.
//!
//! Three kinds of tests:
//! - `workloads`: a small piece of work each, repeated with a crash at *every* change of the disk.
//!   **To add one, add a line to `workloads::WORKLOADS`**: a name and its ops. Nothing else is
//!   needed: every answer is judged by the twin. Those of `redistribution` have a larger pool and
//!   log.
//! - `schedules`: random ops of several transactions, background steps, crashes, failing calls, a
//!   full or a lying disk. A new operation is a variant of [`op::Op`], one line in `world.rs` that
//!   performs it, and one in `schedule.rs` that chooses it.
//! - `backup`: the ops of such schedules while a backup is copied, which is then restored.
//! - `families`: random lives of tables with foreign keys, with a twin of their own.
//!
//! After every start the rows must be one of the states that a crash may leave (`twin.rs`). Each
//! index must show exactly these rows both ways, before and after the rollback of what the crash
//! cut short. At the end CHECK TABLE, purge, and the account of pages (`leak.rs`) must agree too.
//!
//! A finding is shrunk and printed with the command that plays it again:
//! ```text
//! SLUICE_SEEDS=17-17 make sim                     the seed
//! SLUICE_SEEDS=17-17 SLUICE_KEEP=0,3,9 make sim   only these of its ops
//! make soak SCHEDULES=100000                      so many seeds from the clock on
//! ```
//! `make mutants` plants bugs (`base/mutant.rs`) and shows that they are found.
//!
//! A bug that it found gets a small test in `regressions.rs`, with its story: seeds change their
//! meaning when the author of schedules (`schedule.rs`) learns something new, so the test spells
//! its ops.
mod backup;
mod ddl;
mod families;
mod family_twin;
mod regressions;
mod judge;
mod leak;
mod log_switch;
mod mutants;
mod online;
mod online_workloads;
mod op;
mod pool_sizes;
mod run;
mod schedule;
mod schedules;
mod setup;
mod shrink;
mod redistribution;
mod statement;
mod table;
mod transactions;
mod twin;
mod workloads;
mod world;

use crate::txn::Xid;

fn xid(number: u32) -> Xid {
    super::fixture::xid(&number.to_le_bytes())
}

fn xid_number(xid: &Xid) -> u32 {
    u32::from_le_bytes(xid.data[..4].try_into().expect("made by `xid`"))
}
