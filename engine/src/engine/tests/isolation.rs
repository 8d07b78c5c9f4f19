//! What each isolation level promises, statement by statement; locks, waits and duplicates; what
//! survives a restart.
use super::fixture::*;
use crate::base::{Error, Result};
use crate::btree::Seek;
use crate::engine::Close;
use crate::io::sim::SimDisk;
use crate::table::{LockChoice, OnLocked};
use crate::txn::{Isolation, LockMode, Trx};
use std::time::Duration;
use Isolation::{ReadCommitted, ReadUncommitted, RepeatableRead};

pub(super) const X: Option<LockMode> = Some(LockMode::Exclusive);

pub(super) fn row(group: u8, tag: u16) -> Row {
    Row {
        group,
        shade: 0,
        tag: Some(tag),
        body: vec![group; 20],
    }
}

/// Rows 1, 2, 3 of groups 1, 2, 3 with tags 10, 20, 30.
pub(super) fn filled() -> TableFixture {
    let fixture = TableFixture::create(SimDisk::new(1));
    let mut trx = fixture.begin(ReadCommitted);
    for n in 1..=3u8 {
        fixture.insert(&mut trx, &[n], &row(n, n as u16 * 10)).expect("insert");
    }
    commit(&fixture, trx);
    fixture
}

pub(super) fn commit(fixture: &TableFixture, mut trx: Trx) {
    fixture.engine.commit(&mut trx, false).expect("commit");
}
pub(super) fn rollback(fixture: &TableFixture, mut trx: Trx) {
    fixture.engine.rollback(&mut trx).expect("rollback");
}
/// In a transaction of its own.
fn change(fixture: &TableFixture, pk: u8, old: &Row, new: &Row) {
    let mut trx = fixture.begin(ReadCommitted);
    fixture.update(&mut trx, &[pk], old, new).expect("update");
    commit(fixture, trx);
}
pub(super) fn groups(fixture: &TableFixture, trx: &mut Trx, index: u32, mode: Option<LockMode>) -> Result<Vec<u8>> {
    let found = fixture.scan(trx, index, false, false, mode)?;
    Ok(found.iter().map(|f| Row::decode(&f.row).group).collect())
}

#[test]
fn a_snapshot_does_not_move_and_read_committed_does() {
    let fixture = filled();
    let (mut old, mut young) = (fixture.begin(RepeatableRead), fixture.begin(ReadCommitted));
    for trx in [&mut old, &mut young] {
        assert_eq!(groups(&fixture, trx, BY_GROUP, None), Ok(vec![1, 2, 3]));
    }
    change(&fixture, 2, &row(2, 20), &row(9, 20));
    assert_eq!(groups(&fixture, &mut old, BY_GROUP, None), Ok(vec![1, 2, 3]));
    assert_eq!(groups(&fixture, &mut old, 0, None), Ok(vec![1, 2, 3]));
    fixture.store().trx_sys.visibility.close_view(&mut young);
    assert_eq!(groups(&fixture, &mut young, BY_GROUP, None), Ok(vec![1, 3, 9]));
    commit(&fixture, old);
    commit(&fixture, young);
}

#[test]
fn read_uncommitted_sees_what_may_vanish() {
    let fixture = filled();
    let mut writer = fixture.begin(ReadCommitted);
    let long = Row {
        body: vec![7; 50_000],
        ..row(5, 50)
    };
    fixture.insert(&mut writer, &[5], &long).expect("insert");
    let mut dirty = fixture.begin(ReadUncommitted);
    assert_eq!(groups(&fixture, &mut dirty, 0, None), Ok(vec![1, 2, 3, 5]));
    rollback(&fixture, writer);
    assert_eq!(groups(&fixture, &mut dirty, 0, None), Ok(vec![1, 2, 3]));
    commit(&fixture, dirty);
}

/// A locking read or a write.
type Way = fn(&TableFixture, &mut Trx) -> Result<()>;

