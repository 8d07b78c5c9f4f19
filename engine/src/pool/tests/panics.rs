//! A panic in the middle of a batch: what it leaves is not taken for pages, and nobody waits for it.
use super::rig::{Rig, FILE};
use crate::base::{Error, PageId, Result};
use crate::io::{Caching, Disk, File, Mode, ReadOp, SimDisk, WriteOp};
use crate::pool::page::page_id;
use crate::pool::PageType;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// The next batch panics.
struct Panicking {
    disk: Arc<SimDisk>,
    armed: AtomicBool,
}

impl Panicking {
    fn strike(&self) {
        if self.armed.swap(false, Ordering::Relaxed) {
            panic!("as a test wants it");
        }
    }
}

impl Disk for Panicking {
    fn open(&self, name: &str, mode: Mode, caching: Caching) -> Result<Arc<dyn File>> {
        self.disk.open(name, mode, caching)
    }
    fn exists(&self, name: &str) -> Result<bool> {
        self.disk.exists(name)
    }
    fn remove(&self, name: &str) -> Result<()> {
        self.disk.remove(name)
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.disk.rename(from, to)
    }
    fn list(&self) -> Result<Vec<String>> {
        self.disk.list()
    }
    fn write_many(&self, ops: &[WriteOp<'_>]) -> Result<()> {
        self.strike();
        self.disk.write_many(ops)
    }
    fn read_many(&self, ops: &mut [ReadOp<'_>]) -> Vec<Result<()>> {
        self.strike();
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

fn id(no: u32) -> PageId {
    PageId::new(FILE, no)
}

fn change(rig: &Rig, no: u32) {
    let mut mtr = rig.pool.begin();
    let page = mtr.create(id(no), 0, PageType::System, 0).unwrap();
    mtr.edit_u32(page, 64, no);
    mtr.commit();
}

/// Sixteen frames, forty pages in place, the last of them in the pool.
fn filled(read_io_threads: u32) -> (Rig, Arc<Panicking>) {
    let disk = SimDisk::new(5);
    let panicking = Arc::new(Panicking {
        disk: disk.clone(),
        armed: AtomicBool::new(false),
    });
    let rig = Rig::create_over(disk, panicking.clone(), 16, read_io_threads);
    rig.add_file(FILE, 40, true);
    (0..40).for_each(|no| change(&rig, no));
    rig.pool.flush_all().unwrap();
    (rig, panicking)
}

/// The frames kept the bytes of other pages under the numbers of these.
#[test]
fn a_page_that_was_not_read_is_not_found() {
    let (rig, disk) = filled(0);
    disk.armed.store(true, Ordering::Relaxed);
    let ahead = || rig.pool.read_ahead((0..8).map(id).collect());
    assert!(catch_unwind(AssertUnwindSafe(ahead)).is_err());
    for no in 0..40 {
        let page = rig.pool.read(id(no)).unwrap();
        assert_eq!((page_id(&page), page[64]), (id(no), no as u8));
    }
}

#[test]
fn a_reader_that_panics_stops_the_pool() {
    let (rig, disk) = filled(1);
    disk.armed.store(true, Ordering::Relaxed);
    rig.pool.prefetch(&[id(0), id(1)]);
    let begun = std::time::Instant::now();
    while rig.pool.check_alive().is_ok() {
        assert!(begun.elapsed().as_secs() < 60, "nobody is told");
        std::thread::yield_now();
    }
    rig.pool.shutdown();
}

#[test]
fn a_flusher_that_panics_stops_the_pool() {
    let (rig, disk) = filled(0);
    for no in 30..40 {
        change(&rig, no);
    }
    disk.armed.store(true, Ordering::Relaxed);
    assert!(catch_unwind(AssertUnwindSafe(|| rig.pool.flush_all())).is_err());
    let after = rig.pool.flush_step(10);
    assert!(matches!(after, Err(Error::Poisoned(_))), "{after:?}");
}
