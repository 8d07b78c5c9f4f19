//! What recovery has read of the log and not applied yet: the edits of each page, in log order, in parts by page number.
//!
//! A group is taken in whole and checked here, so that applying it cannot fail half way. Neighbouring pages share a part, so that
//! a part is a bounded number of disk neighbourhoods; parts have no page in common, so that each can be sorted and applied by
//! itself, in any order, by any thread (`recover`).
//!
//! Memory: about what the log takes, and 24 bytes for each piece of a group that is about one page. `is_full` says when that has
//! reached the bound that the caller set; no group is left out for it. Takes no locks. Called by the engine's recovery.
use super::page::{PAGE_BODY, PAGE_SIZE};
use crate::base::bytes::{get_u32, push_bytes, take_bytes};
use crate::base::{Error, Lsn, PageId, Result};
use crate::redo::record::{begins_with_image, decode_at, Record};

/// So many parts: each thread gets its share however unevenly the pages were changed.
const PARTS: usize = 64;
/// 2 to this power neighbouring pages are in one part.
const NEIGHBOURS_LOG2: u32 = 6;
/// Places in a part's bytes are u32.
const PART_BYTES_MAX: usize = 1 << 31;

/// What one group says about one page.
#[derive(Clone, Copy)]
pub(super) struct Edit {
    pub page: PageId,
    /// Where the group ends.
    pub end: Lsn,
    /// And how long before that it begins.
    span: u32,
    /// Of its records, in the part's bytes.
    at: u32,
}

impl Edit {
    pub fn start(&self) -> Lsn {
        self.end - self.span as u64
    }
}

/// The edits of some pages.
#[derive(Default)]
pub(super) struct Part {
    pub edits: Vec<Edit>,
    /// Each edit's records, encoded, with their length before them.
    bytes: Vec<u8>,
}

impl Part {
    pub fn records(&self, edit: &Edit) -> &[u8] {
        let mut at = edit.at as usize;
        take_bytes(&self.bytes, &mut at).expect("written by `push`")
    }
    /// Does it begin with an image, so that what the page held before is of no interest?
    pub fn is_image(&self, edit: &Edit) -> bool {
        begins_with_image(self.records(edit))
    }
    /// Page by page, in log order each.
    pub fn sort(&mut self) {
        self.edits.sort_by_key(|edit| edit.page);
    }
    /// Bytes of the log that it stands for, about.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
}

pub struct Gathered {
    pub(super) parts: Vec<Part>,
    /// Pages that have an image, and where the image's group ends.
    pub(super) images: Vec<(PageId, Lsn)>,
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
    /// End of the last group that is in it; 0: it never had one.
    pub fn end(&self) -> Lsn {
        self.end
    }
    /// What the group from `start` to `end` says about one page. Groups come in log order, their pieces in theirs.
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
        self.end = end;
    }
}

/// Takes the group that ends at `end` to pieces. Of what it says about a page before an image, nothing is left.
pub fn split<'g>(end: Lsn, group: &'g [u8], each: &mut dyn FnMut(Piece<'g>) -> Result<()>) -> Result<()> {
    // The page, and where what is said about it begins.
    let mut about: Option<(PageId, usize)> = None;
    let page_piece =
        |about: Option<(PageId, usize)>, to: usize, each: &mut dyn FnMut(Piece<'g>) -> Result<()>| match about {
            Some((page, from)) if from < to => each(Piece::Page(page, &group[from..to])),
            _ => Ok(()),
        };
    decode_at(group, |at, behind, record| match record {
        Record::Page(id) => {
            page_piece(about, at, each)?;
            about = Some((id, behind));
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
            about = about.map(|(id, _)| (id, behind));
            each(Piece::Other(record))
        }
    })?;
    page_piece(about, group.len(), each)
}

fn damaged(end: Lsn, why: &str) -> Error {
    Error::corrupt(format!("redo group that ends at {end}: {why}"))
}

/// All lengths and places fit a page, so that applying cannot fail half way.
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
