//! Append and flush. Writers copy their group into the log buffer under one short mutex; whoever finds the device
//! free writes and syncs for all who wait (group commit without a timer).
//!
//! ```text
//! append    RedoAppend: length + bytes behind the active buffer; LSN = place in the stream. Nothing else.
//! flush     nobody leads: become the leader, unless a round syncs and few wait. Else queue up and sleep (queue.rs).
//! leader    RedoAppend: swap the active buffer for an empty one. Cut into blocks, checksum, write (stage.rs), with no lock that
//!           an append wants. When the round before has been synced: give the lead to one who came too late, if enough did, sync,
//!           wake exactly those who are served (round.rs).
//! ahead     what long transactions leave in the buffer is written by a thread of its own from `AHEAD_MAX` bytes on, so that
//!           commits find little to write; when it falls behind, `reserve_wait` writes, and `append` only when all else fails.
//! ```
//! Keeps: `durable` moves only after a sync that returned; after a failed write or sync, or a panic of the leader, the log is
//! poisoned (I6): appends are dropped, flushes refused, nothing is retried. The ring's capacity is a limit that
//! `reserve_wait` enforces before a change begins; what is under way may exceed it, the ring then grows by a segment.
//! Takes `RedoControl` > `RedoWrite` > `RedoSync` > `RedoRing`, `RedoAppend` > `RedoFlush`, and a leaf lock. Called by pool (append, flush
//! before page), txn (flush at commit), engine (all the rest).
use super::block::{self, Position, FIRST_LSN};
use super::control::{Control, CONTROL_FILE, PAYLOAD_MAX};
use super::queue::{Queue, Turn};
use super::ring::{self, Ring};
use super::stage::Stage;
use super::switch::State;
use crate::base::bytes::push_varint;
use crate::base::sync::{Rank, RankedMutex};
use crate::base::{Counters, Error, Lsn, Poison, Result};
use crate::io::{Caching, Disk, File};
use parking_lot::Condvar;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlushMode {
    /// Written to the operating system, not synced.
    Write,
    /// Durable.
    Sync,
}

#[derive(Clone, Debug)]
pub struct RedoConfig {
    /// Bytes of the ring; groups are refused room (see [`Redo::reserve_wait`]) before the checkpoint would be overrun.
    pub capacity: u64,
    /// Bytes of the in-memory log buffer.
    pub buffer_size: usize,
    /// Direct I/O as long as every flush syncs; flushes that only write go through the operating system's cache.
    pub direct_io: bool,
}

/// A smaller ring gains nothing and checkpoints all the time.
const CAPACITY_MIN: u64 = 256 << 10;
const BUFFER_MIN: usize = 64 << 10;

/// The buffer is written ahead of the commits when it holds this much, or its half.
const AHEAD_MAX: usize = 1 << 20;

/// Bytes of redo a second that recovery is believed to take in, until one was measured here.
const RECOVERY_RATE: u64 = 64 << 20;

/// What one step may take, and how many are under way at once, as far as the segments are large enough for that.
const STEP_ROOM: u64 = 64 << 10;
const STEPS_MAX: u64 = 8;
/// Waits of 100 ms for a segment before a step on a full disk is given up.
const STEP_WAITS: usize = if cfg!(test) { 10 } else { 100 };

/// What was appended and not yet taken by a leader: whole groups.
pub(super) struct Active {
    pub bytes: Vec<u8>,
    pub groups: u64,
    /// Position behind the last group.
    pub end: Position,
}

/// What only the leader uses.
pub(super) struct Leader {
    pub stage: Stage,
    /// Swapped with [`Active::bytes`]; empty between flushes.
    pub batch: Vec<u8>,
}

pub struct Redo {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) counters: Arc<Counters>,
    pub(super) ring: Arc<Ring>,
    pub(super) active: RankedMutex<Active>,
    active_max: usize,
    /// So much in the active buffer wakes the thread that writes ahead.
    ahead: usize,
    ahead_woken: RankedMutex<bool>,
    ahead_wake: Condvar,
    pub(super) leader: RankedMutex<Leader>,
    /// Held by the round that syncs, from before it gives the lead on until it has told how that went.
    pub(super) syncing: RankedMutex<()>,
    pub(super) queue: Queue,
    pub(super) control: RankedMutex<(Control, Arc<dyn File>)>,
    /// Changed under `active`'s lock.
    pub(super) state: State,
    /// Mirrors, as LSNs, for readers without lock.
    pub(super) lsn: AtomicU64,
    /// By the last leader, to be written.
    pub(super) taken: AtomicU64,
    pub(super) written: AtomicU64,
    pub(super) durable: AtomicU64,
    pub(super) checkpoint: AtomicU64,
    /// The checkpoint does not pass it; 0: nobody holds it back.
    pub(super) held: AtomicU64,
    recovery_rate: AtomicU64,
    /// Threads that wait in `reserve_wait`.
    room_lock: RankedMutex<()>,
    room_made: Condvar,
    room_waiters: AtomicUsize,
    poison: Arc<Poison>,
}

