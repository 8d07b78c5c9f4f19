//! [`LogCopy`] copies the log while it grows, for a backup. [`LogRestore`] makes the files of a log
//! from such a copy.
//!
//! ```text
//! begin_copy   Takes, under `RedoControl`, the checkpoint and the epochs since, and begins the
//!              hold. Checkpoints go on, but recycle no segment that is not copied yet (B1).
//! copy_some    Reads full, durable blocks from the segments. Such blocks never change again. Each
//!              checksum is checked, because another block of the same page may be written just
//!              then.
//! copy_end     Reads the last block, which may be written again meanwhile, until its checksum is
//!              right. Bytes after the end of the copy are removed: they may hold a later commit.
//! ```
//! The hold costs segments, and makes no writer wait: the ring makes new segments. A copy that lags
//! by more than `LAG_RINGS` times the ring's capacity loses its hold, and fails. So does one whose
//! segments take the room that a writer needs on a full disk.
//!
//! Takes `RedoControl`, and `RedoRing` through reads of segments. Called by: `engine`'s backup.
use super::block_format::{self as block, BlockInfo, BLOCK};
use super::control::{Control, Epoch, CONTROL_FILE};
use super::log::{Redo, NO_COPY};
use super::reader::{scan_by, EachGroup, ScanEnd};
use super::segment_ring as ring;
use crate::base::bytes::{get_u16, get_u32, get_u64, push_bytes, take_bytes};
use crate::base::sync::give_way;
use crate::base::{planted, Error, Lsn, Mutant, Result};
use crate::io::{AlignedBuf, Caching, Disk, File, Mode, IO_ALIGN};
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// The copy lagged too far: its segments are not kept any more.
const LOST: Lsn = NO_COPY - 1;
/// Capacities of the ring by which a copy may lag.
const LAG_RINGS: u64 = 3;
/// Bytes read at a time.
const CHUNK: usize = 256 << 10;
/// Reads of a block that is being written.
const TRIES_MAX: usize = 1000;

/// The beginning of a copy of the log, with what recovery needs to read it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogStart {
    pub checkpoint: Lsn,
    /// The checkpoint's.
    pub payload: Vec<u8>,
    pub segment_size: u64,
    epochs: Vec<Epoch>,
}

impl LogStart {
    /// First byte of the first block of a copy.
    pub fn first_block(&self) -> Lsn {
        block::block_start(block::block_of(self.checkpoint))
    }
    /// checkpoint u64, segment_size u64, payload (varint length, bytes), epochs u16, and of each:
    /// number u32, start u64, previous_end u64.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.checkpoint.to_le_bytes().to_vec();
        out.extend(self.segment_size.to_le_bytes());
        push_bytes(&mut out, &self.payload);
        out.extend((self.epochs.len() as u16).to_le_bytes());
        for epoch in &self.epochs {
            out.extend(epoch.number.to_le_bytes());
            out.extend(epoch.start.to_le_bytes());
            out.extend(epoch.previous_end.to_le_bytes());
        }
        out
    }
    /// None: these bytes are not from `encode`.
    pub fn decode(bytes: &[u8]) -> Option<LogStart> {
        let mut at = 16;
        let payload = (bytes.len() >= at).then(|| take_bytes(bytes, &mut at))??.to_vec();
        let rest = bytes.get(at + 2..)?;
        let count = get_u16(bytes, at) as usize;
        let epoch = |b: &[u8]| Epoch {
            number: get_u32(b, 0),
            start: get_u64(b, 4),
            previous_end: get_u64(b, 12),
        };
        let segment_size = get_u64(bytes, 8);
        let is_whole = count > 0 && rest.len() == count * 20 && segment_size > 0 && segment_size % IO_ALIGN as u64 == 0;
        is_whole.then(|| LogStart {
            checkpoint: get_u64(bytes, 0),
            payload,
            segment_size,
            epochs: rest.chunks_exact(20).map(epoch).collect(),
        })
    }
    /// Bytes of data of a durable block with others after it. The last block of an epoch may have
    /// any number.
    fn length_of(&self, number: u64) -> usize {
        let next = block::block_start(number + 1);
        match self.epochs.iter().any(|epoch| epoch.start == next) {
            true => 1,
            false => block::BLOCK_DATA,
        }
    }
    fn epoch_of(&self, number: u64) -> u32 {
        let started = |epoch: &&Epoch| epoch.start <= block::block_start(number);
        let epoch = self.epochs.iter().rev().find(started);
        epoch.unwrap_or(&self.epochs[0]).number
    }
}

