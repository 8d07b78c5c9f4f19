//! Changes of rows: insert, update, delete.
//!
//! Files, top to bottom: `insert`, `update`, `delete`, `cascade`, `child_change`, `chain`,
//! `references`, `changed_row`, `change`.
pub(crate) mod cascade;
pub(crate) mod chain;
pub(crate) mod change;
pub(crate) mod changed_row;
pub(crate) mod child_change;
pub(crate) mod delete;
pub(crate) mod insert;
pub(crate) mod references;
pub(crate) mod update;
