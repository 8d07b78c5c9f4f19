//! Settings that change at run time, by the names of the server's variables without prefix.
//!
//! Called by `ffi` for SET GLOBAL. No latch is held.
use super::config::{CommitFlush, Level};
use super::instance::Engine;
use crate::base::{Error, Result};
use crate::change::Buffering;
use std::sync::atomic::Ordering;

impl Engine {
    /// See [`RedoSwitch::set`](super::redo_switch::RedoSwitch::set).
    pub fn set_redo_log(&self, on: bool) -> Result<()> {
        self.redo_switch.set(on)
    }
    pub fn redo_log_is_on(&self) -> bool {
        self.redo().is_on()
    }

    /// A bound of the change buffer was set, and more than that waits.
    fn note_if_above_bound(&self) {
        let (bytes, max) = (self.store.change.bytes(), self.store.change.bytes_max());
        if bytes > max {
            let text = format!(
                "change buffer: {bytes} bytes are pending, the bound is {max} from now on: the background and writers merge until they fit"
            );
            self.note(Level::Warning, &text);
        }
    }

    /// Changes a setting at run time; names as the server's variables without prefix.
    pub fn set(&self, name: &str, value: u64) -> Result<()> {
        let narrow = |value: u64| value.min(u32::MAX as u64) as u32;
        match name {
            "flush_log_at_trx_commit" => self.set_commit_flush(CommitFlush::from_number(value.min(2))),
            "io_capacity" => self.store.pool.set_io_capacity(narrow(value)),
            "io_capacity_max" => self.store.pool.set_io_capacity_max(narrow(value)),
            "redo_log_capacity" => return self.redo().set_capacity(value),
            "redo_log" => return self.set_redo_log(value != 0),
            "doublewrite" => return self.store.pool.set_doublewrite(value != 0),
            "stats_sample_pages" => {
                (self.store.statistics_settings.sample_pages).store(narrow(value), Ordering::Relaxed)
            }
            "stats_persistent" => (self.store.statistics_settings.persistent).store(value != 0, Ordering::Relaxed),
            "stats_auto_recalc" => (self.store.statistics_settings.auto_recalc).store(value != 0, Ordering::Relaxed),
            "sort_buffer_size" => self.store.sort_buffer_size.store(value, Ordering::Relaxed),
            "snapshot_isolation" => self.store.snapshot_isolation.store(value != 0, Ordering::Relaxed),
            "change_buffering" => self.store.change.set_buffering(Buffering::from_number(value)),
            "change_buffer_max_size" => {
                self.store.change.set_max_size(narrow(value), self.store.pool.size());
                self.note_if_above_bound();
            }
            "change_buffer_max_disk_size" => {
                self.store.change.set_max_disk_size(value);
                self.note_if_above_bound();
            }
            "change_buffer_test_mode" => self.store.change.set_test_mode(value.min(4) as u8),
            "change_buffer_drain" => self.store.change.set_draining(value != 0),
            "change_buffer_max_age" => self.store.change.set_age_max(value),
            "print_all_deadlocks" => self.print_all_deadlocks.store(value != 0, Ordering::Relaxed),
            "purge_lag_warning" => self.store.trx_sys.purge_lag_warning.store(value, Ordering::Relaxed),
            "verify" => self.store.verify.store(value != 0, Ordering::Relaxed),
            _ => return Err(Error::Unsupported(format!("setting {name} at run time"))),
        }
        Ok(())
    }
}
