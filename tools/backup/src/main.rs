//! `sluice-backup`: backs up a running server, and restores such a backup.
//!
//! The server's process copies Sluice's files and log into a named pipe. `mariadb-backup` copies
//! the other engines. Both end at the same point: the last stage of `mariadb-backup`. The design:
//! `docs/decisions/2026-11-28-hot-backup.md`.
//!
//! Under the name `wsrep_sst_sluice` the program transfers the state of a node of a Galera cluster:
//! `sst`. The design: `docs/decisions/2026-11-28-galera-transfer.md`.
//!
//! Reading order: `backup`, `restore`, `other_engines` (`mariadb-backup`), `server` (SQL through
//! the client program). Then `target` (where a backup goes), `progress`, `pages` (the list of pages
//! for increments), `stream` (the tool's own frames), `sst`.
mod backup;
mod other_engines;
mod pages;
mod plain_files;
mod progress;
mod restore;
mod server;
mod sst;
mod stream;
mod target;

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

pub type Result<T> = std::result::Result<T, String>;

/// Backs up a running MariaDB server with Sluice tables, and restores such backups.
///
/// Exit code: 0 after success; 1 after a failure, whose reason is on standard error.
#[derive(Parser)]
#[command(name = "sluice-backup", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Backs up a running server: Sluice, InnoDB and the rest at one point of the binary log
    Backup(Box<BackupArguments>),
    /// Restores a backup into a new data directory, and checks every page of Sluice
    Restore(RestoreArguments),
    /// Prints the metadata of a backup; reads the whole backup, and checks every frame
    Show {
        /// The backup; - is standard input
        backup: PathBuf,
    },
}

#[derive(Args)]
pub struct BackupArguments {
    /// The file to write, which must not exist; - is standard output, as is --stream
    #[arg(required_unless_present = "stream", value_name = "FILE")]
    target: Option<PathBuf>,
    /// Write the backup to standard output
    #[arg(long, conflicts_with = "target")]
    stream: bool,
    /// Compress (LZ4)
    #[arg(long)]
    compress: bool,
    /// Read at most so many MiB a second from the server, its redo log included
    #[arg(long, value_name = "MIB")]
    throttle: Option<u64>,
    /// Write the LSN and checksum of each page to this file, for a later incremental backup
    #[arg(long, value_name = "FILE")]
    save_pages: Option<PathBuf>,
    /// Store only pages that differ from those of an earlier backup, which wrote this file
    #[arg(long, value_name = "FILE")]
    incremental: Option<PathBuf>,
    /// Only Sluice: leave out InnoDB, the system tables and the definitions of all tables
    #[arg(long)]
    sluice_only: bool,
    /// Store the position of a Galera node, and the state of its binary log, in the backup
    #[arg(long)]
    galera_info: bool,
    /// Print no progress on standard error
    #[arg(long, short)]
    quiet: bool,
    /// Progress goes to the server that has started this program.
    #[arg(skip)]
    for_server: bool,
    #[command(flatten)]
    connection: Connection,
    /// The program for the other engines
    #[arg(long, value_name = "PROGRAM", default_value = "mariadb-backup")]
    mariadb_backup: PathBuf,
}

/// How to connect to the server. The programs `mariadb` and `mariadb-backup` get these options.
#[derive(Args, Clone)]
pub struct Connection {
    /// Read options from this file only
    #[arg(long, value_name = "FILE")]
    defaults_file: Option<PathBuf>,
    /// Read options from this file, too
    #[arg(long, value_name = "FILE")]
    defaults_extra_file: Option<PathBuf>,
    #[arg(long, short = 'u')]
    user: Option<String>,
    /// Other users of the machine can see a password on a command line: an option file is safer
    #[arg(long, short = 'p')]
    password: Option<String>,
    #[arg(long, short = 'S')]
    socket: Option<PathBuf>,
    #[arg(long, short = 'H')]
    host: Option<String>,
    #[arg(long, short = 'P')]
    port: Option<u16>,
    #[arg(skip)]
    no_defaults: bool,
    #[arg(skip)]
    defaults_group_suffix: Option<String>,
    /// The programs get it in their environment.
    #[arg(skip)]
    hidden_password: Option<String>,
    /// The client program
    #[arg(long, value_name = "PROGRAM", default_value = "mariadb")]
    client: PathBuf,
}

#[derive(Args)]
pub struct RestoreArguments {
    /// The backup, and after it its increments in their order; - is standard input
    #[arg(required = true, value_name = "BACKUP")]
    backups: Vec<PathBuf>,
    /// The data directory to create: it must be missing or empty
    #[arg(long, value_name = "DIRECTORY")]
    to: PathBuf,
    /// MiB of memory for the recovery
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    memory: u64,
    /// The program for the other engines
    #[arg(long, value_name = "PROGRAM", default_value = "mariadb-backup")]
    mariadb_backup: PathBuf,
    /// The program that unpacks their files
    #[arg(long, value_name = "PROGRAM", default_value = "mbstream")]
    mbstream: PathBuf,
    /// The program that checks the pages; default: sluice-check beside this program
    #[arg(long, value_name = "PROGRAM")]
    sluice_check: Option<PathBuf>,
    /// Print only the last line
    #[arg(long, short)]
    quiet: bool,
}

fn main() -> ExitCode {
    if let Some(words) = sst::words_of_server() {
        return sst::run(words);
    }
    let done = match Arguments::parse().command {
        Command::Backup(arguments) => backup::run(&arguments),
        Command::Restore(arguments) => restore::run(&arguments),
        Command::Show { backup } => restore::show(&backup),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("sluice-backup: {why}");
            ExitCode::FAILURE
        }
    }
}
