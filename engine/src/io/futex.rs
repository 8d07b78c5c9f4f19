//! Sleeping on a number (Linux's futex): many sleepers, and one system call that wakes them all.
//!
//! A condition variable would do, but its sleepers come back one behind the other through its mutex; and threads unparked one
//! by one cost the waker a system call each, in many of which the scheduler puts the woken thread in its place. Called by redo/queue.rs.
use std::sync::atomic::{AtomicU32, Ordering};

const ALL_SLEEPERS: u32 = i32::MAX as u32;

fn call(number: &AtomicU32, operation: i32, value: u32) {
    let timeout = std::ptr::null::<libc::timespec>();
    // SAFETY: the address is that of a live atomic; the call reads it (FUTEX_WAIT) or only uses it as a name (FUTEX_WAKE), and
    // a null timeout means none.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            number.as_ptr(),
            operation | libc::FUTEX_PRIVATE_FLAG,
            value,
            timeout,
        );
    }
}

/// Returns when `number` is no longer `value`.
pub fn wait_while(number: &AtomicU32, value: u32) {
    while number.load(Ordering::Acquire) == value {
        // It returns for no reason too: after a signal, or when the number changed meanwhile.
        call(number, libc::FUTEX_WAIT, value);
    }
}

/// Sets the number and wakes all who wait for it to change.
pub fn set_and_wake(number: &AtomicU32, value: u32) {
    number.store(value, Ordering::Release);
    call(number, libc::FUTEX_WAKE, ALL_SLEEPERS);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sleepers_come_back() {
        let number = AtomicU32::new(0);
        std::thread::scope(|s| {
            let sleepers: Vec<_> = (0..8).map(|_| s.spawn(|| wait_while(&number, 0))).collect();
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(sleepers.iter().all(|sleeper| !sleeper.is_finished()));
            set_and_wake(&number, 1);
        });
        wait_while(&number, 0);
    }
}
