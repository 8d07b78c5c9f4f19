//! What users ask of the buffer pool: another size, its page list, its statistics.
//!
//! Called by: `ffi`, `runtime_settings`, users of the crate.
use super::config::Level;
use super::instance::Engine;
use super::page_list::check_name;
use super::pool_rates::PoolStats;
use crate::base::Result;

/// The door to the buffer pool.
pub struct PoolControl<'e>(pub &'e Engine);

impl PoolControl<'_> {
    /// Makes the buffer pool hold about `bytes`. Returns when that is done. `watch` is asked now
    /// and then, and may end a shrink with an error. After an error the pool has its old size.
    pub fn resize(&self, bytes: u64, watch: &dyn Fn() -> Result<()>) -> Result<()> {
        let old = self.0.store.pool.size();
        self.0.store.pool.resize(bytes, watch)?;
        let new = self.0.store.pool.size();
        if new != old {
            self.0.note(
                Level::Info,
                &format!("the buffer pool has {new} bytes now, before {old}"),
            );
        }
        Ok(())
    }
    /// Writes the list of the `percent` hottest pages of the pool. `at_close`: not if a load has
    /// not ended, for the list on disk is better then.
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
    /// A worker loads the list's pages. With `if_there`, nothing is done if there is no such list.
    pub fn request_load(&self, name: &str, if_there: bool) -> Result<()> {
        check_name(name)?;
        if if_there && !self.0.store.pool.disk().exists(name)? {
            return Ok(());
        }
        self.0.page_lists.request(name)
    }
    /// Ends the load that goes on, if there is one.
    pub fn abort_load(&self) {
        self.0.page_lists.abort();
    }
    /// Loads the list's pages now; returns when that is done.
    pub fn load(&self, name: &str) -> Result<()> {
        self.0.page_lists.request(name)?;
        match self.0.page_lists.take_wanted() {
            Some(name) => self.0.page_lists.load(&self.0.store, &self.0.log, &name, &|_| true),
            None => Ok(()),
        }
    }
    /// What is going on, or was done last: a resize of the buffer pool; a dump, and a load, of its
    /// page list.
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
