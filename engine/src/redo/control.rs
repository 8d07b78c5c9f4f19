//! The control file of the redo log, `redo_control`: where recovery starts, and which epochs the
//! live log has.
//!
//! ```text
//! two slots of 4096 bytes, at 0 and 4096; slot (sequence mod 2) is overwritten in turn, and the
//! valid slot with the larger sequence counts: a torn slot falls back to the checkpoint before
//!   0 checksum      u32  CRC-32C of bytes 4..4096
//!   4 magic         8 bytes "SLUICERC"
//!  12 format        u32  OLDEST_FORMAT to FORMAT; others are refused by name
//!  16 sequence      u64
//!  24 checkpoint    u64  LSN from which recovery reads
//!  32 durable       u64  the log was durable up to here when the slot was written: a scan that
//!                        ends before this met damage
//!  40 segment_size  u64  LSN bytes of one segment file
//!  48 payload_len   u16
//!  50 epochs        u16  how many
//!  52 flags         u32  1 = the log is off (on_off.rs): changes since are in no log; after a
//!                        crash the data files are unusable
//!  56 payload       256 bytes, the engine's
//! 312 epochs        24 bytes each, oldest first:
//!       0 number u32, 4 reserved u32, 8 start u64 (a block's first byte), 16 previous_end u64
//! ```
//! Each opening of the log begins an *epoch* at the next whole block past the end that recovery
//! found (`previous_end`). Blocks of one epoch never validate in another. Epochs wholly below the
//! checkpoint are dropped. Takes no locks. Called by: `log.rs`, `checkpoint.rs` and `on_off.rs`
//! (under `RedoControl`), `reader.rs`.
use super::block_format::{BLOCK_HEADER, FIRST_LSN};
use crate::base::bytes::{get_u16, get_u32, get_u64, put_u16, put_u32, put_u64};
use crate::base::{Error, Lsn, Result};
use crate::io::{AlignedBuf, Caching, Disk, File, Mode};
use std::sync::Arc;

pub const CONTROL_FILE: &str = "redo_control";
const CONTROL_NEW: &str = "redo_control_new";
/// Format in which all files of the log are written: control, segments, blocks, groups. Format 2
/// has the record CUT. The control file is rewritten at each opening. So an older build refuses, by
/// name, a log that may hold that record.
pub const FORMAT: u32 = 2;
/// Oldest format that is read.
pub const OLDEST_FORMAT: u32 = 1;
pub const PAYLOAD_MAX: usize = 256;
const MAGIC: &[u8; 8] = b"SLUICERC";
const SLOT: usize = 4096;
const FLAG_OFF: u32 = 1;
const EPOCHS_AT: usize = 56 + PAYLOAD_MAX;
const EPOCH_BYTES: usize = 24;
/// Bound of openings that appended something, without a checkpoint in between.
const EPOCHS_MAX: usize = 128;
/// With more epochs, recovery writes a checkpoint ([`Control::has_many_epochs`]): an engine may
/// crash many times before a checkpoint comes.
const EPOCHS_MANY: usize = EPOCHS_MAX / 2;

/// A run of the log between two openings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Epoch {
    pub number: u32,
    /// First byte of its first block.
    pub start: Lsn,
    /// End of the epoch before: a scan must reach exactly this LSN before it continues at `start`.
    pub previous_end: Lsn,
}

/// The contents of a slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Control {
    pub sequence: u64,
    pub checkpoint: Lsn,
    pub durable: Lsn,
    pub segment_size: u64,
    pub payload: Vec<u8>,
    /// The log is off.
    pub off: bool,
    pub epochs: Vec<Epoch>,
}

