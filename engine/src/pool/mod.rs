//! The buffer pool: pages in memory. Pin, latch, evict, flush; and [`Mtr`], the only source of a writable page (I2).
//!
//! Latch protocol (I5). Page latches are taken: tree pages from the root down and, on one level, left to right; then
//! undo pages; then a file's space pages (bitmap, then page 0). A thread that holds a page latch waits for no row
//! lock, calls no server function, and takes only the [`crate::base::sync::Rank`]s from `LockShard` up.
//! The pool calls nothing above it: a page read never merges or interprets what it read beyond the page header.
pub mod flush;
pub mod frame;
pub mod mtr;
pub mod page;

pub use frame::PageRead;
pub use mtr::{Mtr, PageHandle};
pub use page::{PageType, PAGE_BODY, PAGE_SIZE};

use crate::base::{Counters, FileId, Lsn, PageId, Result};
use crate::io::{Disk, Files};
use crate::redo::Redo;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// Bytes of frames (rounded down to whole pages). Overhead on top: under 2 % for frame headers and the page table.
    pub size: u64,
    pub doublewrite: bool,
    /// Pages a second the cleaner writes when nothing presses, and when something does.
    pub io_capacity: u32,
    pub io_capacity_max: u32,
    pub read_io_threads: u32,
}

pub struct Pool {
    _private: (),
}

impl Pool {
    pub fn new(
        _config: PoolConfig,
        _disk: Arc<dyn Disk>,
        _files: Arc<Files>,
        _redo: Arc<Redo>,
        _counters: Arc<Counters>,
    ) -> Result<Arc<Pool>> {
        todo!()
    }
    /// Pinned and S-latched page; read from disk and verified (checksum, file, page number) when absent.
    pub fn read(&self, _id: PageId) -> Result<PageRead<'_>> {
        todo!()
    }
    /// Same, only if it is resident (no I/O).
    pub fn read_resident(&self, _id: PageId) -> Option<PageRead<'_>> {
        todo!()
    }
    pub fn is_resident(&self, _id: PageId) -> bool {
        todo!()
    }
    pub fn begin(&self) -> Mtr<'_> {
        todo!()
    }
    /// Asks background readers to bring pages in; returns at once, may do nothing.
    pub fn prefetch(&self, _ids: &[PageId]) {
        todo!()
    }
    /// Recovery: applies one redo record group, decoded here, to pages whose LSN is older than `end`. Pages of files for
    /// which `skip(file)` says true (dropped later in the log) are left alone.
    pub fn redo_apply(&self, _end: Lsn, _group: &[u8], _skip: &dyn Fn(FileId) -> bool) -> Result<()> {
        todo!()
    }
    /// Forgets all pages of a file without writing them (drop, truncate). No page of it is pinned or latched by anyone.
    pub fn discard_file(&self, _file: FileId) {
        todo!()
    }
    /// Writes back all dirty pages of one file and syncs it.
    pub fn flush_file(&self, _file: FileId) -> Result<()> {
        todo!()
    }
    /// One bounded piece of the page cleaner's work (I7): writes up to `pages_max` dirty pages, oldest first plus those
    /// in the way of eviction, and returns how many it wrote.
    pub fn flush_step(&self, _pages_max: usize) -> Result<usize> {
        todo!()
    }
    /// How many pages the cleaner should write in the next 100 ms: from age of the log, dirty share, free frames and io_capacity.
    pub fn flush_target(&self) -> usize {
        todo!()
    }
    /// Writes everything dirty at the time of the call.
    pub fn flush_all(&self) -> Result<()> {
        todo!()
    }
    /// A bound: every change below it is durable in place. min(oldest change of a dirty or in-flight page, redo LSN at the call's start).
    pub fn checkpoint_lsn(&self) -> Lsn {
        todo!()
    }
    /// Blocks the page cleaner until there is something to do or the timeout ends.
    pub fn wait_for_work(&self, _timeout_ms: u64) {
        todo!()
    }
    pub fn wake_cleaner(&self) {
        todo!()
    }
    /// Restores torn pages from the doublewrite file; before redo is applied. Returns the number restored.
    pub fn recover_doublewrite(&self) -> Result<usize> {
        todo!()
    }
    pub fn redo(&self) -> &Arc<Redo> {
        todo!()
    }
    pub fn files(&self) -> &Arc<Files> {
        todo!()
    }
    pub fn disk(&self) -> &Arc<dyn Disk> {
        todo!()
    }
    pub fn counters(&self) -> &Arc<Counters> {
        todo!()
    }
    /// I6: refuses all further writes. Every layer that meets a failed write or a broken invariant calls this.
    pub fn poison(&self, _why: &str) {
        todo!()
    }
    /// `Err(Poisoned)` after [`Pool::poison`].
    pub fn check_alive(&self) -> Result<()> {
        todo!()
    }
    pub fn set_io_capacity(&self, _io_capacity: u32, _max: u32) {
        todo!()
    }
    pub fn set_doublewrite(&self, _on: bool) {
        todo!()
    }
    /// Stops prefetch threads.
    pub fn shutdown(&self) {
        todo!()
    }
}
