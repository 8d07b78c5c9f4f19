//! How a connection waits for a row lock: the trait [`Waiter`].
//!
//! The server waits on its own condition variables, so that KILL, timeouts and replication wake it.
//! An embedded user waits on the engine's ([`ThreadWaiter`]). Called by `sleep.rs` and
//! `wait_flag.rs`, with no latch and no engine mutex held.
use crate::base::sync::{RankedCondvar, RankedMutex};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitOutcome {
    Woken,
    Timeout,
    Killed,
}

/// One connection's way to wait. Called with no latch and no engine mutex held.
pub trait Waiter: Send + Sync {
    /// Blocks until `flag` is nonzero, the timeout (microseconds) or a kill.
    fn wait(&self, flag: &AtomicU32, timeout_us: u64) -> WaitOutcome;
    /// Wakes a thread sitting in `wait`; `flag` has been set before.
    fn wake(&self);
    /// Polled in long scans.
    fn killed(&self) -> bool;
    /// Reports the progress of a long step. Called by the statement's own thread.
    fn progress(&self, _done: u64, _all: u64) {}
    /// This connection is about to wait for `holder`; false = give up with a deadlock instead.
    fn about_to_wait(&self, holder: &dyn Waiter) -> bool;
    /// Writes what the connection is doing into `to`. Called by its own thread.
    fn statement(&self, to: &mut String) {
        to.clear();
    }
    /// Opaque name of the connection. 0 = none: a recovered transaction, or a connection that has
    /// ended.
    fn context(&self) -> usize;
    /// Calls `call` with that name, for `about_to_wait` of other waiters: the connection does not
    /// go away meanwhile.
    fn with_context(&self, call: &mut dyn FnMut(usize)) {
        call(self.context());
    }
}

/// The waiter of an embedded user: a condition variable, and a kill switch for every holder of a
/// clone of the `Arc`.
#[derive(Default)]
pub struct ThreadWaiter {
    mutex: RankedMutex<()>,
    wakeup: RankedCondvar,
    killed: AtomicBool,
}

impl ThreadWaiter {
    pub fn new() -> ThreadWaiter {
        ThreadWaiter::default()
    }
    /// Ends the wait under way, and every later one, until [`ThreadWaiter::clear_kill`].
    pub fn kill(&self) {
        self.killed.store(true, Ordering::Release);
        self.wake();
    }
    pub fn clear_kill(&self) {
        self.killed.store(false, Ordering::Release);
    }
}

impl Waiter for ThreadWaiter {
    fn wait(&self, flag: &AtomicU32, timeout_us: u64) -> WaitOutcome {
        let mut guard = self.mutex.lock();
        let mut go_on = |_: &mut ()| flag.load(Ordering::Acquire) == 0 && !self.killed();
        self.wakeup
            .wait_while_for(&mut guard, &mut go_on, Duration::from_micros(timeout_us));
        if flag.load(Ordering::Acquire) != 0 {
            WaitOutcome::Woken
        } else if self.killed() {
            WaitOutcome::Killed
        } else {
            WaitOutcome::Timeout
        }
    }
    fn wake(&self) {
        // The mutex orders the wake-up after the sleeper's look at the flag. Without the mutex the
        // wake-up could fall between that look and the sleep.
        let _guard = self.mutex.lock();
        self.wakeup.notify_all();
    }
    fn killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }
    fn about_to_wait(&self, _holder: &dyn Waiter) -> bool {
        true
    }
    fn context(&self) -> usize {
        self as *const ThreadWaiter as usize
    }
}

/// Waiter of a transaction without a connection: a recovered one, which only ends and so never
/// waits.
pub(in crate::txn) struct NoConnection;

impl Waiter for NoConnection {
    fn wait(&self, _flag: &AtomicU32, _timeout_us: u64) -> WaitOutcome {
        WaitOutcome::Killed
    }
    fn wake(&self) {}
    fn killed(&self) -> bool {
        false
    }
    fn about_to_wait(&self, _holder: &dyn Waiter) -> bool {
        false
    }
    fn context(&self) -> usize {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_wait_ends_by_flag_timeout_or_kill() {
        let waiter = Arc::new(ThreadWaiter::new());
        let flag = Arc::new(AtomicU32::new(0));
        assert_eq!(waiter.wait(&flag, 1_000), WaitOutcome::Timeout);
        let (w, f) = (waiter.clone(), flag.clone());
        let sleeper = std::thread::spawn(move || w.wait(&f, 60_000_000));
        std::thread::sleep(Duration::from_millis(5));
        flag.store(1, Ordering::Release);
        waiter.wake();
        assert_eq!(sleeper.join().unwrap(), WaitOutcome::Woken);
        flag.store(0, Ordering::Release);
        let (w, f) = (waiter.clone(), flag.clone());
        let sleeper = std::thread::spawn(move || w.wait(&f, u64::MAX));
        std::thread::sleep(Duration::from_millis(5));
        waiter.kill();
        assert_eq!(sleeper.join().unwrap(), WaitOutcome::Killed);
    }
}
