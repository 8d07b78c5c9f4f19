//! Redo records: the changes of one mini-transaction, as byte edits of pages and file operations.
//!
//! Page records carry no meaning of the page: recovery needs no tree code. They are encoded back to
//! back inside a group:
//! ```text
//! PAGE      0x01 file:varint page:varint            the records below are about this page
//! WRITE     0x02 offset:varint bytes                bytes = varint length + data
//! MOVE      0x03 dst:varint src:varint len:varint   memmove inside the page
//! IMAGE     0x04 low:bytes high:bytes               whole page from byte 0: low bytes, zeros, high
//!                                                   bytes at the end; the page need not be read
//!                                                   (or be valid) before
//! FILE_NEW  0x10 file:varint name:bytes             data file was created (already durable)
//! FILE_DROP 0x11 file:varint                        data file is being removed
//! GIVEN     0x12 file:varint first:varint count:varint   earlier records about these pages are
//!                                                   void: they are written past the log from here
//!                                                   on (pool/direct.rs)
//! CUT       0x13 file:varint first:varint           earlier records about the file's pages from
//!                                                   `first` on are void: the file ends there
//!                                                   (space/truncate.rs)
//! NOTE      0x20 kind:varint payload:bytes          for upper layers, e.g. tests
//! ```
//! Bytes 0..4 (checksum) and 16..24 (page LSN) of a page are never part of a record: the pool sets
//! them. Called by: `pool` (mini-transactions, recovery, repair of torn pages), `engine` at open.
use crate::base::bytes::{push_bytes, push_varint, take_bytes, take_varint};
use crate::base::{Error, FileId, PageId, Result};

