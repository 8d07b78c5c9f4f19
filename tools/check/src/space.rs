//! A data file's header and bitmaps: which pages are in use. Drawn in `engine/src/space/mod.rs` and
//! `bitmap.rs`.
use crate::bytes::{u32_at, u64_at};
use crate::page::{self, PAGE};
use crate::store::Store;
use std::collections::BTreeSet;

const PAGES_PER_BITMAP: u32 = ((PAGE - 64) / 8) as u32 * 64;

#[derive(Default)]
pub struct Space {
    /// Room for so many pages.
    pub pages: u32,
    /// In use, header and bitmaps among them.
    pub used: BTreeSet<u32>,
    pub bitmaps: u32,
    pub findings: Vec<String>,
}

/// Page 0, if it is the header of that file.
pub fn header(store: &Store, file: u32) -> Result<Vec<u8>, String> {
    let header = store.read(file, 0)?;
    if page::kind(&header) != page::FILE_HEADER || &header[32..40] != b"SLUICEDF" {
        return Err("it is no header of a Sluice data file".into());
    }
    let numbers = [
        ("format", u32_at(&header, 40), 1),
        ("page size", u32_at(&header, 44), PAGE as u32),
        ("file number", u32_at(&header, 48), file),
    ];
    match numbers.into_iter().find(|(_, found, right)| found != right) {
        Some((what, found, right)) => Err(format!("{what} {found}, not {right}")),
        None => Ok(header),
    }
}

pub fn check(store: &Store, file: u32) -> Space {
    let mut space = Space::default();
    let name = store.name_of(file);
    let header = match header(store, file) {
        Ok(header) => header,
        Err(what) => {
            space.findings.push(format!("{name} page 0: {what}"));
            return space;
        }
    };
    space.pages = u32_at(&header, 56);
    space.used.insert(0);
    let mut first = 1;
    while first < space.pages {
        let end = space.pages.min(first + PAGES_PER_BITMAP);
        match store.read(file, first) {
            Ok(bitmap) if page::kind(&bitmap) == page::BITMAP && u32_at(&bitmap, 32) == first => {
                space.bitmaps += 1;
                let is_used =
                    |no: &u32| u64_at(&bitmap, 64 + ((no - first) / 64) as usize * 8) >> ((no - first) % 64) & 1 == 1;
                space.used.extend((first..end).filter(is_used));
            }
            Ok(_) => space.findings.push(format!("{name} page {first}: it is no bitmap")),
            Err(what) => space.findings.push(format!("{name} page {first}: {what}")),
        }
        first = end;
    }
    let counted = u32_at(&header, 60);
    if space.findings.is_empty() && counted as usize != space.used.len() {
        let marked = space.used.len();
        space.findings.push(format!(
            "{name} page 0: it counts {counted} pages in use, {marked} are marked so"
        ));
    }
    space
}

pub fn is_bitmap(no: u32) -> bool {
    no > 0 && (no - 1) % PAGES_PER_BITMAP == 0
}
