//! The search for free pages, and the growth of a file.
//!
//! Where a page comes from:
//! 1. near the hint: the next free page after it in its extent. A leaf that splits at its end gets
//!    its neighbour.
//! 2. a hint at the very end of its extent is a sequence that goes on: a wholly free extent.
//! 3. otherwise any free page of the hint's extent, then of the *mixed* extent, which serves all
//!    scattered requests of the file. When that is used up, a wholly free extent becomes the mixed
//!    one.
//! 4. no wholly free extent: any free page, as long as more than 1/8 of the file is free. A
//!    sequence, which will fill a new extent to its end, needs two extents more than that.
//!    Otherwise the file grows.
//!
//! With the hint [`LOWEST`]: the lowest free page. Small files (two extents) have no extents: any
//! free page, lowest first. When the disk has no room for the usual growth, smaller growths are
//! tried, down to what is needed. Keeps: errors come before changes; frames and bitmaps are
//! latched, and the file is longer, before the first byte is edited. Latches: as in `allocate`.
//! Called by: `allocate`, `free`.
use super::bitmap::{
    beyond, bit_in_extent, bitmap_of, bitmap_of_extent, byte_of, extent_of, first_free, free_run, is_bitmap, is_set,
    page_at, word, EXTENTS_PER_BITMAP, EXTENT_PAGES, PAGES_PER_BITMAP,
};
use super::bitmap_page::format_bitmap;
use super::header::{
    header, EMPTY_HINT_OFFSET, FREE_HINT_OFFSET, HEADER_PAGE, MIXED_OFFSET, PAGES_OFFSET, USED_OFFSET,
};
use crate::base::bytes::get_u32;
use crate::base::{Error, FileId, PageId, PageNo, Result};
use crate::pool::{Mtr, PageHandle, PAGE_SIZE};
use smallvec::SmallVec;

/// Pages up to which a file has no extents.
const SMALL_FILE_PAGES: u32 = 1 + 2 * EXTENT_PAGES;
/// A hint: the lowest free page, wherever that is.
pub const LOWEST: PageNo = PageNo::MAX;
/// Bounds of the growth of a file, in pages: it grows by an eighth of itself.
const GROWTH_MIN: u32 = EXTENT_PAGES;
const GROWTH_MAX: u32 = 1024;

pub(super) type Picked = SmallVec<[PageNo; 8]>;

/// One search for free pages, over the file's X-latched header.
pub(super) struct Search<'m, 'p> {
    mtr: &'m mut Mtr<'p>,
    file: FileId,
    pub header: PageHandle,
    pages: u32,
    pub used: u32,
    /// No extent below has a free page.
    pub free_hint: u32,
    /// No extent below is wholly free.
    pub empty_hint: u32,
    mixed: u32,
    /// Pages found, whose bitmaps are latched and not marked yet.
    pub picked: Picked,
    /// Bitmap pages that the growth needs: reserved, not created yet.
    new_bitmaps: SmallVec<[PageNo; 1]>,
}

