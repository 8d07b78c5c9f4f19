//! `sluice-backup restore`: makes a data directory from backups, and checks it (B9).
//!
//! The directory has another name until the end. Sluice's files of each backup are written over
//! those of the backup before, and recovered with the log of the last one. Then `sluice-check`
//! checks each page. The files of the other engines come from the last backup.
use crate::backup::summary;
use crate::other_engines::{ends_with_us, prepare, Unpack};
use crate::stream::{parse_about, u32_at, About, Unpacker, ABOUT, ALL_ENGINES, BLANK, DONE, REST};
use crate::target::{sync_file_system, sync_names};
use crate::{RestoreArguments, Result};
use sluice::engine::backup::{Restore, Restored};
use sluice::engine::{Close, Config, Engine, Level};
use sluice::io::RealDisk;
use std::fs::File;
use std::io::{BufReader, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const BUFFER: usize = 1 << 20;

/// Where a backup comes from.
pub struct Source {
    pub name: String,
    pub from: Box<dyn Read>,
}

impl Source {
    fn open(path: &Path) -> Result<Source> {
        let name = path.display().to_string();
        let from: Box<dyn Read> = match path == Path::new("-") {
            true => Box::new(std::io::stdin()),
            false => Box::new(File::open(path).map_err(|e| format!("{name}: {e}"))?),
        };
        Ok(Source { name, from })
    }
}

/// Reads a backup to its end, and prints its metadata.
pub fn show(path: &Path) -> Result<()> {
    let about = pass(Source::open(path)?, &mut |_, _| Ok(()))?;
    for (name, value) in about {
        println!("{name}={value}");
    }
    Ok(())
}

/// Calls `each` with every frame of a whole backup.
fn pass(source: Source, each: &mut dyn FnMut(u32, &[u8]) -> Result<()>) -> Result<About> {
    let Source { name, from } = source;
    let named = |why: String| format!("{name}: {why}");
    let mut frames = Unpacker::new(BufReader::with_capacity(BUFFER, from)).map_err(named)?;
    let mut about = About::new();
    loop {
        match frames.next_frame().map_err(named)? {
            (DONE, _) => return Ok(about),
            (ABOUT, text) => about = parse_about(text),
            (kind, payload) => each(kind, payload).map_err(named)?,
        }
    }
}

/// The name that a directory has until it is restored.
fn unfinished_name(to: &Path) -> Result<PathBuf> {
    let name = to
        .file_name()
        .ok_or_else(|| format!("{}: this is not a name of a directory", to.display()))?;
    Ok(to.with_file_name(format!("{}.restoring", name.to_string_lossy())))
}

pub fn run(arguments: &RestoreArguments) -> Result<()> {
    let to = &arguments.to;
    let is_empty = |mut entries: std::fs::ReadDir| entries.next().is_none();
    if to.exists() && !std::fs::read_dir(to).is_ok_and(is_empty) {
        return Err(format!("{}: the directory is not empty", to.display()));
    }
    let unfinished = unfinished_name(to)?;
    if unfinished.exists() {
        return Err(format!(
            "{}: an earlier restore did not finish, or still runs: remove this directory first",
            unfinished.display()
        ));
    }
    let sluice = unfinished.join("#sluice");
    make_private(&unfinished)?;
    std::fs::create_dir(&sluice).map_err(|e| format!("{}: {e}", sluice.display()))?;
    let sources = arguments.backups.iter().map(|path| Source::open(path));
    let about = unpack(arguments, sources, &unfinished, &sluice)?;
    say(arguments, "unpacked; Sluice recovers");
    with_engine(arguments, &sluice, |_| Ok(()))?;
    say(arguments, "recovered; every page is checked");
    check(arguments, &sluice)?;
    if about.get("kind").is_some_and(|kind| kind == ALL_ENGINES) {
        say(arguments, "checked; mariadb-backup prepares the other engines");
        prepare(arguments, &unfinished)?;
    }
    sync_file_system(&unfinished)?;
    if let Ok(about) = std::fs::metadata(to) {
        let kept = std::fs::set_permissions(&unfinished, about.permissions());
        kept.map_err(|e| format!("{}: {e}", unfinished.display()))?;
        std::fs::remove_dir(to).map_err(|e| format!("{}: {e}", to.display()))?;
    }
    std::fs::rename(&unfinished, to).map_err(|e| format!("{}: {e}", to.display()))?;
    sync_names(to)?;
    println!("restored: {}; {}", to.display(), summary(&about));
    Ok(())
}

/// A directory that no other user can look into, as a server's data directory is. Its parents are
/// made with the usual rights.
pub fn make_private(directory: &Path) -> Result<()> {
    let parents = directory.parent().map_or(Ok(()), std::fs::create_dir_all);
    let made = parents.and_then(|()| std::fs::DirBuilder::new().mode(0o700).create(directory));
    made.map_err(|e| format!("{}: {e}", directory.display()))
}

fn say(arguments: &RestoreArguments, text: &str) {
    if !arguments.quiet {
        eprintln!("{text}");
    }
}

/// Returns the metadata of the last backup.
pub fn unpack(
    arguments: &RestoreArguments,
    sources: impl ExactSizeIterator<Item = Result<Source>>,
    directory: &Path,
    sluice: &Path,
) -> Result<About> {
    let disk = RealDisk::open_existing(sluice).map_err(|e| e.to_string())?;
    let mut restore = Restore::new(disk).map_err(|e| e.to_string())?;
    let mut rest = None;
    let mut previous: Option<About> = None;
    let count = sources.len();
    for (i, source) in sources.enumerate() {
        let is_last = i + 1 == count;
        restore.begin_layer(is_last);
        let source = source?;
        let name = source.name.clone();
        let about = pass(source, &mut |kind, payload| match kind {
            REST if is_last => {
                if rest.is_none() {
                    rest = Some(Unpack::start(arguments, directory)?);
                }
                rest.as_mut().map_or(Ok(()), |rest: &mut Unpack| rest.put(payload))
            }
            BLANK => {
                let (file, first, count) = (u32_at(payload, 0)?, u32_at(payload, 4)?, u32_at(payload, 8)?);
                restore.blank(file, first, count).map_err(|e| e.to_string())
            }
            _ => restore.put((kind, payload)).map_err(|e| e.to_string()),
        })?;
        check_base(&name, previous.as_ref(), &about)?;
        previous = Some(about);
    }
    if let Some(rest) = rest {
        rest.finish()?;
    }
    let Restored { pages, broken, .. } = restore.finish().map_err(|e| e.to_string())?;
    if !broken.is_empty() {
        say(
            arguments,
            &format!(
                "{} pages had no valid checksum when they were copied: the check will show whether they matter",
                broken.len()
            ),
        );
    }
    say(arguments, &format!("{pages} pages of Sluice's files"));
    previous.ok_or_else(|| "no backup is given".into())
}

/// An increment follows its base, and a full backup is the first.
fn check_base(name: &str, previous: Option<&About>, about: &About) -> Result<()> {
    let base = about.get("base");
    match previous.map(|previous| previous.get("backup")) {
        None if base.is_none() => Ok(()),
        Some(known) if known.is_some() && known == base => Ok(()),
        None => Err(format!("{name}: this is an increment: name its base before it")),
        Some(_) => Err(format!("{name}: this is not an increment of the backup before it")),
    }
}

/// Opens the engine, which recovers, and closes it after `then`.
pub fn with_engine<T>(
    arguments: &RestoreArguments,
    sluice: &Path,
    then: impl FnOnce(&Engine) -> sluice::base::Result<T>,
) -> Result<T> {
    let quiet = arguments.quiet;
    let config = Config {
        buffer_pool_size: arguments.memory.max(8) << 20,
        log: Arc::new(move |level: Level, text: &str| {
            if !quiet || level != Level::Info {
                eprintln!("sluice: {text}");
            }
        }),
        ..Config::default()
    };
    let disk = RealDisk::open_existing(sluice).map_err(|e| e.to_string())?;
    let opened = Engine::open(disk, config).and_then(|engine| {
        let done = then(&engine)?;
        engine.close(Close::Fast).map(|()| done)
    });
    opened.map_err(|why| format!("the backup cannot be recovered: {why}"))
}

/// With the rules of the offline checker, which shares no code with the engine.
pub fn check(arguments: &RestoreArguments, sluice: &Path) -> Result<()> {
    let beside = std::env::current_exe()
        .ok()
        .map(|own| own.with_file_name("sluice-check"));
    let program = arguments
        .sluice_check
        .clone()
        .or(beside.filter(|beside| beside.exists()));
    let program = program.unwrap_or_else(|| "sluice-check".into());
    let run = ends_with_us(&mut Command::new(&program))
        .arg("--quiet")
        .arg(sluice)
        .output();
    let output = run.map_err(|e| format!("cannot run {}, which checks every page: {e}", program.display()))?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    Err(format!(
        "the restored files are damaged; they stay in {}:\n{}",
        sluice.display(),
        String::from_utf8_lossy(&text).trim()
    ))
}
