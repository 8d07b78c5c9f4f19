//! [`BlockWriter`]: cuts the stream into blocks and writes them. No other code writes log blocks.
//!
//! Whole 4096-byte pages are written, so that direct I/O can take them, and buffered I/O never
//! reads a page first. The last page is usually incomplete: the next write rewrites it, with its
//! finished blocks unchanged and its last block longer (see `block_format.rs` on sectors). Each
//! block says how far the log was durable when the block was sealed.
//!
//! Direct or buffered? Medians of `cargo bench --bench redo_commit`, 2 shared cores, ext4, commits
//! a second at 1 and at 8 committers:
//!
//! | | direct | buffered |
//! |---|---|---|
//! | durable commits | 232; 45,700 (a fifth less processor time) | 227; 41,500 |
//! | commits that only write | 30,000; 118,000 | 371,000; 594,000 |
//!
//! So a log whose rounds all sync writes direct. One round that only writes makes the log buffered
//! for the next `SYNC_ROUNDS_DIRECT` rounds. The log never changes between the two with unsynced
//! bytes.
//!
//! Keeps: bytes written and not synced stay under `UNSYNCED_MAX` plus one write. This bounds how
//! far past a torn tail the reader must look (`LOOK_AHEAD`). Only the leader of a round uses the
//! writer (`RedoWrite`). The files to sync are taken out ([`Unsynced`]), so that the next leader
//! can write during the sync. Called by: `group_commit.rs`; made by `log.rs`.
use super::block_format::{self as block, BlockInfo, Position, BLOCK, BLOCK_DATA, BLOCK_HEADER};
use super::flush_mode::FlushMode;
use super::segment_ring::SegmentRing;
use crate::base::bytes::take_varint;
use crate::base::{planted, Counters, Lsn, Mutant, Result};
use crate::io::{AlignedBuf, Caching, File, IO_ALIGN};
use std::sync::Arc;

/// Bytes of the largest single write.
const WRITE_MAX: usize = 1 << 20;
/// The writer syncs on its own at this many unsynced bytes (flush mode `Write`, and long rounds).
const UNSYNCED_MAX: u64 = 16 << 20;
/// Valid blocks lie at most this many bytes past the durable end: the reader searches this range
/// for proof of damage.
pub const LOOK_AHEAD: u64 = UNSYNCED_MAX + 2 * WRITE_MAX as u64;
/// Rounds in a row with a sync, after which the log changes to direct I/O.
const SYNC_ROUNDS_DIRECT: u32 = 64;
/// Bytes of the largest write during a sync.
const OVERLAP_MAX: usize = 64 << 10;

/// Files with unsynced writes, which end at `end`.
pub struct Unsynced {
    files: Vec<Arc<dyn File>>,
    end: Position,
}

impl Unsynced {
    /// Syncs the files. Returns the position up to which the stream is durable now, given that all
    /// earlier writes are durable.
    pub fn sync(self, counters: &Counters) -> Result<Position> {
        for file in self.files {
            if !planted(Mutant::LogSyncSkipped) {
                file.sync()?;
            }
            counters.redo_log_fsyncs.inc();
        }
        Ok(self.end)
    }
}

/// See the head of this file.
pub struct BlockWriter {
    ring: Arc<SegmentRing>,
    direct_io: bool,
    /// Rounds with a sync since the last round without one.
    sync_rounds: u32,
    counters: Arc<Counters>,
    epoch: u32,
    bytes: AlignedBuf,
    /// LSN of `bytes[0]`: the start of a page.
    page_start: Lsn,
    /// End of the part of the stream that was cut into blocks and written.
    position: Position,
    durable: Position,
    /// `first_group` of the block that `position` is in.
    first_group: usize,
    segment: Option<(u64, Caching, Arc<dyn File>)>,
    /// Segments with unsynced writes.
    unsynced: Vec<Arc<dyn File>>,
}

