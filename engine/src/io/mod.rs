//! Disk, clock and randomness, as one trait with two implementations.
//!
//! Every disk access of the engine goes through [`Disk`]; a test of the code's shape enforces this.
//! [`RealDisk`] is a directory, [`SimDisk`] a simulation with stated fault rules. Order of the
//! subfolders, top to bottom: `files`, `sim`, `real`, `align`, `disk`. `futex` stands alone.
pub mod align;
pub mod disk;
pub mod files;
pub mod futex;
pub mod real;
pub mod sim;

pub use align::AlignedBuf;
pub use disk::{Caching, Disk, File, FileSize, Mode, ReadOp, WriteOp, IO_ALIGN};
pub use files::Files;
pub use real::{local_time, RealDisk};
pub use sim::SimDisk;
