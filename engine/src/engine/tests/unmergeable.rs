//! Buffered changes for pages that cannot be read (`table/health/unmergeable.rs`).
//!
//! A sweep ended at the first leaf that it could not merge, and so did the next one. The changes
//! after that leaf stayed pending for ever. New changes came on top of them without a bound, and
//! every statement helped in vain. No log line said so.
use super::change_buffer::buffer;
use super::damage::{count, damage, flip, leaf_of, rebuild_by_group, text};
use super::fixture::*;
use crate::base::ids::FIRST_TABLE_FILE;
use crate::change::{Delta, DELTA_BIT};
use crate::engine::{Close, Engine, LogSink};
use crate::io::SimDisk;
use crate::pool::PAGE_SIZE;
use crate::space::file_name;
use crate::table::Rounds;
use crate::txn::Isolation::ReadCommitted;
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;

const ROWS: u32 = 4000;

fn row(n: u32) -> Row {
    Row {
        group: (n % 7) as u8,
        shade: 0,
        tag: Some(n as u16),
        body: vec![n as u8; 20],
    }
}
fn insert(fixture: &TableFixture, numbers: impl Iterator<Item = u32>) -> u64 {
    let mut trx = fixture.begin(ReadCommitted);
    let mut rows = 0;
    for n in numbers {
        fixture.insert(&mut trx, &pk(n), &row(n)).expect("insert");
        rows += 1;
    }
    fixture.engine.commit(&mut trx, true).expect("commit");
    rows
}

type Logged = Arc<Mutex<Vec<String>>>;

fn open(disk: &Arc<SimDisk>) -> (TableFixture, Logged) {
    let logged = Logged::default();
    let into = logged.clone();
    let log: LogSink = Arc::new(move |level, text: &str| into.lock().push(format!("{level:?}: {text}")));
    let config = crate::engine::Config { log, ..config() };
    let engine = Engine::open_still(disk.clone(), config).expect("opens");
    let table = engine.store().tables().open_table("t").expect("table");
    let fixture = TableFixture { engine, table };
    buffer(&fixture, true);
    (fixture, logged)
}
fn said(logged: &Logged, word: &str) -> Vec<String> {
    let logged = logged.lock();
    logged.iter().filter(|line| line.contains(word)).cloned().collect()
}
fn delta(fixture: &TableFixture, n: usize) -> Arc<Delta> {
    fixture.table.layout().secondary[n].index.delta.clone().expect("delta")
}
/// The table with its rows, nothing pending, closed; and of a leaf of by_group in the middle: its
/// page, its fences.
fn filled() -> (Arc<SimDisk>, u32, Vec<u8>, Vec<u8>) {
    let disk = SimDisk::new(1);
    let fixture = TableFixture::create(disk.clone());
    buffer(&fixture, false);
    insert(&fixture, 0..ROWS);
    let (page, lower, upper) = {
        let index = &fixture.table.layout().secondary[0].index;
        let leaf = index.tree.leaf_owning(&fixture.store().pool, b"g\x03").expect("read");
        let upper = leaf.upper_fence().expect("not the last");
        (leaf.page_no(), leaf.lower_fence().to_vec(), upper.to_vec())
    };
    assert!(!lower.is_empty(), "not the first");
    fixture.engine.close(Close::Slow).expect("close");
    (disk, page, lower, upper)
}
fn break_page(disk: &SimDisk, page: u32) {
    disk.flip(&file_name(FIRST_TABLE_FILE), page as u64 * PAGE_SIZE as u64 + 5000, 4);
}
fn lies_in(n: u32, lower: &[u8], upper: &[u8]) -> bool {
    let key = row(n).group_key(&pk(n));
    &key[..] >= lower && &key[..] < upper
}
/// Inserts those of the rows whose entries of by_group lie in the range. How many.
fn insert_between(fixture: &TableFixture, numbers: Range<u32>, lower: &[u8], upper: &[u8]) -> u64 {
    insert(fixture, numbers.filter(|n| lies_in(*n, lower, upper)))
}

