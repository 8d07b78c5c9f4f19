//! Tests of page allocation against a model, and of the life of data files.
use super::*;
use crate::base::{Error, FileId, PageId, PageNo, Result};
use crate::io::sim::Fault;
use crate::io::{Caching, Disk, Mode};
use crate::pool::testing::PoolFixture;
use crate::pool::{PageType, PAGE_SIZE};
use crate::redo::FlushMode;
use proptest::prelude::*;
use std::collections::BTreeSet;

const FILE: FileId = 20;

fn fixture() -> PoolFixture {
    let fixture = PoolFixture::create(3, 64);
    create_file(&fixture.pool, FILE, false).unwrap();
    fixture
}

fn take(fixture: &PoolFixture, hint: PageNo) -> PageNo {
    let mut mtr = fixture.pool.begin();
    let no = allocate(&mut mtr, FILE, hint).unwrap();
    mtr.create(PageId::new(FILE, no), 0, PageType::Tree, 0).unwrap();
    mtr.commit();
    no
}

fn give(fixture: &PoolFixture, no: PageNo) {
    let mut mtr = fixture.pool.begin();
    free(&mut mtr, &[PageId::new(FILE, no)]).unwrap();
    mtr.commit();
}

/// Counts, bits and file length agree with the model.
fn check(fixture: &PoolFixture, model: &BTreeSet<PageNo>) {
    let usage = usage(&fixture.pool, FILE).unwrap();
    let own = |no: PageNo| no == 0 || bitmap::is_bitmap(no);
    let own_count = (0..usage.pages).filter(|no| own(*no)).count();
    assert_eq!(usage.used as usize, model.len() + own_count);
    for no in 0..usage.pages + 3 {
        let used = is_used(&fixture.pool, PageId::new(FILE, no)).unwrap();
        assert_eq!(
            used,
            no < usage.pages && (own(no) || model.contains(&no)),
            "page {no} of {usage:?}"
        );
    }
    let len = fixture.pool.files().get(FILE).unwrap().file.len().unwrap();
    assert!(len >= usage.pages as u64 * PAGE_SIZE as u64);
}

#[test]
fn a_new_file_is_small_and_knows_itself() {
    let fixture = fixture();
    assert_eq!(usage(&fixture.pool, FILE).unwrap(), Usage { pages: 8, used: 2 });
    check(&fixture, &BTreeSet::new());
    fixture.pool.flush_all().unwrap();
    fixture.pool.files().remove(FILE);
    fixture.pool.discard_file(FILE);
    add_file(&fixture.pool, FILE);
    check_header(&fixture.pool, FILE).unwrap();
    check(&fixture, &BTreeSet::new());
}

#[test]
fn a_foreign_file_is_refused_by_name() {
    let fixture = fixture();
    fixture.pool.flush_all().unwrap();
    fixture.disk.rename(&file_name(FILE), &file_name(FILE + 1)).unwrap();
    remove_file(&fixture.pool, FILE).unwrap();
    add_file(&fixture.pool, FILE + 1);
    let error = check_header(&fixture.pool, FILE + 1).unwrap_err();
    assert!(
        matches!(&error, Error::Corrupt(text) if text.contains(&file_name(FILE + 1))),
        "{error}"
    );
}

#[test]
fn an_ascending_sequence_fills_extents_one_after_the_other() {
    let fixture = fixture();
    let mut other = 0;
    // The file has no extents yet.
    let mut last = 0;
    while usage(&fixture.pool, FILE).unwrap().pages <= 129 {
        last = take(&fixture, last);
    }
    let mut jumps = 0;
    for i in 0..640 {
        let next = take(&fixture, last);
        jumps += (next != last + 1) as u32;
        last = next;
        if i % 10 == 0 {
            // Scattered requests of a second index do not disturb the sequence.
            other = take(&fixture, if i % 20 == 0 { 5 } else { other });
        }
    }
    assert!(jumps <= 14, "{jumps} jumps in ten extents");
}

