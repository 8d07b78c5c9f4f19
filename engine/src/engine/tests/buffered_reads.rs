//! What readers pay for changes that have just come through the change buffer, and what reduces it.
//! A leaf that is read again and again, or that gets many changes, is merged.
use super::change_buffer::*;
use super::fixture::*;
use crate::base::PageId;
use crate::btree::Seek;
use crate::change::DENSE_READS_PER_MERGE;
use crate::io::sim::SimDisk;
use crate::table::{LockChoice, Rounds};
use crate::txn::Isolation::{ReadCommitted, RepeatableRead};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn row_of(n: u32) -> Row {
    Row {
        group: (n % 200) as u8,
        shade: (n % 3) as u8,
        tag: Some(n as u16),
        body: vec![1; 50],
    }
}
fn insert(fixture: &TableFixture, model: &mut Model, keys: impl Iterator<Item = u32>) {
    let mut trx = fixture.begin(ReadCommitted);
    for n in keys {
        fixture.insert(&mut trx, &pk(n), &row_of(n)).expect("inserted");
        model.insert(pk(n), row_of(n));
    }
    commit(fixture, trx);
}
/// The tags of so many entries from this one on.
fn read_tags(fixture: &TableFixture, from: u16, entries: usize) -> Vec<u16> {
    let mut trx = fixture.begin(RepeatableRead);
    let mut cursor = fixture.store().cursor(fixture.table.clone());
    let lock = LockChoice::default();
    cursor.begin(&mut trx, BY_TAG, lock, true).expect("begun");
    let key = [&[1][..], &from.to_be_bytes()].concat();
    let mut more = cursor.seek(&mut trx, Seek::Ge, &key).expect("sought");
    let mut tags = Vec::new();
    while more && tags.len() < entries {
        let found = cursor.found().expect("handed out");
        tags.push(u16::from_be_bytes([found.key[1], found.key[2]]));
        more = cursor.next(&mut trx).expect("moved");
    }
    drop(cursor);
    commit(fixture, trx);
    tags
}
fn pending_by_tag(fixture: &TableFixture) -> u64 {
    fixture.table.layout().secondary[1]
        .index
        .delta
        .as_ref()
        .expect("buffered")
        .entries()
}

/// Every page of the clustered index.
fn row_pages(fixture: &TableFixture) -> Vec<PageId> {
    let tree = fixture.table.layout().index(0).expect("clustered").tree;
    let pages = tree
        .verify(&fixture.store().pool, &mut |_, _| None)
        .expect("read")
        .pages;
    pages.into_iter().map(|no| PageId::new(tree.file, no)).collect()
}

/// A visit would bring a page of the clustered index into the pool, where none is.
#[test]
fn covering_range_reads_right_after_a_buffered_load_visit_no_row() {
    for merged in [false, true] {
        let fixture = TableFixture::create(SimDisk::new(1));
        buffer(&fixture, true);
        let mut model = Model::new();
        for part in 0..3 {
            insert(&fixture, &mut model, part * 1000..part * 1000 + 1000);
            if part == 1 {
                fixture.store().merge_scheduler().drain_changes().expect("drain");
            }
        }
        assert_eq!(pending(&fixture), 2000);
        if merged {
            drain(&fixture);
        }
        let pages = row_pages(&fixture);
        let pool = &fixture.store().pool;
        let visited = || pages.iter().filter(|id| pool.is_resident(**id)).count();
        pool.flush_all().expect("flushed");
        pool.evict_clean();
        assert_eq!(visited(), 0);
        for isolation in [ReadCommitted, RepeatableRead] {
            for index in [BY_GROUP, BY_TAG] {
                for backward in [false, true] {
                    let mut trx = fixture.begin(isolation);
                    let found = fixture.scan(&mut trx, index, backward, true, None).expect("scan");
                    assert_eq!(found.len(), 3000);
                    assert!(found.iter().all(|found| found.covering));
                    commit(&fixture, trx);
                }
            }
        }
        assert_eq!(read_tags(&fixture, 1500, 800), (1500..2300).collect::<Vec<u16>>());
        assert_eq!(visited(), 0, "merged {merged}");
        // An entry that is not for everybody to see is worth a visit.
        let mut other = fixture.begin(ReadCommitted);
        fixture.insert(&mut other, &pk(5000), &row_of(5000)).expect("inserted");
        pool.flush_all().expect("flushed");
        pool.evict_clean();
        assert_eq!(visited(), 0);
        read_tags(&fixture, 2990, 20);
        assert!(visited() > 0, "merged {merged}");
        fixture.engine.rollback(&mut other).expect("rolled back");
        check_now(&fixture, &model, "after all");
    }
}

