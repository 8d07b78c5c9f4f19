//! For tests: a simulated disk at whose calls something else can happen.
use super::{Caching, Disk, File, Mode, ReadOp, SimDisk, WriteOp};
use crate::base::Result;
use std::sync::Arc;

/// A call that is told.
#[derive(Clone, Copy)]
pub enum Call<'a> {
    /// A file was created.
    Made(&'a str),
    /// A file is about to be removed. An error: it is not.
    ToRemove(&'a str),
    /// A batch is about to be read or written.
    Batch,
}

type Told = Box<dyn Fn(Call<'_>) -> Result<()> + Send + Sync>;

/// Passes all calls on, and tells some of them.
pub struct Watched {
    disk: Arc<SimDisk>,
    told: Told,
}

impl Watched {
    pub fn new(disk: Arc<SimDisk>, told: impl Fn(Call<'_>) -> Result<()> + Send + Sync + 'static) -> Arc<Watched> {
        let told = Box::new(told);
        Arc::new(Watched { disk, told })
    }
}

impl Disk for Watched {
    fn open(&self, name: &str, mode: Mode, caching: Caching) -> Result<Arc<dyn File>> {
        let opened = self.disk.open(name, mode, caching);
        if mode != Mode::Open {
            (self.told)(Call::Made(name))?;
        }
        opened
    }
    fn exists(&self, name: &str) -> Result<bool> {
        self.disk.exists(name)
    }
    fn remove(&self, name: &str) -> Result<()> {
        (self.told)(Call::ToRemove(name))?;
        self.disk.remove(name)
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.disk.rename(from, to)
    }
    fn list(&self) -> Result<Vec<String>> {
        self.disk.list()
    }
    fn write_many(&self, ops: &[WriteOp<'_>]) -> Result<()> {
        (self.told)(Call::Batch)?;
        self.disk.write_many(ops)
    }
    fn read_many(&self, ops: &mut [ReadOp<'_>]) -> Vec<Result<()>> {
        // (A test that fails a read asks the disk for it.)
        (self.told)(Call::Batch).expect("a read is told only");
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
