//! The pool grows and shrinks: by itself, and while threads read and change its pages. The
//! invariants W1 to W7 are in `docs/decisions/2026-11-28-buffer-pool-resize.md`.
use super::stress::{increment_beside, start, Rng};
use crate::base::sync::as_another_thread;
use crate::base::sync_point::at;
use crate::base::{Error, PageId, SyncPoint};
use crate::pool::testing::{PoolFixture, FILE};
use crate::pool::{GeometryObserver, PoolGeometry, PAGE_SIZE};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

fn id(no: u32) -> PageId {
    PageId::new(FILE, no)
}
fn resize(fixture: &PoolFixture, frames: usize) -> crate::base::Result<()> {
    fixture.pool.resize((frames * PAGE_SIZE) as u64, &|| Ok(()))
}
/// (frames in all, free ones, dirty ones)
fn gauges(fixture: &PoolFixture) -> (u64, u64, u64) {
    fixture.pool.update_gauges();
    let counters = fixture.pool.counters();
    (
        counters.buffer_pool_pages_total.get(),
        counters.buffer_pool_pages_free.get(),
        counters.buffer_pool_pages_dirty.get(),
    )
}

#[test]
fn pages_outlive_every_size() {
    let fixture = PoolFixture::filled(64, 300, 0);
    for frames in [256, 40, 1000, 16, 64, 2000, 64] {
        resize(&fixture, frames).unwrap();
        assert_eq!(gauges(&fixture).0, frames as u64);
        for no in 0..300 {
            assert_eq!(fixture.pool.read(id(no)).unwrap()[64], no as u8, "with {frames} frames");
        }
        let mut mtr = fixture.pool.begin();
        let page = mtr.write(id(frames as u32 % 300)).unwrap();
        mtr.edit_u32(page, 80, frames as u32);
        mtr.commit();
    }
    assert!(
        fixture.pool.resize_status().starts_with("Completed"),
        "{}",
        fixture.pool.resize_status()
    );
    fixture.pool.flush_all().unwrap();
    assert_eq!(fixture.pool.checkpoint_lsn(), fixture.pool.redo().lsn());
}

#[test]
fn a_pool_that_grows_keeps_its_pages_and_uses_the_new_frames() {
    let fixture = PoolFixture::filled(64, 300, 0);
    fixture.pool.flush_all().unwrap();
    resize(&fixture, 512).unwrap();
    (0..300).for_each(|no| drop(fixture.pool.read(id(no)).unwrap()));
    let reads = fixture.pool.counters().buffer_pool_reads.get();
    (0..300).for_each(|no| drop(fixture.pool.read(id(no)).unwrap()));
    assert_eq!(fixture.pool.counters().buffer_pool_reads.get(), reads);
    assert_eq!(gauges(&fixture), (512, 512 - 300, 0));
}

/// Pages in use stay in memory, wherever they were, and dirty ones are not written for that.
#[test]
fn pages_in_use_survive_a_shrink() {
    let fixture = PoolFixture::filled(512, 400, 0);
    fixture.pool.flush_all().unwrap();
    let hot: Vec<u32> = (0..400).step_by(8).collect();
    for _ in 0..3 {
        hot.iter().for_each(|no| drop(fixture.pool.read(id(*no)).unwrap()));
    }
    let mut mtr = fixture.pool.begin();
    let page = mtr.write(id(200)).unwrap();
    mtr.edit_u32(page, 80, 1);
    mtr.commit();
    let flushed = fixture.pool.counters().buffer_pool_pages_flushed.get();
    resize(&fixture, 128).unwrap();
    let kept = hot.iter().filter(|no| fixture.pool.is_resident(id(**no))).count();
    assert!(kept > hot.len() * 9 / 10, "{kept} of {} are in the pool", hot.len());
    assert_eq!(fixture.pool.counters().buffer_pool_pages_flushed.get(), flushed);
    assert_eq!(gauges(&fixture).2, 1);
    fixture.pool.flush_all().unwrap();
    assert_eq!(fixture.in_place(id(200))[80], 1);
}

