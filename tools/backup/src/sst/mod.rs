//! State transfer between nodes of a Galera cluster: `wsrep_sst_method=sluice`.
//!
//! The server of each of two nodes runs this program under the name `wsrep_sst_sluice`. The joiner
//! listens. The donor connects, and sends a backup of its running server. The joiner restores it
//! beside its old files, checks it, and replaces them. The contract with the server:
//!
//! | role | standard output | when |
//! |---|---|---|
//! | joiner | `ready USER:SECRET@HOST:PORT/sluice_sst` | it listens; the group passes this on |
//! | joiner | `UUID:NUMBER DOMAIN` | the data directory has the state |
//! | donor | `done UUID:NUMBER` | the joiner has the whole backup |
//! | both | `total N`, `complete N` | progress, if it is asked for |
//!
//! A program that ends without its last line has failed, and the server's error log has the reason.
//! The design: `docs/decisions/2026-11-28-galera-transfer.md`.
//!
//! Reading order: `donor`, `joiner`, `place` (from the restored files to the data directory),
//! `position`. Then `wire` (the protocol), `options` (how the server calls), `watch`.
mod donor;
mod joiner;
mod options;
mod place;
mod position;
pub mod watch;
mod wire;

use crate::Result;
use options::{Options, Role};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

const NAME: &str = "wsrep_sst_sluice";
const HELP: &str =
    "Usage: wsrep_sst_sluice ...\n\nA MariaDB server with wsrep_sst_method=sluice runs this program when a node joins \
                    its Galera cluster.\nIt is sluice-backup under another name, and not for calls by hand.";

/// The command line, if this program is called by the name under which a server calls it.
pub fn words_of_server() -> Option<Vec<String>> {
    let mut words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let name = words.next()?;
    (Path::new(&name).file_name()? == NAME).then(|| words.collect())
}

pub fn run(words: Vec<String>) -> ExitCode {
    if words.iter().map(String::as_str).eq(["--help"]) {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    }
    watch::close_inherited_files();
    match Options::parse(words).and_then(|options| transfer(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            log("ERROR", &why);
            ExitCode::FAILURE
        }
    }
}

fn transfer(options: &Options) -> Result<()> {
    watch::end_with_server(options.parent);
    match options.role {
        Role::Donor => donor::run(options),
        Role::Joiner => joiner::run(options),
    }
}

/// A line of the server's error log.
fn log(level: &str, text: &str) {
    eprintln!("WSREP_SST: [{level}] sluice: {text} ({})", watch::now());
}

/// A line that the server reads.
fn tell_server(line: &str) -> Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(|e| format!("the server does not listen any more: {e}"))
}
