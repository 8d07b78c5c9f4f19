//! What is built as a whole: an index, a table that is loaded, INSERT ... SELECT into an empty table.
pub(crate) mod index_build;
pub(crate) mod insert_select;
pub(crate) mod link;
pub(crate) mod sort;
pub(crate) mod sort_run;
pub(crate) mod table_load;
pub(crate) mod undo_load;
