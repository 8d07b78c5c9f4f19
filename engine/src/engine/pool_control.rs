//! What users ask of the buffer pool: another size, its page list, its statistics.
//!
//! Called by: `ffi`, `runtime_settings`, users of the crate.
use super::config::Level;
use super::instance::Engine;
use super::pool_rates::PoolStats;
use crate::base::Result;

impl Engine {
    /// Makes the buffer pool hold about `bytes`. Returns when that is done. `watch` is asked now
    /// and then, and may end a shrink with an error. After an error the pool has its old size.
    pub fn resize_pool(&self, bytes: u64, watch: &dyn Fn() -> Result<()>) -> Result<()> {
        let old = self.store.pool.size();
        self.store.pool.resize(bytes, watch)?;
        let new = self.store.pool.size();
        if new != old {
            self.note(
                Level::Info,
                &format!("the buffer pool has {new} bytes now, before {old}"),
            );
        }
        Ok(())
    }
    /// Writes the list of the `percent` hottest pages of the pool. `at_close`: not if a load has
    /// not ended, for the list on disk is better then.
    pub fn dump_page_list(&self, name: &str, percent: u32, at_close: bool) -> Result<()> {
        if at_close && self.page_lists.is_incomplete() {
            self.note(
                Level::Info,
                "the page list of the buffer pool stays as it is: its load has not ended",
            );
            return Ok(());
        }
        self.page_lists.dump(&self.store.pool, &self.log, name, percent)
    }
    /// A worker loads the list's pages. With `if_there`, nothing is done if there is no such list.
    pub fn request_page_list(&self, name: &str, if_there: bool) -> Result<()> {
        if if_there && !self.store.pool.disk().exists(name)? {
            return Ok(());
        }
        self.page_lists.request(name)
    }
    /// Ends the load that goes on, if there is one.
    pub fn abort_page_list(&self) {
        self.page_lists.abort();
    }
    /// Loads the list's pages now; returns when that is done.
    pub fn load_page_list(&self, name: &str) -> Result<()> {
        self.page_lists.request(name)?;
        match self.page_lists.take_wanted() {
            Some(name) => self.page_lists.load(&self.store, &self.log, &name, &|_| true),
            None => Ok(()),
        }
    }
    /// What is going on, or was done last: a resize of the buffer pool; a dump, and a load, of its
    /// page list.
    pub fn pool_status_texts(&self) -> [String; 3] {
        let (dump, load) = self.page_lists.status_texts();
        [self.store.pool.resize_status(), dump, load]
    }
    /// Statistics of the buffer pool, with rates since the last call.
    pub fn pool_stats(&self) -> PoolStats {
        self.publish_gauges();
        let heat = self.store.pool.heat();
        let now_us = self.store.pool.disk().now_us();
        self.pool_rates.stats(self.counters(), heat, now_us)
    }
}
