//! Tables and indexes that are newer than a snapshot. A statement that would lock or change rows by
//! them is refused, as a consistent read is.
use super::change_buffer::rebuild_by_group;
use super::fixture::*;
use super::isolation::{commit, filled, groups, rollback, row, X};
use super::load_new_table::load_all;
use crate::base::{Error, Result};
use crate::table::NewRow;
use crate::txn::{Isolation, LockMode, Trx};
use Isolation::{ReadCommitted, RepeatableRead, Serializable};

const S: Option<LockMode> = Some(LockMode::Shared);

/// What makes the table anew, and the groups that are in it then.
type Remake = (&'static str, fn(&TableFixture), &'static [u8]);

const REMAKES: [Remake; 2] = [("truncated", truncate, &[]), ("copied", copy, &[1, 2, 9])];

fn truncate(fixture: &TableFixture) {
    fixture.store().tables().truncate_table("t").expect("truncate");
}
/// Row 3 has changed, and nothing tells that: the rows of a copy have no maker.
fn copy(fixture: &TableFixture) {
    truncate(fixture);
    let rows = [(1, 1), (2, 2), (3, 9)].map(|(n, group)| (vec![n], row(group, n as u16 * 10)));
    load_all(fixture, &rows).expect("load");
}

/// A locking read, or an insert that changes the row it meets.
type Way = fn(&TableFixture, &mut Trx) -> Result<()>;

const WAYS: [(&str, Way); 6] = [
    ("point read", |fixture, trx| fixture.get(trx, &[3], X).map(|_| ())),
    ("shared point read", |fixture, trx| {
        fixture.get(trx, &[7], S).map(|_| ())
    }),
    ("clustered scan", |fixture, trx| groups(fixture, trx, 0, X).map(|_| ())),
    ("scan of an index", |fixture, trx| {
        groups(fixture, trx, BY_GROUP, X).map(|_| ())
    }),
    ("shared scan of an index", |fixture, trx| {
        groups(fixture, trx, BY_TAG, S).map(|_| ())
    }),
    ("insert or change", upsert),
];

fn upsert(fixture: &TableFixture, trx: &mut Trx) -> Result<()> {
    let new = row(7, 70);
    with_entries(&[7], &new, |entries| {
        fixture
            .store()
            .rows()
            .insert_replacing(trx, &fixture.table, &NewRow::new(&[7], &new.encode(), entries))
    })
}

fn with_snapshot(fixture: &TableFixture, isolation: Isolation) -> Trx {
    let mut trx = fixture.begin(isolation);
    fixture.store().trx_sys.visibility.open_view(&mut trx);
    trx
}

/// A transaction with a snapshot, after which the table is made anew.
fn with_old_snapshot(fixture: &TableFixture, isolation: Isolation, remake: fn(&TableFixture)) -> Trx {
    let trx = with_snapshot(fixture, isolation);
    remake(fixture);
    trx
}

#[test]
fn a_table_younger_than_the_snapshot_is_neither_locked_nor_changed() {
    for (how, remake, _) in REMAKES {
        for isolation in [RepeatableRead, Serializable] {
            for (what, way) in WAYS {
                let fixture = filled();
                let mut late = with_old_snapshot(&fixture, isolation, remake);
                let refused = Err(Error::TableChanged);
                assert_eq!(way(&fixture, &mut late), refused, "{what}, {how}, {isolation:?}");
                assert_eq!(way(&fixture, &mut late), refused, "again: {what}, {how}, {isolation:?}");
                assert_eq!(fixture.store().trx_sys.locks().names_in_use(), 0, "{what}, {how}");
                rollback(&fixture, late);
                let mut young = with_snapshot(&fixture, isolation);
                assert_eq!(way(&fixture, &mut young), Ok(()), "{what}, {how}, {isolation:?}");
                rollback(&fixture, young);
                fixture.check_table();
            }
        }
    }
}

