//! Reports system calls on files to the observer of the process (`base/observer.rs`).
//!
//! A batch of a ring counts as one call for each of its files. Called by: `disk`, `file` and
//! `batch` here.
use crate::base::observer::{observer, within, FileCall, FilePart};
use std::fs::File;
use std::os::fd::AsRawFd;

/// Runs a call on one file.
pub fn call<T>(call: FileCall, file: &File, bytes: usize, run: impl FnOnce() -> T) -> T {
    let Some(observer) = observer() else { return run() };
    let part = [FilePart {
        fd: file.as_raw_fd(),
        bytes,
    }];
    within(|run| observer.file_call(call, &part, run), run)
}

/// Runs a batch, whose requests are given by descriptor and length.
pub fn batch<T>(call: FileCall, requests: impl Iterator<Item = (i32, usize)>, run: impl FnOnce() -> T) -> T {
    let Some(observer) = observer() else { return run() };
    let mut parts: Vec<FilePart> = Vec::new();
    for (fd, bytes) in requests {
        match parts.iter_mut().find(|part| part.fd == fd) {
            Some(part) => part.bytes += bytes,
            None => parts.push(FilePart { fd, bytes }),
        }
    }
    debug_assert!(!parts.is_empty(), "a batch is a call on some file");
    within(|run| observer.file_call(call, &parts, run), run)
}

type Opened = std::io::Result<(File, bool)>;

/// Opens a file.
pub fn open(path: &str, creates: bool, open: impl FnOnce() -> Opened) -> Opened {
    let Some(observer) = observer() else { return open() };
    let (mut open, mut opened) = (Some(open), None);
    observer.file_open(path, creates, &mut || {
        let result = open.take()?();
        let fd = result.as_ref().ok().map(|(file, _)| file.as_raw_fd());
        opened = Some(result);
        fd
    });
    opened.expect("an observer runs what it observes")
}

/// The file is about to be closed.
pub fn close(file: &File) {
    if let Some(observer) = observer() {
        observer.file_close(file.as_raw_fd());
    }
}

/// There is no file of that name any more.
pub fn removed(path: &std::path::Path) {
    if let Some(observer) = observer() {
        observer.file_removed(&path.display().to_string());
    }
}
