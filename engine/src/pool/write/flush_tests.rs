//! Batches on their way to disk: what they hold back, and what delays them.
use crate::base::{Error, Lsn, PageId};
use crate::pool::testing::{PoolFixture, FILE};
use crate::pool::write::batch::Oldest;
use crate::pool::write::unopened::Quarantined;
use crate::pool::{PageType, PAGE_SIZE};
use crate::redo::FlushMode;

const LOGGED: PageId = PageId::new(FILE, 1);
const UNLOGGED: PageId = PageId::new(FILE + 1, 1);

/// One logged file, one that is not.
fn fixture() -> PoolFixture {
    let fixture = PoolFixture::create(7, 16);
    fixture.add_file(LOGGED.file, 4, true);
    fixture.add_file(UNLOGGED.file, 4, false);
    fixture
}

/// Changes the page; returns its frame.
fn change(fixture: &PoolFixture, id: PageId, byte: u8) -> u32 {
    let mut mtr = fixture.pool.begin();
    let page = mtr.create(id, 0, PageType::System, 0).unwrap();
    mtr.edit(page, 64, &[byte]);
    mtr.commit();
    fixture.pool.read(id).unwrap().index()
}

/// The flight began with an unlogged page, and bounded nothing. By the time of the claim the frame
/// held another page.
#[test]
fn no_checkpoint_passes_a_page_that_took_an_unlogged_ones_frame() {
    let fixture = fixture();
    let frame = change(&fixture, UNLOGGED, 1);
    let (flight, candidates) = fixture.pool.writer().begin_flight(&[frame], Oldest::NONE);
    assert_eq!(candidates.len(), 1);
    // Another thread needs the frame.
    assert_eq!(fixture.pool.writer().write_cold(&[frame]).unwrap(), 1);
    fixture.pool.evict_clean();
    let before = fixture.pool.redo().lsn();
    assert_eq!(change(&fixture, LOGGED, 2), frame, "the same frame");
    let lsn = fixture.pool.redo().lsn();
    assert!(lsn > before);
    let mut buffer = vec![0; PAGE_SIZE];
    let quarantined = Quarantined::new(fixture.pool.store());
    let claims = fixture.pool.writer().claim(candidates, &mut buffer, &quarantined);
    assert_eq!(claims.claimed.len(), 1);
    assert_eq!(fixture.in_place(LOGGED)[64], 0, "on its way");
    assert!(fixture.pool.checkpoint_lsn() <= before);
    fixture.pool.redo().flush(lsn, FlushMode::Sync).unwrap();
    fixture.pool.store().dirty.end_flight(flight);
    assert_eq!(fixture.pool.checkpoint_lsn(), lsn);
}

const OTHER: PageId = PageId::new(FILE + 2, 1);

/// Both logged files have a change, LOGGED's the older one. The disk refuses to open LOGGED's file.
/// Also returns the LSN of LOGGED's change.
fn unopened() -> (PoolFixture, Lsn) {
    let fixture = fixture();
    fixture.add_file(OTHER.file, 4, true);
    let lsn = fixture.pool.redo().lsn();
    change(&fixture, LOGGED, 1);
    change(&fixture, OTHER, 1);
    fixture.disk.refuse(Some(&format!("{:08x}.slu", LOGGED.file)));
    (fixture, lsn)
}

/// The first batch with a page of such a file stopped the engine, though no write had failed.
#[test]
fn a_file_that_cannot_be_opened_waits_for_its_time() {
    let (fixture, lsn) = unopened();
    for pages in [1, 0, 0, 0] {
        assert_eq!(fixture.pool.flusher().step(10).unwrap(), pages);
        assert_eq!(fixture.pool.checkpoint_lsn(), lsn);
    }
    assert_eq!(fixture.in_place(OTHER)[64], 1);
    let news = fixture.pool.flusher().take_unopened_news().pop().expect("a message");
    assert!(news.contains("00000010.slu"), "{news}");
    let failed = |done| assert!(matches!(done, Err(Error::Io(_))), "{done:?}");
    failed(fixture.pool.flush_all());
    failed(fixture.pool.flusher().flush_file(LOGGED.file));
    assert!(fixture.pool.flusher().take_unopened_news().is_empty(), "once");
    fixture.pool.check_alive().unwrap();
    fixture.disk.refuse(None);
    fixture.pool.flush_all().unwrap();
    assert_eq!(fixture.in_place(LOGGED)[64], 1);
    assert_eq!(fixture.pool.checkpoint_lsn(), fixture.pool.redo().lsn());
}

/// More pages of such a file than one batch takes, older than those of two others. Also returns the
/// LSN of the oldest.
fn many_unopened() -> (PoolFixture, Lsn) {
    let fixture = PoolFixture::create(7, 16);
    fixture.add_file(LOGGED.file, 8, true);
    fixture.add_file(UNLOGGED.file, 8, false);
    fixture.add_file(OTHER.file, 8, true);
    let lsn = fixture.pool.redo().lsn();
    let count = 6;
    assert!(fixture.pool.writer().batch_max() < count as usize);
    for no in 1..=count {
        change(&fixture, PageId::new(LOGGED.file, no), 1);
    }
    change(&fixture, OTHER, 1);
    change(&fixture, UNLOGGED, 1);
    fixture.disk.refuse(Some(&format!("{:08x}.slu", LOGGED.file)));
    (fixture, lsn)
}