impl<'m, 'p> Search<'m, 'p> {
    pub fn begin(mtr: &'m mut Mtr<'p>, file: FileId) -> Result<Search<'m, 'p>> {
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
    pub fn free_count(&self) -> u32 {
        self.pages - self.used - self.picked.len() as u32
    }
    fn is_small(&self) -> bool {
        self.pages <= SMALL_FILE_PAGES
    }
    /// The next page. `left`: number of pages still to be picked, this one included.
    pub fn pick(&mut self, hint: PageNo, left: u32) -> Result<PageNo> {
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
    pub fn counts_are_wrong(&self) -> Error {
        let what = format!(
            "file {}, page 0: it counts free pages that its bitmaps do not have",
            self.file
        );
        Error::corrupt_page(self.file, HEADER_PAGE, what)
    }
    /// A free page of the file as it is. None: the file should grow.
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
    /// The first of `len` adjacent free pages. `left`: number of runs still to be picked, this one
    /// included.
    pub fn pick_run(&mut self, near: PageNo, len: u32, left: u32) -> Result<PageNo> {
        if near != 0 && near < self.pages {
            let extent = extent_of(near);
            let word = self.word(extent)?;
            let bit = free_run(word, bit_in_extent(near) + 1, len).or_else(|| free_run(word, 0, len));
            if let Some(bit) = bit {
                return Ok(page_at(extent, bit));
            }
        }
        // Twice as much, in case the free pages end in the middle of a run, and a bitmap follows.
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
    /// Number of extents of the file. The last one may be incomplete.
    fn extents(&self) -> u32 {
        (self.pages - 1).div_ceil(EXTENT_PAGES)
    }
    /// The used bits of an extent. Latches its bitmap, so that marking cannot fail later.
    pub fn word(&mut self, extent: u32) -> Result<u64> {
        if extent >= self.extents() {
            return Ok(u64::MAX);
        }
        let bitmap = self.mtr.write(PageId::new(self.file, bitmap_of_extent(extent)))?;
        Ok(self.effective_word(self.mtr.bytes(bitmap), extent))
    }
    /// The used bits of an extent, with pages past the end and pages that this search has picked.
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
    pub fn find_extent(&mut self, from: u32, wanted: impl Fn(u64) -> bool) -> Result<Option<u32>> {
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
    /// Number of pages to add until the file's end has one more wholly free extent.
    pub fn pages_up_to_next_extent(&mut self) -> Result<u32> {
        let last = extent_of(self.pages - 1);
        // The last extent is incomplete, and none of its pages is in use.
        let unused_part = self.word(last)? == beyond(last, self.pages) && self.pages < page_at(last, EXTENT_PAGES);
        let next = if unused_part { last } else { self.extents() };
        let begins_with_bitmap = is_bitmap(page_at(next, 0)) as u32;
        Ok(page_at(next + begins_with_bitmap, EXTENT_PAGES) - self.pages - begins_with_bitmap)
    }
    /// Extends the file by at least `need` pages. Pages change in `take` only.
    pub fn grow(&mut self, need: u32) -> Result<()> {
        let all_given = || Error::Full(format!("file {} has all its pages", self.file));
        let mut pages = grown(self.pages, need).ok_or_else(all_given)?;
        // The new pages' bits are in the last bitmap, or in a new one: both are latched now.
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
        // The last extent may have been incomplete: it has free pages now, and may be wholly free.
        let last_extent = extent_of(self.pages - 1);
        self.free_hint = self.free_hint.min(last_extent);
        self.empty_hint = self.empty_hint.min(last_extent);
        debug_assert!(
            pages >= self.pages + need,
            "a file grows by what was asked for, at least"
        );
        self.pages = pages;
        Ok(())
    }
    fn make_longer(&self, pages: u32) -> Result<()> {
        let files = self.mtr.pool().files();
        let file = files.get(self.file)?.file;
        let len = pages as u64 * PAGE_SIZE as u64;
        // A truncation that has released the header may be under way (`truncate`).
        let lock = files.length_lock(self.file);
        let _held = lock.as_ref().map(|lock| lock.lock());
        match file.len()? < len {
            true => file.set_len(len),
            false => Ok(()),
        }
    }
    /// Marks a wholly free extent, whose bitmap is latched, as used.
    pub fn take_extent(self, extent: u32) -> Result<PageNo> {
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
    /// Marks the picked pages as used. Fails only at the frames, before the first change.
    pub fn take(mut self) -> Result<Picked> {
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

/// The next size of a file: doubled up to one extent, then whole extents. None: the page numbers
/// have run out.
fn grown(pages: u32, need: u32) -> Option<u32> {
    // One page more than needed, in case a bitmap page is due.
    let least = pages.checked_add(need)?.checked_add(1)?;
    if pages < EXTENT_PAGES / 2 && least <= pages * 2 {
        return Some(pages * 2);
    }
    let step = (pages / 8).clamp(GROWTH_MIN, GROWTH_MAX);
    let wanted = least.max(pages.checked_add(step)?);
    // Page 0 and whole extents, rounded up.
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
