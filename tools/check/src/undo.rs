//! The undo file: streams of records, walked from purge's position to their ends. Drawn in
//! `engine/src/txn/undo/format.rs` and `directory.rs`. Finds the transactions that have not ended,
//! and reads a row's older versions (`engine/src/table/row/undo_record.rs`).
use crate::bytes::{u16_at, u32_at, u64_at, Reader};
use crate::page::{self, BODY, PAGE};
use crate::store::Store;
use std::collections::BTreeSet;

pub const UNDO_FILE: u32 = 2;
const DATA: usize = BODY + 8;
const SLOT: usize = 12;

#[derive(Default)]
pub struct Undo {
    pub streams: u64,
    pub records: u64,
    /// Transactions without an end: (id, it is prepared).
    pub unfinished: Vec<(u64, bool)>,
    pub pages: BTreeSet<u32>,
    pub findings: Vec<String>,
}

/// A stream's bytes from some place on.
struct Stream<'a> {
    store: &'a Store,
    page: Vec<u8>,
    no: u32,
    at: usize,
    number: u32,
    pages: Vec<u32>,
}

impl<'a> Stream<'a> {
    fn open(store: &'a Store, no: u32, at: usize) -> Result<Stream<'a>, String> {
        let page = undo_page(store, no)?;
        if !(DATA..=PAGE).contains(&at) {
            return Err(format!("page {no}: a record at offset {at} is outside of its data"));
        }
        let number = u32_at(&page, BODY + 4);
        Ok(Stream {
            store,
            page,
            no,
            at,
            number,
            pages: vec![no],
        })
    }
    /// False: the stream's pages have ended.
    fn settle(&mut self) -> Result<bool, String> {
        if self.at < PAGE {
            return Ok(true);
        }
        let next = u32_at(&self.page, BODY);
        if next == 0 {
            return Ok(false);
        }
        if self.pages.contains(&next) {
            return Err(format!("page {next}: the stream comes back to it"));
        }
        let page = undo_page(self.store, next)?;
        if u32_at(&page, BODY + 4) != self.number {
            return Err(format!(
                "page {next}: it belongs to another stream than page {} before it",
                self.no
            ));
        }
        (self.page, self.no, self.at) = (page, next, DATA);
        self.pages.push(next);
        Ok(true)
    }
    fn take(&mut self, len: usize) -> Result<Vec<u8>, String> {
        let mut out = Vec::new();
        while out.len() < len {
            if !self.settle()? {
                return Err(format!("page {}: a record ends in the middle", self.no));
            }
            let piece = (len - out.len()).min(PAGE - self.at);
            out.extend_from_slice(&self.page[self.at..self.at + piece]);
            self.at += piece;
        }
        Ok(out)
    }
    fn varint(&mut self) -> Result<usize, String> {
        let mut value = 0;
        for shift in (0..35).step_by(7) {
            let byte = self.take(1)?[0];
            value |= ((byte & 0x7f) as usize) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(format!("page {}: a record of impossible length", self.no))
    }
    /// (kind, transaction, payload); None: the stream ends here.
    fn record(&mut self) -> Result<Option<(u8, u64, Vec<u8>)>, String> {
        if !self.settle()? || self.page[self.at] == 0 {
            return Ok(None);
        }
        let first = self.take(1)?[0];
        let kind = first & 7;
        if !(1..=5).contains(&kind) || first >> 3 > 2 {
            return Err(format!("page {}: a record of unknown kind {first:#x}", self.no));
        }
        let trx = crate::bytes::u48_at(&self.take(6)?, 0);
        self.take([0, 2, 6][(first >> 3) as usize])?;
        if kind == 3 || kind == 4 {
            self.take(6)?;
        }
        let len = self.varint()?;
        Ok(Some((kind, trx, self.take(len)?)))
    }
}

fn undo_page(store: &Store, no: u32) -> Result<Vec<u8>, String> {
    let page = store.read(UNDO_FILE, no).map_err(|what| format!("page {no}: {what}"))?;
    match page::kind(&page) {
        page::UNDO => Ok(page),
        _ => Err(format!("page {no}: it is no undo page")),
    }
}

pub fn check(store: &Store) -> Undo {
    let mut undo = Undo::default();
    if let Err(what) = walk(store, &mut undo) {
        undo.findings.push(format!("{} {what}", store.name_of(UNDO_FILE)));
    }
    undo
}

fn walk(store: &Store, undo: &mut Undo) -> Result<(), String> {
    let header = store.read(UNDO_FILE, 0).map_err(|what| format!("page 0: {what}"))?;
    let system = u32_at(&header, 80);
    let page = store
        .read(UNDO_FILE, system)
        .map_err(|what| format!("page {system}: {what}"))?;
    if page::kind(&page) != page::SYSTEM
        || &page[BODY..BODY + 8] != b"SLUICETX"
        || !(1..=2).contains(&u32_at(&page, 40))
    {
        return Err(format!(
            "page {system}: it is no transaction system page of this format"
        ));
    }
    let bound = u64_at(&page, 48);
    undo.pages.insert(system);
    for i in 0..u32_at(&page, 44).min(64) as usize {
        let no = u32_at(&page, 256 + 4 * i);
        undo.pages.insert(no);
        let directory = store.read(UNDO_FILE, no).map_err(|what| format!("page {no}: {what}"))?;
        for slot in 0..(PAGE - BODY) / SLOT {
            let at = BODY + slot * SLOT;
            let (head, offset) = (u32_at(&directory, at), u16_at(&directory, at + 4));
            if head != 0 {
                undo.streams += 1;
                if let Err(what) = walk_stream(store, head, offset as usize, bound, undo) {
                    undo.findings.push(format!("{} {what}", store.name_of(UNDO_FILE)));
                }
            }
        }
    }
    Ok(())
}

fn walk_stream(store: &Store, page: u32, at: usize, bound: u64, undo: &mut Undo) -> Result<(), String> {
    let mut stream = Stream::open(store, page, at)?;
    let mut open: Option<(u64, bool)> = None;
    let mut result = Ok(());
    loop {
        match stream.record() {
            Ok(Some((kind, trx, _))) => {
                undo.records += 1;
                if trx >= bound {
                    result = Err(format!(
                        "page {}: transaction {trx} was never given: {bound} is the bound",
                        stream.no
                    ));
                }
                open = match kind {
                    3 | 4 => None,
                    2 => Some((trx, true)),
                    5 => Some((trx, false)),
                    _ => open.or(Some((trx, false))),
                };
            }
            Ok(None) => break,
            Err(what) => {
                result = Err(what);
                break;
            }
        }
    }
    undo.unfinished.extend(open);
    undo.pages.extend(&stream.pages);
    // Pages linked ahead, still empty.
    let mut next = u32_at(&stream.page, BODY);
    while next != 0 && undo.pages.insert(next) {
        next = u32_at(&undo_page(store, next)?, BODY);
    }
    result
}

/// What an undo record says of the version before.
pub enum Before {
    /// The row was not there.
    Nothing,
    /// Header and stored bytes.
    Version {
        flags: u8,
        trx: u64,
        undo: (u32, u16),
        stored: Vec<u8>,
    },
}

/// The version before one whose stored bytes (after the header) are `stored`.
pub fn version_before(store: &Store, at: (u32, u16), stored: &[u8]) -> Result<Before, String> {
    let mut stream = Stream::open(store, at.0, at.1 as usize)?;
    let Some((1, _, payload)) = stream.record()? else {
        return Err(format!("page {}: there is no row record at offset {}", at.0, at.1));
    };
    decode(&payload, stored).ok_or_else(|| format!("page {}: the record at offset {} cannot be decoded", at.0, at.1))
}

fn decode(payload: &[u8], newer: &[u8]) -> Option<Before> {
    let mut b = Reader::new(payload);
    let kind = b.u8()?;
    b.u32()?;
    if kind == 1 {
        return Some(Before::Nothing);
    }
    b.bytes()?;
    let flags = b.u8()?;
    let trx = b.varint()?;
    let undo = (b.u32()?, u16::try_from(b.varint()?).ok()?);
    if flags & 2 != 0 {
        b.u32()?;
        b.varint()?;
    }
    let stored = match kind {
        2 => {
            let (prefix, suffix) = (b.varint()? as usize, b.varint()? as usize);
            let middle = b.bytes()?;
            let tail = newer.len().checked_sub(suffix)?;
            [newer.get(..prefix)?, middle, newer.get(tail..)?].concat()
        }
        3 => newer.to_vec(),
        _ => return None,
    };
    Some(Before::Version {
        flags,
        trx,
        undo,
        stored,
    })
}
