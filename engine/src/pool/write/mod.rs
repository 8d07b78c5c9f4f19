//! Writing pages.
pub(in crate::pool) mod doublewrite;
pub(in crate::pool) mod flush;
pub(in crate::pool) mod pace;
pub(in crate::pool) mod truncate;
pub(in crate::pool) mod unopened;
pub(in crate::pool) mod written;
#[cfg(test)]
mod doublewrite_tests;
#[cfg(test)]
mod flush_tests;
