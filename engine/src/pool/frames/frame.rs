//! Frames: memory, latch and state of one resident page each. The `unsafe` of page access is here.
//!
//! A frame's header fits one cache line. So a hit touches its page table bucket, this line and the
//! page.
//!
//! The pool's size changes while threads use it (`docs/decisions/2026-11-28-buffer-pool-resize.md`,
//! W1 to W7). A header stays once it is made. The page memory of a withdrawn frame is not mapped.
//!
//! Which thread may change what:
//! - page bytes, `key`, `logged`: the holder of the X latch ([`PageWrite`]). So an S latch
//!   ([`PageRead`]) freezes them.
//! - `oldest_lsn`: 0 -> n by the X holder under the dirty list's mutex. n -> 0 by the flusher that
//!   won `in_flight`, under the S latch, or by the X holder that throws the page away.
//! - `in_flight`: won by compare-and-swap under the S latch. The winner clears it when the page is
//!   durable in place.
//! - `imaged`: set by the X holder. The flusher that won `in_flight` clears it under the S latch.
//! - `must_write_freed_image`: set by the X holder, cleared as `imaged` is.
//! - `base_lsn`: set to 0 by the X holder, and to the LSN read in by the thread that reads the
//!   page. The flusher that won `in_flight` sets it to the LSN of its copy, under the S latch. That
//!   copy is durable in place before the next claim.
//! - `next`, and `pins` from 0 up: under the mutex of the page table shard of `key`.
//!
//! A *pin* keeps a frame from being given to another page while a thread waits for its latch.
//! Without pins a thread could wait for a page that it never asked for, against the latch order. A
//! latch that is taken at once needs no pin. Holding a latch is a pin, too: eviction takes the X
//! latch first.
//!
//! Called by: the pool only. The layers above get a [`PageRead`], or an `Mtr` around [`PageWrite`].
use crate::base::schedule_jitter::before_lock;
use crate::base::sync::{latch_released, latch_taken};
use crate::base::{Error, Lsn, PageId, Result};
use crate::pool::frames::geometry::PoolGeometry;
use crate::pool::frames::memory::Region;
use crate::pool::page::{page_lsn, PAGE_SIZE};
use parking_lot::lock_api::{RawRwLock as _, RawRwLockDowngrade as _};
use parking_lot::RawRwLock;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicU8, AtomicUsize, Ordering};

/// `Frame::key` of a frame without a page that is not on the free list. The clock hand finds it.
pub(in crate::pool) const KEY_NONE: u64 = u64::MAX;
/// `Frame::key` of a frame on the free list.
pub(in crate::pool) const KEY_FREE: u64 = u64::MAX - 1;
/// `Frame::key` of a frame that was withdrawn: its memory is not mapped, or about to be unmapped.
pub(in crate::pool) const KEY_WITHDRAWN: u64 = u64::MAX - 2;
/// End of a chain in the page table.
pub(in crate::pool) const NO_FRAME: u32 = u32::MAX;
/// `Frame::oldest_lsn` of a dirty page of an unlogged file: it holds no checkpoint back.
pub(in crate::pool) const UNLOGGED: Lsn = u64::MAX;
/// Laps of the clock hand that a page in steady use survives.
const REFS_MAX: u8 = 3;
/// References of a page that was read ahead and not used yet. Its first use sets them to 0, like
/// those of a page that was read on demand.
const REFS_AHEAD: u8 = 0x80;
const PREFETCH_LINES: usize = 8;

#[repr(align(64))]
pub(in crate::pool) struct Frame {
    latch: RawRwLock,
    key: AtomicU64,
    /// Lower bound of the first change that the data file lacks; 0 = clean. See [`UNLOGGED`].
    pub oldest_lsn: AtomicU64,
    /// Next frame of the same page table bucket.
    pub next: AtomicU32,
    pub pins: AtomicU32,
    refs: AtomicU8,
    /// A copy of the page is on its way to disk: do not evict the page, and do not write a second
    /// copy meanwhile.
    pub in_flight: AtomicBool,
    logged: AtomicBool,
    /// The log holds a whole image of the page since it was last clean. Recovery will not read the
    /// page, so its write may be torn.
    pub imaged: AtomicBool,
    /// The page was freed. The data file may still have its contents from before, and a reader may
    /// read those. So the freed page is written before a load gets its place (`direct`).
    pub must_write_freed_image: AtomicBool,
    /// LSN of the version in the data file, if all changes since were plain writes: then the log
    /// can repair a torn write (`doublewrite`). 0: they were not, or that is not known.
    pub base_lsn: AtomicU64,
}

