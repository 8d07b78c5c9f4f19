//! [`PoolControl`]: a user's requests to the buffer pool, for its size, page list and statistics.
//!
//! Called by: `ffi`, `runtime_settings`, users of the crate.
use super::config::Level;
use super::instance::Engine;
use super::page_list::check_name;
use super::pool_rates::PoolStats;
use crate::base::sync::holds_nothing;
use crate::base::Result;

/// Requests to the buffer pool of an engine.
pub struct PoolControl<'e>(pub &'e Engine);

impl PoolControl<'_> {
    /// Changes the pool's size to about `bytes`, and returns when that is done. A shrink calls
    /// `watch` repeatedly; an error of `watch` ends it. After an error the pool has its old size.
    pub fn resize(&self, bytes: u64, watch: &dyn Fn() -> Result<()>) -> Result<()> {
        debug_assert!(holds_nothing(), "W2: a shrink waits for every latch");
        let old = self.0.store.pool.size();
        self.0.store.pool.resize(bytes, watch)?;
        let new = self.0.store.pool.size();
        if new != old {
            self.0
                .note(Level::Info, &format!("buffer pool: resized from {old} to {new} bytes"));
        }
        Ok(())
    }
    /// Writes the list of the most recently used pages, `percent` of the pool. With `at_close`, a
    /// list whose load has not ended stays on disk: it has more of the pages in use.
    pub fn dump(&self, name: &str, percent: u32, at_close: bool) -> Result<()> {
        if at_close && self.0.page_lists.is_incomplete() {
            self.0.note(
                Level::Info,
                "the page list of the buffer pool stays as it is: its load has not ended",
            );
            return Ok(());
        }
        self.0.page_lists.dump(&self.0.store.pool, &self.0.log, name, percent)
    }
    /// Has a worker load the list's pages. With `if_there`, a missing list is not an error.
    pub fn request_load(&self, name: &str, if_there: bool) -> Result<()> {
        check_name(name)?;
        if if_there && !self.0.store.pool.disk().exists(name)? {
            return Ok(());
        }
        self.0.page_lists.request(name)
    }
    /// Makes the current load end at its next step.
    pub fn abort_load(&self) {
        self.0.page_lists.abort();
    }
    /// Loads the list's pages in this thread, and then returns. A load that runs already ends
    /// first.
    pub fn load(&self, name: &str) -> Result<()> {
        self.0.page_lists.load_now(&self.0.store, &self.0.log, name)
    }
    /// Texts about the current or the latest resize of the pool, dump and load of its page list.
    pub fn status_texts(&self) -> [String; 3] {
        let (dump, load) = self.0.page_lists.status_texts();
        [self.0.store.pool.resize_status(), dump, load]
    }
    /// Statistics of the buffer pool, with rates since the last call.
    pub fn stats(&self) -> PoolStats {
        self.0.publish_gauges();
        let heat = self.0.store.pool.heat();
        let now_us = self.0.store.pool.disk().now_us();
        self.0.pool_rates.stats(self.0.counters(), heat, now_us)
    }
}