/// A copy that is under way. Its drop ends the hold.
pub struct LogCopy {
    redo: Arc<Redo>,
    pub start: LogStart,
    /// The next block to copy.
    next: u64,
    held_from: Lsn,
    segment: Option<(u64, Arc<dyn File>)>,
    buffer: AlignedBuf,
}

impl Redo {
    /// Begins a copy of the log from the present checkpoint on. `Error::Unsupported`: the log is
    /// off. `Error::InUse`: there is a copy already.
    pub fn begin_copy(self: &Arc<Redo>) -> Result<LogCopy> {
        let control = self.control.lock();
        self.check_alive()?;
        if !self.is_on() {
            return Err(Error::Unsupported(
                "the redo log is off: turn it on first (SET GLOBAL sluice_redo_log = ON)".into(),
            ));
        }
        let (control, _) = &*control;
        let held_from = control.checkpoint;
        let taken = self
            .copied_from
            .compare_exchange(NO_COPY, held_from, Ordering::AcqRel, Ordering::Acquire);
        if taken.is_err() {
            return Err(Error::InUse("another backup is under way".into()));
        }
        let start = LogStart {
            checkpoint: control.checkpoint,
            payload: control.payload.clone(),
            segment_size: control.segment_size,
            epochs: control.epochs.clone(),
        };
        Ok(LogCopy {
            redo: self.clone(),
            next: block::block_of(start.checkpoint),
            start,
            held_from,
            segment: None,
            buffer: AlignedBuf::new(CHUNK),
        })
    }
    /// Is a copy of the log under way? Also true of one that has lost its hold and not ended yet.
    pub fn is_copied(&self) -> bool {
        self.copied_from.load(Ordering::Acquire) != NO_COPY
    }
    /// The LSN from which segments are kept for the copy; without a copy, above every LSN. A copy
    /// that lags too far loses its hold. The caller holds `RedoControl`.
    pub(super) fn kept_for_copy(&self) -> Lsn {
        let from = self.copied_from.load(Ordering::Acquire);
        if from < LOST && self.lsn().saturating_sub(from) > self.capacity() * LAG_RINGS {
            // The copy moves on at the same time: it keeps its hold then.
            let _ = self
                .copied_from
                .compare_exchange(from, LOST, Ordering::AcqRel, Ordering::Acquire);
        }
        if planted(Mutant::BackupLogNotHeld) {
            return NO_COPY;
        }
        self.copied_from.load(Ordering::Acquire)
    }
    /// The disk has no room for another segment. A copy loses its hold, and its segments serve
    /// again. False: none is held for a copy alone. Called without a latch, and without a lock of
    /// the log.
    pub(super) fn give_up_copy(&self) -> Result<bool> {
        let from = self.copied_from.load(Ordering::Acquire);
        let is_needed = |lsn: Lsn| self.ring.segment_of(lsn) >= self.ring.segment_of(self.checkpoint_lsn());
        if from >= LOST || is_needed(from) {
            return Ok(false);
        }
        // If the copy moves on at the same time, the caller's next try may give it up.
        let _ = self
            .copied_from
            .compare_exchange(from, LOST, Ordering::AcqRel, Ordering::Acquire);
        let _control = self.control.lock();
        let recycled = self.ring.recycle(self.checkpoint_lsn(), self.kept_for_copy());
        self.poison_on_error(recycled)?;
        Ok(true)
    }
}

