//! The undo format: pages of a stream, and the records in them. This file owns both formats.
//!
//! Used by `stream.rs` (writes), `streams.rs` and `purge.rs` (read), `recover.rs` (walks).
//!
//! An undo page (type Undo, file [`UNDO_FILE`]):
//! ```text
//! 32 next     u32   the stream's next page (0 = last)
//! 36 stream   u32   number of the stream
//! 40 data           the stream's bytes, to the end of the page; zeros after the last record
//! ```
//! A stream is the concatenation of its pages' data: a record goes on where the page ends, in the
//! next page. A record:
//! ```text
//! kind     u8      bits 0-2: 1 row, 2 prepared, 3 committed, 4 rolled back, 5 being rolled back
//!                  (prepared no longer, and what follows `prev` is undone); 0 = end of the stream
//!                  bits 3-4: form of prev: 0 none, 1 in the page of this record, 2 elsewhere
//! trx      u48
//! prev     -, u16 offset, or u32 page + u16 offset: newest record of this transaction that is
//!          not undone
//! number   u48     committed and rolled back only: the commit number
//! len      varint
//! payload  row: the table layer's; prepared: format_id i64, gtrid_len u32, bqual_len u32, data;
//!          committed: position; being rolled back: nothing, or u64 row records still to be undone
//! ```
//! An [`UndoPtr`] addresses a record's first byte. The end of a stream needs no field of its own:
//! pages are zero when they join a stream, and 0 is no kind. So an append logs the record's bytes
//! and nothing else.
//!
//! Records are only ever added. The next record's `prev` passes over what a rollback has undone. A
//! rollback of many records adds one of kind 5 now and then. Its log comes after the log of the
//! changes that it calls undone. After a crash the loser's rollback starts at the newest record and
//! follows `prev`. So at most the records undone after the last append are undone twice. The table
//! layer makes that harmless: it undoes a row change only while (transaction, record) made the
//! row's newest version.
use crate::base::bytes::{get_u16, get_u32, get_u48, get_u64, push_varint, put_u16, put_u32, put_u48};
use crate::base::ids::UNDO_FILE;
use crate::base::{Error, PageId, PageNo, Result, TrxId, UndoPtr};
use crate::pool::page::page_type;
use crate::pool::{PageRead, PageType, Pool, PAGE_BODY, PAGE_SIZE};
use crate::txn::xid::Xid;

pub(in crate::txn) const NEXT: usize = PAGE_BODY;
pub(in crate::txn) const STREAM: usize = PAGE_BODY + 4;
pub(in crate::txn) const DATA: usize = PAGE_BODY + 8;
/// Stream bytes in a page.
pub(in crate::txn) const PAYLOAD: usize = PAGE_SIZE - DATA;

const KIND_MASK: u8 = 7;
const PREV_NEAR: u8 = 1 << 3;
const PREV_FAR: u8 = 2 << 3;

/// Longest replication position.
pub const POSITION_MAX: usize = 160;
/// Longest record header.
pub(in crate::txn) const HEADER_MAX: usize = 1 + 6 + 6 + 6 + 5;
/// A stream always has room for this much more, so that ending a transaction cannot fail.
pub(in crate::txn) const END_MAX: usize = HEADER_MAX + POSITION_MAX;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::txn) enum Kind {
    Row = 1,
    Prepared = 2,
    Committed = 3,
    RolledBack = 4,
    Resumed = 5,
}

impl Kind {
    fn from_u8(v: u8) -> Option<Kind> {
        Some(match v & KIND_MASK {
            1 => Kind::Row,
            2 => Kind::Prepared,
            3 => Kind::Committed,
            4 => Kind::RolledBack,
            5 => Kind::Resumed,
            _ => return None,
        })
    }
    pub fn is_end(self) -> bool {
        matches!(self, Kind::Committed | Kind::RolledBack)
    }
}

/// A record without its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::txn) struct Header {
    pub kind: Kind,
    pub trx: TrxId,
    pub prev: UndoPtr,
    /// Commit number of an end marker, else 0.
    pub number: u64,
    pub payload_len: usize,
}

