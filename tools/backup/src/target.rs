//! Where a backup goes: standard output, a node of the cluster, or a file that gets its name when
//! it is whole (B8).
use crate::Result;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

pub enum Target {
    Output(std::io::Stdout),
    /// The node that joins.
    Peer(Box<dyn Write + Send>),
    File {
        file: File,
        partial: PathBuf,
        path: PathBuf,
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
            None => return Err(format!("{}: this is no name of a file", path.display())),
        });
        // A partial file is what an earlier backup left that was killed.
        let opened = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&partial);
        Ok(Target::File {
            file: named(&partial, opened)?,
            partial,
            path: path.to_path_buf(),
        })
    }
    /// All is written: durable, with its name, on return.
    pub fn finish(mut self) -> Result<()> {
        self.flush().map_err(|e| format!("the end of the backup: {e}"))?;
        let Target::File { file, partial, path } = &self else {
            return Ok(());
        };
        named(partial, file.sync_all())?;
        named(path, std::fs::rename(partial, path))?;
        sync_names(path)
    }
    pub fn remove(&self) {
        if let Target::File { partial, .. } = self {
            // The name says already that the file is not whole.
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

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Target::Output(out) => out.write(bytes),
            Target::Peer(out) => out.write(bytes),
            Target::File { file, .. } => file.write(bytes),
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