impl Control {
    pub fn new(segment_size: u64) -> Control {
        let start = FIRST_LSN - BLOCK_HEADER as Lsn;
        Control {
            sequence: 1,
            checkpoint: FIRST_LSN,
            durable: FIRST_LSN,
            segment_size,
            payload: Vec::new(),
            off: false,
            epochs: vec![Epoch {
                number: 1,
                start,
                previous_end: FIRST_LSN,
            }],
        }
    }
    pub fn newest_epoch(&self) -> Epoch {
        *self.epochs.last().expect("a log has an epoch")
    }
    /// A checkpoint is due: each opening may add an epoch.
    pub fn has_many_epochs(&self) -> bool {
        self.epochs.len() > EPOCHS_MANY
    }
    /// Begins an epoch at `start`. A newest epoch that never got a block is replaced.
    /// `Error::Full`: too many epochs.
    pub fn begin_epoch(&mut self, start: Lsn, previous_end: Lsn) -> Result<()> {
        let newest = self.newest_epoch();
        let number = newest.number + 1;
        debug_assert!(
            newest.start <= start && previous_end <= start + BLOCK_HEADER as Lsn,
            "an epoch begins past the end of the one before it"
        );
        if newest.start == start {
            self.epochs.pop();
            self.epochs.push(Epoch { number, ..newest });
            return Ok(());
        }
        if self.epochs.len() == EPOCHS_MAX {
            return Err(Error::Full(format!(
                "{CONTROL_FILE}: the log was opened {EPOCHS_MAX} times without a checkpoint"
            )));
        }
        self.epochs.push(Epoch {
            number,
            start,
            previous_end,
        });
        Ok(())
    }
    /// The log continues at `start`, with nothing before it: all older changes are durable in
    /// place.
    pub fn begin_anew(&mut self, start: Lsn, first_lsn: Lsn) {
        let number = self.newest_epoch().number + 1;
        debug_assert!(start <= first_lsn && self.checkpoint <= first_lsn, "LSNs never go back");
        self.epochs = vec![Epoch {
            number,
            start,
            previous_end: first_lsn,
        }];
        self.off = false;
        self.checkpoint = first_lsn;
        self.durable = first_lsn;
    }
    /// Moves the checkpoint, and drops epochs that end below it.
    pub fn advance(&mut self, checkpoint: Lsn, durable: Lsn, payload: &[u8]) {
        assert!(checkpoint >= self.checkpoint, "a checkpoint never goes back");
        debug_assert!(checkpoint <= durable, "recovery reads the log from the checkpoint on");
        self.checkpoint = checkpoint;
        self.durable = durable;
        self.payload = payload.to_vec();
        let below = self.epochs.iter().filter(|e| e.start <= checkpoint).count();
        self.epochs.drain(..below.saturating_sub(1));
        debug_assert!(
            self.epochs
                .windows(2)
                .all(|pair| pair[0].number < pair[1].number && pair[0].start < pair[1].start),
            "epochs are in order, oldest first"
        );
        debug_assert!(!self.epochs.is_empty(), "the epoch of the checkpoint stays");
    }

    fn encode(&self, slot: &mut [u8]) {
        assert!(self.payload.len() <= PAYLOAD_MAX && self.epochs.len() <= EPOCHS_MAX);
        debug_assert!(
            slot.len() == SLOT && !self.epochs.is_empty(),
            "a slot names the epoch that is written"
        );
        slot.fill(0);
        slot[4..12].copy_from_slice(MAGIC);
        put_u32(slot, 12, FORMAT);
        put_u64(slot, 16, self.sequence);
        put_u64(slot, 24, self.checkpoint);
        put_u64(slot, 32, self.durable);
        put_u64(slot, 40, self.segment_size);
        put_u16(slot, 48, self.payload.len() as u16);
        put_u16(slot, 50, self.epochs.len() as u16);
        put_u32(slot, 52, self.off as u32 * FLAG_OFF);
        slot[56..56 + self.payload.len()].copy_from_slice(&self.payload);
        for (i, epoch) in self.epochs.iter().enumerate() {
            let at = EPOCHS_AT + i * EPOCH_BYTES;
            put_u32(slot, at, epoch.number);
            put_u64(slot, at + 8, epoch.start);
            put_u64(slot, at + 16, epoch.previous_end);
        }
        let crc = crc32c::crc32c(&slot[4..]);
        put_u32(slot, 0, crc);
    }
    /// None: no valid slot (torn, or never written). Err: a slot of another format.
    fn decode(slot: &[u8]) -> Result<Option<Control>> {
        if &slot[4..12] != MAGIC || get_u32(slot, 0) != crc32c::crc32c(&slot[4..]) {
            return Ok(None);
        }
        if !is_known_format(get_u32(slot, 12)) {
            return Err(other_format(CONTROL_FILE, get_u32(slot, 12)));
        }
        let payload_len = get_u16(slot, 48) as usize;
        let epochs = get_u16(slot, 50) as usize;
        if payload_len > PAYLOAD_MAX || epochs == 0 || epochs > EPOCHS_MAX {
            return Ok(None);
        }
        let epoch = |i: usize| {
            let at = EPOCHS_AT + i * EPOCH_BYTES;
            Epoch {
                number: get_u32(slot, at),
                start: get_u64(slot, at + 8),
                previous_end: get_u64(slot, at + 16),
            }
        };
        Ok(Some(Control {
            sequence: get_u64(slot, 16),
            checkpoint: get_u64(slot, 24),
            durable: get_u64(slot, 32),
            segment_size: get_u64(slot, 40),
            payload: slot[56..56 + payload_len].to_vec(),
            off: get_u32(slot, 52) & FLAG_OFF != 0,
            epochs: (0..epochs).map(epoch).collect(),
        }))
    }