/// Encodes a record that will begin in `page`.
pub(in crate::txn) fn encode(
    out: &mut Vec<u8>,
    page: PageNo,
    kind: Kind,
    trx: TrxId,
    prev: UndoPtr,
    number: u64,
    payload: &[u8],
) {
    debug_assert!(trx >> 48 == 0 && number >> 48 == 0, "the format has six bytes for each");
    debug_assert!(kind.is_end() || number == 0, "only an end has a commit number");
    debug_assert!(
        prev.is_none() || (DATA..PAGE_SIZE).contains(&(prev.offset as usize)),
        "a record's address"
    );
    debug_assert!(
        !kind.is_end() || payload.len() <= POSITION_MAX,
        "there is room for no more"
    );
    out.clear();
    let form = match prev {
        UndoPtr::NONE => 0,
        near if near.page == page => PREV_NEAR,
        _ => PREV_FAR,
    };
    let mut fixed = [0u8; 19];
    fixed[0] = kind as u8 | form;
    put_u48(&mut fixed, 1, trx);
    let mut len = 7;
    if form == PREV_FAR {
        put_u32(&mut fixed, len, prev.page);
        len += 4;
    }
    if form != 0 {
        put_u16(&mut fixed, len, prev.offset);
        len += 2;
    }
    if kind.is_end() {
        put_u48(&mut fixed, len, number);
        len += 6;
    }
    out.extend_from_slice(&fixed[..len]);
    push_varint(out, payload.len() as u64);
    debug_assert!(out.len() <= HEADER_MAX, "HEADER_MAX is the longest");
    out.extend_from_slice(payload);
}

pub(in crate::txn) fn corrupt(at: UndoPtr, what: &str) -> Error {
    Error::corrupt(format!(
        "undo record at file {UNDO_FILE} page {} offset {} {what}; restore the engine's directory from a backup",
        at.page, at.offset
    ))
}

/// Payload of a prepared record.
pub(in crate::txn) fn encode_xid(xid: &Xid) -> Vec<u8> {
    let mut out = Vec::with_capacity(16 + xid.data.len());
    out.extend_from_slice(&xid.format_id.to_le_bytes());
    out.extend_from_slice(&xid.gtrid_len.to_le_bytes());
    out.extend_from_slice(&xid.bqual_len.to_le_bytes());
    out.extend_from_slice(&xid.data);
    out
}

/// None: not such a payload.
pub(in crate::txn) fn decode_xid(b: &[u8]) -> Option<Xid> {
    if b.len() < 16 {
        return None;
    }
    Some(Xid {
        format_id: get_u64(b, 0) as i64,
        gtrid_len: get_u32(b, 8),
        bqual_len: get_u32(b, 12),
        data: b[16..].to_vec(),
    })
}

/// Reads a stream's bytes in order, one S-latched page at a time (I5: none is held while the next
/// is fetched).
pub(in crate::txn) struct Reader<'p> {
    pool: &'p Pool,
    page: Option<PageRead<'p>>,
    no: PageNo,
    at: usize,
    stream: u32,
    /// Pages read to their end and left.
    pub left: Vec<PageNo>,
}