impl Redo {
    /// Makes a new, empty log (fresh engine directory).
    pub fn create(disk: Arc<dyn Disk>, config: RedoConfig, counters: Arc<Counters>) -> Result<Redo> {
        let capacity = config.capacity.max(CAPACITY_MIN);
        let control = Control::new(ring::segment_size_for(capacity));
        let ring = Ring::create(disk.clone(), capacity, control.newest_epoch().number)?;
        control.create(&*disk)?;
        Redo::start(disk, config, counters, ring, control, block::block_of(FIRST_LSN))
    }
    /// True if the directory holds a log.
    pub fn exists(disk: &dyn Disk) -> Result<bool> {
        disk.exists(CONTROL_FILE)
    }
    /// The newest valid checkpoint: (checkpoint LSN, payload given to [`Redo::write_checkpoint`]).
    pub fn read_checkpoint(disk: &dyn Disk) -> Result<(Lsn, Vec<u8>)> {
        let control = Control::read(disk)?;
        Ok((control.checkpoint, control.payload))
    }
    /// Opens for appending behind `end` (from [`super::reader::scan`]), in a new epoch: bytes of an older epoch behind `end` never validate again.
    pub fn open(
        disk: Arc<dyn Disk>,
        config: RedoConfig,
        counters: Arc<Counters>,
        checkpoint: Lsn,
        end: Lsn,
    ) -> Result<Redo> {
        let mut control = Control::read(&*disk)?;
        assert_eq!(
            control.checkpoint, checkpoint,
            "recovery ran from this log's checkpoint"
        );
        assert!(end >= checkpoint, "recovery went forward");
        let size = control.segment_size;
        // What recovery read may still be in the operating system's cache only; pages will be written on its strength (I1).
        for number in checkpoint / size..=end / size {
            let exists = disk.exists(&ring::segment_name(number))?;
            if exists {
                ring::open_segment(&*disk, number, size, Caching::Buffered)?.sync()?;
            }
        }
        let block = block::next_whole_block(block::position_of(end));
        let start = block::block_start(block);
        control.begin_epoch(start, end)?;
        control.sequence += 1;
        control.durable = end;
        control.write(&*Control::open_file(&*disk)?)?;
        let (epoch, needed) = (control.newest_epoch().number, checkpoint / size..=start / size);
        let capacity = config.capacity.max(CAPACITY_MIN);
        let ring = Ring::open(disk.clone(), capacity, epoch, size, needed)?;
        Redo::start(disk, config, counters, ring, control, block)
    }
    fn start(
        disk: Arc<dyn Disk>,
        config: RedoConfig,
        counters: Arc<Counters>,
        ring: Ring,
        control: Control,
        block: u64,
    ) -> Result<Redo> {
        let ring = Arc::new(ring);
        let epoch = control.newest_epoch().number;
        let stage = Stage::new(ring.clone(), config.direct_io, counters.clone(), epoch, block)?;
        let end = stage.position();
        let lsn = block::lsn_of(end);
        // Two buffers take turns.
        let active_max = (config.buffer_size / 2).max(BUFFER_MIN);
        let active = Active {
            bytes: Vec::with_capacity(active_max),
            groups: 0,
            end,
        };
        let leader = Leader {
            stage,
            batch: Vec::with_capacity(active_max),
        };
        let checkpoint = control.checkpoint;
        let file = Control::open_file(&*disk)?;
        Ok(Redo {
            disk,
            counters,
            ring,
            active: RankedMutex::new(Rank::RedoAppend, active),
            active_max,
            ahead: (active_max / 2).min(AHEAD_MAX),
            ahead_woken: RankedMutex::new(Rank::Leaf, false),
            ahead_wake: Condvar::new(),
            leader: RankedMutex::new(Rank::RedoWrite, leader),
            syncing: RankedMutex::new(Rank::RedoSync, ()),
            queue: Queue::new(),
            control: RankedMutex::new(Rank::RedoControl, (control, file)),
            state: State::default(),
            lsn: AtomicU64::new(lsn),
            taken: AtomicU64::new(lsn),
            written: AtomicU64::new(lsn),
            durable: AtomicU64::new(lsn),
            checkpoint: AtomicU64::new(checkpoint),
            held: AtomicU64::new(0),
            recovery_rate: AtomicU64::new(RECOVERY_RATE),
            room_lock: RankedMutex::new(Rank::Leaf, ()),
            room_made: Condvar::new(),
            room_waiters: AtomicUsize::new(0),
            poison: Arc::default(),
        })
    }

