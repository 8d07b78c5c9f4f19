//! The setting `sluice_redo_log`: turns the redo log off and on. `redo/on_off.rs` has the steps.
//!
//! While the log is off, nothing survives a crash. After a crash the next open refuses the files,
//! by name, and says what to do. A shutdown turns the log on first. So the files of an engine that
//! was closed are complete, and the engine always opens with its log on. Locks: a mutex of its own,
//! held during a switch; then the DDL mutex. Called with no latch held.
use super::config::{Level, LogSink};
use crate::base::sync::{Rank, RankedMutex};
use crate::base::Result;
use crate::table::Store;
use std::sync::Arc;

pub(super) struct RedoSwitch {
    store: Arc<Store>,
    log: LogSink,
    /// Held while the log is turned off or on.
    switching: RankedMutex<()>,
}

impl RedoSwitch {
    pub fn new(store: &Arc<Store>, log: &LogSink) -> RedoSwitch {
        RedoSwitch {
            store: store.clone(),
            log: log.clone(),
            switching: RankedMutex::new(Rank::RedoSwitch, ()),
        }
    }
    /// Off: durably marked before the first change that is not logged. On: every page is durable
    /// when this returns. On an error the log is as it was before. An error of the disk poisons the
    /// engine.
    pub fn set(&self, on: bool) -> Result<()> {
        let _turn = self.switching.lock();
        let redo = &self.store.redo;
        if redo.is_on() == on {
            return Ok(());
        }
        if !on {
            redo.turn_off()?;
            debug_assert!(redo.is_off(), "no change is logged from here on");
            (self.log)(
                Level::Warning,
                "the redo log is off: until it is turned on again, a crash destroys all tables of this engine",
            );
            return Ok(());
        }
        // The log has no record of a file that is made or removed while the log is off. So no such
        // statement may be running when the log is turned on.
        let _ddl = self.store.catalog.begin_ddl();
        let pool = &self.store.pool;
        // A file that cannot be opened is found before anything has begun.
        pool.flusher().open_changed_files()?;
        let first = redo.begin_on()?;
        debug_assert!(
            !redo.is_off() && !redo.is_on(),
            "the log counts as on when all pages are durable"
        );
        if let Err(e) = pool.flush_all().and_then(|()| pool.flusher().sync_files()) {
            if pool.check_alive().is_ok() {
                redo.stay_off();
                debug_assert!(redo.is_off(), "after an error the log is as it was before");
            }
            return Err(e);
        }
        assert!(pool.checkpoint_lsn() >= first, "no change that was not logged is left");
        redo.end_on(first)?;
        debug_assert!(
            redo.is_on() && redo.checkpoint_lsn() >= first,
            "recovery begins with what is logged"
        );
        (self.log)(Level::Info, "the redo log is on: everything is durable");
        Ok(())
    }
}
