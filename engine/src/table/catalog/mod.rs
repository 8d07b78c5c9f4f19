//! The catalog: which tables and indexes exist, what they are made of, and the statements that change it.
pub(crate) mod ddl;
pub(crate) mod dictionary;
pub(crate) mod format;
pub(crate) mod open;
pub(crate) mod table;
pub(crate) mod versions;