    /// Copies a group into the log buffer; returns (start, end) LSN. Never syncs; waits only when the buffer is full: then it writes
    /// out itself, which only happens when many pass [`Redo::reserve_wait`] at once. Callers may hold page latches. Groups may be up to 1/4 of the ring.
    /// In a poisoned log the group is dropped: nobody will be told that it is durable.
    pub fn append(&self, group: &[u8]) -> (Lsn, Lsn) {
        assert!(!group.is_empty(), "a group changes something");
        loop {
            let mut active = self.active.lock();
            if self.state.is_off() {
                return self.pass(&mut active, group);
            }
            let full = !active.bytes.is_empty() && active.bytes.len() + group.len() + 10 > self.active_max;
            if !full || self.is_poisoned() {
                let start = active.end;
                let before = active.bytes.len();
                push_varint(&mut active.bytes, group.len() as u64);
                active.bytes.extend_from_slice(group);
                active.end += (active.bytes.len() - before) as u64;
                active.groups += 1;
                if self.is_poisoned() {
                    active.bytes.clear();
                }
                let end = block::lsn_of(active.end);
                self.lsn.store(end, Ordering::Release);
                let now = active.bytes.len();
                drop(active);
                if before < self.ahead && now >= self.ahead {
                    self.wake_ahead();
                }
                return (block::lsn_of(start), end);
            }
            self.counters.redo_log_buffer_waits.inc();
            let taken = block::lsn_of(active.end);
            drop(active);
            // An error means that the log is poisoned, and the loop ends.
            let _ = self.flush(taken, FlushMode::Write);
        }
    }
    /// Next LSN to be given. A lower bound for anything appended later.
    pub fn lsn(&self) -> Lsn {
        self.lsn.load(Ordering::Acquire)
    }
    pub fn durable_lsn(&self) -> Lsn {
        self.durable.load(Ordering::Acquire)
    }
    /// Returns when everything below `lsn` is written / durable. Group commit: one leader, others wait.
    pub fn flush(&self, lsn: Lsn, mode: FlushMode) -> Result<()> {
        if mode == FlushMode::Sync {
            self.counters.group_commits.inc();
        }
        if self.is_flushed(lsn, mode) {
            return if self.is_off() { self.check_alive() } else { Ok(()) };
        }
        // (Except with the LSN of a commit that could not be logged: see `TrxSys::commit`.)
        debug_assert!(
            lsn <= self.lsn() || self.is_poisoned(),
            "nobody waits for what was not appended"
        );
        if mode == FlushMode::Sync {
            self.counters.redo_log_commit_waits.inc();
        }
        let start = self.disk.now_us();
        loop {
            let done = || self.is_flushed(lsn, mode) || self.is_poisoned();
            // A buffer that fills is emptied while the round before syncs.
            let urgent = mode == FlushMode::Write || self.backlog() >= self.ahead as u64;
            if self.queue.wait_turn(mode, urgent, done) == Turn::Lead {
                self.lead(mode);
            }
            if self.is_flushed(lsn, mode) {
                self.counters.redo_log_wait_time_us.add(self.disk.now_us() - start);
                return Ok(());
            }
            self.check_alive()?;
        }
    }
    /// True as long as the log is off.
    pub fn is_flushed(&self, lsn: Lsn, mode: FlushMode) -> bool {
        let reached = match mode {
            FlushMode::Write => &self.written,
            FlushMode::Sync => &self.durable,
        };
        // In this order: turning the log on moves both numbers before it is on.
        self.state.is_off() || reached.load(Ordering::Acquire) >= lsn
    }
    /// Bytes appended that no leader has taken yet, about.
    fn backlog(&self) -> u64 {
        if self.state.is_off() {
            return 0;
        }
        self.lsn().saturating_sub(self.taken.load(Ordering::Acquire))
    }
    /// Blocks the thread that writes ahead until there is enough to write, or the timeout ends.
    pub fn wait_for_backlog(&self, timeout_ms: u64) {
        let mut woken = self.ahead_woken.lock();
        if !*woken {
            self.ahead_wake.wait_for(woken.raw(), Duration::from_millis(timeout_ms));
        }
        *woken = false;
    }
    /// Ends [`Redo::wait_for_backlog`] now.
    pub fn wake_ahead(&self) {
        *self.ahead_woken.lock() = true;
        self.ahead_wake.notify_one();
    }

