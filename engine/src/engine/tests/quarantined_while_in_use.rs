//! Statements that began with an index before it was quarantined
//! (`table/catalog/index_quarantine.rs`). What a rollback then left in the index misleads none of
//! them.
use super::damage::{damage, filled, flip, leaf_of, numbers, reopen, row, text, ROWS};
use super::fixture::*;
use crate::base::ids::FIRST_TABLE_FILE;
use crate::base::{Error, Result};
use crate::btree::Seek;
use crate::engine::steps::LoserRollback;
use crate::engine::Engine;
use crate::io::{Caching, Disk, Mode, SimDisk};
use crate::table::LockChoice;
use crate::txn::Isolation::{ReadCommitted, RepeatableRead};
use crate::txn::LockMode;
use std::sync::Arc;

/// A rollback met a broken page of an index, and the table was dropped before the index was
/// quarantined. The new definition put the dropped table back into the catalog, without its file.
#[test]
fn a_dropped_table_does_not_return_with_a_quarantined_index() {
    let disk = SimDisk::new(1);
    let fixture = TableFixture::create(disk.clone());
    let tables = fixture.store().tables();
    let index = fixture.table.layout().secondary[0].index.id;
    tables.drop_table("t").expect("drop");
    let why = Error::corrupt("a page of the index is broken");
    tables
        .quarantine_index(&fixture.table, index, &why)
        .expect("nothing to do");
    fixture.engine.checkpoint().expect("checkpoint");
    let opened = Engine::open(disk.crash(1), config()).expect("opens: the catalog names no file that is missing");
    assert!(opened.store().tables().table_named("t").is_err(), "the table is gone");
}

/// A transaction that a crash cut off deleted every row, and a leaf of that index is broken. The
/// rollback, which the test is to run, restores some entries and quarantines the index. Then it
/// restores the other rows without the index.
fn before_the_rollback(which: usize) -> (Arc<TableFixture>, LoserRollback) {
    let disk = filled();
    let (fixture, _) = reopen(&disk);
    let index = numbers(&fixture)[which];
    let mut trx = fixture.begin(ReadCommitted);
    for n in 0..ROWS {
        fixture.delete(&mut trx, &pk(n), &row(n)).expect("delete");
    }
    fixture.engine.checkpoint().expect("checkpoint");
    let disk = disk.crash(1);
    damage(&disk, FIRST_TABLE_FILE, leaf_of(index), flip);
    forget_copies(&disk);
    let (fixture, _) = reopen(&disk);
    let losers = fixture.engine.in_doubt.take_losers();
    (Arc::new(fixture), LoserRollback::new(losers))
}
/// Or the broken page would be restored.
fn forget_copies(disk: &SimDisk) {
    let len = disk.bytes("doublewrite").expect("the file is there").len();
    let open = disk.open("doublewrite", Mode::Open, Caching::Buffered).expect("open");
    open.write_at(&vec![0; len], 0).expect("write");
    open.sync().expect("sync");
}
fn run(fixture: &TableFixture, mut losers: LoserRollback) {
    while losers.step(fixture.store(), 64).expect("the index is left out") {}
    let status = fixture.engine.status_text();
    assert!(status.contains("Quarantined secondary indexes: 1"), "{status}");
}
fn is_refused<T>(fixture: &TableFixture, result: Result<T>) {
    let error = result.map(|_| ()).expect_err("the index is not what it was");
    let text = text(fixture.store().name_damage(error));
    assert!(text.contains("is quarantined"), "{text}");
}

/// The view does not see the rolled back transaction. The mark that it left was looked at again for
/// ever.
#[test]
fn a_snapshot_read_stops() {
    let (fixture, losers) = before_the_rollback(0);
    let mut trx = fixture.begin(RepeatableRead);
    let mut cursor = fixture.store().cursor(fixture.table.clone());
    cursor
        .begin(&mut trx, BY_GROUP, LockChoice::default(), false)
        .expect("begin");
    cursor.expect(100);
    assert!(cursor.seek(&mut trx, Seek::First, &[]).expect("seek"));
    run(&fixture, losers);
    let mut read_on = || -> Result<u32> {
        let mut rows = 1;
        while cursor.next(&mut trx)? {
            rows += 1;
        }
        Ok(rows)
    };
    is_refused(&fixture, read_on());
}

/// The marks were taken for good, and the rows for deleted.
#[test]
fn a_locking_read_stops() {
    let (fixture, losers) = before_the_rollback(0);
    let mut trx = fixture.begin(ReadCommitted);
    let mut cursor = fixture.store().cursor(fixture.table.clone());
    let lock = LockChoice {
        mode: Some(LockMode::Exclusive),
        ..Default::default()
    };
    cursor.begin(&mut trx, BY_GROUP, lock, false).expect("begin");
    run(&fixture, losers);
    is_refused(&fixture, cursor.seek(&mut trx, Seek::First, &[]));
}

/// The value's entry was still marked, and the value given again.
#[test]
fn a_unique_value_is_not_given_twice() {
    let (fixture, losers) = before_the_rollback(1);
    let shared_fixture = fixture.clone();
    let other = std::thread::spawn(move || {
        let mut trx = shared_fixture.begin(ReadCommitted);
        let inserted = shared_fixture.insert(&mut trx, &pk(ROWS), &row(0));
        shared_fixture.engine.rollback(&mut trx).expect("rollback");
        inserted
    });
    while fixture.engine.counters().row_lock_current_waits.get() == 0 {
        std::thread::yield_now();
    }
    run(&fixture, losers);
    is_refused(&fixture, other.join().expect("no panic"));
}
