//! Mutexes with ranks: a thread takes them in ascending order of [`Rank`] only.
//!
//! Debug builds check the order at each lock. Page latches have a protocol of their own (invariant
//! I5, `pool`): they come before every rank except those marked "taken before page latches". A
//! mutex of such a rank is taken only while no latch is held. Called by: every layer.
use super::observer::mutex_wait;
use super::schedule_jitter::before_lock;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

// Lock-free files take these names from here, and so do the files beside them that a model needs.
// The models of `tools/races` compile the same files with the model checker's types instead.
pub use arc_swap::{ArcSwapOption, Guard};
pub use parking_lot::RwLock;
pub use std::sync::{atomic, Arc, OnceLock};
pub use std::thread_local;

/// Order in which locks may be taken while another one is held: to a larger number only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Rank {
    /// The thread of a server's hot backup, while it is started or stopped. Taken before page
    /// latches.
    BackupThread = 1,
    /// The engine's threads, while they are started or stopped. Taken before page latches.
    EngineWorkers = 2,
    /// One switch of the redo log, off or on, at a time. Taken before page latches.
    RedoSwitch = 4,
    /// One refresh of the gauges at a time. Taken before page latches.
    Gauges = 6,
    /// One computation of a table's statistics at a time. Taken before page latches.
    StatisticsCompute = 8,
    /// DDL and the in-memory catalog. Taken before page latches.
    Catalog = 10,
    /// The first load of a table's AUTO_INCREMENT value and row count. Taken before page latches.
    TableCounters = 14,
    /// Page counts of a table's indexes, for the optimizer. Taken before page latches.
    PageCounts = 16,
    /// Serialises the check-then-insert of one unique key value. Taken before page latches.
    UniqueGuard = 20,
    /// Prepared transactions whose outcome another connection may decide. Taken before page
    /// latches.
    InDoubt = 30,
    /// Search of the wait-for graph: looks into row lock shards, one after another. Taken before
    /// page latches.
    DeadlockSearch = 36,
    /// Row lock shards.
    LockShard = 40,
    /// Lists of active transactions and read views.
    TrxSys = 50,
    /// Set of free undo streams.
    UndoStreams = 54,
    /// How far the entries of one delta tree are counted; its pages are read under this lock.
    DeltaCount = 56,
    /// The length of one data file, while the file is truncated or extended.
    FileLength = 60,
    /// Buffer pool page table shard.
    PageTable = 70,
    /// Free frames.
    FreeList = 74,
    /// Dirty frames, oldest change first.
    DirtyList = 76,
    /// Redo control file: one checkpoint at a time.
    RedoControl = 77,
    /// The round of group commit that writes the redo log.
    RedoWrite = 78,
    /// The round of group commit that syncs the redo log.
    RedoSync = 79,
    /// The set of redo segments.
    RedoRing = 80,
    /// Redo log append.
    RedoAppend = 81,
    /// The queue of threads that wait for the redo log.
    RedoFlush = 84,
    /// Open files.
    Files = 90,
    /// The pass of the merge sweeps through one index.
    MergePass = 94,
    /// Why changes of one index cannot be merged.
    MergeFailures = 96,
    /// Leaf: may be taken under anything, nothing is taken under it.
    Leaf = 100,
}

impl Rank {
    /// A mutex of the rank is taken only while no page latch is held ("over latches").
    pub fn is_over_latches(self) -> bool {
        self < Rank::LockShard
    }
    /// In ascending order.
    pub const ALL: &'static [Rank] = &[
        Rank::BackupThread,
        Rank::EngineWorkers,
        Rank::RedoSwitch,
        Rank::Gauges,
        Rank::StatisticsCompute,
        Rank::Catalog,
        Rank::TableCounters,
        Rank::PageCounts,
        Rank::UniqueGuard,
        Rank::InDoubt,
        Rank::DeadlockSearch,
        Rank::LockShard,
        Rank::TrxSys,
        Rank::UndoStreams,
        Rank::DeltaCount,
        Rank::FileLength,
        Rank::PageTable,
        Rank::FreeList,
        Rank::DirtyList,
        Rank::RedoControl,
        Rank::RedoWrite,
        Rank::RedoSync,
        Rank::RedoRing,
        Rank::RedoAppend,
        Rank::RedoFlush,
        Rank::Files,
        Rank::MergePass,
        Rank::MergeFailures,
        Rank::Leaf,
    ];
}

