//! Giving pages out and taking them back.
//!
//! Latches: page 0 is the file's allocation latch. Whoever allocates or frees X-latches it first, then bitmaps, in any
//! order, all until the Mtr ends. (Bitmaps first would let two threads, each with a bitmap and a second page to allocate,
//! wait for each other.) Callers hold their tree or undo pages already and latch no further old ones afterwards.
//!
//! Where a page comes from:
//! 1. near the hint: the next free page behind it in its extent. A leaf that splits at its end gets its neighbour.
//! 2. a hint at the very end of its extent is a sequence that goes on: a wholly free extent.
//! 3. otherwise any free page of the hint's extent, then of the *mixed* extent, which serves all scattered requests of the
//!    file; when that is used up, a wholly free extent becomes the mixed one.
//! 4. no wholly free extent: any free page, as long as more than 1/8 of the file is free (for a sequence, which will fill
//!    a new extent to its end: two extents more than that); else the file grows.
//!
//! With the hint [`LOWEST`]: the lowest free page.
//!
//! Small files (two extents) skip the extents: any free page, lowest first.
//!
//! A disk without room for the usual growth gets a smaller one asked of it, down to what is needed.
//! Errors come before changes: frames and bitmaps are got, and the file is longer, before the first byte is edited.
use super::bitmap::{
    beyond, bit_in_extent, bitmap_of, bitmap_of_extent, byte_of, extent_of, first_free, free_run, is_bitmap, is_set,
    page_at, word, EXTENTS_PER_BITMAP, EXTENT_PAGES, PAGES_PER_BITMAP,
};
use super::file::format_bitmap;
use super::{header, EMPTY_HINT_OFFSET, FREE_HINT_OFFSET, HEADER_PAGE, MIXED_OFFSET, PAGES_OFFSET, USED_OFFSET};
use crate::base::bytes::get_u32;
use crate::base::{Error, FileId, PageId, PageNo, Result};
use crate::pool::{Mtr, PageHandle, PAGE_SIZE};
use smallvec::SmallVec;

/// Up to this size a file has no extents.
const SMALL_FILE_PAGES: u32 = 1 + 2 * EXTENT_PAGES;
/// A hint: the lowest free page, wherever that is.
pub const LOWEST: PageNo = PageNo::MAX;
/// Pages a file grows by: an eighth of itself within these bounds.
const GROWTH_MIN: u32 = EXTENT_PAGES;
const GROWTH_MAX: u32 = 1024;

/// Reserves one page near `hint` (0 = anywhere): marks it used and latches its frame, so that the caller's `Mtr::create` of
/// it cannot fail. Grows the file when needed; every error, `Error::Full` among them, comes before any change.
pub fn allocate(mtr: &mut Mtr<'_>, file: FileId, hint: PageNo) -> Result<PageNo> {
    Ok(pick_pages(mtr, file, hint, 1)?[0])
}

/// All or nothing: `n` pages.
pub fn allocate_many(mtr: &mut Mtr<'_>, file: FileId, hint: PageNo, n: usize) -> Result<Vec<PageNo>> {
    Ok(pick_pages(mtr, file, hint, n)?.into_vec())
}

/// All or nothing: the first pages of `n` runs of `len` pages, one behind the other in one extent.
pub fn allocate_runs(mtr: &mut Mtr<'_>, file: FileId, hint: PageNo, n: usize, len: u32) -> Result<Vec<PageNo>> {
    let mut search = Search::begin(mtr, file)?;
    let mut firsts = Vec::with_capacity(n);
    let mut near = hint;
    for left in (1..=n as u32).rev() {
        let first = search.pick_run(near, len, left)?;
        search.picked.extend(first..first + len);
        firsts.push(first);
        near = first + len - 1;
    }
    search.take()?;
    Ok(firsts)
}

