//! Random merges for the test modes, fixtures for tests of indexes with a change buffer, and tests
//! of the change buffer as a whole.
#[cfg(test)]
mod bench_tests;
#[cfg(test)]
mod bound_tests;
#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod model_tests;
pub mod random_merge;