impl LogCopy {
    /// Copies up to `bytes_max` bytes of blocks that are full and durable. `each` gets the LSN of
    /// the first block, and the blocks; all of them lie in one segment. True: there is more.
    ///
    /// `point`: where the copy ends, as soon as that is known. It is asked after the durable LSN:
    /// no point then means that all blocks below are older than the point.
    pub fn copy_some(
        &mut self,
        bytes_max: usize,
        point: &dyn Fn() -> Option<Lsn>,
        each: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>,
    ) -> Result<bool> {
        let mut copied = 0;
        loop {
            let durable = self.redo.durable_lsn();
            let end = block::block_of(point().map_or(durable, |point| point.min(durable)));
            if self.next >= end || copied >= bytes_max {
                return Ok(self.next < end);
            }
            copied += self.copy_chunk(end, None, each)?;
        }
    }
    /// Copies the rest, up to `end`, which is durable. Called when `copy_some` has no more.
    pub fn copy_end(&mut self, end: Lsn, each: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>) -> Result<()> {
        assert!(end <= self.redo.durable_lsn(), "a copy ends where the log is durable");
        let last = block::block_of(end);
        while self.next < last {
            self.copy_chunk(last, None, each)?;
        }
        let used = (block::position_of(end) % block::BLOCK_DATA as u64) as usize;
        if self.next == last && used > 0 {
            self.copy_chunk(last + 1, Some(used), each)?;
        }
        Ok(())
    }
    /// Copies blocks before block `end`, as far as they are in one chunk. Returns their bytes.
    /// `cut`: there is one block, and its data ends there.
    fn copy_chunk(
        &mut self,
        end: u64,
        cut: Option<usize>,
        each: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>,
    ) -> Result<usize> {
        let lsn = block::block_start(self.next);
        let size = self.start.segment_size;
        let number = lsn / size;
        let first = lsn / IO_ALIGN as u64 * IO_ALIGN as u64;
        let limit = block::block_start(end)
            .min((number + 1) * size)
            .min(first + CHUNK as u64);
        let padded = (limit - first).next_multiple_of(IO_ALIGN as u64) as usize;
        let mut tries = 0;
        loop {
            self.read(number, first, padded)?;
            let blocks = &self.buffer[(lsn - first) as usize..(limit - first) as usize];
            let is_whole = |(i, bytes): (usize, &[u8])| {
                let number = self.next + i as u64;
                let info = block::open(bytes, self.start.epoch_of(number), number);
                info.is_some_and(|info| info.length >= cut.unwrap_or(self.start.length_of(number)))
            };
            let bad = blocks
                .chunks_exact(BLOCK)
                .enumerate()
                .position(|block| !is_whole(block));
            let Some(bad) = bad else { break };
            self.check_held()?;
            tries += 1;
            if tries == TRIES_MAX {
                return Err(Error::corrupt(format!(
                    "{}: the block at LSN {} cannot be copied: it is damaged",
                    ring::segment_name(number),
                    block::block_start(self.next + bad as u64)
                )));
            }
            give_way();
        }
        self.check_held()?;
        if let Some(used) = cut.filter(|_| !planted(Mutant::BackupBlockNotCut)) {
            let number = self.next;
            let epoch = self.start.epoch_of(number);
            cut_block(&mut self.buffer[(lsn - first) as usize..][..BLOCK], epoch, number, used);
        }
        each(lsn, &self.buffer[(lsn - first) as usize..(limit - first) as usize])?;
        self.next = block::block_of(limit);
        self.move_hold(limit)?;
        Ok((limit - lsn) as usize)
    }
    fn read(&mut self, number: u64, first: Lsn, len: usize) -> Result<()> {
        if self.segment.as_ref().is_none_or(|(open, _)| *open != number) {
            let size = self.start.segment_size;
            let opened = ring::open_segment(&*self.redo.disk, number, size, Caching::Direct);
            // A segment that was recycled is no damage.
            self.segment = Some((number, opened.or_else(|e| self.check_held().and(Err(e)))?));
        }
        let (_, file) = self.segment.as_ref().expect("opened above");
        file.read_at(
            &mut self.buffer[..len],
            ring::file_offset(first, self.start.segment_size),
        )
    }
    fn check_held(&self) -> Result<()> {
        match self.redo.copied_from.load(Ordering::Acquire) == self.held_from {
            true => Ok(()),
            false => Err(self.too_slow()),
        }
    }
    fn move_hold(&mut self, to: Lsn) -> Result<()> {
        let moved = self
            .redo
            .copied_from
            .compare_exchange(self.held_from, to, Ordering::AcqRel, Ordering::Acquire);
        self.held_from = to;
        moved.map(drop).map_err(|_| self.too_slow())
    }
    fn too_slow(&self) -> Error {
        Error::Full(format!(
            "the backup is too slow for the redo log: it is more than {LAG_RINGS} times sluice_redo_log_capacity behind, or the disk has \
             no room for the log that it has not copied. Let it write faster, make room, or enlarge sluice_redo_log_capacity for the \
             time of the backup"
        ))
    }
}

