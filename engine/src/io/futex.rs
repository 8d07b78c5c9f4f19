//! Sleeping on a number (Linux's futex): one system call wakes all sleepers.
//!
//! The alternatives are slower. The sleepers of a condition variable return one after the other
//! through its mutex. Unparking threads one by one costs the waker a system call each. In many of
//! these calls the scheduler runs the woken thread in the waker's place. Takes no locks. Called by:
//! `redo/flush_queue.rs`.
use std::sync::atomic::{AtomicU32, Ordering};

const ALL_SLEEPERS: u32 = i32::MAX as u32;

/// The result of FUTEX_WAKE is the number of threads that it woke.
fn call(number: &AtomicU32, operation: i32, value: u32) -> i64 {
    let timeout = std::ptr::null::<libc::timespec>();
    // SAFETY: the address is that of a live atomic. The call reads it (FUTEX_WAIT), or uses it only
    // as a name (FUTEX_WAKE). A null timeout means no timeout.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            number.as_ptr(),
            operation | libc::FUTEX_PRIVATE_FLAG,
            value,
            timeout,
        )
    }
}

/// Sleeps until `number` is no longer `value`.
pub fn wait_while(number: &AtomicU32, value: u32) {
    while number.load(Ordering::Acquire) == value {
        // The call may return early: after a signal, or when the number has changed meanwhile.
        call(number, libc::FUTEX_WAIT, value);
    }
}

/// Sets the number and wakes all its sleepers.
pub fn set_and_wake(number: &AtomicU32, value: u32) {
    debug_assert_ne!(
        number.load(Ordering::Relaxed),
        value,
        "a sleeper sees that the number has changed"
    );
    number.store(value, Ordering::Release);
    call(number, libc::FUTEX_WAKE, ALL_SLEEPERS);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sleepers_come_back() {
        const SLEEPERS: i64 = 8;
        let number = AtomicU32::new(0);
        std::thread::scope(|s| {
            let sleepers: Vec<_> = (0..SLEEPERS).map(|_| s.spawn(|| wait_while(&number, 0))).collect();
            // Woken while the number stays the same, they sleep on: one call finds all of them
            // asleep.
            while call(&number, libc::FUTEX_WAKE, ALL_SLEEPERS) < SLEEPERS {
                std::thread::yield_now();
            }
            assert!(sleepers.iter().all(|sleeper| !sleeper.is_finished()));
            set_and_wake(&number, 1);
        });
        wait_while(&number, 0);
    }
}
