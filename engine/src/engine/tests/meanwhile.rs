//! What others do between two steps of a read, at a [`Moment`]: in a run of threads that is met once in hours. And what a serializable
//! read keeps them from doing at the end of its range.
use super::isolation::*;
use super::rig::*;
use crate::base::moment::at;
use crate::base::{Error, Moment};
use crate::btree::Seek;
use crate::table::{Cursor, LockChoice};
use crate::txn::Isolation::{ReadCommitted, RepeatableRead, Serializable};
use crate::txn::LockMode;
use std::sync::Arc;

/// Found by the isolation checker, once in 250,000 commits: a locking read copied an entry with a mark, its maker took the mark back and ended,
/// and the read then took the mark of somebody who is not active for one that stays.
#[test]
fn a_mark_that_is_taken_back_meanwhile_hides_no_row() {
    for (index, level) in [
        (0, ReadCommitted),
        (BY_GROUP, ReadCommitted),
        (BY_GROUP, RepeatableRead),
        (BY_TAG, Serializable),
    ] {
        for buffering in [0, 2] {
            let rig = Arc::new(filled());
            rig.buffer_by(buffering);
            let mut other = rig.begin(ReadCommitted);
            rig.delete(&mut other, &[2], &row(2, 20)).expect("delete");
            at(Moment::EntryCopied, || ());
            let his = rig.clone();
            at(Moment::EntryCopied, move || rollback(&his, other));
            let mut trx = rig.begin(level);
            trx.lock_wait_timeout_ms = 10_000;
            assert_eq!(
                groups(&rig, &mut trx, index, X),
                Ok(vec![1, 2, 3]),
                "index {index}, {level:?}"
            );
            commit(&rig, trx);
            rig.check_table();
        }
    }
}

/// The same where a semi-consistent read looks at the newest version.
#[test]
fn a_version_that_is_taken_back_meanwhile_is_not_shown() {
    let rig = Arc::new(filled());
    let mut holder = rig.begin(ReadCommitted);
    rig.update(&mut holder, &[2], &row(2, 20), &row(9, 20)).expect("update");
    let his = rig.clone();
    at(Moment::VersionCopied, move || rollback(&his, holder));
    let mut other = rig.begin(ReadCommitted);
    let seen = semi_consistent(&rig, &mut other).into_iter().map(|(group, _)| group);
    assert!(seen.eq([1, 2, 3]));
    commit(&rig, other);
}

/// ... and where an insert looks for its unique value: it was there twice.
#[test]
fn a_unique_value_that_comes_back_meanwhile_is_in_the_way() {
    let rig = Arc::new(filled());
    rig.buffer_by(0);
    let mut other = rig.begin(ReadCommitted);
    rig.update(&mut other, &[2], &row(2, 20), &row(2, 25)).expect("update");
    let his = rig.clone();
    at(Moment::RivalMet, move || {
        // The leaf is latched here: what is pending needs it not.
        std::thread::spawn(move || rollback(&his, other))
            .join()
            .expect("rolled back");
    });
    let mut trx = rig.begin(ReadCommitted);
    let duplicate = Err(Error::Duplicate {
        index: BY_TAG,
        pk: vec![2],
    });
    assert_eq!(rig.insert(&mut trx, &[4], &row(4, 20)), duplicate);
    commit(&rig, trx);
    rig.check_table();
}

/// A rival's row was asked and let go, and its answer still believed after a wait for another: the value was there twice.
#[test]
fn what_a_row_told_is_forgotten_when_it_is_unlocked() {
    let rig = Arc::new(filled());
    let mut trx = rig.begin(ReadCommitted);
    rig.update(&mut trx, &[2], &row(2, 20), &row(2, 25))
        .expect("value 20 is free for us");
    let savepoint = rig.store().savepoint(&trx);
    rig.update(&mut trx, &[1], &row(1, 10), &row(1, 20)).expect("taken");
    rig.store().rollback_to(&mut trx, savepoint).expect("and given back");
    let his = rig.clone();
    let other = std::thread::spawn(move || {
        let mut other = his.begin(ReadCommitted);
        let inserted = his.insert(&mut other, &[4], &row(4, 20));
        commit(&his, other);
        inserted
    });
    await_waiter(&rig);
    rig.update(&mut trx, &[1], &row(1, 10), &row(1, 20))
        .expect("taken again");
    commit(&rig, trx);
    let duplicate = Error::Duplicate {
        index: BY_TAG,
        pk: vec![1],
    };
    assert_eq!(other.join().expect("no panic"), Err(duplicate));
    rig.check_table();
}