/// From here on the file has room for `n` more pages, on disk too: allocating them does not fail with `Error::Full`. Changes nothing on error.
pub fn ensure_free(mtr: &mut Mtr<'_>, file: FileId, n: u32) -> Result<()> {
    let mut search = Search::begin(mtr, file)?;
    if search.free_count() < n {
        search.grow(n - search.free_count())?;
        search.take()?;
    }
    Ok(())
}

type Picked = SmallVec<[PageNo; 8]>;

fn pick_pages(mtr: &mut Mtr<'_>, file: FileId, hint: PageNo, n: usize) -> Result<Picked> {
    let mut search = Search::begin(mtr, file)?;
    let mut hint = hint;
    for left in (1..=n as u32).rev() {
        let page = search.pick(hint, left)?;
        search.picked.push(page);
        hint = page;
    }
    search.take()
}

/// A wholly free extent, marked used as a whole: its first page. What is in it is the caller's affair. Errors come before any change.
/// None: `may_take`, asked for its first page, says no, and nothing was changed.
pub fn allocate_extent(
    mtr: &mut Mtr<'_>,
    file: FileId,
    may_take: &mut dyn FnMut(PageNo) -> bool,
) -> Result<Option<PageNo>> {
    let mut search = Search::begin(mtr, file)?;
    let empty = |word: u64| word == 0;
    let mut found = search.find_extent(search.empty_hint, empty)?;
    if found.is_none() {
        // Two, in case the first one there is begins with a bitmap.
        match search.grow(2 * EXTENT_PAGES) {
            Err(Error::Full(_)) => {
                let need = search.pages_up_to_next_extent()?;
                search.grow(need)?;
            }
            grown => grown?,
        }
        found = search.find_extent(search.empty_hint, empty)?;
    }
    let extent = found.ok_or_else(|| search.counts_are_wrong())?;
    search.word(extent)?;
    search.empty_hint = extent + 1;
    match may_take(page_at(extent, 0)) {
        true => search.take_extent(extent).map(Some),
        false => Ok(None),
    }
}

/// Before the first change: [`free_in_extent`] will find the pages in use. If not, the free-space map is broken.
pub fn check_used_in_extent(mtr: &mut Mtr<'_>, file: FileId, first: PageNo, from: u32) -> Result<()> {
    Search::begin(mtr, file)?;
    let bitmap = bitmap_of(first);
    let page = mtr.write(PageId::new(file, bitmap))?;
    let freed = u64::MAX << from;
    if word(mtr.bytes(page), extent_of(first)) & freed == freed {
        return Ok(());
    }
    let what = format!("the pages of a load, from {first} on, are to be freed, but not all are in use");
    Err(Error::corrupt_page(file, bitmap, what))
}

/// Gives back the pages of an extent from bit `from` on, all in use. None of them is read again under its old meaning.
pub fn free_in_extent(mtr: &mut Mtr<'_>, file: FileId, first: PageNo, from: u32) -> Result<()> {
    assert!(bit_in_extent(first) == 0 && from < EXTENT_PAGES);
    let search = Search::begin(mtr, file)?;
    let Search { header, used, .. } = search;
    let (free_hint, empty_hint) = (search.free_hint, search.empty_hint);
    let extent = extent_of(first);
    let bitmap = mtr.write(PageId::new(file, bitmap_of(first)))?;
    let before = word(mtr.bytes(bitmap), extent);
    let freed = u64::MAX << from;
    assert!(
        before & freed == freed,
        "the extent at page {first} is freed, but not in use"
    );
    let after = before & !freed;
    mtr.edit(bitmap, byte_of(first).0, &after.to_le_bytes());
    mtr.edit_u32(header, USED_OFFSET, used - freed.count_ones());
    if extent < free_hint {
        mtr.edit_u32(header, FREE_HINT_OFFSET, extent);
    }
    if after == 0 && extent < empty_hint {
        mtr.edit_u32(header, EMPTY_HINT_OFFSET, extent);
    }
    mtr.pool().counters().pages_freed.add(freed.count_ones() as u64);
    Ok(())
}

