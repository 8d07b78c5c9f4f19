//! [`AlignedBuf`]: zeroed memory that is aligned for direct I/O.
//!
//! Pages, batches and redo writes live in such buffers. One of the few files with `unsafe`. Called
//! by: `redo`, `pool`, `space`, and the other files here.
use super::disk::IO_ALIGN;
use std::alloc::{alloc_zeroed, dealloc, handle_alloc_error, Layout};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// A byte buffer whose address is a multiple of [`IO_ALIGN`]. The memory of a large buffer is not
/// touched until it is used.
pub struct AlignedBuf {
    bytes: NonNull<u8>,
    len: usize,
}

// SAFETY: the buffer owns its memory alone, like a `Box<[u8]>`.
unsafe impl Send for AlignedBuf {}
// SAFETY: shared access only hands out `&[u8]`.
unsafe impl Sync for AlignedBuf {}

impl AlignedBuf {
    /// `len` zero bytes.
    pub fn new(len: usize) -> AlignedBuf {
        if len == 0 {
            return AlignedBuf {
                bytes: NonNull::dangling(),
                len,
            };
        }
        let layout = Self::layout(len);
        // SAFETY: the layout's size is not zero (checked above).
        let bytes = unsafe { alloc_zeroed(layout) };
        let Some(bytes) = NonNull::new(bytes) else {
            handle_alloc_error(layout)
        };
        debug_assert_eq!(
            bytes.as_ptr() as usize % IO_ALIGN,
            0,
            "direct I/O takes the buffer as it is"
        );
        AlignedBuf { bytes, len }
    }
    pub fn from_slice(data: &[u8]) -> AlignedBuf {
        let mut buf = AlignedBuf::new(data.len());
        buf.copy_from_slice(data);
        buf
    }
    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len, IO_ALIGN).expect("a buffer fits the address space")
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: allocated in `new` with this very layout, freed once.
            unsafe { dealloc(self.bytes.as_ptr(), Self::layout(self.len)) }
        }
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` initialised bytes that live as long as `self`; dangling only with len 0.
        unsafe { std::slice::from_raw_parts(self.bytes.as_ptr(), self.len) }
    }
}
impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` makes the access unique.
        unsafe { std::slice::from_raw_parts_mut(self.bytes.as_ptr(), self.len) }
    }
}

/// True if direct I/O can take `data` at `offset` without a copy.
pub fn is_aligned(data: &[u8], offset: u64) -> bool {
    (data.as_ptr() as usize) % IO_ALIGN == 0 && is_aligned_range(data.len(), offset)
}

/// True if direct I/O can take `len` bytes at `offset`, from an aligned buffer.
pub fn is_aligned_range(len: usize, offset: u64) -> bool {
    len % IO_ALIGN == 0 && offset % IO_ALIGN as u64 == 0
}