/// Many leaves, nothing pending; then something for two of them: 40 entries from tag 101 on, and 40
/// from tag 9001 on.
fn two_leaves() -> (TableFixture, Model) {
    two_leaves_on(SimDisk::new(1))
}
fn two_leaves_on(disk: Arc<SimDisk>) -> (TableFixture, Model) {
    let fixture = TableFixture::create(disk);
    let mut model = Model::new();
    buffer(&fixture, false);
    insert(&fixture, &mut model, (0..12_000).step_by(2));
    buffer(&fixture, true);
    for first in [101, 9001] {
        insert(&fixture, &mut model, (first..first + 80).step_by(2));
    }
    assert_eq!(pending_by_tag(&fixture), 80);
    (fixture, model)
}

/// Hot for its readers: one in so many of them merges it, and leaves the other leaf alone.
#[test]
fn a_leaf_that_is_read_again_and_again_is_merged() {
    let (fixture, model) = two_leaves();
    let reads = DENSE_READS_PER_MERGE as u16;
    for n in 0..reads {
        assert_eq!(pending_by_tag(&fixture), 80, "after {n} reads");
        assert_eq!(
            read_tags(&fixture, 110 + n, 5),
            (110 + n..115 + n).collect::<Vec<u16>>()
        );
    }
    assert_eq!(pending_by_tag(&fixture), 40);
    for n in 0..reads {
        read_tags(&fixture, 110 + n, 5);
    }
    assert_eq!(pending_by_tag(&fixture), 40, "nothing is pending there any more");
    check_now(&fixture, &model, "after all");
}

/// Hot for its writers: however busy the engine is, a leaf that takes so much is worth its write.
#[test]
fn a_leaf_that_gets_much_is_merged() {
    let (fixture, mut model) = two_leaves();
    // So it is known how much a leaf takes.
    drain(&fixture);
    for first in [181, 9081] {
        insert(&fixture, &mut model, (first..first + 80).step_by(2));
    }
    let mut rounds = Rounds::default();
    let mut busy_round = |model: &mut Model, n: u32| {
        insert(&fixture, model, 20_000 + n * 2..20_002 + n * 2);
        fixture
            .store()
            .merge_scheduler()
            .merge_round(&mut rounds)
            .expect("round");
    };
    for n in 0..20 {
        busy_round(&mut model, n);
    }
    assert_eq!(pending_by_tag(&fixture), 120, "not worth it");
    insert(&fixture, &mut model, (301..901).step_by(2));
    for n in 20..23 {
        busy_round(&mut model, n);
    }
    assert!(
        pending_by_tag(&fixture) < 120,
        "{} entries are left",
        pending_by_tag(&fixture)
    );
    check_now(&fixture, &model, "after all");
}

/// Readers pay for what is pending, and few new changes would share the write: readers keep the
/// engine busy.
#[test]
fn what_a_load_left_is_merged_while_others_read() {
    for (load, writes, merges) in [(0, 0, true), (0, 10, false), (3, 0, true)] {
        let disk = SimDisk::new(1);
        let (fixture, mut model) = two_leaves_on(disk.clone());
        drain(&fixture);
        for first in [181, 9081] {
            insert(&fixture, &mut model, (first..first + 80).step_by(2));
        }
        let (mut rounds, mut first) = (Rounds::default(), 20_000);
        let mut tenths = |n: u32, writes| {
            for _ in 0..n {
                disk.advance_us(100_000);
                fixture.store().counters.rows_read.add(100_000);
                insert(&fixture, &mut model, first..first + writes);
                first += writes;
                fixture
                    .store()
                    .merge_scheduler()
                    .merge_round(&mut rounds)
                    .expect("round");
            }
        };
        tenths(6, load);
        let before = pending_by_tag(&fixture);
        assert!(before >= 80, "what comes is not known yet");
        tenths(40, writes);
        let after = pending_by_tag(&fixture);
        assert_eq!(
            after < before,
            merges,
            "{before} were pending, now {after}: {load}, then {writes}"
        );
        check_now(&fixture, &model, "after all");
    }
}

/// The mode that the whole suite is run in: a worker merges, though the engine is busy and there is
/// no reason to.
#[test]
fn in_the_test_mode_merges_come_at_random_moments() {
    let fixture = TableFixture::create(SimDisk::new(1));
    fixture.engine.start_background();
    buffer(&fixture, true);
    let mut trx = fixture.begin(ReadCommitted);
    let mut n = 0;
    let mut insert = |milliseconds: u64, until_merged: bool| {
        let begun = Instant::now();
        let merged = || fixture.engine.counters().change_buffer_merged_entries.get();
        while begun.elapsed() < Duration::from_millis(milliseconds) && !(until_merged && merged() > 0) {
            fixture.insert(&mut trx, &pk(n), &row_of(n)).expect("inserted");
            n += 1;
            std::thread::sleep(Duration::from_millis(1));
        }
        merged()
    };
    let begun = Instant::now();
    let merged = insert(300, false);
    // Or this thread stood still for so long that the engine was idle.
    assert!(
        merged == 0 || begun.elapsed() > Duration::from_millis(900),
        "merged without a reason"
    );
    fixture.engine.set("change_buffer_test_mode", 1).expect("set");
    assert!(insert(20_000, true) > 0);
    commit(&fixture, trx);
    fixture.check_table();
}
