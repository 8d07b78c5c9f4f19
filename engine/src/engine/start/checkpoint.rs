//! The payload of a checkpoint: that creation is finished, and the number of the database.
//!
//! Called by everything that writes a checkpoint, and by `recover.rs`, which reads the newest.
use crate::base::ids::SYSTEM_FILE;
use crate::base::{Error, Lsn, Result};
use crate::pool::Pool;
use crate::space;

/// Payload of every checkpoint of an engine whose creation is finished: this text, then the
/// database's number (u64). Logs older than these numbers have none.
const READY: &[u8] = b"SLUICE-READY-1";
pub(in crate::engine) fn write_checkpoint(pool: &Pool, lsn: Lsn) -> Result<()> {
    debug_assert!(
        lsn <= pool.checkpoint_lsn(),
        "I1: every change below a checkpoint is durable in its place"
    );
    let payload = [READY, &pool.database().to_le_bytes()].concat();
    pool.redo().write_checkpoint(lsn, &payload)
}

/// The number of the log's database, by the payload of its newest checkpoint; 0: the log is older
/// than these numbers. None: the payload is of an unknown kind.
pub(super) fn database_of_log(payload: &[u8]) -> Option<u64> {
    let number = payload.strip_prefix(READY)?;
    if number.is_empty() {
        return Some(0);
    }
    Some(u64::from_le_bytes(number.try_into().ok()?))
}

/// Refuses the log of another database: LSNs alone do not tell two databases apart. `log`, `files`:
/// the numbers that the log and the data files have.
pub(super) fn refuse_log_of_another(log: u64, files: u64) -> Result<()> {
    if log == 0 || files == 0 || log == files {
        return Ok(());
    }
    Err(Error::corrupt(
        "the redo log is of another database than the data files: bring back the files redo_* that belong to them, or restore a backup",
    ))
}

/// The same, with the data files' number from disk. If the page that holds the number is damaged
/// there, nothing is refused.
pub(super) fn refuse_log_of_another_than(pool: &Pool, log: u64) -> Result<()> {
    match space::database_on_disk(pool, SYSTEM_FILE)? {
        Some(files) => refuse_log_of_another(log, files),
        None => Ok(()),
    }
}
