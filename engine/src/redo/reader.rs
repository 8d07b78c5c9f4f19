//! Reads the redo stream back from a checkpoint: groups in order, and what ended the stream.
//!
//! Keeps: a group is passed on only when all its blocks are valid. What was once durable is never
//! cut off:
//! - the scan must reach the durable LSN of the control file, and the end of every earlier epoch;
//! - past the first bad block, the scan looks for valid blocks which say that the bad block was
//!   durable when they were written;
//! - it also looks for blocks of an epoch that the control file has lost.
//!
//! A block says what was durable when its round began, and one more round may be syncing then. So
//! nothing proves the loss of the last two rounds, if a device lost what it had confirmed. Memory:
//! one chunk and one group. Reads use direct I/O, to see the device and not what a failed sync left
//! in the operating system's cache. Takes no locks. Called by: the engine's recovery, before the
//! log is opened for writing.
use super::block_format::{self as block, BlockInfo, Position, BLOCK, BLOCK_DATA, BLOCK_HEADER};
use super::block_writer::LOOK_AHEAD;
use super::control::{Control, Epoch, CONTROL_FILE};
use super::segment_ring::{self as ring, segment_name};
use crate::base::bytes::take_varint;
use crate::base::{Error, Lsn, Result};
use crate::io::{AlignedBuf, Caching, Disk, File, IO_ALIGN};
use std::sync::Arc;

/// How a scan ended.
#[derive(Debug, PartialEq, Eq)]
pub struct ScanEnd {
    /// LSN past the last whole group: the log continues here.
    pub lsn: Lsn,
    /// True if a torn tail was cut off (never a reason to refuse).
    pub torn: bool,
}

pub type EachGroup<'a> = &'a mut dyn FnMut(Lsn, Lsn, &[u8]) -> Result<()>;

/// Calls `each(start, end, group bytes)` for every whole group from `from` on. `Error::Corrupt`:
/// blocks that were once durable cannot be read. Such damage in the middle of the log is never cut
/// off silently.
pub fn scan(disk: &dyn Disk, from: Lsn, each: EachGroup<'_>) -> Result<ScanEnd> {
    scan_by(disk, &Control::read(disk)?, from, each)
}

/// The same for a log whose control file is not written yet.
pub(super) fn scan_by(disk: &dyn Disk, control: &Control, from: Lsn, each: EachGroup<'_>) -> Result<ScanEnd> {
    assert!(from >= control.checkpoint, "segments below the checkpoint are reused");
    let mut blocks = Blocks::new(disk, control.segment_size);
    let mut groups = Groups::new(block::position_of(from));
    let first = control.epochs.iter().rposition(|e| e.start <= from).unwrap_or(0);
    for (i, epoch) in control.epochs.iter().enumerate().skip(first) {
        if i > first {
            groups.skip_to(block::position_of(epoch.start));
        }
        let limit = control
            .epochs
            .get(i + 1)
            .map(|next| block::position_of(next.previous_end));
        let reached = read_epoch(&mut blocks, &mut groups, epoch, limit, each)?;
        match limit {
            None => return end_of_log(&mut blocks, &groups, epoch, control, reached),
            Some(limit) if reached == limit && groups.start == limit => {}
            Some(limit) => {
                let what = format!("the log once reached {}", block::lsn_of(limit));
                return Err(damaged(blocks.segment_size, reached, &what));
            }
        }
    }
    unreachable!("the newest epoch has no limit");
}

/// Feeds the blocks of one epoch to `groups`, up to `limit` or the first block that is not valid or
/// not full. Returns the position up to which bytes were valid.
fn read_epoch(
    blocks: &mut Blocks<'_>,
    groups: &mut Groups,
    epoch: &Epoch,
    limit: Option<Position>,
    each: EachGroup<'_>,
) -> Result<Position> {
    let segment_size = blocks.segment_size;
    let mut position = groups.start;
    while limit.is_none_or(|limit| position < limit) {
        let number = position / BLOCK_DATA as u64;
        let used = (position % BLOCK_DATA as u64) as usize;
        let Some((info, data)) = blocks.valid(number, epoch.number)? else {
            break;
        };
        let data = data.get(used..info.length).unwrap_or(&[]);
        let room = limit.map_or(data.len() as u64, |limit| limit - position);
        let cut = room < data.len() as u64;
        let data = if cut { &data[..room as usize] } else { data };
        if data.is_empty() {
            break;
        }
        let first = groups.feed(position, data, each)?;
        // A part of a block proves nothing about its header.
        if used == 0 && !cut && first != info.first_group {
            let what = format!(
                "a group begins at byte {first} of it, its header says {}",
                info.first_group
            );
            return Err(damaged(segment_size, position, &what));
        }
        position += data.len() as u64;
        if info.length < BLOCK_DATA {
            break;
        }
    }
    Ok(position)
}