#[test]
fn a_leaf_that_cannot_be_read_keeps_no_other_from_being_merged() {
    let (disk, page, lower, upper) = filled();
    break_page(&disk, page);
    let (fixture, logged) = open(&disk);
    let waiting = insert_between(&fixture, ROWS..ROWS + 500, &lower, &upper);
    let others = insert(&fixture, (ROWS..ROWS + 500).filter(|n| !lies_in(*n, &lower, &upper)));
    assert!(waiting > 0 && others > waiting);
    fixture.engine.set("change_buffer_drain", 1).expect("set");
    let mut rounds = Rounds::default();
    let mut n = 0;
    while fixture.store().merge_scheduler().change_report().draining {
        fixture
            .store()
            .merge_scheduler()
            .merge_round(&mut rounds)
            .expect("round");
        n += 1;
        assert!(n < 100, "the drain does not end");
    }
    assert_eq!(
        delta(&fixture, 0).entries(),
        waiting,
        "all but those of the leaf are merged"
    );
    assert_eq!(delta(&fixture, 1).entries(), 0);
    fixture.store().merge_scheduler().drain_changes().expect("drain");
    let lines = said(&logged, "by_group");
    assert!(lines.len() == 1, "logged once: {lines:?}");
    for word in ["table t", &format!("page {page}"), "REPAIR TABLE"] {
        assert!(lines[0].contains(word), "{word} is missing in: {lines:?}");
    }
    assert_eq!(count(&fixture, &fixture.table, BY_TAG), Ok(ROWS as u64 + 500));
    assert!(text(count(&fixture, &fixture.table, BY_GROUP).unwrap_err()).contains(&format!("page {page}")));
    // The page comes back.
    break_page(&disk, page);
    fixture.store().merge_scheduler().drain_changes().expect("drain");
    assert_eq!(fixture.store().merge_scheduler().change_report().entries, 0);
    fixture.check_table();
}

#[test]
fn what_waits_for_a_broken_leaf_does_not_fill_the_buffer() {
    let (disk, page, lower, upper) = filled();
    break_page(&disk, page);
    let (fixture, logged) = open(&disk);
    fixture.engine.set("change_buffer_max_size", 0).expect("set");
    let mut rounds = Rounds::default();
    let (mut from, mut rows) = (ROWS, ROWS as u64);
    while said(&logged, "quarantined").is_empty() {
        rows += insert_between(&fixture, from..from + 2000, &lower, &upper);
        from += 2000;
        disk.advance_us(11_000_000);
        fixture
            .store()
            .merge_scheduler()
            .merge_round(&mut rounds)
            .expect("round");
        let report = fixture.store().merge_scheduler().change_report();
        assert!(report.bytes < report.bytes_max, "{report:?}");
        assert!(from < 60_000, "the debt is not bounded: {report:?}");
    }
    assert!(
        delta(&fixture, 0).bytes() > fixture.store().change.bytes_max() / 8,
        "not before it is much"
    );
    fixture.store().merge_scheduler().drain_changes().expect("drain");
    let report = fixture.store().merge_scheduler().change_report();
    assert_eq!((report.entries, report.bytes), (0, 0), "what waited is forgotten");
    assert!(text(count(&fixture, &fixture.table, BY_GROUP).unwrap_err()).contains("quarantined"));
    // The table is written and read without it, and it comes back.
    insert(&fixture, from..from + 100);
    assert_eq!(count(&fixture, &fixture.table, BY_TAG), Ok(rows + 100));
    rebuild_by_group(&fixture);
    assert_eq!(count(&fixture, &fixture.table, BY_GROUP), Ok(rows + 100));
    fixture.store().merge_scheduler().drain_changes().expect("drain");
    assert_eq!(fixture.store().merge_scheduler().change_report().entries, 0);
    fixture.check_table();
}

