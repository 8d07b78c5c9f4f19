//! A page torn in place is restored from its doublewrite copy, and a page is never replaced by an
//! old self.
use crate::base::PageId;
use crate::io::sim::Damage;
use crate::io::{Disk, SimDisk};
use crate::pool::testing::{PoolFixture, FILE};
use crate::pool::{PageType, PAGE_SIZE};
use crate::redo::FlushMode;
use std::sync::Arc;

const P1: PageId = PageId::new(FILE, 1);
const NAME: &str = "00000010.slu";

fn set(fixture: &PoolFixture, value: u64) -> u64 {
    let mut mtr = fixture.pool.begin();
    let a = match fixture.pool.is_resident(P1) {
        true => mtr.write(P1).unwrap(),
        false => mtr.create(P1, 0, PageType::System, 0).unwrap(),
    };
    mtr.edit_u64(a, 9000 % PAGE_SIZE, value);
    mtr.commit()
}

fn restored(disk: &Arc<SimDisk>) -> PoolFixture {
    PoolFixture::recover(disk.clone(), 32, &mut |_, _| {})
}

fn torn_fixture() -> PoolFixture {
    let fixture = PoolFixture::create(1, 32);
    fixture.add_file(FILE, 10, true);
    set(&fixture, 1);
    fixture.pool.flush_all().unwrap();
    fixture
}

#[test]
fn a_torn_page_comes_back() {
    let fixture = torn_fixture();
    fixture.checkpoint();
    set(&fixture, 2);
    fixture.pool.flush_all().unwrap();
    let disk = fixture.disk.crash(1);
    drop(fixture);
    // As if half of the last write had not arrived. Redo alone has only an edit for it, and no
    // image.
    disk.flip(NAME, PAGE_SIZE as u64 + 9000 % PAGE_SIZE as u64, 0xff);
    let fixture = restored(&disk);
    assert_eq!(fixture.pool.read(P1).unwrap()[9000 % PAGE_SIZE], 2);
}

#[test]
fn a_copy_from_before_the_checkpoint_is_not_put_back() {
    let fixture = torn_fixture();
    set(&fixture, 2);
    // The copy in the doublewrite file is of value 1; value 2 goes to its place without one.
    fixture.pool.flusher().set_doublewrite(false).unwrap();
    fixture.pool.flush_all().unwrap();
    fixture.checkpoint();
    fixture.sync_log();
    let disk = fixture.disk.crash(1);
    drop(fixture);
    disk.flip(NAME, PAGE_SIZE as u64 + 9000 % PAGE_SIZE as u64, 0xff);
    let fixture = restored(&disk);
    let error = fixture
        .pool
        .read(P1)
        .err()
        .expect("broken, rather than silently old")
        .to_string();
    assert!(error.contains("checksum"), "{error}");
}

/// A copy from before the page was given to a load came back over a torn page of the load. The log
/// has nothing of that old version any more.
#[test]
fn a_copy_from_before_a_load_is_not_put_back() {
    let fixture = torn_fixture();
    fixture.checkpoint();
    set(&fixture, 2);
    fixture.pool.flush_all().unwrap();
    let first = PageId::new(FILE, 0);
    let mut mtr = fixture.pool.begin();
    mtr.log_given(first, 10);
    let lsn = mtr.commit();
    fixture.pool.redo().flush(lsn, FlushMode::Sync).unwrap();
    let disk = fixture.disk.crash(1);
    drop(fixture);
    disk.flip(NAME, PAGE_SIZE as u64 + 9000 % PAGE_SIZE as u64, 0xff);
    let fixture = restored(&disk);
    assert!(fixture.pool.read(P1).is_err());
}

/// The log has an image of the page, so its flush needs no doublewrite. Recovery met an edit before
/// the image in the same group, could not read the torn page, and passed over the image, too.
#[test]
fn a_page_edited_and_rewritten_in_one_group_may_be_torn() {
    let fixture = torn_fixture();
    fixture.checkpoint();
    let at = 9000 % PAGE_SIZE;
    let mut mtr = fixture.pool.begin();
    let page = mtr.write(P1).unwrap();
    mtr.edit_u64(page, at, 2);
    mtr.rewrite(page, &mut |bytes| {
        bytes[100] = 7;
        (PAGE_SIZE, PAGE_SIZE)
    });
    mtr.edit_u64(page, at, 3);
    mtr.commit();
    let copies = fixture.pool.counters().dblwr_pages_written.get();
    fixture.pool.flush_all().unwrap();
    assert_eq!(fixture.pool.counters().dblwr_pages_written.get(), copies);
    let disk = fixture.disk.crash(1);
    drop(fixture);
    disk.flip(NAME, (PAGE_SIZE + at) as u64, 0xff);
    let fixture = restored(&disk);
    let page = fixture.pool.read(P1).unwrap();
    assert_eq!((page[100], page[at]), (7, 3));
}

#[test]
fn a_half_made_doublewrite_file_is_made_again() {
    let fixture = torn_fixture();
    let disk = fixture.disk.crash(1);
    drop(fixture);
    let file = disk
        .open("doublewrite", crate::io::Mode::Open, crate::io::Caching::Direct)
        .unwrap();
    file.set_len(4096).unwrap();
    file.sync().unwrap();
    let fixture = restored(&disk);
    set(&fixture, 7);
    fixture.pool.flush_all().unwrap();
}

/// Seeds 919 and 931 of the simulation: a write of a catalog page was reported done, and lost. The
/// old page passed every check, the next start found no tables in it, and removed their files.
#[test]
fn a_page_of_the_past_is_refused() {
    for before_restart in [true, false] {
        let fixture = torn_fixture();
        fixture.checkpoint();
        set(&fixture, 2);
        fixture.disk.damage_write(fixture.disk.changes() + 5, Damage::Lost);
        fixture.pool.flush_all().unwrap();
        assert_eq!(fixture.disk.struck(), 1, "log, its sync, copy, its sync, the page");
        fixture.checkpoint();
        let fixture = if before_restart {
            fixture.pool.discard_file(FILE);
            fixture
        } else {
            let disk = fixture.disk.crash(1);
            drop(fixture);
            restored(&disk)
        };
        let error = fixture.pool.read(P1).err().expect("refused").to_string();
        assert!(error.contains("page 1") && error.contains("lost a write"), "{error}");
        assert!(error.contains(NAME), "{error}");
    }
}