/// Decides whether `reached` is the end of the log, or a hole in it.
fn end_of_log(
    blocks: &mut Blocks<'_>,
    groups: &Groups,
    epoch: &Epoch,
    control: &Control,
    reached: Position,
) -> Result<ScanEnd> {
    let segment_size = blocks.segment_size;
    if reached < block::position_of(control.durable) {
        let what = format!("the log was durable up to {}", control.durable);
        return Err(damaged(segment_size, reached, &what));
    }
    let hole = reached / BLOCK_DATA as u64;
    let mut torn = !groups.is_between_groups();
    for number in hole + 1..=hole + LOOK_AHEAD / BLOCK as u64 {
        match blocks.valid(number, epoch.number)? {
            Some((info, _)) if info.durable_block > hole => {
                let what = format!(
                    "the block at LSN {} was written when this one was durable",
                    block::block_start(number)
                );
                return Err(damaged(segment_size, reached, &what));
            }
            Some(_) => torn = true,
            None => {}
        }
        if blocks.past_ring {
            break;
        }
    }
    check_no_later_epoch(blocks, groups.start, epoch)?;
    Ok(ScanEnd {
        lsn: block::lsn_of(groups.start),
        torn,
    })
}

/// Checks that the control file has not lost an epoch. The control file falls back to the older of
/// its two slots. A torn write of the newer slot loses nothing. A newer slot that broke later may
/// be the only place that names the epoch since the last start, with all its commits.
fn check_no_later_epoch(blocks: &mut Blocks<'_>, end: Position, newest: &Epoch) -> Result<()> {
    let number = block::next_whole_block(end);
    if blocks.valid(number, newest.number + 1)?.is_none() {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "{CONTROL_FILE}: the log goes on past LSN {} in epoch {}, which this file does not know: its newest slot is damaged, or it is \
         older than the log; committed changes would be lost: restore the file or a backup",
        block::lsn_of(end),
        newest.number + 1
    )))
}

/// Assembles groups from the data of consecutive blocks.
struct Groups {
    /// Start of the group whose bytes are, in part, in `bytes`.
    start: Position,
    bytes: Vec<u8>,
}

impl Groups {
    fn new(start: Position) -> Groups {
        Groups {
            start,
            bytes: Vec::new(),
        }
    }
    fn is_between_groups(&self) -> bool {
        self.bytes.is_empty()
    }
    /// Continues in a later epoch.
    fn skip_to(&mut self, start: Position) {
        assert!(self.is_between_groups());
        debug_assert!(start >= self.start, "epochs go forward");
        self.start = start;
    }
    /// Adds the data at `position`, and passes on the groups that became whole. Returns the offset
    /// in the block of the first group that begins in the data (0: none, as in block headers).
    fn feed(&mut self, position: Position, data: &[u8], each: EachGroup<'_>) -> Result<usize> {
        debug_assert_eq!(
            self.start + self.bytes.len() as u64,
            position,
            "blocks are joined without a gap"
        );
        self.bytes.extend_from_slice(data);
        let data_end = position + data.len() as u64;
        let place = |start: Position| BLOCK_HEADER + (start % BLOCK_DATA as u64) as usize;
        let mut first = (self.start == position).then(|| place(self.start));
        let mut used = 0;
        while let Some((header, length)) = self.whole_group(used)? {
            let end = self.start + (header + length) as u64;
            let group = &self.bytes[used + header..used + header + length];
            each(block::lsn_of(self.start), block::lsn_of(end), group)?;
            used += header + length;
            self.start = end;
            if end < data_end {
                first = first.or(Some(place(end)));
            }
        }
        self.bytes.drain(..used);
        Ok(first.unwrap_or(0))
    }
    /// For a group that is whole at `at`: the bytes of its length field, and its length.
    fn whole_group(&self, at: usize) -> Result<Option<(usize, usize)>> {
        let mut body = at;
        let Some(length) = take_varint(&self.bytes, &mut body) else {
            return match self.bytes.len() - at >= 10 {
                true => Err(self.bad_length("cannot be read")),
                false => Ok(None),
            };
        };
        if length == 0 || length > u32::MAX as u64 {
            return Err(self.bad_length(&format!("is {length}")));
        }
        let length = length as usize;
        Ok((self.bytes.len() - body >= length).then_some((body - at, length)))
    }
    fn bad_length(&self, what: &str) -> Error {
        let lsn = block::lsn_of(self.start);
        Error::corrupt(format!("redo log at LSN {lsn}: the length of the group {what}"))
    }
}

