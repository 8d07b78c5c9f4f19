//! Who follows undo records: rollback and purge.
//!
//! Files, top to bottom: `retry`, `rollback`, `purge`, `waiting`, `load_rollback`, `progress`, `read_retries`.
pub(crate) mod load_rollback;
pub(crate) mod progress;
pub(crate) mod purge;
pub(crate) mod read_retries;
pub(crate) mod retry;
pub(crate) mod rollback;
pub(crate) mod waiting;
