//! When a change is buffered, and how much may be: settings, totals and measured behaviour. No
//! pages.
//!
//! Order of the files, top to bottom:
//! - `change_buffer`: what an engine's delta trees share
//! - `totals`: entries and bytes
//! - `buffering`: kinds of operations
//! - `residency`, `merge_yield`: what is known of one index
mod buffering;
mod change_buffer;
mod merge_yield;
mod residency;
mod totals;

pub use buffering::{Buffering, TableBuffering};
pub use change_buffer::ChangeBuffer;
#[cfg(test)]
pub use change_buffer::DISK_TIMES;
pub use merge_yield::{MergeYield, DENSE_READS_PER_MERGE};
pub use residency::Residency;
pub use totals::{Totals, ROUND_ENDS};
