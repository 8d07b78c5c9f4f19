//! The pool's part in cutting off the end of a file (`space/truncate.rs`): log first, then no copy of a cut page in memory or on its way to
//! disk, then the file. In any other order a crash, or a page written late, would bring back what was cut.
use super::{Pool, PAGE_SIZE};
use crate::base::{planted, FileId, Lsn, Mutant, PageId, PageNo, Result};
use crate::redo::FlushMode;

impl Pool {
    /// The group that says so ends at `lsn`. Nobody has a use for the pages from `first` to `end`; the caller holds no latch, and keeps
    /// everybody from making the file longer. A failure ends the engine's work (I6).
    pub fn cut_file(&self, file: FileId, first: PageNo, end: PageNo, lsn: Lsn) -> Result<()> {
        if !planted(Mutant::TruncateNotDurable) {
            self.redo.flush(lsn, FlushMode::Sync)?;
        }
        if !planted(Mutant::TruncateLeavesPages) {
            for no in first..end {
                self.forget(PageId::new(file, no));
            }
        }
        self.check_alive()?;
        let open = self.files.get(file)?.file;
        let cut = open.set_len(first as u64 * PAGE_SIZE as u64);
        self.synced(cut.and_then(|()| open.sync()))
    }
}
