//! [`Redo`]: the log as the other layers see it. Append, flush, open.
//!
//! Writers copy their group into the log buffer under one short mutex. A thread that finds the
//! device free writes and syncs for all waiting threads (group commit without a timer).
//!
//! ```text
//! append    RedoAppend: length + bytes at the end of the active buffer; LSN = place in the
//!           stream. Nothing else.
//! flush     No leader: become the leader, unless a round syncs and few threads wait. Otherwise
//!           queue up and sleep (flush_queue.rs).
//! leader    RedoAppend: swap the active buffer for an empty one. Cut it into blocks, checksum and
//!           write them (block_writer.rs), without a lock that an append needs. When the round
//!           before has synced: pass the lead on to a thread that came too late, if enough did;
//!           sync; wake exactly the threads that are served (group_commit.rs).
//! ahead     A thread of its own writes what long transactions leave in the buffer, from
//!           `AHEAD_MAX` bytes on, so that commits find little to write. When that thread is too
//!           slow, `reserve_wait` writes; `append` writes only when both fail to keep up.
//! ```
//! Keeps: `durable` moves only after a sync that returned. After a failed write or sync, or a panic
//! of the leader, the log is poisoned (I6): appends are dropped, flushes refused, nothing is
//! retried. The ring's capacity is a limit that `reserve_wait` enforces before a change begins.
//! Changes that are under way may exceed the limit; the ring then grows by a segment. Takes
//! `RedoControl` > `RedoWrite` > `RedoSync` > `RedoRing`, `RedoAppend` > `RedoFlush`, and leaf
//! locks. Called by: `pool` (append, flush before a page is written), `txn` (flush at commit),
//! `engine` (all the rest).
use super::block_format::{self as block, Position, FIRST_LSN};
use super::block_writer::BlockWriter;
use super::control::{Control, CONTROL_FILE};
use super::flush_mode::FlushMode;
use super::flush_queue::{FlushQueue, Turn};
use super::log_state::LogState;
use super::room_waiters::RoomWaiters;
use super::segment_ring::{self as ring, SegmentRing};
use crate::base::bytes::push_varint;
use crate::base::sync::{Rank, RankedCondvar, RankedMutex};
use crate::base::{Counters, Lsn, Poison, Result};
use crate::io::{Caching, Disk, File};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// How the log is set up.
#[derive(Clone, Debug)]
pub struct RedoConfig {
    /// Bytes of the ring. [`Redo::reserve_wait`] makes writers wait before the log would overrun
    /// the checkpoint.
    pub capacity: u64,
    /// Bytes of the in-memory log buffer.
    pub buffer_size: usize,
    /// Direct I/O as long as every flush syncs. Flushes that only write go through the operating
    /// system's cache.
    pub direct_io: bool,
}

/// Bytes. A smaller ring gains nothing and checkpoints all the time.
pub(super) const CAPACITY_MIN: u64 = 256 << 10;
const BUFFER_MIN: usize = 64 << 10;

/// The buffer is written ahead of the commits when it holds this many bytes, or half of its size.
const AHEAD_MAX: usize = 1 << 20;

/// Bytes of redo a second that recovery is assumed to apply, until a recovery was measured.
const RECOVERY_RATE: u64 = 64 << 20;

/// [`Redo::copied_from`]: the log is not being copied.
pub(super) const NO_COPY: Lsn = Lsn::MAX;

/// Whole groups that were appended and that no leader has taken yet.
pub(super) struct Active {
    pub bytes: Vec<u8>,
    pub groups: u64,
    /// Position past the last group.
    pub end: Position,
}

/// State that only the leader of a round uses.
pub(super) struct Leader {
    pub blocks: BlockWriter,
    /// Swapped with [`Active::bytes`]; empty between flushes.
    pub batch: Vec<u8>,
}

