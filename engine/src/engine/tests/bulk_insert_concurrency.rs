//! A load that is rolled back while rows of other transactions lie among its own: those rows stay,
//! whatever the load's transaction did with them. And rows that a load places out of order do not
//! appear in ranges that a SERIALIZABLE reader has read.
use super::bulk_insert::{commit, fill, shuffled};
use super::fixture::*;
use super::load_new_table::{open, row, Rows};
use crate::base::sync_point::at;
use crate::base::{Error, SyncPoint};
use crate::btree::Seek;
use crate::io::sim::SimDisk;
use crate::table::LockChoice;
use crate::txn::Isolation::{ReadCommitted, ReadUncommitted, RepeatableRead, Serializable};
use crate::txn::{LockMode, Trx};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc};
use std::time::Duration;

#[test]
fn what_others_insert_outlives_the_rollback() {
    let fixture = open(SimDisk::new(7), 0);
    let rows = shuffled(2000);
    let mut trx = fixture.begin(ReadCommitted);
    fill(&fixture, &mut trx, &rows).expect("load");
    let mut model = Model::new();
    for n in 0..30u32 {
        let mut other = fixture.begin(ReadCommitted);
        let (pk, row) = (
            format!("{:x}-other", n * 140).into_bytes(),
            Row {
                tag: Some(62_000 + n as u16),
                ..row(n)
            },
        );
        fixture
            .insert(&mut other, &pk, &row)
            .expect("between the rows of the load");
        commit(&fixture, other);
        model.insert(pk, row);
    }
    // A row of the load is locked by its maker, and so is a unique value of it.
    let mut other = fixture.begin(ReadCommitted);
    other.lock_wait_timeout_ms = 1;
    let taken = rows.iter().find(|(_, row)| row.tag.is_some()).expect("a tag");
    let refused = fixture.insert(&mut other, &taken.0, &row(4));
    assert_eq!(refused, Err(Error::LockWaitTimeout));
    let refused = fixture.insert(&mut other, b"new", &taken.1);
    assert_eq!(refused, Err(Error::LockWaitTimeout));
    fixture.engine.rollback(&mut other).expect("rollback");
    fixture.engine.rollback(&mut trx).expect("rollback");
    let mut trx = fixture.begin(ReadUncommitted);
    fixture.check_view(&mut trx, &model, "the others' rows");
    commit(&fixture, trx);
    fixture.check_table();
}

fn tagged(n: u32) -> Row {
    let tag = Some(62_000 + n as u16);
    Row { tag, ..row(n) }
}
fn insert_as_another(fixture: &TableFixture, pk: &[u8], row: &Row) {
    let mut other = fixture.begin(ReadCommitted);
    fixture.insert(&mut other, pk, row).expect("after the loaded rows");
    commit(fixture, other);
}

/// Purge and merges change nothing, and leave a sound table.
fn check_to_the_end(fixture: &TableFixture, model: &Model) {
    for _ in 0..2 {
        let mut reader = fixture.begin(ReadUncommitted);
        fixture.check_view(&mut reader, model, "the others' rows");
        commit(fixture, reader);
        fixture.check_table();
        fixture.purge_all();
        fixture.store().merge_scheduler().drain_changes().expect("drain");
    }
}

/// One index is left alone, or both are, or the entry keeps its key and changes in its raw bytes;
/// then the row is deleted.
fn change_and_delete(fixture: &TableFixture, trx: &mut Trx, (pk, old): (&[u8], &Row), how: u32) {
    let mut changed = old.clone();
    changed.body = vec![7; 30];
    match how {
        0 => {}
        1 => changed.group ^= 1,
        2 => changed.tag = Some(63_000),
        _ => changed.shade ^= 1,
    }
    let longer = Row {
        body: vec![8; 60],
        ..changed.clone()
    };
    fixture.update(trx, pk, old, &changed).expect("update");
    fixture.update(trx, pk, &changed, &longer).expect("update");
    fixture.delete(trx, pk, &longer).expect("delete");
}

/// Seed 1795350480081590: the loader updated and deleted a row that another transaction had
/// inserted after the loaded rows. The entries that the update had left alone had the loader's
/// stamp. The rollback removed them with the load.
#[test]
fn others_rows_that_the_loader_changed_outlive_the_rollback() {
    for to_savepoint in [true, false] {
        let fixture = open(SimDisk::new(8), 0);
        let mut trx = fixture.begin(ReadCommitted);
        let savepoint = fixture.store().rollbacks().savepoint(&trx);
        fill(&fixture, &mut trx, &shuffled(300)).expect("load");
        let model: Model = (0..8).map(|n| (vec![b'~', n], tagged(n as u32))).collect();
        for (how, (pk, row)) in (0..).zip(&model) {
            insert_as_another(&fixture, pk, row);
            change_and_delete(&fixture, &mut trx, (pk, row), how % 4);
            if how >= 4 {
                fixture.insert(&mut trx, pk, row).expect("put back");
            }
        }
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
        check_to_the_end(&fixture, &model);
    }
}

