//! Data files: creating and dropping them, and which of their pages are in use.
//!
//! Page 0 of each file is the file header (`header`). Page 1 and then every `PAGES_PER_BITMAP`-th
//! page is a bitmap (1 = in use) of the pages from itself on (`bitmap`). Pages are allocated near a
//! hint, in whole 64-page extents where possible, so that the leaves of one index lie together
//! (`allocate`). Counts are exact: free = allocated - used. Order of the files, top to bottom:
//! `truncate` and `file`, `allocate` and `free`, `page_search`, `bitmap_page` and `orphans`,
//! `usage`, `header`, `bitmap`. Called by: everything that owns pages, that is trees, overflow
//! chains, undo streams, the catalog.
mod allocate;
mod bitmap;
mod bitmap_page;
mod file;
mod free;
mod header;
mod orphans;
mod page_search;
mod truncate;
mod usage;

#[cfg(test)]
mod tests;

pub use allocate::{allocate, allocate_extent, allocate_many, allocate_runs, ensure_free};
pub use bitmap::{is_bitmap, EXTENT_PAGES, PAGES_PER_BITMAP};
pub use file::{
    add_file, check_header, create_file, is_blank, log_drop, orphan_message, remove_dropped, remove_file,
    restore_length, verify_header, TEMPORARY_PREFIX,
};
pub use free::{check_used_in_extent, free, free_in_extent, prepare_free};
pub use header::{
    database_of, database_on_disk, file_name, file_number, header, AUTOINC_OFFSET, FORMAT_VERSION, HEADER_PAGE,
    ROOTS_MAX, ROOTS_OFFSET, ROW_ID_OFFSET,
};
pub use orphans::{forget_orphan, note_orphan, orphans};
pub use page_search::LOWEST;
pub use truncate::{truncate_excess, truncate_free_end};
pub use usage::{is_used, tree_of, usage, used_pages, Usage, UsedPages};
