//! The thread of a hot backup. It calls the steps of [`Backup`], and writes the stream to a named
//! pipe.
//!
//! The name comes from a user. Files that are no named pipes are refused, so that a backup never
//! overwrites a file. A write waits for the pipe's reader until the backup is cancelled. The close
//! of the engine cancels it.
//!
//! # Safety
//! The contract of `lib.rs`. `slc_backup_fix_point`: `about` points to `length` bytes.
use super::abi::*;
use super::engine::{enter, enter_value, name, slc_engine};
use sluice::base::{Error, Result};
use sluice::engine::backup::{Backup, BackupControl, Phase};
use sluice::engine::{Engine, Level};
use std::ffi::c_char;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes that the pipe holds, if the system allows so many.
const PIPE_BYTES: libc::c_int = 1 << 20;
/// Milliseconds between two looks of a waiting write whether the backup was cancelled.
const LOOK_MS: libc::c_int = 200;
/// The backup's thread yields to the threads of clients, where they use all processors.
const NICE: libc::c_int = 10;
/// Pause between two steps while the log is copied as it grows.
const FOLLOW: Duration = Duration::from_millis(10);

struct PipeWriter {
    pipe: File,
    control: Arc<BackupControl>,
}

impl PipeWriter {
    fn open(path: &str, control: Arc<BackupControl>) -> Result<PipeWriter> {
        let pipe = open_pipe(path).map_err(|e| match e.raw_os_error() {
            Some(libc::ENXIO) => Error::Invalid(format!("{path}: nothing reads from the pipe")),
            _ => Error::Invalid(format!("{path}: {e}")),
        })?;
        let kind = pipe.metadata().map_err(|e| Error::Invalid(format!("{path}: {e}")))?;
        if !kind.file_type().is_fifo() {
            return Err(Error::Invalid(format!(
                "{path} is no named pipe; a backup is made with the program sluice-backup"
            )));
        }
        // SAFETY: the descriptor is open. A smaller pipe is slower, and no more.
        unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, PIPE_BYTES) };
        Ok(PipeWriter { pipe, control })
    }
    fn wait(&self) -> std::io::Result<()> {
        if self.control.check_wanted().is_err() {
            return Err(std::io::Error::other("the backup was cancelled"));
        }
        let mut poll = libc::pollfd {
            fd: self.pipe.as_raw_fd(),
            events: libc::POLLOUT,
            revents: 0,
        };
        // SAFETY: one valid pollfd. Whatever comes out, the caller tries to write again.
        unsafe { libc::poll(&mut poll, 1, LOOK_MS) };
        Ok(())
    }
}

/// `ENXIO`: nothing reads from the pipe.
fn open_pipe(path: &str) -> std::io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW;
    OpenOptions::new().write(true).custom_flags(flags).open(path)
}

impl Write for PipeWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        loop {
            match self.pipe.write(bytes) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.wait()?,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }
    /// Nothing is buffered. While there is nothing to write, this finds that the reader has ended.
    fn flush(&mut self) -> std::io::Result<()> {
        let mut poll = libc::pollfd {
            fd: self.pipe.as_raw_fd(),
            events: 0,
            revents: 0,
        };
        // SAFETY: one valid pollfd.
        unsafe { libc::poll(&mut poll, 1, 0) };
        match poll.revents & libc::POLLERR {
            0 => Ok(()),
            _ => Err(ErrorKind::BrokenPipe.into()),
        }
    }
}

/// The thread of the latest backup.
#[derive(Default)]
pub struct BackupThread {
    thread: Option<JoinHandle<()>>,
    /// Where it writes to.
    path: String,
}

