//! Recovery: applies redo groups to pages.
//!
//! One group at a time, in log order, by one thread. Its records are sorted by page (the order within a page stays), so
//! that each page is latched once, changed, stamped with the group's end and let go: a group may touch more pages than
//! the pool holds. A page that starts with an image is not read: it may be torn, unwritten, or behind the file's end.
//!
//! What the log itself says is *void* is known from a first pass ([`Void`]) and passed over: files dropped later, and what pages held
//! before they were given to a load (GIVEN). The load wrote them past the log, so nothing older may reach the disk again, not for a
//! moment either: a pool that is smaller than the log's pages would write it over them.
//!
//! A page that cannot be read is *unread* until an image makes what the log said about it so far irrelevant: it was torn in a write
//! that needed no doublewrite for just that reason (`flush`). One that is left in the end is damage.
//!
//! A page changed here is dirty from the *previous* group's end on, which is not behind this group's start; the next
//! redo LSN, used in normal work, would let a checkpoint pass changes that exist in memory only.
use super::dblwr::grow_to_hold;
use super::frame::PageWrite;
use super::page::{page_id, page_lsn, set_page_lsn, PAGE_BODY, PAGE_SIZE};
use super::Pool;
use crate::base::bytes::get_u32;
use crate::base::{planted, Error, FileId, Lsn, Mutant, PageId, Result};
use crate::redo::record::{decode, Record};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

/// What a later part of the log makes void.
#[derive(Default)]
pub struct Void {
    dropped: BTreeSet<FileId>,
    /// First pages of what was given to loads: how many, and the end of the newest group that did.
    given: BTreeMap<PageId, (u32, Lsn)>,
}

impl Void {
    /// First pass, in log order: a record of the group that ends at `end`.
    pub fn learn(&mut self, record: &Record<'_>, end: Lsn) {
        match record {
            Record::FileDrop { file } => drop(self.dropped.insert(*file)),
            // Whole extents, so one that is given again replaces itself.
            Record::Given { first, count } => drop(self.given.insert(*first, (*count, end))),
            _ => {}
        }
    }
    pub fn dropped(&self) -> &BTreeSet<FileId> {
        &self.dropped
    }
    fn holds(&self, id: PageId, end: Lsn) -> bool {
        let given = || self.given.range(..=id).next_back();
        let is_given = |(first, (count, lsn)): (&PageId, &(u32, Lsn))| {
            first.file == id.file && id.no - first.no < *count && end < *lsn
        };
        self.dropped.contains(&id.file) || (!planted(Mutant::GivenForgotten) && given().is_some_and(is_given))
    }
}

impl Pool {
    /// Recovery: applies one redo record group, decoded here, to pages whose LSN is older than `end`, except for what is void.
    /// Groups come in log order, all of them.
    pub fn redo_apply(&self, end: Lsn, group: &[u8], void: &Void) -> Result<()> {
        let before = match self.recovered_to.swap(end, Ordering::Relaxed) {
            0 => self.redo.checkpoint_lsn(),
            previous => previous,
        };
        assert!(before < end, "redo groups are applied in log order");
        let mut edits: Vec<(PageId, Record)> = Vec::new();
        let mut about = None;
        let mut skipped = false;
        decode(group, |record| {
            match record {
                Record::Page(id) => {
                    about = Some(id);
                    skipped = void.holds(id, end);
                }
                Record::Write { .. } | Record::Move { .. } | Record::Image { .. } => {
                    let id = about.ok_or_else(|| damaged(end, "an edit without a page"))?;
                    if !skipped {
                        check_record(&record, id).map_err(|why| damaged(end, why))?;
                        edits.push((id, record));
                    }
                }
                Record::FileNew { .. } | Record::FileDrop { .. } | Record::Given { .. } | Record::Note { .. } => {}
            }
            Ok(())
        })?;
        edits.sort_by_key(|(id, _)| *id);
        for page in edits.chunk_by(|a, b| a.0 == b.0) {
            // What comes before an image in the same group is part of it.
            let image = page.iter().rposition(|(_, r)| matches!(r, Record::Image { .. }));
            self.redo_page(before, end, &page[image.unwrap_or(0)..])?;
        }
        Ok(())
    }
    /// After the last group: `unread` decides about each page that is needed and cannot be read. As it is, it stays unreadable, so that
    /// nobody takes it for whole.
    pub fn redo_done(&self, unread: &mut dyn FnMut(PageId, Error) -> Result<()>) -> Result<()> {
        let mut pages: Vec<PageId> = self.unread.lock().iter().copied().collect();
        pages.sort_unstable();
        for id in pages {
            // Says what is wrong with it.
            match self.read(id) {
                Err(e) if e.is_corrupt() => unread(id, e)?,
                done => drop(done?),
            }
        }
        Ok(())
    }
    fn redo_page(&self, before: Lsn, end: Lsn, edits: &[(PageId, Record)]) -> Result<()> {
        let id = edits[0].0;
        let (mut page, readable) = if matches!(edits[0].1, Record::Image { .. }) {
            let (page, resident) = self.fetch_new(id)?;
            if !resident {
                if let Err(error) = self.files.get(id.file).and_then(|f| grow_to_hold(&*f.file, id)) {
                    self.unpublish(page);
                    return Err(error);
                }
            }
            self.unread.lock().remove(&id);
            (page, resident)
        } else {
            if self.unread.lock().contains(&id) {
                return Ok(());
            }
            match self.fetch_write(id) {
                Ok(page) => (page, true),
                Err(Error::Corrupt(_)) => {
                    self.unread.lock().insert(id);
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        };
        if readable && page_lsn(page.bytes()) >= end && !planted(Mutant::RedoAppliedTwice) {
            return Ok(());
        }
        for (_, record) in edits {
            apply(&mut page, record);
        }
        if page.frame().oldest() == 0 {
            self.mark_dirty(std::iter::once(&page), || before);
        }
        set_page_lsn(page.bytes_mut(), end);
        Ok(())
    }
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

fn apply(page: &mut PageWrite<'_>, record: &Record) {
    let bytes = page.bytes_mut();
    match record {
        Record::Write { offset, data } => bytes[*offset..*offset + data.len()].copy_from_slice(data),
        Record::Move { dst, src, len } => bytes.copy_within(*src..*src + *len, *dst),
        Record::Image { low, high } => {
            let high_start = PAGE_SIZE - high.len();
            bytes[..low.len()].copy_from_slice(low);
            bytes[low.len()..high_start].fill(0);
            bytes[high_start..].copy_from_slice(high);
            debug_assert_eq!(page_id(bytes).as_u64(), page.key());
        }
        _ => unreachable!("only page records are collected"),
    }
}