/// First committer wins: whatever way the second one comes to the row.
#[test]
fn a_row_changed_since_the_snapshot_is_a_conflict() {
    let ways: [(&str, Way); 6] = [
        ("point read", |fixture, trx| fixture.get(trx, &[2], X).map(|_| ())),
        ("clustered scan", |fixture, trx| groups(fixture, trx, 0, X).map(|_| ())),
        ("scan of the old key", |fixture, trx| {
            groups(fixture, trx, BY_GROUP, X).map(|_| ())
        }),
        ("scan of a key that stayed", |fixture, trx| {
            groups(fixture, trx, BY_TAG, X).map(|_| ())
        }),
        ("blind update", |fixture, trx| {
            fixture.update(trx, &[2], &row(2, 20), &row(4, 20))
        }),
        ("blind delete", |fixture, trx| fixture.delete(trx, &[2], &row(2, 20))),
    ];
    for (what, way) in ways {
        for deleted in [false, true] {
            let fixture = filled();
            let mut late = fixture.begin(RepeatableRead);
            assert_eq!(groups(&fixture, &mut late, 0, None), Ok(vec![1, 2, 3]));
            let mut first = fixture.begin(ReadCommitted);
            if deleted {
                fixture.delete(&mut first, &[2], &row(2, 20)).expect("delete");
            } else {
                fixture
                    .update(&mut first, &[2], &row(2, 20), &row(9, 20))
                    .expect("update");
            }
            commit(&fixture, first);
            assert_eq!(
                way(&fixture, &mut late),
                Err(Error::Conflict),
                "{what}, deleted {deleted}"
            );
            rollback(&fixture, late);
            fixture.check_table();
        }
    }
}

#[test]
fn without_snapshot_isolation_the_newest_row_is_locked() {
    let fixture = filled();
    fixture.engine.set("snapshot_isolation", 0).expect("set");
    let mut late = fixture.begin(RepeatableRead);
    assert_eq!(groups(&fixture, &mut late, 0, None), Ok(vec![1, 2, 3]));
    change(&fixture, 2, &row(2, 20), &row(9, 20));
    assert_eq!(fixture.get(&mut late, &[2], X), Ok(Some(row(9, 20))));
    assert_eq!(groups(&fixture, &mut late, BY_GROUP, X), Ok(vec![1, 3, 9]));
    commit(&fixture, late);
}

/// The scan met the old entry, which another transaction had marked since the snapshot. It took the
/// marker for a transaction that was rolling back, and looked again for ever. The row's newest
/// version was the reader's own, over the other's. Found by a history of many transactions.
#[test]
fn an_entry_marked_since_the_snapshot_is_not_that_of_an_own_newer_version() {
    let fixture = filled();
    fixture.engine.set("snapshot_isolation", 0).expect("set");
    for covering in [false, true] {
        let mut late = fixture.begin(RepeatableRead);
        assert_eq!(groups(&fixture, &mut late, BY_GROUP, None), Ok(vec![1, 2, 3]));
        change(&fixture, 2, &row(2, 20), &row(9, 90));
        let own = Row {
            body: vec![7; 20],
            ..row(9, 90)
        };
        fixture.update(&mut late, &[2], &row(9, 90), &own).expect("update");
        for index in [BY_GROUP, BY_TAG] {
            let found = fixture.scan(&mut late, index, false, covering, None).expect("scan");
            let keys: Vec<&[u8]> = found.iter().map(|f| f.pk.as_slice()).collect();
            assert_eq!(keys, [[1], [3], [2]], "{index}");
        }
        rollback(&fixture, late);
        change(&fixture, 2, &row(9, 90), &row(2, 20));
    }
}

