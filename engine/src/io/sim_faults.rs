//! What a test asks of the simulated disk: faults to come, counts of what it did, and its clock (the numbers S1 to S11 are explained in `sim.rs`).
use super::*;

impl SimDisk {
    /// Changing calls so far (S4).
    pub fn changes(&self) -> u64 {
        self.state().changes
    }
    pub fn reads(&self) -> u64 {
        self.state().reads
    }
    /// Changing call number `n` (1 = the first of this disk) crashes.
    pub fn crash_at(&self, n: u64) {
        self.state().crash_at = Some(n);
    }
    pub fn is_dead(&self) -> bool {
        self.state().dead
    }
    pub fn fail_change(&self, n: u64, fault: Fault) {
        self.state().change_faults.insert(n, fault);
    }
    pub fn fail_read(&self, n: u64) {
        self.state().read_faults.push(n);
    }
    /// Of those that `fail_read` asked for, how many have not failed yet.
    pub fn reads_to_fail(&self) -> usize {
        self.state().read_faults.len()
    }
    /// S9.
    pub fn refuse(&self, name: Option<&str>) {
        self.state().refused = name.map(String::from);
    }
    /// S11.
    pub fn set_bad(&self, place: Option<(&str, u64)>) {
        self.state().bad = place.map(|(name, at)| (name.to_string(), at));
    }
    /// S10. None: no bound.
    pub fn set_handles(&self, max: Option<usize>) {
        self.state().handles_max = max;
    }
    /// Files that are open now.
    pub fn handles(&self) -> usize {
        Arc::strong_count(&self.state().open) - 1
    }
    pub fn damage_write(&self, n: u64, damage: Damage) {
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
    /// Faults that have struck, of S5, S6 and S8 to S11.
    pub fn struck(&self) -> u64 {
        self.state().struck
    }
    /// A number made of all calls so far: equal for equal histories.
    pub fn trace(&self) -> u64 {
        self.state().trace
    }
    /// Size of what is never torn: 512 (the default) or more.
    pub fn set_sector(&self, bytes: usize) {
        self.state().sector = bytes;
    }
    pub fn set_space(&self, bytes: Option<u64>) {
        self.state().space = bytes;
    }
    /// Sum of file lengths.
    pub fn used(&self) -> u64 {
        let state = self.state();
        state.names.values().map(|id| state.bodies[id].live.len() as u64).sum()
    }
    pub fn advance_us(&self, us: u64) {
        self.state().clock_us += us;
    }
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