impl<'p> Reader<'p> {
    pub fn open(pool: &'p Pool, at: UndoPtr) -> Result<Reader<'p>> {
        let page = latch(pool, at.page)?;
        if (at.offset as usize) < DATA || at.offset as usize > PAGE_SIZE {
            return Err(corrupt(at, "lies outside of its page's data"));
        }
        Ok(Reader {
            stream: get_u32(&page, STREAM),
            page: Some(page),
            no: at.page,
            at: at.offset as usize,
            pool,
            left: Vec::new(),
        })
    }
    pub fn stream(&self) -> u32 {
        self.stream
    }
    /// Where the next byte is, or would be: at the end of the last page the offset is the page
    /// size.
    pub fn position(&self) -> UndoPtr {
        UndoPtr {
            page: self.no,
            offset: self.at as u16,
        }
    }
    fn bytes(&self) -> &[u8] {
        &self.page.as_ref().expect("a reader has a page")[self.at..]
    }
    /// The number of the page after this one, 0 = none.
    pub fn next_page(&self) -> PageNo {
        get_u32(self.page.as_ref().expect("a reader has a page"), NEXT)
    }
    /// At a page's end, goes to the next page's data. False: there is none.
    fn turn_page(&mut self) -> Result<bool> {
        if self.at < PAGE_SIZE {
            return Ok(true);
        }
        debug_assert_eq!(self.at, PAGE_SIZE, "a piece ends with its page");
        let next = self.next_page();
        if next == 0 {
            return Ok(false);
        }
        self.page = None;
        let page = latch(self.pool, next)?;
        if get_u32(&page, STREAM) != self.stream {
            let at = UndoPtr {
                page: next,
                offset: DATA as u16,
            };
            return Err(corrupt(at, "belongs to another stream than the page before it"));
        }
        self.page = Some(page);
        self.left.push(self.no);
        self.no = next;
        self.at = DATA;
        Ok(true)
    }
    /// The next `n` bytes, given to `each` in pieces.
    fn take(&mut self, mut n: usize, mut each: impl FnMut(&[u8])) -> Result<()> {
        while n > 0 {
            if !self.turn_page()? {
                return Err(corrupt(self.position(), "ends in the middle"));
            }
            let piece = n.min(PAGE_SIZE - self.at);
            each(&self.bytes()[..piece]);
            self.at += piece;
            n -= piece;
        }
        Ok(())
    }
    fn fixed<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0u8; N];
        let mut filled = 0;
        self.take(N, |piece| {
            out[filled..filled + piece.len()].copy_from_slice(piece);
            filled += piece.len();
        })?;
        Ok(out)
    }
    /// The record that begins here: (its address, its header); the reader then stands at its
    /// payload. None: the stream ends.
    pub fn header(&mut self) -> Result<Option<(UndoPtr, Header)>> {
        if !self.turn_page()? || self.bytes()[0] == 0 {
            return Ok(None);
        }
        let at = self.position();
        let [first] = self.fixed::<1>()?;
        let kind = Kind::from_u8(first).ok_or_else(|| corrupt(at, "is of an unknown kind"))?;
        let trx = get_u48(&self.fixed::<6>()?, 0);
        let prev = match first & (PREV_NEAR | PREV_FAR) {
            0 => UndoPtr::NONE,
            PREV_NEAR => UndoPtr {
                page: at.page,
                offset: get_u16(&self.fixed::<2>()?, 0),
            },
            _ => {
                let far = self.fixed::<6>()?;
                UndoPtr {
                    page: get_u32(&far, 0),
                    offset: get_u16(&far, 4),
                }
            }
        };
        let number = match kind.is_end() {
            true => get_u48(&self.fixed::<6>()?, 0),
            false => 0,
        };
        let header = Header {
            kind,
            trx,
            prev,
            number,
            payload_len: self.varint(at)?,
        };
        Ok(Some((at, header)))
    }
    fn varint(&mut self, record: UndoPtr) -> Result<usize> {
        let mut value = 0usize;
        for shift in (0..35).step_by(7) {
            let [byte] = self.fixed::<1>()?;
            value |= ((byte & 0x7f) as usize) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(corrupt(record, "has an impossible length"))
    }
    pub fn payload(&mut self, header: &Header) -> Result<Vec<u8>> {
        let mut payload = Vec::with_capacity(header.payload_len.min(1 << 20));
        self.take(header.payload_len, |piece| payload.extend_from_slice(piece))?;
        Ok(payload)
    }
    pub fn skip_payload(&mut self, header: &Header) -> Result<()> {
        self.take(header.payload_len, |_| ())
    }
}

fn latch(pool: &Pool, no: PageNo) -> Result<PageRead<'_>> {
    let page = pool.read(PageId::new(UNDO_FILE, no))?;
    if page_type(&page) != PageType::Undo as u8 {
        let at = UndoPtr { page: no, offset: 0 };
        return Err(corrupt(at, "cannot be read: the page is not an undo page"));
    }
    Ok(page)
}
