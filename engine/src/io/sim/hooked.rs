//! A simulated disk with a hook: a test acts, or fails, at some of its calls.
//!
//! Called by: tests of `engine` and `pool`.
use super::SimDisk;
use crate::base::Result;
use crate::io::disk::{Caching, Disk, File, FileSize, Mode, ReadOp, WriteOp};
use std::sync::Arc;

/// A call at which the hook runs.
#[derive(Clone, Copy)]
pub enum Call<'a> {
    /// A file was created.
    Made(&'a str),
    /// A file is about to be removed. With an error of the hook, the file stays.
    ToRemove(&'a str),
    /// A batch is about to be read or written.
    Batch,
    /// Writes are about to be held off (true), or go on. The hook's error is ignored.
    Hold(bool),
}

type Hook = Box<dyn Fn(Call<'_>) -> Result<()> + Send + Sync>;

/// Passes all calls on to a simulated disk, and calls the hook at some.
pub struct HookedDisk {
    disk: Arc<SimDisk>,
    hook: Hook,
}

impl HookedDisk {
    pub fn new(disk: Arc<SimDisk>, hook: impl Fn(Call<'_>) -> Result<()> + Send + Sync + 'static) -> Arc<HookedDisk> {
        let hook = Box::new(hook);
        Arc::new(HookedDisk { disk, hook })
    }
}

impl Disk for HookedDisk {
    fn open(&self, name: &str, mode: Mode, caching: Caching) -> Result<Arc<dyn File>> {
        let opened = self.disk.open(name, mode, caching);
        if mode != Mode::Open {
            (self.hook)(Call::Made(name))?;
        }
        opened
    }
    fn exists(&self, name: &str) -> Result<bool> {
        self.disk.exists(name)
    }
    fn remove(&self, name: &str) -> Result<()> {
        (self.hook)(Call::ToRemove(name))?;
        self.disk.remove(name)
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.disk.rename(from, to)
    }
    fn list(&self) -> Result<Vec<String>> {
        self.disk.list()
    }
    fn size(&self, name: &str) -> Result<Option<FileSize>> {
        self.disk.size(name)
    }
    fn write_many(&self, ops: &[WriteOp<'_>]) -> Result<()> {
        (self.hook)(Call::Batch)?;
        self.disk.write_many(ops)
    }
    fn hold_writes(&self, hold: bool) {
        let _ = (self.hook)(Call::Hold(hold));
        self.disk.hold_writes(hold);
    }
    fn read_many(&self, ops: &mut [ReadOp<'_>]) -> Vec<Result<()>> {
        // A test that fails a read uses `SimDisk::fail_read`.
        (self.hook)(Call::Batch).expect("a hook fails no read");
        self.disk.read_many(ops)
    }
    fn now_us(&self) -> u64 {
        self.disk.now_us()
    }
    fn wall_s(&self) -> u64 {
        self.disk.wall_s()
    }
    fn random(&self) -> u64 {
        self.disk.random()
    }
}
