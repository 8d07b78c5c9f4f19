//! Waiting for a row lock is the caller's business: the server waits on its own condition variables (so that KILL,
//! timeouts and replication wake it), an embedded user on ours.
use std::sync::atomic::AtomicU32;

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
    /// This connection is about to wait for `holder`; false = give up with a deadlock instead.
    fn about_to_wait(&self, holder: &dyn Waiter) -> bool;
    /// Opaque name of the connection, for `about_to_wait` of others.
    fn context(&self) -> usize;
}