/// A transaction that began with a locking read saw rows appear: only a consistent read took the
/// snapshot, and nothing locks what is not there.
#[test]
fn what_a_locking_read_did_not_find_does_not_appear() {
    let looks: [(&str, Way); 3] = [
        ("point read", |fixture, trx| {
            fixture.get(trx, &[4], X).map(|found| assert_eq!(found, None))
        }),
        ("clustered scan", |fixture, trx| groups(fixture, trx, 0, X).map(|_| ())),
        ("secondary scan", |fixture, trx| {
            groups(fixture, trx, BY_TAG, X).map(|_| ())
        }),
    ];
    for (what, look) in looks {
        let fixture = filled();
        let mut late = fixture.begin(RepeatableRead);
        late.snapshot_by_locking = true;
        look(&fixture, &mut late).expect("no other transaction is active");
        let mut first = fixture.begin(ReadCommitted);
        fixture
            .insert(&mut first, &[4], &row(4, 40))
            .expect("nothing locks the gap");
        commit(&fixture, first);
        assert_eq!(groups(&fixture, &mut late, BY_GROUP, None), Ok(vec![1, 2, 3]), "{what}");
        assert_eq!(groups(&fixture, &mut late, BY_TAG, X), Err(Error::Conflict), "{what}");
        rollback(&fixture, late);
        // A row that was found by its key is locked: no snapshot is needed, and others may be
        // changed meanwhile.
        let mut late = fixture.begin(RepeatableRead);
        late.snapshot_by_locking = true;
        assert!(fixture.get(&mut late, &[1], X).expect("free").is_some());
        change(&fixture, 3, &row(3, 30), &row(9, 30));
        assert_eq!(fixture.get(&mut late, &[3], X), Ok(Some(row(9, 30))));
        commit(&fixture, late);
    }
}

/// A transaction that waits at its first locking read goes on with what the other left: it has seen
/// nothing yet that could contradict this.
#[test]
fn a_first_locking_read_that_waited_is_no_conflict() {
    let ways: [(&str, Way); 3] = [
        ("clustered scan", |fixture, trx| groups(fixture, trx, 0, X).map(|_| ())),
        ("scan of the old key", |fixture, trx| {
            groups(fixture, trx, BY_GROUP, X).map(|found| assert_eq!(found, [2, 3, 9]))
        }),
        ("point read of what goes", |fixture, trx| {
            assert_eq!(fixture.get(trx, &[7], X), Ok(None));
            fixture.get(trx, &[1], X).map(|_| ())
        }),
    ];
    for (what, way) in ways {
        let fixture = filled();
        let mut holder = fixture.begin(ReadCommitted);
        fixture
            .update(&mut holder, &[1], &row(1, 10), &row(9, 10))
            .expect("update");
        let waited = std::thread::scope(|s| {
            let fixture = &fixture;
            let waiter = s.spawn(move || {
                let mut trx = fixture.begin(RepeatableRead);
                trx.snapshot_by_locking = true;
                let result = way(fixture, &mut trx);
                rollback(fixture, trx);
                result
            });
            while fixture.engine.counters().row_lock_current_waits.get() == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            commit(fixture, holder);
            waiter.join().expect("the waiter")
        });
        let expected = if what.starts_with("point") {
            Err(Error::Conflict)
        } else {
            Ok(())
        };
        assert_eq!(waited, expected, "{what}");
        fixture.check_table();
    }
}

/// A change that was rolled back is no conflict.
#[test]
fn a_rolled_back_change_leaves_no_conflict() {
    let fixture = filled();
    let mut late = fixture.begin(RepeatableRead);
    assert_eq!(groups(&fixture, &mut late, 0, None), Ok(vec![1, 2, 3]));
    let mut other = fixture.begin(ReadCommitted);
    fixture
        .update(&mut other, &[2], &row(2, 20), &row(9, 90))
        .expect("update");
    fixture.delete(&mut other, &[3], &row(3, 30)).expect("delete");
    fixture.insert(&mut other, &[4], &row(4, 40)).expect("insert");
    rollback(&fixture, other);
    for index in [0, BY_GROUP, BY_TAG] {
        assert_eq!(groups(&fixture, &mut late, index, X), Ok(vec![1, 2, 3]));
    }
    commit(&fixture, late);
}

