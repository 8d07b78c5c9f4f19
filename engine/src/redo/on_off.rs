//! Turning the log off, for loads that can be repeated, and on again.
//!
//! ```text
//! off   The mark in the control file is durable; then groups only move the LSN on, and are
//!       dropped. Flushes return at once, no checkpoint is written. A crash now leaves files that
//!       recovery refuses (see engine/start/open.rs).
//! on    1. begin_on: the ring jumps ahead; from the LSN returned on, groups are logged again. The
//!          mark still stands.
//!       2. The caller writes every page changed before that LSN, and syncs all files.
//!       3. end_on: one write of the control file removes the mark and sets the checkpoint to that
//!          LSN.
//!       When step 2 fails: stay_off. Groups logged since step 1 are dropped, as if the log had
//!       been off all the time.
//! ```
//! LSNs never go back, so the LSNs of pages written meanwhile order correctly against groups logged
//! later. The jump leads to a segment far enough ahead for the changes that come while the files
//! get their new numbers. A thread that changes the state holds `RedoControl` and `RedoAppend`. To
//! turn the log off, or to begin anew, it holds `RedoWrite` too, and has waited for the round that
//! syncs. Callers of off and on take turns (the engine's lock). Called by: `engine`.
use super::block_format::{self as block, BLOCK};
use super::control::Control;
use super::log::{Active, Redo};
use super::segment_ring::MoveError;
use crate::base::bytes::push_varint;
use crate::base::{planted, sync_point, Error, Lsn, Mutant, Result, SyncPoint};
use crate::io::Disk;
use std::sync::atomic::Ordering;

/// Number of segments that a jump leaves out, at least.
const JUMP: u64 = 64;

impl Redo {
    /// False from the mark on until everything is durable again: in between, a crash costs all
    /// data.
    pub fn is_on(&self) -> bool {
        self.state.is_on()
    }
    /// Groups are dropped.
    pub fn is_off(&self) -> bool {
        self.state.is_off()
    }
    /// The engine stopped with the log off: its data files are unusable.
    pub fn was_left_off(disk: &dyn Disk) -> Result<bool> {
        Ok(Control::read(disk)?.off)
    }
    /// Moves the LSN as if the group had been logged.
    pub(super) fn skip_group(&self, active: &mut Active, group: &[u8]) -> (Lsn, Lsn) {
        let start = active.end;
        let mut length = Vec::with_capacity(10);
        push_varint(&mut length, group.len() as u64);
        active.end += (length.len() + group.len()) as u64;
        debug_assert!(
            block::lsn_of(active.end) > self.lsn(),
            "LSNs grow while the log is off, too"
        );
        let end = block::lsn_of(active.end);
        self.lsn.store(end, Ordering::Release);
        (block::lsn_of(start), end)
    }
    /// Turns the log off. The mark is durable on return. `Error::Unsupported`: the log is being
    /// copied (B6).
    pub fn turn_off(&self) -> Result<()> {
        {
            let mut control = self.control.lock();
            self.check_alive()?;
            assert!(self.is_on(), "turning on and off is done in turns");
            if self.is_copied() {
                return Err(Error::Unsupported(
                    "a backup is under way, which needs the redo log: wait until it has ended, or stop it".into(),
                ));
            }
            let (control, file) = &mut *control;
            control.off = true;
            // Both slots get the mark: if one breaks, the other must not say that the log was on.
            for _ in 0..2 {
                control.sequence += 1;
                if !planted(Mutant::LogOffUnmarked) {
                    let marked = control.write(&**file);
                    self.poison_on_error(marked)?;
                }
            }
            self.forget_groups();
        }
        self.room_waiters.wake_all();
        Ok(())
    }
    /// Drops the buffer; from here on nothing is logged. The caller holds `RedoControl`.
    fn forget_groups(&self) {
        let _leader = self.leader.lock();
        sync_point(SyncPoint::SyncAwaited);
        let _syncing = self.syncing.lock();
        let mut active = self.active.lock();
        active.bytes.clear();
        active.groups = 0;
        self.state.set_off();
    }
    /// Called after [`Redo::begin_on`], when the earlier changes could not be made durable. The log
    /// is off, as before, and can be turned on later.
    pub fn stay_off(&self) {
        {
            let _control = self.control.lock();
            assert!(!self.is_off() && !self.is_on(), "begin_on comes before");
            self.forget_groups();
        }
        self.room_waiters.wake_all();
    }
    /// Groups are logged again from the LSN returned on. The caller makes all earlier changes
    /// durable. When a segment cannot be opened, or the disk is full (`Error::Full`), the log stays
    /// off, and can be turned on later.
    pub fn begin_on(&self) -> Result<Lsn> {
        loop {
            let control = self.control.lock();
            self.check_alive()?;
            assert!(self.is_off(), "turning on and off is done in turns");
            let mut leader = self.leader.lock();
            let segment = self.ring.segment_of(self.lsn()).max(self.ring.last()) + JUMP;
            match self.ring.jump(segment) {
                Ok(()) => {}
                Err(MoveError::Refused(e)) => return Err(e),
                Err(MoveError::Broken(e)) => self.poison_on_error(Err(e))?,
            }
            let start = segment * self.ring.segment_size();
            debug_assert!(self.ring.holds(start), "the ring has the segment that it jumped to");
            let mut active = self.active.lock();
            let position = block::position_of(start);
            if active.end > position {
                continue; // The log has passed the jump's target meanwhile: jump further.
            }
            leader
                .blocks
                .jump(control.0.newest_epoch().number + 1, start / BLOCK as u64);
            active.end = position;
            debug_assert!(
                active.bytes.is_empty(),
                "no group from before the jump is written after it"
            );
            let first = block::lsn_of(position);
            for mirror in [&self.lsn, &self.taken, &self.written, &self.durable] {
                mirror.store(first, Ordering::Release);
            }
            self.state.set_turning_on();
            return Ok(first);
        }
    }
    /// Ends the turning on: the log is on when this returns. Every change below `first`, which
    /// [`Redo::begin_on`] returned, is durable in place.
    pub fn end_on(&self, first: Lsn) -> Result<()> {
        {
            let mut control = self.control.lock();
            self.check_alive()?;
            assert!(!self.is_off() && !self.is_on(), "begin_on comes before");
            let (control, file) = &mut *control;
            control.begin_anew(self.ring.segment_of(first) * self.ring.segment_size(), first);
            debug_assert!(first <= self.lsn(), "groups are logged from the first LSN on");
            control.sequence += 1;
            let written = control.write(&**file);
            self.poison_on_error(written)?;
            self.checkpoint.store(first, Ordering::Release);
            let _active = self.active.lock();
            self.state.set_on();
        }
        self.room_waiters.wake_all();
        Ok(())
    }
}
