//! Settings that change while the engine runs: what each of them does.
//!
//! [`Apply`] comes from the table of settings (`config.rs`), so that a setting without its line
//! here does not compile.
//!
//! Called by: `start/open.rs`, the server's SET GLOBAL (`ffi`), users of the crate.
use super::config::{Apply, CommitFlush, Config};
use super::instance::Engine;
use super::pool_control::PoolControl;
use crate::base::{Level, Result};
use crate::change::Buffering;
use crate::redo::FlushMode;
use std::sync::atomic::Ordering;

impl Engine {
    /// See [`RedoSwitch::set`](super::redo_switch::RedoSwitch::set).
    pub fn set_redo_log(&self, on: bool) -> Result<()> {
        self.redo_switch.set(on)
    }
    pub fn redo_log_is_on(&self) -> bool {
        self.redo().is_on()
    }
    /// Changes a setting while the engine runs; `name` is the server's variable without its prefix.
    /// Error: `Unsupported` if the setting is unknown or is read only at the start.
    pub fn set(&self, name: &str, value: u64) -> Result<()> {
        self.apply(name, value)
    }

    /// Sets what the constructors of the engine's parts do not take. Called once, before the engine
    /// is used.
    pub(in crate::engine) fn apply_at_open(&self, config: &Config) -> Result<()> {
        debug_assert!(
            self.workers.lock().is_none(),
            "the settings are there before the threads"
        );
        self.flush_log_at_trx_commit(config.flush_log_at_trx_commit)?;
        self.sort_buffer_size(config.sort_buffer_size)?;
        self.online_alter_log_max_size(config.online_alter_log_max_size)?;
        self.stats_sample_pages(config.stats_sample_pages)?;
        self.stats_persistent(config.stats_persistent)?;
        self.stats_auto_recalc(config.stats_auto_recalc)?;
        self.snapshot_isolation(config.snapshot_isolation)?;
        self.verify(config.verify)?;
        self.purge_lag_warning(config.purge_lag_warning)?;
        self.print_all_deadlocks(config.print_all_deadlocks)
    }

    /// A bound of the change buffer was set: the log says if more than that is pending.
    fn note_if_above_bound(&self) {
        let (bytes, max) = (self.store.change.bytes(), self.store.change.bytes_max());
        if bytes > max {
            let text = format!(
                "change buffer: {bytes} bytes are buffered, and the bound is {max} from now on: a background thread and writers merge until they fit"
            );
            self.note(Level::Warning, &text);
        }
    }
}

impl Apply for Engine {
    fn buffer_pool_size(&self, to: u64) -> Result<()> {
        PoolControl(self).resize(to, &|| Ok(()))
    }
    fn redo_log_capacity(&self, to: u64) -> Result<()> {
        self.store.redo.set_capacity(to)
    }
    fn flush_log_at_trx_commit(&self, to: CommitFlush) -> Result<()> {
        debug_assert_eq!(
            CommitFlush::from_number(to.number()),
            to,
            "commits read back what was set"
        );
        self.commit_flush.store(to.number(), Ordering::Relaxed);
        self.store.trx_sys.visibility.set_commit_safety(match to {
            CommitFlush::Lazy => None,
            CommitFlush::Write => Some(FlushMode::Write),
            CommitFlush::Sync => Some(FlushMode::Sync),
        });
        Ok(())
    }
    fn doublewrite(&self, to: bool) -> Result<()> {
        self.store.pool.flusher().set_doublewrite(to)
    }
    fn io_capacity(&self, to: u32) -> Result<()> {
        self.store.pool.flusher().set_io_capacity(to);
        Ok(())
    }
    fn io_capacity_max(&self, to: u32) -> Result<()> {
        self.store.pool.flusher().set_io_capacity_max(to);
        Ok(())
    }
    fn online_alter_log_max_size(&self, to: u64) -> Result<()> {
        self.store.online_alter_log_max_size.store(to, Ordering::Relaxed);
        Ok(())
    }
    fn sort_buffer_size(&self, to: u64) -> Result<()> {
        self.store.sort_buffer_size.store(to, Ordering::Relaxed);
        Ok(())
    }
    fn stats_sample_pages(&self, to: u32) -> Result<()> {
        self.store
            .statistics_keeper()
            .settings
            .sample_pages
            .store(to, Ordering::Relaxed);
        Ok(())
    }
    fn stats_persistent(&self, to: bool) -> Result<()> {
        self.store
            .statistics_keeper()
            .settings
            .persistent
            .store(to, Ordering::Relaxed);
        Ok(())
    }
    fn stats_auto_recalc(&self, to: bool) -> Result<()> {
        self.store
            .statistics_keeper()
            .settings
            .auto_recalc
            .store(to, Ordering::Relaxed);
        Ok(())
    }
    fn snapshot_isolation(&self, to: bool) -> Result<()> {
        self.store.snapshot_isolation.store(to, Ordering::Relaxed);
        Ok(())
    }
    fn verify(&self, to: bool) -> Result<()> {
        self.store.verify.store(to, Ordering::Relaxed);
        Ok(())
    }
    fn purge_lag_warning(&self, to: u64) -> Result<()> {
        self.store.trx_sys.purge_lag_warning.store(to, Ordering::Relaxed);
        Ok(())
    }
    fn print_all_deadlocks(&self, to: bool) -> Result<()> {
        self.print_all_deadlocks.store(to, Ordering::Relaxed);
        Ok(())
    }
    fn change_buffering(&self, to: Buffering) -> Result<()> {
        self.store.change.set_buffering(to);
        Ok(())
    }
    fn change_buffer_max_size(&self, percent: u32) -> Result<()> {
        self.store.change.set_max_size(percent, self.store.pool.size());
        self.note_if_above_bound();
        Ok(())
    }
    fn change_buffer_max_disk_size(&self, bytes: u64) -> Result<()> {
        self.store.change.set_max_disk_size(bytes);
        self.note_if_above_bound();
        Ok(())
    }
    fn change_buffer_max_age(&self, seconds: u32) -> Result<()> {
        self.store.change.set_age_max(seconds.into());
        Ok(())
    }
    fn change_buffer_test_mode(&self, to: u8) -> Result<()> {
        self.store.change.set_test_mode(to.min(4));
        Ok(())
    }
    fn change_buffer_drain(&self, to: bool) -> Result<()> {
        self.store.change.set_draining(to);
        Ok(())
    }
    fn redo_log(&self, to: bool) -> Result<()> {
        self.set_redo_log(to)
    }
}
