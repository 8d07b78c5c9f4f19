//! `sluice-backup backup`: from a running server to one stream.
//!
//! 1. The server begins to write Sluice's files into a named pipe.
//! 2. When they are copied, `mariadb-backup` starts. The server goes on with the log.
//! 3. The last stage of `mariadb-backup` ends: there the server fixes the point, and ends its
//!    stream (B7).
//! 4. Both report the binary log's position at their point. If the positions differ, the backup has
//!    failed.
use crate::other_engines::{OtherEngines, Position};
use crate::pages::{PageState, Pages};
use crate::plain_files::PlainFiles;
use crate::progress::{Progress, Throttle};
use crate::server::{quoted, Engine};
use crate::stream::{about_text, u32_at, u64_at, About, Packer, ABOUT, BLANK, DONE};
use crate::stream::{ALL_ENGINES, SLUICE_ONLY, WITHOUT_INNODB};
use crate::target::{sync_names, Target};
use crate::{BackupArguments, Result};
use sluice::engine::backup::format::FrameReader;
use sluice::engine::backup::format::{BEGIN, BROKEN, COPIED, END, FAILED, FILE, PAGES};
use sluice::pool::PAGE_SIZE;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

const BUFFER: usize = 1 << 20;
const NICE: libc::c_int = 10;

/// The backup's stream; two threads write to it.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<Packer<BufWriter<Target>>>>);

impl Shared {
    pub fn put(&self, kind: u32, payload: &[u8]) -> Result<()> {
        let mut packer = self
            .0
            .lock()
            .map_err(|_| "a thread of this program has panicked".to_string())?;
        packer.put(kind, payload)
    }
}

/// A folder for the pipe and for mariadb-backup's files. Its drop removes it.
struct Scratch(PathBuf);

impl Scratch {
    /// The server's user must be able to open the pipe for writing. So all users can write to it,
    /// and none but this one can read it.
    fn create() -> Result<Scratch> {
        let name = format!("sluice-backup-{}-{:x}", std::process::id(), random()?);
        let folder = std::env::temp_dir().join(name);
        let made = std::fs::create_dir(&folder).and_then(|()| mode(&folder, 0o711));
        made.map_err(|e| format!("{}: {e}", folder.display()))?;
        let _ = crate::sst::watch::SCRATCH.set(folder.clone());
        let scratch = Scratch(folder);
        let pipe = scratch.pipe();
        let path = std::ffi::CString::new(pipe.as_os_str().as_bytes()).map_err(|e| e.to_string())?;
        // SAFETY: the path is NUL-terminated.
        let made = match unsafe { libc::mkfifo(path.as_ptr(), 0o600) } {
            0 => mode(&pipe, 0o622),
            _ => Err(std::io::Error::last_os_error()),
        };
        made.map_err(|e| format!("{}: {e}", pipe.display()))?;
        Ok(scratch)
    }
    fn pipe(&self) -> PathBuf {
        self.0.join("pipe")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder that stays does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn mode(path: &Path, bits: u32) -> std::io::Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(bits))
}

fn random() -> Result<u64> {
    Ok(u64::from_le_bytes(random_bytes()?))
}

pub fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|e| format!("/dev/urandom: {e}"))?;
    Ok(bytes)
}

/// Opens the reading end. Reads do not wait until [`make_blocking`], after the server has opened
/// the writing end.
fn open_pipe(path: &Path) -> Result<File> {
    let opened = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path);
    opened.map_err(|e| format!("{}: {e}", path.display()))
}

fn make_blocking(pipe: &File) {
    // SAFETY: the descriptor is open. A larger pipe is faster, and no more.
    unsafe {
        libc::fcntl(pipe.as_raw_fd(), libc::F_SETFL, 0);
        libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, BUFFER as libc::c_int);
    }
}

/// So that the server's clients have priority when all processors are busy.
fn lower_priority() {
    // SAFETY: no memory is involved. A failure leaves the priority as it was.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
}

pub fn run(arguments: &BackupArguments) -> Result<()> {
    lower_priority();
    let base = arguments.incremental.as_deref().map(Pages::read).transpose()?;
    if arguments
        .save_pages
        .as_ref()
        .is_some_and(|path| path.exists() && arguments.incremental.as_ref() != Some(path))
    {
        return Err("the file of --save-pages exists".into());
    }
    let path = arguments
        .target
        .as_deref()
        .filter(|path| *path != Path::new("-") && !arguments.stream);
    write_to(arguments, Target::create(path)?, base)
}

