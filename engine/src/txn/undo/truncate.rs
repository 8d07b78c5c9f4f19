//! The undo file gives its room back: `docs/decisions/2026-11-21-undo-shrinks.md`.
//!
//! [`UndoStreams::truncate`] is called about once a second, by one thread at a time. It notes how
//! much undo is in use, moves idle streams down and cuts off the file's free end, in bounded steps
//! (I7). All other callers only ask for the *ceiling*, one atomic: streams that need a page take
//! none from there on.
use super::directory::Position;
use super::streams::UndoStreams;
use crate::base::ids::UNDO_FILE;
use crate::base::{PageNo, Result};
use crate::pool::PAGE_SIZE;
use crate::space;

/// Pages cut off in one step: a transaction that needs a page meanwhile waits for the step.
const STEP_PAGES: u32 = 4096;
/// Streams moved in one step.
const STEP_STREAMS: usize = 64;

impl UndoStreams {
    /// One step; never makes the file smaller than `kept` pages. `position`: the newest replication
    /// position, which may be lost with a page. True: something was cut, and there may be more to
    /// cut now.
    pub(in crate::txn) fn truncate(&self, kept: u32, position: &dyn Fn() -> Position) -> Result<bool> {
        let usage = space::usage(&self.pool, UNDO_FILE)?;
        let Some(kept) = self.ceiling.kept(kept, usage) else {
            return Ok(false);
        };
        self.move_streams(kept, position)?;
        let cut = space::truncate_free_end(&self.pool, UNDO_FILE, kept, STEP_PAGES)?;
        self.counters.undo_pages_cut.add(cut as u64);
        Ok(cut > 0)
    }

    /// For reports: the pages of the undo file, and those in use, its own pages included, read
    /// under one latch. If the file cannot be read, the numbers stay.
    pub fn publish_gauges(&self) {
        if let Ok(usage) = space::usage(&self.pool, UNDO_FILE) {
            self.counters.undo_file_pages.set(usage.pages as u64);
            self.counters.undo_pages.set(usage.used as u64);
            self.counters.undo_bytes.set(usage.used as u64 * PAGE_SIZE as u64);
        }
    }

    /// Streams that no transaction uses leave the pages from the ceiling on.
    fn move_streams(&self, ceiling: PageNo, position: &dyn Fn() -> Position) -> Result<()> {
        for _ in 0..STEP_STREAMS {
            let Some(tail) = self.history.take_idle(ceiling) else {
                break;
            };
            match self.directory.move_stream(&self.pool, &tail, position()) {
                Ok(moved) => {
                    self.stream_pages.sub(tail.ahead.len() as u64);
                    self.history.give_moved(Box::new(moved));
                }
                Err(error) => {
                    self.history.give_moved(tail);
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}
