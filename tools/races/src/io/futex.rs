//! Stands in for `engine/src/io/futex.rs`: a list of sleepers in place of the kernel's.
//!
//! The mutex of the list is the kernel's lock: a thread goes to sleep only if the number still has
//! its value. If all threads sleep, loom stops with "deadlock".
use crate::base::sync::atomic::{AtomicU32, Ordering};
use loom::sync::Mutex;
use loom::thread::{self, Thread};

loom::lazy_static! {
    /// Each with the address of its number.
    static ref SLEEPERS: Mutex<Vec<(usize, Thread)>> = Mutex::new(Vec::new());
}

fn address(number: &AtomicU32) -> usize {
    number as *const AtomicU32 as usize
}

pub fn wait_while(number: &AtomicU32, value: u32) {
    while number.load(Ordering::Acquire) == value {
        let mut sleepers = SLEEPERS.lock().unwrap();
        if number.load(Ordering::Relaxed) != value {
            continue;
        }
        sleepers.push((address(number), thread::current()));
        drop(sleepers);
        thread::park();
    }
}

pub fn set_and_wake(number: &AtomicU32, value: u32) {
    number.store(value, Ordering::Release);
    let mut sleepers = SLEEPERS.lock().unwrap();
    sleepers.retain(|(address_of, sleeper)| {
        let wakes = *address_of == address(number);
        if wakes {
            sleeper.unpark();
        }
        !wakes
    });
}
