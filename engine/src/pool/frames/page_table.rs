//! The page table: page -> frame. Buckets of frames chained through their headers.
//!
//! A lookup takes no lock. The walk may stray when a frame changes its page meanwhile, so the
//! answer is only a guess. The caller latches the frame and checks the frame's key. A miss is asked
//! again under the shard's mutex, where the answer is exact. Insert and remove run under that
//! mutex, by the X-latch holder of the frame.
//!
//! The number of buckets follows the size of the pool. There is an array of buckets for each power
//! of two, made when it is needed first. A resize moves the shards to another array one by one,
//! each under its mutex. Meanwhile a lookup without the mutex may miss a page.
//!
//! Lock: `Rank::PageTable`, one of many, held for a few instructions, or for the move of its shard.
//! Called by: `store`, `evict`, `relocate`, `resize`.
use crate::base::sync::{Rank, RankedGuard, RankedMutex};
use crate::pool::frames::frame::{Frame, Frames, NO_FRAME};
use crate::pool::frames::geometry::PoolGeometry;
use std::sync::atomic::{AtomicU32, AtomicU8, Ordering};
use std::sync::OnceLock;

const SHARD_BITS: u32 = 8;
const SHARDS: usize = 1 << SHARD_BITS;
/// As many buckets as there can be frames.
const BITS_MAX: u32 = 32;
/// A lock-free walk longer than this has strayed, or the bucket is unusually full. The exact answer
/// comes from under the mutex.
const WALK_MAX: usize = 16;

/// Multiplying by 2^64 / golden ratio spreads neighbouring page numbers evenly.
fn hash_of(key: u64) -> u64 {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
fn shard_of(hash: u64) -> usize {
    (hash >> (64 - SHARD_BITS)) as usize
}
fn bucket_of(hash: u64, bits: u32) -> usize {
    (hash >> (64 - bits)) as usize
}
/// The buckets of one shard are neighbours.
fn buckets_of(shard: usize, bits: u32) -> std::ops::Range<usize> {
    let count = 1usize << (bits - SHARD_BITS);
    shard * count..(shard + 1) * count
}
/// At most one page per bucket on average.
fn bits_for(frames: usize) -> u32 {
    frames.next_power_of_two().max(SHARDS).trailing_zeros()
}

pub(in crate::pool) struct PageTable {
    /// By the logarithm of the number of buckets.
    heads: Box<[OnceLock<Box<[AtomicU32]>>]>,
    /// By shard: which of these arrays holds its buckets.
    bits: Box<[AtomicU8]>,
    shards: Box<[RankedMutex<()>]>,
}

impl PageTable {
    pub fn new(geometry: &PoolGeometry) -> PageTable {
        let bits = bits_for(geometry.frames());
        let table = PageTable {
            heads: (0..=BITS_MAX).map(|_| OnceLock::new()).collect(),
            bits: (0..SHARDS).map(|_| AtomicU8::new(bits as u8)).collect(),
            shards: (0..SHARDS).map(|_| RankedMutex::new(Rank::PageTable, ())).collect(),
        };
        table.make_heads(bits);
        table
    }
    fn make_heads(&self, bits: u32) -> &[AtomicU32] {
        debug_assert!(
            (SHARD_BITS..=BITS_MAX).contains(&bits),
            "each shard has a bucket, and no bucket is without a frame for it"
        );
        self.heads[bits as usize].get_or_init(|| (0..1usize << bits).map(|_| AtomicU32::new(NO_FRAME)).collect())
    }
    /// The head of the page's bucket. Without the shard's mutex it may be outdated.
    #[inline]
    fn head(&self, hash: u64) -> &AtomicU32 {
        let bits = self.bits[shard_of(hash)].load(Ordering::Acquire) as u32;
        let heads = self.heads[bits as usize].get();
        &heads.expect("an array is made before a shard uses it")[bucket_of(hash, bits)]
    }
    /// Gives the table as many buckets as `count` frames need. One thread at a time.
    pub fn resize(&self, frames: &Frames, count: usize) {
        let bits = bits_for(count);
        let to = self.make_heads(bits);
        for (shard, mutex) in self.shards.iter().enumerate() {
            let _guard = mutex.lock();
            let old = self.bits[shard].load(Ordering::Relaxed) as u32;
            if old == bits {
                continue;
            }
            for head in &self.make_heads(old)[buckets_of(shard, old)] {
                let mut at = head.swap(NO_FRAME, Ordering::AcqRel);
                while at != NO_FRAME {
                    let frame = frames.header(at);
                    let next = frame.next.load(Ordering::Relaxed);
                    debug_assert_eq!(shard_of(hash_of(frame.key())), shard, "a chain has pages of its shard");
                    let head = &to[bucket_of(hash_of(frame.key()), bits)];
                    frame.next.store(head.load(Ordering::Relaxed), Ordering::Release);
                    head.store(at, Ordering::Release);
                    at = next;
                }
            }
            self.bits[shard].store(bits as u8, Ordering::Release);
        }
    }
    /// The frame that seems to hold the page: a guess, without a lock.
    #[inline]
    pub fn guess(&self, frames: &Frames, key: u64) -> Option<u32> {
        let mut at = self.head(hash_of(key)).load(Ordering::Acquire);
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
        let hash = hash_of(key);
        Shard {
            _guard: self.shards[shard_of(hash)].lock(),
            head: self.head(hash),
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
        debug_assert!(
            frame.key() == self.key && self.find().is_none(),
            "a page is in the page table once, under its own key"
        );
        frame.next.store(self.head.load(Ordering::Relaxed), Ordering::Release);
        self.head.store(index, Ordering::Release);
    }
    /// Takes the frame out of the chain. The caller holds its X latch.
    pub fn remove(&self, index: u32) {
        debug_assert_eq!(
            self.frames.header(index).key(),
            self.key,
            "a frame leaves the chain of its page"
        );
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
        let before = self.frame.pins.fetch_sub(1, Ordering::Release);
        debug_assert!(before > 0, "a pin is given back once");
    }
}
