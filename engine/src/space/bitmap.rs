//! The bitmap pages: arithmetic of pages, extents and bits.
//!
//! Pure functions over page bytes. Called by: the other files here.
//!
//! ```text
//! bitmap page (type Bitmap), body:
//! 32 first      u32   the bitmap's own page number = first page it covers
//! 36 reserved   28 bytes, 0
//! 64 bits       1 per page, from itself on; 1 = in use; little-endian 64-bit words, one per extent
//! ```
//! Bitmaps stand at page 1 and every [`PAGES_PER_BITMAP`]-th page after it. So extent e is the
//! pages 1 + 64 e to 64 + 64 e, and a word never spans two bitmaps. Page 0 is in no bitmap.
use crate::base::bytes::get_u64;
use crate::base::PageNo;
use crate::pool::PAGE_SIZE;

pub const BITS_OFFSET: usize = 64;
pub const FIRST_OFFSET: usize = 32;
/// Pages of an extent: one word of the bitmap.
pub const EXTENT_PAGES: u32 = 64;
pub const EXTENTS_PER_BITMAP: u32 = ((PAGE_SIZE - BITS_OFFSET) / 8) as u32;
pub const PAGES_PER_BITMAP: u32 = EXTENTS_PER_BITMAP * EXTENT_PAGES;
pub const FIRST_BITMAP: PageNo = 1;

pub fn extent_of(page: PageNo) -> u32 {
    (page - 1) / EXTENT_PAGES
}
pub fn bit_in_extent(page: PageNo) -> u32 {
    (page - 1) % EXTENT_PAGES
}
pub fn page_at(extent: u32, bit: u32) -> PageNo {
    debug_assert!(bit <= EXTENT_PAGES, "a page of the extent, or its end");
    1 + extent * EXTENT_PAGES + bit
}
pub fn bitmap_of_extent(extent: u32) -> PageNo {
    1 + extent / EXTENTS_PER_BITMAP * PAGES_PER_BITMAP
}
pub fn bitmap_of(page: PageNo) -> PageNo {
    bitmap_of_extent(extent_of(page))
}
/// The page is the place of a bitmap.
pub fn is_bitmap(page: PageNo) -> bool {
    page > 0 && bitmap_of(page) == page
}
/// Place of the byte that holds the page's bit, and the bit's mask in it.
pub fn byte_of(page: PageNo) -> (usize, u8) {
    let bit = ((page - 1) % PAGES_PER_BITMAP) as usize;
    (BITS_OFFSET + bit / 8, 1 << (bit % 8))
}
/// The page is in use.
pub fn is_set(bitmap: &[u8], page: PageNo) -> bool {
    let (at, mask) = byte_of(page);
    bitmap[at] & mask != 0
}
/// Bit i = page i of the extent is in use.
pub fn word(bitmap: &[u8], extent: u32) -> u64 {
    get_u64(bitmap, BITS_OFFSET + (extent % EXTENTS_PER_BITMAP) as usize * 8)
}
/// The bits of the extent's pages from page `pages` on: the file has no such pages yet, so they
/// count as used.
pub fn beyond(extent: u32, pages: u32) -> u64 {
    match pages.saturating_sub(page_at(extent, 0)) {
        n if n >= EXTENT_PAGES => 0,
        n => u64::MAX << n,
    }
}
/// Lowest clear bit at or above `from`.
pub fn first_free(word: u64, from: u32) -> Option<u32> {
    if from >= EXTENT_PAGES {
        return None;
    }
    let free = !word & (u64::MAX << from);
    (free != 0).then(|| free.trailing_zeros())
}

/// Lowest bit at or above `from` at which `len` clear bits begin.
pub fn free_run(word: u64, from: u32, len: u32) -> Option<u32> {
    debug_assert!((1..=EXTENT_PAGES).contains(&len), "a run lies in one extent");
    let mut starts = !word;
    for n in 1..len {
        starts &= !word >> n;
    }
    let found = first_free(!starts, from);
    debug_assert!(
        found.is_none_or(|bit| bit + len <= EXTENT_PAGES),
        "a run ends in its extent"
    );
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bitmaps_cover_whole_extents_one_after_the_other() {
        assert_eq!(bitmap_of(1), 1);
        assert_eq!(bitmap_of(PAGES_PER_BITMAP), 1);
        assert_eq!(bitmap_of(PAGES_PER_BITMAP + 1), PAGES_PER_BITMAP + 1);
        assert!(is_bitmap(PAGES_PER_BITMAP + 1) && !is_bitmap(0) && !is_bitmap(2));
        for page in [
            1,
            64,
            65,
            PAGES_PER_BITMAP,
            PAGES_PER_BITMAP + 1,
            3 * PAGES_PER_BITMAP + 77,
        ] {
            assert_eq!(page_at(extent_of(page), bit_in_extent(page)), page);
            let (at, _) = byte_of(page);
            assert!((BITS_OFFSET..PAGE_SIZE).contains(&at));
        }
    }
    #[test]
    fn beyond_masks_the_tail() {
        assert_eq!(beyond(0, 65), 0);
        assert_eq!(beyond(0, 64), 1 << 63);
        assert_eq!(beyond(0, 8), u64::MAX << 7);
        assert_eq!(beyond(1, 65), u64::MAX);
        assert_eq!(beyond(1, 1), u64::MAX);
    }
    #[test]
    fn first_free_looks_upwards() {
        assert_eq!(first_free(0b1011, 0), Some(2));
        assert_eq!(first_free(0b1011, 3), Some(4));
        assert_eq!(first_free(u64::MAX, 0), None);
        assert_eq!(first_free(0, 64), None);
    }
}