#[test]
fn scattered_requests_do_not_waste_extents() {
    let fixture = fixture();
    let mut all = vec![take(&fixture, 0)];
    let mut x = 1u64;
    for _ in 0..3000 {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        all.push(take(&fixture, all[(x >> 33) as usize % all.len()]));
    }
    let usage = usage(&fixture.pool, FILE).unwrap();
    assert!(usage.pages < usage.used * 5 / 4 + 64, "{usage:?}");
}

#[test]
fn a_full_disk_changes_nothing() {
    let fixture = fixture();
    let mut model: BTreeSet<PageNo> = (0..6).map(|_| take(&fixture, 0)).collect();
    fixture.disk.set_space(Some(0));
    let mut mtr = fixture.pool.begin();
    assert!(matches!(allocate(&mut mtr, FILE, 0), Err(Error::Full(_))));
    assert!(!mtr.has_changes());
    drop(mtr);
    give(&fixture, 4);
    model.remove(&4);
    let mut mtr = fixture.pool.begin();
    assert!(matches!(allocate_many(&mut mtr, FILE, 0, 2), Err(Error::Full(_))));
    assert!(!mtr.has_changes());
    drop(mtr);
    check(&fixture, &model);
    assert_eq!(take(&fixture, 0), 4, "what is free can still be had");
    fixture.pool.check_alive().unwrap();
}

/// A disk with less room than the usual growth of a file used to count as full.
#[test]
fn what_is_left_of_a_disk_is_used_up() {
    for (pages_before, left) in [(6, 1), (6, 3), (6, 7), (500, 1), (500, 17), (500, 60), (900, 90)] {
        let fixture = fixture();
        let mut model: BTreeSet<PageNo> = (0..pages_before).map(|_| take(&fixture, 0)).collect();
        let used = fixture.disk.used();
        let free = usage(&fixture.pool, FILE).unwrap();
        let free = free.pages - free.used;
        fixture
            .disk
            .set_space(Some(used + left * PAGE_SIZE as u64 + PAGE_SIZE as u64 / 2));
        for n in 0..free + left as u32 {
            let mut mtr = fixture.pool.begin();
            let no = allocate(&mut mtr, FILE, 0).unwrap_or_else(|e| panic!("page {n} of {free} + {left}: {e}"));
            mtr.create(PageId::new(FILE, no), 0, PageType::Tree, 0).unwrap();
            mtr.commit();
            assert!(model.insert(no));
        }
        let mut mtr = fixture.pool.begin();
        assert!(matches!(allocate(&mut mtr, FILE, 0), Err(Error::Full(_))));
        assert!(!mtr.has_changes());
        drop(mtr);
        check(&fixture, &model);
        // The file grows from any length.
        fixture.disk.set_space(None);
        let more: Vec<PageNo> = (0..200).map(|_| take(&fixture, 0)).collect();
        model.extend(&more);
        check(&fixture, &model);
    }
}

fn give_extent(fixture: &PoolFixture) -> Result<PageNo> {
    let mut mtr = fixture.pool.begin();
    let given = allocate_extent(&mut mtr, FILE, &mut |_| true)?;
    mtr.commit();
    given.ok_or(Error::NotFound)
}

