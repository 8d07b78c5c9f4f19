//! Frames: memory, latch and state of one resident page each. The `unsafe` of page access lives here.
//!
//! A frame's header fits one cache line, so that a hit touches: its table bucket, this line, and the page.
//!
//! Who may change what:
//! - page bytes, `key`, `logged`: the holder of the X latch ([`PageWrite`]). So an S latch ([`PageRead`]) freezes them.
//! - `oldest_lsn`: 0 -> n by the X holder under the dirty list's mutex; n -> 0 by the flusher that won `in_flight`, under
//!   the S latch, or by the X holder who throws the page away.
//! - `in_flight`: won by compare-and-swap under the S latch, cleared by the winner when the page is durable in place.
//! - `imaged`: set by the X holder, cleared by the flusher that won `in_flight`, under the S latch.
//! - `past_on_disk`: set by the X holder, cleared as `imaged` is.
//! - `base_lsn`: set to 0 by the X holder, to the LSN read in by whoever reads, to that of the copy by the flusher that won `in_flight`, under
//!   the S latch: by the time of the next claim the copy is durable in place.
//! - `next`, and `pins` from 0 up: under the mutex of the page table shard of `key`.
//!
//! A *pin* keeps a frame from being given to another page while a thread waits for its latch: without it, a thread
//! could find itself waiting for a page it never asked for, against the latch order. A latch that is got at once needs no
//! pin, and holding a latch is a pin: eviction takes the X latch first.
use super::memory::Region;
use super::page::{page_lsn, PAGE_SIZE};

use crate::base::schedule_jitter::before_lock;
use crate::base::{Error, Lsn, PageId, Result};
use parking_lot::lock_api::{RawRwLock as _, RawRwLockDowngrade as _};
use parking_lot::RawRwLock;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicU8, Ordering};

/// `Frame::key` of a frame without a page that is not on the free list either (the clock hand picks it up).
pub(super) const KEY_NONE: u64 = u64::MAX;
/// `Frame::key` of a frame on the free list.
pub(super) const KEY_FREE: u64 = u64::MAX - 1;
/// End of a chain in the page table.
pub(super) const NO_FRAME: u32 = u32::MAX;
/// `Frame::oldest_lsn` of a dirty page of an unlogged file: dirty, but in nobody's way at a checkpoint.
pub(super) const UNLOGGED: Lsn = u64::MAX;
/// Laps of the clock hand that a page in steady use survives.
const REFS_MAX: u8 = 3;
const PREFETCH_LINES: usize = 8;

#[repr(align(64))]
pub(super) struct Frame {
    latch: RawRwLock,
    key: AtomicU64,
    /// Lower bound of the first change that is not in the data file yet; 0 = clean. See [`UNLOGGED`].
    pub oldest_lsn: AtomicU64,
    /// Next frame of the same page table bucket.
    pub next: AtomicU32,
    pub pins: AtomicU32,
    refs: AtomicU8,
    /// A copy of the page is on its way to disk: neither evict it nor write it a second time at once.
    pub in_flight: AtomicBool,
    logged: AtomicBool,
    /// The log holds a whole image of the page since it was last clean: recovery will not read it, so it may be torn.
    pub imaged: AtomicBool,
    /// What the data file has for the page may be an earlier life of it that somebody will still ask for: it is written before a load gets
    /// its place (`direct.rs`).
    pub past_on_disk: AtomicBool,
    /// LSN that the page has in its place, if all changes since were plain writes to the log: then the log can mend it
    /// when it is torn, see `dblwr`. 0: they were not, or that is not known.
    pub base_lsn: AtomicU64,
}

