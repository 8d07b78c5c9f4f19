//! The buffer pool: pages in memory. Pin, latch, evict, flush; and [`Mtr`], the only source of a
//! writable page (I2).
//!
//! Latch protocol (I5). Page latches are taken in an order. First come tree pages, from the root
//! down and, on one level, left to right. Then come undo pages. Then come a file's space pages:
//! page 0, then its bitmaps. A thread that holds a page latch waits for no row lock and calls no
//! server function. It takes only the
//! [`crate::base::sync::Rank`]s from `LockShard` up.
//!
//! The pool calls nothing above it: a page read never merges or interprets what it read beyond the
//! page header.
//!
//! Top to bottom, each using only what lies below:
//! - `page_list`: which pages the pool holds, kept over a restart;
//! - `mtr` (with `joined`) and `direct`: how the layers above change pages;
//! - `page_copy`: how a backup reads them;
//! - `buffer_pool`: the pool itself, put together of its parts;
//! - `recovery`: pages after a crash;
//! - `read`: hits, misses, read-ahead;
//! - `write`: dirty pages to disk;
//! - `frames`: the pages in memory, where they are found and how they leave;
//! - `config` and `page`: the settings, and the format of a page.
//!
//! Called by: every layer above.
mod buffer_pool;
mod config;
pub mod direct;
mod frames;
mod joined;
pub mod mtr;
pub mod page;
pub mod page_copy;
pub mod page_list;
mod read;
mod recovery;
mod write;

#[cfg(test)]
mod mtr_tests;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use buffer_pool::Pool;
pub use config::{CheckBody, PoolConfig};
pub use frames::absence_filter::{AbsenceFilters, PageHasher};
pub use frames::frame::PageRead;
pub use frames::geometry::{GeometryObserver, PoolGeometry};
pub use frames::store::{PoolHeat, Presence};
pub use joined::joined_len;
pub use mtr::{Mtr, PageHandle};
pub use page::{PageType, PAGE_BODY, PAGE_SIZE};
pub use recovery::gather::{split, Gathered, Piece};
pub use recovery::state::Recovery;
pub use recovery::void::Void;
pub use write::flush::Flusher;
pub use write::loads::{Loads, LoadsOff};
