//! The stream of a backup: a head, then frames, each with a checksum and its number.
//!
//! ```text
//! head, 16 bytes
//!   0 magic     8 bytes "SLUICEBK"
//!   8 format    u32  FORMAT; others are refused by name
//!  12 zeros
//! frame, 16 bytes and the payload
//!   0 checksum  u32  CRC-32C of bytes 4 to the end of the payload
//!   4 number    u32  frames before this one
//!   8 kind      u32
//!  12 length    u32  bytes of the payload
//! payload, by kind
//!   BEGIN   database u64, S u64 (LSN from which loads log their pages), files u32,
//!           bytes u64 (of all data files), then LogStart::encode
//!   FILE    file u32, pages u32
//!   PAGES   file u32, first u32, then whole pages
//!   LOG     lsn u64, then blocks of the log, of one segment
//!   BROKEN  file u32, page u32: the page is copied as it is, and its checksum is wrong
//!   COPIED  all data files have been read; LOG frames and END follow
//!   END     point u64, pages u64 (of all PAGES frames), then the text that came with the point.
//!           The engine's part of the stream is complete
//!   FAILED  text: why the backup has failed
//! ```
//! Kinds from `TOOL_KINDS` on are for tools, which add frames of their own to a stream. Takes no
//! locks. Called by: `source`, `restore`, tools.
use crate::base::bytes::{get_u32, put_u32};
use crate::base::{Error, Result};
use std::io::{ErrorKind, Read, Write};

pub const MAGIC: &[u8; 8] = b"SLUICEBK";
pub const FORMAT: u32 = 1;
pub const HEAD: usize = 16;
/// Bytes of a frame before its payload.
pub const FRAME_HEAD: usize = 16;
/// A longer payload is damage.
pub const PAYLOAD_MAX: usize = 4 << 20;

pub const BEGIN: u32 = 1;
pub const FILE: u32 = 2;
pub const PAGES: u32 = 3;
pub const LOG: u32 = 4;
pub const BROKEN: u32 = 5;
pub const COPIED: u32 = 6;
pub const END: u32 = 7;
pub const FAILED: u32 = 8;
/// The first kind of a tool's own frames.
pub const TOOL_KINDS: u32 = 64;

/// Writes a stream.
pub struct FrameWriter<W: Write> {
    out: W,
    number: u32,
    frame: Vec<u8>,
    /// Bytes written.
    pub bytes: u64,
}

impl<W: Write> FrameWriter<W> {
    pub fn new(mut out: W) -> Result<FrameWriter<W>> {
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(MAGIC);
        put_u32(&mut head, 8, FORMAT);
        out.write_all(&head).map_err(write_error)?;
        Ok(FrameWriter {
            out,
            number: 0,
            frame: Vec::new(),
            bytes: HEAD as u64,
        })
    }
    /// Writes a frame. Its payload is `first` and then `rest`.
    pub fn put(&mut self, kind: u32, first: &[u8], rest: &[u8]) -> Result<()> {
        let length = first.len() + rest.len();
        assert!(length <= PAYLOAD_MAX, "frames are short");
        self.frame.clear();
        self.frame.extend([0; 4]);
        for part in [self.number, kind, length as u32] {
            self.frame.extend(part.to_le_bytes());
        }
        self.frame.extend(first);
        self.frame.extend(rest);
        let crc = crc32c::crc32c(&self.frame[4..]);
        put_u32(&mut self.frame, 0, crc);
        debug_assert_eq!(
            self.frame.len(),
            FRAME_HEAD + length,
            "the head says how long the payload is"
        );
        self.out.write_all(&self.frame).map_err(write_error)?;
        self.number = self.number.wrapping_add(1);
        self.bytes += self.frame.len() as u64;
        Ok(())
    }
    pub fn flush(&mut self) -> Result<()> {
        self.out.flush().map_err(write_error)
    }
    pub fn into_inner(self) -> W {
        self.out
    }
}

fn write_error(e: std::io::Error) -> Error {
    match e.kind() {
        ErrorKind::BrokenPipe => Error::io("the program that takes the backup has ended"),
        ErrorKind::StorageFull => Error::Full(format!("the backup cannot be written: {e}")),
        _ => Error::io(format!("the backup cannot be written: {e}")),
    }
}

/// Reads a stream.
pub struct FrameReader<R: Read> {
    from: R,
    number: u32,
    frame: Vec<u8>,
}

/// A frame that was read: its kind, and its payload.
pub type Frame<'a> = (u32, &'a [u8]);

impl<R: Read> FrameReader<R> {
    pub fn new(mut from: R) -> Result<FrameReader<R>> {
        let mut head = [0; HEAD];
        from.read_exact(&mut head).map_err(read_error)?;
        if &head[..8] != MAGIC {
            return Err(Error::corrupt("this is not a backup of Sluice"));
        }
        match get_u32(&head, 8) {
            FORMAT => Ok(FrameReader {
                from,
                number: 0,
                frame: Vec::new(),
            }),
            other => Err(Error::Unsupported(format!(
                "the backup has format {other}, this program reads format {FORMAT}"
            ))),
        }
    }
    /// The next frame. `Error::Corrupt`: the frame is damaged, or the stream ends before it.
    pub fn next_frame(&mut self) -> Result<Frame<'_>> {
        self.frame.resize(FRAME_HEAD, 0);
        self.from.read_exact(&mut self.frame).map_err(read_error)?;
        let (number, kind) = (get_u32(&self.frame, 4), get_u32(&self.frame, 8));
        let length = get_u32(&self.frame, 12) as usize;
        if number != self.number || length > PAYLOAD_MAX {
            return Err(self.damaged());
        }
        self.frame.resize(FRAME_HEAD + length, 0);
        self.from
            .read_exact(&mut self.frame[FRAME_HEAD..])
            .map_err(read_error)?;
        if get_u32(&self.frame, 0) != crc32c::crc32c(&self.frame[4..]) {
            return Err(self.damaged());
        }
        self.number = self.number.wrapping_add(1);
        Ok((kind, &self.frame[FRAME_HEAD..]))
    }
    fn damaged(&self) -> Error {
        Error::corrupt(format!(
            "the backup is damaged: frame {} is not what was written",
            self.number
        ))
    }
}

fn read_error(e: std::io::Error) -> Error {
    match e.kind() {
        ErrorKind::UnexpectedEof => Error::corrupt("the backup is not whole: it ends before its last frame"),
        _ => Error::io(format!("the backup cannot be read: {e}")),
    }
}
