//! One index as the table layer sees it: [`Index`], the formats of its entries, and scans.
//!
//! Entries of secondary indexes are read through `scan` or `change`: both apply every pending
//! change first (I3). The formats are drawn in `entry`. Order of the files, top to bottom: `scan`,
//! `table_index`, `key_shape`.
pub mod key_shape;
pub mod scan;
mod table_index;

pub use crate::entry::clustered::{ChainRef, RowHeader, OVERFLOW_REF, ROW_HEADER, ROW_MARKED, ROW_OVERFLOW};
pub use crate::entry::secondary;
pub use table_index::Index;
