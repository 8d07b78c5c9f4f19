//! The page table: page -> frame. Buckets of frames chained through their headers.
//!
//! A lookup takes no lock. The walk may stray when a frame changes its page meanwhile, so the
//! answer is only a guess. The caller latches the frame and checks the frame's key. A miss is asked
//! again under the shard's mutex, where the answer is exact. Insert and remove run under that
//! mutex, by the X-latch holder of the frame.
//!
//! Lock: `Rank::PageTable`, one of many, held for a few instructions.
//! Called by: `store`, `evict`.
use crate::base::sync::{Rank, RankedGuard, RankedMutex};
use crate::pool::frames::frame::{Frame, Frames, NO_FRAME};
use crate::pool::frames::geometry::PoolGeometry;
use std::sync::atomic::{AtomicU32, Ordering};

const SHARDS: usize = 256;
/// A lock-free walk longer than this has strayed, or the bucket is unusually full. The exact answer
/// comes from under the mutex.
const WALK_MAX: usize = 16;

pub(in crate::pool) struct PageTable {
    heads: Box<[AtomicU32]>,
    shift: u32,
    shards: Box<[RankedMutex<()>]>,
}

impl PageTable {
    pub fn new(geometry: &PoolGeometry) -> PageTable {
        // At most one page per bucket on average.
        let buckets = geometry.frames().next_power_of_two().max(SHARDS);
        PageTable {
            heads: (0..buckets).map(|_| AtomicU32::new(NO_FRAME)).collect(),
            shift: 64 - buckets.trailing_zeros(),
            shards: (0..SHARDS).map(|_| RankedMutex::new(Rank::PageTable, ())).collect(),
        }
    }
    /// Multiplying by 2^64 / golden ratio spreads neighbouring page numbers evenly.
    fn bucket(&self, key: u64) -> usize {
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }
    /// The frame that seems to hold the page: a guess, without a lock.
    #[inline]
    pub fn guess(&self, frames: &Frames, key: u64) -> Option<u32> {
        let mut at = self.heads[self.bucket(key)].load(Ordering::Acquire);
        frames.prefetch(at);
        for _ in 0..WALK_MAX {
            if at == NO_FRAME {
                return None;
            }
            let frame = frames.header(at);
            if frame.key() == key {
                return Some(at);
            }
            at = frame.next.load(Ordering::Acquire);
        }
        None
    }
    /// The exact view of the bucket of `key`.
    pub fn lock<'t>(&'t self, frames: &'t Frames, key: u64) -> Shard<'t> {
        let bucket = self.bucket(key);
        Shard {
            _guard: self.shards[bucket % SHARDS].lock(),
            head: &self.heads[bucket],
            frames,
            key,
        }
    }
}

pub(in crate::pool) struct Shard<'t> {
    _guard: RankedGuard<'t, ()>,
    head: &'t AtomicU32,
    frames: &'t Frames,
    key: u64,
}

impl<'t> Shard<'t> {
    pub fn find(&self) -> Option<u32> {
        let mut at = self.head.load(Ordering::Acquire);
        while at != NO_FRAME {
            let frame = self.frames.header(at);
            if frame.key() == self.key {
                return Some(at);
            }
            at = frame.next.load(Ordering::Acquire);
        }
        None
    }
    /// Finds the page, and keeps its frame from another page until the pin is dropped.
    pub fn pin(&self) -> Option<Pin<'t>> {
        let index = self.find()?;
        let frame = self.frames.header(index);
        frame.pins.fetch_add(1, Ordering::Relaxed);
        Some(Pin { frame, index })
    }
    /// Adds the frame, whose key is already `key` and whose X latch the caller holds.
    pub fn insert(&self, index: u32) {
        let frame = self.frames.header(index);
        debug_assert!(frame.key() == self.key && self.find().is_none());
        frame.next.store(self.head.load(Ordering::Relaxed), Ordering::Release);
        self.head.store(index, Ordering::Release);
    }
    /// Takes the frame out of the chain. The caller holds its X latch.
    pub fn remove(&self, index: u32) {
        let next = self.frames.header(index).next.load(Ordering::Relaxed);
        let mut link = self.head;
        loop {
            let at = link.load(Ordering::Relaxed);
            assert!(at != NO_FRAME, "a frame with a page is in its page table chain");
            if at == index {
                link.store(next, Ordering::Release);
                return;
            }
            link = &self.frames.header(at).next;
        }
    }
}

/// Keeps a frame with its page; see `frame`.
pub(in crate::pool) struct Pin<'t> {
    frame: &'t Frame,
    pub index: u32,
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.frame.pins.fetch_sub(1, Ordering::Release);
    }
}