/// Writes a backup to `target`, which is complete on return.
pub fn write_to(arguments: &BackupArguments, target: Target, base: Option<Pages>) -> Result<()> {
    let packer = Packer::new(BufWriter::with_capacity(BUFFER, target), arguments.compress)?;
    let mut backup = Backup {
        arguments,
        engine: Engine::find(&arguments.connection)?,
        out: Shared(Arc::new(Mutex::new(packer))),
        progress: match arguments.for_server {
            true => Progress::for_server(),
            false => Progress::new(arguments.quiet),
        },
        pages: Pages::new(random()?),
        base,
        stored: 0,
        passed: 0,
        broken: 0,
        about: About::new(),
    };
    let done = backup.copy();
    let Backup {
        out,
        progress,
        pages,
        about,
        ..
    } = backup;
    let packer = Arc::into_inner(out.0).and_then(|packer| packer.into_inner().ok());
    let packer = packer.ok_or("a thread of this program has panicked, or still writes the backup")?;
    let bytes = packer.bytes();
    // What is still buffered belongs to a backup that has failed, or is flushed already.
    let (target, _) = packer.into_inner().into_parts();
    if let Err(why) = done {
        target.remove();
        return Err(why);
    }
    finish(target, arguments.save_pages.as_deref(), &pages)?;
    let seconds = progress.elapsed().as_secs_f64();
    progress.say(&format!(
        "backup done: {} MiB in {seconds:.1} s; {}",
        bytes >> 20,
        summary(&about)
    ));
    Ok(())
}

fn shown(position: &Position) -> String {
    match position {
        Some((file, at)) => format!("{file} {at}"),
        None => "no position".into(),
    }
}

pub fn summary(about: &About) -> String {
    match about.get("binary_log") {
        Some(position) => format!("binary log position: {position}"),
        None => "the server has no binary log".into(),
    }
}

/// The backup gets its name before its list of pages does. So a list never names a backup that is
/// not there. After a crash in between, the old list is still that of a base.
fn finish(target: Target, list: Option<&Path>, pages: &Pages) -> Result<()> {
    target.finish()?;
    let Some(list) = list else { return Ok(()) };
    save(list, &pages.encode()).map_err(|why| {
        format!(
            "the backup is complete, but cannot be the base of an increment, because its list of pages was not written: {why}"
        )
    })
}

/// Written whole, or not at all.
fn save(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    let written = File::create(&new)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&new, path));
    written.map_err(|e| format!("{}: {e}", path.display()))?;
    sync_names(path)
}

/// What copies the other engines.
enum Rest {
    OtherEngines(OtherEngines),
    PlainFiles(PlainFiles),
}

impl Rest {
    fn is_over(&self) -> bool {
        match self {
            Rest::OtherEngines(rest) => rest.is_over(),
            Rest::PlainFiles(rest) => rest.is_over(),
        }
    }
    fn abort(self) {
        match self {
            Rest::OtherEngines(rest) => rest.abort(),
            Rest::PlainFiles(rest) => rest.abort(),
        }
    }
    fn finish(self) -> Result<Position> {
        match self {
            Rest::OtherEngines(rest) => rest.finish(),
            Rest::PlainFiles(rest) => rest.finish(),
        }
    }
}

struct Backup<'a> {
    arguments: &'a BackupArguments,
    engine: Engine,
    out: Shared,
    progress: Progress,
    pages: Pages,
    base: Option<Pages>,
    /// Pages that went into the backup.
    stored: u64,
    /// Pages of the current file that the server has read.
    passed: u32,
    broken: u64,
    about: About,
}

