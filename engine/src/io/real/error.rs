//! Errors of system calls: the operating system's reason becomes an [`Error`] that names the place.
//!
//! Called by: the other files here.
use crate::base::Error;
use std::io::ErrorKind;

/// Error of a call other than a sync. `place`: offset and length in bytes. `Full`: the disk is
/// full, and nothing has happened.
pub fn io_error(what: &str, path: &str, place: Option<(u64, usize)>, e: std::io::Error) -> Error {
    let text = match place {
        Some((offset, len)) => format!("cannot {what} {path} at offset {offset}, {len} bytes: {e}"),
        None => format!("cannot {what} {path}: {e}"),
    };
    match e.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => Error::Full(text),
        _ => Error::io(text),
    }
}

/// Error of a sync. Never `Full`, which says that nothing has happened. A sync can fail for lack of
/// space too, and then the data that it was to make durable may be lost.
pub fn sync_error(what: &str, path: &str, e: std::io::Error) -> Error {
    debug_assert!(what.starts_with("sync"), "other calls can be full");
    Error::io(format!("cannot {what} {path}: {e}"))
}

/// Repeats a call that a signal interrupted. This is right for fsync too: an interrupted fsync has
/// reported no write-back error, and so has not consumed one.
pub fn retry<T>(mut call: impl FnMut() -> std::io::Result<T>) -> std::io::Result<T> {
    loop {
        match call() {
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            done => return done,
        }
    }
}
