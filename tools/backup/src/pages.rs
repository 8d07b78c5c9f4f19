//! The list of pages (`--save-pages`): LSN and checksum of each page in a backup. A later
//! incremental backup leaves out the pages that have not changed.
//!
//! A page has not changed if its LSN and its checksum have not. LSNs alone are not enough. A page
//! of an unlogged load keeps the LSN of its allocation. After a restore of an older backup, the
//! server uses the LSNs of the base again, for other changes.
//! ```text
//! file of pages
//!   0 magic     8 bytes "SLUICEPG"
//!   8 backup    u64  number of the backup
//!  16 database  u64
//!  24 then of each data file: number u32, pages u32, and of each page: checksum u32, lsn u64
//!     (zeros: a page of zeros; all bits set: a page that was not whole)
//!     last: CRC-32C of everything before
//! ```
use crate::stream::{u32_at, u64_at};
use crate::Result;
use std::collections::BTreeMap;
use std::path::Path;

const MAGIC: &[u8; 8] = b"SLUICEPG";
const PAGE_BYTES: usize = 12;

/// Checksum and LSN of a page as a page's header has them.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct PageState {
    checksum: u32,
    lsn: u64,
}

impl PageState {
    pub fn of(page: &[u8]) -> PageState {
        PageState {
            checksum: u32_at(page, 0).unwrap_or(0),
            lsn: u64_at(page, 16).unwrap_or(0),
        }
    }
    /// A page that is not whole. It equals no page: a later backup stores that page, even if it has
    /// the header of this one.
    pub fn broken() -> PageState {
        PageState {
            checksum: u32::MAX,
            lsn: u64::MAX,
        }
    }
    pub fn is_blank(self) -> bool {
        self == PageState::default()
    }
}

/// The pages of all data files in a backup.
#[derive(Default)]
pub struct Pages {
    pub backup: u64,
    pub database: u64,
    files: BTreeMap<u32, Vec<PageState>>,
}

impl Pages {
    /// Of the backup of this number.
    pub fn new(backup: u64) -> Pages {
        Pages {
            backup,
            ..Pages::default()
        }
    }
    /// Adds a data file of so many pages, all of them zeros for now.
    pub fn add_file(&mut self, file: u32, pages: u32) {
        self.files.insert(file, vec![PageState::default(); pages as usize]);
    }
    pub fn files(&self) -> Vec<u32> {
        self.files.keys().copied().collect()
    }
    pub fn set(&mut self, file: u32, page: u32, state: PageState) {
        if let Some(place) = self.files.get_mut(&file).and_then(|pages| pages.get_mut(page as usize)) {
            *place = state;
        }
    }
    pub fn get(&self, file: u32, page: u32) -> PageState {
        let pages = self.files.get(&file);
        pages
            .and_then(|pages| pages.get(page as usize))
            .copied()
            .unwrap_or_default()
    }
    /// Pages of a file that `base` has and that are zeros here: (first, count).
    pub fn blank_since(&self, base: &Pages, file: u32) -> Vec<(u32, u32)> {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        let pages = self.files.get(&file).map_or(&[][..], Vec::as_slice);
        for (no, state) in (0..).zip(pages) {
            if !state.is_blank() || base.get(file, no).is_blank() {
                continue;
            }
            match runs.last_mut() {
                Some((first, count)) if *first + *count == no => *count += 1,
                _ => runs.push((no, 1)),
            }
        }
        runs
    }
    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend(self.backup.to_le_bytes());
        out.extend(self.database.to_le_bytes());
        for (file, pages) in &self.files {
            out.extend(file.to_le_bytes());
            out.extend((pages.len() as u32).to_le_bytes());
            for page in pages {
                out.extend(page.checksum.to_le_bytes());
                out.extend(page.lsn.to_le_bytes());
            }
        }
        let crc = crc32c::crc32c(&out);
        out.extend(crc.to_le_bytes());
        out
    }
    pub fn read(path: &Path) -> Result<Pages> {
        let bytes = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Pages::decode(&bytes).map_err(|why| format!("{}: {why}", path.display()))
    }
    fn decode(bytes: &[u8]) -> Result<Pages> {
        let body = bytes.len().saturating_sub(4);
        if body < 24 || &bytes[..8] != MAGIC || u32_at(bytes, body)? != crc32c::crc32c(&bytes[..body]) {
            return Err("this is not a complete file of --save-pages".into());
        }
        let mut pages = Pages {
            backup: u64_at(bytes, 8)?,
            database: u64_at(bytes, 16)?,
            files: BTreeMap::new(),
        };
        let mut at = 24;
        while at < body {
            let (file, count) = (u32_at(bytes, at)?, u32_at(bytes, at + 4)? as usize);
            at += 8;
            let end = at + count * PAGE_BYTES;
            let part = bytes.get(at..end).ok_or("the file of pages is too short")?;
            let state = |b: &[u8]| PageState {
                checksum: u32_at(b, 0).unwrap_or(0),
                lsn: u64_at(b, 4).unwrap_or(0),
            };
            pages
                .files
                .insert(file, part.chunks_exact(PAGE_BYTES).map(state).collect());
            at = end;
        }
        Ok(pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_back_and_damage_is_found() {
        let mut pages = Pages {
            backup: 7,
            database: 9,
            ..Pages::default()
        };
        pages.add_file(3, 4);
        let mut page = vec![0; 32];
        page[0] = 5;
        page[16] = 6;
        pages.set(3, 1, PageState::of(&page));
        let bytes = pages.encode();
        let read = Pages::decode(&bytes).unwrap();
        assert!(read.get(3, 1) == PageState::of(&page) && read.get(3, 0).is_blank() && read.get(4, 0).is_blank());
        assert_eq!((read.backup, read.database), (7, 9));
        let mut torn = read;
        torn.set(3, 1, PageState::broken());
        assert!(torn.get(3, 1) != PageState::of(&page) && !torn.get(3, 1).is_blank());
        let read = Pages::decode(&bytes).unwrap();
        let mut now = Pages::default();
        now.add_file(3, 2);
        assert_eq!(now.blank_since(&read, 3), [(1, 1)]);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(Pages::decode(&damaged).is_err());
        }
    }
}