fn await_waiter(rig: &Rig) {
    while rig.engine.counters().row_lock_current_waits.get() == 0 {
        std::thread::yield_now();
    }
}

/// The same of a row that was gone, and came again.
#[test]
fn a_row_that_was_gone_is_asked_again() {
    let rig = Arc::new(filled());
    rig.buffer_by(0);
    let mut other = rig.begin(ReadCommitted);
    let savepoint = rig.store().savepoint(&other);
    rig.insert(&mut other, &[0], &row(0, 50)).expect("insert");
    let (send, receive) = std::sync::mpsc::channel();
    let his = rig.clone();
    at(Moment::RivalMet, move || {
        let undo = move || {
            his.store().rollback_to(&mut other, savepoint).expect("rollback");
            other
        };
        // The leaf is latched here.
        send.send(std::thread::spawn(undo).join().expect("no panic"))
            .expect("received");
    });
    let his = rig.clone();
    at(Moment::RivalLocked, move || {
        let mut other = receive.recv().expect("sent");
        his.insert(&mut other, &[0], &row(0, 50)).expect("insert again");
        let ends = his.clone();
        std::thread::spawn(move || {
            await_waiter(&ends);
            commit(&ends, other);
        });
    });
    let mut trx = rig.begin(ReadCommitted);
    trx.lock_wait_timeout_ms = 10_000;
    let duplicate = Err(Error::Duplicate {
        index: BY_TAG,
        pk: vec![0],
    });
    assert_eq!(rig.insert(&mut trx, &[4], &row(4, 50)), duplicate);
    commit(&rig, trx);
    rig.check_table();
}

/// A semi-consistent read had found the version of a long row, and its pages were freed before it read them.
#[test]
fn what_a_semi_consistent_read_has_found_stays_until_it_is_read() {
    let rig = Arc::new(filled());
    let long = |n: u8| Row {
        body: vec![n; 3 * crate::pool::PAGE_SIZE],
        ..row(2, 20)
    };
    let mut trx = rig.begin(ReadCommitted);
    rig.update(&mut trx, &[2], &row(2, 20), &long(1)).expect("update");
    commit(&rig, trx);
    rig.purge_all();
    let mut holder = rig.begin(ReadCommitted);
    let moved = Row { group: 9, ..row(2, 20) };
    rig.update(&mut holder, &[2], &long(1), &moved).expect("update");
    let his = rig.clone();
    at(Moment::CommittedVersionFound, move || {
        commit(&his, holder);
        his.purge_all();
        let mut other = his.begin(ReadCommitted);
        his.insert(
            &mut other,
            &[7],
            &Row {
                group: 7,
                tag: None,
                ..long(7)
            },
        )
        .expect("its pages are used again");
        commit(&his, other);
    });
    let mut other = rig.begin(ReadCommitted);
    let mut cursor = Cursor::new(rig.store().clone(), rig.table.clone());
    cursor.set_semi_consistent(true);
    let lock = LockChoice {
        mode: X,
        ..Default::default()
    };
    cursor.begin(&mut other, 0, lock, false).expect("begin");
    assert!(cursor.seek(&mut other, Seek::Ge, &[2]).expect("seek"));
    assert!(cursor.was_semi_consistent());
    assert_eq!(Row::decode(cursor.found().expect("row").row), long(1));
    drop(cursor);
    commit(&rig, other);
    rig.purge_all();
    rig.check_table();
}

/// A range that is read from its end has its last gap, too, also where the range has a lower bound only.
#[test]
fn a_serializable_read_from_the_end_keeps_out_what_would_come_last() {
    for bound in [&[][..], &[b'g', 2][..]] {
        let rig = filled();
        let mut reader = rig.begin(Serializable);
        let mut cursor = Cursor::new(rig.store().clone(), rig.table.clone());
        let lock = LockChoice {
            mode: Some(LockMode::Shared),
            ..Default::default()
        };
        cursor.begin(&mut reader, BY_GROUP, lock, false).expect("begin");
        cursor.set_bounds(bound, None);
        assert!(cursor.seek(&mut reader, Seek::Last, &[]).expect("seek"));
        let mut other = rig.begin(ReadCommitted);
        other.lock_wait_timeout_ms = 1;
        assert_eq!(
            rig.insert(&mut other, &[9], &row(9, 90)),
            Err(Error::LockWaitTimeout),
            "{bound:?}"
        );
        drop(cursor);
        for trx in [other, reader] {
            commit(&rig, trx);
        }
    }
}
