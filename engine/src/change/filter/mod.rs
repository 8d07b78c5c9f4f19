//! Filters in memory: for which keys and values something may be pending.
//!
//! Order of the files, top to bottom: `absence` (which leaves get absence filters), `counting`
//! (pending keys), `bloom` (pending unique values), `memory` (the budgets).
pub mod absence;
pub mod bloom;
pub mod counting;
mod memory;

pub use absence::UniqueLeaves;
pub use bloom::{BloomFilters, BloomLimits};
pub use counting::{CountingFilter, SlotBudget};
pub use memory::MemoryBudget;
