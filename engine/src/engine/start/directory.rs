//! Names of the engine's files, and the refusal of a directory whose log was off.
//! Called by `open.rs` and `recover.rs`.
use crate::base::{Error, Result};
use crate::io::{Caching, Disk, Mode};
use crate::space::{self, file_number};

pub(super) fn is_ours(name: &str) -> bool {
    file_number(name).is_some()
        || name == "doublewrite"
        || name.starts_with("redo_")
        || name.starts_with(space::TEMPORARY_PREFIX)
}

/// Why a directory whose log was off cannot be opened.
pub(super) fn refusal_of_log_off(disk: &dyn Disk, names: &[String]) -> Result<Error> {
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