/// Every batch took the same pages from the front of the list, so nothing else was written until
/// the log was full.
#[test]
fn younger_pages_of_other_files_are_written() {
    for whole in [false, true] {
        let (fixture, lsn) = many_unopened();
        for round in 1..4 {
            change(&fixture, OTHER, round);
            if whole {
                assert!(matches!(fixture.pool.flush_all(), Err(Error::Io(_))));
                assert_eq!(fixture.in_place(UNLOGGED)[64], 1);
            } else {
                assert_eq!(fixture.pool.flusher().step(1).unwrap(), 1);
            }
            assert_eq!(fixture.in_place(OTHER)[64], round);
            assert_eq!(fixture.pool.checkpoint_lsn(), lsn);
        }
        assert_eq!(fixture.pool.flusher().take_unopened_news().len(), 1);
        fixture.disk.refuse(None);
        fixture.pool.flush_all().unwrap();
        assert_eq!(fixture.in_place(PageId::new(LOGGED.file, 6))[64], 1);
        assert_eq!(fixture.pool.checkpoint_lsn(), fixture.pool.redo().lsn());
    }
}

#[test]
fn no_checkpoint_passes_quarantined_pages() {
    let (fixture, lsn) = many_unopened();
    let mut quarantined = Quarantined::new(fixture.pool.store());
    let mut buffer = vec![0; 8 * PAGE_SIZE];
    let four = Oldest {
        pages_max: 4,
        ..Oldest::NONE
    };
    let (flight, candidates) = fixture.pool.writer().begin_flight(&[], four);
    let taken = fixture.pool.writer().claim(candidates, &mut buffer, &quarantined);
    assert_eq!((taken.unopened.len(), taken.claimed.len()), (4, 0));
    quarantined.add_pages(&taken.unopened);
    fixture.pool.store().dirty.end_flight(flight);
    assert_eq!(fixture.pool.checkpoint_lsn(), lsn);
    let (flight, rest) = fixture.pool.writer().begin_flight(&[], four);
    assert!(rest[0].popped > taken.unopened[3].popped, "younger ones");
    fixture.pool.store().dirty.put_back(&fixture.pool.store().frames, &rest);
    fixture.pool.store().dirty.end_flight(flight);
    assert_eq!(fixture.pool.checkpoint_lsn(), lsn);
    drop(quarantined);
    assert_eq!(fixture.pool.checkpoint_lsn(), lsn);
    fixture.disk.refuse(None);
    fixture.pool.flush_all().unwrap();
    assert_eq!(fixture.pool.checkpoint_lsn(), fixture.pool.redo().lsn());
}

/// Each message took the other's place as the last one, so both were repeated for ever.
#[test]
fn two_files_that_cannot_be_opened_are_each_reported_once() {
    let (fixture, _) = unopened();
    let why = |name: &str| Error::io(format!("cannot open {name}"));
    for _ in 0..10 {
        for name in ["a", "b"] {
            fixture.pool.writer().note_unopened(&[], &why(name)).unwrap();
        }
    }
    let news = fixture.pool.flusher().take_unopened_news();
    assert!(
        news.len() == 2 && news[0].contains("open a;") && news[1].contains("open b;"),
        "{news:?}"
    );
}

#[test]
fn a_log_that_is_full_waits_no_longer_for_a_file() {
    let (fixture, lsn) = unopened();
    fixture.pool.redo().set_capacity(1 << 20).unwrap();
    let room = fixture.pool.redo().capacity() / 8 * 7;
    while fixture.pool.flusher().step(10).is_ok() {
        fixture.checkpoint();
        assert!(fixture.pool.redo().lsn() - lsn < room + (64 << 10), "writers wait");
        let mut mtr = fixture.pool.begin();
        let page = mtr.create(OTHER, 0, PageType::System, 0).unwrap();
        mtr.edit(page, 64, &[7; 8000]);
        mtr.commit();
    }
    assert!(fixture.pool.redo().lsn() - lsn > room, "there was room");
    let Err(Error::Poisoned(why)) = fixture.pool.check_alive() else {
        panic!("the pool should be poisoned")
    };
    assert!(why.contains("00000010.slu"), "{why}");
}

/// A batch keeps the files open that it writes to. The files after them could not be opened, and a
/// shutdown gave up.
#[test]
fn all_is_written_with_few_descriptors() {
    let fixture = PoolFixture::create(7, 64);
    for n in 0..8 {
        fixture.add_file(FILE + n, 4, true);
    }
    for n in 0..8 {
        change(&fixture, PageId::new(FILE + n, 1), 1);
    }
    assert!(fixture.pool.writer().batch_max() >= 8);
    let redo = fixture.pool.redo();
    redo.flush(redo.lsn(), FlushMode::Sync).unwrap();
    fixture.disk.set_handles(Some(fixture.disk.handles() + 2));
    fixture.pool.flush_all().unwrap();
    assert!(fixture.disk.struck() > 0);
    assert_eq!(fixture.pool.checkpoint_lsn(), fixture.pool.redo().lsn());
}

#[test]
fn flushing_one_file_leaves_the_others() {
    let fixture = PoolFixture::filled(32, 8, 0);
    fixture.add_file(FILE + 1, 4, true);
    let other = PageId::new(FILE + 1, 1);
    let mut mtr = fixture.pool.begin();
    mtr.create(other, 0, PageType::System, 0).unwrap();
    mtr.commit();
    fixture.pool.flusher().flush_file(FILE).unwrap();
    assert!((0..8).all(|no| fixture.in_place(PageId::new(FILE, no))[64] == no as u8));
    fixture.pool.update_gauges();
    assert_eq!(fixture.pool.counters().buffer_pool_pages_dirty.get(), 1);
    assert!(fixture.in_place(other).iter().all(|b| *b == 0));
}
