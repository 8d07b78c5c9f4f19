//! Append and flush. Writers copy their group into the log buffer under one short mutex; whoever finds the device
//! free writes and syncs for all who wait (group commit without a timer).
use crate::base::{Counters, Lsn, Result};
use crate::io::Disk;
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlushMode {
    /// Written to the operating system, not synced.
    Write,
    /// Durable.
    Sync,
}

#[derive(Clone, Debug)]
pub struct RedoConfig {
    /// Bytes of the ring; groups are refused room (see [`Redo::reserve_wait`]) before the checkpoint would be overrun.
    pub capacity: u64,
    /// Bytes of the in-memory log buffer.
    pub buffer_size: usize,
    pub direct_io: bool,
}

pub struct Redo {
    _private: (),
}

impl Redo {
    /// Makes a new, empty log (fresh engine directory).
    pub fn create(_disk: Arc<dyn Disk>, _config: RedoConfig, _counters: Arc<Counters>) -> Result<Redo> {
        todo!()
    }
    /// True if the directory holds a log.
    pub fn exists(_disk: &dyn Disk) -> Result<bool> {
        todo!()
    }
    /// The newest valid checkpoint: (checkpoint LSN, payload given to [`Redo::write_checkpoint`]).
    pub fn read_checkpoint(_disk: &dyn Disk) -> Result<(Lsn, Vec<u8>)> {
        todo!()
    }
    /// Opens for appending behind `end` (from [`super::reader::scan`]), in a new epoch: bytes of an older epoch behind `end` never validate again.
    pub fn open(
        _disk: Arc<dyn Disk>,
        _config: RedoConfig,
        _counters: Arc<Counters>,
        _checkpoint: Lsn,
        _end: Lsn,
    ) -> Result<Redo> {
        todo!()
    }
    /// Copies a group into the log buffer; returns (start, end) LSN. Never syncs; waits only when the buffer is full (then
    /// it writes out itself). Callers may hold page latches. Groups may be up to 1/4 of the ring.
    pub fn append(&self, _group: &[u8]) -> (Lsn, Lsn) {
        todo!()
    }
    /// Next LSN to be given. A lower bound for anything appended later.
    pub fn lsn(&self) -> Lsn {
        todo!()
    }
    pub fn durable_lsn(&self) -> Lsn {
        todo!()
    }
    /// Returns when everything below `lsn` is written / durable. Group commit: one leader, others wait.
    pub fn flush(&self, _lsn: Lsn, _mode: FlushMode) -> Result<()> {
        todo!()
    }
    /// Bytes that may be appended before the ring is full, seen from the last checkpoint.
    pub fn room(&self) -> u64 {
        todo!()
    }
    /// Called with NO latch held, before a mini-transaction that will write: blocks while less than a safety margin of the ring
    /// is free, until a checkpoint makes room. Counts `redo_log_waits`. Wakes the checkpointer through `wanted()`.
    pub fn reserve_wait(&self) -> Result<()> {
        todo!()
    }
    /// True while somebody waits in `reserve_wait` or the age is over 3/4 of the capacity: the page cleaner must hurry.
    pub fn wanted(&self) -> bool {
        todo!()
    }
    /// All redo below `lsn` is no longer needed (every page change below it is durable in place). Durable on return. `payload` ≤ 256 bytes.
    pub fn write_checkpoint(&self, _lsn: Lsn, _payload: &[u8]) -> Result<()> {
        todo!()
    }
    pub fn checkpoint_lsn(&self) -> Lsn {
        todo!()
    }
    /// Online resize of the ring; takes effect over the next checkpoints.
    pub fn set_capacity(&self, _bytes: u64) -> Result<()> {
        todo!()
    }
    /// I6: after this every append panics-free no-op is impossible: appends and flushes return/raise `Poisoned`.
    pub fn poison(&self, _why: &str) {
        todo!()
    }
    pub fn poisoned(&self) -> Option<String> {
        todo!()
    }
}
