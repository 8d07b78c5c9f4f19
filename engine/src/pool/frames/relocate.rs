//! Moving a page, clean or dirty, to another frame, while threads use the pool: W4 and W5 of
//! `docs/decisions/2026-11-28-buffer-pool-resize.md`.
//!
//! Latches: X of both frames, none of which is waited for. Locks: the page's shard of the page
//! table, and the dirty list's inside it.
//! Called by: `resize`.
use super::frame::{PageWrite, KEY_NONE, KEY_WITHDRAWN};
use super::store::FrameStore;
use crate::base::{planted, sync_point, Mutant, SyncPoint};
use std::sync::atomic::Ordering;

impl FrameStore {
    /// Moves the page of `from` to the empty frame `to`. Both are X-latched, and no copy of the
    /// page is on its way to disk. `from` is empty then.
    pub(super) fn relocate(&self, from: &PageWrite<'_>, mut to: PageWrite<'_>) {
        let key = from.key();
        let (old, new) = (from.frame(), to.frame());
        debug_assert!(key < KEY_WITHDRAWN, "W4: only a frame with a page is moved");
        debug_assert!(to.key() == KEY_NONE && !new.needs_disk(), "the other frame is empty");
        debug_assert!(!old.in_flight.load(Ordering::Acquire), "W4: a page in flight stays");
        to.bytes_mut().copy_from_slice(from.bytes());
        to.set_logged(from.is_logged());
        // Only the holders of the latches change these.
        new.imaged.store(old.imaged.load(Ordering::Relaxed), Ordering::Relaxed);
        new.base_lsn
            .store(old.base_lsn.load(Ordering::Relaxed), Ordering::Relaxed);
        let must_write = old.must_write_freed_image.load(Ordering::Relaxed);
        new.must_write_freed_image.store(must_write, Ordering::Relaxed);
        new.set_refs(old.refs());
        let shard = self.table.lock(&self.frames, key);
        shard.remove(from.index());
        to.set_key(key);
        shard.insert(to.index());
        if !planted(Mutant::MoveLosesChange) {
            self.dirty.transfer(old, new, to.index());
        } else {
            self.dirty.clear(old);
        }
        debug_assert!(
            !old.needs_disk(),
            "W4: nothing of the frame that is left has to be written"
        );
        // W6: after the new frame has its key, before the old one loses it.
        self.moved.fetch_add(1, Ordering::SeqCst);
        sync_point(SyncPoint::PageMoved);
        from.set_key(KEY_NONE);
        drop(shard);
    }
}