impl Frame {
    fn new() -> Frame {
        Frame {
            latch: RawRwLock::INIT,
            key: AtomicU64::new(KEY_NONE),
            oldest_lsn: AtomicU64::new(0),
            next: AtomicU32::new(NO_FRAME),
            pins: AtomicU32::new(0),
            refs: AtomicU8::new(0),
            in_flight: AtomicBool::new(false),
            logged: AtomicBool::new(true),
            imaged: AtomicBool::new(false),
            past_on_disk: AtomicBool::new(false),
            base_lsn: AtomicU64::new(0),
        }
    }
    pub fn key(&self) -> u64 {
        self.key.load(Ordering::Acquire)
    }
    /// Acquire: a zero seen here comes with the claim that made it (`in_flight`).
    pub fn oldest(&self) -> Lsn {
        self.oldest_lsn.load(Ordering::Acquire)
    }
    /// Is there anything that the data file does not have, or may not have yet?
    pub fn needs_disk(&self) -> bool {
        // In this order: a flusher raises `in_flight` before it clears `oldest_lsn`.
        self.oldest() != 0 || self.in_flight.load(Ordering::Acquire)
    }
    /// One more use, for the clock. Lost updates between threads do no harm.
    pub fn touch(&self) {
        let refs = self.refs.load(Ordering::Relaxed);
        if refs < REFS_MAX {
            self.refs.store(refs + 1, Ordering::Relaxed);
        }
    }
    pub fn set_refs(&self, refs: u8) {
        self.refs.store(refs, Ordering::Relaxed);
    }
    pub fn refs(&self) -> u8 {
        self.refs.load(Ordering::Relaxed)
    }
    /// The clock hand passes: true if the page has used up its laps.
    pub fn age(&self) -> bool {
        let refs = self.refs.load(Ordering::Relaxed);
        if refs > 0 {
            self.refs.store(refs - 1, Ordering::Relaxed);
        }
        refs == 0
    }
}

pub(super) struct Frames {
    headers: Box<[Frame]>,
    memory: Region,
}

impl Frames {
    pub fn new(count: usize) -> Result<Frames> {
        assert!(count > 0);
        if count >= NO_FRAME as usize {
            return Err(Error::Full(format!(
                "a buffer pool has at most {} bytes, not {}; lower sluice_buffer_pool_size",
                (NO_FRAME as usize - 1) * PAGE_SIZE,
                count * PAGE_SIZE
            )));
        }
        // The pages first: memory that cannot be had is refused before the headers are written.
        let memory = Region::new(count * PAGE_SIZE)?;
        let headers = (0..count).map(|_| Frame::new()).collect();
        Ok(Frames { headers, memory })
    }
    pub fn len(&self) -> usize {
        self.headers.len()
    }
    pub fn header(&self, index: u32) -> &Frame {
        &self.headers[index as usize]
    }
    /// The page memory of one frame. Dereferencing it takes the frame's latch; only the guards below do.
    fn memory(&self, index: u32) -> *mut u8 {
        assert!((index as usize) < self.headers.len());
        // SAFETY: the region holds `len()` pages, and `index` is one of them.
        unsafe { self.memory.base().as_ptr().add(index as usize * PAGE_SIZE) }
    }
    /// Asks the processor for the lines of a frame's page in which a search begins, while its header is still on the way.
    #[inline]
    pub fn prefetch(&self, index: u32) {
        #[cfg(target_arch = "x86_64")]
        if (index as usize) < self.headers.len() {
            let page = self.memory(index);
            for line in 0..PREFETCH_LINES {
                // SAFETY: a prefetch reads nothing that a program could see, whoever writes the page meanwhile.
                unsafe {
                    std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(page.add(line * 64).cast())
                };
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = index;
    }
    #[inline]
    pub fn try_read(&self, index: u32) -> Option<PageRead<'_>> {
        before_lock();
        let frame = self.header(index);
        frame.latch.try_lock_shared().then(|| PageRead::holding(self, index))
    }
    pub fn read(&self, index: u32) -> PageRead<'_> {
        before_lock();
        self.header(index).latch.lock_shared();
        PageRead::holding(self, index)
    }
    #[inline]
    pub fn try_write(&self, index: u32) -> Option<PageWrite<'_>> {
        before_lock();
        let frame = self.header(index);
        frame
            .latch
            .try_lock_exclusive()
            .then(|| PageWrite::holding(self, index))
    }
    pub fn write(&self, index: u32) -> PageWrite<'_> {
        before_lock();
        self.header(index).latch.lock_exclusive();
        PageWrite::holding(self, index)
    }
}

/// A pinned, S-latched page. Dropping it lets go of both.
pub struct PageRead<'p> {
    frame: &'p Frame,
    bytes: *const u8,
    index: u32,
    /// See [`PageRead::join`].
    joined: Option<Box<[u8]>>,
    _borrow: PhantomData<&'p [u8]>,
}

