//! Reads: cursors over any index of a table, consistent or locking.
pub(crate) mod consistent;
pub(crate) mod cursor;
pub(crate) mod locking;
pub(crate) mod reader;
pub(crate) mod relocated;
pub(crate) mod version_cache;
