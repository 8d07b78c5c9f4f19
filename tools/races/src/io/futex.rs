//! Stands in for `engine/src/io/futex.rs`: a sleeper looks again whenever another thread has run.
//!
//! A thread that is never woken makes loom stop with a panic: no thread can go on, or too many
//! steps.
use crate::base::sync::atomic::{AtomicU32, Ordering};

pub fn wait_while(number: &AtomicU32, value: u32) {
    while number.load(Ordering::Acquire) == value {
        loom::thread::yield_now();
    }
}

pub fn set_and_wake(number: &AtomicU32, value: u32) {
    number.store(value, Ordering::Release);
}
