//! Rollback and purge: both follow undo records.
//!
//! Files, top to bottom: `retry`, `rollback`, `purge`, `waiting`, `load_rollback`, `progress`,
//! `read_retries`.
//!
//! What becomes of broken pages:
//!
//! | met by | what happens |
//! |---|---|
//! | a statement | it fails; other tables serve on, and so does what the statement did not read |
//! | a rollback, in a secondary index | the index is quarantined (`catalog/index_quarantine`) |
//! | a rollback, anywhere else | it waits: the transaction stays active and unseen (`waiting`) |
//! | purge | it passes over the record: an entry that no view sees stays in the broken index |
//! | a merge of buffered changes | it passes over the leaf (`health/unmergeable`) |
//!
//! A page that the disk fails to read may be readable the next time. It is tried again each second,
//! for a bounded time (`read_retries`). A rollback also waits when there is no room for it. The
//! user's locks on its tables end with the statement. So an index build asks the engine for
//! rollbacks that wait: its rows may be taken back.
pub(crate) mod load_rollback;
pub(crate) mod progress;
pub(crate) mod purge;
pub(crate) mod read_retries;
pub(crate) mod retry;
pub(crate) mod rollback;
pub(crate) mod waiting;