/// Removes what follows the first `used` bytes of a block's data.
fn cut_block(block: &mut [u8], epoch: u32, number: u64, used: usize) {
    let info = block::open(block, epoch, number).expect("checked before");
    let end = block::BLOCK_HEADER + used;
    block[end..].fill(0);
    let info = BlockInfo {
        length: used,
        first_group: if info.first_group < end { info.first_group } else { 0 },
        ..info
    };
    block::seal(block, epoch, number, info);
}

impl Drop for LogCopy {
    fn drop(&mut self) {
        self.redo.copied_from.store(NO_COPY, Ordering::Release);
    }
}

/// Makes the files of a log from its copy. The blocks come in their order, without a gap.
pub struct LogRestore {
    disk: Arc<dyn Disk>,
    start: LogStart,
    next: Lsn,
    segment: Option<(u64, Arc<dyn File>)>,
}

impl LogRestore {
    pub fn new(disk: Arc<dyn Disk>, start: LogStart) -> Result<LogRestore> {
        let next = start.first_block();
        let mut restore = LogRestore {
            disk,
            start,
            next,
            segment: None,
        };
        restore.open(next / restore.start.segment_size)?;
        Ok(restore)
    }
    pub fn put(&mut self, lsn: Lsn, blocks: &[u8]) -> Result<()> {
        let size = self.start.segment_size;
        let (number, end) = (lsn / size, lsn + blocks.len() as u64);
        let fits = lsn == self.next && blocks.len() % BLOCK == 0 && end <= (number + 1) * size;
        if !fits {
            return Err(Error::corrupt(format!(
                "the backup's log goes on at LSN {lsn}, {} is next",
                self.next
            )));
        }
        self.open(number)?;
        let (_, file) = self.segment.as_ref().expect("opened above");
        file.write_at(blocks, ring::file_offset(lsn, size))?;
        self.next = end;
        Ok(())
    }
    fn open(&mut self, number: u64) -> Result<()> {
        if self.segment.as_ref().is_some_and(|(open, _)| *open == number) {
            return Ok(());
        }
        if let Some((_, file)) = self.segment.take() {
            file.sync()?;
        }
        let name = ring::segment_name(number);
        let file = self.disk.open(&name, Mode::Create, Caching::Buffered)?;
        file.set_len(ring::SEGMENT_HEADER as u64 + self.start.segment_size)?;
        let epoch = self.start.epochs[0].number;
        file.write_at(&ring::header(number, self.start.segment_size, epoch), 0)?;
        self.segment = Some((number, file));
        Ok(())
    }
    /// The log is whole up to `end`, and durable.
    pub fn finish(self, end: Lsn) -> Result<RestoredLog> {
        // Where `end` is the first byte of a block's data, the block before it has all.
        if block::position_of(self.next) < block::position_of(end) {
            return Err(Error::corrupt(format!(
                "the backup's log ends at LSN {}, it must reach {end}",
                self.next
            )));
        }
        if let Some((_, file)) = self.segment {
            file.sync()?;
        }
        Ok(RestoredLog {
            disk: self.disk,
            control: Control {
                sequence: 1,
                checkpoint: self.start.checkpoint,
                durable: end,
                segment_size: self.start.segment_size,
                payload: self.start.payload,
                off: false,
                epochs: self.start.epochs,
            },
        })
    }
}

/// The segments of a restored log. Without a control file no engine opens them.
pub struct RestoredLog {
    disk: Arc<dyn Disk>,
    control: Control,
}

impl RestoredLog {
    /// Calls `each` with every group of the log: see [`scan`](super::reader::scan).
    pub fn scan(&self, each: EachGroup<'_>) -> Result<ScanEnd> {
        scan_by(&*self.disk, &self.control, self.control.checkpoint, each)
    }
    /// Makes the control file, as the last step of a restore.
    pub fn publish(self) -> Result<()> {
        debug_assert!(!self.disk.exists(CONTROL_FILE)?, "a log is restored once");
        self.control.create(&*self.disk)
    }
}