    /// Bytes of the log that a recovery would read. A log that is off, or not wholly on again, has no age.
    pub fn age(&self) -> u64 {
        if !self.state.is_on() {
            return 0;
        }
        self.lsn().saturating_sub(self.checkpoint_lsn())
    }
    /// Kept free for the mini-transactions that have passed [`Redo::reserve_wait`].
    fn margin(&self) -> u64 {
        self.ring.capacity() / 8
    }
    /// Bytes that may be appended before the ring is full, seen from the last checkpoint.
    pub fn room(&self) -> u64 {
        self.ring.capacity().saturating_sub(self.age())
    }
    /// Writers wait even if the checkpoint moves up to `lsn`.
    pub fn is_exhausted_from(&self, lsn: Lsn) -> bool {
        self.is_on() && self.lsn().saturating_sub(lsn) > self.capacity() - self.margin()
    }
    /// Called with NO latch held, before a mini-transaction that will write: blocks while less than a safety margin of the ring
    /// is free, until a checkpoint makes room. Counts `redo_log_waits`. Wakes the checkpointer through `wanted()`.
    /// `Error::Full` if the next segment cannot be made: a full disk, or that no descriptor is left, is met here, before anything was
    /// changed.
    pub fn reserve_wait(&self) -> Result<()> {
        if self.room() < self.margin() {
            self.wait_for_room();
        }
        if self.backlog() > self.active_max as u64 / 4 * 3 {
            // Here, where no latch is held, rather than in `append`.
            self.counters.redo_log_buffer_waits.inc();
            self.flush(self.lsn(), FlushMode::Sync)?;
        }
        self.check_alive()?;
        let lsn = self.lsn();
        if self.state.is_off() || self.ring.is_ready(lsn) {
            return Ok(());
        }
        let made = self.ring.ensure(self.ring.segment_of(lsn) + 1);
        match made {
            // To be answered in the same way: later there may be room for a segment.
            Err(Error::Full(why) | Error::TooManyFiles(why)) => Err(Error::Full(why)),
            _ => self.poison_on_error(made),
        }
    }
    /// As [`Redo::reserve_wait`], for the later steps of what has begun, and for undoing it, which a full disk must not stop: goes
    /// on while the segments that are there have room, and waits a while for a checkpoint to recycle some.
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
    /// What this step and those of other threads may append before they look again: they all pass by the same rest of a segment.
    fn has_room_for_steps(&self) -> bool {
        let room = (self.ring.segment_size() / 2).clamp(STEP_ROOM, STEPS_MAX * STEP_ROOM);
        self.ring.holds(self.lsn() + room)
    }
    #[cold]
    fn wait_for_segment(&self) {
        self.room_waiters.fetch_add(1, Ordering::Relaxed);
        let mut guard = self.room_lock.lock();
        self.room_made.wait_for(guard.raw(), Duration::from_millis(100));
        drop(guard);
        self.room_waiters.fetch_sub(1, Ordering::Relaxed);
    }
    #[cold]
    fn wait_for_room(&self) {
        self.counters.redo_log_waits.inc();
        self.room_waiters.fetch_add(1, Ordering::Relaxed);
        let mut guard = self.room_lock.lock();
        while self.room() < self.margin() && !self.is_poisoned() {
            // Woken by checkpoints; the timeout only covers a resize that comes between check and sleep.
            self.room_made.wait_for(guard.raw(), Duration::from_millis(100));
        }
        drop(guard);
        self.room_waiters.fetch_sub(1, Ordering::Relaxed);
    }
    /// True while somebody waits in `reserve_wait` or the age is over 3/4 of the capacity: the page cleaner must hurry.
    pub fn wanted(&self) -> bool {
        self.room_waiters.load(Ordering::Relaxed) > 0 || self.age() > self.ring.capacity() / 4 * 3
    }