impl BlockWriter {
    /// Continues at the beginning of block `block`. Everything before it is durable.
    pub fn new(
        ring: Arc<SegmentRing>,
        direct_io: bool,
        counters: Arc<Counters>,
        epoch: u32,
        block: u64,
    ) -> Result<BlockWriter> {
        let start = block::block_start(block);
        let page_start = start / IO_ALIGN as u64 * IO_ALIGN as u64;
        debug_assert!(
            start - page_start < IO_ALIGN as u64,
            "the writer begins within its first page"
        );
        let mut writer = BlockWriter {
            ring,
            direct_io,
            sync_rounds: SYNC_ROUNDS_DIRECT,
            counters,
            epoch,
            bytes: AlignedBuf::new(WRITE_MAX),
            page_start,
            position: block::position_of(start),
            durable: block::position_of(start),
            first_group: 0,
            segment: None,
            unsynced: Vec::new(),
        };
        if page_start < start {
            let file = writer.segment()?;
            let offset = writer.ring.file_offset(page_start);
            file.read_at(&mut writer.bytes[..IO_ALIGN], offset)?;
        }
        Ok(writer)
    }
    /// Continues at block `block` in another epoch. Nothing before it is needed any more.
    pub fn jump(&mut self, epoch: u32, block: u64) {
        let start = block::block_start(block);
        assert!(start % IO_ALIGN as u64 == 0, "a jump leads to the beginning of a page");
        debug_assert!(epoch > self.epoch, "an epoch is used once");
        debug_assert!(block::position_of(start) >= self.position, "LSNs never go back");
        self.epoch = epoch;
        self.page_start = start;
        self.position = block::position_of(start);
        self.durable = self.position;
        self.first_group = 0;
        self.segment = None;
        self.unsynced.clear();
    }
    pub fn position(&self) -> Position {
        self.position
    }
    pub fn durable(&self) -> Position {
        self.durable
    }

