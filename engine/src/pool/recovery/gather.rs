//! What recovery has read of the log and not applied yet: the edits of each page, in log order, in
//! parts by page number.
//!
//! A group is taken in whole and checked here, so that applying it cannot fail half way.
//! Neighbouring pages share a part, so that a part is a bounded number of disk neighbourhoods.
//! Parts have no page in common, so each can be sorted and applied by itself, in any order, by any
//! thread (`apply`).
//!
//! Memory: about what the log takes, and 24 bytes for each piece of a group that is about one page.
//! `is_full` says when that has reached the bound that the caller set; no group is left out for it.
//!
//! Takes no locks.
//! Called by: the engine's start, `torn`.
use crate::base::bytes::{get_u32, push_bytes, take_bytes};
use crate::base::{Error, Lsn, PageId, Result};
use crate::pool::page::{PAGE_BODY, PAGE_SIZE};
use crate::redo::record::{begins_with_image, decode_at, Record};

/// Parts enough for each thread to get its share, however unevenly the pages were changed.
const PARTS: usize = 64;
/// 2 to this power neighbouring pages are in one part.
const NEIGHBOURS_LOG2: u32 = 6;
/// Places in a part's bytes are u32.
const PART_BYTES_MAX: usize = 1 << 31;
/// The gathered log takes the memory of so much of the pool, at most (1/n).
pub(super) const POOL_SHARE: usize = 3;

/// What one group says about one page.
#[derive(Clone, Copy)]
pub(in crate::pool) struct Edit {
    pub page: PageId,
    /// Where the group ends.
    pub end: Lsn,
    /// Bytes of the log from the group's start to its end.
    span: u32,
    /// Place of its records in the part's bytes.
    at: u32,
}

impl Edit {
    pub fn start(&self) -> Lsn {
        self.end - self.span as u64
    }
}

/// The edits of some pages.
#[derive(Default)]
pub(in crate::pool) struct Part {
    pub edits: Vec<Edit>,
    /// Each edit's records, encoded, with their length before them.
    bytes: Vec<u8>,
}

impl Part {
    pub fn records(&self, edit: &Edit) -> &[u8] {
        let mut at = edit.at as usize;
        take_bytes(&self.bytes, &mut at).expect("written by `push`")
    }
    /// Does it begin with an image, so that the former content of the page does not matter?
    pub fn is_image(&self, edit: &Edit) -> bool {
        begins_with_image(self.records(edit))
    }
    /// Sorts by page; the edits of a page stay in log order.
    pub fn sort(&mut self) {
        self.edits.sort_by_key(|edit| edit.page);
    }
    /// Bytes of the log that the part stands for, about.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
}

pub struct Gathered {
    pub(in crate::pool) parts: Vec<Part>,
    /// Pages that have an image, and where the image's group ends.
    pub(in crate::pool) images: Vec<(PageId, Lsn)>,
    bytes_max: usize,
    bytes: usize,
    full: bool,
    end: Lsn,
}

/// What a group consists of: encoded records about a page, or something else.
pub enum Piece<'g> {
    Page(PageId, &'g [u8]),
    Other(Record<'g>),
}

impl Gathered {
    /// How much of the log recovery may have in memory, for a pool of `pool_bytes`. That memory is
    /// taken from the frames.
    pub fn bytes_max_for(pool_bytes: u64) -> usize {
        (pool_bytes as usize / POOL_SHARE).max(PAGE_SIZE)
    }
    /// Nothing yet. Full at about `bytes_max`.
    pub fn new(bytes_max: usize) -> Gathered {
        Gathered {
            parts: (0..PARTS).map(|_| Part::default()).collect(),
            images: Vec::new(),
            bytes_max,
            bytes: 0,
            full: false,
            end: 0,
        }
    }
    pub fn is_full(&self) -> bool {
        self.full
    }
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    /// End of the last group that was gathered; 0: there was none.
    pub fn end(&self) -> Lsn {
        self.end
    }
    /// Adds what the group from `start` to `end` says about one page. Groups come in log order, and
    /// so do the pieces of a group.
    pub fn push(&mut self, page: PageId, (start, end): (Lsn, Lsn), records: &[u8]) -> Result<()> {
        assert!(self.end <= end && start < end, "redo groups are gathered in log order");
        let number = (page.no >> NEIGHBOURS_LOG2).wrapping_add(page.file) as usize % PARTS;
        let part = &mut self.parts[number];
        let span = u32::try_from(end - start).map_err(|_| damaged(end, "it is too long"))?;
        let at = u32::try_from(part.bytes.len()).map_err(|_| damaged(end, "it is too long"))?;
        push_bytes(&mut part.bytes, records);
        if begins_with_image(records) {
            self.images.push((page, end));
        }
        part.edits.push(Edit { page, end, span, at });
        self.bytes += records.len() + std::mem::size_of::<Edit>();
        self.full |= self.bytes >= self.bytes_max || part.bytes.len() >= PART_BYTES_MAX;
        Ok(())
    }
    /// All pieces of the group that ends here have been pushed.
    pub fn end_group(&mut self, end: Lsn) {
        debug_assert!(self.end <= end, "redo groups are gathered in log order");
        self.end = end;
    }
}

/// Takes the group that ends at `end` to pieces. What it says about a page before an image of the
/// page is left out.
pub fn split<'g>(end: Lsn, group: &'g [u8], each: &mut dyn FnMut(Piece<'g>) -> Result<()>) -> Result<()> {
    // The page, and where its records begin.
    let mut about: Option<(PageId, usize)> = None;
    let page_piece =
        |about: Option<(PageId, usize)>, to: usize, each: &mut dyn FnMut(Piece<'g>) -> Result<()>| match about {
            Some((page, from)) if from < to => each(Piece::Page(page, &group[from..to])),
            _ => Ok(()),
        };
    decode_at(group, |at, after, record| match record {
        Record::Page(id) => {
            page_piece(about, at, each)?;
            about = Some((id, after));
            Ok(())
        }
        Record::Write { .. } | Record::Move { .. } | Record::Image { .. } => {
            let (id, from) = about.as_mut().ok_or_else(|| damaged(end, "an edit without a page"))?;
            if matches!(record, Record::Image { .. }) {
                *from = at;
            }
            check_record(&record, *id).map_err(|why| damaged(end, why))
        }
        Record::FileNew { .. }
        | Record::FileDrop { .. }
        | Record::Given { .. }
        | Record::Truncate { .. }
        | Record::Note { .. } => {
            page_piece(about, at, each)?;
            about = about.map(|(id, _)| (id, after));
            each(Piece::Other(record))
        }
    })?;
    page_piece(about, group.len(), each)
}

fn damaged(end: Lsn, why: &str) -> Error {
    Error::corrupt(format!("redo group that ends at {end}: {why}"))
}

/// Do all lengths and places fit a page? Then applying cannot fail half way. The error says why
/// not.
fn check_record(record: &Record, id: PageId) -> std::result::Result<(), &'static str> {
    let fits = |at: usize, len: usize| at.checked_add(len).is_some_and(|end| end <= PAGE_SIZE);
    let ok = match record {
        Record::Write { offset, data } => fits(*offset, data.len()),
        Record::Move { dst, src, len } => fits(*dst, *len) && fits(*src, *len),
        Record::Image { low, high } => {
            if low.len() < PAGE_BODY || PageId::new(get_u32(low, 4), get_u32(low, 8)) != id {
                return Err("an image names another page");
            }
            fits(low.len(), high.len())
        }
        _ => true,
    };
    if ok {
        Ok(())
    } else {
        Err("an edit beyond the page's end")
    }
}
