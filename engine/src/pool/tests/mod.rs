//! Tests of the pool: `rig` makes and recovers pools; the others say what they check.
mod bench;
mod crash;
mod doublewrite;
mod eviction;
mod flights;
mod gather;
mod mend;
mod mtr;
mod panics;
mod real;
mod rig;
mod stress;

pub(crate) use rig::Rig;
