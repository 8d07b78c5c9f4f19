//! Tests of the pool: `rig` makes and recovers pools; the others say what they check.
mod rig;

pub(crate) use rig::Rig;
