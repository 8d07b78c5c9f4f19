//! Loads of tables that are already visible to other transactions. The table then holds exactly the
//! loaded rows, and no other transaction sees them before the commit. A rollback leaves no row and
//! no page: of the statement, to a savepoint, of the transaction, or after a crash. Other inserters
//! wait, or keep their rows.
use super::fixture::*;
use super::load_new_table::{open, orders, row, Rows};
use crate::base::{Error, Result};
use crate::io::sim::SimDisk;
use crate::space;
use crate::table::BulkInsert;
use crate::txn::{Isolation, LockMode, ThreadWaiter, Trx};
use std::sync::Arc;
use std::time::Duration;
use Isolation::{ReadCommitted, ReadUncommitted, RepeatableRead, Serializable};

const LARGE: u64 = 100 << 10;

fn add(bulk: &mut BulkInsert, trx: &mut Trx, pk: &[u8], row: &Row) -> Result<()> {
    with_entries(pk, row, |entries| bulk.add(trx, pk, &row.encode(), entries))
}

fn begin(fixture: &TableFixture) -> BulkInsert {
    let begun = fixture.store().loads().begin_bulk_insert(&fixture.table);
    begun.expect("look").expect("an empty table")
}

/// A load that took these rows and has not ended.
fn begun(fixture: &TableFixture, trx: &mut Trx, rows: &[(Vec<u8>, Row)]) -> BulkInsert {
    let mut bulk = begin(fixture);
    for (pk, row) in rows {
        add(&mut bulk, trx, pk, row).expect("add");
    }
    bulk
}

/// As the server does: a statement that fails is rolled back. Error: also the row refused.
pub fn fill(
    fixture: &TableFixture,
    trx: &mut Trx,
    rows: &[(Vec<u8>, Row)],
) -> std::result::Result<(), (Error, Option<Row>)> {
    let savepoint = fixture.store().rollbacks().savepoint(trx);
    let mut bulk = begin(fixture);
    let mut done = Ok(());
    for (pk, row) in rows {
        done = done.and_then(|()| add(&mut bulk, trx, pk, row));
    }
    done = done.and_then(|()| bulk.finish(trx));
    let refused = bulk.refused().map(|(_, row)| Row::decode(row));
    bulk.end(trx);
    done.map_err(|e| {
        let undone = fixture.store().rollbacks().rollback_to(trx, savepoint);
        let stopped = fixture.store().pool.check_alive().is_err();
        assert!(undone.is_ok() || trx.is_doomed() || stopped, "{undone:?}");
        (e, refused)
    })
}

fn used(fixture: &TableFixture) -> u32 {
    space::usage(&fixture.store().pool, fixture.table.layout().id)
        .expect("usage")
        .used
}

fn rows_counted(fixture: &TableFixture) -> u64 {
    fixture
        .store()
        .statistics_keeper()
        .table_stats(&fixture.table)
        .expect("stats")
        .rows
}

pub fn has_empty_trees(fixture: &TableFixture) -> bool {
    fixture
        .store()
        .loads()
        .has_empty_trees(fixture.table.layout())
        .expect("look")
}

pub fn commit(fixture: &TableFixture, mut trx: Trx) {
    fixture.engine.commit(&mut trx, true).expect("commit");
}

pub fn shuffled(n: u32) -> Rows {
    orders(n).swap_remove(0).1
}

#[test]
fn what_was_inserted_is_there_whatever_the_order() {
    for (n, bulk_load_min) in [(1, 0), (3000, 0), (3000, LARGE)] {
        for (order, rows) in orders(n).into_iter().take(if n < 3000 { 1 } else { 3 }) {
            let disk = SimDisk::new(n as u64);
            let fixture = open(disk.clone(), bulk_load_min);
            let model: Model = rows.iter().cloned().collect();
            let what = format!("{n} rows, {order}, minimum {bulk_load_min}");
            let mut old = fixture.begin(RepeatableRead);
            fixture.store().trx_sys.visibility.open_view(&mut old);
            let mut trx = fixture.begin(RepeatableRead);
            fill(&fixture, &mut trx, &rows).expect(&what);
            fixture.check_view(&mut trx, &model, &what);
            let mut other = fixture.begin(RepeatableRead);
            fixture.check_view(&mut other, &Model::new(), "not committed yet");
            commit(&fixture, trx);
            for mut earlier in [old, other] {
                fixture.check_view(&mut earlier, &Model::new(), "older than the commit");
                commit(&fixture, earlier);
            }
            assert!(fixture
                .store()
                .loads()
                .begin_bulk_insert(&fixture.table)
                .expect("look")
                .is_none());
            let after = disk.crash(1);
            drop(fixture);
            let fixture = open(after, bulk_load_min);
            let mut trx = fixture.begin(RepeatableRead);
            fixture.check_view(&mut trx, &model, &what);
            commit(&fixture, trx);
            fixture.check_table();
        }
    }
}

