//! What other threads do between two steps of a read, at a [`SyncPoint`]: a run of threads meets it
//! once in hours. And what a serializable read prevents at the end of its range.
use super::fixture::*;
use super::isolation::*;
use super::load_new_table;
use crate::base::sync_point::at;
use crate::base::{Error, SyncPoint};
use crate::btree::Seek;
use crate::io::sim::SimDisk;
use crate::table::LockChoice;
use crate::txn::Isolation::{ReadCommitted, RepeatableRead, Serializable};
use crate::txn::{LockMode, ThreadWaiter, Trx};
use std::sync::Arc;

/// Found by the isolation checker, once in 250,000 commits. A locking read copied an entry with a
/// mark, and the transaction that had set it took the mark back and ended. The read then saw a mark
/// of a transaction that is not active, and took it for one that stays.
#[test]
fn a_mark_that_is_taken_back_meanwhile_hides_no_row() {
    for (index, level) in [
        (0, ReadCommitted),
        (BY_GROUP, ReadCommitted),
        (BY_GROUP, RepeatableRead),
        (BY_TAG, Serializable),
    ] {
        for buffering in [0, 2] {
            let fixture = Arc::new(filled());
            fixture.buffer_by(buffering);
            let mut other = fixture.begin(ReadCommitted);
            fixture.delete(&mut other, &[2], &row(2, 20)).expect("delete");
            at(SyncPoint::EntryCopied, || ());
            let shared_fixture = fixture.clone();
            at(SyncPoint::EntryCopied, move || rollback(&shared_fixture, other));
            let mut trx = fixture.begin(level);
            trx.lock_wait_timeout_ms = 10_000;
            assert_eq!(
                groups(&fixture, &mut trx, index, X),
                Ok(vec![1, 2, 3]),
                "index {index}, {level:?}"
            );
            commit(&fixture, trx);
            fixture.check_table();
        }
    }
}

/// A writer does something twice and goes back to its savepoint in between, while a snapshot is
/// read by the entries of both times. The row of the time in between was handed out for an entry of
/// another key, and twice. A loaded row was left out.
#[test]
fn what_is_undone_and_done_again_meanwhile_shows_each_row_once() {
    for (loaded, deletes, buffering) in [0, 1, 2, 3, 4, 5, 6, 7].map(|n| (n & 1 > 0, n & 2 > 0, n as u64 >> 2 << 1)) {
        let fixture = Arc::new(if loaded {
            let fixture = load_new_table::open(SimDisk::new(1), 0);
            let rows: Vec<_> = (1..=3u8).map(|n| (vec![n], row(n, n as u16 * 10))).collect();
            load_new_table::load_all(&fixture, &rows).expect("load");
            fixture
        } else {
            filled()
        });
        fixture.buffer_by(buffering);
        let change = move |fixture: &TableFixture, trx: &mut Trx| match deletes {
            true => fixture.delete(trx, &[2], &row(2, 20)).expect("delete"),
            false => fixture.update(trx, &[2], &row(2, 20), &row(9, 20)).expect("update"),
        };
        let mut other = fixture.begin(ReadCommitted);
        let savepoint = fixture.store().rollbacks().savepoint(&other);
        change(&fixture, &mut other);
        let mut trx = fixture.begin(RepeatableRead);
        let mut cursor = fixture.store().cursor(fixture.table.clone());
        cursor
            .begin(&mut trx, BY_GROUP, LockChoice::default(), false)
            .expect("begin");
        cursor.expect(16);
        let mut seen = Vec::new();
        let mut more = cursor.seek(&mut trx, Seek::First, &[]).expect("seek");
        fixture
            .store()
            .rollbacks()
            .rollback_to(&mut other, savepoint)
            .expect("rollback");
        let mut again = Some(other);
        while more {
            seen.push(Row::decode(cursor.found().expect("row").row).group);
            // Before the entry that the change marked is looked at, or after it.
            let now = seen.len() == if deletes { 1 } else { 3 };
            if let Some(mut other) = again.take_if(|_| now) {
                let shared_fixture = fixture.clone();
                at(SyncPoint::RowOfEntryCopied, move || {
                    change(&shared_fixture, &mut other);
                    commit(&shared_fixture, other);
                });
            }
            more = cursor.next(&mut trx).expect("next");
        }
        assert_eq!(seen, [1, 2, 3], "loaded: {loaded}, deletes: {deletes}, {buffering}");
        drop(cursor);
        commit(&fixture, trx);
        fixture.check_table();
    }
}