const _: () = {
    let mut i = 1;
    while i < Rank::ALL.len() {
        assert!(
            (Rank::ALL[i - 1] as u8) < Rank::ALL[i] as u8,
            "ranks are listed in ascending order"
        );
        i += 1;
    }
};
const _: () = assert!(
    Rank::ALL[Rank::ALL.len() - 1] as u8 == Rank::Leaf as u8,
    "nothing is taken under a leaf"
);

/// Times that a thread found a mutex of the rank locked, and threads that wait now.
struct Contention {
    waits: [AtomicU64; Rank::Leaf as usize + 1],
    now: AtomicU64,
}

static CONTENTION: Contention = Contention {
    waits: [const { AtomicU64::new(0) }; Rank::Leaf as usize + 1],
    now: AtomicU64::new(0),
};

/// Waits for mutexes since the process began, by rank. A lock that was free is not counted.
pub fn contention() -> impl Iterator<Item = (Rank, u64)> {
    let waits = |rank: &Rank| CONTENTION.waits[*rank as usize].load(Ordering::Relaxed);
    Rank::ALL.iter().map(move |rank| (*rank, waits(rank)))
}

/// Threads that wait for a mutex at this moment.
pub fn waiting_now() -> u64 {
    CONTENTION.now.load(Ordering::Relaxed)
}

/// Locks a mutex that was found locked.
#[cold]
#[inline(never)]
fn wait_for<T>(rank: Rank, mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    CONTENTION.waits[rank as usize].fetch_add(1, Ordering::Relaxed);
    CONTENTION.now.fetch_add(1, Ordering::Relaxed);
    let mut guard = None;
    mutex_wait(rank as u8, &mut || guard = Some(mutex.lock()));
    let waiting = CONTENTION.now.fetch_sub(1, Ordering::Relaxed);
    debug_assert!(waiting > 0, "a wait ends once");
    guard.expect("the observer runs what it observes")
}

#[cfg(debug_assertions)]
thread_local! {
    static HELD: std::cell::RefCell<Vec<Rank>> = const { std::cell::RefCell::new(Vec::new()) };
}

#[cfg(debug_assertions)]
thread_local! {
    static LATCHES: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// The calling thread has taken a page latch. Debug builds count the latches of each thread.
#[inline(always)]
pub fn latch_taken() {
    #[cfg(debug_assertions)]
    LATCHES.set(LATCHES.get() + 1);
}

/// The calling thread has given a page latch back.
#[inline(always)]
pub fn latch_released() {
    #[cfg(debug_assertions)]
    {
        let held = LATCHES.get();
        debug_assert!(held > 0, "I5: a latch is given back by the thread that took it");
        LATCHES.set(held - 1);
    }
}

/// For asserts of I5: the calling thread holds no page latch. Always true in a release build.
#[inline]
pub fn holds_no_latch() -> bool {
    #[cfg(debug_assertions)]
    return LATCHES.get() == 0;
    #[cfg(not(debug_assertions))]
    true
}

/// For asserts: the calling thread holds neither a page latch nor a mutex. Always true in a release
/// build.
#[inline]
pub fn holds_nothing() -> bool {
    #[cfg(debug_assertions)]
    return holds_no_latch() && HELD.with_borrow(Vec::is_empty);
    #[cfg(not(debug_assertions))]
    true
}
/// For debug asserts: the calling thread holds a mutex of this rank. Always true in a release
/// build.
#[inline]
pub fn holds(rank: Rank) -> bool {
    #[cfg(debug_assertions)]
    return HELD.with_borrow(|held| held.contains(&rank));
    #[cfg(not(debug_assertions))]
    {
        let _ = rank;
        true
    }
}
/// Runs what a test does at a sync point. It stands for another thread, which holds nothing.
#[cfg(test)]
pub fn as_another_thread(act: impl FnOnce()) {
    #[cfg(debug_assertions)]
    let held = (LATCHES.take(), HELD.take());
    act();
    #[cfg(debug_assertions)]
    {
        debug_assert!(holds_nothing(), "the other thread gives back what it took");
        LATCHES.set(held.0);
        HELD.set(held.1);
    }
}
/// Gives up the processor, after a try to take a latch that the thread must not wait for.
pub fn give_way() {
    std::thread::yield_now();
}

/// A mutex with a rank.
pub struct RankedMutex<T> {
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
            debug_assert!(
                !self.rank.is_over_latches() || holds_no_latch(),
                "I5: {:?} is taken while a page is latched",
                self.rank
            );
            h.push(self.rank);
        });
        before_lock();
        RankedGuard {
            #[cfg(debug_assertions)]
            rank: self.rank,
            inner: self.take(),
        }
    }
    /// As `lock`, but a mutex of the same rank may be held. One thread takes a whole family of
    /// mutexes in a fixed order. Every other thread holds one of the family at a time.
    pub fn lock_next(&self) -> RankedGuard<'_, T> {
        #[cfg(debug_assertions)]
        HELD.with(|h| {
            let mut h = h.borrow_mut();
            assert!(
                h.last().is_none_or(|top| *top <= self.rank),
                "lock rank: {:?}",
                self.rank
            );
            debug_assert!(
                !self.rank.is_over_latches() || holds_no_latch(),
                "I5: {:?} is taken while a page is latched",
                self.rank
            );
            h.push(self.rank);
        });
        before_lock();
        RankedGuard {
            #[cfg(debug_assertions)]
            rank: self.rank,
            inner: self.take(),
        }
    }
    fn take(&self) -> MutexGuard<'_, T> {
        match self.inner.try_lock() {
            Some(guard) => guard,
            None => wait_for(self.rank, &self.inner),
        }
    }
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }
}