    /// Writes whole groups (varint length and bytes each) at the end of the last write. `mode`:
    /// what the round does after the write.
    pub fn write(&mut self, groups: &[u8], mode: FlushMode) -> Result<()> {
        self.sync_rounds = match mode {
            FlushMode::Sync => self.sync_rounds.saturating_add(1),
            FlushMode::Write => 0,
        };
        let (mut done, mut next_group) = (0, 0);
        debug_assert!(self.durable <= self.position, "only what is written is durable");
        while done < groups.len() {
            let number = self.position / BLOCK_DATA as u64;
            let used = (self.position % BLOCK_DATA as u64) as usize;
            if self.is_full_at(number) {
                self.write_out()?;
            }
            let n = (BLOCK_DATA - used).min(groups.len() - done);
            if used == 0 {
                self.first_group = 0;
            }
            if self.first_group == 0 && next_group < done + n {
                self.first_group = BLOCK_HEADER + used + (next_group - done);
            }
            while next_group < done + n {
                next_group = end_of_group(groups, next_group);
            }
            debug_assert!(
                n > 0 && used + n <= BLOCK_DATA,
                "a block takes some bytes, and no more than fit"
            );
            self.put(number, used, &groups[done..done + n]);
            done += n;
            self.position += n as u64;
        }
        debug_assert_eq!(next_group, groups.len(), "a round writes whole groups");
        self.write_out()
    }
    /// The staged bytes must be written before this block: the stage is full, or a segment ends
    /// here.
    fn is_full_at(&self, number: u64) -> bool {
        let lsn = block::block_start(number);
        let staged = lsn - self.page_start;
        staged as usize == self.bytes.len() || (staged > 0 && lsn % self.ring.segment_size() == 0)
    }
    /// Appends data to the `used` bytes of a block, and seals the block.
    fn put(&mut self, number: u64, used: usize, data: &[u8]) {
        let at = (block::block_start(number) - self.page_start) as usize;
        let block = &mut self.bytes[at..at + BLOCK];
        let end = BLOCK_HEADER + used + data.len();
        block[BLOCK_HEADER + used..end].copy_from_slice(data);
        block[end..].fill(0);
        let info = BlockInfo {
            length: end - BLOCK_HEADER,
            first_group: self.first_group,
            durable_block: self.durable / BLOCK_DATA as u64,
        };
        block::seal(block, self.epoch, number, info);
    }
    /// Writes the staged bytes, and keeps the last page if it is incomplete.
    fn write_out(&mut self) -> Result<()> {
        let end = (block::block_start(block::next_whole_block(self.position)) - self.page_start) as usize;
        let padded = end.next_multiple_of(IO_ALIGN);
        debug_assert_eq!(self.page_start % IO_ALIGN as u64, 0, "whole pages are written");
        self.bytes[end..padded].fill(0);
        let file = self.segment()?;
        let offset = self.ring.file_offset(self.page_start);
        file.write_at(&self.bytes[..padded], offset)?;
        self.counters.redo_log_writes.inc();
        self.counters.redo_log_written.add(padded as u64);
        if !self.unsynced.last().is_some_and(|last| Arc::ptr_eq(last, &file)) {
            self.unsynced.push(file);
        }
        // The next byte's block may be the incomplete last one, or the first of the next page.
        let next = block::block_start(self.position / BLOCK_DATA as u64);
        let page = next / IO_ALIGN as u64 * IO_ALIGN as u64;
        let at = (page - self.page_start) as usize;
        if at < padded {
            self.bytes.copy_within(at..at + IO_ALIGN, 0);
        }
        self.page_start = page;
        debug_assert!(
            block::position_of(page) <= self.position,
            "the stage begins with the page of the next byte"
        );
        if self.position - self.durable >= UNSYNCED_MAX {
            self.sync()?;
        }
        Ok(())
    }
    /// Makes everything written durable. No sync may be under way.
    fn sync(&mut self) -> Result<()> {
        let counters = self.counters.clone();
        self.durable = self.take_unsynced().sync(&counters)?;
        debug_assert_eq!(self.durable, self.position, "a sync makes all that was written durable");
        Ok(())
    }
    /// The files whose sync makes everything written durable. The next round may write meanwhile.
    pub fn take_unsynced(&mut self) -> Unsynced {
        Unsynced {
            files: std::mem::take(&mut self.unsynced),
            end: self.position,
        }
    }
    /// The stream is durable up to here.
    pub fn set_durable(&mut self, durable: Position) {
        debug_assert!(durable <= self.position, "only what is written is durable");
        self.durable = self.durable.max(durable);
    }
    /// So many bytes may be written while the sync of the round before is under way. They must be
    /// few, need no sync in between, and bypass the system's cache, as the earlier bytes did.
    ///
    /// During a sync the device fetches pages from the cache. Of a block that grows meanwhile it
    /// could get one half old and one half new. The round before would be lost with that block.
    pub fn may_overlap(&self, bytes: usize, mode: FlushMode) -> bool {
        let stays = self.direct_io && self.sync_rounds.saturating_add(1) >= SYNC_ROUNDS_DIRECT;
        let is_direct = self.segment.as_ref().is_some_and(|(_, _, file)| file.is_direct());
        let unsynced = self.position - self.durable + bytes as u64;
        mode == FlushMode::Sync && stays && is_direct && bytes <= OVERLAP_MAX && unsynced < UNSYNCED_MAX
    }
    /// The file to write `page_start` to. A sync under way is one of direct I/O, and the log stays
    /// with direct I/O then ([`BlockWriter::may_overlap`]).
    fn segment(&mut self) -> Result<Arc<dyn File>> {
        let number = self.ring.segment_of(self.page_start);
        let caching = match &self.segment {
            Some((_, caching, _)) if !self.unsynced.is_empty() => *caching,
            _ if self.direct_io && self.sync_rounds >= SYNC_ROUNDS_DIRECT => Caching::Direct,
            _ => Caching::Buffered,
        };
        match &self.segment {
            Some((open, with, file)) if (*open, *with) == (number, caching) => Ok(file.clone()),
            _ => {
                let file = self.ring.segment(number, caching)?;
                self.segment = Some((number, caching, file.clone()));
                Ok(file)
            }
        }
    }
}

/// Offset past the group at `at`.
fn end_of_group(groups: &[u8], mut at: usize) -> usize {
    let length = take_varint(groups, &mut at).expect("the buffer holds whole groups");
    at + length as usize
}
