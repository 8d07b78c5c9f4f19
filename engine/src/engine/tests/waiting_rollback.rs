//! Transactions whose rollback waits (`table/undo/waiting.rs`). Their statements are over, and no
//! table is locked for them. So a statement that is about to read rows for an index asks whether
//! the rows may be theirs. Tables that they have not touched are free.
use super::damage::{filled, reopen, row};
use super::fixture::{pk, spec, with_entries, xid, TableFixture};
use crate::base::ids::{FIRST_TABLE_FILE, UNDO_FILE};
use crate::base::{FileId, Level};
use crate::engine::steps::LoserRollback;
use crate::engine::{Config, Engine, LogSink};
use crate::io::SimDisk;
use crate::pool::PAGE_SIZE;
use crate::space::file_name;
use crate::table::{NewRow, Table};
use crate::txn::{Isolation, Trx};
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock, Weak};

const KEY: u32 = 3;

/// Table u, then table t were changed.
fn change_both(fixture: &TableFixture) -> Trx {
    let mut trx = fixture.begin(Isolation::ReadCommitted);
    let other = fixture.store().tables().open_table("u").expect("open u");
    with_entries(&pk(50), &row(50), |entries| {
        fixture.store().rows().insert(
            &mut trx,
            &other,
            &NewRow::new(&pk(50), &row(50).encode(), entries),
            false,
        )
    })
    .expect("insert into u");
    fixture.delete(&mut trx, &pk(KEY), &row(KEY)).expect("delete");
    trx
}

/// Where the leaf of `key` stands on disk, in the clustered or the first secondary index.
fn leaf_at(fixture: &TableFixture, table: &Arc<Table>, secondary: bool, key: &[u8]) -> (String, u64) {
    let layout = table.layout();
    let tree = if secondary {
        layout.secondary[0].index.tree
    } else {
        layout.clustered.tree
    };
    let leaf = tree.get(&fixture.store().pool, key).expect("read").expect("there");
    (file_name(layout.id), leaf.page_no() as u64 * PAGE_SIZE as u64 + 5000)
}

/// Breaks what is at `place`, or mends it.
fn flip_at(fixture: &TableFixture, disk: &SimDisk, place: &(String, u64), file: FileId) {
    fixture.engine.checkpoint().expect("checkpoint");
    disk.flip(&place.0, place.1, 1);
    fixture.store().pool.discard_file(file);
}

/// Whether an index of table t, u, v may not be built now.
fn waits(fixture: &TableFixture) -> [bool; 3] {
    ["t", "u", "v"].map(|table| fixture.is_in_doubt(table, true).expect("an answer"))
}
/// Whether t, u, v may not be dropped now.
fn may_not_go(fixture: &TableFixture) -> [bool; 3] {
    ["t", "u", "v"].map(|table| fixture.is_in_doubt(table, false).expect("an answer"))
}

/// An index built over such rows kept what the rollback, once it could go on, took out of all
/// indexes that it knew.
#[test]
fn no_index_is_built_of_rows_that_a_waiting_rollback_will_take_back() {
    let disk = filled();
    let (fixture, _) = reopen(&disk);
    fixture.store().tables().create_table("v", &spec()).expect("create");
    let mut trx = change_both(&fixture);
    let broken = leaf_at(&fixture, &fixture.table, false, &pk(KEY));
    flip_at(&fixture, &disk, &broken, FIRST_TABLE_FILE);
    assert!(fixture.engine.rollback(&mut trx).is_err_and(|e| e.is_corrupt()));
    assert_eq!(fixture.store().rollbacks().rollbacks_waiting(), 1);
    assert_eq!(waits(&fixture), [true, true, false]);
    assert_eq!(fixture.is_in_doubt("none", true), Ok(false));
    // What is gone need not be restored.
    assert_eq!(may_not_go(&fixture), [false; 3]);
    assert_eq!(fixture.store().rollbacks().retry_rollback(64), Ok(false));
    assert_eq!(waits(&fixture), [true, true, false]);
    disk.flip(&broken.0, broken.1, 1);
    // The newest record is that of t.
    assert_eq!(fixture.store().rollbacks().retry_rollback(1), Ok(true));
    assert_eq!(waits(&fixture), [false, true, false]);
    while fixture.store().rollbacks().retry_rollback(1).expect("it can go on") {}
    assert_eq!(fixture.store().rollbacks().rollbacks_waiting(), 0);
    assert_eq!(waits(&fixture), [false; 3]);
    fixture.check_table();
}

