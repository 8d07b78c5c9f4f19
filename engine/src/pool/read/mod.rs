//! Getting pages.
pub(in crate::pool) mod fetch;
pub(in crate::pool) mod prefetch;
pub(in crate::pool) mod requests;