impl Frame {
    fn new() -> Frame {
        Frame {
            latch: RawRwLock::INIT,
            key: AtomicU64::new(KEY_WITHDRAWN),
            oldest_lsn: AtomicU64::new(0),
            next: AtomicU32::new(NO_FRAME),
            pins: AtomicU32::new(0),
            refs: AtomicU8::new(0),
            in_flight: AtomicBool::new(false),
            logged: AtomicBool::new(true),
            imaged: AtomicBool::new(false),
            must_write_freed_image: AtomicBool::new(false),
            base_lsn: AtomicU64::new(0),
        }
    }
    pub fn key(&self) -> u64 {
        self.key.load(Ordering::Acquire)
    }
    /// Acquire: a thread that sees zero here also sees the claim that made it (`in_flight`).
    pub fn oldest(&self) -> Lsn {
        self.oldest_lsn.load(Ordering::Acquire)
    }
    /// Does the data file lack some change of the page, or may it lack one?
    pub fn needs_disk(&self) -> bool {
        // In this order: a flusher raises `in_flight` before it clears `oldest_lsn`.
        self.oldest() != 0 || self.in_flight.load(Ordering::Acquire)
    }
    pub fn is_logged(&self) -> bool {
        self.logged.load(Ordering::Relaxed)
    }
    /// Counts one more use, for the clock. Lost updates between threads do no harm.
    pub fn touch(&self) {
        let refs = self.refs.load(Ordering::Relaxed);
        if refs == REFS_AHEAD {
            self.refs.store(0, Ordering::Relaxed);
        } else if refs < REFS_MAX {
            self.refs.store(refs + 1, Ordering::Relaxed);
        }
    }
    /// The page was read ahead.
    pub fn set_ahead(&self) {
        self.refs.store(REFS_AHEAD, Ordering::Relaxed);
    }
    pub fn set_refs(&self, refs: u8) {
        debug_assert!(refs & REFS_AHEAD == 0, "the mark of a page read ahead is no count");
        self.refs.store(refs, Ordering::Relaxed);
    }
    pub fn refs(&self) -> u8 {
        self.refs.load(Ordering::Relaxed) & !REFS_AHEAD
    }
    /// Called by the clock hand. True: the page has no references left, and may be evicted.
    pub fn age(&self) -> bool {
        let refs = self.refs();
        debug_assert!(refs <= REFS_MAX, "the clock counts so many uses of a page, and no more");
        if refs > 0 {
            self.refs.store(refs - 1, Ordering::Relaxed);
        }
        refs == 0
    }
}

pub(in crate::pool) struct Frames {
    /// An array of [`Frame`], of which the first `made` are initialised.
    headers: Region,
    memory: Region,
    /// Frames that may get a page.
    len: AtomicUsize,
    /// Frames that have memory, and so may have a page. More than `len` while the pool shrinks.
    mapped: AtomicUsize,
    /// Headers that were ever made.
    made: AtomicUsize,
    max: usize,
}