    /// All redo below `lsn` is no longer needed (every page change below it is durable in place), but for what is held back. Durable on
    /// return. `payload` ≤ 256 bytes.
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
            return Ok(()); // While this one waited the log was turned off and on, or another went further.
        }
        let lsn = match self.held.load(Ordering::SeqCst) {
            0 => lsn,
            held => lsn.min(held).max(self.checkpoint_lsn()),
        };
        let (control, file) = &mut *control;
        control.advance(lsn, self.durable_lsn(), payload);
        control.sequence += 1;
        let written = control.write(&**file);
        self.poison_on_error(written)?;
        self.checkpoint.store(lsn, Ordering::Release);
        self.counters.checkpoints.inc();
        self.publish_gauges();
        self.wake_room_waiters();
        let recycled = self.ring.recycle(lsn);
        // Once more: some wait for a segment.
        self.wake_room_waiters();
        self.poison_on_error(recycled)
    }
    /// The log was opened so often since the last checkpoint that the next opening should find one.
    pub fn needs_checkpoint(&self) -> bool {
        self.control.lock().0.has_many_epochs()
    }
    pub fn checkpoint_lsn(&self) -> Lsn {
        self.checkpoint.load(Ordering::Acquire)
    }
    /// Sets the gauges of the log; called at checkpoints and before counters are shown.
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
    pub fn capacity(&self) -> u64 {
        self.ring.capacity()
    }
    /// Once, by who puts the layers together: see [`Ring::set_files_closer`].
    pub fn set_files_closer(&self, close: Box<dyn Fn() + Send + Sync>) {
        self.ring.set_files_closer(close);
    }
    /// How fast the last recovery was, in bytes of redo a second: what the next one is estimated by.
    pub fn set_recovery_rate(&self, bytes_per_second: u64) {
        self.recovery_rate.store(bytes_per_second, Ordering::Relaxed);
    }
    /// Online resize of the ring. The limit holds at once: under a smaller one writers wait for a checkpoint, if need be. The
    /// files follow step by step ([`Redo::settle`]); a crash in between leaves a ring of another length, which every start takes as it is.
    pub fn set_capacity(&self, bytes: u64) -> Result<()> {
        self.check_alive()?;
        self.ring.set_capacity(bytes.max(CAPACITY_MIN));
        self.wake_room_waiters();
        Ok(())
    }
    /// One bounded step (I7) that brings the files nearer to the capacity, also when nothing is written and no checkpoint comes. On a
    /// full disk it does nothing, and a ring that cannot grow now grows when there is room.
    pub fn settle(&self) -> Result<()> {
        let _control = self.control.lock();
        let checkpoint = self.checkpoint_lsn();
        if !self.is_on() || self.is_poisoned() || self.ring.is_settled(checkpoint) {
            return Ok(());
        }
        let recycled = self.ring.recycle(checkpoint);
        self.poison_on_error(recycled)
    }
    /// The files are as many as the capacity asks for.
    pub fn is_settled(&self) -> bool {
        self.ring.is_settled(self.checkpoint_lsn())
    }
    pub(super) fn wake_room_waiters(&self) {
        let _guard = self.room_lock.lock();
        self.room_made.notify_all();
    }

    /// I6: from now on appends are dropped, and flushes, checkpoints and reservations return `Poisoned`. Called by every layer that
    /// meets a failed write, a failed sync or a broken invariant.
    pub fn poison(&self, why: &str) {
        self.set_poison(why);
        self.queue.wake_all();
    }
    pub(super) fn set_poison(&self, why: &str) {
        self.poison.set(why);
        self.wake_room_waiters();
    }
    /// The engine's: the pool above refuses work by the same one.
    pub fn poison_state(&self) -> &Arc<Poison> {
        &self.poison
    }
    pub(super) fn is_poisoned(&self) -> bool {
        self.poison.is_set()
    }
    pub(super) fn check_alive(&self) -> Result<()> {
        self.poison.check()
    }
    pub(super) fn poison_on_error(&self, done: Result<()>) -> Result<()> {
        if let Err(e) = done {
            self.poison(&format!("writing the redo log failed: {e}"));
        }
        self.check_alive()
    }
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }
}
