//! Checkpoints: where recovery starts, how long the ring is, and holding a checkpoint back.
//!
//! A statement that makes or removes a data file holds the checkpoint ([`CheckpointHold`]). The
//! hold lasts from before the statement's first record until after its last change of the
//! directory. So recovery finds the record that explains any file that such a statement left
//! (`engine/start/orphan_files.rs`). The holder never waits for room in the log: no checkpoint
//! could make that room. One hold at a time: DDL statements take turns. Takes `RedoControl` >
//! `RedoRing`, and leaf locks. Called by: `engine`; `table`'s DDL (holds).
use super::control::PAYLOAD_MAX;
use super::flush_mode::FlushMode;
use super::log::{Redo, CAPACITY_MIN};
use crate::base::{Lsn, Result};
use std::sync::atomic::Ordering;

/// Holds the checkpoint back until it is dropped.
pub struct CheckpointHold<'a>(&'a Redo);

impl Redo {
    /// Everything appended from now on stays in the log until the hold is dropped.
    pub fn hold_checkpoint(&self) -> CheckpointHold<'_> {
        // A checkpoint that does not see the hold yet does not pass the present end of the log: the
        // records to keep come later.
        let before = self.held.swap(self.lsn(), Ordering::SeqCst);
        assert_eq!(before, 0, "one statement holds the checkpoint at a time");
        CheckpointHold(self)
    }
    /// Moves the checkpoint to `lsn`, or to the LSN of a hold if that is lower. Every page change
    /// below `lsn` is durable in place. Durable on return. `payload`: at most 256 bytes.
    pub fn write_checkpoint(&self, lsn: Lsn, payload: &[u8]) -> Result<()> {
        assert!(payload.len() <= PAYLOAD_MAX, "a checkpoint's payload fits its slot");
        // Recovery starts by reading at `lsn`, so the log must reach it.
        self.flush(lsn, FlushMode::Sync)?;
        let mut control = self.control.lock();
        self.check_alive()?;
        if !self.state.is_on() {
            return Ok(()); // There is no recovery from a log that is off.
        }
        if lsn < self.checkpoint_lsn() {
            return Ok(()); // The log was turned off and on, or another checkpoint went further.
        }
        let lsn = match self.held.load(Ordering::SeqCst) {
            0 => lsn,
            held => lsn.min(held).max(self.checkpoint_lsn()),
        };
        let (control, file) = &mut *control;
        debug_assert!(
            lsn <= self.durable_lsn(),
            "recovery reads the log from the checkpoint on"
        );
        debug_assert_eq!(control.checkpoint, self.checkpoint_lsn(), "one checkpoint at a time");
        control.advance(lsn, self.durable_lsn(), payload);
        control.sequence += 1;
        let written = control.write(&**file);
        self.poison_on_error(written)?;
        self.checkpoint.store(lsn, Ordering::Release);
        self.counters.checkpoints.inc();
        self.publish_gauges();
        self.room_waiters.wake_all();
        let recycled = self.ring.recycle(lsn, self.kept_for_copy());
        // Once more: some threads wait for a segment.
        self.room_waiters.wake_all();
        self.poison_on_error(recycled)
    }
    /// The log was opened many times since the last checkpoint: the next opening should find a
    /// newer one.
    pub fn needs_checkpoint(&self) -> bool {
        self.control.lock().0.has_many_epochs()
    }
    pub fn checkpoint_lsn(&self) -> Lsn {
        self.checkpoint.load(Ordering::Acquire)
    }
    /// Sets the gauges of the log. Called at checkpoints and before counters are shown.
    pub fn publish_gauges(&self) {
        self.counters.redo_log_lsn.set(self.lsn());
        self.counters.redo_log_lsn_flushed.set(self.durable_lsn());
        self.counters.redo_log_checkpoint_lsn.set(self.checkpoint_lsn());
        self.counters.redo_log_checkpoint_age.set(self.age());
        self.counters.redo_log_enabled.set(self.is_on() as u64);
        self.counters.redo_log_capacity.set(self.capacity());
        let used = self.age() as u128 * 1000 / self.capacity().max(1) as u128;
        self.counters.redo_log_used_permille.set(used as u64);
        self.counters.redo_log_disk_bytes.set(self.ring.disk_bytes());
        let rate = self.recovery_rate.load(Ordering::Relaxed).max(1);
        self.counters
            .redo_log_recovery_estimate_ms
            .set(self.age() * 1000 / rate);
    }
    /// Bytes of the ring.
    pub fn capacity(&self) -> u64 {
        self.ring.capacity()
    }
    /// Called once, when the layers are wired: see [`SegmentRing::set_files_closer`].
    pub fn set_files_closer(&self, close: Box<dyn Fn() + Send + Sync>) {
        self.ring.set_files_closer(close);
    }
    /// Speed of the last recovery, in bytes of redo a second: estimates of the next one use it.
    pub fn set_recovery_rate(&self, bytes_per_second: u64) {
        self.recovery_rate.store(bytes_per_second, Ordering::Relaxed);
    }
    /// Online resize of the ring, in bytes. The limit holds at once: under a smaller one writers
    /// wait for a checkpoint, if need be. The files follow step by step ([`Redo::settle`]). A crash
    /// in between leaves a ring of another length, which every start accepts.
    pub fn set_capacity(&self, bytes: u64) -> Result<()> {
        self.check_alive()?;
        self.ring.set_capacity(bytes.max(CAPACITY_MIN));
        self.room_waiters.wake_all();
        Ok(())
    }
    /// One bounded step (I7) that brings the files nearer to the capacity, even when nothing is
    /// written and no checkpoint comes. On a full disk the step does nothing; the ring grows when
    /// there is room again.
    pub fn adjust_segments(&self) -> Result<()> {
        let _control = self.control.lock();
        let checkpoint = self.checkpoint_lsn();
        if !self.is_on() || self.is_poisoned() || self.ring.has_all_segments(checkpoint) {
            return Ok(());
        }
        let recycled = self.ring.recycle(checkpoint, self.kept_for_copy());
        self.poison_on_error(recycled)
    }
    /// There are as many segment files as the capacity asks for.
    pub fn has_all_segments(&self) -> bool {
        self.ring.has_all_segments(self.checkpoint_lsn())
    }
}

impl Drop for CheckpointHold<'_> {
    fn drop(&mut self) {
        debug_assert_ne!(
            self.0.held.load(Ordering::SeqCst),
            0,
            "a hold lasts until it is dropped"
        );
        self.0.held.store(0, Ordering::SeqCst);
    }
}
