//! The writing end of an undo stream.
//!
//! One transaction at a time owns it (`ActiveTrx::stream`), so it needs no lock. Between
//! transactions it is in the list of free streams (`history.rs`), which keeps the reading end,
//! consumed by purge, too.
//!
//! Invariant: after every record there is room for [`END_MAX`] more bytes, in this page and the
//! pages linked ahead. So an end marker never allocates. `reserve` and `make_room` provide the
//! room; `append` only uses it.
//!
//! Latches: X on undo pages in the order of the chain, then (to make room) the undo file's space
//! pages. So a record that is appended under tree latches keeps the order tree, undo, space.
use super::format::{self, Kind, DATA, END_MAX, HEADER_MAX, NEXT, PAYLOAD, STREAM};
use crate::base::bytes::{put_u16, put_u32};
use crate::base::ids::UNDO_FILE;
use crate::base::{Error, PageId, PageNo, Result, TrxId, UndoPtr};
use crate::pool::{Mtr, PageHandle, PageType, Pool, PAGE_SIZE};
use crate::space;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// Records that were undone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::txn) struct Skip {
    /// The record itself is undone as well, not only those after it.
    pub inclusive: bool,
    /// The next record that was not.
    pub until: UndoPtr,
}

pub(crate) struct StreamTail {
    pub(in crate::txn) number: u32,
    /// Page and offset of the next byte; the offset may be the page size.
    pub(in crate::txn) page: PageNo,
    pub(in crate::txn) at: usize,
    /// Linked pages after `page`, still empty.
    pub(in crate::txn) ahead: VecDeque<PageNo>,
    /// First and newest row record of the owner; NONE: it has none.
    pub(in crate::txn) first: UndoPtr,
    pub(in crate::txn) last: UndoPtr,
    /// The owner has written a record, so it needs an end marker.
    pub(in crate::txn) used: bool,
    /// Records that the owner undid and then passed over, keyed by the record before.
    pub(in crate::txn) skips: Vec<(UndoPtr, Skip)>,
    /// A page of the stream cannot be read: no transaction gets it before the next start.
    pub(in crate::txn) broken: bool,
    scratch: Vec<u8>,
}