/// Bytes read at a time.
const CHUNK: u64 = 1 << 20;

/// The blocks of the ring, by number, read ahead in chunks.
struct Blocks<'d> {
    disk: &'d dyn Disk,
    segment_size: u64,
    segment: Option<(u64, Arc<dyn File>)>,
    bytes: AlignedBuf,
    /// LSN range that `bytes` holds.
    start: Lsn,
    end: Lsn,
    /// A block past the last segment was requested.
    past_ring: bool,
}

impl<'d> Blocks<'d> {
    fn new(disk: &'d dyn Disk, segment_size: u64) -> Blocks<'d> {
        Blocks {
            disk,
            segment_size,
            segment: None,
            bytes: AlignedBuf::new(CHUNK as usize),
            start: 0,
            end: 0,
            past_ring: false,
        }
    }
    /// The block and its data area, if it is valid in `epoch`.
    fn valid(&mut self, number: u64, epoch: u32) -> Result<Option<(BlockInfo, &[u8])>> {
        let lsn = block::block_start(number);
        if !(self.start..self.end).contains(&lsn) && !self.load(lsn)? {
            self.past_ring = true;
            return Ok(None);
        }
        let at = (lsn - self.start) as usize;
        debug_assert!(lsn + BLOCK as u64 <= self.end, "a chunk ends with a block");
        let bytes = &self.bytes[at..at + BLOCK];
        Ok(block::open(bytes, epoch, number).map(|info| (info, &bytes[BLOCK_HEADER..])))
    }
    /// False if the ring has no such segment.
    fn load(&mut self, lsn: Lsn) -> Result<bool> {
        let number = lsn / self.segment_size;
        if self.segment.as_ref().is_none_or(|(open, _)| *open != number) {
            if !self.disk.exists(&segment_name(number))? {
                return self.check_past_ring(number).map(|()| false);
            }
            let file = ring::open_segment(self.disk, number, self.segment_size, Caching::Direct)?;
            self.segment = Some((number, file));
        }
        let (_, file) = self.segment.as_ref().expect("opened above");
        let start = lsn / IO_ALIGN as u64 * IO_ALIGN as u64;
        let end = (start + CHUNK).min((number + 1) * self.segment_size);
        debug_assert!(start <= lsn && lsn < end, "the chunk has the block that was asked for");
        let into = &mut self.bytes[..(end - start) as usize];
        file.read_at(into, ring::file_offset(start, self.segment_size))?;
        (self.start, self.end) = (start, end);
        Ok(true)
    }
    /// Segments have no gap: one that is missing before others is damage.
    fn check_past_ring(&self, missing: u64) -> Result<()> {
        let numbers = ring::list_segments(self.disk)?;
        match numbers.iter().any(|n| *n > missing) {
            true => Err(Error::corrupt(format!(
                "{}: the segment is missing, later ones are there",
                segment_name(missing)
            ))),
            false => Ok(()),
        }
    }
}

fn damaged(segment_size: u64, position: Position, proof: &str) -> Error {
    let lsn = block::block_start(position / BLOCK_DATA as u64);
    Error::corrupt(format!(
        "{} at offset {}: the redo block at LSN {lsn} is damaged ({proof}); committed changes after it would be lost: \
         restore the file or a backup",
        segment_name(lsn / segment_size),
        ring::file_offset(lsn, segment_size),
    ))
}