/// The loader gave a row a value that it had had before, and which an old view reads: the entry is
/// dead afterwards, not gone.
#[test]
fn an_old_view_keeps_an_entry_that_the_loader_used_again() {
    let fixture = open(SimDisk::new(9), 0);
    let mut trx = fixture.begin(ReadCommitted);
    fill(&fixture, &mut trx, &shuffled(300)).expect("load");
    let pk = vec![b'~'];
    let (first, mut second) = (tagged(0), tagged(1));
    second.group = first.group ^ 1;
    insert_as_another(&fixture, &pk, &first);
    let mut reader = fixture.begin(RepeatableRead);
    let seen = Model::from([(pk.clone(), first.clone())]);
    fixture.check_view(&mut reader, &seen, "before");
    let mut other = fixture.begin(ReadCommitted);
    fixture.update(&mut other, &pk, &first, &second).expect("update");
    commit(&fixture, other);
    fixture.update(&mut trx, &pk, &second, &first).expect("update back");
    fixture.engine.rollback(&mut trx).expect("rollback");
    fixture.check_view(&mut reader, &seen, "after");
    commit(&fixture, reader);
    check_to_the_end(&fixture, &Model::from([(pk, second)]));
}

fn number(n: u32) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}
/// 1000, 1001, ..., and then 5.
fn one_late() -> Rows {
    (1000..1400).chain([5]).map(|n| (number(n), row(n))).collect()
}
/// Rows from 3 to 7, locked as SERIALIZABLE reads do.
fn rows_around_5(fixture: &TableFixture, trx: &mut Trx) -> usize {
    let mut cursor = fixture.store().cursor(fixture.table.clone());
    let lock = LockChoice {
        mode: Some(LockMode::Shared),
        ..LockChoice::default()
    };
    cursor.begin(trx, 0, lock, false).expect("begin");
    cursor.set_bounds(&number(3), Some(&number(8)));
    let mut more = cursor.seek(trx, Seek::Ge, &number(3)).expect("seek");
    let mut count = 0;
    while more {
        count += 1;
        more = cursor.next(trx).expect("next");
    }
    count
}
fn someone_waits(fixture: &TableFixture) -> bool {
    fixture.store().counters.row_lock_current_waits.get() > 0
}

#[test]
fn a_late_row_that_may_not_come_up_fails_the_statement() {
    let fixture = Arc::new(open(SimDisk::new(33), 0));
    let mut trx = fixture.begin(ReadCommitted);
    trx.lock_wait_timeout_ms = 1;
    let reader = Rc::new(RefCell::new(None));
    let (shared_fixture, kept) = (fixture.clone(), reader.clone());
    at(SyncPoint::LateToBePlaced, move || {
        let mut trx = shared_fixture.begin(Serializable);
        assert_eq!(rows_around_5(&shared_fixture, &mut trx), 0);
        kept.replace(Some(trx));
    });
    let (e, _) = fill(&fixture, &mut trx, &one_late()).expect_err("the range is locked");
    assert_eq!(e, Error::LockWaitTimeout);
    let mut reader = reader.take().expect("he has read");
    assert_eq!(rows_around_5(&fixture, &mut reader), 0, "no phantom");
    commit(&fixture, reader);
    let nothing = Model::new();
    fixture.check_view(&mut trx, &nothing, "taken back");
    fixture.check_table();
    fill(&fixture, &mut trx, &one_late()).expect("now");
    fixture.check_view(&mut trx, &one_late().into_iter().collect(), "filled");
    commit(&fixture, trx);
    fixture.check_table();
}

#[test]
fn a_late_row_waits_for_a_reader_of_its_range() {
    let fixture = Arc::new(open(SimDisk::new(34), 0));
    let over = Arc::new(AtomicBool::new(false));
    let (shared_fixture, shared_over) = (fixture.clone(), over.clone());
    let (signal, signalled) = mpsc::channel();
    let (start, to_start) = mpsc::channel::<()>();
    let reader = std::thread::spawn(move || {
        to_start.recv().expect("the moment");
        let mut trx = shared_fixture.begin(Serializable);
        let first = rows_around_5(&shared_fixture, &mut trx);
        signal.send(()).expect("the writer waits for it");
        while !someone_waits(&shared_fixture) && !shared_over.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let second = rows_around_5(&shared_fixture, &mut trx);
        commit(&shared_fixture, trx);
        (first, second)
    });
    at(SyncPoint::LateToBePlaced, move || {
        start.send(()).expect("he is there");
        signalled.recv().expect("the reader has read");
    });
    let mut trx = fixture.begin(ReadCommitted);
    fill(&fixture, &mut trx, &one_late()).expect("he ends");
    commit(&fixture, trx);
    over.store(true, Ordering::SeqCst);
    assert_eq!(reader.join().expect("thread"), (0, 0), "the same rows twice");
    let mut trx = fixture.begin(Serializable);
    assert_eq!(rows_around_5(&fixture, &mut trx), 1);
    commit(&fixture, trx);
    fixture.check_table();
}

/// He waits for the load's first row, having passed the place of the late one: all rows but that
/// would be wrong.
#[test]
fn a_late_row_is_not_placed_in_a_range_that_was_read() {
    let fixture = Arc::new(open(SimDisk::new(35), 0));
    let (start, to_start) = mpsc::channel::<()>();
    let shared_fixture = fixture.clone();
    let reader = std::thread::spawn(move || {
        to_start.recv().expect("the moment");
        let mut trx = shared_fixture.begin(Serializable);
        let found = shared_fixture.scan(&mut trx, 0, false, false, Some(LockMode::Shared));
        shared_fixture.engine.rollback(&mut trx).expect("rollback");
        found.map(|rows| rows.len())
    });
    let shared_fixture = fixture.clone();
    at(SyncPoint::LateToBePlaced, move || {
        start.send(()).expect("he is there");
        while !someone_waits(&shared_fixture) {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let mut trx = fixture.begin(ReadCommitted);
    fill(&fixture, &mut trx, &one_late()).expect("the reader has less to lose");
    commit(&fixture, trx);
    assert_eq!(reader.join().expect("thread"), Err(Error::Deadlock));
    fixture.check_table();
}
