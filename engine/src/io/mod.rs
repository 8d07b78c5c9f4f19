//! Disk, clock and randomness behind one trait: [`Disk`]. A real one ([`file::RealDisk`]) and a simulated one
//! ([`sim::SimDisk`]) with stated fault rules. Every disk access of the engine goes through here (tidy enforces it).
pub mod align;
mod batch;
pub mod file;
pub mod files;
pub mod futex;
pub mod sim;
mod sim_pending;
#[cfg(test)]
pub mod watched;

pub use align::AlignedBuf;
pub use file::RealDisk;
pub use files::Files;
pub use sim::SimDisk;

use crate::base::Result;
use std::sync::Arc;

/// Alignment of buffers, offsets and lengths for direct I/O. All page I/O keeps it.
pub const IO_ALIGN: usize = 4096;

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Must exist.
    Open,
    /// Must not exist; created empty, and durable with its directory entry on return.
    Create,
    /// As `Create`, but nothing is synced, so an error says that nothing was created. The name is durable when it was changed by
    /// [`Disk::rename`], the file by [`File::sync`].
    CreateUnsynced,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Caching {
    /// O_DIRECT where the file system takes it (else buffered, noted once in the log).
    Direct,
    Buffered,
}

/// One piece of a batch. Buffers are [`IO_ALIGN`]-aligned for direct files.
pub struct WriteOp<'a> {
    pub file: &'a dyn File,
    pub offset: u64,
    pub data: &'a [u8],
}
pub struct ReadOp<'a> {
    pub file: &'a dyn File,
    pub offset: u64,
    pub data: &'a mut [u8],
}

// A file's length is a call that can fail; "is empty" would be one more.
#[allow(clippy::len_without_is_empty)]
pub trait File: Send + Sync {
    /// Fills `data` whole; reading past the end of file is an error (`Error::Io`) that names file and offset.
    fn read_at(&self, data: &mut [u8], offset: u64) -> Result<()>;
    /// Writes all. `Error::Full` for ENOSPC/EDQUOT, else `Error::Io`.
    fn write_at(&self, data: &[u8], offset: u64) -> Result<()>;
    /// Durable on return. Never retried by callers after a failure (invariant I6), which is `Error::Io` on a full disk too.
    fn sync(&self) -> Result<()>;
    fn len(&self) -> Result<u64>;
    /// Grow (space really allocated: ENOSPC comes from here and not from a later write) or shrink.
    fn set_len(&self, len: u64) -> Result<()>;
    fn path(&self) -> &str;
    /// A write that has returned is on the device, if not durable: nobody takes its bytes from the system's cache later.
    fn is_direct(&self) -> bool;
    /// Raw descriptor for batched I/O; None for a simulated file.
    fn fd(&self) -> Option<i32>;
}

/// The disk under one engine directory. Names are relative, without directories.
pub trait Disk: Send + Sync {
    /// `Error::TooManyFiles`: no descriptor is left, and nothing was done.
    fn open(&self, name: &str, mode: Mode, caching: Caching) -> Result<Arc<dyn File>>;
    fn exists(&self, name: &str) -> Result<bool>;
    /// Durable on return. No error when the name does not exist.
    fn remove(&self, name: &str) -> Result<()>;
    /// Durable on return; replaces `to`.
    fn rename(&self, from: &str, to: &str) -> Result<()>;
    fn list(&self) -> Result<Vec<String>>;
    /// All of the batch, in any order; returns when all are done (not synced). First error wins, after all have ended.
    fn write_many(&self, ops: &[WriteOp<'_>]) -> Result<()>;
    fn read_many(&self, ops: &mut [ReadOp<'_>]) -> Vec<Result<()>>;
    /// Monotonic microseconds.
    fn now_us(&self) -> u64;
    /// Seconds since the epoch.
    fn wall_s(&self) -> u64;
    fn random(&self) -> u64;
}

/// The first error of a batch whose every piece is carried out, failed ones before it or not.
fn first_error(results: impl Iterator<Item = Result<()>>) -> Result<()> {
    let mut first = Ok(());
    for result in results {
        first = first.and(result);
    }
    first
}
