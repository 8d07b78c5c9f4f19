//! Opens a directory that was open until now, in a program that starts others. Between fork and
//! exec a child has the lock's file, too.
use sluice::base::{Error, Result};
use sluice::engine::{Config, Database};
use std::path::Path;
use std::time::Duration;

pub fn open(dir: &Path, config: Config) -> Result<Database> {
    for _ in 0..1000 {
        match Database::open(dir, config.clone()) {
            Err(Error::InUse(_)) => std::thread::sleep(Duration::from_millis(10)),
            opened => return opened,
        }
    }
    Database::open(dir, config)
}