/// One broken table kept every other from getting an index until the next start.
#[test]
fn a_postponed_loser_holds_back_its_own_tables() {
    let disk = filled();
    let (fixture, _) = reopen(&disk);
    fixture.store().tables().create_table("v", &spec()).expect("create");
    let trx = change_both(&fixture);
    let broken = leaf_at(&fixture, &fixture.table, false, &pk(KEY));
    fixture.engine.checkpoint().expect("checkpoint");
    std::mem::forget(trx);
    let disk = disk.crash(1);
    drop(fixture);
    disk.flip(&broken.0, broken.1, 1);
    let (fixture, _) = reopen(&disk);
    assert_eq!(waits(&fixture), [true; 3], "not known yet");
    let found = fixture.engine.in_doubt.take_losers();
    let mut losers = LoserRollback::new(found);
    let stopped = losers.step(fixture.store(), 64).expect_err("t is broken");
    losers.put_off_current(fixture.store(), &stopped);
    assert_eq!(waits(&fixture), [true, true, false]);
    assert_eq!(may_not_go(&fixture), [false; 3]);
    fixture.store().tables().close_table(&fixture.table);
    fixture.store().tables().drop_table("t").expect("drop");
    while fixture.store().rollbacks().retry_rollback(64).expect("it can go on") {}
    assert_eq!(waits(&fixture), [false; 3]);
}

/// XA ROLLBACK was given: it is decided, though it is not done. The table in its way could not be
/// dropped.
#[test]
fn a_postponed_prepared_transaction_is_decided() {
    let disk = filled();
    let (fixture, _) = reopen(&disk);
    fixture.store().tables().create_table("v", &spec()).expect("create");
    let mut trx = change_both(&fixture);
    let xid = xid(&[7]);
    fixture.engine.prepare(&mut trx, &xid).expect("prepare");
    fixture.engine.in_doubt.may_outlive_connection(&mut trx);
    assert_eq!(may_not_go(&fixture), [true, true, false]);
    let broken = leaf_at(&fixture, &fixture.table, false, &pk(KEY));
    flip_at(&fixture, &disk, &broken, FIRST_TABLE_FILE);
    assert!(fixture.engine.rollback(&mut trx).is_err_and(|e| e.is_corrupt()));
    assert_eq!(waits(&fixture), [true, true, false]);
    assert_eq!(may_not_go(&fixture), [false; 3]);
}

/// Its rollback could not even begin, and it stayed on its connection, prepared: the next statement
/// that wrote met an assertion.
#[test]
fn a_prepared_one_whose_rollback_cannot_begin_waits_and_its_connection_goes_on() {
    let disk = filled();
    let (fixture, _) = reopen(&disk);
    let mut trx = change_both(&fixture);
    let xid = xid(&[7]);
    fixture.engine.prepare(&mut trx, &xid).expect("prepare");
    let broken = (
        file_name(UNDO_FILE),
        trx.undo_top().page as u64 * PAGE_SIZE as u64 + 5000,
    );
    flip_at(&fixture, &disk, &broken, UNDO_FILE);
    assert!(fixture.engine.rollback(&mut trx).is_err_and(|e| e.is_corrupt()));
    assert_eq!(fixture.store().rollbacks().rollbacks_waiting(), 1);
    fixture.store().pool.check_alive().expect("the engine goes on");
    fixture.engine.start(&mut trx, Isolation::ReadCommitted, 1000);
    fixture.insert(&mut trx, &pk(5000), &row(5000)).expect("insert");
    fixture.engine.commit(&mut trx, true).expect("commit");
    assert_eq!(fixture.store().rollbacks().retry_rollback(64), Ok(false), "not yet");
    fixture.engine.checkpoint().expect("checkpoint");
    disk.flip(&broken.0, broken.1, 1);
    assert_eq!(fixture.engine.in_doubt.prepared(), []);
    while fixture.store().rollbacks().retry_rollback(64).expect("it can go on") {}
    assert_eq!(fixture.store().rollbacks().rollbacks_waiting(), 0);
    fixture.check_table();
    fixture.engine.flush_log().expect("flush");
    let (fixture, _) = reopen(&disk.crash(1));
    assert_eq!(fixture.engine.in_doubt.prepared(), []);
    let mut trx = fixture.begin(Isolation::ReadCommitted);
    let found = fixture.get(&mut trx, &pk(KEY), None).expect("get");
    assert!(found == Some(row(KEY)), "the row is back");
    fixture.engine.commit(&mut trx, false).expect("commit");
}

