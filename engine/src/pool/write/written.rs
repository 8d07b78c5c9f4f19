//! Detection of lost writes: which version of a page was written last.
//!
//! A disk that loses a write, or sends it to another page, leaves an old page that passes every
//! check of its own. Its LSN is older than the one recorded here, and so the read refuses it.
//!
//! A fixed number of entries for each frame, each page with one place. An entry gives way to
//! another page's, and a page without an entry is not checked. So a run detects most lost writes of
//! its own. Of the run before it knows the pages whose copies are still in the doublewrite file.
//!
//! The number of entries follows the size of the pool: a resize makes one section after the other
//! anew, each under its mutex.
//!
//! Lock: one of rank `Leaf`, for each section.
//! Called by: `batch`, `direct` and recovery (note), `fetch` and `prefetch` (check), `shrink`.
use crate::base::sync::{Rank, RankedMutex};
use crate::base::{Error, Lsn, PageId, Result};
use crate::io::File;
use crate::pool::frames::geometry::PoolGeometry;
use crate::pool::page::page_lsn;

/// Entries for each frame of the pool: 64 bytes for a page of 16 KiB. The simulation's disk loses
/// writes, and its tiny pages come and go. There nearly every page keeps its entry, so that the
/// simulation can ask that every lost write be detected.
const ENTRIES_PER_FRAME: usize = if cfg!(feature = "tiny-pages") { 256 } else { 4 };

/// Sections of entries, each under its mutex.
const SECTIONS: usize = 64;
/// The simulation's pools forget nothing when they shrink.
const SHRINKS: bool = !cfg!(feature = "tiny-pages");

pub(in crate::pool) struct WrittenVersions {
    sections: Box<[RankedMutex<Section>]>,
}

/// (page, LSN of its last write); LSN 0 = none.
struct Section(Vec<(u64, Lsn)>);

impl Section {
    /// The page's place.
    fn entry(&mut self, key: u64) -> &mut (u64, Lsn) {
        debug_assert!(self.0.len().is_power_of_two(), "a mask chooses the entry");
        let at = (place(key) / SECTIONS) & (self.0.len() - 1);
        &mut self.0[at]
    }
}

fn entries_for(frames: usize) -> usize {
    (frames * ENTRIES_PER_FRAME).next_power_of_two().div_ceil(SECTIONS)
}

impl WrittenVersions {
    pub fn new(geometry: &PoolGeometry) -> WrittenVersions {
        let section = || Section(vec![(0, 0); entries_for(geometry.frames())]);
        WrittenVersions {
            sections: (0..SECTIONS).map(|_| RankedMutex::new(Rank::Leaf, section())).collect(),
        }
    }
    /// The pool has so many frames now.
    pub fn resize(&self, frames: usize) {
        let count = entries_for(frames);
        for section in &self.sections {
            let new = vec![(0, 0); count];
            let mut section = section.lock();
            if section.0.len() == count || (section.0.len() > count && !SHRINKS) {
                continue;
            }
            let old = std::mem::replace(&mut section.0, new);
            for (key, lsn) in old.into_iter().filter(|(_, lsn)| *lsn != 0) {
                let entry = section.entry(key);
                if entry.1 < lsn {
                    *entry = (key, lsn);
                }
            }
        }
    }
    fn section(&self, key: u64) -> &RankedMutex<Section> {
        &self.sections[place(key) % SECTIONS]
    }
    /// These versions are durable in place.
    pub fn note(&self, pages: impl Iterator<Item = (PageId, Lsn)>) {
        for (id, lsn) in pages {
            let key = id.as_u64();
            let mut section = self.section(key).lock();
            let entry = section.entry(key);
            if entry.0 != key || entry.1 < lsn {
                *entry = (key, lsn);
            }
        }
    }
    /// Refuses a page that is older than its last write. `file` gives the name in the error.
    pub fn check(&self, bytes: &[u8], id: PageId, file: &dyn File) -> Result<()> {
        let key = id.as_u64();
        let entry = *self.section(key).lock().entry(key);
        let found = page_lsn(bytes);
        if entry.0 != key || found >= entry.1 {
            return Ok(());
        }
        let what = format!(
            "{}: page {} is of LSN {found}, but was written with LSN {}: the disk lost a write",
            file.path(),
            id.no,
            entry.1
        );
        Err(Error::corrupt_page(id.file, id.no, what))
    }
}

fn place(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}
