//! Creating a bitmap page.
//!
//! Called by: `file` (the first bitmap of a file) and `page_search` (growth).
use super::bitmap::{bitmap_of, byte_of, BITS_OFFSET, FIRST_OFFSET};
use crate::base::{PageId, Result};
use crate::pool::{Mtr, PageType};

/// Creates a bitmap page that marks only itself as in use. Fails before it changes anything.
pub(super) fn format_bitmap(mtr: &mut Mtr<'_>, bitmap: PageId) -> Result<()> {
    debug_assert_eq!(bitmap_of(bitmap.no), bitmap.no);
    let page = mtr.create(bitmap, 0, PageType::Bitmap, 0)?;
    mtr.edit_u32(page, FIRST_OFFSET, bitmap.no);
    let (at, mask) = byte_of(bitmap.no);
    debug_assert_eq!((at, mask), (BITS_OFFSET, 1));
    mtr.edit(page, at, &[mask]);
    Ok(())
}
