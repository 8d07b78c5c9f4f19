//! What a mini-transaction promises: edits are seen, logged, recovered; nothing half done survives.
use crate::base::{Error, PageId};
use crate::io::sim::Fault;
use crate::pool::page::{page_index, page_level, page_lsn, page_type};
use crate::pool::testing::fixture::{PoolFixture, FILE};
use crate::pool::{PageType, PAGE_BODY, PAGE_SIZE};
use crate::redo::FlushMode;

const P1: PageId = PageId::new(FILE, 1);
const P2: PageId = PageId::new(FILE, 2);

fn rig() -> PoolFixture {
    let rig = PoolFixture::create(7, 32);
    rig.add_file(FILE, 100, true);
    rig
}

fn crash(rig: PoolFixture, lsn: u64) -> PoolFixture {
    rig.pool.redo().flush(lsn, FlushMode::Sync).unwrap();
    let disk = rig.disk.crash(3);
    drop(rig);
    PoolFixture::recover(disk, 32, &mut |_, _| {})
}

#[test]
fn edits_are_seen_at_once_and_survive_a_crash() {
    let rig = rig();
    let mut mtr = rig.pool.begin();
    let a = mtr.create(P1, 9, PageType::Tree, 2).unwrap();
    let b = mtr.create(P2, 9, PageType::Tree, 0).unwrap();
    mtr.edit(a, 100, b"hello");
    mtr.edit_u32(b, 200, 77);
    mtr.move_within(a, 102, 100, 5);
    mtr.edit(a, PAGE_SIZE - 3, b"end");
    assert_eq!(&mtr.bytes(a)[100..107], b"hehello");
    let end = mtr.commit();
    assert!(end > 0);
    let check = |rig: &PoolFixture| {
        let page = rig.pool.read(P1).unwrap();
        assert_eq!(
            (page_index(&page), page_type(&page), page_level(&page)),
            (9, PageType::Tree as u8, 2)
        );
        assert_eq!(&page[100..107], b"hehello");
        assert_eq!(&page[PAGE_SIZE - 3..], b"end");
        assert_eq!((page.id(), page.version()), (P1, end));
        assert_eq!(rig.pool.read(P2).unwrap()[200], 77);
    };
    check(&rig);
    let rig = crash(rig, end);
    check(&rig);
}

#[test]
fn rewrite_keeps_the_header_and_recovers_the_hole() {
    let rig = rig();
    let mut mtr = rig.pool.begin();
    let a = mtr.create(P1, 9, PageType::Tree, 0).unwrap();
    mtr.edit(a, 5000 % PAGE_SIZE, b"old");
    mtr.commit();
    let mut mtr = rig.pool.begin();
    let a = mtr.write(P1).unwrap();
    mtr.rewrite(a, &mut |page| {
        page[0..24].fill(0xff);
        page[PAGE_BODY..].fill(0);
        page[PAGE_BODY] = 1;
        page[PAGE_SIZE - 1] = 2;
        (PAGE_BODY + 1, PAGE_SIZE - 1)
    });
    let end = mtr.commit();
    let rig = crash(rig, end);
    let page = rig.pool.read(P1).unwrap();
    assert_eq!((page[PAGE_BODY], page[PAGE_SIZE - 1], page_index(&page)), (1, 2, 9));
    assert!(page[PAGE_BODY + 1..PAGE_SIZE - 1].iter().all(|b| *b == 0));
}

#[test]
fn nothing_changed_nothing_logged() {
    let rig = rig();
    let mut mtr = rig.pool.begin();
    mtr.create(P1, 0, PageType::System, 0).unwrap();
    mtr.commit();
    let lsn = rig.pool.redo().lsn();
    let mut mtr = rig.pool.begin();
    let a = mtr.write(P1).unwrap();
    assert_eq!(mtr.write(P1).unwrap(), a, "the same page is the same handle");
    mtr.edit(a, 100, &[0; 8]);
    assert!(!mtr.has_changes() && !mtr.is_changed(a));
    assert_eq!(mtr.commit(), 0);
    drop(rig.pool.begin());
    assert_eq!(rig.pool.redo().lsn(), lsn);
    rig.pool.check_alive().unwrap();
}

#[test]
fn a_released_page_is_free_for_others() {
    let rig = rig();
    let mut mtr = rig.pool.begin();
    mtr.create(P1, 0, PageType::System, 0).unwrap();
    mtr.commit();
    let mut mtr = rig.pool.begin();
    let a = mtr.write(P1).unwrap();
    let mut other = rig.pool.begin();
    assert_eq!(other.try_write(P1).unwrap(), None);
    mtr.release(a);
    assert_eq!(mtr.find(P1), None);
    assert!(other.try_write(P1).unwrap().is_some());
}

#[test]
fn an_abandoned_change_poisons_the_pool() {
    let rig = rig();
    let mut mtr = rig.pool.begin();
    mtr.create(P1, 0, PageType::System, 0).unwrap();
    drop(mtr);
    assert!(matches!(rig.pool.check_alive(), Err(Error::Poisoned(_))));
    assert!(matches!(rig.pool.begin().write(P2), Err(Error::Poisoned(_))));
    assert!(matches!(rig.pool.read(P2), Err(Error::Poisoned(_))));
    assert!(matches!(rig.pool.flush_step(10), Err(Error::Poisoned(_))));
}

#[test]
fn a_reserved_page_leaves_no_trace() {
    let rig = rig();
    let mut mtr = rig.pool.begin();
    mtr.reserve(P1).unwrap();
    drop(mtr);
    assert!(!rig.pool.is_resident(P1));
    let mut mtr = rig.pool.begin();
    let a = mtr.reserve(P1).unwrap();
    assert_eq!(mtr.create(P1, 0, PageType::System, 0).unwrap(), a);
    mtr.commit();
    assert!(rig.pool.is_resident(P1));
}