#[test]
fn a_rollback_leaves_not_a_row_and_not_a_page() {
    for bulk_load_min in [0, LARGE] {
        for (order, rows) in orders(2500) {
            let fixture = open(SimDisk::new(5), bulk_load_min);
            let before = used(&fixture);
            for to_savepoint in [true, false] {
                let mut trx = fixture.begin(ReadCommitted);
                let savepoint = fixture.store().rollbacks().savepoint(&trx);
                fill(&fixture, &mut trx, &rows).expect(order);
                change_some(&fixture, &mut trx, &rows);
                if to_savepoint {
                    fixture
                        .store()
                        .rollbacks()
                        .rollback_to(&mut trx, savepoint)
                        .expect("rollback");
                    commit(&fixture, trx);
                } else {
                    fixture.engine.rollback(&mut trx).expect("rollback");
                }
                let mut trx = fixture.begin(ReadUncommitted);
                fixture.check_view(&mut trx, &Model::new(), order);
                commit(&fixture, trx);
                fixture.purge_all();
                fixture.store().merge_scheduler().drain_changes().expect("drain");
                fixture.check_table();
                assert_eq!(rows_counted(&fixture), 0);
                assert!(has_empty_trees(&fixture), "{order}, minimum {bulk_load_min}");
                assert_eq!(used(&fixture), before, "{order}, minimum {bulk_load_min}");
            }
            // And then it can be filled for good.
            let mut trx = fixture.begin(ReadCommitted);
            fill(&fixture, &mut trx, &rows).expect(order);
            commit(&fixture, trx);
            fixture.check_table();
        }
    }
}

/// Changes of rows that the same transaction has just loaded.
fn change_some(fixture: &TableFixture, trx: &mut Trx, rows: &[(Vec<u8>, Row)]) {
    for (i, (pk, old)) in rows.iter().enumerate().step_by(7) {
        match i % 3 {
            0 => fixture.delete(trx, pk, old).expect("delete"),
            1 => {
                let new = Row {
                    group: old.group ^ 1,
                    body: vec![1; i % 500],
                    ..old.clone()
                };
                fixture.update(trx, pk, old, &new).expect("update");
            }
            _ => {
                let new = Row {
                    shade: old.shade + 1,
                    ..old.clone()
                };
                fixture.update(trx, pk, old, &new).expect("update");
            }
        }
    }
    let extra = Row {
        tag: Some(61_000),
        ..row(5)
    };
    fixture.insert(trx, b"another", &extra).expect("insert");
}

#[test]
fn a_duplicate_is_named_and_leaves_nothing() {
    for bulk_load_min in [0, LARGE, 64 << 20] {
        for (order, rows) in orders(2500) {
            for (index, late) in [(0, false), (2, false), (2, true)] {
                let mut rows = rows.clone();
                let fixture = open(SimDisk::new(9), bulk_load_min);
                let before = used(&fixture);
                let at = if late { rows.len() - 1 } else { 2000 };
                if index == 0 {
                    let original = rows[40].clone();
                    rows.insert(at, original);
                } else {
                    rows[at].1.tag = Some(60_001);
                    rows[700].1.tag = Some(60_001);
                }
                let mut trx = fixture.begin(ReadCommitted);
                let (e, refused) = fill(&fixture, &mut trx, &rows).expect_err("a value that is there twice");
                let Error::Duplicate { index: found, .. } = e else {
                    panic!("{order}: {e}");
                };
                assert_eq!(found, index, "{order}");
                if let Some(refused) = refused {
                    let expected = if index == 0 { rows[40].1.tag } else { Some(60_001) };
                    assert_eq!(refused.tag, expected, "{order}, minimum {bulk_load_min}");
                }
                commit(&fixture, trx);
                fixture.purge_all();
                fixture.store().merge_scheduler().drain_changes().expect("drain");
                fixture.check_table();
                assert!(has_empty_trees(&fixture), "{order}");
                assert_eq!(used(&fixture), before, "{order}, minimum {bulk_load_min}");
            }
        }
    }
}

