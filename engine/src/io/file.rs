//! The real disk: files in one directory, O_DIRECT where it is wanted and taken, batches through `batch.rs`.
//!
//! Keeps: what a call names as durable is durable (file data by fdatasync, names by fsync of the directory); space is
//! allocated by `set_len`, so that a disk that fills up is met there; one process at a time per directory (flock).
//! Every error names path, offset, length and the operating system's reason. Takes no locks of its own. Called by every layer.
use super::align::{is_aligned, is_aligned_range, AlignedBuf};
use super::batch::Batch;
use super::{Caching, Disk, File, Mode, ReadOp, WriteOp, IO_ALIGN};
use crate::base::{Error, Result};
use std::fs::OpenOptions;
use std::hash::{BuildHasher, Hasher};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Held locked (flock) as long as the [`RealDisk`] lives; not shown by `list`.
const LOCK_FILE: &str = "sluice.lock";

/// Error of one I/O call, by what the caller must do: `Full` can be answered, the rest cannot.
pub(super) fn io_error(what: &str, path: &str, place: Option<(u64, usize)>, e: std::io::Error) -> Error {
    let text = match place {
        Some((offset, len)) => format!("cannot {what} {path} at offset {offset}, {len} bytes: {e}"),
        None => format!("cannot {what} {path}: {e}"),
    };
    match e.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => Error::Full(text),
        _ => Error::io(text),
    }
}

/// Never `Full`, which says that nothing has happened: a sync can be refused for want of room too, and then what it was to make durable
/// may be lost.
fn sync_error(what: &str, path: &str, e: std::io::Error) -> Error {
    Error::io(format!("cannot {what} {path}: {e}"))
}

pub struct RealDisk {
    dir: PathBuf,
    /// For fsync of the names.
    handle: std::fs::File,
    /// Closing it gives the directory free again.
    _lock: std::fs::File,
    batch: Batch,
    start: Instant,
    randoms: AtomicU64,
}

