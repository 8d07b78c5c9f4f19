//! What a mini-transaction promises: edits are seen, logged, recovered; nothing half done survives.
use crate::base::{Error, PageId};
use crate::io::sim::Fault;
use crate::pool::page::{page_index, page_level, page_lsn, page_type};
use crate::pool::testing::{PoolFixture, FILE};
use crate::pool::{PageType, PAGE_BODY, PAGE_SIZE};
use crate::redo::FlushMode;

const P1: PageId = PageId::new(FILE, 1);
const P2: PageId = PageId::new(FILE, 2);

fn fixture() -> PoolFixture {
    let fixture = PoolFixture::create(7, 32);
    fixture.add_file(FILE, 100, true);
    fixture
}

fn crash(fixture: PoolFixture, lsn: u64) -> PoolFixture {
    fixture.pool.redo().flush(lsn, FlushMode::Sync).unwrap();
    let disk = fixture.disk.crash(3);
    drop(fixture);
    PoolFixture::recover(disk, 32, &mut |_, _| {})
}

#[test]
fn edits_are_seen_at_once_and_survive_a_crash() {
    let fixture = fixture();
    let mut mtr = fixture.pool.begin();
    let a = mtr.create(P1, 9, PageType::Tree, 2).unwrap();
    let b = mtr.create(P2, 9, PageType::Tree, 0).unwrap();
    mtr.edit(a, 100, b"hello");
    mtr.edit_u32(b, 200, 77);
    mtr.move_within(a, 102, 100, 5);
    mtr.edit(a, PAGE_SIZE - 3, b"end");
    assert_eq!(&mtr.bytes(a)[100..107], b"hehello");
    let end = mtr.commit();
    assert!(end > 0);
    let check = |fixture: &PoolFixture| {
        let page = fixture.pool.read(P1).unwrap();
        assert_eq!(
            (page_index(&page), page_type(&page), page_level(&page)),
            (9, PageType::Tree as u8, 2)
        );
        assert_eq!(&page[100..107], b"hehello");
        assert_eq!(&page[PAGE_SIZE - 3..], b"end");
        assert_eq!((page.id(), page.version()), (P1, end));
        assert_eq!(fixture.pool.read(P2).unwrap()[200], 77);
    };
    check(&fixture);
    let fixture = crash(fixture, end);
    check(&fixture);
}

#[test]
fn rewrite_keeps_the_header_and_recovers_the_hole() {
    let fixture = fixture();
    let mut mtr = fixture.pool.begin();
    let a = mtr.create(P1, 9, PageType::Tree, 0).unwrap();
    mtr.edit(a, 5000 % PAGE_SIZE, b"old");
    mtr.commit();
    let mut mtr = fixture.pool.begin();
    let a = mtr.write(P1).unwrap();
    mtr.rewrite(a, &mut |page| {
        page[0..24].fill(0xff);
        page[PAGE_BODY..].fill(0);
        page[PAGE_BODY] = 1;
        page[PAGE_SIZE - 1] = 2;
        (PAGE_BODY + 1, PAGE_SIZE - 1)
    });
    let end = mtr.commit();
    let fixture = crash(fixture, end);
    let page = fixture.pool.read(P1).unwrap();
    assert_eq!((page[PAGE_BODY], page[PAGE_SIZE - 1], page_index(&page)), (1, 2, 9));
    assert!(page[PAGE_BODY + 1..PAGE_SIZE - 1].iter().all(|b| *b == 0));
}

#[test]
fn nothing_changed_nothing_logged() {
    let fixture = fixture();
    let mut mtr = fixture.pool.begin();
    mtr.create(P1, 0, PageType::System, 0).unwrap();
    mtr.commit();
    let lsn = fixture.pool.redo().lsn();
    let mut mtr = fixture.pool.begin();
    let a = mtr.write(P1).unwrap();
    assert_eq!(mtr.write(P1).unwrap(), a, "the same page is the same handle");
    mtr.edit(a, 100, &[0; 8]);
    assert!(!mtr.has_changes() && !mtr.is_changed(a));
    assert_eq!(mtr.commit(), 0);
    drop(fixture.pool.begin());
    assert_eq!(fixture.pool.redo().lsn(), lsn);
    fixture.pool.check_alive().unwrap();
}

