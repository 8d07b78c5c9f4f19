//! Schedules merges: which index's buffered changes are merged, when, and how fast.
//!
//! Files, top to bottom: `at_random`, `change_report`, `rounds`, `scheduler`, `rates`.
pub(crate) mod at_random;
pub(crate) mod change_report;
pub(crate) mod rates;
pub(crate) mod rounds;
pub(crate) mod scheduler;
