//! Recovery: applies what was gathered of the log (`gather`) to pages.
//!
//! Page by page, in page order: a page is latched once, gets all its edits that are newer than itself, is stamped with the last
//! one's LSN and let go. Parts of the log, which have no page in common, are applied by as many threads as read ahead in normal
//! work; each reads the pages of its next few edits in one batch. A page whose edits have an image among them is not read: it may be
//! torn, unwritten, or behind the file's end; edits before its newest image are passed over.
//!
//! A log that takes more memory than it may is gathered and applied in several rounds: a page may come in each.
//!
//! What the log itself says is *void* is known before anything is applied ([`Void`]) and passed over: files dropped later, and what
//! pages held before they were given to a load (GIVEN) or cut off with the end of their file (CUT). A load wrote past the log, so nothing
//! older may reach the disk again, not for a moment either: a pool that is smaller than the log's pages would write it over what
//! the load wrote. Of a page behind a cut there is nothing to read; what is said of it when the file has grown again begins with an image.
//!
//! A page that cannot be read is *unread* until an image makes what the log said about it so far irrelevant: it was torn in a write
//! that needed no doublewrite for just that reason (`flush`). One that is left in the end is damage: its checksum says so for ever.
//!
//! A page that the disk fails to read is none of these. What is there may be a sound old version: left out now, and read once the disk does
//! again, it would be a lost write, and later parts of the log would be applied to it. So recovery ends there, with the log as it was.
//!
//! A page changed here is dirty from the start of the first group on that changed it here; the next redo LSN, used in normal work,
//! would let a checkpoint pass changes that exist in memory only.
use super::dblwr::grow_to_hold;
use super::frame::PageWrite;
use super::gather::{Edit, Gathered, Part};
use super::page::{page_id, page_lsn, set_page_lsn, PAGE_SIZE};
use super::Pool;
use crate::base::sync::{Rank, RankedMutex};
use crate::base::{planted, Error, FileId, Lsn, Mutant, PageId, PageNo, Result};
use crate::redo::record::{decode, Record};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Pages that a thread reads at once.
const READ_MAX: usize = 64;
/// How often a page is asked for that the disk fails to read, and the time between.
const TRIES_MAX: u32 = 3;
const AGAIN_MS: u64 = 100;
/// What of the log is in memory takes the place of so much of the pool, at most (1/n).
const POOL_SHARE: usize = 3;

/// What a later part of the log makes void.
#[derive(Default)]
pub struct Void {
    dropped: BTreeSet<FileId>,
    /// First pages of what was given to loads: how many, and the end of the newest group that did.
    given: BTreeMap<PageId, (u32, Lsn)>,
    /// Cuts of each file, in log order: the first page cut off, and the end of the group that says so. The first pages rise: a
    /// later cut further down says all that those before it said.
    cuts: BTreeMap<FileId, Vec<(PageNo, Lsn)>>,
}

impl Void {
    /// First pass, in log order: a record of the group that ends at `end`.
    pub fn learn(&mut self, record: &Record<'_>, end: Lsn) {
        match record {
            Record::FileDrop { file } => drop(self.dropped.insert(*file)),
            // Whole extents, so one that is given again replaces itself.
            Record::Given { first, count } => drop(self.given.insert(*first, (*count, end))),
            Record::Truncate { first } => {
                let cuts = self.cuts.entry(first.file).or_default();
                cuts.retain(|(no, _)| *no < first.no);
                cuts.push((first.no, end));
            }
            _ => {}
        }
    }
    pub fn dropped(&self) -> &BTreeSet<FileId> {
        &self.dropped
    }
    /// Was the page given to a load? The end of the newest group that did.
    fn given(&self, id: PageId) -> Option<Lsn> {
        let (first, (count, lsn)) = self.given.range(..=id).next_back()?;
        (first.file == id.file && id.no - first.no < *count).then_some(*lsn)
    }
    pub(super) fn holds(&self, id: PageId, end: Lsn) -> bool {
        let is_given = || self.given(id).is_some_and(|lsn| end < lsn);
        let is_cut = |(first, lsn): &(PageNo, Lsn)| *first <= id.no && end < *lsn;
        let cuts = || self.cuts.get(&id.file).is_some_and(|cuts| cuts.iter().any(is_cut));
        self.dropped.contains(&id.file)
            || (!planted(Mutant::GivenForgotten) && is_given())
            || (!planted(Mutant::TruncateForgotten) && cuts())
    }
}

