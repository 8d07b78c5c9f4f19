//! Holding the checkpoint back, so that a record stays in the log until what it tells of is done outside the log.
//!
//! A statement that makes or removes a data file holds the checkpoint from before its first record to behind its last change of the
//! directory. So recovery finds the record that explains any file such a statement left (`engine/start/orphan_files.rs`).
//! Whoever holds it waits for no room in the log, or nobody would ever make some. One at a time: DDL statements take turns.
use super::Redo;
use std::sync::atomic::Ordering;

/// Ends with its drop.
pub struct CheckpointHold<'a>(&'a Redo);

impl Redo {
    /// What is appended from now on stays in the log until the hold ends.
    pub fn hold_checkpoint(&self) -> CheckpointHold<'_> {
        // A checkpoint that does not see the hold yet is not ahead of the log's end at that moment: what is to stay comes later.
        let before = self.held.swap(self.lsn(), Ordering::SeqCst);
        assert_eq!(before, 0, "one statement holds the checkpoint at a time");
        CheckpointHold(self)
    }
}

impl Drop for CheckpointHold<'_> {
    fn drop(&mut self) {
        self.0.held.store(0, Ordering::SeqCst);
    }
}
