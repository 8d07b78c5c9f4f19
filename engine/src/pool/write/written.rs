//! What was written last of many pages: a disk that loses a write, or sends it to another page, leaves an old page behind
//! that passes every check of its own. Read back, its LSN gives it away.
//!
//! A fixed number of entries for each frame, each page with one place: an entry gives way to another page's, and what is
//! forgotten is not checked. So a run meets most lost writes of its own; of those of the run before it knows the pages
//! whose copies are still in the doublewrite file. Takes one leaf lock. Called by `flush` (notes), `fetch` and `prefetch` (ask).
use crate::base::sync::{Rank, RankedMutex};
use crate::base::{Error, Lsn, PageId, Result};
use crate::io::File;
use crate::pool::page::page_lsn;

/// Entries for each frame of the pool: 64 bytes beside a page of 16 KiB. The simulation's disk lies, and its tiny pages come and go: there
/// next to nothing is forgotten, so that it can ask that every lost write be met.
const ENTRIES_PER_FRAME: usize = if cfg!(feature = "tiny-pages") { 256 } else { 4 };

pub(in crate::pool) struct Written {
    /// (page, LSN of its last write); LSN 0 = none.
    entries: RankedMutex<Vec<(u64, Lsn)>>,
}

impl Written {
    pub fn new(frames: usize) -> Written {
        let count = (frames * ENTRIES_PER_FRAME).next_power_of_two();
        Written {
            entries: RankedMutex::new(Rank::Leaf, vec![(0, 0); count]),
        }
    }
    /// These versions are durable in place.
    pub fn note(&self, pages: impl Iterator<Item = (PageId, Lsn)>) {
        let mut entries = self.entries.lock();
        let mask = entries.len() - 1;
        for (id, lsn) in pages {
            let key = id.as_u64();
            let entry = &mut entries[place(key) & mask];
            if entry.0 != key || entry.1 < lsn {
                *entry = (key, lsn);
            }
        }
    }
    /// Refuses a page that is older than what was written.
    pub fn check(&self, bytes: &[u8], id: PageId, file: &dyn File) -> Result<()> {
        let key = id.as_u64();
        let entries = self.entries.lock();
        let entry = entries[place(key) & (entries.len() - 1)];
        drop(entries);
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
