//! Recovery: applies what was gathered of the log (`gather`) to pages.
//!
//! Page by page, in page order. A page is latched once, gets all its edits that are newer than
//! itself, is stamped with the last edit's LSN and let go. Parts of the log, which have no page in
//! common, are applied by as many threads as read ahead in normal work. Each thread reads the pages
//! of its next few edits in one batch.
//!
//! A page whose edits have an image among them is not read: it may be torn, unwritten, or past the
//! file's end. Edits before its newest image are passed over.
//!
//! A log that takes more memory than it may is gathered and applied in several rounds. A page may
//! come in each round.
//!
//! What is [`Void`] is passed over. A load wrote past the log, so nothing older may reach the disk
//! again, not even for a short time. A pool that is smaller than the log's pages would write it
//! over what the load wrote. Of a page past a truncation there is nothing to read. What the log
//! says of it when the file has grown again begins with an image.
//!
//! A page that cannot be read is *unread* until an image makes what the log said about it so far
//! irrelevant. It was torn in a write that needed no doublewrite for just that reason (`batch`). A
//! page that is unread at the end is damage: its checksum says so for ever.
//!
//! A page that the disk fails to read is no such page. The disk may hold a sound old version. If
//! recovery left it out and the disk read it later, the page would be a lost write. Later parts of
//! the log would be applied to it. So recovery ends there, with the log as it was.
//!
//! A page changed here is dirty from the start of the first group on that changed it here. The next
//! redo LSN, used in normal work, would let a checkpoint pass changes that exist in memory only.
//!
//! Latches: one page at a time in each thread.
//! Called by: the engine's start.
use super::gather::{Edit, Gathered, Part, POOL_SHARE};
use super::state::Recovery;
use super::torn::grow_to_hold;
use super::void::Void;
use crate::base::sync::{holds_no_latch, Rank, RankedMutex};
use crate::base::{planted, Error, FileId, Lsn, Mutant, PageId, Result};
use crate::pool::frames::frame::PageWrite;
use crate::pool::page::{page_id, page_lsn, set_page_lsn, PAGE_SIZE};
use crate::redo::record::{decode, Record};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Pages that a thread reads at once.
const READ_MAX: usize = 64;
/// How often a page is asked for that the disk fails to read, and the time between.
const TRIES_MAX: u32 = 3;
const AGAIN_MS: u64 = 100;

