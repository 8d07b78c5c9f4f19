//! Changes of rows: insert, update, delete, their secondary entries, row locks and unique checks.
pub(crate) mod append_hint;
pub(crate) mod autoinc;
pub(crate) mod insert;
pub(crate) mod overflow_row;
pub(crate) mod row_lock;
pub(crate) mod scratch;
pub(crate) mod secondary;
pub(crate) mod unique;
pub(crate) mod update;
