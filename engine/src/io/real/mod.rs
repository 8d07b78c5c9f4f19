//! The real disk: a directory, its files, and batches of I/O on them.
//!
//! Order of the files, top to bottom: `disk`, then `file` and `batch`, then `gate`, `observed` and
//! `error`.
mod batch;
mod disk;
mod error;
mod file;
mod gate;
mod observed;

#[cfg(test)]
mod tests;

pub use disk::{local_time, RealDisk};
