//! When the buffered changes of which index are merged, and how fast.
pub(crate) mod at_random;
pub(crate) mod change_report;
pub(crate) mod rates;
pub(crate) mod rounds;
