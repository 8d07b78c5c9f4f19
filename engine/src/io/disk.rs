//! The traits [`Disk`] and [`File`]: every disk access, clock and random number of the engine.
//!
//! Called by: the layers `space`, `pool` and `redo`, and `engine` at open.
use crate::base::Result;
use std::sync::Arc;

/// Alignment of buffers, offsets and lengths for direct I/O, in bytes. All page I/O keeps it.
pub const IO_ALIGN: usize = 4096;

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Must exist.
    Open,
    /// Must not exist; created empty, and durable with its directory entry on return.
    Create,
    /// As `Create`, but nothing is synced, so an error says that nothing was created.
    /// [`Disk::rename`] makes the name durable, [`File::sync`] the file.
    CreateUnsynced,
}

/// Whether a file goes through the operating system's cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Caching {
    /// O_DIRECT where the file system takes it (else buffered, noted once in the log).
    Direct,
    Buffered,
}

/// One write of a batch. Buffers are [`IO_ALIGN`]-aligned for direct files.
pub struct WriteOp<'a> {
    pub file: &'a dyn File,
    pub offset: u64,
    pub data: &'a [u8],
}
/// One read of a batch: fills `data`.
pub struct ReadOp<'a> {
    pub file: &'a dyn File,
    pub offset: u64,
    pub data: &'a mut [u8],
}

/// What a file takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileSize {
    /// Its length.
    pub bytes: u64,
    /// What the file system keeps of it: less than its length if it has holes.
    pub allocated: u64,
}

/// An open file.
// A file's length is a call that can fail; "is empty" would be one more.
#[allow(clippy::len_without_is_empty)]
pub trait File: Send + Sync {
    /// Fills `data` whole. A read past the end of the file is an `Error::Io` that names file and
    /// offset.
    fn read_at(&self, data: &mut [u8], offset: u64) -> Result<()>;
    /// Writes all. `Error::Full` for ENOSPC/EDQUOT, else `Error::Io`.
    fn write_at(&self, data: &[u8], offset: u64) -> Result<()>;
    /// Durable on return. Callers never retry a failed sync (I6). The failure is `Error::Io`, on a
    /// full disk too.
    fn sync(&self) -> Result<()>;
    /// Bytes.
    fn len(&self) -> Result<u64>;
    /// Extends or truncates the file. An extension allocates the space: ENOSPC comes from here,
    /// and not from a later write.
    fn set_len(&self, len: u64) -> Result<()>;
    fn path(&self) -> &str;
    /// The file bypasses the system's cache: a write that has returned is on the device, though
    /// perhaps not durable.
    fn is_direct(&self) -> bool;
    /// Raw descriptor for batched I/O. None: a simulated file.
    fn fd(&self) -> Option<i32>;
}

/// The disk of one engine directory. Names are plain file names, without a directory.
pub trait Disk: Send + Sync {
    /// `Error::TooManyFiles`: no descriptor is left, and nothing was done. `Error::Exists`: the
    /// file was to be created, and is there.
    fn open(&self, name: &str, mode: Mode, caching: Caching) -> Result<Arc<dyn File>>;
    fn exists(&self, name: &str) -> Result<bool>;
    /// Durable on return. No error when the name does not exist.
    fn remove(&self, name: &str) -> Result<()>;
    /// Durable on return; replaces `to`.
    fn rename(&self, from: &str, to: &str) -> Result<()>;
    fn list(&self) -> Result<Vec<String>>;
    /// Without opening the file. None: there is no file of that name.
    fn size(&self, name: &str) -> Result<Option<FileSize>>;
    /// Carries out the whole batch, in any order, without a sync. Returns when all writes have
    /// ended, with the first error.
    fn write_many(&self, ops: &[WriteOp<'_>]) -> Result<()>;
    /// Carries out the whole batch, in any order. One result for each read.
    fn read_many(&self, ops: &mut [ReadOp<'_>]) -> Vec<Result<()>>;
    /// After a call with `true`, no file is written, made, renamed, removed, or changed in length:
    /// those calls wait until one with `false`.
    fn hold_writes(&self, hold: bool);
    /// Monotonic microseconds.
    fn now_us(&self) -> u64;
    /// Seconds since the epoch.
    fn wall_s(&self) -> u64;
    fn random(&self) -> u64;
}

/// The first error of a batch. Every result is taken, so that every operation is carried out.
pub(super) fn first_error(results: impl Iterator<Item = Result<()>>) -> Result<()> {
    let mut first = Ok(());
    for result in results {
        first = first.and(result);
    }
    first
}
