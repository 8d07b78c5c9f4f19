//! Rests: threads of a test that stop for a moment before they take locks, so that others come in between steps that are next to each
//! other. Outside the tests they are nothing.
#[cfg(test)]
use std::cell::Cell;
#[cfg(test)]
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(test)]
use std::sync::LazyLock;

/// Threads that have thrown dice: each has others.
#[cfg(test)]
static THREADS: AtomicU64 = AtomicU64::new(1);

#[cfg(test)]
thread_local! {
    static DICE: Cell<u64> = Cell::new(THREADS.fetch_add(1, Ordering::Relaxed));
}

/// How many tests want threads to rest.
#[cfg(test)]
static RESTLESS: AtomicU32 = AtomicU32::new(0);

/// While it lives, all threads of the process rest now and then at moments and before they take locks: what others do in between is not
/// left to when the system takes the processor away. For a whole run of the tests: `SLUICE_TEST_RESTS=1`.
#[cfg(test)]
pub struct Rests(());

#[cfg(test)]
impl Rests {
    pub fn begin() -> Rests {
        RESTLESS.fetch_add(1, Ordering::Relaxed);
        Rests(())
    }
}

#[cfg(test)]
impl Drop for Rests {
    fn drop(&mut self) {
        RESTLESS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Once in `chance` times, up to 300 microseconds.
#[cfg(test)]
pub(super) fn rest(chance: u64) {
    static ALWAYS: LazyLock<bool> = LazyLock::new(|| std::env::var_os("SLUICE_TEST_RESTS").is_some());
    if RESTLESS.load(Ordering::Relaxed) == 0 && !*ALWAYS {
        return;
    }
    // Not there when a thread ends.
    let _ = DICE.try_with(|dice| {
        let next = dice
            .get()
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        dice.set(next);
        if (next >> 33) % chance == 0 {
            super::sync::rest_us((next >> 43) % 300);
        }
    });
}

/// Whoever is about to take a lock holds those that it holds, and nothing else is as it saw it.
#[inline(always)]
pub fn before_lock() {
    #[cfg(test)]
    rest(100);
}