/// Row 2 has moved to another key before the index was built: nothing is left in it where the
/// snapshot has the row.
#[test]
fn an_index_younger_than_the_snapshot_is_not_used() {
    let fixture = filled();
    let mut late = with_snapshot(&fixture, RepeatableRead);
    let mut first = fixture.begin(ReadCommitted);
    fixture
        .update(&mut first, &[2], &row(2, 20), &row(9, 20))
        .expect("update");
    commit(&fixture, first);
    let rows = [(1, 1), (2, 9), (3, 3)].map(|(n, group)| (vec![n], row(group, n as u16 * 10)));
    rebuild_by_group(&fixture, &fixture.table, &rows.into_iter().collect());
    for mode in [X, S, None] {
        assert_eq!(
            groups(&fixture, &mut late, BY_GROUP, mode),
            Err(Error::TableChanged),
            "{mode:?}"
        );
    }
    assert_eq!(
        groups(&fixture, &mut late, BY_TAG, None),
        Ok(vec![1, 2, 3]),
        "an old index"
    );
    assert_eq!(groups(&fixture, &mut late, BY_TAG, X), Err(Error::Conflict));
    assert_eq!(
        fixture.get(&mut late, &[3], X),
        Ok(Some(row(3, 30))),
        "the row is as it was"
    );
    commit(&fixture, late);
    fixture.check_table();
}

#[test]
fn a_younger_table_is_locked_where_no_snapshot_is_kept() {
    for (how, remake, left) in REMAKES {
        let fixture = filled();
        let mut late = with_old_snapshot(&fixture, ReadCommitted, remake);
        for index in [0, BY_GROUP] {
            assert_eq!(groups(&fixture, &mut late, index, X), Ok(left.to_vec()), "{how}");
        }
        assert_eq!(upsert(&fixture, &mut late), Ok(()), "{how}");
        commit(&fixture, late);
        fixture.check_table();
    }
}

/// As in InnoDB: a snapshot of which rows are overwritten keeps younger tables out, too.
#[test]
fn without_snapshot_isolation_a_younger_table_is_refused() {
    for (how, remake, _) in REMAKES {
        for (what, way) in WAYS {
            let fixture = filled();
            fixture.engine.set("snapshot_isolation", 0).expect("set");
            let mut late = with_old_snapshot(&fixture, RepeatableRead, remake);
            assert_eq!(way(&fixture, &mut late), Err(Error::TableChanged), "{what}, {how}");
            rollback(&fixture, late);
            fixture.check_table();
        }
    }
}

/// It reads nothing: what it meets is a duplicate, as any row that the snapshot does not see.
#[test]
fn a_plain_insert_into_a_younger_table_is_not_refused() {
    let fixture = filled();
    let mut late = with_old_snapshot(&fixture, RepeatableRead, copy);
    fixture.insert(&mut late, &[4], &row(4, 40)).expect("insert");
    let met = fixture.insert(&mut late, &[2], &row(2, 50));
    assert!(matches!(met, Err(Error::Duplicate { index: 0, .. })), "{met:?}");
    commit(&fixture, late);
    fixture.check_table();
}

/// The snapshot was taken by a locking read that gave up its wait: nothing was seen by it, so a
/// newer one does as well.
#[test]
fn a_snapshot_that_has_shown_nothing_is_taken_anew_for_a_younger_table() {
    for (how, remake, left) in REMAKES {
        for first in [X, S, None] {
            let fixture = filled();
            let mut holder = fixture.begin(ReadCommitted);
            fixture.get(&mut holder, &[1], X).expect("locked");
            let mut late = fixture.begin(RepeatableRead);
            late.snapshot_by_locking = true;
            late.lock_wait_timeout_ms = 1;
            assert_eq!(groups(&fixture, &mut late, 0, X), Err(Error::LockWaitTimeout));
            commit(&fixture, holder);
            remake(&fixture);
            for mode in [first, X, None] {
                assert_eq!(
                    groups(&fixture, &mut late, 0, mode),
                    Ok(left.to_vec()),
                    "{how}, {first:?}, {mode:?}"
                );
            }
            remake(&fixture);
            for mode in [X, None] {
                assert_eq!(
                    groups(&fixture, &mut late, 0, mode),
                    Err(Error::TableChanged),
                    "{how}: something was seen"
                );
            }
            rollback(&fixture, late);
        }
    }
}
