//! Batches on their way to disk: what they hold back, and what holds them up.
use crate::base::{Error, Lsn, PageId};
use crate::pool::testing::fixture::{PoolFixture, FILE};
use crate::pool::write::unopened::Aside;
use crate::pool::{PageType, PAGE_SIZE};
use crate::redo::FlushMode;

const LOGGED: PageId = PageId::new(FILE, 1);
const UNLOGGED: PageId = PageId::new(FILE + 1, 1);

/// One logged file, one that is not.
fn rig() -> PoolFixture {
    let rig = PoolFixture::create(7, 16);
    rig.add_file(LOGGED.file, 4, true);
    rig.add_file(UNLOGGED.file, 4, false);
    rig
}

/// The page is changed. Where it is in the pool.
fn change(rig: &PoolFixture, id: PageId, byte: u8) -> u32 {
    let mut mtr = rig.pool.begin();
    let page = mtr.create(id, 0, PageType::System, 0).unwrap();
    mtr.edit(page, 64, &[byte]);
    mtr.commit();
    rig.pool.read(id).unwrap().index()
}

/// The flight began with a page that is not logged, and bounded nothing; the page that it took from the frame was another by then.
#[test]
fn no_checkpoint_passes_a_page_that_took_an_unlogged_ones_frame() {
    let rig = rig();
    let frame = change(&rig, UNLOGGED, 1);
    let (flight, candidates) = rig.pool.begin_flight(&[frame], 0, Lsn::MAX, false);
    assert_eq!(candidates.len(), 1);
    // Another thread needs the frame.
    assert_eq!(rig.pool.write_cold(&[frame]).unwrap(), 1);
    rig.pool.evict_clean();
    let before = rig.pool.redo().lsn();
    assert_eq!(change(&rig, LOGGED, 2), frame, "the same frame");
    let lsn = rig.pool.redo().lsn();
    assert!(lsn > before);
    let mut buffer = vec![0; PAGE_SIZE];
    assert_eq!(
        rig.pool
            .claim(candidates, &mut buffer, &Aside::new(&rig.pool))
            .claimed
            .len(),
        1
    );
    assert_eq!(rig.in_place(LOGGED)[64], 0, "on its way");
    assert!(rig.pool.checkpoint_lsn() <= before);
    rig.pool.redo().flush(lsn, FlushMode::Sync).unwrap();
    rig.pool.dirty.end_flight(flight);
    assert_eq!(rig.pool.checkpoint_lsn(), lsn);
}

const OTHER: PageId = PageId::new(FILE + 2, 1);

/// Both logged files have a change, LOGGED's the older one. Its file, which is not open, is refused. The change's LSN.
fn unopened() -> (PoolFixture, Lsn) {
    let rig = rig();
    rig.add_file(OTHER.file, 4, true);
    let lsn = rig.pool.redo().lsn();
    change(&rig, LOGGED, 1);
    change(&rig, OTHER, 1);
    rig.disk.refuse(Some(&format!("{:08x}.slu", LOGGED.file)));
    (rig, lsn)
}

/// The first batch with a page of such a file stopped the engine, though nothing had been written wrong.
#[test]
fn a_file_that_cannot_be_opened_waits_for_its_time() {
    let (rig, lsn) = unopened();
    for pages in [1, 0, 0, 0] {
        assert_eq!(rig.pool.flush_step(10).unwrap(), pages);
        assert_eq!(rig.pool.checkpoint_lsn(), lsn);
    }
    assert_eq!(rig.in_place(OTHER)[64], 1);
    let told = rig.pool.take_unopened_news().pop().expect("somebody should know");
    assert!(told.contains("00000010.slu"), "{told}");
    let failed = |done| assert!(matches!(done, Err(Error::Io(_))), "{done:?}");
    failed(rig.pool.flush_all());
    failed(rig.pool.flush_file(LOGGED.file));
    assert!(rig.pool.take_unopened_news().is_empty(), "once");
    rig.pool.check_alive().unwrap();
    rig.disk.refuse(None);
    rig.pool.flush_all().unwrap();
    assert_eq!(rig.in_place(LOGGED)[64], 1);
    assert_eq!(rig.pool.checkpoint_lsn(), rig.pool.redo().lsn());
}

/// More pages of such a file than one batch takes, older than those of two others. LSN of the oldest.
fn many_unopened() -> (PoolFixture, Lsn) {
    let rig = PoolFixture::create(7, 16);
    rig.add_file(LOGGED.file, 8, true);
    rig.add_file(UNLOGGED.file, 8, false);
    rig.add_file(OTHER.file, 8, true);
    let lsn = rig.pool.redo().lsn();
    let count = 6;
    assert!(rig.pool.flusher.batch_max < count as usize);
    for no in 1..=count {
        change(&rig, PageId::new(LOGGED.file, no), 1);
    }
    change(&rig, OTHER, 1);
    change(&rig, UNLOGGED, 1);
    rig.disk.refuse(Some(&format!("{:08x}.slu", LOGGED.file)));
    (rig, lsn)
}