#[test]
fn nowait_refuses_and_skip_locked_skips() {
    let fixture = filled();
    let mut holder = fixture.begin(ReadCommitted);
    assert!(fixture.get(&mut holder, &[2], X).expect("lock").is_some());
    fixture.insert(&mut holder, &[4], &row(4, 40)).expect("insert");
    for index in [0, BY_GROUP] {
        let mut other = fixture.begin(ReadCommitted);
        let mut cursor = fixture.store().cursor(fixture.table.clone());
        let skip = LockChoice {
            mode: X,
            on_locked: OnLocked::Skip,
            ..Default::default()
        };
        cursor.begin(&mut other, index, skip, false).expect("begin");
        let mut seen = Vec::new();
        let mut more = cursor.seek(&mut other, Seek::First, &[]).expect("seek");
        while more {
            seen.push(cursor.found().expect("row").pk[0]);
            more = cursor.next(&mut other).expect("next");
        }
        assert_eq!(seen, [1, 3]);
        let refuse = LockChoice {
            mode: X,
            on_locked: OnLocked::Refuse,
            ..Default::default()
        };
        assert_eq!(cursor.get(&mut other, &[2], refuse), Err(Error::Locked));
        commit(&fixture, other);
    }
    commit(&fixture, holder);
}

/// Groups of all rows as an UPDATE reads them that matches none, and which of them were not locked
/// for it.
pub fn semi_consistent(fixture: &TableFixture, trx: &mut Trx) -> Vec<(u8, bool)> {
    let mut cursor = fixture.store().cursor(fixture.table.clone());
    cursor.set_semi_consistent(true);
    let lock = LockChoice {
        mode: X,
        ..Default::default()
    };
    cursor.begin(trx, 0, lock, false).expect("begin");
    let mut seen = Vec::new();
    let mut more = cursor.seek(trx, Seek::First, &[]).expect("seek");
    while more {
        let group = Row::decode(cursor.found().expect("row").row).group;
        seen.push((group, cursor.was_semi_consistent()));
        cursor.unlock_row(trx);
        more = cursor.next(trx).expect("next");
    }
    seen
}

/// UPDATE ... WHERE at READ COMMITTED looks at the committed version of a locked row before it
/// waits for it.
#[test]
fn a_semi_consistent_read_shows_the_committed_version() {
    let fixture = filled();
    let mut holder = fixture.begin(ReadCommitted);
    fixture
        .update(&mut holder, &[2], &row(2, 20), &row(9, 20))
        .expect("update");
    let mut other = fixture.begin(ReadCommitted);
    let seen = semi_consistent(&fixture, &mut other);
    assert_eq!(seen, [(1, false), (2, true), (3, false)]);
    // The rows that did not match were given back.
    let mut third = fixture.begin(ReadCommitted);
    assert!(fixture.get(&mut third, &[1], X).expect("free").is_some());
    for trx in [third, other, holder] {
        commit(&fixture, trx);
    }
}

/// An insert waits for the holder of the same key, clustered or unique, and for how that
/// transaction ends.
#[test]
fn a_duplicate_waits_for_the_first_ones_end() {
    for (first_commits, same_pk) in [(false, true), (true, true), (false, false), (true, false)] {
        let fixture = filled();
        let mut first = fixture.begin(ReadCommitted);
        fixture.insert(&mut first, &[7], &row(7, 70)).expect("insert");
        let second = std::thread::scope(|s| {
            let fixture = &fixture;
            let second = s.spawn(move || {
                let mut trx = fixture.begin(ReadCommitted);
                let pk = if same_pk { [7] } else { [8] };
                let result = fixture.insert(&mut trx, &pk, &row(8, 70));
                commit(fixture, trx);
                result
            });
            while fixture.engine.counters().row_lock_current_waits.get() == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            if first_commits {
                commit(fixture, first);
            } else {
                rollback(fixture, first);
            }
            second.join().expect("second")
        });
        let index = if same_pk { 0 } else { BY_TAG };
        if first_commits {
            assert_eq!(second, Err(Error::Duplicate { index, pk: vec![7] }));
        } else {
            assert_eq!(second, Ok(()));
        }
        fixture.check_table();
    }
}

