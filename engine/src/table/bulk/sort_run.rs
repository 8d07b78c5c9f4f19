//! Sorted runs of entries in temporary files (`sort.rs`): how they are written, and read back.
//!
//! A file takes many runs, one after the other, and is removed with the last of them. It is named
//! `tmp_*`: such files are removed when the engine is opened. Runs take disk space on top of
//! the index itself, so a record leaves out what it has in common with the record before:
//! ```text
//! shared varint   bytes of the key that are those of the key before
//! rest   bytes    the key's other bytes
//! note   varint   four times the caller's number, and how the value is written:
//!                 0 bytes; 1 it is the one before; 2 a piece of it is in the key (an index over
//!                 texts that are their own weights); 3 the same, with head, place and tail of the
//!                 last 2:
//! len    varint   (if 2 or 3) of the piece
//! at     varint   (if 2) its place in the key
//! head   bytes    (if 2) before the piece
//! tail   bytes    (if 2) after the piece
//! ```
//! bytes = varint length + data.
//!
//! Called by `sort`.
use crate::base::bytes::{common_prefix, push_bytes, push_varint, take_bytes, take_varint};
use crate::base::{Error, Result};
use crate::io::{Caching, Disk, File, Mode, IO_ALIGN};
use std::sync::Arc;

/// Bytes written of a run at once, and read of it if memory allows.
pub const CHUNK: usize = 256 << 10;
/// A file of so many bytes gets no more runs. One descriptor serves a GiB, and disk space comes
/// back in such pieces while runs are merged.
const FILE_MAX: u64 = 1 << 30;

/// A file with runs, removed when the last of them goes.
pub struct RunFile {
    disk: Arc<dyn Disk>,
    name: String,
    file: Arc<dyn File>,
}

impl Drop for RunFile {
    fn drop(&mut self) {
        // A file that stays is removed at the next open.
        let _ = self.disk.remove(&self.name);
    }
}

/// Where the next run goes: the file and the place in it.
pub type RunPlace = (Arc<RunFile>, u64);

/// After the last run, or in a new file.
pub fn place_for_run(disk: &Arc<dyn Disk>, after: Option<RunPlace>) -> Result<RunPlace> {
    if let Some(place) = after.filter(|(_, at)| *at < FILE_MAX) {
        return Ok(place);
    }
    let name = format!("tmp_sort_{:016x}", disk.random());
    let file = disk.open(&name, Mode::Create, Caching::Buffered)?;
    let disk = disk.clone();
    Ok((Arc::new(RunFile { disk, name, file }), 0))
}

/// A sorted run, somewhere in a file.
pub struct Run {
    file: Arc<RunFile>,
    at: u64,
    pub len: u64,
}

impl Run {
    /// Where the next one may begin.
    pub fn next_place(&self) -> RunPlace {
        (
            self.file.clone(),
            (self.at + self.len).next_multiple_of(IO_ALIGN as u64),
        )
    }
}

/// Writes a run from its start.
pub struct Writer {
    run: Run,
    out: Vec<u8>,
    /// Of the last entry.
    key: Vec<u8>,
    value: Vec<u8>,
    frame: Option<Frame>,
}

impl Writer {
    pub fn new((file, at): RunPlace) -> Writer {
        debug_assert_eq!(at % IO_ALIGN as u64, 0, "a run begins with a block");
        Writer {
            run: Run { file, at, len: 0 },
            out: Vec::with_capacity(CHUNK + (64 << 10)),
            key: Vec::new(),
            value: Vec::new(),
            frame: None,
        }
    }
    /// In key order.
    pub fn push(&mut self, key: &[u8], value: &[u8], note: u64) -> Result<()> {
        debug_assert!(key >= &self.key[..], "a run is written in key order");
        let shared = common_prefix(&self.key, key);
        push_varint(&mut self.out, shared as u64);
        push_bytes(&mut self.out, &key[shared..]);
        push_value(&mut self.out, note, key, value, &self.value, &mut self.frame);
        self.key.truncate(shared);
        self.key.extend_from_slice(&key[shared..]);
        refill(&mut self.value, value);
        match self.out.len() {
            CHUNK.. => self.write(self.out.len() / IO_ALIGN * IO_ALIGN),
            _ => Ok(()),
        }
    }
    fn write(&mut self, n: usize) -> Result<()> {
        debug_assert_eq!(
            self.run.len % IO_ALIGN as u64,
            0,
            "only the last write is not whole blocks"
        );
        let run = &mut self.run;
        run.file.file.write_at(&self.out[..n], run.at + run.len)?;
        run.len += n as u64;
        self.out.drain(..n);
        Ok(())
    }
    pub fn end(mut self) -> Result<Run> {
        self.write(self.out.len())?;
        Ok(self.run)
    }
}

fn refill(kept: &mut Vec<u8>, bytes: &[u8]) {
    kept.clear();
    kept.extend_from_slice(bytes);
}

const WHOLE: u64 = 0;
const SAME: u64 = 1;
const IN_KEY: u64 = 2;
const FRAMED: u64 = 3;
/// Shorter values are not looked for in the key.
const PIECE_MIN: usize = 16;

/// What a value has around a piece of its key.
#[derive(Default)]
struct Frame {
    /// Place of the piece in the key.
    at: usize,
    head: Vec<u8>,
    tail: Vec<u8>,
}

