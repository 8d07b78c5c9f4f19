//! `sluice-check`: checks the files of an engine that does not run, and saves rows from them. Reads
//! only.
//!
//! It shares no code with the engine. Every format is read here as the engine's sources draw it, so
//! that a mistake of the engine's code is not repeated. Changes that are only in the redo log are
//! applied in memory, as the next start would.
//!
//! Reading order: `log` and `redo` (the log), `store` (the directory as recovery would leave it),
//! `tree`, `space`, `undo`, `catalog`, `pending`, then `table`, `references` and `dump`.
mod bytes;
mod catalog;
mod dump;
mod log;
mod page;
mod pending;
mod redo;
mod references;
mod space;
mod store;
mod table;
mod tree;
mod undo;
mod unnamed;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use store::Store;

/// Checks the files of a stopped Sluice engine; never writes to them.
///
/// Exit code: 0 everything is sound; 1 something is broken (each finding is a line); 2 the check
/// was not possible.
#[derive(Parser)]
#[command(name = "sluice-check", version)]
struct Arguments {
    /// The server's data directory, the engine's directory (#sluice), or one of its .slu files
    path: PathBuf,
    /// Write the rows of this table (db.table) to standard output: key and row in hexadecimal
    #[arg(long, value_name = "TABLE")]
    dump: Option<String>,
    /// Ignore the redo log: pages may be older than it
    #[arg(long)]
    no_redo: bool,
    /// Rows that refer to no parent row are findings, too: exit code 1
    #[arg(long)]
    orphans: bool,
    /// Only findings and the last line
    #[arg(long, short)]
    quiet: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(what) => {
            eprintln!("sluice-check: {what}");
            ExitCode::from(2)
        }
    }
}

/// The engine's directory, and the one file asked for.
fn place(path: &Path) -> Result<(PathBuf, Option<u32>), String> {
    if path.is_dir() {
        let inside = path.join("#sluice");
        return Ok((if inside.is_dir() { inside } else { path.to_path_buf() }, None));
    }
    let digits = path
        .file_name()
        .and_then(|name| name.to_str())
        .and_then(|name| name.strip_suffix(".slu"));
    let number = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
    match (path.is_file(), number) {
        (true, Some(number)) => Ok((path.parent().unwrap_or(Path::new(".")).to_path_buf(), Some(number))),
        (true, None) => Err(format!(
            "{}: neither a directory nor a data file (XXXXXXXX.slu)",
            path.display()
        )),
        (false, _) => Err(format!("{}: there is no such file or directory", path.display())),
    }
}

/// Does a running engine have the directory open?
fn is_in_use(dir: &Path) -> bool {
    let Ok(file) = std::fs::File::open(dir.join("sluice.lock")) else {
        return false;
    };
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockShared).is_err()
}

/// Number of findings.
fn run(arguments: &Arguments) -> Result<usize, String> {
    let (dir, only) = place(&arguments.path)?;
    if is_in_use(&dir) {
        eprintln!(
            "sluice-check: an engine has {} open: what it is writing now may look broken",
            dir.display()
        );
    }
    let store = Store::open(&dir, !arguments.no_redo)?;
    if store.files.is_empty() {
        return Err(format!("{}: no data files of Sluice are here", dir.display()));
    }
    let found = catalog::read(&store);
    let undo = undo::check(&store);
    if let Some(name) = &arguments.dump {
        tell_log(&store);
        let findings = found.and_then(|catalog| dump_table(&store, &catalog, &undo, name));
        if let Some(lacks) = store.log_lacks {
            eprintln!("BROKEN these rows: {lacks}");
        }
        return findings;
    }
    let mut out = Output {
        quiet: arguments.quiet,
        orphans: arguments.orphans,
        findings: 0,
    };
    out.head(&store, &undo);
    check_all(&store, found, &undo, only, &mut out);
    println!(
        "{}",
        match out.findings {
            0 => "everything is sound".to_string(),
            1 => "1 finding".to_string(),
            n => format!("{n} findings"),
        }
    );
    Ok(out.findings)
}

/// To whom the rows are what he gets: what they may lack.
fn tell_log(store: &Store) {
    for what in &store.findings {
        eprintln!("BROKEN log and files: {what}");
    }
    if let Some(lacks) = store.log_lacks {
        eprintln!("BROKEN what follows: {lacks}");
    }
    for note in &store.notes {
        eprintln!("{note}");
    }
}

