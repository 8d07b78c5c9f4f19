//! The catalog: which tables and indexes exist, what they are made of, and the statements that
//! change it.
//!
//! Files, top to bottom: `index_quarantine`, `open`, `ddl`, `damage_log`, `dictionary`, `format`,
//! `table`, `append_hint`, `versions`, `layout`.
pub(crate) mod append_hint;
pub(crate) mod damage_log;
pub(crate) mod ddl;
pub(crate) mod dictionary;
pub(crate) mod format;
pub(crate) mod index_quarantine;
pub(crate) mod layout;
pub(crate) mod open;
pub(crate) mod table;
pub(crate) mod versions;
