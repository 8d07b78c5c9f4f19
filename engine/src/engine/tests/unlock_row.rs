//! Row locks that a statement does not need after all, under READ COMMITTED; and locks that its
//! transaction already had.
use super::fixture::BY_GROUP;
use super::isolation::{commit, filled, row, X};
use crate::base::Error;
use crate::btree::Seek;
use crate::table::{LockChoice, OnLocked};
use crate::txn::Isolation::ReadCommitted;
use crate::txn::{LockMode, LockPolicy};

/// The server unlocks a row of a join late, when another cursor of the statement stands on it. That
/// row was returned FOR UPDATE, unlocked.
#[test]
fn a_row_that_one_cursor_does_not_want_stays_locked_for_another() {
    let fixture = filled();
    let shared = LockChoice {
        mode: Some(LockMode::Shared),
        ..Default::default()
    };
    let exclusive = LockChoice { mode: X, ..shared };
    for (first, second) in [(exclusive, exclusive), (shared, exclusive)] {
        let mut trx = fixture.begin(ReadCommitted);
        let mut cursors = [0; 2].map(|_| fixture.store().cursor(fixture.table.clone()));
        assert_eq!(cursors[0].get(&mut trx, &[2], first), Ok(true));
        assert_eq!(cursors[1].get(&mut trx, &[2], second), Ok(true));
        cursors[0].unlock_row(&mut trx);
        let mut other = fixture.begin(ReadCommitted);
        other.lock_wait_timeout_ms = 1;
        assert_eq!(fixture.get(&mut other, &[2], X).map(drop), Err(Error::LockWaitTimeout));
        fixture.engine.rollback(&mut other).expect("rollback");
        fixture.engine.commit(&mut trx, false).expect("commit");
    }
}

/// A transaction changed a row. Another transaction has entered the row's lock name, and has not
/// yet seen that the row is changed by the first one. The first one then skipped its own row.
#[test]
fn skip_locked_skips_no_row_of_its_own() {
    for index in [0, BY_GROUP] {
        let fixture = filled();
        let mut trx = fixture.begin(ReadCommitted);
        fixture
            .update(&mut trx, &[2], &row(2, 20), &row(2, 25))
            .expect("update");
        let mut passer = fixture.begin(ReadCommitted);
        let (locks, clustered) = (fixture.store().trx_sys.locks(), fixture.table.layout().clustered.id);
        (locks.lock(&mut passer, clustered, &[2], LockMode::Exclusive, LockPolicy::Wait))
            .expect("no other transaction holds it");
        let mut cursor = fixture.store().cursor(fixture.table.clone());
        for on_locked in [OnLocked::Skip, OnLocked::Refuse] {
            let lock = LockChoice {
                mode: X,
                on_locked,
                ..LockChoice::default()
            };
            cursor.begin(&mut trx, index, lock, false).expect("begin");
            assert_eq!(
                cursor.seek(&mut trx, Seek::Ge, if index == 0 { &[2] } else { b"g\x02" }),
                Ok(true)
            );
            assert_eq!(cursor.found().expect("row").pk, [2]);
            assert_eq!(cursor.get(&mut trx, &[2], lock), Ok(true));
        }
        drop(cursor);
        for trx in [passer, trx] {
            commit(&fixture, trx);
        }
        fixture.check_table();
    }
}