/// A mutex of rank [`Rank::Leaf`].
impl<T: Default> Default for RankedMutex<T> {
    fn default() -> RankedMutex<T> {
        RankedMutex::new(Rank::Leaf, T::default())
    }
}

impl<T: fmt::Debug> fmt::Debug for RankedMutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// A condition variable for the guards of [`RankedMutex`].
///
/// A wait releases the mutex, but its rank still counts as held. That is right: the sleeping thread
/// takes no other lock, and holds the mutex again when it wakes.
#[derive(Default)]
pub struct RankedCondvar(Condvar);

impl RankedCondvar {
    pub const fn new() -> RankedCondvar {
        RankedCondvar(Condvar::new())
    }
    pub fn notify_one(&self) {
        self.0.notify_one();
    }
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
    pub fn wait<T>(&self, guard: &mut RankedGuard<'_, T>) {
        #[cfg(debug_assertions)]
        assert!(guard.is_newest(), "a thread that sleeps holds no later mutex");
        self.0.wait(&mut guard.inner);
    }
    /// False: the time is up.
    pub fn wait_for<T>(&self, guard: &mut RankedGuard<'_, T>, timeout: Duration) -> bool {
        #[cfg(debug_assertions)]
        assert!(guard.is_newest(), "a thread that sleeps holds no later mutex");
        !self.0.wait_for(&mut guard.inner, timeout).timed_out()
    }
    /// Waits until `condition` is false. False: the time is up.
    pub fn wait_while_for<T>(
        &self,
        guard: &mut RankedGuard<'_, T>,
        condition: impl FnMut(&mut T) -> bool,
        timeout: Duration,
    ) -> bool {
        #[cfg(debug_assertions)]
        assert!(guard.is_newest(), "a thread that sleeps holds no later mutex");
        !self.0.wait_while_for(&mut guard.inner, condition, timeout).timed_out()
    }
}

#[cfg(debug_assertions)]
impl<T> RankedGuard<'_, T> {
    /// No mutex was taken after this one. For asserts.
    fn is_newest(&self) -> bool {
        HELD.with_borrow(|held| held.last() == Some(&self.rank))
    }
}
impl<'a, T> RankedGuard<'a, T> {
    /// The parking_lot guard, for waiting on a condition variable.
    pub fn raw(&mut self) -> &mut MutexGuard<'a, T> {
        #[cfg(debug_assertions)]
        assert!(self.is_newest(), "a thread that sleeps holds no later mutex");
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
