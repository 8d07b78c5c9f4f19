//! Bulk operations: index builds, loads of tables, INSERT ... SELECT into an empty table, ALTER
//! TABLE.
//!
//! Files, top to bottom: `insert_select`, `stamped_load`, `table_load`, `alter_indexes`, `online`,
//! `index_build`, `free_trees`, `fill`, `sort`, `sort_run`.
pub(crate) mod alter_indexes;
pub(crate) mod fill;
pub(crate) mod free_trees;
pub(crate) mod index_build;
pub(crate) mod insert_select;
pub(crate) mod load_references;
pub(crate) mod online;
pub(crate) mod sort;
pub(crate) mod sort_run;
pub(crate) mod stamped_load;
pub(crate) mod table_load;
