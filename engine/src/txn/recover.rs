//! Opening: walks every undo stream from its head to its end, and rebuilds the state in memory.
//!
//! Redo has been applied. The last transaction of a stream was active at the crash if it has no end
//! marker. It is prepared if it wrote a prepared record and no rollback of it had begun: then it is
//! in doubt until its decision. Else it is a loser, to be rolled back. Single-threaded; called by
//! `TrxSys::open`.
use super::undo::directory::Slot;
use super::undo::format::{corrupt, decode_xid, Header, Kind, Reader};
use super::undo::history::{End, Skips, StreamHead};
use super::undo::stream::StreamTail;
use super::undo::streams::UndoStreams;
use super::xid::Xid;
use crate::base::bytes::get_u64;
use crate::base::{Result, TrxId, UndoPtr};
use crate::pool::Pool;
use std::collections::VecDeque;

/// A transaction that was active when the engine stopped.
pub(super) struct Unfinished {
    pub id: TrxId,
    pub xid: Option<Xid>,
    pub undo_top: UndoPtr,
    pub undo_records: u64,
    pub tail: Box<StreamTail>,
}

/// What the walk found besides the history.
#[derive(Default)]
pub(super) struct Found {
    pub unfinished: Vec<Unfinished>,
    pub numbers_seen: u64,
    /// Newest replication position: (commit number, position).
    pub position: Option<(u64, Vec<u8>)>,
}

pub(super) fn walk_all(streams: &UndoStreams) -> Result<Found> {
    let mut found = Found::default();
    for (number, slot) in streams.slots()?.iter().enumerate() {
        if let Some(slot) = slot {
            walk(streams, number as u32, *slot, &mut found)?;
        }
    }
    Ok(found)
}

/// The open transaction of the stream as the walk goes on.
#[derive(Default)]
struct Owner {
    id: TrxId,
    xid: Option<Xid>,
    undo_top: UndoPtr,
    records: u64,
}

fn walk(streams: &UndoStreams, number: u32, slot: Slot, found: &mut Found) -> Result<()> {
    let pool = streams.pool();
    let mut reader = Reader::open(pool, slot.head)?;
    if reader.stream() != number {
        return Err(corrupt(slot.head, "belongs to another stream than the directory says"));
    }
    let mut tail = Box::new(StreamTail::at(number, slot.head, VecDeque::new()));
    let mut ends = VecDeque::new();
    let mut skips = Skips::new();
    let mut owner = Owner::default();
    while let Some((at, header)) = reader.header()? {
        if owner.id != 0 && owner.id != header.trx {
            return Err(corrupt(at, "begins a transaction before the one before it has ended"));
        }
        owner.id = header.trx;
        found.numbers_seen = found.numbers_seen.max(header.trx).max(header.number);
        tail.note(header.kind, header.prev, at);
        note(&mut owner, &mut reader, at, &header, found)?;
        if header.kind.is_end() {
            owner = Owner::default();
            ends.push_back(End {
                at,
                number: header.number,
            });
            skips.extend(tail.end_owner());
        }
    }
    let end = reader.position();
    (tail.page, tail.at) = (end.page, end.offset as usize);
    let used = reader.left.len() + 1;
    tail.ahead = pages_ahead(pool, end, reader)?;
    let pages = (used + tail.ahead.len()) as u64;
    let head = StreamHead {
        at: slot.head,
        skip_until: slot.skip_until,
        skips,
        ends,
        busy: false,
    };
    if owner.id == 0 {
        streams.restore(number, head, Some(tail), pages);
        return Ok(());
    }
    streams.restore(number, head, None, pages);
    found.unfinished.push(Unfinished {
        id: owner.id,
        xid: owner.xid,
        undo_top: owner.undo_top,
        undo_records: owner.records,
        tail,
    });
    Ok(())
}

/// Notes what one record says of its transaction. Leaves the reader at the end of the record.
fn note(owner: &mut Owner, reader: &mut Reader<'_>, at: UndoPtr, header: &Header, found: &mut Found) -> Result<()> {
    match header.kind {
        Kind::Row => {
            owner.undo_top = at;
            owner.records += 1;
            reader.skip_payload(header)
        }
        Kind::Prepared => {
            owner.undo_top = header.prev;
            let payload = reader.payload(header)?;
            let xid = decode_xid(&payload).ok_or_else(|| corrupt(at, "has no XA name"))?;
            owner.xid = Some(xid);
            Ok(())
        }
        Kind::Committed => {
            let position = reader.payload(header)?;
            if !position.is_empty() && found.position.as_ref().is_none_or(|(n, _)| *n < header.number) {
                found.position = Some((header.number, position));
            }
            Ok(())
        }
        Kind::Resumed => {
            owner.undo_top = header.prev;
            owner.xid = None;
            let left = reader.payload(header)?;
            if left.len() >= 8 {
                owner.records = get_u64(&left, 0);
            }
            Ok(())
        }
        Kind::RolledBack => reader.skip_payload(header),
    }
}

/// Pages linked after the last one in use: reserved, still empty.
fn pages_ahead(pool: &Pool, end: UndoPtr, reader: Reader<'_>) -> Result<VecDeque<u32>> {
    let mut ahead = VecDeque::new();
    let mut next = reader.next_page();
    drop(reader);
    while next != 0 {
        if ahead.contains(&next) || next == end.page {
            return Err(corrupt(end, "is followed by a circle of pages"));
        }
        ahead.push_back(next);
        next = Reader::open(pool, UndoPtr { page: next, ..end })?.next_page();
    }
    Ok(ahead)
}
