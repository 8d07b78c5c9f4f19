//! What a row is made of: its value and overflow pages, its secondary entries, its lock, its older
//! versions.
//!
//! Files, top to bottom: `parent_check`, `child_search`, `foreign_entries`, `secondary`, `unique`,
//! `row_lock`, `version`, `overflow_row`, `snapshot`, `entry`, `past`, `autoinc`, `undo_record`,
//! `new_row`, `scratch`.
pub(crate) mod autoinc;
pub(crate) mod autoinc_series;
pub(crate) mod child_search;
pub(crate) mod entry;
pub(crate) mod foreign_entries;
pub(crate) mod new_row;
pub(crate) mod overflow_row;
pub(crate) mod parent_check;
pub(crate) mod past;
pub(crate) mod row_lock;
pub(crate) mod scratch;
pub(crate) mod secondary;
pub(crate) mod snapshot;
pub(crate) mod undo_record;
pub(crate) mod unique;
pub(crate) mod version;