impl Pool {
    /// How much of the log recovery may have in memory, of a pool of this size: it gets that much of the frames' memory.
    pub fn gather_max(pool_bytes: u64) -> usize {
        (pool_bytes as usize / POOL_SHARE).max(PAGE_SIZE)
    }
    /// Recovery: applies what was gathered, except for what is void, to pages that are older. `progress` is told how many
    /// bytes of it are done.
    /// What is gathered next comes behind it in the log.
    pub fn redo_apply(&self, gathered: Gathered, void: &Void, progress: &mut dyn FnMut(usize)) -> Result<()> {
        let mut gathered = gathered;
        // Their memory is what the gathered log takes.
        let frames = (gathered.bytes() / PAGE_SIZE).min(self.frames.len() / POOL_SHARE);
        let lent: Vec<PageWrite<'_>> = (0..frames).map_while(|_| self.pop_free()).collect();
        self.grow_files(&gathered.images, void)?;
        gathered.parts.reverse();
        let parts = RankedMutex::new(Rank::Leaf, gathered.parts);
        let applied = self.apply_parts(&parts, void, progress);
        self.dirty.sort_recovered();
        for frame in lent {
            self.give_back(frame);
        }
        applied
    }
    fn apply_parts(&self, parts: &RankedMutex<Vec<Part>>, void: &Void, progress: &mut dyn FnMut(usize)) -> Result<()> {
        let done = AtomicUsize::new(0);
        let work = |progress: &mut dyn FnMut(usize)| -> Result<()> {
            loop {
                let Some(mut part) = parts.lock().pop() else {
                    return Ok(());
                };
                part.sort();
                if let Err(error) = self.redo_part(&part, void) {
                    parts.lock().clear();
                    return Err(error);
                }
                let so_far = done.fetch_add(part.len(), Ordering::Relaxed) + part.len();
                progress(so_far);
            }
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let helpers = cores.min(self.config.read_io_threads as usize).saturating_sub(1);
        std::thread::scope(|scope| {
            let others: Vec<_> = (0..helpers).map(|_| scope.spawn(|| work(&mut |_| ()))).collect();
            let mut result = work(progress);
            for other in others {
                result = result.and(other.join().expect("a bug ends recovery in every thread"));
            }
            result
        })
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
    /// Recovery is done; what it knew of the log is kept for [`Pool::was_given`], until the loads that a crash cut short are taken back (`Void::default()`).
    pub fn recovered(&self, void: Void) {
        *self.void.lock() = void;
    }
    /// Was the page given to a load between the last checkpoint and the crash? Then it was nobody else's any more; and the load's writes, which the
    /// crash may have cut short, need no doublewrite: a page that does not check is no damage there.
    pub fn was_given(&self, id: PageId) -> bool {
        self.void.lock().given(id).is_some()
    }
    /// Files that are shorter than their images need are grown, before several threads meet them.
    fn grow_files(&self, images: &[(PageId, Lsn)], void: &Void) -> Result<()> {
        let mut last: BTreeMap<FileId, PageId> = BTreeMap::new();
        for (page, _) in images.iter().filter(|(page, end)| !void.holds(*page, *end)) {
            let known = last.entry(page.file).or_insert(*page);
            *known = (*known).max(*page);
        }
        for page in last.into_values() {
            grow_to_hold(&*self.files.get(page.file)?.file, page)?;
        }
        Ok(())
    }
    fn redo_part(&self, part: &Part, void: &Void) -> Result<()> {
        let by_page = part.edits.chunk_by(|a, b| a.page == b.page);
        let pages: Vec<&[Edit]> = by_page
            .map(|edits| due(part, edits, void))
            .filter(|due| !due.is_empty())
            .collect();
        let read_max = (self.frames.len() / 8).clamp(1, READ_MAX);
        for some in pages.chunks(read_max) {
            let wanted = some.iter().filter(|due| !part.is_image(&due[0])).map(|due| due[0].page);
            self.read_ahead(wanted.collect());
            for due in some {
                self.redo_page(part, due)?;
            }
        }
        Ok(())
    }
    /// A failing disk is asked again.
    fn fetch_to_redo(&self, id: PageId) -> Result<PageWrite<'_>> {
        for _ in 1..TRIES_MAX {
            match self.fetch_write(id) {
                Err(Error::Io(_)) => std::thread::sleep(Duration::from_millis(AGAIN_MS)),
                fetched => return fetched,
            }
        }
        self.fetch_write(id)
    }
    /// All that is due to one page.
    fn redo_page(&self, part: &Part, due: &[Edit]) -> Result<()> {
        let id = due[0].page;
        let (mut page, readable) = if part.is_image(&due[0]) {
            let (page, resident) = self.fetch_new(id)?;
            self.unread.lock().remove(&id);
            (page, resident)
        } else {
            if self.unread.lock().contains(&id) {
                return Ok(());
            }
            match self.fetch_to_redo(id) {
                Ok(page) => (page, true),
                Err(Error::Corrupt(_)) => {
                    self.unread.lock().insert(id);
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        };
        let had = match readable && !planted(Mutant::RedoAppliedTwice) {
            true => page_lsn(page.bytes()),
            false => 0,
        };
        let newer = &due[due.partition_point(|edit| edit.end <= had)..];
        let (Some(first), Some(last)) = (newer.first(), newer.last()) else {
            return Ok(());
        };
        // The log says it in parts, and some of it was perhaps a move.
        page.frame().base_lsn.store(0, Ordering::Relaxed);
        for edit in newer {
            decode(part.records(edit), |record| {
                apply(&mut page, &record);
                Ok(())
            })?;
        }
        if page.frame().oldest() == 0 {
            self.dirty.mark_recovered(page.frame(), page.index(), first.start());
            // The log does not say which change this is about.
            page.frame().past_on_disk.store(true, Ordering::Relaxed);
        }
        set_page_lsn(page.bytes_mut(), last.end);
        Ok(())
    }
}

/// Of the edits of one page, those from which it can be made: behind what is void, from the newest image on.
fn due<'e>(part: &Part, edits: &'e [Edit], void: &Void) -> &'e [Edit] {
    let valid = edits.iter().position(|edit| !void.holds(edit.page, edit.end));
    let image = edits.iter().rposition(|edit| part.is_image(edit));
    &edits[valid.unwrap_or(edits.len()).max(image.unwrap_or(0))..]
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