/// Gives pages of one file back. They must not be read again under their old meaning. Errors come before any change.
pub fn free(mtr: &mut Mtr<'_>, pages: &[PageId]) -> Result<()> {
    prepare_free(mtr, pages)?;
    pages.iter().try_for_each(|page| free_one(mtr, *page))
}

/// All that can fail in freeing them: after this the same Mtr's `free` of them cannot, whatever it has changed meanwhile.
pub fn prepare_free(mtr: &mut Mtr<'_>, pages: &[PageId]) -> Result<()> {
    for page in pages {
        let in_use = check_in_use(mtr, *page)?;
        if !in_use {
            let what = format!(
                "file {}, page {}: it is to be freed, but it is not marked as in use",
                page.file, page.no
            );
            return Err(Error::corrupt_page(page.file, bitmap_of(page.no.max(1)), what));
        }
    }
    Ok(())
}

/// Latches what a freeing will change.
fn check_in_use(mtr: &mut Mtr<'_>, page: PageId) -> Result<bool> {
    let header = header(mtr, page.file)?;
    let pages = get_u32(mtr.bytes(header), PAGES_OFFSET);
    if page.no == HEADER_PAGE || is_bitmap(page.no) || page.no >= pages {
        return Ok(false);
    }
    let bitmap = mtr.write(PageId::new(page.file, bitmap_of(page.no)))?;
    Ok(is_set(mtr.bytes(bitmap), page.no))
}

fn free_one(mtr: &mut Mtr<'_>, page: PageId) -> Result<()> {
    let search = Search::begin(mtr, page.file)?;
    let Search { header, used, .. } = search;
    let (free_hint, empty_hint) = (search.free_hint, search.empty_hint);
    let bitmap = mtr.write(PageId::new(page.file, bitmap_of(page.no)))?;
    let (at, mask) = byte_of(page.no);
    let byte = mtr.bytes(bitmap)[at];
    assert!(byte & mask != 0, "{page} is freed twice in one mini-transaction");
    mtr.edit(bitmap, at, &[byte & !mask]);
    mtr.edit_u32(header, USED_OFFSET, used.saturating_sub(1));
    let extent = extent_of(page.no);
    if extent < free_hint {
        mtr.edit_u32(header, FREE_HINT_OFFSET, extent);
    }
    if extent < empty_hint && word(mtr.bytes(bitmap), extent) == 0 {
        mtr.edit_u32(header, EMPTY_HINT_OFFSET, extent);
    }
    mtr.pool().counters().pages_freed.inc();
    Ok(())
}

/// One search for free pages, over the file's X-latched header.
struct Search<'m, 'p> {
    mtr: &'m mut Mtr<'p>,
    file: FileId,
    header: PageHandle,
    pages: u32,
    used: u32,
    /// No extent below has a free page.
    free_hint: u32,
    /// No extent below is wholly free.
    empty_hint: u32,
    mixed: u32,
    /// Found, bitmaps latched, not marked yet.
    picked: Picked,
    /// Bitmap pages that the growth makes due: reserved, not created yet.
    new_bitmaps: SmallVec<[PageNo; 1]>,
}