impl RealDisk {
    /// Opens the directory, making it if needed. `Error::InUse` if another process has it open.
    pub fn open(dir: impl AsRef<Path>) -> Result<Arc<RealDisk>> {
        let dir = dir.as_ref().to_path_buf();
        let name = dir.display().to_string();
        std::fs::create_dir_all(&dir).map_err(|e| io_error("create directory", &name, None, e))?;
        let handle = std::fs::File::open(&dir).map_err(|e| io_error("open directory", &name, None, e))?;
        let lock = lock_directory(&dir, &handle)?;
        Ok(Arc::new(RealDisk {
            dir,
            handle,
            _lock: lock,
            batch: Batch::detect(),
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

/// Locks the lock file, and the directory itself: the file looks like one left behind, and somebody may delete it.
fn lock_directory(dir: &Path, handle: &std::fs::File) -> Result<std::fs::File> {
    let path = dir.join(LOCK_FILE);
    let shown = path.display().to_string();
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o660);
    let file = options
        .open(&path)
        .map_err(|e| io_error("open lock file", &shown, None, e))?;
    for (locked, is_needed) in [(&file, true), (handle, false)] {
        // SAFETY: flock on a descriptor we own touches no memory.
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
        let (file, direct) = open_options(&full, mode, caching).map_err(|e| {
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
        Ok(Arc::new(RealFile { file, path, direct }))
    }
    fn exists(&self, name: &str) -> Result<bool> {
        let full = self.full_path(name);
        full.try_exists()
            .map_err(|e| io_error("look for", &full.display().to_string(), None, e))
    }
    fn remove(&self, name: &str) -> Result<()> {
        let full = self.full_path(name);
        match std::fs::remove_file(&full) {
            Ok(()) => self.sync_names(),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            Err(e) => Err(io_error("remove", &full.display().to_string(), None, e)),
        }
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let full = self.full_path(from);
        std::fs::rename(&full, self.full_path(to))
            .map_err(|e| io_error(&format!("rename to {to}"), &full.display().to_string(), None, e))?;
        self.sync_names()
    }
    fn list(&self) -> Result<Vec<String>> {
        let bad = |e| io_error("list", &self.dir.display().to_string(), None, e);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.dir).map_err(bad)? {
            // Names that are not UTF-8 are not ours.
            if let Ok(name) = entry.map_err(bad)?.file_name().into_string() {
                if name != LOCK_FILE {
                    names.push(name);
                }
            }
        }
        names.sort();
        Ok(names)
    }
    fn write_many(&self, ops: &[WriteOp<'_>]) -> Result<()> {
        self.batch.write(ops)
    }
    fn read_many(&self, ops: &mut [ReadOp<'_>]) -> Vec<Result<()>> {
        self.batch.read(ops)
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

/// A moment of [`Disk::wall_s`] for people, in the local time of the process.
pub fn local_time(wall_s: u64) -> String {
    let seconds = wall_s as libc::time_t;
    // SAFETY: numbers and a pointer, for which zeros are values.
    let mut t: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: reads the one and writes the other; a moment that it cannot tell leaves the zeros.
    unsafe { libc::localtime_r(&seconds, &mut t) };
    let (year, month) = (t.tm_year + 1900, t.tm_mon + 1);
    format!(
        "{year:04}-{month:02}-{:02} {:02}:{:02}:{:02}",
        t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec
    )
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
            // A refused O_DIRECT may have created the file all the same.
            let file = options.create_new(false).create(mode != Mode::Open).open(full)?;
            Ok((file, false))
        }
        opened => Ok((opened?, true)),
    }
}

/// Repeats a call that a signal interrupted. Also right for fsync: an interrupted one has reported, and so used up, no
/// write-back error yet.
fn retry<T>(mut call: impl FnMut() -> std::io::Result<T>) -> std::io::Result<T> {
    loop {
        match call() {
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            done => return done,
        }
    }
}

struct RealFile {
    file: std::fs::File,
    path: String,
    direct: bool,
}

impl RealFile {
    fn check_aligned(&self, len: usize, offset: u64) {
        assert!(
            !self.direct || is_aligned_range(len, offset),
            "direct I/O on {} must be aligned: offset {offset}, {len} bytes",
            self.path
        );
    }
    fn read_whole(&self, data: &mut [u8], offset: u64) -> Result<()> {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let place = Some((at, data.len() - done));
            let n = retry(|| self.file.read_at(&mut data[done..], at))
                .map_err(|e| io_error("read", &self.path, place, e))?;
            let n = self.usable(n, data.len() - done);
            if n == 0 {
                let e = std::io::Error::other("the file ends before");
                return Err(io_error("read", &self.path, place, e));
            }
            done += n;
        }
        Ok(())
    }
    fn write_whole(&self, data: &[u8], offset: u64) -> Result<()> {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let place = Some((at, data.len() - done));
            let n =
                retry(|| self.file.write_at(&data[done..], at)).map_err(|e| io_error("write", &self.path, place, e))?;
            let n = self.usable(n, data.len() - done);
            if n == 0 {
                let e = std::io::Error::other("nothing was taken");
                return Err(io_error("write", &self.path, place, e));
            }
            done += n;
        }
        Ok(())
    }
    /// How much of a transfer of `n` bytes counts: a short direct one goes on at an aligned place.
    fn usable(&self, n: usize, wanted: usize) -> usize {
        if self.direct && n < wanted {
            n / IO_ALIGN * IO_ALIGN
        } else {
            n
        }
    }
    fn allocate(&self, from: u64, to: u64) -> Result<()> {
        let place = Some((from, (to - from) as usize));
        let done = retry(|| {
            // SAFETY: a plain system call on a descriptor we own.
            let r = unsafe { libc::fallocate(self.file.as_raw_fd(), 0, from as i64, (to - from) as i64) };
            if r == 0 {
                Ok(())
            } else {
                Err(std::io::Error::last_os_error())
            }
        });
        match done {
            Ok(()) => Ok(()),
            Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => self.write_zeros(from, to),
            Err(e) => {
                // A partial allocation may have grown the file; the old length is the one that was asked to change.
                let _ = self.file.set_len(from);
                Err(io_error("allocate", &self.path, place, e))
            }
        }
    }
    /// For file systems without fallocate.
    fn write_zeros(&self, from: u64, to: u64) -> Result<()> {
        let zeros = AlignedBuf::new(1 << 20);
        let mut at = from;
        while at < to {
            let n = (to - at).min(zeros.len() as u64) as usize;
            self.check_aligned(n, at);
            if let Err(e) = self.write_whole(&zeros[..n], at) {
                let _ = self.file.set_len(from);
                return Err(e);
            }
            at += n as u64;
        }
        Ok(())
    }
}

impl File for RealFile {
    fn read_at(&self, data: &mut [u8], offset: u64) -> Result<()> {
        if !self.direct || is_aligned(data, offset) {
            return self.read_whole(data, offset);
        }
        self.check_aligned(data.len(), offset);
        let mut bounce = AlignedBuf::new(data.len());
        self.read_whole(&mut bounce, offset)?;
        data.copy_from_slice(&bounce);
        Ok(())
    }
    fn write_at(&self, data: &[u8], offset: u64) -> Result<()> {
        if !self.direct || is_aligned(data, offset) {
            return self.write_whole(data, offset);
        }
        self.check_aligned(data.len(), offset);
        self.write_whole(&AlignedBuf::from_slice(data), offset)
    }
    fn sync(&self) -> Result<()> {
        retry(|| self.file.sync_data()).map_err(|e| sync_error("sync", &self.path, e))
    }
    fn len(&self) -> Result<u64> {
        let meta = self.file.metadata();
        Ok(meta
            .map_err(|e| io_error("read the length of", &self.path, None, e))?
            .len())
    }
    fn set_len(&self, len: u64) -> Result<()> {
        let old = self.len()?;
        if len > old {
            return self.allocate(old, len);
        }
        retry(|| self.file.set_len(len)).map_err(|e| io_error(&format!("shorten to {len} bytes"), &self.path, None, e))
    }
    fn is_direct(&self) -> bool {
        self.direct
    }
    fn path(&self) -> &str {
        &self.path
    }
    fn fd(&self) -> Option<i32> {
        Some(self.file.as_raw_fd())
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