/// Changes row 3 between the two looks of a read at an entry and its row, so many times. At last
/// kills the reader, if one is given.
fn touch_leaf(fixture: Arc<TableFixture>, tag: u16, times: u32, reader: Option<Arc<ThreadWaiter>>) {
    at(SyncPoint::RowOfEntryCopied, move || {
        let mut other = fixture.begin(ReadCommitted);
        fixture
            .update(&mut other, &[3], &row(3, tag), &row(3, tag + 1))
            .expect("update");
        commit(&fixture, other);
        match (times > 1, reader) {
            (true, reader) => touch_leaf(fixture, tag + 1, times - 1, reader),
            (false, Some(reader)) => {
                reader.kill();
                touch_leaf(fixture, tag + 1, 1, None);
            }
            (false, None) => {}
        }
    });
}

/// A read goes from an entry to its row while other threads change the row's leaf. The read ends
/// when they pause for the time of two looks, and by KILL.
#[test]
fn a_read_beside_changes_of_the_leaf_ends() {
    for killed in [false, true] {
        let fixture = Arc::new(filled());
        let waiter = Arc::new(ThreadWaiter::new());
        let mut trx = fixture.engine.new_trx(waiter.clone(), 0);
        fixture.engine.start(&mut trx, RepeatableRead, 1000);
        fixture.store().trx_sys.visibility.open_view(&mut trx);
        let mut other = fixture.begin(ReadCommitted);
        fixture
            .update(&mut other, &[2], &row(2, 20), &row(9, 20))
            .expect("update");
        rollback(&fixture, other);
        touch_leaf(fixture.clone(), 30, 20, killed.then_some(waiter));
        let seen = groups(&fixture, &mut trx, BY_GROUP, None);
        let expected = if killed {
            Err(Error::Interrupted)
        } else {
            Ok(vec![1, 2, 3])
        };
        assert_eq!(seen, expected);
        fixture.engine.rollback(&mut trx).expect("rollback");
        fixture.check_table();
    }
}

/// The same where a semi-consistent read looks at the newest version.
#[test]
fn a_version_that_is_taken_back_meanwhile_is_not_shown() {
    let fixture = Arc::new(filled());
    let mut holder = fixture.begin(ReadCommitted);
    fixture
        .update(&mut holder, &[2], &row(2, 20), &row(9, 20))
        .expect("update");
    let shared_fixture = fixture.clone();
    at(SyncPoint::VersionCopied, move || rollback(&shared_fixture, holder));
    let mut other = fixture.begin(ReadCommitted);
    let seen = semi_consistent(&fixture, &mut other)
        .into_iter()
        .map(|(group, _)| group);
    assert!(seen.eq([1, 2, 3]));
    commit(&fixture, other);
}

/// ... and one that has committed meanwhile is shown as it is then, or as it was before: not as it
/// was in between.
#[test]
fn a_version_between_two_of_one_transaction_is_not_shown() {
    let fixture = Arc::new(filled());
    for deletes in [false, true] {
        let mut holder = fixture.begin(ReadCommitted);
        if deletes {
            fixture.delete(&mut holder, &[2], &row(2, 20)).expect("delete");
            fixture.insert(&mut holder, &[2], &row(2, 20)).expect("insert");
        } else {
            fixture
                .update(&mut holder, &[2], &row(2, 20), &row(9, 20))
                .expect("update");
            fixture
                .update(&mut holder, &[2], &row(9, 20), &row(2, 20))
                .expect("update");
        }
        let shared_fixture = fixture.clone();
        at(SyncPoint::SteppedBack, move || commit(&shared_fixture, holder));
        let mut other = fixture.begin(ReadCommitted);
        let seen = semi_consistent(&fixture, &mut other)
            .into_iter()
            .map(|(group, _)| group);
        assert!(seen.eq([1, 2, 3]));
        commit(&fixture, other);
    }
}

/// ... and where an insert looks for its unique value: it was there twice.
#[test]
fn a_unique_value_that_comes_back_meanwhile_is_in_the_way() {
    let fixture = Arc::new(filled());
    fixture.buffer_by(0);
    let mut other = fixture.begin(ReadCommitted);
    fixture
        .update(&mut other, &[2], &row(2, 20), &row(2, 25))
        .expect("update");
    let shared_fixture = fixture.clone();
    at(SyncPoint::RivalMet, move || {
        // The leaf is latched here: what is pending needs it not.
        std::thread::spawn(move || rollback(&shared_fixture, other))
            .join()
            .expect("rolled back");
    });
    let mut trx = fixture.begin(ReadCommitted);
    let duplicate = Err(Error::Duplicate {
        index: BY_TAG,
        pk: vec![2],
    });
    assert_eq!(fixture.insert(&mut trx, &[4], &row(4, 20)), duplicate);
    commit(&fixture, trx);
    fixture.check_table();
}