struct Output {
    quiet: bool,
    /// They are findings.
    orphans: bool,
    findings: usize,
}

impl Output {
    fn finding(&mut self, place: &str, what: &str) {
        self.findings += 1;
        println!("BROKEN {place}: {what}");
    }
    fn say(&self, line: String) {
        if !self.quiet {
            println!("{line}");
        }
    }
    fn head(&mut self, store: &Store, undo: &undo::Undo) {
        for what in &store.findings {
            self.finding("log and files", what);
        }
        for what in &undo.findings {
            self.finding("undo", what);
        }
        self.say(format!(
            "log: {} groups behind the checkpoint, up to LSN {}",
            store.log_groups, store.log_end
        ));
        for note in &store.notes {
            self.say(note.clone());
        }
        let prepared = undo.unfinished.iter().filter(|(_, prepared)| *prepared).count();
        self.say(format!(
            "undo: {} streams, {} records; transactions that did not end: {}, of these prepared: {prepared}",
            undo.streams,
            undo.records,
            undo.unfinished.len()
        ));
    }
}

fn check_all(
    store: &Store,
    found: Result<catalog::Catalog, String>,
    undo: &undo::Undo,
    only: Option<u32>,
    out: &mut Output,
) {
    let catalog = match found {
        Ok(catalog) => catalog,
        Err(what) => {
            out.finding("catalog", &what);
            return check_pages_only(store, only, out);
        }
    };
    for what in &catalog.walked.findings {
        out.finding("catalog", what);
    }
    if only.is_none_or(|only| only <= undo::UNDO_FILE) {
        check_own_files(store, &catalog, undo, out);
    }
    let is_asked = |table: &&catalog::Table| only.is_none_or(|only| only == table.file);
    let tables: Vec<_> = catalog.tables.iter().filter(is_asked).collect();
    let total = tables.iter().map(|t| store.pages_of(t.file) as u64).sum();
    let bar = ProgressBar::new(total);
    bar.set_style(
        ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} pages {eta}")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    for table in tables {
        bar.set_message(table.name.clone());
        if !store.files.contains_key(&table.file) {
            let what = format!("its file {} is missing", store.name_of(table.file));
            out.finding(&table.name, &what);
            continue;
        }
        let report = table::check(store, table, undo.unfinished.is_empty(), &undo.unfinished);
        bar.suspend(|| {
            tell(table, &report, out);
            tell_orphans(store, &catalog, table, undo, out);
        });
        bar.inc(store.pages_of(table.file) as u64);
    }
    bar.finish_and_clear();
    let named: BTreeSet<u32> = catalog
        .tables
        .iter()
        .map(|t| t.file)
        .chain([catalog::SYSTEM_FILE, undo::UNDO_FILE])
        .collect();
    for (number, file) in store.files.iter().filter(|(number, _)| !named.contains(number)) {
        if only.is_some_and(|only| only != *number) {
            continue;
        }
        match unnamed::judge(store, *number) {
            _ if store.is_log_ignored => out.say(format!(
                "{}: no table has it, as far as is known without the log",
                file.name
            )),
            _ if !catalog.walked.findings.is_empty() => {
                out.say(format!(
                    "{}: of no table that the broken catalog still names",
                    file.name
                ));
            }
            Ok(why) => out.say(format!("{}: {why}", file.name)),
            Err(why) => out.finding(&file.name, &why),
        }
    }
}

fn tell(table: &catalog::Table, report: &table::Report, out: &mut Output) {
    for what in &report.findings {
        out.finding(&table.name, what);
    }
    let indexes: Vec<String> = report
        .indexes
        .iter()
        .map(|(name, entries, pending)| format!("{name} {entries}+{pending}"))
        .collect();
    out.say(format!(
        "{}: {} rows ({} marked, {} long), entries + buffered: {}; {} pages in use, {} free, {} of old versions of long rows",
        table.name,
        report.rows,
        report.marked,
        report.long_rows,
        if indexes.is_empty() { "no secondary index".into() } else { indexes.join(", ") },
        report.pages,
        report.free_pages,
        report.old_chains,
    ));
    for note in &report.notes {
        out.say(format!("{}: {note}", table.name));
    }
}

