//! The real disk: one directory, which one process at a time has open.
//!
//! Keeps: what a call names as durable is durable: data by fdatasync, names by fsync of the
//! directory. A lock on the directory (flock) keeps other processes out. Direct I/O is used where
//! the caller wants it and the file system takes it. Takes no locks of its own. Called by: every
//! layer, through [`Disk`].
use super::batch::Batch;
use super::error::{io_error, retry, sync_error};
use super::file::RealFile;
use super::gate::Gate;
use super::observed;
use crate::base::{Error, Result};
use crate::io::align::is_aligned;
use crate::io::disk::{Caching, Disk, File, FileSize, Mode, ReadOp, WriteOp};
use std::fs::OpenOptions;
use std::hash::{BuildHasher, Hasher};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Held locked (flock) as long as the [`RealDisk`] lives; not shown by `list`.
pub(super) const LOCK_FILE: &str = "sluice.lock";
/// Unit in which `stat` counts what a file takes, in bytes.
const STAT_BLOCK_BYTES: u64 = 512;

/// A directory, open and locked.
pub struct RealDisk {
    dir: PathBuf,
    /// For fsync of the names.
    handle: std::fs::File,
    /// Closing it unlocks the directory.
    _lock: std::fs::File,
    batch: Batch,
    gate: Arc<Gate>,
    start: Instant,
    randoms: AtomicU64,
}

impl RealDisk {
    /// Opens the directory, making it if needed. `Error::InUse` if another process has it open.
    pub fn open(dir: impl AsRef<Path>) -> Result<Arc<RealDisk>> {
        let dir = dir.as_ref();
        check_name(dir)?;
        std::fs::create_dir_all(dir).map_err(|e| io_error("create directory", &dir.display().to_string(), None, e))?;
        RealDisk::open_existing(dir)
    }
    /// Opens a directory that exists. `Error::Invalid` if there is none, `Error::InUse` if another
    /// process has it open.
    pub fn open_existing(dir: impl AsRef<Path>) -> Result<Arc<RealDisk>> {
        let dir = dir.as_ref().to_path_buf();
        check_name(&dir)?;
        let name = dir.display().to_string();
        if matches!(dir.metadata(), Err(e) if e.kind() == ErrorKind::NotFound) {
            return Err(Error::Invalid(format!(
                "the directory {name} does not exist; make it and give it to the server's user, or correct sluice_directory"
            )));
        }
        let handle = std::fs::File::open(&dir).map_err(|e| io_error("open directory", &name, None, e))?;
        let lock = lock_directory(&dir, &handle)?;
        Ok(Arc::new(RealDisk {
            dir,
            handle,
            _lock: lock,
            batch: Batch::detect(),
            gate: Arc::default(),
            start: Instant::now(),
            randoms: AtomicU64::new(0),
        }))
    }
    /// How batches are carried out, for the start-up message.
    pub fn batch_method(&self) -> &'static str {
        self.batch.method()
    }
    fn full_path(&self, name: &str) -> PathBuf {
        assert!(
            !name.is_empty() && !name.contains('/'),
            "file names are plain names: {name:?}"
        );
        self.dir.join(name)
    }
    fn sync_names(&self) -> Result<()> {
        let done = retry(|| self.handle.sync_all());
        done.map_err(|e| sync_error("sync directory", &self.dir.display().to_string(), e))
    }
}

/// Refuses what is no directory's name.
fn check_name(dir: &Path) -> Result<()> {
    let refused = |why: &str| Err(Error::Invalid(format!("{why}; correct sluice_directory, or remove it")));
    match dir.metadata() {
        _ if dir.as_os_str().is_empty() => refused("the directory has no name"),
        Ok(found) if !found.is_dir() => refused(&format!("{} is no directory", dir.display())),
        _ => Ok(()),
    }
}

/// Locks the lock file, and the directory itself: the file looks like a stale one, and a user may
/// delete it.
fn lock_directory(dir: &Path, handle: &std::fs::File) -> Result<std::fs::File> {
    let path = dir.join(LOCK_FILE);
    let shown = path.display().to_string();
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o660);
    let file = options
        .open(&path)
        .map_err(|e| io_error("open lock file", &shown, None, e))?;
    for (locked, is_needed) in [(&file, true), (handle, false)] {
        // SAFETY: flock on a descriptor that this function borrows touches no memory.
        if unsafe { libc::flock(locked.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
            continue;
        }
        let e = std::io::Error::last_os_error();
        if e.kind() == ErrorKind::WouldBlock {
            return Err(Error::InUse(format!(
                "{shown} is locked: another server or program has this directory open; stop it first"
            )));
        }
        // Not every file system locks directories.
        if is_needed {
            return Err(io_error("lock", &shown, None, e));
        }
    }
    Ok(file)
}

