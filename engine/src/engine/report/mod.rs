//! What users see of the engine at work: SHOW ENGINE STATUS, locks, deadlocks, tables and files.
//!
//! Order, top to bottom: `status`, `status_sections`, `metrics`, `dictionary`, `locks`,
//! `deadlocks`, `rates`.
pub(super) mod deadlocks;
pub mod dictionary;
pub(super) mod locks;
pub mod metrics;
pub(super) mod rates;
pub mod status;
mod status_sections;