/// The insert looked at a rival's row and unlocked it. It still relied on that after a wait for
/// another row: the value was there twice.
#[test]
fn what_a_row_showed_is_forgotten_when_it_is_unlocked() {
    let fixture = Arc::new(filled());
    let mut trx = fixture.begin(ReadCommitted);
    fixture
        .update(&mut trx, &[2], &row(2, 20), &row(2, 25))
        .expect("value 20 is free for us");
    let savepoint = fixture.store().rollbacks().savepoint(&trx);
    fixture.update(&mut trx, &[1], &row(1, 10), &row(1, 20)).expect("taken");
    fixture
        .store()
        .rollbacks()
        .rollback_to(&mut trx, savepoint)
        .expect("and given back");
    let shared_fixture = fixture.clone();
    let other = std::thread::spawn(move || {
        let mut other = shared_fixture.begin(ReadCommitted);
        let inserted = shared_fixture.insert(&mut other, &[4], &row(4, 20));
        commit(&shared_fixture, other);
        inserted
    });
    await_waiter(&fixture);
    fixture
        .update(&mut trx, &[1], &row(1, 10), &row(1, 20))
        .expect("taken again");
    commit(&fixture, trx);
    let duplicate = Error::Duplicate {
        index: BY_TAG,
        pk: vec![1],
    };
    assert_eq!(other.join().expect("no panic"), Err(duplicate));
    fixture.check_table();
}

fn await_waiter(fixture: &TableFixture) {
    while fixture.engine.counters().row_lock_current_waits.get() == 0 {
        std::thread::yield_now();
    }
}

/// The same of a row that was gone, and came again.
#[test]
fn a_row_that_was_gone_is_asked_again() {
    let fixture = Arc::new(filled());
    fixture.buffer_by(0);
    let mut other = fixture.begin(ReadCommitted);
    let savepoint = fixture.store().rollbacks().savepoint(&other);
    fixture.insert(&mut other, &[0], &row(0, 50)).expect("insert");
    let (send, receive) = std::sync::mpsc::channel();
    let shared_fixture = fixture.clone();
    at(SyncPoint::RivalMet, move || {
        let undo = move || {
            shared_fixture
                .store()
                .rollbacks()
                .rollback_to(&mut other, savepoint)
                .expect("rollback");
            other
        };
        // The leaf is latched here.
        send.send(std::thread::spawn(undo).join().expect("no panic"))
            .expect("received");
    });
    let shared_fixture = fixture.clone();
    at(SyncPoint::RivalLocked, move || {
        let mut other = receive.recv().expect("sent");
        shared_fixture
            .insert(&mut other, &[0], &row(0, 50))
            .expect("insert again");
        let ends = shared_fixture.clone();
        std::thread::spawn(move || {
            await_waiter(&ends);
            commit(&ends, other);
        });
    });
    let mut trx = fixture.begin(ReadCommitted);
    trx.lock_wait_timeout_ms = 10_000;
    let duplicate = Err(Error::Duplicate {
        index: BY_TAG,
        pk: vec![0],
    });
    assert_eq!(fixture.insert(&mut trx, &[4], &row(4, 50)), duplicate);
    commit(&fixture, trx);
    fixture.check_table();
}

fn long(n: u8) -> Row {
    Row {
        body: vec![n; 3 * crate::pool::PAGE_SIZE],
        ..row(2, 20)
    }
}
/// Row 2 has been long, and a transaction that is not over made it short.
fn shortened(fixture: &TableFixture) -> Trx {
    let mut trx = fixture.begin(ReadCommitted);
    fixture.update(&mut trx, &[2], &row(2, 20), &long(1)).expect("update");
    commit(fixture, trx);
    fixture.purge_all();
    let mut trx = fixture.begin(ReadCommitted);
    fixture.update(&mut trx, &[2], &long(1), &row(9, 20)).expect("update");
    trx
}
/// No reader needs the long version any more: its pages are freed and used again.
fn reuse_pages(fixture: &TableFixture) {
    fixture.purge_all();
    let mut other = fixture.begin(ReadCommitted);
    let again = Row { tag: None, ..long(7) };
    fixture.insert(&mut other, &[7], &again).expect("insert");
    commit(fixture, other);
}
/// Row 2, as a semi-consistent read shows it.
fn row_2(fixture: &TableFixture) -> Row {
    let mut trx = fixture.begin(ReadCommitted);
    let mut cursor = fixture.store().cursor(fixture.table.clone());
    cursor.set_semi_consistent(true);
    let lock = LockChoice {
        mode: X,
        ..Default::default()
    };
    cursor.begin(&mut trx, 0, lock, false).expect("begin");
    assert!(cursor.seek(&mut trx, Seek::Ge, &[2]).expect("seek"));
    assert!(cursor.was_semi_consistent());
    let row = Row::decode(cursor.found().expect("row").row);
    drop(cursor);
    commit(fixture, trx);
    row
}