/// The rows of the table that refer to no parent row.
fn tell_orphans(
    store: &Store,
    catalog: &catalog::Catalog,
    table: &catalog::Table,
    undo: &undo::Undo,
    out: &mut Output,
) {
    if table.foreign.is_empty() || table::is_copy(table) {
        return;
    }
    if !undo.unfinished.is_empty() {
        let why = "its foreign keys are not checked, because transactions have not ended";
        return out.say(format!("{}: {why}", table.name));
    }
    for what in references::check(store, catalog, table) {
        match out.orphans {
            true => out.finding(&table.name, &what),
            false => println!("{}: {what}", table.name),
        }
    }
}

/// The system file and the undo file: every page in use has an owner, and no table's file is named
/// as an orphan.
fn check_own_files(store: &Store, catalog: &catalog::Catalog, undo: &undo::Undo, out: &mut Output) {
    for table in catalog.tables.iter().filter(|t| unnamed::is_left_over(store, t.file)) {
        let what = "its file is also named as a dropped table's: the engine refuses the start";
        out.finding(&table.name, what);
    }
    for (file, known) in [
        (catalog::SYSTEM_FILE, &catalog.walked.pages),
        (undo::UNDO_FILE, &undo.pages),
    ] {
        let space = space::check(store, file);
        for what in &space.findings {
            out.finding("free space", what);
        }
        for no in known.difference(&space.used) {
            out.finding(
                "free space",
                &format!(
                    "{} page {no}: has an owner, but is not marked as in use",
                    store.name_of(file)
                ),
            );
        }
        let stray = |no: &&u32| **no != 0 && !space::is_bitmap(**no);
        let count = space.used.difference(known).filter(stray).count();
        if count > 0 && undo.findings.is_empty() && catalog.walked.findings.is_empty() {
            out.finding(
                "free space",
                &format!(
                    "{}: {count} pages are marked as in use, but nobody's",
                    store.name_of(file)
                ),
            );
        }
    }
}

/// Without a catalog: every page that is marked as in use must be itself.
fn check_pages_only(store: &Store, only: Option<u32>, out: &mut Output) {
    for (number, file) in store
        .files
        .iter()
        .filter(|(number, _)| only.is_none_or(|only| only == **number))
    {
        let space = space::check(store, *number);
        for what in &space.findings {
            out.finding(&file.name, what);
        }
        for no in &space.used {
            if let Err(what) = store.read(*number, *no) {
                out.finding(&file.name, &format!("page {no}: {what}"));
            }
        }
        out.say(format!("{}: {} pages in use", file.name, space.used.len()));
    }
}

fn dump_table(store: &Store, catalog: &catalog::Catalog, undo: &undo::Undo, name: &str) -> Result<usize, String> {
    let plain = |name: &str| name.trim_start_matches("./").replace('/', ".");
    let table = catalog.tables.iter().find(|t| plain(&t.name) == plain(name));
    let table = table.ok_or_else(|| {
        let names: Vec<String> = catalog.tables.iter().map(|t| plain(&t.name)).collect();
        match names[..] {
            [] => "the catalog names no table; if it cannot be read, no table can be found".to_string(),
            _ => format!("there is no table {name}; there are: {}", names.join(", ")),
        }
    })?;
    // A prepared transaction may still be committed: neither its rows nor those before it are
    // final.
    let undone: Vec<u64> = undo
        .unfinished
        .iter()
        .filter(|(_, prepared)| !prepared)
        .map(|(id, _)| *id)
        .collect();
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let dumped = dump::dump(store, table, &undone, &mut out).and_then(|dumped| out.flush().map(|()| dumped));
    let dumped = dumped.map_err(|e| e.to_string())?;
    for what in &dumped.findings {
        eprintln!("BROKEN {}: {what}", table.name);
    }
    let report = table::check(store, table, false, &undo.unfinished);
    for what in &report.findings {
        eprintln!("BROKEN {}: {what}", table.name);
    }
    let findings = store.findings.len() + dumped.findings.len() + report.findings.len();
    eprintln!("{} rows; {findings} findings", dumped.rows);
    Ok(findings)
}