#[test]
fn a_snapshot_does_not_look_behind_ddl() {
    let fixture = filled();
    let mut old = fixture.begin(RepeatableRead);
    fixture.store().trx_sys.visibility.open_view(&mut old);
    fixture.store().tables().truncate_table("t").expect("truncate");
    assert_eq!(groups(&fixture, &mut old, 0, None), Err(Error::TableChanged));
    commit(&fixture, old);
    let mut young = fixture.begin(RepeatableRead);
    assert_eq!(groups(&fixture, &mut young, 0, None), Ok(vec![]));
    commit(&fixture, young);
}

#[test]
fn a_failed_row_operation_leaves_nothing() {
    let fixture = filled();
    let mut trx = fixture.begin(ReadCommitted);
    let before = fixture.store().rollbacks().savepoint(&trx);
    let taken = Row {
        tag: Some(30),
        ..row(2, 20)
    };
    let duplicate = Err(Error::Duplicate {
        index: BY_TAG,
        pk: vec![3],
    });
    assert_eq!(fixture.update(&mut trx, &[2], &row(2, 20), &taken), duplicate);
    assert_eq!(
        fixture.insert(
            &mut trx,
            &[4],
            &Row {
                tag: Some(30),
                ..row(4, 40)
            }
        ),
        duplicate
    );
    assert_eq!(fixture.move_row(&mut trx, &[2], &row(2, 20), &[5], &taken), duplicate);
    assert_eq!(fixture.store().rollbacks().savepoint(&trx), before);
    assert_eq!(fixture.get(&mut trx, &[2], None), Ok(Some(row(2, 20))));
    commit(&fixture, trx);
    fixture.check_table();
}

#[test]
fn prepared_transactions_and_counters_survive_a_restart() {
    let disk = SimDisk::new(2);
    let fixture = TableFixture::create(disk.clone());
    let xid = |n: u8| xid(&[n]);
    fixture.table.autoinc_raise(41);
    let mut prepared = Vec::new();
    for n in 1..=2u8 {
        let mut trx = fixture.begin(ReadCommitted);
        fixture.insert(&mut trx, &[n], &row(n, n as u16)).expect("insert");
        fixture.engine.prepare(&mut trx, &xid(n)).expect("prepare");
        assert_eq!(fixture.is_in_doubt(&fixture.table.name(), false), Ok(n > 1));
        fixture.engine.in_doubt.may_outlive_connection(&mut trx);
        assert_eq!(fixture.is_in_doubt(&fixture.table.name(), false), Ok(true));
        prepared.push(trx);
    }
    let after = disk.crash(3);
    std::mem::forget(prepared);
    drop(fixture);
    let fixture = TableFixture::reopen(after).expect("recovery");
    fixture.engine.start_background();
    assert_eq!(fixture.table.autoinc(), 41);
    assert_eq!(fixture.engine.in_doubt.prepared().len(), 2);
    let mut reader = fixture.begin(RepeatableRead);
    assert_eq!(groups(&fixture, &mut reader, 0, None), Ok(vec![]));
    commit(&fixture, reader);
    fixture.engine.decide(&xid(1), true).expect("commit");
    assert_eq!(fixture.is_in_doubt(&fixture.table.name(), false), Ok(true));
    assert_eq!(fixture.is_in_doubt("another", false), Ok(false));
    fixture.engine.decide(&xid(2), false).expect("rollback");
    assert_eq!(fixture.is_in_doubt(&fixture.table.name(), true), Ok(false));
    assert_eq!(fixture.engine.decide(&xid(2), false), Err(Error::NotFound));
    let mut reader = fixture.begin(RepeatableRead);
    assert_eq!(groups(&fixture, &mut reader, BY_TAG, None), Ok(vec![1]));
    commit(&fixture, reader);
    fixture.check_table();
    fixture.engine.close(Close::Slow).expect("close");
}
