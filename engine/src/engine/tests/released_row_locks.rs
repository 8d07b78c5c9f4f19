//! Row locks that were released: a change that has found its row before trusts none of them.
use super::fixture::*;
use super::isolation::*;
use crate::base::Error;
use crate::table::{Cursor, LockChoice};
use crate::txn::Isolation::{ReadCommitted, RepeatableRead};
use crate::txn::Trx;
use std::time::Duration;

/// A change of the row that was found last does not ask for its lock again: so it must know whether
/// it is still held.
#[test]
fn a_change_trusts_the_lock_of_a_read_only_while_it_is_held() {
    let lock = LockChoice {
        mode: X,
        ..Default::default()
    };
    type GiveBack = fn(&TableFixture, &mut Trx, &mut Cursor);
    let ways: [(&str, GiveBack); 3] = [
        ("the row did not match", |_, trx, cursor| cursor.unlock_row(trx)),
        ("the transaction ended", |fixture, trx, _| {
            fixture.engine.commit(trx, false).expect("commit");
            fixture.engine.start(trx, ReadCommitted, 1);
        }),
        ("the change that the lock was left to is undone", |fixture, trx, _| {
            let savepoint = trx.undo_top();
            fixture.update(trx, &[2], &row(2, 20), &row(4, 20)).expect("update");
            fixture
                .store()
                .rollbacks()
                .rollback_to(trx, savepoint)
                .expect("rollback");
        }),
    ];
    for (what, give_back) in ways {
        let fixture = filled();
        let mut trx = fixture.begin(ReadCommitted);
        trx.lock_wait_timeout_ms = 1;
        let mut cursor = fixture.store().cursor(fixture.table.clone());
        assert_eq!(cursor.get(&mut trx, &[2], lock), Ok(true));
        give_back(&fixture, &mut trx, &mut cursor);
        let mut other = fixture.begin(ReadCommitted);
        assert!(fixture.get(&mut other, &[2], X).expect("free").is_some(), "{what}");
        let refused = Err(Error::LockWaitTimeout);
        assert_eq!(
            fixture.update(&mut trx, &[2], &row(2, 20), &row(5, 20)),
            refused,
            "{what}"
        );
        assert_eq!(fixture.delete(&mut trx, &[2], &row(2, 20)), refused, "{what}");
        commit(&fixture, other);
        fixture
            .update(&mut trx, &[2], &row(2, 20), &row(5, 20))
            .expect("update");
        commit(&fixture, trx);
        fixture.check_table();
    }
}

/// A change that waited for another transaction has found the row anew, and left its lock to the
/// version that it made. When that version is undone, no lock is held.
#[test]
fn a_change_that_waited_trusts_no_lock_that_it_left_to_its_version() {
    for (level, deletes) in [ReadCommitted, RepeatableRead]
        .into_iter()
        .flat_map(|l| [(l, false), (l, true)])
    {
        let fixture = filled();
        let mut first = fixture.begin(ReadCommitted);
        fixture
            .update(&mut first, &[2], &row(2, 20), &row(3, 20))
            .expect("update");
        let mut trx = std::thread::scope(|s| {
            let fixture = &fixture;
            let second = s.spawn(move || {
                let mut trx = fixture.begin(level);
                let savepoint = fixture.store().rollbacks().savepoint(&trx);
                match deletes {
                    false => fixture
                        .update(&mut trx, &[2], &row(3, 20), &row(4, 20))
                        .expect("update"),
                    true => fixture.delete(&mut trx, &[2], &row(3, 20)).expect("delete"),
                }
                fixture
                    .store()
                    .rollbacks()
                    .rollback_to(&mut trx, savepoint)
                    .expect("rollback");
                trx
            });
            while fixture.engine.counters().row_lock_current_waits.get() == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            commit(fixture, first);
            second.join().expect("second")
        });
        let mut other = fixture.begin(ReadCommitted);
        assert!(fixture.get(&mut other, &[2], X).expect("free").is_some());
        trx.lock_wait_timeout_ms = 1;
        let refused = Err(Error::LockWaitTimeout);
        assert_eq!(
            fixture.update(&mut trx, &[2], &row(3, 20), &row(5, 20)),
            refused,
            "{level:?}"
        );
        commit(&fixture, other);
        fixture
            .update(&mut trx, &[2], &row(3, 20), &row(5, 20))
            .expect("update");
        commit(&fixture, trx);
        fixture.check_table();
    }
}

/// A change had come to a row before the transaction that made the row took it back. It remembered
/// the entry's raw bytes of that moment, and its own rollback restored them.
#[test]
fn a_change_that_waited_restores_the_entry_of_the_version_that_it_found() {
    let fixture = filled();
    let shaded = |shade| Row { shade, ..row(2, 20) };
    let mut first = fixture.begin(ReadCommitted);
    fixture
        .update(&mut first, &[2], &row(2, 20), &shaded(9))
        .expect("update");
    std::thread::scope(|s| {
        let fixture = &fixture;
        let second = s.spawn(move || {
            let mut trx = fixture.begin(RepeatableRead);
            fixture.update(&mut trx, &[2], &row(2, 20), &shaded(5)).expect("update");
            rollback(fixture, trx);
        });
        while fixture.engine.counters().row_lock_current_waits.get() == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        rollback(fixture, first);
        second.join().expect("second");
    });
    let mut look = fixture.begin(RepeatableRead);
    let found = fixture.scan(&mut look, BY_GROUP, false, true, None).expect("scan");
    let shades: Vec<_> = found.iter().filter(|f| f.covering).map(|f| f.row.clone()).collect();
    assert!(
        !shades.is_empty() && shades.iter().all(|shade| *shade == [row(2, 20).shade]),
        "{shades:?}"
    );
    commit(&fixture, look);
    fixture.check_table();
}