impl<'p> PageRead<'p> {
    /// The caller has just taken the S latch.
    fn holding(frames: &'p Frames, index: u32) -> PageRead<'p> {
        PageRead {
            frame: frames.header(index),
            bytes: frames.memory(index),
            index,
            joined: None,
            _borrow: PhantomData,
        }
    }
    /// From here on it reads as these bytes: the page's own, and behind them those of pages that
    /// change only under this page's latch.
    pub fn join(&mut self, bytes: Box<[u8]>) {
        debug_assert_eq!(bytes[..PAGE_SIZE], self[..]);
        self.joined = Some(bytes);
    }
    pub fn id(&self) -> PageId {
        key_id(self.frame.key.load(Ordering::Relaxed))
    }
    /// Changes with every change of the page: a cursor that finds the same version finds the same slots.
    pub fn version(&self) -> Lsn {
        page_lsn(self)
    }
    pub(super) fn index(&self) -> u32 {
        self.index
    }
    pub(super) fn frame(&self) -> &'p Frame {
        self.frame
    }
    pub(super) fn is_logged(&self) -> bool {
        self.frame.logged.load(Ordering::Relaxed)
    }
}

impl std::ops::Deref for PageRead<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        if let Some(joined) = &self.joined {
            return joined;
        }
        // SAFETY: `bytes` is the frame's page memory, mapped as long as `'p`; we hold its S latch until drop, and bytes
        // are written only under the X latch (`PageWrite`), so they are frozen while this slice lives.
        unsafe { std::slice::from_raw_parts(self.bytes, PAGE_SIZE) }
    }
}

impl Drop for PageRead<'_> {
    fn drop(&mut self) {
        // SAFETY: made only with the S latch held (`holding`), and it is given back here only.
        unsafe { self.frame.latch.unlock_shared() }
    }
}

/// An X-latched frame. What leaves the pool is an Mtr's (I2); inside, loading and eviction hold it too.
pub(super) struct PageWrite<'p> {
    frame: &'p Frame,
    bytes: *mut u8,
    index: u32,
    _borrow: PhantomData<&'p mut [u8]>,
}

impl<'p> PageWrite<'p> {
    /// The caller has just taken the X latch.
    fn holding(frames: &'p Frames, index: u32) -> PageWrite<'p> {
        PageWrite {
            frame: frames.header(index),
            bytes: frames.memory(index),
            index,
            _borrow: PhantomData,
        }
    }
    pub fn frame(&self) -> &'p Frame {
        self.frame
    }
    pub fn index(&self) -> u32 {
        self.index
    }
    pub fn key(&self) -> u64 {
        self.frame.key.load(Ordering::Relaxed)
    }
    pub fn set_key(&self, key: u64) {
        self.frame.key.store(key, Ordering::Release);
    }
    pub fn is_logged(&self) -> bool {
        self.frame.logged.load(Ordering::Relaxed)
    }
    pub fn set_logged(&self, logged: bool) {
        self.frame.logged.store(logged, Ordering::Relaxed);
    }
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: as in `bytes_mut`; a shared borrow of the guard allows reading only.
        unsafe { std::slice::from_raw_parts(self.bytes, PAGE_SIZE) }
    }
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the frame's page memory, mapped as long as `'p`; the X latch, held until drop, excludes every other
        // guard of this frame, and `&mut self` every other slice from this guard.
        unsafe { std::slice::from_raw_parts_mut(self.bytes, PAGE_SIZE) }
    }
    /// The page was read from its place just now.
    pub fn note_base(&self) {
        self.frame.base_lsn.store(page_lsn(self.bytes()), Ordering::Relaxed);
    }
    pub fn downgrade(self) -> PageRead<'p> {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: we hold the X latch, and `ManuallyDrop` keeps it from being given back a second time.
        unsafe { this.frame.latch.downgrade() };
        PageRead {
            frame: this.frame,
            bytes: this.bytes,
            index: this.index,
            joined: None,
            _borrow: PhantomData,
        }
    }
}

impl Drop for PageWrite<'_> {
    fn drop(&mut self) {
        // SAFETY: made only with the X latch held (`holding`), and it is given back here or in `downgrade`, which does
        // not drop.
        unsafe { self.frame.latch.unlock_exclusive() }
    }
}

pub(super) fn key_id(key: u64) -> PageId {
    PageId::new((key >> 32) as u32, key as u32)
}