/// The redo log. See the head of this file.
pub struct Redo {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) counters: Arc<Counters>,
    pub(super) ring: Arc<SegmentRing>,
    pub(super) active: RankedMutex<Active>,
    /// Bytes of the active buffer.
    pub(super) active_max: usize,
    /// This many bytes in the active buffer wake the thread that writes ahead.
    ahead: usize,
    ahead_woken: RankedMutex<bool>,
    ahead_wake: RankedCondvar,
    pub(super) leader: RankedMutex<Leader>,
    /// Held by the round that syncs, from before it passes the lead on until `durable`, or the
    /// poison state, shows the result.
    pub(super) syncing: RankedMutex<()>,
    pub(super) queue: FlushQueue,
    pub(super) control: RankedMutex<(Control, Arc<dyn File>)>,
    /// Changed under `active`'s lock.
    pub(super) state: LogState,
    /// End of the log. This and the next four mirror, as LSNs, what is changed under the locks,
    /// for readers without a lock.
    pub(super) lsn: AtomicU64,
    /// End of what leaders have taken from the active buffer.
    pub(super) taken: AtomicU64,
    pub(super) written: AtomicU64,
    pub(super) durable: AtomicU64,
    pub(super) checkpoint: AtomicU64,
    /// The checkpoint does not pass this LSN. 0: no hold.
    pub(super) held: AtomicU64,
    /// The log from here on is being copied (`copy.rs`).
    pub(super) copied_from: AtomicU64,
    /// Bytes of redo a second.
    pub(super) recovery_rate: AtomicU64,
    /// Threads that wait for room in the ring.
    pub(super) room_waiters: RoomWaiters,
    poison: Arc<Poison>,
}