impl BackupThread {
    fn start(&mut self, engine: &Arc<Engine>, path: &str) -> Result<()> {
        if engine.backup.phase() == Phase::End {
            self.join();
        }
        self.end_if_abandoned(engine);
        if engine.backup.phase() != Phase::None {
            return Err(Error::InUse("another backup is under way".into()));
        }
        self.join();
        let pipe = PipeWriter::open(path, engine.backup.clone())?;
        let backup = Backup::start(engine, Box::new(pipe))?;
        engine.note(Level::Info, "backup: data files are being copied");
        let engine = engine.clone();
        let thread = std::thread::Builder::new().name("sluice-backup".into());
        let spawned = thread.spawn(move || drive(&engine, backup));
        self.thread = Some(spawned.map_err(|e| Error::Full(format!("no thread for the backup: {e}")))?);
        self.path = path.into();
        Ok(())
    }
    /// The program that read the backup has ended. The thread would find that at its next write.
    fn end_if_abandoned(&mut self, engine: &Engine) {
        if self.thread.is_some() && open_pipe(&self.path).is_err() {
            engine.backup.cancel("the program that took it has ended");
            self.join();
        }
    }
    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            // Panics are caught in the thread.
            let _ = thread.join();
        }
    }
    /// Before the engine is closed.
    pub fn end(&mut self, engine: &Engine) {
        if self.thread.is_some() {
            engine.backup.cancel("the server shuts down");
        }
        self.join();
    }
}

/// The priority of this thread alone. Linux has one for each thread.
fn lower_priority() {
    // SAFETY: no memory is involved. A failure leaves the priority as it was.
    unsafe {
        let thread = libc::syscall(libc::SYS_gettid);
        libc::setpriority(libc::PRIO_PROCESS, thread as libc::id_t, NICE);
    }
}

fn drive(engine: &Arc<Engine>, mut backup: Backup) {
    lower_priority();
    let mut phase = Phase::Files;
    loop {
        let panicked = Err(Error::Poisoned("a bug was caught".into()));
        match enter_value(engine, panicked, || backup.step()) {
            Ok(Phase::End) => break engine.note(Level::Info, "backup: done"),
            Ok(Phase::Log) => {
                if phase == Phase::Files {
                    let broken = match backup.broken_pages() {
                        0 => String::new(),
                        n => format!("; {n} pages are not whole: unused ones, or damage, which CHECK TABLE finds"),
                    };
                    engine.note(
                        Level::Info,
                        &format!("backup: data files are copied, the log is followed{broken}"),
                    );
                }
                phase = Phase::Log;
                std::thread::sleep(FOLLOW);
            }
            Ok(_) => {}
            Err(why) => break engine.note(Level::Warning, &format!("backup: not finished: {why}")),
        }
    }
}

/// Begins a backup, which is written to the named pipe. Returns when it has begun.
#[no_mangle]
pub unsafe extern "C" fn slc_backup_start(engine: *mut slc_engine, pipe: *const c_char) -> slc_err {
    let (engine, thread) = unsafe { (slc_engine::of(engine), slc_engine::backup_of(engine)) };
    enter(engine, || thread.lock().start(engine, unsafe { name(pipe)? }))
}

/// Ends the backup that is under way, if there is one.
#[no_mangle]
pub unsafe extern "C" fn slc_backup_cancel(engine: *mut slc_engine) {
    let engine = unsafe { slc_engine::of(engine) };
    enter_value(engine, (), || engine.backup.cancel("it was cancelled"));
}

#[no_mangle]
pub unsafe extern "C" fn slc_backup_phase(engine: *mut slc_engine) -> u32 {
    let engine = unsafe { slc_engine::of(engine) };
    enter_value(engine, 0, || engine.backup.phase() as u32)
}

/// Fixes the point of the backup at the present end of the log. The caller blocks commits. `about`
/// is a text that goes into the backup.
#[no_mangle]
pub unsafe extern "C" fn slc_backup_fix_point(engine: *mut slc_engine, about: slc_bytes) -> slc_err {
    let engine = unsafe { slc_engine::of(engine) };
    let about = unsafe { about.get() };
    enter(engine, || engine.backup.fix_point(about).map(drop))
}
