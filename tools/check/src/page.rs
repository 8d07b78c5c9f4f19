//! A page's header, as `engine/src/pool/page.rs` draws it.
use crate::bytes::{u32_at, u64_at};

pub const PAGE: usize = 16 * 1024;
pub const BODY: usize = 32;

pub const FILE_HEADER: u8 = 1;
pub const BITMAP: u8 = 2;
pub const TREE: u8 = 3;
pub const OVERFLOW: u8 = 4;
pub const UNDO: u8 = 5;
pub const SYSTEM: u8 = 6;
pub const EXTENTS: u8 = 7;
pub const TREE_REST: u8 = 8;

pub fn kind(page: &[u8]) -> u8 {
    page[24]
}
pub fn level(page: &[u8]) -> u8 {
    page[25]
}
pub fn index(page: &[u8]) -> u32 {
    u32_at(page, 12)
}
pub fn lsn(page: &[u8]) -> u64 {
    u64_at(page, 16)
}

/// What is wrong with a page that should be page `no` of file `file`.
pub fn verify(page: &[u8], file: u32, no: u32) -> Result<(), String> {
    if page.iter().all(|byte| *byte == 0) {
        return Err("it was never written (all zeros)".into());
    }
    let (stored, computed) = (u32_at(page, 0), crc32c::crc32c(&page[4..]));
    if stored != computed {
        return Err(format!("its checksum is {stored:08x}, its bytes give {computed:08x}"));
    }
    identity(page, file, no)
}

/// Does it name itself so?
pub fn identity(page: &[u8], file: u32, no: u32) -> Result<(), String> {
    if (u32_at(page, 4), u32_at(page, 8)) != (file, no) {
        return Err(format!(
            "it says that it is page {} of file {:08x}",
            u32_at(page, 8),
            u32_at(page, 4)
        ));
    }
    if kind(page) > TREE_REST {
        return Err(format!("its type {} is unknown", kind(page)));
    }
    Ok(())
}
