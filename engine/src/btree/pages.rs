//! What all pages of this module have in common: their Mtrs begin with room in the log, and a freed
//! page is marked.
//!
//! Called by: every file of `btree` that starts an Mtr or frees a page.
use super::node::AT_TYPE;
use crate::base::sync::holds_no_latch;
use crate::base::Result;
use crate::pool::{Mtr, PageHandle, PageType, Pool};

/// Starts an Mtr for changes once the log has room for them. The caller holds no latch.
pub fn begin(pool: &Pool) -> Result<Mtr<'_>> {
    debug_assert!(holds_no_latch(), "I5: room in the log comes before the first latch");
    pool.redo().reserve_to_go_on()?;
    Ok(pool.begin())
}

/// Marks an X-latched page as free. That changes its version: no cursor comes back to it. A reader
/// that still has its number no longer takes it for a tree page.
pub fn mark_free(mtr: &mut Mtr<'_>, page: PageHandle) {
    mtr.edit(page, AT_TYPE, &[PageType::Free as u8]);
}
/// As [`mark_free`], for a page that a record, a list or the catalog names: after a crash the page
/// is freed again.
pub fn mark_free_named(mtr: &mut Mtr<'_>, page: PageHandle) {
    mark_free(mtr, page);
    mtr.must_write_freed_image(page);
}