/// Whole extents: where the disk has room for one extent, the file does not grow by two.
#[test]
fn the_last_whole_extent_of_a_disk_is_given() {
    let disk_has = |fixture: &PoolFixture, pages: u32| {
        let file = usage(&fixture.pool, FILE).unwrap().pages;
        let others = fixture.disk.used() - u64::from(file) * PAGE_SIZE as u64;
        fixture
            .disk
            .set_space(Some(others + u64::from(pages) * PAGE_SIZE as u64));
    };
    // 0: the file ends at the second bitmap, which begins the next extent.
    for pages_before in [6, 30, 126, 0] {
        let fixture = fixture();
        let mut model: BTreeSet<PageNo> = (0..pages_before).map(|_| take(&fixture, 0)).collect();
        if pages_before == 0 {
            disk_has(&fixture, PAGES_PER_BITMAP + 1);
            while let Ok(first) = give_extent(&fixture) {
                model.extend(first..first + EXTENT_PAGES);
            }
            assert_eq!(usage(&fixture.pool, FILE).unwrap().pages, PAGES_PER_BITMAP + 1);
        }
        let before = usage(&fixture.pool, FILE).unwrap().pages;
        let mut needed = 0;
        // The least room with which an extent is allocated.
        let first = loop {
            disk_has(&fixture, before + needed);
            match give_extent(&fixture) {
                Ok(first) => break first,
                Err(Error::Full(_)) => needed += 1,
                Err(e) => panic!("{e}"),
            }
            assert!(needed <= 2 * EXTENT_PAGES, "after {before} pages");
        };
        assert!(needed > 0);
        assert_eq!(first + EXTENT_PAGES, before + needed, "after {before} pages");
        model.extend(first..first + EXTENT_PAGES);
        check(&fixture, &model);
    }
}

#[test]
fn a_failed_create_leaves_nothing_behind() {
    for n in 1..10 {
        let fixture = PoolFixture::create(n, 64);
        let before = fixture.disk.list().unwrap();
        fixture.disk.fail_change(fixture.disk.changes() + n, Fault::Full);
        let created = create_file(&fixture.pool, FILE, false);
        if created.is_ok() {
            continue;
        }
        assert!(matches!(created, Err(Error::Full(_))));
        assert_eq!(fixture.disk.list().unwrap(), before);
        assert!(!fixture.pool.files().contains(FILE));
        create_file(&fixture.pool, FILE, false).unwrap();
        check(&fixture, &BTreeSet::new());
    }
}

#[test]
fn a_dropped_file_is_gone_and_dropping_is_idempotent() {
    let fixture = fixture();
    take(&fixture, 0);
    remove_file(&fixture.pool, FILE).unwrap();
    remove_file(&fixture.pool, FILE).unwrap();
    assert!(!fixture.disk.exists(&file_name(FILE)).unwrap());
    fixture.pool.flush_all().unwrap();
    assert!(fixture.pool.read(PageId::new(FILE, 0)).is_err());
}

#[test]
fn freeing_what_is_free_is_refused_before_any_change() {
    let fixture = fixture();
    let (kept, no) = (take(&fixture, 0), take(&fixture, 0));
    give(&fixture, no);
    let mut mtr = fixture.pool.begin();
    let both = [PageId::new(FILE, kept), PageId::new(FILE, no)];
    let refused = free(&mut mtr, &both).unwrap_err();
    assert!(
        matches!(&refused, Error::Corrupt(damage) if damage.contains(&format!("page {no}"))),
        "{refused}"
    );
    assert!(!mtr.has_changes());
}

#[test]
fn a_file_shorter_than_its_header_says_is_made_longer() {
    let fixture = fixture();
    while usage(&fixture.pool, FILE).unwrap().pages < 100 {
        take(&fixture, 0);
    }
    fixture.pool.flush_all().unwrap();
    let pages = usage(&fixture.pool, FILE).unwrap().pages as u64;
    fixture.pool.files().remove(FILE);
    fixture.pool.discard_file(FILE);
    let file = fixture
        .disk
        .open(&file_name(FILE), Mode::Open, Caching::Direct)
        .unwrap();
    file.set_len((pages - 20) * PAGE_SIZE as u64).unwrap();
    add_file(&fixture.pool, FILE);
    check_header(&fixture.pool, FILE).unwrap();
    assert_eq!(file.len().unwrap(), pages * PAGE_SIZE as u64);
}

