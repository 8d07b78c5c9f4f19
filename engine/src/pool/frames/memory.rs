//! Memory at addresses that stay: a reserved range of addresses, of which a first part is mapped.
//!
//! Reserved addresses cost nothing. The mapped part is not touched before it is used, and is zero
//! then. It is aligned for direct I/O. Huge pages are requested: a point read accesses a few pages
//! at distant addresses, and TLB misses would cost more than the search. MariaDB turns huge pages
//! off after its plugins have started. From Linux 6.18 on the plugin turns them on again for this
//! memory.
//!
//! Takes no latch. One thread at a time maps and unmaps.
//! Called by: `frame`, which hands out parts of it under the page latches.
use crate::base::observer::{memory, Memory};
use crate::base::{Error, Result};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that are given back in one call. Page faults of other threads wait for the call.
const RELEASE_STEP: usize = 16 << 20;
/// A multiple of the operating system's page size.
const SYSTEM_PAGE: usize = 64 << 10;

pub(in crate::pool) struct Region {
    base: NonNull<u8>,
    reserved: usize,
    /// Bytes that are mapped now.
    mapped: AtomicUsize,
}

// SAFETY: a region is plain memory owned by its value, and gives out no reference to it. The page
// latches decide which thread may touch which bytes (see `frame`).
unsafe impl Send for Region {}
// SAFETY: as for `Send`.
unsafe impl Sync for Region {}

impl Region {
    /// Reserves addresses. `Error::Full` if the system does not give `len` bytes of them.
    pub fn reserve(len: usize) -> Result<Region> {
        let len = whole(len);
        assert!(len > 0, "a region has addresses");
        // SAFETY: a fresh private anonymous mapping overlaps nothing.
        let at = unsafe { map(std::ptr::null_mut(), len, 0) };
        if at == libc::MAP_FAILED {
            return Err(Error::Full(format!(
                "cannot reserve {len} bytes of addresses: {}; lower sluice_buffer_pool_size_max",
                std::io::Error::last_os_error()
            )));
        }
        Ok(Region {
            base: NonNull::new(at.cast::<u8>()).expect("mmap never gives address 0"),
            reserved: len,
            mapped: AtomicUsize::new(0),
        })
    }
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }
    /// Maps the bytes from `from` to `to`. `Error::Full` if the system does not give the memory:
    /// nothing is changed then.
    pub fn map(&self, from: usize, to: usize) -> Result<()> {
        let (from, to) = (whole(from), whole(to).min(self.reserved));
        if from >= to {
            return Ok(());
        }
        // SAFETY: bytes of our own mapping, which no thread uses before.
        let at = unsafe { self.base.as_ptr().add(from).cast() };
        // SAFETY: as above.
        let failed = unsafe { libc::mprotect(at, to - from, libc::PROT_READ | libc::PROT_WRITE) } != 0;
        if failed {
            return Err(Error::Full(format!(
                "cannot get {} bytes of memory: {}; lower sluice_buffer_pool_size",
                to - from,
                std::io::Error::last_os_error()
            )));
        }
        // SAFETY: advice about our own mapping; its failure costs speed only.
        unsafe { libc::madvise(at, to - from, libc::MADV_HUGEPAGE) };
        self.mapped.fetch_add(to - from, Ordering::Relaxed);
        debug_assert!(
            self.mapped.load(Ordering::Relaxed) <= self.reserved,
            "bytes that are mapped have addresses, and are mapped once"
        );
        memory(Memory::BufferPool, (to - from) as i64);
        Ok(())
    }
    /// Gives the memory of the bytes from `from` to `to` back to the system. The addresses stay
    /// reserved. No thread uses these bytes any more: an access ends the process.
    pub fn unmap(&self, from: usize, to: usize) {
        let (from, to) = (whole(from), whole(to).min(self.reserved));
        let mut at = from;
        while at < to {
            let len = RELEASE_STEP.min(to - at);
            // SAFETY: bytes of our own mapping, by the contract in use no more.
            unsafe { libc::madvise(self.base.as_ptr().add(at).cast(), len, libc::MADV_DONTNEED) };
            at += len;
        }
        if from < to {
            // SAFETY: as above. A failure leaves empty memory mapped, which does no harm.
            unsafe { map(self.base.as_ptr().add(from).cast(), to - from, libc::MAP_FIXED) };
            let mapped = self.mapped.fetch_sub(to - from, Ordering::Relaxed);
            debug_assert!(mapped >= to - from, "memory that is given back was taken");
            memory(Memory::BufferPool, -((to - from) as i64));
        }
    }
}

/// Rounded up to whole pages of the operating system.
fn whole(bytes: usize) -> usize {
    bytes.next_multiple_of(SYSTEM_PAGE)
}

/// Reserves addresses, any or (`MAP_FIXED`) these.
///
/// # Safety
/// With `MAP_FIXED` the range is the caller's own, and no thread uses it.
unsafe fn map(at: *mut libc::c_void, len: usize, fixed: i32) -> *mut libc::c_void {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | fixed;
    // SAFETY: the caller's promise.
    unsafe { libc::mmap(at, len, libc::PROT_NONE, flags, -1, 0) }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: our mapping, and no borrow of it is left: users borrow from this value's owner.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.reserved) };
        memory(Memory::BufferPool, -(*self.mapped.get_mut() as i64));
    }
}
