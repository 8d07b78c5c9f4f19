//! Several pages of an Mtr that are one to its user: the bytes of the first, and behind them the
//! bodies of the others.
//!
//! Called by `mtr.rs`, which has taken them apart: an edit goes to the bytes kept here, and to the
//! pages that it meets. Each page keeps its header, and is logged, written and recovered by itself.
use super::mtr::EDIT_START;
use super::page::{PAGE_BODY, PAGE_SIZE};
use super::{Mtr, PageHandle};
use std::ops::Range;

/// What each page behind the first adds.
const BODY: usize = PAGE_SIZE - PAGE_BODY;

/// Bytes of a page and `rest` more.
pub const fn joined_len(rest: usize) -> usize {
    PAGE_SIZE + rest * BODY
}

pub(super) struct Joined {
    bytes: Vec<u8>,
    rest: Vec<PageHandle>,
}

impl Joined {
    pub fn begin(first: &[u8]) -> Joined {
        Joined {
            bytes: first.to_vec(),
            rest: Vec::new(),
        }
    }
    pub fn push(&mut self, handle: PageHandle, page: &[u8]) {
        self.bytes.extend_from_slice(&page[PAGE_BODY..]);
        self.rest.push(handle);
    }
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
    pub fn rest(&self) -> &[PageHandle] {
        &self.rest
    }
    /// The pages that the bytes in `range` lie in: (page, offset in it, bytes).
    fn pieces(&self, first: PageHandle, range: Range<usize>) -> Vec<(PageHandle, usize, Range<usize>)> {
        let mut pieces = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let (page, offset) = match at.checked_sub(PAGE_SIZE) {
                None => (first, at),
                Some(behind) => (self.rest[behind / BODY], PAGE_BODY + behind % BODY),
            };
            let end = range.end.min(at + PAGE_SIZE - offset);
            pieces.push((page, offset, at..end));
            at = end;
        }
        pieces
    }
    fn write_through(&self, mtr: &mut Mtr<'_>, first: PageHandle, range: Range<usize>) {
        for (page, offset, part) in self.pieces(first, range) {
            mtr.edit(page, offset, &self.bytes[part]);
        }
    }
    pub fn edit(&mut self, mtr: &mut Mtr<'_>, first: PageHandle, offset: usize, data: &[u8]) {
        let range = offset..offset + data.len();
        self.bytes[range.clone()].copy_from_slice(data);
        self.write_through(mtr, first, range);
    }
    pub fn move_within(&mut self, mtr: &mut Mtr<'_>, first: PageHandle, dst: usize, src: usize, len: usize) {
        self.bytes.copy_within(src..src + len, dst);
        if dst.max(src) + len <= PAGE_SIZE {
            return mtr.move_within(first, dst, src, len);
        }
        self.write_through(mtr, first, dst..dst + len);
    }
    pub fn rewrite(&mut self, mtr: &mut Mtr<'_>, first: PageHandle, fill: &mut dyn FnMut(&mut [u8]) -> (usize, usize)) {
        let mut head = [0; EDIT_START];
        head.copy_from_slice(&self.bytes[..EDIT_START]);
        let (hole_start, hole_end) = fill(&mut self.bytes);
        self.bytes[..EDIT_START].copy_from_slice(&head);
        for (page, offset, part) in self.pieces(first, EDIT_START..self.bytes.len()) {
            // The hole, as far as it lies in this page.
            let place = |at: usize| (at.clamp(part.start, part.end) - part.start + offset).max(PAGE_BODY);
            let hole = (place(hole_start), place(hole_end));
            mtr.rewrite(page, &mut |bytes| {
                bytes[offset..offset + part.len()].copy_from_slice(&self.bytes[part.clone()]);
                hole
            });
        }
    }
}