/// What was linked before the statement failed is counted off as it is taken out.
#[test]
fn a_load_that_fails_late_leaves_the_row_count_right() {
    for (order, rows) in orders(2500) {
        for locked in [false, true] {
            let fixture = open(SimDisk::new(10), 0);
            assert_eq!(rows_counted(&fixture), 0, "it is known from here on");
            let mut refused = rows.clone();
            let mut reader = fixture.begin(Serializable);
            let expected = if locked {
                Error::LockWaitTimeout
            } else {
                let last = refused.len() - 1;
                (refused[last].1.tag, refused[700].1.tag) = (Some(60_001), Some(60_001));
                Error::Duplicate {
                    index: BY_TAG,
                    pk: Vec::new(),
                }
            };
            let mut trx = fixture.begin(ReadCommitted);
            trx.lock_wait_timeout_ms = 1;
            let savepoint = fixture.store().rollbacks().savepoint(&trx);
            let mut bulk = begun(&fixture, &mut trx, &refused);
            if locked {
                // The last of the trees to be linked.
                let scan = fixture.scan(&mut reader, BY_TAG, false, false, Some(LockMode::Shared));
                assert!(scan.expect("scan").is_empty());
            }
            let e = bulk.finish(&mut trx).expect_err("it fails");
            assert_eq!(
                std::mem::discriminant(&e),
                std::mem::discriminant(&expected),
                "{order}: {e}"
            );
            bulk.end(&mut trx);
            fixture
                .store()
                .rollbacks()
                .rollback_to(&mut trx, savepoint)
                .expect("rollback");
            commit(&fixture, reader);
            assert_eq!(rows_counted(&fixture), 0, "{order}");
            fill(&fixture, &mut trx, &rows).expect("load");
            commit(&fixture, trx);
            assert_eq!(rows_counted(&fixture), rows.len() as u64, "{order}");
        }
    }
}

/// A statement of few rows fails with the same row as without a load. What the server would do with
/// the rows after it does not happen.
#[test]
fn of_few_rows_each_is_refused_when_it_comes() {
    let rows = shuffled(300);
    let tagged = rows.iter().find(|(_, row)| row.tag.is_some()).expect("a tag");
    let same_key = (rows[7].0.clone(), Row { tag: None, ..row(1) });
    let same_tag = (
        b"new".to_vec(),
        Row {
            tag: tagged.1.tag,
            ..row(1)
        },
    );
    for (index, (pk, row)) in [(0, same_key), (BY_TAG, same_tag)] {
        let fixture = open(SimDisk::new(19), 64 << 20);
        let mut trx = fixture.begin(ReadCommitted);
        let mut bulk = begun(&fixture, &mut trx, &rows);
        match add(&mut bulk, &mut trx, &pk, &row) {
            Err(Error::Duplicate { index: found, .. }) => assert_eq!(found, index),
            other => panic!("index {index}: {other:?}"),
        }
        assert!(bulk.refused().is_none(), "it is the row given last");
        bulk.end(&mut trx);
        fixture.engine.rollback(&mut trx).expect("rollback");
        fixture.check_table();
    }
}

#[test]
fn other_inserts_wait_for_the_statement_and_can_be_killed() {
    let fixture = Arc::new(open(SimDisk::new(11), 0));
    let rows = shuffled(500);
    let mut trx = fixture.begin(ReadCommitted);
    let mut bulk = begun(&fixture, &mut trx, &rows[..400]);
    let extra = |n: u32| Row {
        tag: Some(62_000 + n as u16),
        ..row(n)
    };
    let killed = Arc::new(ThreadWaiter::new());
    let inserter = |n: u32, waiter: Arc<ThreadWaiter>| {
        let fixture = fixture.clone();
        std::thread::spawn(move || {
            let mut trx = fixture.engine.new_trx(waiter, 0);
            fixture.engine.start(&mut trx, ReadCommitted, 20_000);
            let done = fixture.insert(&mut trx, format!("other{n}").as_bytes(), &extra(n));
            match &done {
                Ok(()) => fixture.engine.commit(&mut trx, true).expect("commit"),
                Err(_) => fixture.engine.rollback(&mut trx).expect("rollback"),
            }
            done
        })
    };
    let waits = inserter(1, Arc::new(ThreadWaiter::new()));
    let dies = inserter(2, killed.clone());
    let waiting = || fixture.store().counters.row_lock_current_waits.get();
    while waiting() < 2 {
        std::thread::sleep(Duration::from_millis(1));
    }
    killed.kill();
    assert_eq!(dies.join().expect("thread"), Err(Error::Interrupted));
    assert!(!waits.is_finished());
    // A locking read finds an empty table, and another load is none.
    let mut reader = fixture.begin(ReadCommitted);
    let found = fixture
        .scan(&mut reader, 0, false, false, Some(LockMode::Exclusive))
        .expect("scan");
    assert!(found.is_empty());
    commit(&fixture, reader);
    for (pk, row) in &rows[400..] {
        add(&mut bulk, &mut trx, pk, row).expect("add");
    }
    bulk.finish(&mut trx).expect("finish");
    bulk.end(&mut trx);
    // The statement is over, its transaction is not.
    assert_eq!(waits.join().expect("thread"), Ok(()));
    commit(&fixture, trx);
    let mut model: Model = rows.into_iter().collect();
    model.insert(b"other1".to_vec(), extra(1));
    let mut trx = fixture.begin(RepeatableRead);
    fixture.check_view(&mut trx, &model, "both");
    commit(&fixture, trx);
    fixture.check_table();
}