/// After a restart pending changes have to be counted before anything of the index is merged. A
/// broken page among them stopped the counting for ever.
#[test]
fn what_cannot_be_counted_does_not_fill_the_buffer() {
    let (disk, ..) = filled();
    let (fixture, _) = open(&disk);
    insert(&fixture, ROWS..ROWS + 3000);
    let by_group = fixture.table.layout().secondary[0].index.id;
    fixture.engine.close(Close::Fast).expect("close");
    damage(&disk, FIRST_TABLE_FILE, leaf_of(by_group | DELTA_BIT), flip);
    let (fixture, logged) = open(&disk);
    fixture.engine.set("change_buffer_max_size", 0).expect("set");
    let mut rounds = Rounds::default();
    let mut from = ROWS + 3000;
    while said(&logged, "quarantined").is_empty() {
        insert(&fixture, from..from + 200);
        from += 200;
        disk.advance_us(11_000_000);
        fixture
            .store()
            .merge_scheduler()
            .merge_round(&mut rounds)
            .expect("round");
        assert!(
            from < 20_000,
            "the debt is not bounded: {:?}",
            fixture.store().merge_scheduler().change_report()
        );
    }
    assert!(said(&logged, "by_group")[0].contains("REPAIR TABLE"));
    fixture.store().merge_scheduler().drain_changes().expect("drain");
    let report = fixture.store().merge_scheduler().change_report();
    assert_eq!((report.entries, report.bytes, report.uncounted), (0, 0, 0));
    rebuild_by_group(&fixture);
    fixture.check_table();
}

/// The part that a broken page kept from being counted stayed in the bound for good. The index was
/// not quarantined for it, because little was counted.
#[test]
fn what_is_estimated_and_cannot_be_counted_does_not_fill_the_buffer() {
    let (disk, ..) = filled();
    let (fixture, _) = open(&disk);
    insert(&fixture, ROWS..ROWS + 6000);
    let second = {
        let (pool, tree) = (&fixture.store().pool, delta(&fixture, 0).tree);
        let first = tree.leaf_owning(pool, &[]).expect("read");
        let end = first.upper_fence().expect("two leaves").to_vec();
        drop(first);
        tree.leaf_owning(pool, &end).expect("read").page_no()
    };
    fixture.engine.close(Close::Fast).expect("close");
    break_page(&disk, second);
    let (fixture, logged) = open(&disk);
    fixture.engine.set("change_buffer_max_size", 0).expect("set");
    let mut rounds = Rounds::default();
    for _ in 0..5 {
        disk.advance_us(11_000_000);
        fixture
            .store()
            .merge_scheduler()
            .merge_round(&mut rounds)
            .expect("round");
    }
    assert!(
        delta(&fixture, 0).bytes() < fixture.store().change.bytes_max() / 8,
        "little was counted"
    );
    assert_eq!(
        said(&logged, "quarantined").len(),
        1,
        "{:?}",
        fixture.store().merge_scheduler().change_report()
    );
    fixture.store().merge_scheduler().drain_changes().expect("drain");
    assert_eq!(fixture.store().change.fill(), 0);
    rebuild_by_group(&fixture);
    fixture.check_table();
}

/// One leaf that had to be split kept all others, which had room, from being merged.
#[test]
fn a_full_disk_keeps_no_leaf_with_room_from_being_merged() {
    let (disk, _, lower, upper) = filled();
    let (fixture, logged) = open(&disk);
    insert(&fixture, ROWS..ROWS + 300);
    let in_leaf = insert_between(&fixture, ROWS + 300..60_000, &lower, &upper);
    fixture.engine.checkpoint().expect("checkpoint");
    disk.set_space(Some(disk.used()));
    // The file has free pages.
    let mut mtr = fixture.store().pool.begin();
    while crate::space::allocate(&mut mtr, FIRST_TABLE_FILE, 0).is_ok() {}
    mtr.commit();
    fixture
        .store()
        .merge_scheduler()
        .drain_changes()
        .expect("as far as it goes");
    let left = delta(&fixture, 0).entries();
    assert!(left > 0, "the disk is not full");
    assert!(left <= in_leaf, "the changes after it are not merged: {left}");
    assert!(said(&logged, "by_group").is_empty(), "nothing is broken");
    disk.set_space(None);
    fixture.store().merge_scheduler().drain_changes().expect("drain");
    assert_eq!(fixture.store().merge_scheduler().change_report().entries, 0);
}
