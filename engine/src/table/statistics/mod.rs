//! What is known of the contents of a table: counts of rows, samples of index leaves, and how both are
//! stored. Knows no table and no catalog: `optimizer` does.
pub(crate) mod counts;
pub(crate) mod sample;
pub(crate) mod state;
pub(crate) mod stored;
