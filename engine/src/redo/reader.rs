//! Reads the redo stream back from a checkpoint: groups in order, and what ended the stream.
use crate::base::{Lsn, Result};
use crate::io::Disk;

/// How a scan ended.
#[derive(Debug, PartialEq, Eq)]
pub struct ScanEnd {
    /// LSN behind the last whole group: the log continues here.
    pub lsn: Lsn,
    /// True if a torn tail was cut off (never a reason to refuse).
    pub torn: bool,
}

/// Calls `each(start, end, group bytes)` for every whole group from `from` on. `Error::Corrupt` when blocks that were
/// once durable (later blocks say so) cannot be read: the log is damaged in the middle, which is never cut off silently.
pub fn scan(disk: &dyn Disk, from: Lsn, each: &mut dyn FnMut(Lsn, Lsn, &[u8]) -> Result<()>) -> Result<ScanEnd> {
    let _ = (disk, from, each);
    todo!()
}
