//! A panic in the middle of a batch: what it leaves is not taken for pages, and no thread waits for
//! it.
use crate::base::{Error, PageId};
use crate::io::sim::hooked::{Call, HookedDisk};
use crate::io::SimDisk;
use crate::pool::page::page_id;
use crate::pool::testing::{PoolFixture, FILE};
use crate::pool::PageType;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

fn id(no: u32) -> PageId {
    PageId::new(FILE, no)
}

fn change(fixture: &PoolFixture, no: u32) {
    let mut mtr = fixture.pool.begin();
    let page = mtr.create(id(no), 0, PageType::System, 0).unwrap();
    mtr.edit_u32(page, 64, no);
    mtr.commit();
}

/// Sixteen frames, forty pages in place, the last of them in the pool. Once the flag is true the
/// next batch panics.
fn filled(read_io_threads: u32) -> (PoolFixture, Arc<AtomicBool>) {
    let (disk, armed) = (SimDisk::new(5), Arc::new(AtomicBool::new(false)));
    let strikes = armed.clone();
    let panicking = HookedDisk::new(disk.clone(), move |call| match call {
        Call::Batch if strikes.swap(false, Ordering::Relaxed) => panic!("as a test wants it"),
        _ => Ok(()),
    });
    let fixture = PoolFixture::create_over(disk, panicking, 16, read_io_threads);
    fixture.add_file(FILE, 40, true);
    (0..40).for_each(|no| change(&fixture, no));
    fixture.pool.flush_all().unwrap();
    (fixture, armed)
}

/// The frames kept the bytes of other pages under the numbers of these.
#[test]
fn a_page_that_was_not_read_is_not_found() {
    let (fixture, armed) = filled(0);
    armed.store(true, Ordering::Relaxed);
    let ahead = || fixture.pool.reader().read_ahead((0..8).map(id).collect());
    assert!(catch_unwind(AssertUnwindSafe(ahead)).is_err());
    for no in 0..40 {
        let page = fixture.pool.read(id(no)).unwrap();
        assert_eq!((page_id(&page), page[64]), (id(no), no as u8));
    }
}

#[test]
fn a_reader_that_panics_stops_the_pool() {
    let (fixture, armed) = filled(1);
    armed.store(true, Ordering::Relaxed);
    fixture.pool.prefetch(&[id(0), id(1)]);
    let begun = std::time::Instant::now();
    while fixture.pool.check_alive().is_ok() {
        assert!(begun.elapsed().as_secs() < 60, "the pool is never poisoned");
        std::thread::yield_now();
    }
    fixture.pool.shutdown();
}

#[test]
fn a_flusher_that_panics_stops_the_pool() {
    let (fixture, armed) = filled(0);
    for no in 30..40 {
        change(&fixture, no);
    }
    armed.store(true, Ordering::Relaxed);
    assert!(catch_unwind(AssertUnwindSafe(|| fixture.pool.flush_all())).is_err());
    let after = fixture.pool.flusher().step(10);
    assert!(matches!(after, Err(Error::Poisoned(_))), "{after:?}");
}