/// A decoded record.
#[derive(Debug, PartialEq, Eq)]
pub enum Record<'a> {
    Page(PageId),
    Write { offset: usize, data: &'a [u8] },
    Move { dst: usize, src: usize, len: usize },
    Image { low: &'a [u8], high: &'a [u8] },
    FileNew { file: FileId, name: &'a [u8] },
    FileDrop { file: FileId },
    Given { first: PageId, count: u32 },
    Truncate { first: PageId },
    Note { kind: u64, payload: &'a [u8] },
}

/// Collects the records of one group.
#[derive(Default)]
pub struct RecordSink {
    bytes: Vec<u8>,
    page: Option<PageId>,
}

impl RecordSink {
    pub fn with_buffer(mut bytes: Vec<u8>) -> RecordSink {
        bytes.clear();
        RecordSink { bytes, page: None }
    }
    pub fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
    fn about(&mut self, page: PageId) {
        if self.page != Some(page) {
            self.page = Some(page);
            self.bytes.push(0x01);
            push_varint(&mut self.bytes, page.file as u64);
            push_varint(&mut self.bytes, page.no as u64);
        }
    }
    pub fn write(&mut self, page: PageId, offset: usize, data: &[u8]) {
        debug_assert!(!data.is_empty(), "a record changes something");
        self.about(page);
        self.bytes.push(0x02);
        push_varint(&mut self.bytes, offset as u64);
        push_bytes(&mut self.bytes, data);
    }
    pub fn move_within(&mut self, page: PageId, dst: usize, src: usize, len: usize) {
        debug_assert!(len > 0 && dst != src, "a record changes something");
        self.about(page);
        self.bytes.push(0x03);
        push_varint(&mut self.bytes, dst as u64);
        push_varint(&mut self.bytes, src as u64);
        push_varint(&mut self.bytes, len as u64);
    }
    /// `page_bytes`: the whole page. The zeros from `low_end` to `high_start` are left out.
    pub fn image(&mut self, page: PageId, page_bytes: &[u8], low_end: usize, high_start: usize) {
        debug_assert!(page_bytes[low_end..high_start].iter().all(|b| *b == 0));
        self.about(page);
        self.bytes.push(0x04);
        push_bytes(&mut self.bytes, &page_bytes[..low_end]);
        push_bytes(&mut self.bytes, &page_bytes[high_start..]);
    }
    pub fn file_new(&mut self, file: FileId, name: &str) {
        self.bytes.push(0x10);
        push_varint(&mut self.bytes, file as u64);
        push_bytes(&mut self.bytes, name.as_bytes());
    }
    pub fn file_drop(&mut self, file: FileId) {
        self.bytes.push(0x11);
        push_varint(&mut self.bytes, file as u64);
    }
    pub fn given(&mut self, first: PageId, count: u32) {
        debug_assert!(
            count > 0 && first.no.checked_add(count).is_some(),
            "pages of one file are given"
        );
        self.bytes.push(0x12);
        push_varint(&mut self.bytes, first.file as u64);
        push_varint(&mut self.bytes, first.no as u64);
        push_varint(&mut self.bytes, count as u64);
    }
    pub fn truncate(&mut self, first: PageId) {
        debug_assert!(first.no > 0, "a file keeps its header");
        self.bytes.push(0x13);
        push_varint(&mut self.bytes, first.file as u64);
        push_varint(&mut self.bytes, first.no as u64);
    }
    pub fn note(&mut self, kind: u64, payload: &[u8]) {
        self.bytes.push(0x20);
        push_varint(&mut self.bytes, kind);
        push_bytes(&mut self.bytes, payload);
    }
}

/// Decodes a group, record by record.
pub fn decode<'a>(group: &'a [u8], mut each: impl FnMut(Record<'a>) -> Result<()>) -> Result<()> {
    decode_at(group, |_, _, record| each(record))
}

/// As `decode`. `each` also gets the offsets at which the record begins and ends.
pub fn decode_at<'a>(group: &'a [u8], mut each: impl FnMut(usize, usize, Record<'a>) -> Result<()>) -> Result<()> {
    let mut at = 0;
    while at < group.len() {
        let start = at;
        let record = decode_one(group, &mut at)
            .ok_or_else(|| Error::corrupt(format!("redo record at byte {at} of a group cannot be decoded")))?;
        each(start, at, record)?;
    }
    Ok(())
}

/// The encoded records begin with an IMAGE.
pub fn begins_with_image(records: &[u8]) -> bool {
    records.first() == Some(&0x04)
}

fn decode_one<'a>(b: &'a [u8], at: &mut usize) -> Option<Record<'a>> {
    let kind = *b.get(*at)?;
    *at += 1;
    let int = |at: &mut usize| take_varint(b, at);
    Some(match kind {
        0x01 => {
            let file = u32::try_from(int(at)?).ok()?;
            Record::Page(PageId::new(file, u32::try_from(int(at)?).ok()?))
        }
        0x02 => Record::Write {
            offset: int(at)? as usize,
            data: take_bytes(b, at)?,
        },
        0x03 => Record::Move {
            dst: int(at)? as usize,
            src: int(at)? as usize,
            len: int(at)? as usize,
        },
        0x04 => Record::Image {
            low: take_bytes(b, at)?,
            high: take_bytes(b, at)?,
        },
        0x10 => Record::FileNew {
            file: u32::try_from(int(at)?).ok()?,
            name: take_bytes(b, at)?,
        },
        0x11 => Record::FileDrop {
            file: u32::try_from(int(at)?).ok()?,
        },
        0x12 => {
            let file = u32::try_from(int(at)?).ok()?;
            Record::Given {
                first: PageId::new(file, u32::try_from(int(at)?).ok()?),
                count: u32::try_from(int(at)?).ok()?,
            }
        }
        0x13 => {
            let file = u32::try_from(int(at)?).ok()?;
            Record::Truncate {
                first: PageId::new(file, u32::try_from(int(at)?).ok()?),
            }
        }
        0x20 => Record::Note {
            kind: int(at)?,
            payload: take_bytes(b, at)?,
        },
        _ => return None,
    })
}