impl Redo {
    /// Makes a new, empty log (fresh engine directory).
    pub fn create(disk: Arc<dyn Disk>, config: RedoConfig, counters: Arc<Counters>) -> Result<Redo> {
        let capacity = config.capacity.max(CAPACITY_MIN);
        let control = Control::new(ring::segment_size_for(capacity));
        let ring = SegmentRing::create(disk.clone(), capacity, control.newest_epoch().number)?;
        control.create(&*disk)?;
        Redo::start(disk, config, counters, ring, control, block::block_of(FIRST_LSN))
    }
    /// True if the directory holds a log.
    pub fn exists(disk: &dyn Disk) -> Result<bool> {
        disk.exists(CONTROL_FILE)
    }
    /// The newest valid checkpoint: its LSN, and the payload given to [`Redo::write_checkpoint`].
    pub fn read_checkpoint(disk: &dyn Disk) -> Result<(Lsn, Vec<u8>)> {
        let control = Control::read(disk)?;
        Ok((control.checkpoint, control.payload))
    }
    /// Opens the log for appends from `end` on, where [`super::reader::scan`] ended. The log goes
    /// on in a new epoch, so bytes of an older epoch past `end` never validate again.
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
        // Bytes that recovery read may be in the operating system's cache only. Pages will be
        // written because these bytes count as durable (I1).
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
        let ring = SegmentRing::open(disk.clone(), capacity, epoch, size, needed)?;
        Redo::start(disk, config, counters, ring, control, block)
    }
    fn start(
        disk: Arc<dyn Disk>,
        config: RedoConfig,
        counters: Arc<Counters>,
        ring: SegmentRing,
        control: Control,
        block: u64,
    ) -> Result<Redo> {
        let ring = Arc::new(ring);
        let epoch = control.newest_epoch().number;
        let blocks = BlockWriter::new(ring.clone(), config.direct_io, counters.clone(), epoch, block)?;
        let end = blocks.position();
        let lsn = block::lsn_of(end);
        debug_assert!(control.checkpoint <= lsn, "the log goes on behind its checkpoint");
        // Two buffers alternate: one is filled while the other is written.
        let active_max = (config.buffer_size / 2).max(BUFFER_MIN);
        let active = Active {
            bytes: Vec::with_capacity(active_max),
            groups: 0,
            end,
        };
        let leader = Leader {
            blocks,
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
            ahead_wake: RankedCondvar::new(),
            leader: RankedMutex::new(Rank::RedoWrite, leader),
            syncing: RankedMutex::new(Rank::RedoSync, ()),
            queue: FlushQueue::new(),
            control: RankedMutex::new(Rank::RedoControl, (control, file)),
            state: LogState::default(),
            lsn: AtomicU64::new(lsn),
            taken: AtomicU64::new(lsn),
            written: AtomicU64::new(lsn),
            durable: AtomicU64::new(lsn),
            checkpoint: AtomicU64::new(checkpoint),
            held: AtomicU64::new(0),
            copied_from: AtomicU64::new(NO_COPY),
            recovery_rate: AtomicU64::new(RECOVERY_RATE),
            room_waiters: RoomWaiters::default(),
            poison: Arc::default(),
        })
    }

    /// Copies a group into the log buffer; returns its start and end LSN. Callers may hold page
    /// latches. A group may have up to a quarter of the ring's bytes.
    ///
    /// Never syncs. When the buffer is full, the call writes it out; that happens only when many
    /// threads pass [`Redo::reserve_wait`] at once. A poisoned log drops the group: no flush will
    /// confirm it.
    pub fn append(&self, group: &[u8]) -> (Lsn, Lsn) {
        assert!(!group.is_empty(), "a group changes something");
        loop {
            let mut active = self.active.lock();
            if self.state.is_off() {
                return self.skip_group(&mut active, group);
            }
            let full = !active.bytes.is_empty() && active.bytes.len() + group.len() + 10 > self.active_max;
            if !full || self.is_poisoned() {
                let start = active.end;
                let before = active.bytes.len();
                push_varint(&mut active.bytes, group.len() as u64);
                active.bytes.extend_from_slice(group);
                active.end += (active.bytes.len() - before) as u64;
                debug_assert!(
                    block::lsn_of(active.end) > self.lsn(),
                    "LSNs grow, and the mirror follows under the lock"
                );
                active.groups += 1;
                if self.is_poisoned() {
                    active.bytes.clear();
                }
                let end = block::lsn_of(active.end);
                self.lsn.store(end, Ordering::Release);
                debug_assert!(
                    self.is_poisoned() || self.taken.load(Ordering::Acquire) <= end,
                    "leaders take what was appended"
                );
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
            // An error means that the log is poisoned: the loop ends.
            let _ = self.flush(taken, FlushMode::Write);
        }
    }
    /// LSN at which the next group starts: a lower bound for everything appended later.
    pub fn lsn(&self) -> Lsn {
        self.lsn.load(Ordering::Acquire)
    }
    /// Everything below this LSN is durable.
    pub fn durable_lsn(&self) -> Lsn {
        self.durable.load(Ordering::Acquire)
    }
    /// Returns when everything below `lsn` is written or durable, by `mode`. Group commit: one
    /// thread leads, others wait. `Error::Poisoned` after a failure.
    pub fn flush(&self, lsn: Lsn, mode: FlushMode) -> Result<()> {
        if mode == FlushMode::Sync {
            self.counters.group_commits.inc();
        }
        if self.is_flushed(lsn, mode) {
            return if self.is_off() { self.check_alive() } else { Ok(()) };
        }
        // A commit that could not be logged has an LSN past the end: see `TrxSys::commit`.
        debug_assert!(
            lsn <= self.lsn() || self.is_poisoned(),
            "a flush waits only for what was appended"
        );
        if mode == FlushMode::Sync {
            self.counters.redo_log_commit_waits.inc();
        }
        let start = self.disk.now_us();
        loop {
            let done = || self.is_flushed(lsn, mode) || self.is_poisoned();
            // A buffer that fills is written out while the round before syncs.
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
    /// Everything below `lsn` is written or durable, by `mode`. Always true while the log is off.
    pub fn is_flushed(&self, lsn: Lsn, mode: FlushMode) -> bool {
        let reached = match mode {
            FlushMode::Write => &self.written,
            FlushMode::Sync => &self.durable,
        };
        // The state first: turning the log on moves both numbers before the log counts as on.
        self.state.is_off() || reached.load(Ordering::Acquire) >= lsn
    }
    /// Bytes appended that no leader has taken yet, about.
    pub(super) fn backlog(&self) -> u64 {
        if self.state.is_off() {
            return 0;
        }
        self.lsn().saturating_sub(self.taken.load(Ordering::Acquire))
    }
    /// Blocks the thread that writes ahead until there is enough to write, or until the timeout.
    pub fn wait_for_backlog(&self, timeout_ms: u64) {
        let mut woken = self.ahead_woken.lock();
        if !*woken {
            self.ahead_wake.wait_for(&mut woken, Duration::from_millis(timeout_ms));
        }
        *woken = false;
    }
    /// Ends [`Redo::wait_for_backlog`] now.
    pub fn wake_ahead(&self) {
        *self.ahead_woken.lock() = true;
        self.ahead_wake.notify_one();
    }

    /// I6: from now on appends are dropped; flushes, checkpoints and reservations return
    /// `Poisoned`. Every layer calls this after a failed write, a failed sync or a broken
    /// invariant.
    pub fn poison(&self, why: &str) {
        self.set_poison(why);
        self.queue.wake_all();
    }
    pub(super) fn set_poison(&self, why: &str) {
        self.poison.set(why);
        self.room_waiters.wake_all();
    }
    /// The engine's poison state: the pool refuses work by the same one.
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