/// What it has changed cannot be known: any table.
#[test]
fn a_waiting_rollback_whose_undo_is_broken_may_have_changed_any_table() {
    let disk = filled();
    let (fixture, _) = reopen(&disk);
    fixture.store().tables().create_table("v", &spec()).expect("create");
    let mut trx = change_both(&fixture);
    let broken = (
        file_name(UNDO_FILE),
        trx.undo_top().page as u64 * PAGE_SIZE as u64 + 5000,
    );
    flip_at(&fixture, &disk, &broken, UNDO_FILE);
    assert!(fixture.engine.rollback(&mut trx).is_err_and(|e| e.is_corrupt()));
    assert_eq!(waits(&fixture), [true; 3]);
    disk.flip(&broken.0, broken.1, 1);
    assert_eq!(waits(&fixture), [true, true, false]);
    while fixture.store().rollbacks().retry_rollback(64).expect("it can go on") {}
    assert_eq!(waits(&fixture), [false; 3]);
}

/// While the rollback is tried again it stands in no queue, and is considered all the same. Here
/// the question comes from the report of a broken index.
#[test]
fn a_rollback_that_is_tried_again_still_holds_back_its_tables() {
    let disk = filled();
    let engine: Arc<OnceLock<Weak<Engine>>> = Arc::default();
    let heard: Arc<Mutex<Vec<bool>>> = Arc::default();
    let (asked, into) = (engine.clone(), heard.clone());
    let log: LogSink = Arc::new(move |level, text: &str| {
        let engine = asked.get().and_then(Weak::upgrade);
        if let (Level::Error, Some(engine), true) = (level, engine, text.contains("by_group")) {
            into.lock()
                .push(engine.in_doubt.find_writer("u", true).expect("an answer").is_some());
        }
    });
    let config = Config {
        log,
        ..super::fixture::config()
    };
    let opened = Engine::open_still(disk.clone(), config).expect("opens");
    opened.set("change_buffering", 0).expect("set");
    let table = opened.store().tables().open_table("t").expect("table");
    let fixture = TableFixture { engine: opened, table };
    let mut trx = change_both(&fixture);
    let other = fixture.store().tables().open_table("u").expect("open u");
    let entry = row(50).group_key(&pk(50));
    let in_t = leaf_at(&fixture, &fixture.table, false, &pk(KEY));
    let in_u = leaf_at(&fixture, &other, true, &entry);
    flip_at(&fixture, &disk, &in_t, FIRST_TABLE_FILE);
    assert!(fixture.engine.rollback(&mut trx).is_err_and(|e| e.is_corrupt()));
    flip_at(&fixture, &disk, &in_t, FIRST_TABLE_FILE);
    flip_at(&fixture, &disk, &in_u, other.layout().id);
    engine.set(Arc::downgrade(&fixture.engine)).expect("set once");
    while fixture.store().rollbacks().retry_rollback(64).expect("it can go on") {}
    assert_eq!(*heard.lock(), [true]);
    assert_eq!(fixture.is_in_doubt("u", true), Ok(false));
}
