//! Row locks and key ranges: taken, waited for, given back; deadlocks; reports.
//!
//! Order, top to bottom:
//! - `implicit` and `sys`: the door;
//! - `report`, `sleep`, `deadlock`;
//! - `table`: all queues; `range` and `shard`: one queue;
//! - `wait_flag`: the decision of a wait;
//! - `held` and `wait`: plain data and the trait of waiters, which `TrxShared` carries.
pub(super) mod deadlock;
pub(super) mod held;
pub(super) mod implicit;
pub(super) mod range;
pub(super) mod report;
pub(super) mod shard;
pub(super) mod sleep;
pub(super) mod sys;
pub(super) mod table;
#[cfg(test)]
mod tests;
pub mod wait;
pub(super) mod wait_flag;