impl Recovery<'_> {
    /// Applies what was gathered, except for what is void, to pages that are older. What is
    /// gathered next comes after it in the log. Calls `progress` with the number of bytes that are
    /// done.
    pub fn apply(&self, gathered: Gathered, void: &Void, progress: &mut dyn FnMut(usize)) -> Result<()> {
        let mut gathered = gathered;
        debug_assert!(holds_no_latch(), "I5: recovery latches one page at a time");
        let store = self.reader.store();
        // The gathered log takes the memory of these frames.
        let frames = (gathered.bytes() / PAGE_SIZE).min(store.frames.len() / POOL_SHARE);
        let lent: Vec<PageWrite<'_>> = (0..frames).map_while(|_| store.pop_free()).collect();
        self.grow_files(&gathered.images, void)?;
        gathered.parts.reverse();
        let parts = RankedMutex::new(Rank::Leaf, gathered.parts);
        let applied = self.apply_parts(&parts, void, progress);
        store.dirty.sort_recovered();
        for frame in lent {
            store.give_back(frame);
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
                if let Err(error) = self.apply_part(&part, void) {
                    parts.lock().clear();
                    return Err(error);
                }
                let so_far = done.fetch_add(part.len(), Ordering::Relaxed) + part.len();
                progress(so_far);
            }
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let helpers = cores.min(self.threads_max).saturating_sub(1);
        std::thread::scope(|scope| {
            let others: Vec<_> = (0..helpers).map(|_| scope.spawn(|| work(&mut |_| ()))).collect();
            let mut result = work(progress);
            for other in others {
                result = result.and(other.join().expect("a bug ends recovery in every thread"));
            }
            result
        })
    }
    /// After the last group: calls `unread` for each page that is needed and cannot be read, which
    /// decides whether recovery goes on. The page stays as it is, unreadable, so that no reader
    /// takes it for whole.
    pub fn finish(&self, unread: &mut dyn FnMut(PageId, Error) -> Result<()>) -> Result<()> {
        let mut pages: Vec<PageId> = self.state.unread.lock().iter().copied().collect();
        debug_assert!(holds_no_latch(), "I5: recovery reads one page at a time");
        pages.sort_unstable();
        for id in pages {
            // The error says what is wrong with the page.
            match self.reader.read(id) {
                Err(e) if e.is_corrupt() => unread(id, e)?,
                done => drop(done?),
            }
        }
        Ok(())
    }
    /// Grows the files that are shorter than their images need, before several threads meet them.
    fn grow_files(&self, images: &[(PageId, Lsn)], void: &Void) -> Result<()> {
        let mut last: BTreeMap<FileId, PageId> = BTreeMap::new();
        for (page, _) in images.iter().filter(|(page, end)| !void.holds(*page, *end)) {
            let known = last.entry(page.file).or_insert(*page);
            *known = (*known).max(*page);
        }
        for page in last.into_values() {
            grow_to_hold(&*self.reader.files().get(page.file)?.file, page)?;
        }
        Ok(())
    }
    fn apply_part(&self, part: &Part, void: &Void) -> Result<()> {
        let by_page = part.edits.chunk_by(|a, b| a.page == b.page);
        let pages: Vec<&[Edit]> = by_page
            .map(|edits| due(part, edits, void))
            .filter(|due| !due.is_empty())
            .collect();
        let read_max = (self.reader.store().frames.len() / 8).clamp(1, READ_MAX);
        for some in pages.chunks(read_max) {
            let wanted = some.iter().filter(|due| !part.is_image(&due[0])).map(|due| due[0].page);
            self.reader.read_ahead(wanted.collect());
            for due in some {
                self.apply_page(part, due)?;
            }
        }
        Ok(())
    }
    /// The X-latched page. A failing disk is asked again.
    fn fetch(&self, id: PageId) -> Result<PageWrite<'_>> {
        for _ in 1..TRIES_MAX {
            match self.reader.fetch_write(id) {
                Err(Error::Io(_)) => std::thread::sleep(Duration::from_millis(AGAIN_MS)),
                fetched => return fetched,
            }
        }
        self.reader.fetch_write(id)
    }
    /// Applies all that is due to one page.
    fn apply_page(&self, part: &Part, due: &[Edit]) -> Result<()> {
        let id = due[0].page;
        debug_assert!(
            due.is_sorted_by_key(|edit| edit.end),
            "a page gets its edits in log order"
        );
        debug_assert!(
            due[1..].iter().all(|edit| edit.page == id && !part.is_image(edit)),
            "the newest image of a page comes first"
        );
        let (mut page, readable) = if part.is_image(&due[0]) {
            let (page, resident) = self.reader.fetch_new(id)?;
            self.state.unread.lock().remove(&id);
            (page, resident)
        } else {
            if self.state.unread.lock().contains(&id) {
                return Ok(());
            }
            match self.fetch(id) {
                Ok(page) => (page, true),
                Err(Error::Corrupt(_)) => {
                    self.state.unread.lock().insert(id);
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
        // Some of its changes, in this round or an earlier one, may be moves: the log cannot mend
        // it.
        page.frame().base_lsn.store(0, Ordering::Relaxed);
        for edit in newer {
            decode(part.records(edit), |record| {
                apply(&mut page, &record);
                Ok(())
            })?;
        }
        if page.frame().oldest() == 0 {
            let store = self.reader.store();
            store.dirty.mark_recovered(page.frame(), page.index(), first.start());
            // The log does not say whether a reader may still ask for what the page held before it
            // was freed.
            page.frame().must_write_freed_image.store(true, Ordering::Relaxed);
        }
        set_page_lsn(page.bytes_mut(), last.end);
        Ok(())
    }
}

/// Of the edits of one page, those from which it can be made: after what is void, from the newest
/// image on.
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
            debug_assert_eq!(
                page_id(bytes).as_u64(),
                page.key(),
                "an image is of the page that it is for"
            );
        }
        _ => unreachable!("only page records are collected"),
    }
}