/// Note and value of an entry. `frame`: the last one written.
fn push_value(out: &mut Vec<u8>, note: u64, key: &[u8], value: &[u8], before: &[u8], frame: &mut Option<Frame>) {
    if value == before {
        return push_varint(out, note << 2 | SAME);
    }
    let Some((start, at, len)) = piece_in(key, value) else {
        push_varint(out, note << 2 | WHOLE);
        return push_bytes(out, value);
    };
    let (head, tail) = (&value[..start], &value[start + len..]);
    let as_before = |frame: &Frame| frame.at == at && frame.head == head && frame.tail == tail;
    let kind = if frame.as_ref().is_some_and(as_before) {
        FRAMED
    } else {
        IN_KEY
    };
    push_varint(out, note << 2 | kind);
    push_varint(out, len as u64);
    if kind == IN_KEY {
        push_varint(out, at as u64);
        push_bytes(out, head);
        push_bytes(out, tail);
        let frame = frame.get_or_insert_default();
        frame.at = at;
        refill(&mut frame.head, head);
        refill(&mut frame.tail, tail);
    }
}

/// A piece of the value, taken from its middle outwards, that is also in the key: (start in the
/// value, place in the key, length).
fn piece_in(key: &[u8], value: &[u8]) -> Option<(usize, usize, usize)> {
    if value.len() < PIECE_MIN || key.len() < PIECE_MIN {
        return None;
    }
    let middle = value.len() / 2;
    let anchor = &value[middle..middle + 8];
    let found = key.windows(8).position(|w| w == anchor)?;
    let left = (value[..middle].iter().rev().zip(key[..found].iter().rev()))
        .take_while(|(a, b)| a == b)
        .count();
    let right = common_prefix(&value[middle..], &key[found..]);
    debug_assert!(
        right >= 8 && left <= middle.min(found),
        "the anchor is a part of the piece"
    );
    Some((middle - left, found - left, left + right))
}

/// Reads a run from its start.
pub struct Reader<'r> {
    run: &'r Run,
    /// Bytes read at once.
    step: usize,
    /// Place in the run after `chunk`.
    read: u64,
    chunk: Vec<u8>,
    at: usize,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    pub note: u64,
    frame: Frame,
}

impl<'r> Reader<'r> {
    /// `step`: bytes to read at once; an entry may be longer.
    pub fn new(run: &'r Run, step: usize) -> Reader<'r> {
        debug_assert!(
            step > 0 && step % IO_ALIGN == 0,
            "a run is read in whole blocks, from its first one"
        );
        Reader {
            run,
            step,
            read: 0,
            chunk: Vec::new(),
            at: 0,
            key: Vec::new(),
            value: Vec::new(),
            note: 0,
            frame: Frame::default(),
        }
    }
    /// To the next entry. False: the run ends.
    pub fn advance(&mut self) -> Result<bool> {
        loop {
            if self.take().is_some() {
                return Ok(true);
            }
            if self.read == self.run.len {
                if self.at == self.chunk.len() {
                    return Ok(false);
                }
                return Err(Error::corrupt(format!(
                    "sort file {} ends inside an entry",
                    self.run.file.name
                )));
            }
            self.chunk.drain(..self.at);
            self.at = 0;
            let n = (self.run.len - self.read).min(self.step as u64) as usize;
            let start = self.chunk.len();
            self.chunk.resize(start + n, 0);
            let place = self.run.at + self.read;
            self.run.file.file.read_at(&mut self.chunk[start..], place)?;
            self.read += n as u64;
            debug_assert!(self.read <= self.run.len, "a read ends where its run ends");
        }
    }
    /// The entry at `at`, if all of it has been read.
    fn take(&mut self) -> Option<()> {
        let mut at = self.at;
        let shared = take_varint(&self.chunk, &mut at)? as usize;
        let rest = take_bytes(&self.chunk, &mut at)?;
        let note = take_varint(&self.chunk, &mut at)?;
        // The whole entry is read before anything is changed: it may have to be taken again.
        let whole = match note & 3 {
            WHOLE => Some(take_bytes(&self.chunk, &mut at)?),
            _ => None,
        };
        let piece = match note & 3 {
            IN_KEY | FRAMED => Some(take_varint(&self.chunk, &mut at)? as usize),
            _ => None,
        };
        let frame = match note & 3 {
            IN_KEY => Some((
                take_varint(&self.chunk, &mut at)? as usize,
                take_bytes(&self.chunk, &mut at)?,
                take_bytes(&self.chunk, &mut at)?,
            )),
            _ => None,
        };
        self.key.truncate(shared);
        self.key.extend_from_slice(rest);
        if let Some(whole) = whole {
            refill(&mut self.value, whole);
        }
        if let Some((at, head, tail)) = frame {
            self.frame.at = at;
            refill(&mut self.frame.head, head);
            refill(&mut self.frame.tail, tail);
        }
        if let Some(len) = piece {
            let Frame { at, head, tail } = &self.frame;
            self.value.clear();
            self.value.extend_from_slice(head);
            self.value.extend_from_slice(&self.key[*at..at + len]);
            self.value.extend_from_slice(tail);
        }
        self.note = note >> 2;
        self.at = at;
        Some(())
    }
}
