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
