//! Orders of a test to the simulated disk: faults to come, counts of calls, and the clock.
//!
//! The rules S1 to S11 are stated in the head of `sim`. Called by: tests.
use super::disk::SimDisk;
use super::state::{Damage, Fault};
use std::sync::Arc;

impl SimDisk {
    /// Number of changing calls so far (S4).
    pub fn changes(&self) -> u64 {
        self.state().changes
    }
    /// Number of reads so far.
    pub fn reads(&self) -> u64 {
        self.state().reads
    }
    /// Changing call number `n` (1 = the first of this disk) crashes.
    pub fn crash_at(&self, n: u64) {
        debug_assert!(n > self.state().changes, "S4: the call that crashes is still to come");
        self.state().crash_at = Some(n);
    }
    pub fn is_dead(&self) -> bool {
        self.state().dead
    }
    /// Changing call `n` fails (S5).
    pub fn fail_change(&self, n: u64, fault: Fault) {
        debug_assert!(n > self.state().changes, "S5: the call that fails is still to come");
        self.state().change_faults.insert(n, fault);
    }
    /// Read number `n` fails, once (S5).
    pub fn fail_read(&self, n: u64) {
        debug_assert!(n > self.state().reads, "S5: the read that fails is still to come");
        self.state().read_faults.push(n);
    }
    /// Number of `fail_read` orders that have not struck yet.
    pub fn reads_to_fail(&self) -> usize {
        self.state().read_faults.len()
    }
    /// Refuses a file (S9). None: no file.
    pub fn refuse(&self, name: Option<&str>) {
        self.state().refused = name.map(String::from);
    }
    /// Sets the bad sector (S11). None: no sector.
    pub fn set_bad(&self, place: Option<(&str, u64)>) {
        self.state().bad = place.map(|(name, at)| (name.to_string(), at));
    }
    /// Bounds the number of open files (S10). None: no bound.
    pub fn set_handles(&self, max: Option<usize>) {
        self.state().handles_max = max;
    }
    /// Number of files that are open now.
    pub fn handles(&self) -> usize {
        Arc::strong_count(&self.state().open) - 1
    }
    /// Damages changing call `n`, if it is a write (S8).
    pub fn damage_write(&self, n: u64, damage: Damage) {
        debug_assert!(
            n > self.state().changes,
            "S8: the write that is damaged is still to come"
        );
        self.state().damages.insert(n, damage);
    }
    /// Takes back all faults that have not struck yet.
    pub fn heal(&self) {
        let mut state = self.state();
        state.crash_at = None;
        state.change_faults.clear();
        state.read_faults.clear();
        state.refused = None;
        state.bad = None;
        state.handles_max = None;
        state.damages.clear();
    }
    /// Number of faults of S5, S6 and S8 to S11 that have struck.
    pub fn struck(&self) -> u64 {
        self.state().struck
    }
    /// A checksum of all calls so far: equal for equal histories.
    pub fn trace(&self) -> u64 {
        self.state().trace
    }
    /// Sets the size of a sector, which is never torn: 512 (the default) bytes or more.
    pub fn set_sector(&self, bytes: usize) {
        debug_assert!(
            bytes >= 512 && bytes.is_power_of_two(),
            "S2: a sector has 512 bytes or more"
        );
        self.state().sector = bytes;
    }
    /// Bounds the sum of file lengths (S6). None: no bound.
    pub fn set_space(&self, bytes: Option<u64>) {
        self.state().space = bytes;
    }
    /// Sum of file lengths.
    pub fn used(&self) -> u64 {
        let state = self.state();
        state.names.values().map(|id| state.bodies[id].live.len() as u64).sum()
    }
    /// Moves the clock.
    pub fn advance_us(&self, us: u64) {
        self.state().clock_us += us;
    }
    /// Each read moves the clock by so much.
    pub fn set_read_us(&self, us: u64) {
        self.state().read_us = us;
    }
    /// What reads see of a file; None if there is none.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state();
        Some(state.bodies[state.names.get(name)?].live.clone())
    }
    /// Media damage: flips bits of one byte, at once and for good.
    pub fn flip(&self, name: &str, offset: u64, mask: u8) {
        let mut state = self.state();
        let id = *state.names.get(name).expect("the file to damage exists");
        let body = state.bodies.get_mut(&id).expect("a named file has a body");
        let offset = offset as usize;
        body.live[offset] ^= mask;
        if let Some(byte) = body.durable.get_mut(offset) {
            *byte ^= mask;
        }
    }
}