impl Frames {
    /// `Error::Full` if the system does not give that much memory.
    pub fn new(geometry: PoolGeometry) -> Result<Frames> {
        let max = geometry.frames_max();
        if max >= NO_FRAME as usize {
            return Err(Error::Full(format!(
                "a buffer pool has at most {} bytes, not {}; lower sluice_buffer_pool_size and sluice_buffer_pool_size_max",
                (NO_FRAME as usize - 1) * PAGE_SIZE,
                max * PAGE_SIZE
            )));
        }
        let frames = Frames {
            headers: Region::reserve(max * size_of::<Frame>())?,
            memory: Region::reserve(max * PAGE_SIZE)?,
            len: AtomicUsize::new(0),
            mapped: AtomicUsize::new(0),
            made: AtomicUsize::new(0),
            max,
        };
        frames.map(geometry.frames())?;
        frames.set_len(geometry.frames());
        Ok(frames)
    }
    pub fn geometry(&self) -> PoolGeometry {
        PoolGeometry::of(self.len(), self.max)
    }
    /// Frames that may get a page.
    #[inline]
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }
    /// Frames that may have a page. A search over all pages must visit these.
    pub fn mapped(&self) -> usize {
        self.mapped.load(Ordering::Acquire)
    }
    /// The greatest number of frames.
    pub fn max(&self) -> usize {
        self.max
    }
    /// Frames below `count` may get a page, and no others.
    pub(super) fn set_len(&self, count: usize) {
        assert!(count > 0 && count <= self.mapped(), "W1: a frame with a page is mapped");
        self.len.store(count, Ordering::Release);
    }
    /// Gets memory for the frames below `count`. New ones have the key `KEY_WITHDRAWN`. After an
    /// error (`Full`) nothing is changed. One thread at a time maps and unmaps.
    pub(super) fn map(&self, count: usize) -> Result<()> {
        assert!(count <= self.max, "a pool does not outgrow its addresses");
        let (mapped, made) = (self.mapped(), self.made.load(Ordering::Relaxed));
        debug_assert!(mapped <= made, "a frame with memory has a header");
        // The pages first: a lack of memory shows before the headers are written.
        self.memory.map(mapped * PAGE_SIZE, count * PAGE_SIZE)?;
        if count > made {
            let size = size_of::<Frame>();
            if let Err(error) = self.headers.map(made * size, count * size) {
                self.memory.unmap(mapped * PAGE_SIZE, count * PAGE_SIZE);
                return Err(error);
            }
            for index in made..count {
                // SAFETY: the header lies in the part just mapped, and in none that was made
                // before. No thread looks at it before `made` says that it is there.
                unsafe { self.header_at(index).write(Frame::new()) };
            }
            self.made.store(count, Ordering::Release);
        }
        self.mapped.store(count, Ordering::Release);
        Ok(())
    }
    /// Gives the memory of the frames from `count` on back. All of them are withdrawn.
    pub(super) fn unmap(&self, count: usize) {
        let mapped = self.mapped();
        assert!(
            count >= self.len() && count <= mapped,
            "W1: a frame with a page is mapped, and giving memory back maps none"
        );
        debug_assert!(
            (count..mapped).all(|index| self.header(index as u32).key() == KEY_WITHDRAWN),
            "W2: the memory of withdrawn frames is given back"
        );
        self.mapped.store(count, Ordering::Release);
        self.memory.unmap(count * PAGE_SIZE, mapped * PAGE_SIZE);
    }
    fn header_at(&self, index: usize) -> *mut Frame {
        debug_assert!(index < self.max, "a frame's header lies in its region");
        // SAFETY: the region of headers has room for `max` of them.
        unsafe { self.headers.base().as_ptr().cast::<Frame>().add(index) }
    }
    #[inline]
    pub fn header(&self, index: u32) -> &Frame {
        assert!(
            (index as usize) < self.made.load(Ordering::Acquire),
            "a header was made before it is used"
        );
        // SAFETY: the header was made, stays as long as `self`, and is only shared: all of its
        // fields are atomics.
        unsafe { &*self.header_at(index as usize) }
    }
    /// The address of one frame's page. Only the guards below dereference it: they hold the latch,
    /// and the frame has a page, or is about to get one. So it is mapped (W1). A thread with an
    /// outdated guess may hold the latch of a withdrawn frame. It finds that by the frame's key,
    /// and reads no byte.
    #[inline]
    fn memory(&self, index: u32) -> *mut u8 {
        assert!((index as usize) < self.max, "a page's memory lies in its region");
        // SAFETY: the region has addresses for `max` pages, and `index` is one of them.
        unsafe { self.memory.base().as_ptr().add(index as usize * PAGE_SIZE) }
    }
    /// Asks the processor for the lines of a frame's page in which a search begins. The frame's
    /// header is still on its way then.
    #[inline]
    pub fn prefetch(&self, index: u32) {
        #[cfg(target_arch = "x86_64")]
        if (index as usize) < self.max {
            let page = self.memory(index);
            for line in 0..PREFETCH_LINES {
                // SAFETY: the lines lie in the page. A prefetch reads nothing that a program could
                // see, and does nothing at an address that is not mapped. So a thread that writes
                // or withdraws the page meanwhile does no harm.
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

/// An S-latched page. Dropping it gives the latch back.
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
        latch_taken();
        PageRead {
            frame: frames.header(index),
            bytes: frames.memory(index),
            index,
            joined: None,
            _borrow: PhantomData,
        }
    }
    /// From now on the page reads as these bytes: its own, then those of pages that change only
    /// under this page's latch.
    pub fn join(&mut self, bytes: Box<[u8]>) {
        debug_assert_eq!(bytes[..PAGE_SIZE], self[..], "joined pages begin with the first page");
        self.joined = Some(bytes);
    }
    pub fn id(&self) -> PageId {
        key_id(self.frame.key.load(Ordering::Relaxed))
    }
    /// Changes with every change of the page: a cursor that finds the same version finds the same
    /// slots.
    pub fn version(&self) -> Lsn {
        page_lsn(self)
    }
    pub(in crate::pool) fn index(&self) -> u32 {
        self.index
    }
    pub(in crate::pool) fn frame(&self) -> &'p Frame {
        self.frame
    }
    pub(in crate::pool) fn is_logged(&self) -> bool {
        self.frame.logged.load(Ordering::Relaxed)
    }
}

