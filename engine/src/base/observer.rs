//! [`Observer`]: the instrumentation of the program that the engine runs in, for example a server's
//! `performance_schema`.
//!
//! One observer for the process, set before the first engine is opened, or none. Without one, an
//! observed call costs one load and one branch. An observer runs the closure that it is given,
//! exactly once. Called by: `sync` (a mutex was found locked), `io::real`, the pool's memory, and
//! the engine's threads.
use std::sync::OnceLock;

/// A call of the operating system on a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileCall {
    Read,
    Write,
    Sync,
    /// Of the file's length.
    ChangeSize,
}

/// A file of a call, with the bytes that the call transfers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FilePart {
    pub fd: i32,
    pub bytes: usize,
}

/// Long work of one of the engine's own threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// A drain of the change buffer: entries.
    Drain,
    /// The rollback of transactions that the start found: undo records.
    RollbackAtStart,
}

/// Memory that is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    BufferPool,
}

/// See the head of this file.
pub trait Observer: Send + Sync {
    /// In `wait` the thread waits for a mutex of that rank.
    fn mutex_wait(&self, rank: u8, wait: &mut dyn FnMut());
    /// `open` returns the descriptor, if the file was opened.
    fn file_open(&self, path: &str, creates: bool, open: &mut dyn FnMut() -> Option<i32>);
    /// In `call` the bytes of all parts are transferred. Each file stands in one part.
    fn file_call(&self, call: FileCall, parts: &[FilePart], run: &mut dyn FnMut());
    /// The descriptor is about to be closed.
    fn file_close(&self, fd: i32);
    fn file_removed(&self, path: &str);
    /// `body` is all that a thread of the engine does.
    fn thread(&self, name: &str, body: &mut dyn FnMut());
    /// The work of the calling thread has come so far. `done` is `total` at the end.
    fn progress(&self, stage: Stage, done: u64, total: u64);
    /// Memory was taken (`bytes` above 0) or given back.
    fn memory(&self, what: Memory, bytes: i64);
}

static OBSERVER: OnceLock<Box<dyn Observer>> = OnceLock::new();

/// Sets the observer. The first one stays.
pub fn observe(observer: Box<dyn Observer>) {
    let _ = OBSERVER.set(observer);
}

pub fn observer() -> Option<&'static dyn Observer> {
    OBSERVER.get().map(|observer| &**observer)
}

/// What `run` returns. `around` runs it once.
pub fn within<T>(around: impl FnOnce(&mut dyn FnMut()), run: impl FnOnce() -> T) -> T {
    let (mut run, mut result) = (Some(run), None);
    around(&mut || {
        debug_assert!(run.is_some(), "an observer runs what it observes once");
        result = run.take().map(|run| run());
    });
    result.expect("an observer runs what it observes")
}

/// Runs all that a thread of the engine does.
pub fn run_thread(name: &str, body: impl FnOnce()) {
    debug_assert!(!name.is_empty(), "a thread of the engine has a name");
    match observer() {
        Some(observer) => within(|body| observer.thread(name, body), body),
        None => body(),
    }
}

/// The work of the calling thread has come so far.
pub fn progress(stage: Stage, done: u64, total: u64) {
    debug_assert!(done <= total && total > 0, "the work ends when all of it is done");
    if let Some(observer) = observer() {
        observer.progress(stage, done, total);
    }
}

/// Memory was taken, or given back.
pub fn memory(what: Memory, bytes: i64) {
    if let Some(observer) = observer() {
        observer.memory(what, bytes);
    }
}

/// Runs `wait`, observed.
pub fn mutex_wait(rank: u8, wait: &mut dyn FnMut()) {
    match observer() {
        Some(observer) => observer.mutex_wait(rank, wait),
        None => wait(),
    }
}
