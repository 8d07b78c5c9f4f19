//! Recovery.
pub(in crate::pool) mod apply;
pub(in crate::pool) mod gather;
pub(in crate::pool) mod torn;
#[cfg(test)]
mod gather_tests;
#[cfg(test)]
mod torn_tests;