impl std::ops::Deref for PageRead<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        if let Some(joined) = &self.joined {
            return joined;
        }
        // SAFETY: `bytes` is the frame's page memory, mapped as long as the frame has a page (W1).
        // It keeps its page while this guard holds the S latch, which is until drop. Bytes are
        // written only under the X latch (`PageWrite`). So they are frozen while this slice lives.
        unsafe { std::slice::from_raw_parts(self.bytes, PAGE_SIZE) }
    }
}

impl Drop for PageRead<'_> {
    fn drop(&mut self) {
        // SAFETY: made only with the S latch held (`holding`), which is given back here only.
        unsafe { self.frame.latch.unlock_shared() }
        latch_released();
    }
}

/// An X-latched frame. Outside of the pool only an Mtr has one (I2); inside, loading and eviction
/// hold it, too.
pub(in crate::pool) struct PageWrite<'p> {
    frame: &'p Frame,
    bytes: *mut u8,
    index: u32,
    _borrow: PhantomData<&'p mut [u8]>,
}

impl<'p> PageWrite<'p> {
    /// The caller has just taken the X latch.
    fn holding(frames: &'p Frames, index: u32) -> PageWrite<'p> {
        latch_taken();
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
        // SAFETY: as in `bytes_mut`. A shared borrow of the guard allows reading only.
        unsafe { std::slice::from_raw_parts(self.bytes, PAGE_SIZE) }
    }
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the frame's page memory, mapped until this guard's holder withdraws the frame
        // (W1, W2). The X latch, held until drop, excludes every other guard of this frame, and
        // `&mut self` every other slice of this guard.
        unsafe { std::slice::from_raw_parts_mut(self.bytes, PAGE_SIZE) }
    }
    /// The page was just read from its place.
    pub fn note_base(&self) {
        debug_assert!(self.key() < KEY_WITHDRAWN, "a page that was read has its number");
        self.frame.base_lsn.store(page_lsn(self.bytes()), Ordering::Relaxed);
    }
    pub fn downgrade(self) -> PageRead<'p> {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: this guard holds the X latch, and `ManuallyDrop` keeps it from a second release.
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
        // SAFETY: made only with the X latch held (`holding`), which is given back here or in
        // `downgrade`, which does not drop.
        unsafe { self.frame.latch.unlock_exclusive() }
        latch_released();
    }
}

pub(in crate::pool) fn key_id(key: u64) -> PageId {
    PageId::new((key >> 32) as u32, key as u32)
}
