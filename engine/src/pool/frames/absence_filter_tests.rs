//! Absence filters of a pool in use: made at eviction, dropped when the page comes back.
use crate::base::PageId;
use crate::pool::testing::{PoolFixture, FILE};
use crate::pool::PageType;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

fn id(no: u32) -> PageId {
    PageId::new(FILE, no)
}

/// Every page holds its number at 64.
struct Numbers;

impl crate::pool::PageHasher for Numbers {
    fn hash_page(&self, page: &[u8], add: &mut dyn FnMut(u32)) -> bool {
        add(crate::base::bytes::get_u32(page, 64));
        true
    }
}

fn with_filters(frames: usize, pages: u32) -> PoolFixture {
    let fixture = PoolFixture::create_with(5, frames, 0);
    fixture.pool.absence_filters().set_hasher(std::sync::Arc::new(Numbers));
    fixture.add_file(FILE, pages, true);
    for no in 0..pages {
        write(&fixture, no, no);
    }
    fixture
}
fn write(fixture: &PoolFixture, no: u32, number: u32) {
    let mut mtr = fixture.pool.begin();
    let a = mtr.create(id(no), 0, PageType::System, 0).unwrap();
    mtr.edit_u32(a, 64, number);
    mtr.commit();
}
/// A page that has left the pool and has a filter.
fn filtered(fixture: &PoolFixture, pages: u32) -> u32 {
    let has_filter =
        |no: &u32| (1 << 20..(1 << 20) + 10).any(|hash| fixture.pool.absence_filters().lacks(id(*no), hash));
    (0..pages).find(has_filter).expect("a filter")
}

#[test]
fn a_filter_is_of_what_is_on_disk_and_ends_when_the_page_comes_back() {
    let fixture = with_filters(16, 40);
    for round in 0..2000u32 {
        let no = round * 7 % 40;
        assert!(!fixture.pool.absence_filters().lacks(id(no), no), "page {no} holds it");
        if fixture.pool.absence_filters().count() > 0
            && (1000..1010).any(|hash| fixture.pool.absence_filters().lacks(id(no), hash))
        {
            assert!(!fixture.pool.is_resident(id(no)));
        }
        fixture.pool.read(id(no)).unwrap();
        assert!(
            !(1000..1010).any(|hash| fixture.pool.absence_filters().lacks(id(no), hash)),
            "it is in the pool"
        );
    }
    assert!(
        (1..=32).contains(&fixture.pool.absence_filters().count()),
        "two for each frame at most"
    );
}

#[test]
fn a_page_made_anew_or_forgotten_has_no_filter_of_its_former_life() {
    let fixture = with_filters(16, 40);
    let no = filtered(&fixture, 40);
    write(&fixture, no, 77);
    assert!(!fixture.pool.absence_filters().lacks(id(no), 78), "it is in the pool");
    (0..40)
        .filter(|other| *other != no)
        .for_each(|other| drop(fixture.pool.read(id(other)).unwrap()));
    assert!(!fixture.pool.absence_filters().lacks(id(no), 77));
    // What is written past the pool.
    let no = filtered(&fixture, 40);
    fixture.pool.store().forget(id(no));
    assert!(!(1 << 20..(1 << 20) + 10).any(|hash| fixture.pool.absence_filters().lacks(id(no), hash)));
    fixture.pool.discard_file(FILE);
    assert_eq!(fixture.pool.absence_filters().count(), 0);
}

/// All threads read pages in, change, write and evict them at once; no filter denies what its page
/// holds. The thread that asks holds the page's mutex, as does every thread that changes the page.
#[test]
fn no_filter_denies_what_its_page_holds_under_load() {
    const PAGES: u32 = 60;
    let fixture = with_filters(16, PAGES);
    let pool = &*fixture.pool;
    let numbers: Vec<Mutex<u32>> = (0..PAGES).map(Mutex::new).collect();
    let denied = AtomicU64::new(0);
    let work = |thread: u32| {
        let mut at = thread;
        for round in 0..6000u32 {
            at = at.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let no = (at >> 8) % PAGES;
            let mut number = numbers[no as usize].lock().unwrap();
            assert!(
                !pool.absence_filters().lacks(id(no), *number),
                "page {no} holds {number}"
            );
            if (1 << 30..(1 << 30) + 4).any(|hash| pool.absence_filters().lacks(id(no), hash)) {
                denied.fetch_add(1, Ordering::Relaxed);
            }
            if at >> 29 == 0 {
                *number = thread << 24 | round << 8;
                let mut mtr = pool.begin();
                let page = match at >> 28 & 1 {
                    0 => mtr.write(id(no)).unwrap(),
                    _ => mtr.create(id(no), 0, PageType::System, 0).unwrap(),
                };
                mtr.edit_u32(page, 64, *number);
                mtr.commit();
            }
            drop(number);
            // Whatever other threads do to this page.
            let other = id((at >> 16) % PAGES);
            drop(pool.read(other).unwrap());
            if round % 16 == 0 {
                pool.flusher().step(8).unwrap();
            }
        }
    };
    let work = &work;
    std::thread::scope(|scope| {
        (1..5).for_each(|thread| drop(scope.spawn(move || work(thread))));
    });
    assert!(denied.into_inner() > 100);
}