#[test]
fn a_circle_of_waits_through_a_load_is_found() {
    let fixture = Arc::new(open(SimDisk::new(23), 0));
    let mut trx = fixture.begin(ReadCommitted);
    let mut bulk = begun(&fixture, &mut trx, &shuffled(400));
    let inserter = {
        let fixture = fixture.clone();
        std::thread::spawn(move || {
            let mut other = fixture.begin(ReadCommitted);
            fixture
                .store()
                .row_locks()
                .lock_autoinc(&mut other, &fixture.table)
                .expect("no transaction holds it");
            let done = fixture.insert(&mut other, b"other", &row(3));
            fixture.engine.rollback(&mut other).expect("rollback");
            done
        })
    };
    while fixture.store().counters.row_lock_current_waits.get() < 1 {
        std::thread::sleep(Duration::from_millis(1));
    }
    // He has less to lose than the load, though that has hardly any undo records.
    fixture
        .store()
        .row_locks()
        .lock_autoinc(&mut trx, &fixture.table)
        .expect("he gives way");
    assert_eq!(inserter.join().expect("thread"), Err(Error::Deadlock));
    bulk.finish(&mut trx).expect("finish");
    bulk.end(&mut trx);
    commit(&fixture, trx);
    fixture.check_table();
}

/// Pages given to a load are in use, and have no owner yet. Some are not written, some are whole
/// and say that they are the index's.
#[test]
fn check_table_has_nothing_against_a_load() {
    let rows = orders(6000).swap_remove(1).1;
    for linked in [false, true] {
        let disk = SimDisk::new(29);
        let fixture = open(disk.clone(), 0);
        let before = used(&fixture);
        let mut trx = fixture.begin(ReadCommitted);
        let mut bulk = begin(&fixture);
        for (i, (pk, row)) in rows.iter().enumerate() {
            add(&mut bulk, &mut trx, pk, row).expect("add");
            if i % 1500 == 1000 {
                fixture.check_table();
            }
        }
        if linked {
            bulk.finish(&mut trx).expect("finish");
            fixture.check_table();
            fixture.engine.flush_log().expect("flush");
        }
        bulk.end(&mut trx);
        std::mem::forget(trx);
        let after = disk.crash(1);
        drop(fixture);
        // The rollback has not begun.
        let fixture = open(after, 0);
        assert!(used(&fixture) > before);
        fixture.check_table();
        fixture.engine.start_background();
        super::crash::wait_for_rollback(&fixture.engine);
        fixture.check_table();
        assert_eq!(used(&fixture), before);
    }
}

