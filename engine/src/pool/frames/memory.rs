//! The memory of all frames: one anonymous mapping. Aligned for direct I/O, not touched before it is used, huge pages
//! asked for (a point read touches a handful of pages all over it; TLB misses would cost more than the search). Used by
//! `frame` only, which hands out parts of it under the page latches.
use crate::base::{Error, Result};
use std::ptr::NonNull;

pub(in crate::pool) struct Region {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a region is plain memory owned by its value, and gives out no reference to it; the page latches decide who may
// touch which bytes (see `frame`).
unsafe impl Send for Region {}
unsafe impl Sync for Region {}

impl Region {
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
        // SAFETY: advice about our own mapping; its failure costs speed only.
        unsafe { libc::madvise(at, len, libc::MADV_HUGEPAGE) };
        let base = NonNull::new(at.cast::<u8>()).expect("mmap never gives address 0");
        Ok(Region { base, len })
    }
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: our mapping, and nobody borrows from it any more: users borrow from the owner of this value.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}
