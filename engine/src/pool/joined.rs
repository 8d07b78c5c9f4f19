//! The bytes of several pages that are one to the user of an Mtr: the first page whole, then the
//! bodies of the others.
//!
//! An edit goes to the bytes kept here. The Mtr then writes the [`Span`]s that it meets through to
//! the pages. Each page keeps its header, and is logged, written and recovered by itself.
//!
//! Takes no latch: the Mtr holds those of all the pages.
//! Called by: `mtr`, and `btree` for lengths.
use super::page::{EDIT_START, PAGE_BODY, PAGE_SIZE};
use std::ops::Range;

/// Bytes that each page after the first adds.
const BODY: usize = PAGE_SIZE - PAGE_BODY;

/// Bytes of a page and `rest` more.
pub const fn joined_len(rest: usize) -> usize {
    PAGE_SIZE + rest * BODY
}

/// Bytes of a joined page that lie in one of its pages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::pool) struct Span {
    /// 0 is the first page.
    pub page: usize,
    /// Place in that page.
    pub offset: usize,
    /// Place in the joined bytes.
    pub range: Range<usize>,
}

impl Span {
    /// The part of the hole (start, end) in the joined bytes that lies in this page: start and end
    /// in the page.
    pub fn hole(&self, (start, end): (usize, usize)) -> (usize, usize) {
        let Range { start: low, end: high } = self.range;
        debug_assert!(start <= end && low < high, "a hole and a span have two ends each");
        let place = |at: usize| (at.clamp(low, high) - low + self.offset).max(PAGE_BODY);
        (place(start), place(end))
    }
}

pub(in crate::pool) struct JoinedBytes(Vec<u8>);

impl JoinedBytes {
    pub fn begin(first: &[u8]) -> JoinedBytes {
        debug_assert_eq!(first.len(), PAGE_SIZE, "joined pages begin with one page");
        JoinedBytes(first.to_vec())
    }
    /// Adds the next page.
    pub fn push(&mut self, page: &[u8]) {
        debug_assert_eq!(page.len(), PAGE_SIZE, "one page after the other is joined");
        self.0.extend_from_slice(&page[PAGE_BODY..]);
    }
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
    /// All bytes that edits may touch.
    pub fn editable(&self) -> Range<usize> {
        EDIT_START..self.0.len()
    }
    /// Overwrites bytes from `offset` on; returns their range.
    pub fn edit(&mut self, offset: usize, data: &[u8]) -> Range<usize> {
        let range = offset..offset + data.len();
        self.0[range.clone()].copy_from_slice(data);
        range
    }
    /// memmove; returns the range that was written.
    pub fn move_within(&mut self, dst: usize, src: usize, len: usize) -> Range<usize> {
        self.0.copy_within(src..src + len, dst);
        dst..dst + len
    }
    /// Rewrites the bytes from `EDIT_START` on. `fill` returns the hole, and so does this.
    pub fn rewrite(&mut self, fill: &mut dyn FnMut(&mut [u8]) -> (usize, usize)) -> (usize, usize) {
        let mut head = [0; EDIT_START];
        head.copy_from_slice(&self.0[..EDIT_START]);
        let hole = fill(&mut self.0);
        debug_assert!(
            hole.0 >= PAGE_BODY && hole.0 <= hole.1 && hole.1 <= self.0.len(),
            "the hole lies in the body"
        );
        self.0[..EDIT_START].copy_from_slice(&head);
        hole
    }
    /// The pages that the bytes in `range` lie in.
    pub fn spans(&self, range: Range<usize>) -> Vec<Span> {
        debug_assert!(range.end <= self.0.len(), "a span lies in the joined pages");
        let mut spans = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let (page, offset) = match at.checked_sub(PAGE_SIZE) {
                None => (0, at),
                Some(after) => (1 + after / BODY, PAGE_BODY + after % BODY),
            };
            let end = range.end.min(at + PAGE_SIZE - offset);
            spans.push(Span {
                page,
                offset,
                range: at..end,
            });
            at = end;
        }
        spans
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three_pages() -> JoinedBytes {
        let mut joined = JoinedBytes::begin(&vec![1; PAGE_SIZE]);
        joined.push(&vec![2; PAGE_SIZE]);
        joined.push(&vec![3; PAGE_SIZE]);
        joined
    }

    #[test]
    fn spans_cover_a_range_page_by_page() {
        let joined = three_pages();
        assert_eq!(joined.bytes().len(), joined_len(2));
        let range = PAGE_SIZE - 3..PAGE_SIZE + BODY + 5;
        let spans = joined.spans(range.clone());
        let places: Vec<_> = spans.iter().map(|span| (span.page, span.offset)).collect();
        assert_eq!(places, [(0, PAGE_SIZE - 3), (1, PAGE_BODY), (2, PAGE_BODY)]);
        let lengths: Vec<_> = spans.iter().map(|span| span.range.len()).collect();
        assert_eq!(lengths, [3, BODY, 5]);
        for span in &spans {
            assert!(joined.bytes()[span.range.clone()]
                .iter()
                .all(|b| *b as usize == span.page + 1));
        }
    }

    #[test]
    fn a_hole_is_cut_at_the_ends_of_each_page() {
        let joined = three_pages();
        let hole = (PAGE_SIZE - 10, PAGE_SIZE + 20);
        let holes: Vec<_> = (joined.spans(joined.editable()).iter().map(|span| span.hole(hole))).collect();
        assert_eq!(
            holes,
            [
                (PAGE_SIZE - 10, PAGE_SIZE),
                (PAGE_BODY, PAGE_BODY + 20),
                (PAGE_BODY, PAGE_BODY)
            ]
        );
    }
}