#[test]
fn a_released_page_is_free_for_others() {
    let fixture = fixture();
    let mut mtr = fixture.pool.begin();
    mtr.create(P1, 0, PageType::System, 0).unwrap();
    mtr.commit();
    let mut mtr = fixture.pool.begin();
    let a = mtr.write(P1).unwrap();
    let mut other = fixture.pool.begin();
    assert_eq!(other.try_write(P1).unwrap(), None);
    mtr.release(a);
    assert_eq!(mtr.find(P1), None);
    assert!(other.try_write(P1).unwrap().is_some());
}

#[test]
fn an_abandoned_change_poisons_the_pool() {
    let fixture = fixture();
    let mut mtr = fixture.pool.begin();
    mtr.create(P1, 0, PageType::System, 0).unwrap();
    drop(mtr);
    assert!(matches!(fixture.pool.check_alive(), Err(Error::Poisoned(_))));
    assert!(matches!(fixture.pool.begin().write(P2), Err(Error::Poisoned(_))));
    assert!(matches!(fixture.pool.read(P2), Err(Error::Poisoned(_))));
    assert!(matches!(fixture.pool.flusher().step(10), Err(Error::Poisoned(_))));
}

#[test]
fn a_reserved_page_leaves_no_trace() {
    let fixture = fixture();
    let mut mtr = fixture.pool.begin();
    mtr.reserve(P1).unwrap();
    drop(mtr);
    assert!(!fixture.pool.is_resident(P1));
    let mut mtr = fixture.pool.begin();
    let a = mtr.reserve(P1).unwrap();
    assert_eq!(mtr.create(P1, 0, PageType::System, 0).unwrap(), a);
    mtr.commit();
    assert!(fixture.pool.is_resident(P1));
}

#[test]
fn unlogged_pages_count_versions_and_log_nothing() {
    let fixture = fixture();
    fixture.add_file(FILE + 1, 10, false);
    let id = PageId::new(FILE + 1, 3);
    let lsn = fixture.pool.redo().lsn();
    let mut versions = Vec::new();
    for i in 0..4u64 {
        let mut mtr = fixture.pool.begin();
        let a = mtr.create(id, 0, PageType::System, 0).unwrap();
        mtr.edit_u64(a, 64, i);
        assert_eq!(mtr.commit(), 0);
        versions.push(fixture.pool.read(id).unwrap().version());
    }
    assert!(
        versions.windows(2).all(|w| w[0] < w[1]),
        "also a page made anew has a new version: {versions:?}"
    );
    assert_eq!(fixture.pool.redo().lsn(), lsn);
    assert_eq!(
        fixture.pool.checkpoint_lsn(),
        lsn,
        "unlogged pages hold no checkpoint back"
    );
    fixture.pool.flusher().flush_file(FILE + 1).unwrap();
    assert_eq!(fixture.in_place(id)[64], 3);
}

#[test]
fn unreadable_pages_are_named_and_not_kept() {
    let fixture = fixture();
    for _ in 0..2 {
        let error = fixture.pool.read(P1).err().unwrap();
        let Error::Corrupt(text) = error else { panic!("{error}") };
        assert!(text.contains("00000010.slu") && text.contains("page 1"), "{text}");
    }
    assert!(!fixture.pool.is_resident(P1));
    let mut mtr = fixture.pool.begin();
    let a = mtr.create(P1, 5, PageType::Tree, 0).unwrap();
    mtr.edit(a, 64, b"x");
    mtr.commit();
    fixture.pool.flush_all().unwrap();
    fixture.pool.discard_file(FILE);
    fixture.pool.read(P1).unwrap();
    fixture.pool.discard_file(FILE);
    fixture
        .disk
        .flip("00000010.slu", PAGE_SIZE as u64 + 9000 % PAGE_SIZE as u64, 4);
    let error = fixture.pool.read(P1).err().unwrap().to_string();
    assert!(error.contains("checksum") && error.contains("index 5"), "{error}");
    fixture.pool.check_alive().unwrap();
}