#[test]
fn unlogged_pages_count_versions_and_log_nothing() {
    let rig = rig();
    rig.add_file(FILE + 1, 10, false);
    let id = PageId::new(FILE + 1, 3);
    let lsn = rig.pool.redo().lsn();
    let mut versions = Vec::new();
    for i in 0..4u64 {
        let mut mtr = rig.pool.begin();
        let a = mtr.create(id, 0, PageType::System, 0).unwrap();
        mtr.edit_u64(a, 64, i);
        assert_eq!(mtr.commit(), 0);
        versions.push(rig.pool.read(id).unwrap().version());
    }
    assert!(
        versions.windows(2).all(|w| w[0] < w[1]),
        "also a page made anew has a new version: {versions:?}"
    );
    assert_eq!(rig.pool.redo().lsn(), lsn);
    assert_eq!(rig.pool.checkpoint_lsn(), lsn, "unlogged pages hold no checkpoint back");
    rig.pool.flush_file(FILE + 1).unwrap();
    assert_eq!(rig.in_place(id)[64], 3);
}

#[test]
fn unreadable_pages_are_named_and_not_kept() {
    let rig = rig();
    for _ in 0..2 {
        let error = rig.pool.read(P1).err().unwrap();
        let Error::Corrupt(text) = error else { panic!("{error}") };
        assert!(text.contains("00000010.slu") && text.contains("page 1"), "{text}");
    }
    assert!(!rig.pool.is_resident(P1));
    let mut mtr = rig.pool.begin();
    let a = mtr.create(P1, 5, PageType::Tree, 0).unwrap();
    mtr.edit(a, 64, b"x");
    mtr.commit();
    rig.pool.flush_all().unwrap();
    rig.pool.discard_file(FILE);
    rig.pool.read(P1).unwrap();
    rig.pool.discard_file(FILE);
    rig.disk
        .flip("00000010.slu", PAGE_SIZE as u64 + 9000 % PAGE_SIZE as u64, 4);
    let error = rig.pool.read(P1).err().unwrap().to_string();
    assert!(error.contains("checksum") && error.contains("index 5"), "{error}");
    rig.pool.check_alive().unwrap();
}

#[test]
fn a_page_in_the_wrong_place_is_refused() {
    let rig = rig();
    let mut mtr = rig.pool.begin();
    mtr.create(P1, 5, PageType::Tree, 0).unwrap();
    mtr.commit();
    rig.pool.flush_all().unwrap();
    let file = rig.pool.files().get(FILE).unwrap().file;
    let copy = crate::io::AlignedBuf::from_slice(&rig.in_place(P1));
    file.write_at(&copy, 2 * PAGE_SIZE as u64).unwrap();
    let error = rig.pool.read(P2).err().unwrap().to_string();
    assert!(error.contains("the page says it is file 16 page 1"), "{error}");
}

#[test]
fn a_failed_write_poisons() {
    let rig = rig();
    let mut mtr = rig.pool.begin();
    mtr.create(P1, 0, PageType::System, 0).unwrap();
    let end = mtr.commit();
    let bound = rig.pool.checkpoint_lsn();
    rig.pool.redo().flush(end, FlushMode::Sync).unwrap();
    // An image of the page is in the log, so it has no doublewrite copy: its own write, and then its sync, may fail.
    rig.disk.fail_change(rig.disk.changes() + 2, Fault::Eio);
    assert!(rig.pool.flush_all().is_err());
    assert!(matches!(rig.pool.check_alive(), Err(Error::Poisoned(_))));
    let changes = rig.disk.changes();
    assert!(rig.pool.flush_all().is_err());
    assert_eq!(rig.disk.changes(), changes, "I6: nothing more is written");
    assert_eq!(
        rig.pool.checkpoint_lsn(),
        bound,
        "no checkpoint passes the failed write"
    );
}

/// A page made since it was last clean is written once: an image of it is in the log, so it may be torn. So is one that was only written to
/// since; not one of which a part was moved.
#[test]
fn the_first_flush_of_a_new_page_needs_no_doublewrite() {
    let rig = rig();
    let mut mtr = rig.pool.begin();
    mtr.create(P1, 0, PageType::System, 0).unwrap();
    mtr.commit();
    rig.pool.flush_all().unwrap();
    let copies = || rig.pool.counters().dblwr_pages_written.get();
    assert_eq!(copies(), 0);
    let mut mtr = rig.pool.begin();
    let page = mtr.write(P1).unwrap();
    mtr.edit(page, 100, b"changed");
    mtr.commit();
    rig.pool.flush_all().unwrap();
    assert_eq!(copies(), 0);
    let mut mtr = rig.pool.begin();
    let page = mtr.write(P1).unwrap();
    mtr.move_within(page, 200, 100, 7);
    mtr.edit(page, 100, b"CHANGED");
    mtr.commit();
    rig.pool.flush_all().unwrap();
    assert_eq!(copies(), 1);
}

#[test]
fn page_lsn_is_the_groups_end_on_every_page() {
    let rig = rig();
    let mut mtr = rig.pool.begin();
    mtr.create(P1, 0, PageType::System, 0).unwrap();
    mtr.create(P2, 0, PageType::System, 0).unwrap();
    let end = mtr.commit();
    rig.pool.flush_all().unwrap();
    assert_eq!(page_lsn(&rig.in_place(P1)), end);
    assert_eq!(page_lsn(&rig.in_place(P2)), end);
    assert_eq!(rig.pool.checkpoint_lsn(), rig.pool.redo().lsn());
}
