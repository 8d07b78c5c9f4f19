//! What users see of the engine at work: SHOW ENGINE STATUS, locks, deadlocks.
//!
//! Order, top to bottom: `status`, `locks`, `deadlocks`.
pub(super) mod deadlocks;
pub(super) mod locks;
pub mod status;
