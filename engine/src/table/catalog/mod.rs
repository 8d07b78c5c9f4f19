//! The catalog: which tables and indexes exist, what they are made of, and the statements that
//! change it.
//!
//! Files, top to bottom: `index_quarantine`, `open`, `replace`, `ddl`, `damage_log`,
//! `foreign_binding`, `foreign_rename`, `dictionary`, `format`, `table`, `append_hint`, `versions`,
//! `layout`, `foreign_names`, `foreign_key`, `byte_strings`, `key_part`, `touched_keys`.
pub(crate) mod append_hint;
pub(crate) mod byte_strings;
pub(crate) mod damage_log;
pub(crate) mod ddl;
pub(crate) mod dictionary;
pub(crate) mod foreign_binding;
pub(crate) mod foreign_key;
pub(crate) mod foreign_names;
pub(crate) mod foreign_rename;
pub(crate) mod format;
pub(crate) mod index_quarantine;
pub(crate) mod key_part;
pub(crate) mod layout;
pub(crate) mod open;
pub(crate) mod replace;
pub(crate) mod table;
pub(crate) mod touched_keys;
pub(crate) mod versions;
