//! The pool's part in cutting off the end of a file (`space`).
//!
//! Log first, then no copy of a removed page in memory or on its way to disk, then the file. In any
//! other order a crash, or a page written late, would bring back what was removed.
//!
//! Latches: those of the removed pages, one at a time.
//! Called by: `space`.
use super::flush::Flusher;
use crate::base::sync::holds_no_latch;
use crate::base::{planted, FileId, Lsn, Mutant, PageId, PageNo, Result};
use crate::pool::page::PAGE_SIZE;
use crate::redo::FlushMode;

impl Flusher {
    /// Makes the file end before page `first`. `end`: where it ended so far. `lsn`: the end of the
    /// group that logs the new end.
    ///
    /// No thread uses the pages any more. The caller holds no latch, and keeps other threads from
    /// making the file longer. A failure ends the engine's work (I6).
    pub fn truncate_file(&self, file: FileId, first: PageNo, end: PageNo, lsn: Lsn) -> Result<()> {
        debug_assert!(first <= end);
        debug_assert!(holds_no_latch(), "I5: the latches of the removed pages are waited for");
        let writer = self.writer();
        if !planted(Mutant::TruncateNotDurable) {
            writer.redo.flush(lsn, FlushMode::Sync)?;
        }
        if !planted(Mutant::TruncateLeavesPages) {
            for no in first..end {
                writer.store.forget(PageId::new(file, no));
            }
        }
        writer.check_alive()?;
        let open = writer.files.get(file)?.file;
        let truncated = open.set_len(first as u64 * PAGE_SIZE as u64);
        writer.poison_if_failed(truncated.and_then(|()| open.sync()))
    }
}
