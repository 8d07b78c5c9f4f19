//! Locks with ranks. A thread takes them in rising rank only (checked in debug builds). Page latches have a
//! protocol of their own (invariant I5, `pool`): they come before every rank here except those marked "over latches".
use super::rests::before_lock;
use parking_lot::{Mutex, MutexGuard};
use std::ops::{Deref, DerefMut};

/// Order in which locks may be taken while another is held: upwards only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Rank {
    /// DDL and the in-memory catalog. Over latches.
    Catalog = 10,
    /// Serialises the check-then-insert of one unique key value. Over latches.
    UniqueGuard = 20,
    /// Search of the wait-for graph: looks into row lock shards, one after another.
    DeadlockSearch = 36,
    /// Row lock shards.
    LockShard = 40,
    /// Lists of active transactions and read views.
    TrxSys = 50,
    /// Set of free undo streams.
    UndoStreams = 54,
    /// The length of one data file, while its end is cut off.
    FileLength = 60,
    /// Buffer pool page table shard.
    PageTable = 70,
    /// Free frames.
    FreeList = 74,
    /// Dirty frames, oldest change first.
    DirtyList = 76,
    /// Redo control file: one checkpoint at a time.
    RedoControl = 77,
    /// The one thread that writes the redo log.
    RedoWrite = 78,
    /// The one thread that syncs the redo log.
    RedoSync = 79,
    /// The set of redo segments.
    RedoRing = 80,
    /// Redo log append.
    RedoAppend = 81,
    /// Who waits for the redo log.
    RedoFlush = 84,
    /// Open files.
    Files = 90,
    /// Leaf: may be taken under anything, nothing is taken under it.
    Leaf = 100,
}

#[cfg(debug_assertions)]
thread_local! {
    static HELD: std::cell::RefCell<Vec<Rank>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// Lets others have the processor: for whoever could not have a latch that it must not wait for.
pub fn give_way() {
    std::thread::yield_now();
}

/// For tests: does nothing for so long.
#[cfg(test)]
pub fn rest_us(us: u64) {
    std::thread::sleep(std::time::Duration::from_micros(us));
}

/// A mutex that knows its rank.
pub struct RankedMutex<T> {
    #[cfg_attr(not(debug_assertions), allow(dead_code))]
    rank: Rank,
    inner: Mutex<T>,
}

pub struct RankedGuard<'a, T> {
    #[cfg(debug_assertions)]
    rank: Rank,
    inner: MutexGuard<'a, T>,
}

impl<T> RankedMutex<T> {
    pub const fn new(rank: Rank, value: T) -> RankedMutex<T> {
        RankedMutex {
            rank,
            inner: Mutex::new(value),
        }
    }
    pub fn lock(&self) -> RankedGuard<'_, T> {
        #[cfg(debug_assertions)]
        HELD.with(|h| {
            let mut h = h.borrow_mut();
            if let Some(top) = h.last() {
                assert!(
                    *top < self.rank,
                    "lock rank: {:?} taken while {:?} is held",
                    self.rank,
                    top
                );
            }
            h.push(self.rank);
        });
        before_lock();
        RankedGuard {
            #[cfg(debug_assertions)]
            rank: self.rank,
            inner: self.inner.lock(),
        }
    }
    /// As `lock`, but another of the same rank may be held: for who takes a whole family in its order. (Everybody else holds
    /// one of them at a time.)
    pub fn lock_next(&self) -> RankedGuard<'_, T> {
        #[cfg(debug_assertions)]
        HELD.with(|h| {
            let mut h = h.borrow_mut();
            assert!(
                h.last().is_none_or(|top| *top <= self.rank),
                "lock rank: {:?}",
                self.rank
            );
            h.push(self.rank);
        });
        before_lock();
        RankedGuard {
            #[cfg(debug_assertions)]
            rank: self.rank,
            inner: self.inner.lock(),
        }
    }
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }
}

impl<'a, T> RankedGuard<'a, T> {
    /// The parking_lot guard, for waiting on a condition variable.
    pub fn raw(&mut self) -> &mut MutexGuard<'a, T> {
        &mut self.inner
    }
}

impl<T> Deref for RankedGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.inner
    }
}
impl<T> DerefMut for RankedGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}
#[cfg(debug_assertions)]
impl<T> Drop for RankedGuard<'_, T> {
    fn drop(&mut self) {
        HELD.with(|h| {
            let mut h = h.borrow_mut();
            let at = h.iter().rposition(|r| *r == self.rank).expect("guard was held");
            h.remove(at);
        });
    }
}