    /// The newest valid slot.
    pub fn read(disk: &dyn Disk) -> Result<Control> {
        let file = disk.open(CONTROL_FILE, Mode::Open, Caching::Direct)?;
        let mut slots = AlignedBuf::new(2 * SLOT);
        file.read_at(&mut slots, 0)?;
        let first = Control::decode(&slots[..SLOT])?;
        let second = Control::decode(&slots[SLOT..])?;
        let newest = first.into_iter().chain(second).max_by_key(|c| c.sequence);
        newest.ok_or_else(|| {
            Error::corrupt(format!(
                "{}: no valid checkpoint; restore a backup, or recover by hand from the data files",
                file.path()
            ))
        })
    }
    /// Creates the file under its name, whole and durable.
    pub fn create(&self, disk: &dyn Disk) -> Result<()> {
        disk.remove(CONTROL_NEW)?;
        let file = disk.open(CONTROL_NEW, Mode::Create, Caching::Direct)?;
        file.set_len(2 * SLOT as u64)?;
        file.write_at(&AlignedBuf::new(2 * SLOT), 0)?;
        self.write(&*file)?;
        disk.rename(CONTROL_NEW, CONTROL_FILE)
    }
    pub fn open_file(disk: &dyn Disk) -> Result<Arc<dyn File>> {
        disk.open(CONTROL_FILE, Mode::Open, Caching::Direct)
    }
    /// Writes its slot; durable on return.
    pub fn write(&self, file: &dyn File) -> Result<()> {
        let mut slot = AlignedBuf::new(SLOT);
        self.encode(&mut slot);
        file.write_at(&slot, self.sequence % 2 * SLOT as u64)?;
        file.sync()
    }
}

pub fn is_known_format(format: u32) -> bool {
    (OLDEST_FORMAT..=FORMAT).contains(&format)
}
pub fn other_format(file: &str, found: u32) -> Error {
    Error::Unsupported(format!(
        "{file} has redo format {found}, this build reads {OLDEST_FORMAT} to {FORMAT}: shut down cleanly with the version that wrote it"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::SimDisk;

    #[test]
    fn a_torn_slot_falls_back_to_the_one_before() {
        let disk = SimDisk::new(1);
        let mut control = Control::new(65536);
        control.create(&*disk).unwrap();
        let file = Control::open_file(&*disk).unwrap();
        let before = control.clone();
        control.sequence += 1;
        control.advance(9000, 9100, b"payload");
        control.write(&*file).unwrap();
        assert_eq!(Control::read(&*disk).unwrap(), control);
        disk.flip(CONTROL_FILE, control.sequence % 2 * SLOT as u64 + 700, 1);
        assert_eq!(Control::read(&*disk).unwrap(), before);
        disk.flip(CONTROL_FILE, before.sequence % 2 * SLOT as u64 + 700, 1);
        assert!(matches!(Control::read(&*disk), Err(Error::Corrupt(text)) if text.contains(CONTROL_FILE)));
    }

    #[test]
    fn epochs_are_replaced_kept_and_forgotten() {
        let mut control = Control::new(65536);
        control.begin_epoch(8192, 8000).unwrap();
        control.begin_epoch(8192, 8192 + 16).unwrap();
        assert_eq!(control.epochs.len(), 2);
        let newest = control.newest_epoch();
        assert_eq!((newest.number, newest.start, newest.previous_end), (3, 8192, 8000));
        control.begin_epoch(16384, 16000).unwrap();
        control.advance(8000, 17000, b"");
        assert_eq!(control.epochs.len(), 3);
        control.advance(8192 + 16, 17000, b"");
        assert_eq!(control.epochs.iter().map(|e| e.number).collect::<Vec<_>>(), [3, 4]);
    }

    #[test]
    fn another_format_is_refused_by_name() {
        let mut slot = vec![0; SLOT];
        Control::new(65536).encode(&mut slot);
        let mut decode_as = |format| {
            put_u32(&mut slot, 12, format);
            let crc = crc32c::crc32c(&slot[4..]);
            put_u32(&mut slot, 0, crc);
            Control::decode(&slot)
        };
        for known in OLDEST_FORMAT..=FORMAT {
            assert!(decode_as(known).unwrap().is_some());
        }
        for other in [OLDEST_FORMAT - 1, FORMAT + 1] {
            let named = format!("format {other}");
            assert!(matches!(decode_as(other), Err(Error::Unsupported(text)) if text.contains(&named)));
        }
    }
}
