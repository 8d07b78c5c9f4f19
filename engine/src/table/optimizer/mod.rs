//! What the server's optimizer asks: row counts, sizes, entries in a range, numbers of values.
//!
//! Files, top to bottom: `report`, `estimates`, `keeper`.
pub(crate) mod estimates;
pub(crate) mod keeper;
pub(crate) mod report;
