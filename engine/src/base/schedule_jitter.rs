//! Schedule jitter: in tests, threads pause at random before they take locks.
//!
//! A pause lets other threads run between two adjacent steps. Outside the tests both functions
//! compile to nothing. Called by: `sync`, `sync_point`, and the page latches of `pool`.
#[cfg(test)]
use std::sync::atomic::{AtomicU32, Ordering};
#[cfg(test)]
use std::sync::LazyLock;

/// Number of [`ScheduleJitter`]s that are alive.
#[cfg(test)]
static ACTIVE: AtomicU32 = AtomicU32::new(0);

/// While a value lives, all threads of the process pause now and then, at sync points and before
/// they take locks. The environment variable `SLUICE_TEST_RESTS=1` does the same for a whole run.
#[cfg(test)]
pub struct ScheduleJitter(());

#[cfg(test)]
impl ScheduleJitter {
    pub fn begin() -> ScheduleJitter {
        ACTIVE.fetch_add(1, Ordering::Relaxed);
        ScheduleJitter(())
    }
}

#[cfg(test)]
impl Drop for ScheduleJitter {
    fn drop(&mut self) {
        let before = ACTIVE.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "a pause begins before it ends");
    }
}

/// Pauses for up to 300 microseconds, once in `chance` calls on average.
#[cfg(test)]
pub(super) fn pause(chance: u64) {
    static ALWAYS: LazyLock<bool> = LazyLock::new(|| std::env::var_os("SLUICE_TEST_RESTS").is_some());
    if ACTIVE.load(Ordering::Relaxed) == 0 && !*ALWAYS {
        return;
    }
    if fastrand::u64(..chance) == 0 {
        std::thread::sleep(std::time::Duration::from_micros(fastrand::u64(..300)));
    }
}

/// Called before every lock of `sync` and every page latch. At such a place only the locks already
/// held protect anything.
#[inline(always)]
pub fn before_lock() {
    #[cfg(test)]
    pause(100);
}
