//! The log off and on again, as the user's switch (`sluice_redo_log`); how is in `redo/on_off.rs`.
//!
//! While it is off the engine runs as ever, only that nothing survives a crash: the next open refuses the files, by name, and
//! says what to do. A shutdown turns it on first, so an engine that was closed is as good as any, and always opens with its log on.
use super::open::file_number;
use super::{Engine, Level};
use crate::base::{Error, Result};
use crate::io::{Caching, Disk, Mode};

impl Engine {
    /// Off: durably marked before the first change that is not logged. On: every page is durable when this returns. On an error the
    /// log is as it was before (and the engine poisoned, if it was a disk's).
    pub fn set_redo_log(&self, on: bool) -> Result<()> {
        let _turn = self.switching.lock();
        let redo = self.redo();
        if redo.is_on() == on {
            return Ok(());
        }
        if !on {
            redo.turn_off()?;
            self.note(
                Level::Warning,
                "the redo log is off: a crash from now on costs all tables of this engine, until it is turned on again",
            );
            return Ok(());
        }
        // A file made or removed while the log is off is in no log: no such statement is half done when it is on.
        let _ddl = self.store.catalog.begin_ddl();
        let pool = &self.store.pool;
        // A file that cannot be opened is met before anything has begun.
        pool.open_changed_files()?;
        let first = redo.begin_on()?;
        if let Err(e) = pool.flush_all().and_then(|()| pool.sync_files()) {
            if pool.check_alive().is_ok() {
                redo.stay_off();
            }
            return Err(e);
        }
        assert!(pool.checkpoint_lsn() >= first, "no change that was not logged is left");
        redo.end_on(first)?;
        self.note(Level::Info, "the redo log is on: everything is durable");
        Ok(())
    }
    pub fn redo_log_is_on(&self) -> bool {
        self.redo().is_on()
    }
}

/// Why a directory whose log was off cannot be opened.
pub(super) fn refusal(disk: &dyn Disk, names: &[String]) -> Result<Error> {
    let mut files: Vec<&str> = names.iter().map(String::as_str).collect();
    files.retain(|name| file_number(name).is_some());
    files.sort_unstable();
    let path = disk
        .open("redo_control", Mode::Open, Caching::Buffered)?
        .path()
        .to_string();
    let shown = match files[..] {
        [] => "none".to_string(),
        [only] => only.to_string(),
        [first, .., last] => format!("{first} to {last}"),
    };
    Ok(Error::corrupt(format!(
        "the redo log was off when the engine stopped without a shutdown: the {} data files ({shown}) beside {path} may hold \
         half of any change and are refused. Restore the directory from a backup. Or begin anew: move it away, start, DROP the tables (the server still has their definitions), \
         create and load them again",
        files.len()
    )))
}
