//! The memory of all frames: one anonymous mapping.
//!
//! It is aligned for direct I/O and not touched before it is used. Huge pages are asked for: a
//! point read touches a handful of pages all over it, and TLB misses would cost more than the
//! search. Takes no latch.
//! Called by: `frame`, which hands out parts of it under the page latches.
use crate::base::observer::{memory, Memory};
use crate::base::{Error, Result};
use std::ptr::NonNull;

pub(in crate::pool) struct Region {
    base: NonNull<u8>,
    len: usize,
    huge_pages: bool,
}

// SAFETY: a region is plain memory owned by its value, and gives out no reference to it. The page
// latches decide which thread may touch which bytes (see `frame`).
unsafe impl Send for Region {}
// SAFETY: as for `Send`.
unsafe impl Sync for Region {}

impl Region {
    /// `Error::Full` if the system does not give `len` bytes.
    pub fn new(len: usize) -> Result<Region> {
        assert!(len > 0);
        // SAFETY: a fresh private anonymous mapping overlaps nothing.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(Error::Full(format!(
                "cannot get {len} bytes of memory: {}; lower sluice_buffer_pool_size",
                std::io::Error::last_os_error()
            )));
        }
        memory(Memory::BufferPool, len as i64);
        // SAFETY: advice about our own mapping; its failure costs speed only.
        let advised = unsafe { libc::madvise(at, len, libc::MADV_HUGEPAGE) };
        let base = NonNull::new(at.cast::<u8>()).expect("mmap never gives address 0");
        Ok(Region {
            base,
            len,
            huge_pages: advised == 0,
        })
    }
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }
    /// Did the kernel accept the advice to use huge pages?
    pub fn has_huge_pages(&self) -> bool {
        self.huge_pages
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: our mapping, and no borrow of it is left: users borrow from this value's owner.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
        memory(Memory::BufferPool, -(self.len as i64));
    }
}