impl Backup<'_> {
    fn copy(&mut self) -> Result<()> {
        let scratch = Scratch::create()?;
        let pipe = open_pipe(&scratch.pipe())?;
        let connection = &self.arguments.connection;
        let path = quoted(&scratch.pipe().display().to_string());
        let begin = format!("SET GLOBAL {} = {path}; SELECT VERSION()", self.engine.variable());
        let version = connection.sql(&begin)?;
        make_blocking(&pipe);
        let pipe = Throttle::new(pipe, self.arguments.throttle);
        let frames = FrameReader::new(BufReader::with_capacity(BUFFER, pipe));
        let mut frames = frames.map_err(|e| e.to_string())?;
        let mut rest = None;
        let point = self.follow(&mut frames, &mut rest, &scratch.0);
        // If mariadb-backup has failed, its error is the cause: the server's part ended with it.
        let position = match (rest, &point) {
            (Some(rest), Err(_)) if !rest.is_over() => {
                rest.abort();
                None
            }
            (Some(rest), _) => rest.finish()?,
            (None, _) => None,
        };
        let (point, at) = point?;
        self.end(point, &at, position, version.first())
    }
    /// Takes the server's part of the stream. Returns the point, and the server's position in the
    /// binary log then.
    fn follow(
        &mut self,
        frames: &mut FrameReader<impl Read>,
        rest: &mut Option<Rest>,
        scratch: &Path,
    ) -> Result<(u64, String)> {
        loop {
            let (kind, payload) = frames.next_frame().map_err(|why| format!("the server's part: {why}"))?;
            match kind {
                BEGIN => self.begin(payload)?,
                FILE => self.file(payload)?,
                PAGES => self.put_pages(payload)?,
                BROKEN => self.put_broken(payload)?,
                COPIED => *rest = self.start_rest(scratch)?,
                FAILED => return Err(String::from_utf8_lossy(payload).into_owned()),
                END => {
                    let about = String::from_utf8_lossy(&payload[16.min(payload.len())..]).into_owned();
                    return Ok((u64_at(payload, 0)?, about));
                }
                _ => {}
            }
            if kind != PAGES {
                self.out.put(kind, payload)?;
            }
        }
    }
    fn begin(&mut self, payload: &[u8]) -> Result<()> {
        self.pages.database = u64_at(payload, 0)?;
        self.progress.expect(u64_at(payload, 20)?);
        match &self.base {
            Some(base) if base.database != self.pages.database => {
                Err("the base of --incremental is of another database; make a full backup".into())
            }
            _ => Ok(()),
        }
    }
    fn file(&mut self, payload: &[u8]) -> Result<()> {
        self.pages.add_file(u32_at(payload, 0)?, u32_at(payload, 4)?);
        self.passed = 0;
        Ok(())
    }
    /// Stores the pages that the base does not have.
    fn put_pages(&mut self, payload: &[u8]) -> Result<()> {
        let (file, first) = (u32_at(payload, 0)?, u32_at(payload, 4)?);
        let (mut run_start, mut run) = (first, 8..8);
        for (no, at) in (first..).zip((8..payload.len()).step_by(PAGE_SIZE)) {
            let end = at + PAGE_SIZE;
            let state = PageState::of(payload.get(at..end).ok_or("a page is cut")?);
            self.pages.set(file, no, state);
            let is_same = self.base.as_ref().is_some_and(|base| base.get(file, no) == state);
            if !is_same && run.is_empty() {
                (run_start, run) = (no, at..at);
            }
            match is_same {
                false => run.end = end,
                true => {
                    self.put_run(file, run_start, &payload[run.clone()])?;
                    run = end..end;
                }
            }
        }
        self.put_run(file, run_start, &payload[run])?;
        let end = first + ((payload.len() - 8) / PAGE_SIZE) as u32;
        self.progress
            .pass((end.saturating_sub(self.passed)) as u64 * PAGE_SIZE as u64);
        self.passed = self.passed.max(end);
        Ok(())
    }
    /// The page came just before.
    fn put_broken(&mut self, payload: &[u8]) -> Result<()> {
        let (file, no) = (u32_at(payload, 0)?, u32_at(payload, 4)?);
        self.pages.set(file, no, PageState::broken());
        self.broken += 1;
        Ok(())
    }
    fn put_run(&mut self, file: u32, first: u32, pages: &[u8]) -> Result<()> {
        if pages.is_empty() {
            return Ok(());
        }
        self.stored += (pages.len() / PAGE_SIZE) as u64;
        let head = [file.to_le_bytes(), first.to_le_bytes()].concat();
        self.out.put(PAGES, &[&head, pages].concat())
    }
    /// The data files are copied: now the other engines, and then the point.
    fn start_rest(&mut self, scratch: &Path) -> Result<Option<Rest>> {
        if let Some(base) = &self.base {
            for file in self.pages.files() {
                for (first, count) in self.pages.blank_since(base, file) {
                    let parts = [file.to_le_bytes(), first.to_le_bytes(), count.to_le_bytes()];
                    self.out.put(BLANK, &parts.concat())?;
                }
            }
        }
        if self.arguments.sluice_only {
            let stages = "BACKUP STAGE START; BACKUP STAGE BLOCK_COMMIT; BACKUP STAGE END";
            self.arguments.connection.sql(stages)?;
            return Ok(None);
        }
        let connection = self.arguments.connection.clone();
        let variable = self.engine.variable();
        let end_server_part = move || {
            // The server may be gone: then its part has ended.
            let _ = connection.sql(&format!("SET GLOBAL {variable} = ''"));
        };
        let out = self.out.clone();
        Ok(Some(match self.engine {
            Engine::Sluice => {
                self.progress
                    .say("Sluice's data files are copied; mariadb-backup copies the rest");
                Rest::OtherEngines(OtherEngines::start(self.arguments, scratch, out, end_server_part)?)
            }
            Engine::StandIn => {
                self.progress
                    .say("the data files are copied; the files of the other engines follow");
                Rest::PlainFiles(PlainFiles::start(self.arguments, out, end_server_part))
            }
        }))
    }
    fn end(&mut self, point: u64, at: &str, rest: Position, version: Option<&String>) -> Result<()> {
        let position = at.split_once(' ');
        let position = position.map(|(file, position)| (file.to_string(), position.parse().unwrap_or(0)));
        if !self.arguments.sluice_only && rest != position {
            return Err(format!(
                "Sluice's part ends at {} of the binary log, that of the other engines at {}: another backup ran at the same time; try again",
                shown(&position),
                shown(&rest)
            ));
        }
        self.out
            .put(END, &[point.to_le_bytes(), self.stored.to_le_bytes()].concat())?;
        let seconds = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        let mut tell = |name: &str, value: String| self.about.insert(name.into(), value);
        tell("backup", format!("{:016x}", self.pages.backup));
        tell("database", format!("{:016x}", self.pages.database));
        tell("point", point.to_string());
        tell("time", seconds.to_string());
        tell(
            "kind",
            match (self.arguments.sluice_only, self.engine) {
                (true, _) => SLUICE_ONLY,
                (false, Engine::Sluice) => ALL_ENGINES,
                (false, Engine::StandIn) => WITHOUT_INNODB,
            }
            .into(),
        );
        tell("broken_pages", self.broken.to_string());
        if let Some(version) = version {
            tell("server", version.clone());
        }
        if let Some(base) = &self.base {
            tell("base", format!("{:016x}", base.backup));
        }
        if let Some((file, position)) = position {
            tell("binary_log", format!("{file} {position}"));
        }
        if self.broken > 0 {
            self.progress.say(&format!(
                "warning: {} pages of Sluice's files on the server have no valid checksum: they are unused or damaged; run CHECK TABLE there",
                self.broken
            ));
        }
        self.out.put(ABOUT, about_text(&self.about).as_bytes())?;
        self.out.put(DONE, b"")?;
        let mut packer = self
            .out
            .0
            .lock()
            .map_err(|_| "a thread of this program has panicked".to_string())?;
        packer.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_without_its_name_leaves_the_list_of_its_base() {
        let folder = std::env::temp_dir().join(format!("sluice-backup-test-{:x}", random().unwrap()));
        std::fs::create_dir(&folder).unwrap();
        let list = folder.join("pages.new");
        std::fs::write(&list, b"the base's").unwrap();
        let target = Target::create(Some(&folder.join("backup"))).unwrap();
        std::fs::remove_file(folder.join("backup.partial")).unwrap();
        assert!(finish(target, Some(&list), &Pages::new(2)).is_err());
        assert_eq!(std::fs::read(&list).unwrap(), b"the base's");
        let target = Target::create(Some(&folder.join("backup"))).unwrap();
        finish(target, Some(&list), &Pages::new(2)).unwrap();
        assert_eq!(Pages::read(&list).unwrap().backup, 2);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
