//! A warning when the purge lag is long: old row versions then fill the undo file, and every reader
//! has to skip them.
//!
//! The warning names the connection that holds purge back. It comes again after ten minutes if the
//! lag goes on; a note says when purge has caught up. Called by the log syncer: once a second, and
//! sooner while much is written.
use super::config::{Level, LogSink};
use crate::table::Store;
use std::sync::atomic::Ordering;

const WARN_EVERY_US: u64 = 600 * 1_000_000;

#[derive(Default)]
pub(super) struct PurgeLag {
    /// Clock of the latest warning; None: purge has caught up since, or never lagged.
    warned_us: Option<u64>,
    /// Clock of the latest warning of all.
    latest_us: Option<u64>,
}

impl PurgeLag {
    pub fn look(&mut self, store: &Store, log: &LogSink) {
        let limit = store.trx_sys.purge_lag_warning.load(Ordering::Relaxed);
        let length = store.trx_sys.undo.history_length();
        let now_us = store.pool.disk().now_us();
        debug_assert!(
            self.warned_us.is_none() || self.warned_us == self.latest_us,
            "the warning that is open is the latest of all"
        );
        if limit == 0 || length < limit {
            // Half of the limit: a lag that varies around the limit is not logged each time.
            if self.warned_us.is_some() && length <= limit / 2 {
                self.warned_us = None;
                log(
                    Level::Info,
                    &format!("purge has caught up: history list length {length}"),
                );
            }
            return;
        }
        if self.latest_us.is_some_and(|then| now_us < then + WARN_EVERY_US) {
            return;
        }
        (self.warned_us, self.latest_us) = (Some(now_us), Some(now_us));
        let undo_mib = store.trx_sys.undo.bytes() >> 20;
        let why = match store.trx_sys.visibility.oldest_view().0 {
            Some(view) => format!(
                "the oldest snapshot is {} s old and held by connection {}",
                now_us.saturating_sub(view.opened_us) / 1_000_000,
                view.connection
            ),
            None => {
                "no snapshot holds it back: writers make versions faster than purge removes them (sluice_purge_threads)"
                    .into()
            }
        };
        log(
            Level::Warning,
            &format!("purge is behind: history list length {length}, {undo_mib} MiB of undo; {why}"),
        );
    }
}
