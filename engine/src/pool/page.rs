//! The format of a page: 16 KiB, the unit of everything below the tree.
//!
//! ```text
//!  0 checksum   u32  CRC-32C of bytes 4..PAGE_SIZE; set when the page is written, checked when it
//!                    is read
//!  4 file       u32  self-identification
//!  8 page       u32
//! 12 index      u32  index id of a tree page, else 0
//! 16 lsn        u64  end LSN of the last group that changed the page (unlogged files: counts
//!                    changes)
//! 24 type       u8   PageType
//! 25 level      u8   0 = leaf (tree pages)
//! 26 flags      u16  free for the owner of the type
//! 28 reserved   u32  0
//! 32 body            the owner's
//! ```
//! An all-zero page was never written: reading one is an error unless recovery overwrites it.
//!
//! Takes no latch.
//! Called by: the whole pool, and the layers above that read a page's header.
use crate::base::bytes::{get_u32, get_u64, put_u32, put_u64};
use crate::base::{Lsn, PageId};

#[cfg(not(feature = "tiny-pages"))]
pub const PAGE_SIZE: usize = 16 * 1024;
/// Tests shrink the page, so that splits, merges and overflow come early.
#[cfg(feature = "tiny-pages")]
pub const PAGE_SIZE: usize = 4096;
/// Where the owner's part begins.
pub const PAGE_BODY: usize = 32;
/// First byte that edits may touch: checksum, identity and LSN are the pool's.
pub(in crate::pool) const EDIT_START: usize = 24;
const _: () = assert!(EDIT_START < PAGE_BODY && PAGE_BODY < PAGE_SIZE);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum PageType {
    Free = 0,
    FileHeader = 1,
    Bitmap = 2,
    Tree = 3,
    Overflow = 4,
    Undo = 5,
    System = 6,
    /// Extents of a load that is not finished (`btree/sorted/extents.rs`).
    Extents = 7,
    /// The second to last pages of a wide tree node (`btree/nodes.rs`).
    TreeRest = 8,
}

impl PageType {
    pub fn from_u8(v: u8) -> Option<PageType> {
        Some(match v {
            0 => PageType::Free,
            1 => PageType::FileHeader,
            2 => PageType::Bitmap,
            3 => PageType::Tree,
            4 => PageType::Overflow,
            5 => PageType::Undo,
            6 => PageType::System,
            7 => PageType::Extents,
            8 => PageType::TreeRest,
            _ => return None,
        })
    }
}

pub fn page_type(b: &[u8]) -> u8 {
    b[24]
}
pub fn page_level(b: &[u8]) -> u8 {
    b[25]
}
pub fn page_index(b: &[u8]) -> u32 {
    get_u32(b, 12)
}
pub fn page_lsn(b: &[u8]) -> Lsn {
    get_u64(b, 16)
}
pub fn set_page_lsn(b: &mut [u8], lsn: Lsn) {
    put_u64(b, 16, lsn);
}
pub fn page_id(b: &[u8]) -> PageId {
    PageId::new(get_u32(b, 4), get_u32(b, 8))
}
/// Makes `b` a fresh page: header as given, body zero.
pub fn init_page(b: &mut [u8], id: PageId, index: u32, kind: PageType, level: u8) {
    debug_assert_eq!(b.len(), PAGE_SIZE, "one page");
    b.fill(0);
    put_u32(b, 4, id.file);
    put_u32(b, 8, id.no);
    put_u32(b, 12, index);
    b[24] = kind as u8;
    b[25] = level;
}
/// Sets the checksum. Every byte of the page has its final value before.
pub fn seal(b: &mut [u8]) {
    debug_assert_eq!(b.len(), PAGE_SIZE, "one page");
    let crc = crc32c::crc32c(&b[4..]);
    put_u32(b, 0, crc);
}
/// `Err(reason)` if `b` is not the sealed page `id`.
pub fn check(b: &[u8], id: PageId) -> Result<(), String> {
    if b.iter().all(|x| *x == 0) {
        return Err("the page was never written (all zeros)".into());
    }
    let stored = get_u32(b, 0);
    let computed = crc32c::crc32c(&b[4..]);
    if stored != computed {
        return Err(format!("checksum is {stored:08x}, the bytes give {computed:08x}"));
    }
    if page_id(b) != id {
        return Err(format!("the page says it is {}", page_id(b)));
    }
    if PageType::from_u8(page_type(b)).is_none() {
        return Err(format!("unknown page type {}", page_type(b)));
    }
    Ok(())
}