impl<'m, 'p> Search<'m, 'p> {
    fn begin(mtr: &'m mut Mtr<'p>, file: FileId) -> Result<Search<'m, 'p>> {
        let header = header(mtr, file)?;
        let b = mtr.bytes(header);
        Ok(Search {
            pages: get_u32(b, PAGES_OFFSET),
            used: get_u32(b, USED_OFFSET),
            free_hint: get_u32(b, FREE_HINT_OFFSET),
            empty_hint: get_u32(b, EMPTY_HINT_OFFSET),
            mixed: get_u32(b, MIXED_OFFSET),
            picked: SmallVec::new(),
            new_bitmaps: SmallVec::new(),
            mtr,
            file,
            header,
        })
    }
    fn free_count(&self) -> u32 {
        self.pages - self.used - self.picked.len() as u32
    }
    fn is_small(&self) -> bool {
        self.pages <= SMALL_FILE_PAGES
    }
    /// The next page; `left` more, this one included, are going to be asked for.
    fn pick(&mut self, hint: PageNo, left: u32) -> Result<PageNo> {
        if self.free_count() >= left {
            if let Some(page) = self.pick_as_is(hint)? {
                return Ok(page);
            }
        }
        match self.grow(left) {
            Ok(()) => {}
            Err(Error::Full(why)) => {
                if self.free_count() < left {
                    return Err(Error::Full(why));
                }
            }
            Err(error) => return Err(error),
        }
        if let Some(page) = self.pick_as_is(hint)? {
            return Ok(page);
        }
        let found = self.pick_any()?;
        found.ok_or_else(|| self.counts_are_wrong())
    }
    fn counts_are_wrong(&self) -> Error {
        let what = format!(
            "file {}, page 0: it counts free pages that its bitmaps do not have",
            self.file
        );
        Error::corrupt_page(self.file, HEADER_PAGE, what)
    }
    /// None: better to grow the file.
    fn pick_as_is(&mut self, hint: PageNo) -> Result<Option<PageNo>> {
        if hint == LOWEST {
            return self.pick_any();
        }
        if self.is_small() {
            return match self.pick_near(hint)? {
                None => self.pick_any(),
                near => Ok(near),
            };
        }
        let sequence_goes_on = hint != 0 && bit_in_extent(hint) == EXTENT_PAGES - 1;
        if !sequence_goes_on {
            if let Some(page) = self.pick_near(hint)? {
                return Ok(Some(page));
            }
            if let Some(bit) = first_free(self.word(self.mixed)?, 0) {
                return Ok(Some(page_at(self.mixed, bit)));
            }
        }
        if let Some(extent) = self.find_extent(self.empty_hint, |word| word == 0)? {
            self.empty_hint = extent;
            if !sequence_goes_on {
                self.mixed = extent;
            }
            return Ok(Some(page_at(extent, 0)));
        }
        self.empty_hint = self.extents();
        let free_kept = match sequence_goes_on {
            true => self.pages / 8 + 2 * EXTENT_PAGES,
            false => self.pages / 8,
        };
        if self.free_count() > free_kept {
            return self.pick_any();
        }
        Ok(None)
    }
    fn pick_near(&mut self, hint: PageNo) -> Result<Option<PageNo>> {
        if hint == 0 || hint >= self.pages {
            return Ok(None);
        }
        let extent = extent_of(hint);
        let word = self.word(extent)?;
        let bit = first_free(word, bit_in_extent(hint) + 1).or_else(|| first_free(word, 0));
        Ok(bit.map(|bit| page_at(extent, bit)))
    }
    fn pick_any(&mut self) -> Result<Option<PageNo>> {
        let found = self.find_extent(self.free_hint, |word| word != u64::MAX)?;
        let Some(extent) = found else { return Ok(None) };
        self.free_hint = extent;
        let bit = first_free(self.word(extent)?, 0).expect("it was just found");
        Ok(Some(page_at(extent, bit)))
    }
    /// The first page of `len` free ones in a row; `left` such runs, this one included, are going
    /// to be asked for.
    fn pick_run(&mut self, near: PageNo, len: u32, left: u32) -> Result<PageNo> {
        if near != 0 && near < self.pages {
            let extent = extent_of(near);
            let word = self.word(extent)?;
            let bit = free_run(word, bit_in_extent(near) + 1, len).or_else(|| free_run(word, 0, len));
            if let Some(bit) = bit {
                return Ok(page_at(extent, bit));
            }
        }
        // Twice as much, in case what there is ends in the middle of one, and a bitmap comes behind
        // it.
        for need in [0, len * left, 2 * len * left] {
            if need > 0 {
                self.grow(need)?;
            }
            let found = self.find_extent(self.free_hint, |word| free_run(word, 0, len).is_some())?;
            if let Some(extent) = found {
                let bit = free_run(self.word(extent)?, 0, len).expect("it was just found");
                return Ok(page_at(extent, bit));
            }
        }
        Err(self.counts_are_wrong())
    }
    /// Extents of the file, the last one perhaps cut short.
    fn extents(&self) -> u32 {
        (self.pages - 1).div_ceil(EXTENT_PAGES)
    }
    /// The used bits of an extent; its bitmap is latched from here on, so that marking cannot fail.
    fn word(&mut self, extent: u32) -> Result<u64> {
        if extent >= self.extents() {
            return Ok(u64::MAX);
        }
        let bitmap = self.mtr.write(PageId::new(self.file, bitmap_of_extent(extent)))?;
        Ok(self.effective_word(self.mtr.bytes(bitmap), extent))
    }
    /// With what is beyond the end, and what this search picked already.
    fn effective_word(&self, bitmap: &[u8], extent: u32) -> u64 {
        let word = if self.new_bitmaps.contains(&bitmap_of_extent(extent)) {
            (extent % EXTENTS_PER_BITMAP == 0) as u64
        } else {
            word(bitmap, extent)
        };
        let picked = self.picked.iter().filter(|page| extent_of(**page) == extent);
        picked.fold(word | beyond(extent, self.pages), |word, page| {
            word | 1 << bit_in_extent(*page)
        })
    }
    fn find_extent(&mut self, from: u32, wanted: impl Fn(u64) -> bool) -> Result<Option<u32>> {
        let mut extent = from;
        while extent < self.extents() {
            let id = PageId::new(self.file, bitmap_of_extent(extent));
            let held_before = self.mtr.find(id).is_some();
            let bitmap = self.mtr.write(id)?;
            let end = self
                .extents()
                .min((extent / EXTENTS_PER_BITMAP + 1) * EXTENTS_PER_BITMAP);
            let bytes = self.mtr.bytes(bitmap);
            if let Some(found) = (extent..end).find(|e| wanted(self.effective_word(bytes, *e))) {
                return Ok(Some(found));
            }
            if !held_before {
                self.mtr.release(bitmap);
            }
            extent = end;
        }
        Ok(None)
    }
    /// Pages that the file lacks until it has one wholly free extent more: at its end.
    fn pages_up_to_next_extent(&mut self) -> Result<u32> {
        let last = extent_of(self.pages - 1);
        // Nobody uses what there is of the last one.
        let cut_short = self.word(last)? == beyond(last, self.pages) && self.pages < page_at(last, EXTENT_PAGES);
        let next = if cut_short { last } else { self.extents() };
        let begins_with_bitmap = is_bitmap(page_at(next, 0)) as u32;
        Ok(page_at(next + begins_with_bitmap, EXTENT_PAGES) - self.pages - begins_with_bitmap)
    }
    /// Makes the file longer, with room for at least `need` more pages. Pages change in `take` only.
    fn grow(&mut self, need: u32) -> Result<()> {
        let all_given = || Error::Full(format!("file {} has all its pages", self.file));
        let mut pages = grown(self.pages, need).ok_or_else(all_given)?;
        // The new pages' bits are in the last bitmap, or in the one made here: both are latched now.
        let last = bitmap_of(self.pages - 1);
        self.mtr.write(PageId::new(self.file, last))?;
        let next = last + PAGES_PER_BITMAP;
        debug_assert!(pages <= next + PAGES_PER_BITMAP);
        let least = self.pages + need + (self.pages + need > next) as u32;
        while let Err(error) = self.make_longer(pages) {
            if !matches!(error, Error::Full(_)) || pages <= least {
                return Err(error);
            }
            pages = least.max(self.pages + (pages - self.pages) / 2);
        }
        if pages > next {
            self.mtr.reserve(PageId::new(self.file, next))?;
            self.new_bitmaps.push(next);
            self.used += 1;
        }
        // The last extent may have been cut short: what it gained counts as free and perhaps as wholly free now.
        let last_extent = extent_of(self.pages - 1);
        self.free_hint = self.free_hint.min(last_extent);
        self.empty_hint = self.empty_hint.min(last_extent);
        self.pages = pages;
        Ok(())
    }
    fn make_longer(&self, pages: u32) -> Result<()> {
        let files = self.mtr.pool().files();
        let file = files.get(self.file)?.file;
        let len = pages as u64 * PAGE_SIZE as u64;
        // A cut that has let go of the header may be under way (`cut`).
        let lock = files.length_lock(self.file);
        let _held = lock.as_ref().map(|lock| lock.lock());
        match file.len()? < len {
            true => file.set_len(len),
            false => Ok(()),
        }
    }
    /// Marks a wholly free extent, whose bitmap is latched.
    fn take_extent(self, extent: u32) -> Result<PageNo> {
        for bitmap in &self.new_bitmaps {
            format_bitmap(self.mtr, PageId::new(self.file, *bitmap))?;
        }
        let first = page_at(extent, 0);
        let bitmap = self.mtr.write(PageId::new(self.file, bitmap_of(first)))?;
        debug_assert_eq!(word(self.mtr.bytes(bitmap), extent), 0);
        self.mtr.edit(bitmap, byte_of(first).0, &u64::MAX.to_le_bytes());
        self.write_header(EXTENT_PAGES);
        Ok(first)
    }
    /// Marks what was picked. Fails only at the frames, before the first change.
    fn take(mut self) -> Result<Picked> {
        for page in &self.picked {
            self.mtr.reserve(PageId::new(self.file, *page))?;
        }
        for bitmap in &self.new_bitmaps {
            format_bitmap(self.mtr, PageId::new(self.file, *bitmap))?;
        }
        for page in &self.picked {
            let bitmap = self.mtr.write(PageId::new(self.file, bitmap_of(*page)))?;
            debug_assert!(!is_set(self.mtr.bytes(bitmap), *page));
            let (at, mask) = byte_of(*page);
            let byte = self.mtr.bytes(bitmap)[at];
            self.mtr.edit(bitmap, at, &[byte | mask]);
        }
        let picked = std::mem::take(&mut self.picked);
        self.write_header(picked.len() as u32);
        Ok(picked)
    }
    fn write_header(self, taken: u32) {
        self.mtr.edit_u32(self.header, PAGES_OFFSET, self.pages);
        self.mtr.edit_u32(self.header, USED_OFFSET, self.used + taken);
        self.mtr.edit_u32(self.header, FREE_HINT_OFFSET, self.free_hint);
        self.mtr.edit_u32(self.header, EMPTY_HINT_OFFSET, self.empty_hint);
        self.mtr.edit_u32(self.header, MIXED_OFFSET, self.mixed);
        self.mtr.pool().counters().pages_created.add(taken as u64);
    }
}

