//! Lists written by one pool and read by the next.
use super::dump::dump;
use super::load::PageListLoad;
use crate::base::{Error, PageId};
use crate::io::{Caching, Disk, Mode};
use crate::pool::testing::PoolFixture;
use crate::pool::PageType;

/// A file of users' tables.
const FILE: u32 = crate::base::ids::FIRST_TABLE_FILE;
const NAME: &str = "buffer_pool";

fn id(no: u32) -> PageId {
    PageId::new(FILE, no)
}
fn filled(frames: usize, pages: u32) -> PoolFixture {
    let fixture = PoolFixture::create(5, frames);
    fixture.add_file(FILE, pages, true);
    for no in 0..pages {
        let mut mtr = fixture.pool.begin();
        let page = mtr.create(id(no), 0, PageType::System, 0);
        mtr.edit_u32(page.expect("there are frames"), 64, no);
        mtr.commit();
    }
    fixture.pool.flush_all().expect("the disk works");
    fixture.pool.set_database(7);
    fixture
}
/// The pool of a later start.
fn again(fixture: PoolFixture, frames: usize) -> PoolFixture {
    fixture.checkpoint();
    let disk = fixture.disk.clone();
    drop(fixture);
    let fixture = PoolFixture::recover(disk, frames, &mut |_, _| {});
    fixture.pool.set_database(7);
    fixture
}
fn load(fixture: &PoolFixture) -> PageListLoad {
    let mut load = PageListLoad::begin(&fixture.pool, NAME).expect("there is a list");
    while load.step(&fixture.pool).expect("the disk works") {}
    load
}

#[test]
fn what_was_in_the_pool_is_there_again() {
    let fixture = filled(256, 200);
    assert_eq!(dump(&fixture.pool, NAME, 100), Ok(200));
    let fixture = again(fixture, 256);
    let done = load(&fixture);
    assert_eq!(
        (done.listed, done.tried, done.read, done.is_full),
        (200, 200, 200, false)
    );
    assert!((0..200).all(|no| fixture.pool.is_resident(id(no))));
    (0..200).for_each(|no| assert_eq!(fixture.pool.read(id(no)).unwrap()[64], no as u8));
    assert_eq!(fixture.pool.counters().buffer_pool_reads.get(), 0);
}

#[test]
fn a_part_of_the_list_is_the_hottest_part() {
    let fixture = filled(256, 200);
    for _ in 0..3 {
        (50..100).for_each(|no| drop(fixture.pool.read(id(no)).unwrap()));
    }
    assert_eq!(dump(&fixture.pool, NAME, 25), Ok(50));
    let fixture = again(fixture, 256);
    assert_eq!(load(&fixture).read, 50);
    assert!((50..100).all(|no| fixture.pool.is_resident(id(no))));
}

/// A load evicts nothing, skips what does not exist any more, and leaves a damaged page to the
/// thread that needs it.
#[test]
fn a_load_takes_free_frames_only_and_skips_what_it_cannot_read() {
    let fixture = filled(512, 400);
    dump(&fixture.pool, NAME, 100).unwrap();
    let fixture = again(fixture, 128);
    let done = load(&fixture);
    assert!(done.is_full && done.read > 0 && done.read < 128, "{}", done.read);
    assert_eq!(fixture.pool.counters().buffer_pool_pages_evicted.get(), 0);

    let fixture = again(fixture, 512);
    let file = fixture
        .disk
        .open(&format!("{FILE:08x}.slu"), Mode::Open, Caching::Direct)
        .unwrap();
    file.set_len(300 * crate::pool::PAGE_SIZE as u64).unwrap();
    assert_eq!(load(&fixture).read, 300);
    fixture.pool.files().remove(FILE);
    fixture.pool.discard_file(FILE);
    assert_eq!(load(&fixture).read, 0);
}

#[test]
fn a_list_of_another_database_or_a_damaged_one_is_refused_by_name() {
    let fixture = filled(64, 20);
    dump(&fixture.pool, NAME, 100).unwrap();
    let refusal = |fixture: &PoolFixture| match PageListLoad::begin(&fixture.pool, NAME).err() {
        Some(Error::Invalid(why)) => why,
        other => panic!("{other:?}"),
    };
    fixture.pool.set_database(8);
    assert!(refusal(&fixture).contains("of another database"));
    fixture.pool.set_database(7);
    let file = fixture.disk.open(NAME, Mode::Open, Caching::Buffered).unwrap();
    file.write_at(b"x", file.len().unwrap() - 2).unwrap();
    assert!(refusal(&fixture).contains("checksum"));
    // A new dump replaces it.
    dump(&fixture.pool, NAME, 100).unwrap();
    assert_eq!(load(&fixture).listed, 20);
}

/// Rows that are loaded past the pool must not meet old copies of their pages.
#[test]
fn pages_of_a_file_that_is_being_loaded_are_left_alone() {
    let fixture = filled(64, 20);
    dump(&fixture.pool, NAME, 100).unwrap();
    fixture.pool.evict_clean();
    fixture.pool.loads().begin(FILE);
    assert_eq!(load(&fixture).read, 0);
    fixture.pool.loads().end(FILE);
    assert_eq!(load(&fixture).read, 20);
}
