//! The target of a backup: standard output, a node of a cluster, or a file that gets its name when
//! it is complete (B8).
use crate::Result;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// After so many bytes the kernel is asked to begin writing. Otherwise it would keep gigabytes, and
/// write them at the end, while syncs of the server's log wait.
const WRITE_BEHIND: u64 = 8 << 20;

pub enum Target {
    Output(std::io::Stdout),
    /// The node that joins.
    Peer(Box<dyn Write + Send>),
    File {
        file: File,
        partial: PathBuf,
        path: PathBuf,
        /// Bytes written, and how many of them are on their way to the disk.
        written: u64,
        passed_on: u64,
    },
}

fn named<T>(path: &Path, done: std::io::Result<T>) -> Result<T> {
    done.map_err(|e| format!("{}: {e}", path.display()))
}

impl Target {
    /// `None`: standard output.
    pub fn create(path: Option<&Path>) -> Result<Target> {
        let Some(path) = path else {
            return Ok(Target::Output(std::io::stdout()));
        };
        if path.exists() {
            return Err(format!("{}: the file exists", path.display()));
        }
        let partial = path.with_file_name(match path.file_name() {
            Some(name) => format!("{}.partial", name.to_string_lossy()),
            None => return Err(format!("{}: this is not a name of a file", path.display())),
        });
        // An earlier backup that was killed may have left a partial file.
        let opened = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            // It has the data of all tables.
            .mode(0o600)
            .open(&partial);
        Ok(Target::File {
            file: named(&partial, opened)?,
            partial,
            path: path.to_path_buf(),
            written: 0,
            passed_on: 0,
        })
    }
    /// Completes the backup: on return the file is durable and has its name.
    pub fn finish(mut self) -> Result<()> {
        self.flush().map_err(|e| format!("the end of the backup: {e}"))?;
        let Target::File {
            file, partial, path, ..
        } = &self
        else {
            return Ok(());
        };
        named(partial, file.sync_all())?;
        named(path, std::fs::rename(partial, path))?;
        sync_names(path)
    }
    pub fn remove(&self) {
        if let Target::File { partial, .. } = self {
            // If the file stays, its name says that it is incomplete.
            let _ = std::fs::remove_file(partial);
        }
    }
}

/// The name of `path` is durable on return.
pub fn sync_names(path: &Path) -> Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    named(folder, File::open(folder).and_then(|folder| folder.sync_all()))
}

/// Everything that was written to the file system of `folder` is durable on return. Programs that
/// unpack and move files sync none of them.
pub fn sync_file_system(folder: &Path) -> Result<()> {
    let opened = named(folder, File::open(folder))?;
    // SAFETY: the descriptor is open.
    match unsafe { libc::syncfs(opened.as_raw_fd()) } {
        0 => Ok(()),
        _ => named(folder, Err(std::io::Error::last_os_error())),
    }
}

/// Only a hint: `finish` makes the file durable.
fn write_behind(file: &File, from: u64, to: u64) {
    // SAFETY: the descriptor is open.
    unsafe {
        libc::sync_file_range(
            file.as_raw_fd(),
            from as libc::off64_t,
            (to - from) as libc::off64_t,
            libc::SYNC_FILE_RANGE_WRITE,
        )
    };
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Target::Output(out) => out.write(bytes),
            Target::Peer(out) => out.write(bytes),
            Target::File {
                file,
                partial,
                written,
                passed_on,
                ..
            } => {
                let failed = |e: std::io::Error| std::io::Error::new(e.kind(), format!("{}: {e}", partial.display()));
                let count = file.write(bytes).map_err(failed)?;
                *written += count as u64;
                if *written - *passed_on >= WRITE_BEHIND {
                    write_behind(file, *passed_on, *written);
                    *passed_on = *written;
                }
                Ok(count)
            }
        }
    }
    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Target::Output(out) => out.flush(),
            Target::Peer(out) => out.flush(),
            Target::File { .. } => Ok(()),
        }
    }
}
