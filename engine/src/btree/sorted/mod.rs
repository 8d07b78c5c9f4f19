//! Fills an empty tree from sorted entries: the *build* goes through the pool and the log, the
//! *load* past both.
//!
//! CREATE INDEX and inserts into empty tables use a load when there is much to write, else a build.
//! Order of the files, top to bottom: `load`, `extents`; `build` uses neither.
pub mod build;
#[cfg(test)]
mod build_tests;
pub mod extents;
pub mod load;
#[cfg(test)]
mod load_tests;
