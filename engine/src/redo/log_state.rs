//! [`LogState`]: whether the log is on, off, or being turned on.
//!
//! Changed under `RedoAppend`, by `on_off.rs`; read without a lock. Called by: `log.rs`,
//! `on_off.rs`.
use std::sync::atomic::{AtomicU8, Ordering};

const ON: u8 = 0;
const OFF: u8 = 1;
/// Groups are logged again, but older changes are not all durable yet.
const TURNING_ON: u8 = 2;

#[derive(Default)]
pub(super) struct LogState(AtomicU8);

impl LogState {
    #[inline]
    pub fn is_on(&self) -> bool {
        self.0.load(Ordering::Acquire) == ON
    }
    #[inline]
    pub fn is_off(&self) -> bool {
        self.0.load(Ordering::Acquire) == OFF
    }
    pub fn set_on(&self) {
        debug_assert_eq!(
            self.0.load(Ordering::Relaxed),
            TURNING_ON,
            "a log that is off is turned on in steps"
        );
        self.0.store(ON, Ordering::Release);
    }
    pub fn set_off(&self) {
        debug_assert!(!self.is_off(), "a log is turned off once");
        self.0.store(OFF, Ordering::Release);
    }
    pub fn set_turning_on(&self) {
        debug_assert!(self.is_off(), "a log that is on stays on");
        self.0.store(TURNING_ON, Ordering::Release);
    }
}