/// Every batch took the same pages from the front of the list, and nothing else was written until the log was full.
#[test]
fn younger_pages_of_other_files_are_written() {
    for whole in [false, true] {
        let (rig, lsn) = many_unopened();
        for round in 1..4 {
            change(&rig, OTHER, round);
            if whole {
                assert!(matches!(rig.pool.flush_all(), Err(Error::Io(_))));
                assert_eq!(rig.in_place(UNLOGGED)[64], 1);
            } else {
                assert_eq!(rig.pool.flush_step(1).unwrap(), 1);
            }
            assert_eq!(rig.in_place(OTHER)[64], round);
            assert_eq!(rig.pool.checkpoint_lsn(), lsn);
        }
        assert_eq!(rig.pool.take_unopened_news().len(), 1);
        rig.disk.refuse(None);
        rig.pool.flush_all().unwrap();
        assert_eq!(rig.in_place(PageId::new(LOGGED.file, 6))[64], 1);
        assert_eq!(rig.pool.checkpoint_lsn(), rig.pool.redo().lsn());
    }
}

#[test]
fn no_checkpoint_passes_pages_that_are_set_aside() {
    let (rig, lsn) = many_unopened();
    let mut aside = Aside::new(&rig.pool);
    let mut buffer = vec![0; 8 * PAGE_SIZE];
    let (flight, candidates) = rig.pool.begin_flight(&[], 4, Lsn::MAX, false);
    let taken = rig.pool.claim(candidates, &mut buffer, &aside);
    assert_eq!((taken.unopened.len(), taken.claimed.len()), (4, 0));
    aside.add_pages(&taken.unopened);
    rig.pool.dirty.end_flight(flight);
    assert_eq!(rig.pool.checkpoint_lsn(), lsn);
    let (flight, rest) = rig.pool.begin_flight(&[], 4, Lsn::MAX, false);
    assert!(rest[0].popped > taken.unopened[3].popped, "younger ones");
    rig.pool.dirty.put_back(&rig.pool.frames, &rest);
    rig.pool.dirty.end_flight(flight);
    assert_eq!(rig.pool.checkpoint_lsn(), lsn);
    drop(aside);
    assert_eq!(rig.pool.checkpoint_lsn(), lsn);
    rig.disk.refuse(None);
    rig.pool.flush_all().unwrap();
    assert_eq!(rig.pool.checkpoint_lsn(), rig.pool.redo().lsn());
}

/// Each took the other's place as what was told last, and both were told for ever.
#[test]
fn two_files_that_cannot_be_opened_are_each_told_once() {
    let (rig, _) = unopened();
    let why = |name: &str| Error::io(format!("cannot open {name}"));
    for _ in 0..10 {
        for name in ["a", "b"] {
            rig.pool.note_unopened(&[], &why(name)).unwrap();
        }
    }
    let told = rig.pool.take_unopened_news();
    assert!(
        told.len() == 2 && told[0].contains("open a;") && told[1].contains("open b;"),
        "{told:?}"
    );
}

#[test]
fn a_log_that_is_full_waits_no_longer_for_a_file() {
    let (rig, lsn) = unopened();
    rig.pool.redo().set_capacity(1 << 20).unwrap();
    let room = rig.pool.redo().capacity() / 8 * 7;
    while rig.pool.flush_step(10).is_ok() {
        rig.checkpoint();
        assert!(rig.pool.redo().lsn() - lsn < room + (64 << 10), "writers wait");
        let mut mtr = rig.pool.begin();
        let page = mtr.create(OTHER, 0, PageType::System, 0).unwrap();
        mtr.edit(page, 64, &[7; 8000]);
        mtr.commit();
    }
    assert!(rig.pool.redo().lsn() - lsn > room, "there was room");
    let Err(Error::Poisoned(why)) = rig.pool.check_alive() else {
        panic!("nobody knows why")
    };
    assert!(why.contains("00000010.slu"), "{why}");
}

/// A batch keeps the files open that it writes to. Those behind them could not be opened, and a shutdown gave up.
#[test]
fn all_is_written_with_few_descriptors() {
    let rig = PoolFixture::create(7, 64);
    for n in 0..8 {
        rig.add_file(FILE + n, 4, true);
    }
    for n in 0..8 {
        change(&rig, PageId::new(FILE + n, 1), 1);
    }
    assert!(rig.pool.flusher.batch_max >= 8);
    let redo = rig.pool.redo();
    redo.flush(redo.lsn(), FlushMode::Sync).unwrap();
    rig.disk.set_handles(Some(rig.disk.handles() + 2));
    rig.pool.flush_all().unwrap();
    assert!(rig.disk.struck() > 0);
    assert_eq!(rig.pool.checkpoint_lsn(), rig.pool.redo().lsn());
}