/// Two threads with two allocations per Mtr each, and frees: the latch order has no circle, and
/// counts stay exact.
#[test]
fn threads_allocate_and_free_side_by_side() {
    let fixture = fixture();
    let pool = &fixture.pool;
    let kept: BTreeSet<PageNo> = std::thread::scope(|s| {
        let threads: Vec<_> = (0..4u32)
            .map(|n| {
                s.spawn(move || {
                    let mut mine = Vec::new();
                    for i in 0..400u32 {
                        let mut mtr = pool.begin();
                        let hint = mine.last().copied().unwrap_or(0);
                        mine.push(allocate(&mut mtr, FILE, hint).unwrap());
                        mine.extend(allocate_many(&mut mtr, FILE, 0, (1 + i % 3) as usize).unwrap());
                        if i % 2 == n % 2 {
                            let gone = mine.swap_remove((i as usize * 7) % mine.len());
                            free(&mut mtr, &[PageId::new(FILE, gone)]).unwrap();
                        }
                        mtr.commit();
                    }
                    mine
                })
            })
            .collect();
        let all: Vec<PageNo> = threads.into_iter().flat_map(|t| t.join().unwrap()).collect();
        let set: BTreeSet<PageNo> = all.iter().copied().collect();
        assert_eq!(set.len(), all.len(), "no page was given out twice");
        set
    });
    check(&fixture, &kept);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    /// Pages in use are those allocated and not freed, whatever the order; after a crash too.
    #[test]
    fn allocation_agrees_with_a_set(steps in prop::collection::vec((0..10u8, any::<u32>()), 1..300)) {
        let fixture = fixture();
        let mut model = BTreeSet::new();
        for (what, x) in &steps {
            let some = model.iter().nth(*x as usize % model.len().max(1)).copied();
            match (what, some) {
                (0..=2, Some(no)) => {
                    give(&fixture, no);
                    model.remove(&no);
                }
                (3, _) => {
                    let mut mtr = fixture.pool.begin();
                    let n = 1 + *x as usize % 40;
                    let pages = allocate_many(&mut mtr, FILE, some.unwrap_or(0), n).unwrap();
                    assert_eq!(pages.len(), n);
                    for no in pages {
                        assert!(model.insert(no));
                    }
                    mtr.commit();
                }
                _ => {
                    let hint = if x % 3 == 0 { 0 } else { some.unwrap_or(0) };
                    assert!(model.insert(take(&fixture, hint)));
                }
            }
        }
        check(&fixture, &model);
        let pool = &fixture.pool;
        pool.redo().flush(pool.redo().lsn(), FlushMode::Sync).unwrap();
        let disk = fixture.disk.crash(steps.len() as u64);
        drop(fixture);
        let fixture = PoolFixture::recover(disk, 64, &mut |_, _| {});
        check_header(&fixture.pool, FILE).unwrap();
        check(&fixture, &model);
    }
}

/// Across the border of a bitmap and back. With ordinary pages that is 2 GiB: too much for the
/// simulated disk.
#[cfg(feature = "tiny-pages")]
#[test]
fn a_second_bitmap_is_made_and_used() {
    let fixture = PoolFixture::create(3, 256);
    create_file(&fixture.pool, FILE, false).unwrap();
    let mut model = BTreeSet::new();
    let mut last = 0;
    while model.len() < PAGES_PER_BITMAP as usize + 300 {
        let mut mtr = fixture.pool.begin();
        for no in allocate_many(&mut mtr, FILE, last, 100).unwrap() {
            assert!(model.insert(no));
            last = no;
        }
        mtr.commit();
        fixture.pool.flusher().step(10).unwrap();
    }
    assert!(!model.contains(&(PAGES_PER_BITMAP + 1)));
    assert!(last > PAGES_PER_BITMAP + 1);
    check(&fixture, &model);
    for no in model.iter().copied().filter(|no| no % 5 == 0).collect::<Vec<_>>() {
        give(&fixture, no);
        model.remove(&no);
    }
    check(&fixture, &model);
    fixture
        .pool
        .redo()
        .flush(fixture.pool.redo().lsn(), FlushMode::Sync)
        .unwrap();
    let disk = fixture.disk.crash(1);
    drop(fixture);
    check(&PoolFixture::recover(disk, 256, &mut |_, _| {}), &model);
}
