//! The tool's own frames in a backup's stream, and compressed frames.
//!
//! ```text
//! REST    bytes of the stream of mariadb-backup, or of one like it (`plain_files`), in their order
//! ABOUT   lines `name=value`
//! BLANK   file u32, first u32, count u32: pages that the base has, and that are zeros now
//! PACKED  kind u32, length u32, then the frame's payload, compressed (LZ4 block)
//! DONE    no payload: the last frame of a whole backup
//! ```
use crate::Result;
use sluice::engine::backup::format::{FrameReader, FrameWriter, PAYLOAD_MAX, TOOL_KINDS};
use std::collections::BTreeMap;
use std::io::{Read, Write};

pub const REST: u32 = TOOL_KINDS;
pub const ABOUT: u32 = TOOL_KINDS + 1;
pub const BLANK: u32 = TOOL_KINDS + 2;
pub const PACKED: u32 = TOOL_KINDS + 3;
pub const DONE: u32 = TOOL_KINDS + 4;

/// Values of `kind` in the metadata: which files a backup has.
pub const ALL_ENGINES: &str = "all engines";
pub const SLUICE_ONLY: &str = "sluice only";
/// All files of a server whose InnoDB is the stand-in. There is nothing for `mariadb-backup` to
/// prepare.
pub const WITHOUT_INNODB: &str = "all engines, no InnoDB";

/// The metadata of a backup.
pub type About = BTreeMap<String, String>;

pub fn about_text(about: &About) -> String {
    about.iter().map(|(name, value)| format!("{name}={value}\n")).collect()
}

pub fn parse_about(text: &[u8]) -> About {
    let text = String::from_utf8_lossy(text);
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect()
}

pub fn u32_at(bytes: &[u8], at: usize) -> Result<u32> {
    let found = bytes.get(at..at + 4).and_then(|b| b.try_into().ok());
    found
        .map(u32::from_le_bytes)
        .ok_or_else(|| "the backup is damaged: a frame is too short".to_string())
}

pub fn u64_at(bytes: &[u8], at: usize) -> Result<u64> {
    Ok(u32_at(bytes, at)? as u64 | (u32_at(bytes, at + 4)? as u64) << 32)
}

/// Writes frames, compressed if that is wanted and gains something.
pub struct Packer<W: Write> {
    frames: FrameWriter<W>,
    compress: bool,
}

impl<W: Write> Packer<W> {
    pub fn new(out: W, compress: bool) -> Result<Packer<W>> {
        let frames = FrameWriter::new(out).map_err(|e| e.to_string())?;
        Ok(Packer { frames, compress })
    }
    pub fn put(&mut self, kind: u32, payload: &[u8]) -> Result<()> {
        if self.compress && payload.len() > 64 {
            let packed = lz4_flex::block::compress(payload);
            if packed.len() + 8 < payload.len() {
                let head = [kind.to_le_bytes(), (payload.len() as u32).to_le_bytes()].concat();
                return self.frames.put(PACKED, &head, &packed).map_err(|e| e.to_string());
            }
        }
        self.frames.put(kind, payload, b"").map_err(|e| e.to_string())
    }
    pub fn bytes(&self) -> u64 {
        self.frames.bytes
    }
    pub fn flush(&mut self) -> Result<()> {
        self.frames.flush().map_err(|e| e.to_string())
    }
    pub fn into_inner(self) -> W {
        self.frames.into_inner()
    }
}

/// Reads frames, and unpacks them.
pub struct Unpacker<R: Read> {
    frames: FrameReader<R>,
    unpacked: Vec<u8>,
}

impl<R: Read> Unpacker<R> {
    pub fn new(from: R) -> Result<Unpacker<R>> {
        Ok(Unpacker {
            frames: FrameReader::new(from).map_err(|e| e.to_string())?,
            unpacked: Vec::new(),
        })
    }
    pub fn next_frame(&mut self) -> Result<(u32, &[u8])> {
        let (kind, payload) = self.frames.next_frame().map_err(|e| e.to_string())?;
        if kind != PACKED {
            return Ok((kind, payload));
        }
        let (kind, length) = (u32_at(payload, 0)?, u32_at(payload, 4)? as usize);
        if length > PAYLOAD_MAX || kind == PACKED {
            return Err("the backup is damaged: a compressed frame is too long".into());
        }
        self.unpacked.resize(length, 0);
        match lz4_flex::block::decompress_into(&payload[8..], &mut self.unpacked) {
            Ok(n) if n == length => Ok((kind, &self.unpacked)),
            _ => Err("the backup is damaged: a frame cannot be decompressed".into()),
        }
    }
}
