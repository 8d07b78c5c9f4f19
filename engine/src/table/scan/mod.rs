//! Reads: cursors over any index of a table, consistent or locking.
//!
//! Files, top to bottom: `cursor`; `consistent`; `locking`, `relocated`, `row_locking`,
//! `following`; `row_scan`, `position`, `version_cache`, `lock_choice`, `reader`.
pub(crate) mod consistent;
pub(crate) mod cursor;
pub(crate) mod following;
pub(crate) mod lock_choice;
pub(crate) mod locking;
pub(crate) mod position;
pub(crate) mod reader;
pub(crate) mod relocated;
pub(crate) mod row_locking;
pub(crate) mod row_scan;
pub(crate) mod version_cache;
