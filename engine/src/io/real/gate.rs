//! [`Gate`]: every change of the real disk passes it. It is closed while another program copies the
//! files.
//!
//! A pass of the open gate costs two atomic additions. At the closed gate a change waits, even if
//! its thread holds latches. Threads that need one of these latches wait, too. Called by: `disk`
//! and `file` here.
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// Copies take minutes: their beginning and their end may take a moment.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

#[derive(Default)]
pub(super) struct Gate {
    closed: AtomicBool,
    /// Changes that have passed and not ended.
    under_way: AtomicU64,
}

/// A change under way.
pub(super) struct Passed<'a>(&'a Gate);

impl Gate {
    /// Waits until the gate is open.
    pub fn pass(&self) -> Passed<'_> {
        loop {
            // In this order: `close` marks first, and looks for changes under way then.
            self.under_way.fetch_add(1, SeqCst);
            if !self.closed.load(SeqCst) {
                return Passed(self);
            }
            self.under_way.fetch_sub(1, SeqCst);
            std::thread::sleep(LOOK_AGAIN);
        }
    }
    /// On return no change is under way, and none begins until `open`.
    pub fn close(&self) {
        self.closed.store(true, SeqCst);
        while self.under_way.load(SeqCst) > 0 {
            std::thread::sleep(LOOK_AGAIN);
        }
    }
    pub fn open(&self) {
        self.closed.store(false, SeqCst);
    }
}

impl Drop for Passed<'_> {
    fn drop(&mut self) {
        let before = self.0.under_way.fetch_sub(1, SeqCst);
        debug_assert!(before > 0, "a change ends once");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_gate_stops_changes_and_waits_for_those_under_way() {
        let gate = Gate::default();
        let under_way = gate.pass();
        std::thread::scope(|scope| {
            let closes = scope.spawn(|| gate.close());
            while !gate.closed.load(SeqCst) {
                std::thread::yield_now();
            }
            assert!(!closes.is_finished(), "a change is under way");
            drop(under_way);
            closes.join().expect("the gate closes");
            let changes = scope.spawn(|| drop(gate.pass()));
            std::thread::sleep(LOOK_AGAIN * 5);
            assert!(!changes.is_finished(), "the gate is closed");
            gate.open();
            changes.join().expect("the gate is open");
        });
        assert_eq!(gate.under_way.load(SeqCst), 0);
    }
}
