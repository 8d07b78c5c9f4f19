//! The redo log of a stopped engine: control file, segments, blocks, groups, as `engine/src/redo/`
//! draws them. Reads forward from the checkpoint to the log's end, and distinguishes a torn tail,
//! which a crash leaves, from damage.
use crate::bytes::{u16_at, u32_at, u64_at};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const SLOT: usize = 4096;
const SEGMENT_HEADER: u64 = 4096;
/// Formats that are read; from 2 on there are records CUT.
const FORMATS: std::ops::RangeInclusive<u32> = 1..=2;
const BLOCK: u64 = 512;
const HEADER: u64 = 16;
/// This far past the log's end there may be blocks that were written before the end was durable.
/// The next start looks as far.
const LOOK_AHEAD: u64 = 18 << 20;
const DATA: u64 = BLOCK - HEADER;
/// Payload of every checkpoint but those of a creation that is not finished.
const READY: &[u8] = b"SLUICE-READY-1";

/// Takes a group: (LSN after it, bytes).
pub type EachGroup<'a> = &'a mut dyn FnMut(u64, &[u8]) -> Result<(), String>;

pub struct Epoch {
    number: u32,
    start: u64,
    previous_end: u64,
}

/// The newest valid slot of `redo_control`.
pub struct Control {
    pub checkpoint: u64,
    pub durable: u64,
    segment_size: u64,
    pub is_ready: bool,
    /// Changes were made that are in no log.
    pub is_off: bool,
    epochs: Vec<Epoch>,
}

pub struct Log {
    pub control: Control,
    segments: BTreeMap<u64, File>,
    /// Numbers of the segments that are here, whole or not.
    numbers: BTreeSet<u64>,
    pub findings: Vec<String>,
    /// LSN after the last whole group.
    pub end: u64,
    pub groups: u64,
}

fn reads() -> String {
    format!("this program reads {} to {}", FORMATS.start(), FORMATS.end())
}

impl Control {
    pub fn read(dir: &Path) -> Result<Control, String> {
        let bytes = std::fs::read(dir.join("redo_control")).map_err(|e| {
            format!("redo_control: {e}; without it the log is not there, and the engine refuses the start")
        })?;
        let slots = bytes
            .chunks_exact(SLOT)
            .take(2)
            .filter(|slot| &slot[4..12] == b"SLUICERC" && u32_at(slot, 0) == crc32c::crc32c(&slot[4..]));
        let newest = slots.max_by_key(|slot| u64_at(slot, 16));
        let slot = newest.ok_or("redo_control: neither of its two checkpoints is whole")?;
        let format = u32_at(slot, 12);
        if !FORMATS.contains(&format) {
            return Err(format!("redo_control: format {format}; {}", reads()));
        }
        let payload = u16_at(slot, 48) as usize;
        let epochs = (0..(u16_at(slot, 50) as usize).min(128)).map(|i| {
            let at = 312 + 24 * i;
            Epoch {
                number: u32_at(slot, at),
                start: u64_at(slot, at + 8),
                previous_end: u64_at(slot, at + 16),
            }
        });
        let control = Control {
            checkpoint: u64_at(slot, 24),
            durable: u64_at(slot, 32),
            segment_size: u64_at(slot, 40),
            is_ready: slot.get(56..56 + payload).is_some_and(|it| it.starts_with(READY)),
            is_off: u32_at(slot, 52) & 1 != 0,
            epochs: epochs.collect(),
        };
        if control.segment_size == 0 || control.segment_size % BLOCK != 0 || control.epochs.is_empty() {
            return Err("redo_control: its numbers make no sense".into());
        }
        Ok(control)
    }
}

fn segment_name(number: u64) -> String {
    format!("redo_{number:08}")
}
fn position_of(lsn: u64) -> u64 {
    lsn / BLOCK * DATA + (lsn % BLOCK).saturating_sub(HEADER)
}
fn lsn_of(position: u64) -> u64 {
    position / DATA * BLOCK + HEADER + position % DATA
}

struct Block {
    number: u64,
    data: Vec<u8>,
    /// Blocks with smaller numbers were durable when this one was written.
    durable_below: u64,
}