#[test]
fn a_load_waits_for_the_holder_of_a_range() {
    for index in [0, BY_TAG] {
        let fixture = open(SimDisk::new(13), 0);
        let rows = shuffled(300);
        // Before the decision: rows go in one by one, and the first one meets the range.
        let mut reader = fixture.begin(Serializable);
        let found = fixture
            .scan(&mut reader, index, false, false, Some(LockMode::Shared))
            .expect("scan");
        assert!(found.is_empty());
        let mut trx = fixture.begin(ReadCommitted);
        trx.lock_wait_timeout_ms = 1;
        assert_eq!(
            fill(&fixture, &mut trx, &rows).expect_err("locked").0,
            Error::LockWaitTimeout
        );
        commit(&fixture, trx);
        commit(&fixture, reader);
        // Between the decision and the end.
        let mut trx = fixture.begin(ReadCommitted);
        trx.lock_wait_timeout_ms = 1;
        let savepoint = fixture.store().rollbacks().savepoint(&trx);
        let mut bulk = begun(&fixture, &mut trx, &rows);
        let mut reader = fixture.begin(Serializable);
        let scan = |reader: &mut Trx| fixture.scan(reader, index, false, false, Some(LockMode::Shared));
        assert!(scan(&mut reader).expect("scan").is_empty());
        assert_eq!(bulk.finish(&mut trx), Err(Error::LockWaitTimeout));
        bulk.end(&mut trx);
        fixture
            .store()
            .rollbacks()
            .rollback_to(&mut trx, savepoint)
            .expect("rollback");
        assert!(scan(&mut reader).expect("scan").is_empty(), "no phantom");
        commit(&fixture, reader);
        fill(&fixture, &mut trx, &rows).expect("now");
        commit(&fixture, trx);
        fixture.check_table();
    }
}

/// Cut short at any write: an acknowledged commit is whole; else there is nothing, or (its answer
/// was lost) all of it.
#[test]
fn a_crash_at_any_write_loses_the_statement_or_nothing() {
    let rows = orders(700).swap_remove(2).1;
    let model: Model = rows.iter().cloned().collect();
    let (mut n, mut whole, mut empty) = (1, 0, 0);
    loop {
        let disk = SimDisk::new(n);
        let fixture = open(disk.clone(), 0);
        fixture.engine.checkpoint().expect("checkpoint");
        let before = used(&fixture);
        disk.crash_at(disk.changes() + n);
        let mut trx = fixture.begin(ReadCommitted);
        let mut done = fill(&fixture, &mut trx, &rows).map_err(|(e, _)| e);
        if n % 3 == 0 && done.is_ok() {
            done = fixture.engine.rollback(&mut trx).and(Err(Error::NotFound));
        } else if done.is_ok() {
            done = fixture.engine.commit(&mut trx, true);
        }
        let crashed = disk.is_dead();
        if crashed {
            std::mem::forget(trx);
        }
        let after = disk.crash(n * 3);
        drop(fixture);
        let fixture = open(after.clone(), 0);
        fixture.engine.start_background();
        super::crash::wait_for_rollback(&fixture.engine);
        let mut trx = fixture.begin(RepeatableRead);
        let found = fixture.scan(&mut trx, 0, false, false, None).expect("scan").len();
        assert!(found == 0 || found == rows.len(), "crash {n}: {found} rows");
        assert!(
            done.is_err() || found == rows.len(),
            "crash {n}: acknowledged, and gone"
        );
        let nothing = Model::new();
        fixture.check_view(&mut trx, if found == 0 { &nothing } else { &model }, "after a crash");
        commit(&fixture, trx);
        fixture.check_table();
        if found == 0 {
            assert_eq!(used(&fixture), before, "crash {n}");
        }
        whole += (found > 0) as u32;
        empty += (found == 0) as u32;
        // Till a round is committed without a crash.
        if !crashed && done.is_ok() {
            break;
        }
        n += 1;
    }
    assert!(whole >= 1 && empty >= 5, "{whole} whole, {empty} empty");
}

#[test]
fn a_prepared_load_is_decided_after_a_restart() {
    for decision in [true, false] {
        let disk = SimDisk::new(17);
        let fixture = open(disk.clone(), 0);
        let before = used(&fixture);
        let rows = shuffled(1000);
        let mut trx = fixture.begin(ReadCommitted);
        fill(&fixture, &mut trx, &rows).expect("load");
        let xid = xid(&[7]);
        fixture.engine.prepare(&mut trx, &xid).expect("prepare");
        std::mem::forget(trx);
        let after = disk.crash(3);
        drop(fixture);
        let fixture = open(after, 0);
        let mut other = fixture.begin(ReadCommitted);
        other.lock_wait_timeout_ms = 1;
        let refused = fixture.insert(&mut other, &rows[0].0, &row(1));
        assert_eq!(refused, Err(Error::LockWaitTimeout));
        fixture.engine.rollback(&mut other).expect("rollback");
        fixture.engine.decide(&xid, decision).expect("decide");
        let model: Model = rows.into_iter().filter(|_| decision).collect();
        let mut trx = fixture.begin(RepeatableRead);
        fixture.check_view(&mut trx, &model, "decided");
        commit(&fixture, trx);
        fixture.check_table();
        assert!(decision || used(&fixture) == before);
    }
}