impl Disk for RealDisk {
    fn open(&self, name: &str, mode: Mode, caching: Caching) -> Result<Arc<dyn File>> {
        let full = self.full_path(name);
        let path = full.display().to_string();
        let _passed = (mode != Mode::Open).then(|| self.gate.pass());
        let (file, direct) =
            observed::open(&path, mode != Mode::Open, || open_options(&full, mode, caching)).map_err(|e| {
                if e.kind() == ErrorKind::AlreadyExists {
                    return Error::Exists(path.clone());
                }
                let is_refused = matches!(e.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
                match io_error("open", &path, None, e) {
                    Error::Io(damage) if is_refused => Error::TooManyFiles(damage.what),
                    error => error,
                }
            })?;
        if mode == Mode::Create {
            retry(|| file.sync_all()).map_err(|e| sync_error("sync", &path, e))?;
            self.sync_names()?;
        }
        let gate = self.gate.clone();
        Ok(Arc::new(RealFile {
            file,
            path,
            direct,
            gate,
        }))
    }
    fn exists(&self, name: &str) -> Result<bool> {
        let full = self.full_path(name);
        full.try_exists()
            .map_err(|e| io_error("look for", &full.display().to_string(), None, e))
    }
    fn remove(&self, name: &str) -> Result<()> {
        let _passed = self.gate.pass();
        let full = self.full_path(name);
        match std::fs::remove_file(&full) {
            Ok(()) => {
                observed::removed(&full);
                self.sync_names()
            }
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            Err(e) => Err(io_error("remove", &full.display().to_string(), None, e)),
        }
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        debug_assert_ne!(from, to, "a file gets another name");
        let _passed = self.gate.pass();
        let full = self.full_path(from);
        std::fs::rename(&full, self.full_path(to))
            .map_err(|e| io_error(&format!("rename to {to}"), &full.display().to_string(), None, e))?;
        observed::removed(&full);
        self.sync_names()
    }
    fn list(&self) -> Result<Vec<String>> {
        let bad = |e| io_error("list", &self.dir.display().to_string(), None, e);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.dir).map_err(bad)? {
            // The engine makes only names that are UTF-8.
            if let Ok(name) = entry.map_err(bad)?.file_name().into_string() {
                if name != LOCK_FILE {
                    names.push(name);
                }
            }
        }
        names.sort();
        Ok(names)
    }
    fn size(&self, name: &str) -> Result<Option<FileSize>> {
        let full = self.full_path(name);
        match std::fs::metadata(&full) {
            Ok(found) => Ok(Some(FileSize {
                bytes: found.len(),
                allocated: found.blocks() * STAT_BLOCK_BYTES,
            })),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(io_error("ask for the size of", &full.display().to_string(), None, e)),
        }
    }
    fn write_many(&self, ops: &[WriteOp<'_>]) -> Result<()> {
        debug_assert!(
            ops.iter()
                .all(|op| !op.file.is_direct() || is_aligned(op.data, op.offset)),
            "direct I/O of a batch takes the buffers as they are"
        );
        self.batch.write(ops, &self.gate)
    }
    fn read_many(&self, ops: &mut [ReadOp<'_>]) -> Vec<Result<()>> {
        debug_assert!(
            ops.iter()
                .all(|op| !op.file.is_direct() || is_aligned(op.data, op.offset)),
            "direct I/O of a batch takes the buffers as they are"
        );
        self.batch.read(ops)
    }
    fn hold_writes(&self, hold: bool) {
        match hold {
            true => self.gate.close(),
            false => self.gate.open(),
        }
    }
    fn now_us(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }
    fn wall_s(&self) -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs())
    }
    fn random(&self) -> u64 {
        // The standard library seeds each RandomState from the operating system's randomness.
        let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
        hasher.write_u64(self.randoms.fetch_add(1, Ordering::Relaxed));
        hasher.finish()
    }
}

/// Opens; returns the file and whether it is direct.
fn open_options(full: &Path, mode: Mode, caching: Caching) -> std::io::Result<(std::fs::File, bool)> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create_new(mode != Mode::Open)
        .mode(0o660);
    if caching == Caching::Buffered {
        return Ok((options.open(full)?, false));
    }
    match options.clone().custom_flags(libc::O_DIRECT).open(full) {
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
            static NOTED: Once = Once::new();
            NOTED.call_once(|| eprintln!("sluice: {}: no direct I/O here, buffered I/O is used", full.display()));
            // A refused O_DIRECT may have created the file already.
            let file = options.create_new(false).create(mode != Mode::Open).open(full)?;
            Ok((file, false))
        }
        opened => Ok((opened?, true)),
    }
}

/// A time of [`Disk::wall_s`] as text, in the local time of the process.
pub fn local_time(wall_s: u64) -> String {
    let seconds = wall_s as libc::time_t;
    // SAFETY: the struct holds numbers and a pointer, for which zeros are valid values.
    let mut t: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: the call reads `seconds` and writes `t`, both live; on failure `t` keeps its zeros.
    unsafe { libc::localtime_r(&seconds, &mut t) };
    let (year, month) = (t.tm_year + 1900, t.tm_mon + 1);
    format!(
        "{year:04}-{month:02}-{:02} {:02}:{:02}:{:02}",
        t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec
    )
}
