//! Changes of rows: insert, update, delete.
//!
//! Files, top to bottom: `insert`, `update`, `delete`, `change`.
pub(crate) mod change;
pub(crate) mod delete;
pub(crate) mod insert;
pub(crate) mod update;