/// The next size: doubled up to one extent, then whole extents. None: page numbers have run out.
fn grown(pages: u32, need: u32) -> Option<u32> {
    // One more than needed, in case a bitmap page is due.
    let least = pages.checked_add(need)?.checked_add(1)?;
    if pages < EXTENT_PAGES / 2 && least <= pages * 2 {
        return Some(pages * 2);
    }
    let step = (pages / 8).clamp(GROWTH_MIN, GROWTH_MAX);
    let wanted = least.max(pages.checked_add(step)?);
    // 1 + a multiple of the extent, rounded up.
    (wanted - 1)
        .div_ceil(EXTENT_PAGES)
        .checked_mul(EXTENT_PAGES)?
        .checked_add(1)
}

#[cfg(test)]
mod tests {
    use super::grown;

    #[test]
    fn growth_is_gentle_and_ends_on_extents() {
        let mut pages = 8;
        let mut steps = vec![pages];
        while pages < 2000 {
            pages = grown(pages, 1).unwrap();
            steps.push(pages);
        }
        assert_eq!(steps[..5], [8, 16, 32, 129, 193]);
        assert!(steps[3..].iter().all(|p| p % 64 == 1));
        assert!(grown(8, 500).unwrap() >= 509);
        assert_eq!(grown(u32::MAX - 5, 10), None);
    }
}