#[test]
fn a_page_in_the_wrong_place_is_refused() {
    let fixture = fixture();
    let mut mtr = fixture.pool.begin();
    mtr.create(P1, 5, PageType::Tree, 0).unwrap();
    mtr.commit();
    fixture.pool.flush_all().unwrap();
    let file = fixture.pool.files().get(FILE).unwrap().file;
    let copy = crate::io::AlignedBuf::from_slice(&fixture.in_place(P1));
    file.write_at(&copy, 2 * PAGE_SIZE as u64).unwrap();
    let error = fixture.pool.read(P2).err().unwrap().to_string();
    assert!(error.contains("the page says it is file 16 page 1"), "{error}");
}

#[test]
fn a_failed_write_poisons() {
    let fixture = fixture();
    let mut mtr = fixture.pool.begin();
    mtr.create(P1, 0, PageType::System, 0).unwrap();
    let end = mtr.commit();
    let bound = fixture.pool.checkpoint_lsn();
    fixture.pool.redo().flush(end, FlushMode::Sync).unwrap();
    // An image of the page is in the log, so it has no doublewrite copy: its own write, and then
    // its sync, may fail.
    fixture.disk.fail_change(fixture.disk.changes() + 2, Fault::Eio);
    assert!(fixture.pool.flush_all().is_err());
    assert!(matches!(fixture.pool.check_alive(), Err(Error::Poisoned(_))));
    let changes = fixture.disk.changes();
    assert!(fixture.pool.flush_all().is_err());
    assert_eq!(fixture.disk.changes(), changes, "I6: nothing more is written");
    assert_eq!(
        fixture.pool.checkpoint_lsn(),
        bound,
        "no checkpoint passes the failed write"
    );
}

/// A page made since it was last clean is written once: an image of it is in the log, so it may be
/// torn. So is one that was only written to since; not one of which a part was moved.
#[test]
fn the_first_flush_of_a_new_page_needs_no_doublewrite() {
    let fixture = fixture();
    let mut mtr = fixture.pool.begin();
    mtr.create(P1, 0, PageType::System, 0).unwrap();
    mtr.commit();
    fixture.pool.flush_all().unwrap();
    let copies = || fixture.pool.counters().dblwr_pages_written.get();
    assert_eq!(copies(), 0);
    let mut mtr = fixture.pool.begin();
    let page = mtr.write(P1).unwrap();
    mtr.edit(page, 100, b"changed");
    mtr.commit();
    fixture.pool.flush_all().unwrap();
    assert_eq!(copies(), 0);
    let mut mtr = fixture.pool.begin();
    let page = mtr.write(P1).unwrap();
    mtr.move_within(page, 200, 100, 7);
    mtr.edit(page, 100, b"CHANGED");
    mtr.commit();
    fixture.pool.flush_all().unwrap();
    assert_eq!(copies(), 1);
}

#[test]
fn page_lsn_is_the_groups_end_on_every_page() {
    let fixture = fixture();
    let mut mtr = fixture.pool.begin();
    mtr.create(P1, 0, PageType::System, 0).unwrap();
    mtr.create(P2, 0, PageType::System, 0).unwrap();
    let end = mtr.commit();
    fixture.pool.flush_all().unwrap();
    assert_eq!(page_lsn(&fixture.in_place(P1)), end);
    assert_eq!(page_lsn(&fixture.in_place(P2)), end);
    assert_eq!(fixture.pool.checkpoint_lsn(), fixture.pool.redo().lsn());
}