/// A semi-consistent read had found the version of a long row, and its pages were freed before it
/// read them.
#[test]
fn what_a_semi_consistent_read_has_found_stays_until_it_is_read() {
    let fixture = Arc::new(filled());
    let holder = shortened(&fixture);
    let shared_fixture = fixture.clone();
    at(SyncPoint::CommittedVersionFound, move || {
        commit(&shared_fixture, holder);
        reuse_pages(&shared_fixture);
    });
    assert_eq!(row_2(&fixture), long(1));
    fixture.purge_all();
    fixture.check_table();
}

/// ... whose transaction had left the state that views are made of. The read asked whether that
/// transaction was active when the view was made.
#[test]
fn a_version_whose_maker_is_about_to_end_is_the_newest() {
    let fixture = Arc::new(filled());
    let mut older = fixture.begin(ReadCommitted);
    fixture.insert(&mut older, &[8], &row(8, 80)).expect("insert");
    let holder = shortened(&fixture);
    let (found, is_found) = std::sync::mpsc::channel();
    let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
    let shared_fixture = fixture.clone();
    let read = move || {
        at(SyncPoint::CommittedVersionFound, move || {
            found.send(()).expect("awaited");
            may_go_on.recv().expect("sent");
        });
        row_2(&shared_fixture)
    };
    let (send, reader) = std::sync::mpsc::channel();
    at(SyncPoint::EndSeen, move || {
        send.send(std::thread::spawn(read)).expect("received");
        is_found.recv().expect("it comes so far");
    });
    commit(&fixture, holder);
    reuse_pages(&fixture);
    go_on.send(()).expect("awaited");
    let seen = reader.recv().expect("sent").join().expect("no panic");
    assert_eq!(seen, row(9, 20));
    commit(&fixture, older);
    fixture.purge_all();
    fixture.check_table();
}

/// The entry that an active transaction has left of a row that is gone does not block an insert.
#[test]
fn a_dead_entry_of_a_gone_row_blocks_no_insert() {
    let fixture = filled();
    let mut trx = fixture.begin(ReadCommitted);
    fixture.delete(&mut trx, &[2], &row(2, 20)).expect("delete");
    commit(&fixture, trx);
    let mut holder = fixture.begin(ReadCommitted);
    let savepoint = fixture.store().rollbacks().savepoint(&holder);
    fixture
        .insert(&mut holder, &[2], &row(2, 50))
        .expect("over the deleted one");
    fixture
        .store()
        .rollbacks()
        .rollback_to(&mut holder, savepoint)
        .expect("rollback");
    let mut trx = fixture.begin(ReadCommitted);
    trx.lock_wait_timeout_ms = 1;
    fixture.insert(&mut trx, &[4], &row(4, 50)).expect("without a wait");
    for trx in [trx, holder] {
        commit(&fixture, trx);
    }
    fixture.purge_all();
    fixture.check_table();
}

/// A range that is read from its end has its last gap, too, also where the range has a lower bound
/// only.
#[test]
fn a_serializable_read_from_the_end_keeps_out_what_would_come_last() {
    for bound in [&[][..], &[b'g', 2][..]] {
        let fixture = filled();
        let mut reader = fixture.begin(Serializable);
        let mut cursor = fixture.store().cursor(fixture.table.clone());
        let lock = LockChoice {
            mode: Some(LockMode::Shared),
            ..Default::default()
        };
        cursor.begin(&mut reader, BY_GROUP, lock, false).expect("begin");
        cursor.set_bounds(bound, None);
        assert!(cursor.seek(&mut reader, Seek::Last, &[]).expect("seek"));
        let mut other = fixture.begin(ReadCommitted);
        other.lock_wait_timeout_ms = 1;
        assert_eq!(
            fixture.insert(&mut other, &[9], &row(9, 90)),
            Err(Error::LockWaitTimeout),
            "{bound:?}"
        );
        drop(cursor);
        for trx in [other, reader] {
            commit(&fixture, trx);
        }
    }
}
