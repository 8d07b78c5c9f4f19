//! Tests of the pool as a whole.
mod bench;
mod crash;
mod panics;
mod real_disk;
mod resize;
mod stress;