impl StreamTail {
    pub(in crate::txn) fn at(number: u32, at: UndoPtr, ahead: VecDeque<PageNo>) -> StreamTail {
        StreamTail {
            number,
            page: at.page,
            at: at.offset as usize,
            ahead,
            first: UndoPtr::NONE,
            last: UndoPtr::NONE,
            used: false,
            skips: Vec::new(),
            broken: false,
            scratch: Vec::new(),
        }
    }
    fn room(&self) -> usize {
        PAGE_SIZE - self.at + self.ahead.len() * PAYLOAD
    }
    /// Makes room for a record with `payload` bytes and an end marker after it, in an Mtr of its
    /// own. `Error::Full` changes nothing. Returns the number of pages added. `ceiling`: see
    /// `make_room`.
    pub(in crate::txn) fn reserve(&mut self, pool: &Pool, ceiling: PageNo, payload: usize) -> Result<usize> {
        if self.has_room(payload) {
            return Ok(0);
        }
        pool.redo().reserve_wait()?;
        let mut mtr = pool.begin();
        let added = self.make_room(&mut mtr, ceiling, payload)?;
        mtr.commit();
        Ok(added)
    }
    pub(in crate::txn) fn has_room(&self, payload: usize) -> bool {
        self.room() >= payload + HEADER_MAX + END_MAX
    }
    /// The same in the caller's Mtr. Errors come before any change; an append of that payload then
    /// cannot fail. From `ceiling` on the file is to become free (`truncate.rs`): a stream up there
    /// goes on below.
    pub(in crate::txn) fn make_room(&mut self, mtr: &mut Mtr<'_>, ceiling: PageNo, payload: usize) -> Result<usize> {
        if self.has_room(payload) {
            return Ok(0);
        }
        let mut last = self.latch(mtr, self.page)?;
        for i in 0..self.ahead.len() {
            last = self.latch(mtr, self.ahead[i])?;
        }
        let n = (payload + HEADER_MAX + END_MAX - self.room()).div_ceil(PAYLOAD);
        debug_assert!(n > 0, "a tail without room needs a page");
        let hint = match mtr.id(last).no {
            high if high >= ceiling => space::LOWEST,
            no => no,
        };
        for no in space::allocate_many(mtr, UNDO_FILE, hint, n)? {
            debug_assert!(
                no != self.page && !self.ahead.contains(&no),
                "a new page is not in the stream"
            );
            let page = format_page(mtr, no, self.number)?;
            mtr.edit_u32(last, NEXT, no);
            last = page;
            self.ahead.push_back(no);
        }
        debug_assert!(self.has_room(payload));
        Ok(n)
    }
    fn latch(&mut self, mtr: &mut Mtr<'_>, no: PageNo) -> Result<PageHandle> {
        let page = mtr.write(PageId::new(UNDO_FILE, no));
        self.broken |= page.as_ref().is_err_and(Error::is_corrupt);
        page
    }
    /// All pages of the writing end.
    pub(in crate::txn) fn pages(&self) -> Vec<PageId> {
        let pages = std::iter::once(&self.page).chain(&self.ahead);
        pages.map(|no| PageId::new(UNDO_FILE, *no)).collect()
    }
    /// Room for the end marker alone: every owner starts with it.
    pub(in crate::txn) fn has_room_to_end(&self) -> bool {
        self.room() >= END_MAX
    }
    /// Latches the pages that an end marker may be written to: appending it in the same Mtr cannot
    /// fail then.
    pub(in crate::txn) fn latch_for_end(&mut self, mtr: &mut Mtr<'_>) -> Result<()> {
        self.latch(mtr, self.page)?;
        if let (true, Some(next)) = (PAGE_SIZE - self.at < END_MAX, self.ahead.front().copied()) {
            self.latch(mtr, next)?;
        }
        Ok(())
    }
    /// Appends a record in `mtr`. Errors come before any change.
    pub(in crate::txn) fn append(
        &mut self,
        mtr: &mut Mtr<'_>,
        kind: Kind,
        trx: TrxId,
        prev: UndoPtr,
        number: u64,
        payload: &[u8],
    ) -> Result<UndoPtr> {
        let (mut page, mut at) = (self.page, self.at);
        let mut used_ahead = 0;
        if at == PAGE_SIZE {
            page = self.ahead[0];
            at = DATA;
            used_ahead = 1;
        }
        let start = UndoPtr {
            page,
            offset: at as u16,
        };
        format::encode(&mut self.scratch, page, kind, trx, prev, number, payload);
        let spare = if kind.is_end() { 0 } else { END_MAX };
        assert!(
            self.room() >= self.scratch.len() + spare,
            "an undo record of {} bytes has no room",
            payload.len()
        );
        // All pages first: fetching one may fail, and then nothing has changed.
        let more = self.scratch.len().saturating_sub(PAGE_SIZE - at).div_ceil(PAYLOAD);
        let ahead = self.ahead.range(used_ahead..used_ahead + more);
        let pages: SmallVec<[PageNo; 2]> = std::iter::once(page).chain(ahead.copied()).collect();
        let mut handles: SmallVec<[PageHandle; 2]> = SmallVec::new();
        for no in pages {
            handles.push(self.latch(mtr, no)?);
        }
        used_ahead += more;
        let mut rest = &self.scratch[..];
        for handle in handles {
            if at == PAGE_SIZE {
                at = DATA;
            }
            let piece = rest.len().min(PAGE_SIZE - at);
            mtr.edit(handle, at, &rest[..piece]);
            at += piece;
            rest = &rest[piece..];
        }
        if used_ahead > 0 {
            page = self.ahead[used_ahead - 1];
        }
        debug_assert!(rest.is_empty(), "the whole record is in the pages");
        debug_assert!(
            (DATA..=PAGE_SIZE).contains(&at),
            "a stream goes on in the data of a page, or ends with it"
        );
        self.ahead.drain(..used_ahead);
        (self.page, self.at) = (page, at);
        self.note(kind, prev, start);
        debug_assert!(
            kind.is_end() || self.has_room_to_end(),
            "the end of a transaction cannot fail for want of room"
        );
        if self.scratch.capacity() > 4 * PAGE_SIZE {
            self.scratch = Vec::new();
        }
        Ok(start)
    }
    /// Keeps first, last and skips for a record now in the stream. Recovery calls it for each
    /// record it walks over.
    pub(in crate::txn) fn note(&mut self, kind: Kind, prev: UndoPtr, at: UndoPtr) {
        self.used = true;
        if kind == Kind::RolledBack {
            // All that was undone before is a part of this rollback.
            self.skips.clear();
            if !self.first.is_none() {
                self.add_skip(UndoPtr::NONE, at);
            }
            return;
        }
        if prev != self.last && !self.last.is_none() {
            // No record was added since the last skip: that rollback goes on, and the new skip
            // covers the last one.
            let goes_on = |(key, skip): &(UndoPtr, Skip)| !skip.inclusive && *key == self.last;
            if self.skips.last().is_some_and(goes_on) {
                self.skips.pop();
            }
            self.add_skip(prev, at);
            self.last = prev;
        }
        if kind == Kind::Row {
            if self.first.is_none() {
                self.first = at;
            }
            self.last = at;
        }
    }
    fn add_skip(&mut self, prev: UndoPtr, until: UndoPtr) {
        let inclusive = prev.is_none();
        let key = if inclusive { self.first } else { prev };
        debug_assert!(!key.is_none(), "what was undone begins with a record");
        self.skips.push((key, Skip { inclusive, until }));
    }
    /// The owner has ended: the stream is ready for the next one. Hands over what was undone.
    pub(in crate::txn) fn end_owner(&mut self) -> Vec<(UndoPtr, Skip)> {
        self.first = UndoPtr::NONE;
        self.last = UndoPtr::NONE;
        self.used = false;
        std::mem::take(&mut self.skips)
    }
}

/// A fresh undo page of a stream, empty and last.
pub(in crate::txn) fn format_page(mtr: &mut Mtr<'_>, no: PageNo, stream: u32) -> Result<PageHandle> {
    let page = mtr.create(PageId::new(UNDO_FILE, no), 0, PageType::Undo, 0)?;
    mtr.edit_u32(page, STREAM, stream);
    Ok(page)
}

/// Bytes of an address in the stream directory.
pub(in crate::txn) fn encode_ptr(at: UndoPtr) -> [u8; 6] {
    let mut out = [0u8; 6];
    put_u32(&mut out, 0, at.page);
    put_u16(&mut out, 4, at.offset);
    out
}

pub(in crate::txn) fn too_many() -> Error {
    Error::Full("too many transactions write at the same time: all undo streams are in use".into())
}
