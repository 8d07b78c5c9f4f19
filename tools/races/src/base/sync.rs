//! Stands in for `engine/src/base/sync.rs`: the same names, over loom's types.
//!
//! `Arc` is the standard one: no model rests on the order of reference counts.
use atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::cell::UnsafeCell;
use loom::sync::{Mutex, MutexGuard, RwLockReadGuard, RwLockWriteGuard};
use std::ops::Deref;

pub use super::atomic;
pub use loom::thread_local;
pub use std::sync::Arc;

/// Ranks of the mutexes in the modelled files.
#[derive(Clone, Copy)]
pub enum Rank {
    RedoFlush,
    Leaf,
}

pub struct RankedMutex<T>(Mutex<T>);

impl<T> RankedMutex<T> {
    pub fn new(_: Rank, value: T) -> RankedMutex<T> {
        RankedMutex(Mutex::new(value))
    }
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().expect("no model goes on after a panic")
    }
}

pub struct RwLock<T>(loom::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub fn new(value: T) -> RwLock<T> {
        RwLock(loom::sync::RwLock::new(value))
    }
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().expect("no model goes on after a panic")
    }
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().expect("no model goes on after a panic")
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> RwLock<T> {
        RwLock::new(T::default())
    }
}

/// Set once. A reader that finds it set sees the value, and nothing more (release and acquire).
pub struct OnceLock<T> {
    is_set: AtomicBool,
    value: UnsafeCell<Option<T>>,
    setting: Mutex<()>,
}

// SAFETY: the value is written under `setting` once, before `is_set`, and only read after that.
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}

impl<T> OnceLock<T> {
    pub fn new() -> OnceLock<T> {
        OnceLock {
            is_set: AtomicBool::new(false),
            value: UnsafeCell::new(None),
            setting: Mutex::new(()),
        }
    }
    pub fn get(&self) -> Option<&T> {
        if !self.is_set.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: it is set, and no reference to it is mutable any more.
        self.value.with(|value| unsafe { (*value).as_ref() })
    }
    pub fn set(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.get_or_init(|| value.take().expect("taken once"));
        value.map_or(Ok(()), Err)
    }
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        if self.get().is_none() {
            let _setting = self.setting.lock().expect("no model goes on after a panic");
            if !self.is_set.load(Ordering::Acquire) {
                let made = make();
                // SAFETY: one thread at a time is here, and no reader is before `is_set`.
                self.value.with_mut(|value| unsafe { *value = Some(made) });
                self.is_set.store(true, Ordering::Release);
            }
        }
        self.get().expect("it was set")
    }
    pub fn into_inner(self) -> Option<T> {
        // SAFETY: the caller owns it.
        self.value.with_mut(|value| unsafe { (*value).take() })
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> OnceLock<T> {
        OnceLock::new()
    }
}

/// Everything that was stored stays, and an atomic number says which one is current. A load
/// acquires, a store releases; there is no total order over several of them.
pub struct ArcSwapOption<T> {
    current: AtomicUsize,
    /// Not one of loom's: it orders nothing, and no thread switches while it is held.
    stored: std::sync::Mutex<Vec<Option<Arc<T>>>>,
}

/// As `arc_swap::Guard`.
pub struct Guard<T>(T);

impl<T> Deref for Guard<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> ArcSwapOption<T> {
    pub fn empty() -> ArcSwapOption<T> {
        ArcSwapOption {
            current: AtomicUsize::new(0),
            stored: std::sync::Mutex::new(vec![None]),
        }
    }
    fn at(&self, no: usize) -> Option<Arc<T>> {
        self.stored.lock().expect("no model goes on after a panic")[no].clone()
    }
    fn push(&self, value: Option<Arc<T>>) -> usize {
        let mut stored = self.stored.lock().expect("no model goes on after a panic");
        stored.push(value);
        stored.len() - 1
    }
    pub fn load_full(&self) -> Option<Arc<T>> {
        self.at(self.current.load(Ordering::Acquire))
    }
    pub fn load(&self) -> Guard<Option<Arc<T>>> {
        Guard(self.load_full())
    }
    pub fn store(&self, value: Option<Arc<T>>) {
        let no = self.push(value);
        self.current.swap(no, Ordering::AcqRel);
    }
    /// `expected` is None in every call that the engine makes. Returns what was there before.
    pub fn compare_and_swap(&self, expected: &Option<Arc<T>>, value: Option<Arc<T>>) -> Guard<Option<Arc<T>>> {
        assert!(expected.is_none());
        let no = self.push(value);
        let mut seen = self.current.load(Ordering::Acquire);
        loop {
            let present = self.at(seen);
            if present.is_some() {
                return Guard(present);
            }
            match (self.current).compare_exchange(seen, no, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Guard(None),
                Err(other) => seen = other,
            }
        }
    }
}
