//! Detection of lost writes: which version of a page was written last.
//!
//! A disk that loses a write, or sends it to another page, leaves an old page that passes every
//! check of its own. Its LSN is older than the one recorded here, and so the read refuses it.
//!
//! A fixed number of entries for each frame, each page with one place. An entry gives way to
//! another page's, and a page without an entry is not checked. So a run detects most lost writes of
//! its own. Of the run before it knows the pages whose copies are still in the doublewrite file.
//!
//! Lock: one of rank `Leaf`.
//! Called by: `batch`, `direct` and recovery (note), `fetch` and `prefetch` (check).
use crate::base::sync::{Rank, RankedMutex};
use crate::base::{Error, Lsn, PageId, Result};
use crate::io::File;
use crate::pool::frames::geometry::PoolGeometry;
use crate::pool::page::page_lsn;

/// Entries for each frame of the pool: 64 bytes for a page of 16 KiB. The simulation's disk loses
/// writes, and its tiny pages come and go. There nearly every page keeps its entry, so that the
/// simulation can ask that every lost write be detected.
const ENTRIES_PER_FRAME: usize = if cfg!(feature = "tiny-pages") { 256 } else { 4 };

pub(in crate::pool) struct WrittenVersions {
    /// (page, LSN of its last write); LSN 0 = none.
    entries: RankedMutex<Vec<(u64, Lsn)>>,
}

impl WrittenVersions {
    pub fn new(geometry: &PoolGeometry) -> WrittenVersions {
        let count = (geometry.frames() * ENTRIES_PER_FRAME).next_power_of_two();
        WrittenVersions {
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
    /// Refuses a page that is older than its last write. `file` gives the name in the error.
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
