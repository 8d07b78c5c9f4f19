//! What is known of the contents of a table: counts of rows, samples of index leaves, and how both
//! are stored. Nothing here uses tables or the catalog: `optimizer` does.
//!
//! Files, top to bottom: `stored`, `state`, `counts`, `sample`.
pub(crate) mod counts;
pub(crate) mod sample;
pub(crate) mod state;
pub(crate) mod stored;
