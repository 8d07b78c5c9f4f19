//! Which rows and keys a transaction keeps locked once it has changed rows, and rolled some of the
//! changes back.
use super::isolation::{commit, filled, rollback, row, X};
use crate::base::Error;
use crate::txn::Isolation::{ReadCommitted, RepeatableRead, Serializable};

/// A transaction that changed a million rows held a million entries of the lock table: 130 MB
/// beside the pool.
#[test]
fn changed_rows_are_locked_by_their_versions() {
    let fixture = filled();
    let mut trx = fixture.begin(ReadCommitted);
    let locks = fixture.store().trx_sys.locks();
    fixture.get(&mut trx, &[1], X).expect("locked");
    fixture.store().rollbacks().savepoint(&trx);
    for n in [1u8, 2, 3] {
        fixture.get(&mut trx, &[n], X).expect("locked");
        fixture
            .update(&mut trx, &[n], &row(n, n as u16 * 10), &row(n, n as u16 + 100))
            .expect("update");
    }
    assert_eq!(locks.names_in_use(), 1, "only the row locked before the savepoint");
    let mut other = fixture.begin(ReadCommitted);
    other.lock_wait_timeout_ms = 20;
    for n in [1u8, 2, 3] {
        assert_eq!(fixture.get(&mut other, &[n], X), Err(Error::LockWaitTimeout));
    }
    fixture.engine.rollback(&mut trx).expect("rollback");
    assert_eq!(fixture.get(&mut other, &[3], X), Ok(Some(row(3, 30))));
    commit(&fixture, other);
    assert_eq!(locks.names_in_use(), 0);
    fixture.check_table();
}

/// A serializable transaction keeps to its end what it has read of a row, whatever it rolls back. A
/// statement locked and changed the row: the version it made was the lock, and ROLLBACK TO
/// SAVEPOINT removed that. Another transaction changed the row then, and no serial order was left.
#[test]
fn a_rollback_to_a_savepoint_leaves_locked_what_was_read() {
    for (isolation, stays) in [(Serializable, true), (RepeatableRead, false)] {
        let fixture = filled();
        let mut trx = fixture.begin(isolation);
        let savepoint = fixture.store().rollbacks().savepoint(&trx);
        fixture.get(&mut trx, &[1], X).expect("locked");
        fixture
            .update(&mut trx, &[1], &row(1, 10), &row(1, 100))
            .expect("update");
        fixture
            .update(&mut trx, &[1], &row(1, 100), &row(1, 101))
            .expect("again");
        fixture.get(&mut trx, &[2], X).expect("locked");
        fixture.delete(&mut trx, &[2], &row(2, 20)).expect("delete");
        fixture
            .store()
            .rollbacks()
            .rollback_to(&mut trx, savepoint)
            .expect("rollback");
        let mut other = fixture.begin(ReadCommitted);
        other.lock_wait_timeout_ms = 20;
        for n in [1u8, 2] {
            let expected = match stays {
                true => Err(Error::LockWaitTimeout),
                false => Ok(Some(row(n, n as u16 * 10))),
            };
            assert_eq!(fixture.get(&mut other, &[n], X), expected, "{isolation:?}, row {n}");
        }
        commit(&fixture, other);
        commit(&fixture, trx);
        assert_eq!(fixture.store().trx_sys.locks().names_in_use(), 0);
        fixture.check_table();
    }
}

/// A transaction that could insert a key has seen that the key did not exist. If it is
/// serializable, it keeps that to its end. The row was the lock. It went with ROLLBACK TO
/// SAVEPOINT, or with the rest of an insert that met its second unique key. Another transaction
/// then inserted the key, and was read.
#[test]
fn a_rollback_to_a_savepoint_leaves_locked_what_was_free() {
    for (isolation, stays) in [(Serializable, true), (RepeatableRead, false)] {
        let fixture = filled();
        let mut trx = fixture.begin(isolation);
        let savepoint = fixture.store().rollbacks().savepoint(&trx);
        fixture.insert(&mut trx, &[4], &row(4, 40)).expect("insert");
        fixture
            .update(&mut trx, &[3], &row(3, 30), &row(3, 50))
            .expect("update");
        fixture
            .store()
            .rollbacks()
            .rollback_to(&mut trx, savepoint)
            .expect("rollback");
        let refused = fixture.insert(&mut trx, &[7], &row(7, 10));
        assert!(matches!(refused, Err(Error::Duplicate { .. })), "{refused:?}");
        // A key, two unique values, and the key of the refused row; then a value that no statement
        // has asked for.
        for (pk, tag, asked) in [
            (4, 41, true),
            (5, 40, true),
            (6, 50, true),
            (7, 70, true),
            (8, 80, false),
        ] {
            let mut other = fixture.begin(ReadCommitted);
            other.lock_wait_timeout_ms = 20;
            let expected = match stays && asked {
                true => Err(Error::LockWaitTimeout),
                false => Ok(()),
            };
            assert_eq!(
                fixture.insert(&mut other, &[pk], &row(pk, tag)),
                expected,
                "{isolation:?}, row {pk}"
            );
            rollback(&fixture, other);
        }
        commit(&fixture, trx);
        let mut other = fixture.begin(ReadCommitted);
        fixture.insert(&mut other, &[4], &row(4, 40)).expect("free again");
        commit(&fixture, other);
        fixture.check_table();
    }
}

/// A transaction that goes on had put and undone two entries with the wanted value. The check
/// looked at one, then at the other, and at the first again, for ever.
#[test]
fn undone_entries_of_an_active_transaction_block_no_insert() {
    let fixture = filled();
    let mut other = fixture.begin(ReadCommitted);
    let savepoint = fixture.store().rollbacks().savepoint(&other);
    for n in [1u8, 2] {
        fixture
            .update(&mut other, &[n], &row(n, n as u16 * 10), &row(n, 99))
            .expect("update");
        fixture
            .store()
            .rollbacks()
            .rollback_to(&mut other, savepoint)
            .expect("rollback");
        let lock = fixture.table.layout().clustered.id;
        fixture.store().trx_sys.locks().unlock(&mut other, lock, &[n]);
    }
    let mut trx = fixture.begin(ReadCommitted);
    fixture.insert(&mut trx, &[4], &row(4, 99)).expect("the value is free");
    commit(&fixture, trx);
    commit(&fixture, other);
    fixture.check_table();
}
