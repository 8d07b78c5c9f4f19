//! What undo records say of rows, and who follows them later: rollback and purge.
pub(crate) mod progress;
pub(crate) mod purge;
pub(crate) mod read_retries;
pub(crate) mod record;
pub(crate) mod rollback;