impl Log {
    pub fn open(dir: &Path) -> Result<Log, String> {
        let control = Control::read(dir)?;
        let mut log = Log {
            end: control.checkpoint,
            control,
            segments: BTreeMap::new(),
            numbers: BTreeSet::new(),
            findings: Vec::new(),
            groups: 0,
        };
        for entry in std::fs::read_dir(dir).map_err(|e| e.to_string())?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let number = name.strip_prefix("redo_").and_then(|digits| digits.parse().ok());
            if let Some(number) = number.filter(|number| segment_name(*number) == name) {
                log.numbers.insert(number);
                let file = File::open(entry.path()).map_err(|e| format!("{name}: {e}"))?;
                if let Err(what) = log.check_segment(&file, number) {
                    // Segments in front of the checkpoint are leftovers.
                    if (number + 1) * log.control.segment_size > log.control.checkpoint {
                        log.findings.push(format!("{name}: {what}"));
                    }
                    continue;
                }
                log.segments.insert(number, file);
            }
        }
        Ok(log)
    }

    fn check_segment(&self, file: &File, number: u64) -> Result<(), String> {
        let size = file.metadata().map_err(|e| e.to_string())?.len();
        if size != SEGMENT_HEADER + self.control.segment_size {
            return Err(format!(
                "it has {size} bytes, {} are right",
                SEGMENT_HEADER + self.control.segment_size
            ));
        }
        let mut header = [0; 64];
        file.read_exact_at(&mut header, 0).map_err(|e| e.to_string())?;
        if &header[4..12] != b"SLUICERL" || u32_at(&header, 0) != crc32c::crc32c(&header[4..]) {
            return Err("its header is damaged".into());
        }
        if !FORMATS.contains(&u32_at(&header, 12)) {
            return Err(format!("format {}; {}", u32_at(&header, 12), reads()));
        }
        if (u64_at(&header, 16), u64_at(&header, 24)) != (number, self.control.segment_size) {
            return Err(format!("its header is that of segment {}", u64_at(&header, 16)));
        }
        Ok(())
    }

    /// A block of that number, written whole in `epoch`.
    fn block(&self, number: u64, epoch: u32) -> Option<Block> {
        let lsn = number * BLOCK;
        let file = self.segments.get(&(lsn / self.control.segment_size))?;
        let mut bytes = [0; BLOCK as usize];
        file.read_exact_at(&mut bytes, SEGMENT_HEADER + lsn % self.control.segment_size)
            .ok()?;
        if u32_at(&bytes, 4) != number as u32 {
            return None;
        }
        let crc = crc32c::crc32c(&epoch.to_le_bytes());
        let crc = crc32c::crc32c_append(crc, &number.to_le_bytes());
        if u32_at(&bytes, 0) != crc32c::crc32c_append(crc, &bytes[4..]) {
            return None;
        }
        let length = u16_at(&bytes, 12) as usize;
        let durable_below = number.checked_sub(u32_at(&bytes, 8) as u64)?;
        (1..=DATA as usize).contains(&length).then(|| Block {
            number,
            data: bytes[HEADER as usize..HEADER as usize + length].to_vec(),
            durable_below,
        })
    }

    /// Gives every whole group to `each`: (LSN after it, bytes).
    pub fn replay(&mut self, each: EachGroup<'_>) {
        let epochs = std::mem::take(&mut self.control.epochs);
        let first = epochs
            .iter()
            .rposition(|e| e.start <= self.control.checkpoint)
            .unwrap_or(0);
        let mut start = position_of(self.control.checkpoint);
        for (i, epoch) in epochs.iter().enumerate().skip(first) {
            if i > first {
                start = position_of(epoch.start);
            }
            let limit = epochs.get(i + 1).map(|next| position_of(next.previous_end));
            let reached = self.replay_epoch(epoch.number, start, limit, each);
            if let Some(limit) = limit.filter(|limit| reached != *limit) {
                self.findings.push(format!(
                    "the log is damaged at LSN {}: it once reached {}",
                    lsn_of(reached),
                    lsn_of(limit)
                ));
                self.check_numbers(reached);
                return;
            }
            if limit.is_none() {
                self.check_end(epoch.number, reached);
                self.check_numbers(reached);
            }
        }
    }

    /// Returns the position up to which blocks were valid.
    fn replay_epoch(&mut self, epoch: u32, start: u64, limit: Option<u64>, each: EachGroup<'_>) -> u64 {
        let mut position = start;
        // Bytes of the stream from `held_at` on that are not yet whole groups.
        let (mut held, mut held_at) = (Vec::new(), start);
        while limit.is_none_or(|limit| position < limit) {
            let Some(block) = self.block(position / DATA, epoch) else {
                break;
            };
            let skip = (position % DATA) as usize;
            let mut data = block.data.get(skip..).unwrap_or(&[]);
            if let Some(limit) = limit {
                data = &data[..data.len().min((limit - position) as usize)];
            }
            if data.is_empty() {
                break;
            }
            held.extend_from_slice(data);
            position += data.len() as u64;
            while let Some((prefix, len)) = whole_group(&held) {
                let end = lsn_of(held_at + (prefix + len) as u64);
                if let Err(what) = each(end, &held[prefix..prefix + len]) {
                    self.findings
                        .push(format!("the redo group that ends at LSN {end}: {what}"));
                }
                self.groups += 1;
                self.end = end;
                held_at += (prefix + len) as u64;
                held.drain(..prefix + len);
            }
            if block.data.len() < DATA as usize {
                debug_assert!(block.number == (position - 1) / DATA);
                break;
            }
        }
        position
    }

    /// Is this the end of the log, or a hole in it?
    fn check_end(&mut self, epoch: u32, reached: u64) {
        let at = lsn_of(reached);
        if reached < position_of(self.control.durable) {
            let durable = self.control.durable;
            let is_here = self.numbers.contains(&(at / self.control.segment_size));
            self.findings.push(match is_here {
                true => format!("the log is damaged at LSN {at}: it was durable up to {durable}"),
                false => format!(
                    "the log was durable up to LSN {durable} when the control file was written; it ends at LSN {at}: segments are missing"
                ),
            });
            return;
        }
        let hole = reached / DATA;
        let last = self
            .segments
            .keys()
            .next_back()
            .map_or(0, |n| (n + 1) * self.control.segment_size / BLOCK)
            .min(hole + LOOK_AHEAD / BLOCK + 1);
        let later = (hole + 1..last).find(|n| self.block(*n, epoch).is_some_and(|block| block.durable_below > hole));
        if let Some(later) = later {
            let later = later * BLOCK;
            self.findings.push(format!(
                "the log is damaged at LSN {at}: the block at LSN {later} was written when it was durable"
            ));
        }
        if self.block(position_of(self.end).div_ceil(DATA), epoch + 1).is_some() {
            self.findings.push(format!(
                "redo_control: the log goes on past LSN {} in epoch {}, which this file does not know: it is older than the log",
                self.end,
                epoch + 1
            ));
        }
    }

    /// The segments from the checkpoint's on, as far as the next start reads, have no gap. There
    /// may be fewer at the end of the ring. While the log is off their numbers mean nothing.
    fn check_numbers(&mut self, reached: u64) {
        if self.control.is_off || !self.control.is_ready {
            return;
        }
        let size = self.control.segment_size;
        let needed = self.control.checkpoint / size;
        if !self.numbers.contains(&needed) {
            self.findings.push(format!(
                "{}: the segment is missing: none holds the checkpoint, LSN {}",
                segment_name(needed),
                self.control.checkpoint
            ));
            return;
        }
        let read = (reached / DATA * BLOCK + LOOK_AHEAD) / size;
        let last = self.numbers.last().copied().unwrap_or(needed);
        let missing = (needed..=read.min(last)).find(|number| !self.numbers.contains(number));
        if let Some(missing) = missing {
            self.findings.push(format!(
                "{}: the segment is missing, later ones are here",
                segment_name(missing)
            ));
        }
    }
}

/// (bytes of the length, length) of the group in front, if all of it is there.
fn whole_group(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut reader = crate::bytes::Reader::new(bytes);
    let len = usize::try_from(reader.varint()?).ok()?;
    let prefix = bytes.len() - reader.rest().len();
    (len > 0 && reader.rest().len() >= len).then_some((prefix, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_leave_out_the_block_headers() {
        for position in [0, 1, DATA - 1, DATA, 7 * DATA + 5] {
            assert_eq!(position_of(lsn_of(position)), position);
        }
        assert_eq!(lsn_of(DATA), BLOCK + HEADER);
    }
}
