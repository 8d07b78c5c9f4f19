//! Room in the ring: writers reserve it before they change anything.
//!
//! Keeps: a mini-transaction begins only when the log can take it, so that an append never fails.
//! Called with no latch held: a writer may wait here for a checkpoint. Takes leaf locks, and those
//! of a flush. Called by: `pool`, `table`, `txn`, `change`, before their mini-transactions.
use super::flush_mode::FlushMode;
use super::log::Redo;
use crate::base::{Error, Lsn, Result};

/// Bytes of one step, and steps that are under way at once, as far as the segments are large
/// enough.
const STEP_ROOM: u64 = 64 << 10;
const STEPS_MAX: u64 = 8;
/// Waits of 100 ms for a segment, before a step on a full disk fails.
const STEP_WAITS: usize = if cfg!(test) { 10 } else { 100 };

impl Redo {
    /// Bytes of the log that a recovery would read. 0: the log is off, or being turned on.
    pub fn age(&self) -> u64 {
        if !self.state.is_on() {
            return 0;
        }
        self.lsn().saturating_sub(self.checkpoint_lsn())
    }
    /// Bytes kept free for the mini-transactions that have passed [`Redo::reserve_wait`].
    fn margin(&self) -> u64 {
        self.ring.capacity() / 8
    }
    /// Bytes that may be appended before the log reaches its last checkpoint.
    pub fn room(&self) -> u64 {
        self.ring.capacity().saturating_sub(self.age())
    }
    /// Writers would wait even after the checkpoint moved up to `lsn`.
    pub fn is_exhausted_from(&self, lsn: Lsn) -> bool {
        self.is_on() && self.lsn().saturating_sub(lsn) > self.capacity() - self.margin()
    }
    /// Called with NO latch held, before a mini-transaction that will write. Blocks while less than
    /// a safety margin of the ring is free, until a checkpoint makes room. Counts `redo_log_waits`;
    /// wakes the checkpointer through `wanted()`.
    ///
    /// `Error::Full`: the next segment cannot be made, because the disk is full or no descriptor is
    /// left. Such a failure is met here, before anything was changed.
    pub fn reserve_wait(&self) -> Result<()> {
        if self.room() < self.margin() {
            self.wait_for_room();
        }
        if self.backlog() > self.active_max as u64 / 4 * 3 {
            // No latch is held here, other than in `append`.
            self.counters.redo_log_buffer_waits.inc();
            self.flush(self.lsn(), FlushMode::Sync)?;
        }
        self.check_alive()?;
        let lsn = self.lsn();
        if self.state.is_off() || self.ring.is_ready(lsn) {
            return Ok(());
        }
        let next = self.ring.segment_of(lsn) + 1;
        let mut made = self.ring.ensure(next);
        while matches!(made, Err(Error::Full(_))) && self.give_up_copy()? {
            made = self.ring.ensure(next);
        }
        match made {
            // Both are answered alike: later there may be room for a segment.
            Err(Error::Full(why) | Error::TooManyFiles(why)) => Err(Error::Full(why)),
            _ => self.poison_on_error(made),
        }
    }
    /// As [`Redo::reserve_wait`], for later steps of a change that has begun, and for its undo. A
    /// full disk must not stop these. The call returns while the existing segments have room;
    /// otherwise it waits a while for a checkpoint to recycle some.
    pub fn reserve_to_go_on(&self) -> Result<()> {
        let mut waits = 0;
        loop {
            match self.reserve_wait() {
                Err(Error::Full(_)) if self.has_room_for_steps() => return Ok(()),
                Err(Error::Full(_)) if waits < STEP_WAITS => self.wait_for_segment(),
                other => return other,
            }
            waits += 1;
        }
    }
    /// The existing segments have room for this step, and for steps of other threads that pass the
    /// same check before they append.
    fn has_room_for_steps(&self) -> bool {
        let room = (self.ring.segment_size() / 2).clamp(STEP_ROOM, STEPS_MAX * STEP_ROOM);
        self.ring.holds(self.lsn() + room)
    }
    #[cold]
    fn wait_for_segment(&self) {
        self.room_waiters.wait_once();
    }
    #[cold]
    fn wait_for_room(&self) {
        self.counters.redo_log_waits.inc();
        self.room_waiters
            .wait_while(|| self.room() < self.margin() && !self.is_poisoned());
    }
    /// True while a thread waits for room, or the age is over 3/4 of the capacity: the page cleaner
    /// must hurry.
    pub fn wanted(&self) -> bool {
        self.room_waiters.any() || self.age() > self.ring.capacity() / 4 * 3
    }
}