/// Held latches keep a shrink from ending: it says which page, and the pool is as before.
#[test]
fn a_shrink_below_what_is_latched_gives_up_by_name() {
    let fixture = PoolFixture::filled(64, 60, 0);
    let held: Vec<_> = (0..60).map(|no| fixture.pool.read(id(no)).unwrap()).collect();
    let mut resized = Ok(());
    as_another_thread(|| resized = resize(&fixture, 16));
    let Err(Error::Full(text)) = resized else {
        panic!("the pages are latched")
    };
    assert!(text.contains("page ") && text.contains("00000010.slu"), "{text}");
    assert!(
        fixture.pool.resize_status().contains("stays"),
        "{}",
        fixture.pool.resize_status()
    );
    drop(held);
    (0..60).for_each(|no| drop(fixture.pool.read(id(no)).unwrap()));
    assert_eq!(gauges(&fixture).0, 64);
    resize(&fixture, 16).unwrap();
    (0..60).for_each(|no| assert_eq!(fixture.pool.read(id(no)).unwrap()[64], no as u8));
}

#[test]
fn a_shrink_ends_when_its_caller_wants_and_beyond_the_maximum_is_no_growth() {
    let fixture = PoolFixture::filled(64, 60, 0);
    let watch = || Err(Error::Interrupted);
    assert_eq!(
        fixture.pool.resize((16 * PAGE_SIZE) as u64, &watch),
        Err(Error::Interrupted)
    );
    assert_eq!(gauges(&fixture).0, 64);
    let Err(Error::Full(text)) = fixture.pool.resize(1 << 50, &|| Ok(())) else {
        panic!("too large")
    };
    assert!(text.contains("sluice_buffer_pool_size_max"), "{text}");
    (0..60).for_each(|no| assert_eq!(fixture.pool.read(id(no)).unwrap()[64], no as u8));
}

struct Frames(AtomicU64);

impl GeometryObserver for Frames {
    fn geometry_changed(&self, geometry: &PoolGeometry) {
        self.0.store(geometry.frames() as u64, Ordering::Relaxed);
    }
}

#[test]
fn observers_learn_each_size() {
    let fixture = PoolFixture::filled(64, 10, 0);
    let frames = Arc::new(Frames(AtomicU64::new(0)));
    fixture.pool.observe_geometry(&frames);
    for count in [128, 32] {
        resize(&fixture, count).unwrap();
        assert_eq!(frames.0.load(Ordering::Relaxed), count as u64);
    }
}

/// W6: a file is discarded while its pages move.
#[test]
fn a_discarded_file_leaves_no_page_that_moves() {
    let fixture = PoolFixture::filled(64, 60, 0);
    (0..60).for_each(|no| drop(fixture.pool.read(id(no)).unwrap()));
    std::thread::scope(|s| {
        let pool = &fixture.pool;
        s.spawn(move || {
            for frames in [32, 64, 16, 64, 24, 64] {
                pool.resize((frames * PAGE_SIZE) as u64, &|| Ok(())).unwrap();
            }
        });
        pool.discard_file(FILE);
    });
    assert!((0..60).all(|no| !fixture.pool.is_resident(id(no))));
    assert_eq!(gauges(&fixture), (64, 64, 0));
}

/// W4, at the moment when a page has its new frame and not lost its old one: a hit finds no
/// withdrawn frame's bytes.
#[test]
fn a_hit_in_the_middle_of_a_move_finds_the_page() {
    let fixture = PoolFixture::filled(64, 60, 0);
    (0..60).for_each(|no| drop(fixture.pool.read(id(no)).unwrap()));
    let pool = fixture.pool.clone();
    at(SyncPoint::PageMoved, move || {
        std::thread::scope(|s| {
            // Other threads, for this one holds latches and the shard. They may wait for it.
            s.spawn(|| {
                (0..60)
                    .filter_map(|no| pool.store().try_read_hit(id(no).as_u64()))
                    .for_each(|page| {
                        assert_eq!(page[64] as u32, page.id().no);
                    })
            });
        });
    });
    resize(&fixture, 32).unwrap();
    (0..60).for_each(|no| assert_eq!(fixture.pool.read(id(no)).unwrap()[64], no as u8));
}

/// No increment is lost, no checkpoint passes one, and no read fails, while the pool changes its
/// size all the time.
#[test]
fn resizes_under_load_lose_nothing() {
    let fixture = start(64);
    increment_beside(&fixture, &[2500; 3], |stop| {
        let (mut rng, mut done) = (Rng(200), 0);
        while !stop.load(Ordering::Relaxed) {
            resize(&fixture, 32 + rng.below(600) as usize).unwrap();
            done += 1;
        }
        assert!(done > 3, "the pool changed its size {done} times");
    });
}
