//! Which rows and keys a transaction keeps locked once it has changed rows, and rolled some of the
//! changes back.
use super::isolation::{commit, filled, rollback, row, X};
use crate::base::Error;
use crate::txn::Isolation::{ReadCommitted, RepeatableRead, Serializable};

/// A transaction that changed a million rows held a million entries of the lock table: 130 MB
/// beside the pool.
#[test]
fn changed_rows_are_locked_by_their_versions() {
    let rig = filled();
    let mut trx = rig.begin(ReadCommitted);
    let locks = rig.store().trx_sys.locks();
    rig.get(&mut trx, &[1], X).expect("locked");
    rig.store().rollbacks().savepoint(&trx);
    for n in [1u8, 2, 3] {
        rig.get(&mut trx, &[n], X).expect("locked");
        rig.update(&mut trx, &[n], &row(n, n as u16 * 10), &row(n, n as u16 + 100))
            .expect("update");
    }
    assert_eq!(locks.names_in_use(), 1, "only the row locked before the savepoint");
    let mut other = rig.begin(ReadCommitted);
    other.lock_wait_timeout_ms = 20;
    for n in [1u8, 2, 3] {
        assert_eq!(rig.get(&mut other, &[n], X), Err(Error::LockWaitTimeout));
    }
    rig.engine.rollback(&mut trx).expect("rollback");
    assert_eq!(rig.get(&mut other, &[3], X), Ok(Some(row(3, 30))));
    commit(&rig, other);
    assert_eq!(locks.names_in_use(), 0);
    rig.check_table();
}

/// A serializable transaction keeps to its end what it has read of a row, whatever it rolls back. A
/// statement locked and changed the row: the version it made was the lock, and ROLLBACK TO
/// SAVEPOINT removed that. Another transaction changed the row then, and no serial order was left.
#[test]
fn a_rollback_to_a_savepoint_leaves_locked_what_was_read() {
    for (isolation, stays) in [(Serializable, true), (RepeatableRead, false)] {
        let rig = filled();
        let mut trx = rig.begin(isolation);
        let savepoint = rig.store().rollbacks().savepoint(&trx);
        rig.get(&mut trx, &[1], X).expect("locked");
        rig.update(&mut trx, &[1], &row(1, 10), &row(1, 100)).expect("update");
        rig.update(&mut trx, &[1], &row(1, 100), &row(1, 101)).expect("again");
        rig.get(&mut trx, &[2], X).expect("locked");
        rig.delete(&mut trx, &[2], &row(2, 20)).expect("delete");
        rig.store()
            .rollbacks()
            .rollback_to(&mut trx, savepoint)
            .expect("rollback");
        let mut other = rig.begin(ReadCommitted);
        other.lock_wait_timeout_ms = 20;
        for n in [1u8, 2] {
            let expected = match stays {
                true => Err(Error::LockWaitTimeout),
                false => Ok(Some(row(n, n as u16 * 10))),
            };
            assert_eq!(rig.get(&mut other, &[n], X), expected, "{isolation:?}, row {n}");
        }
        commit(&rig, other);
        commit(&rig, trx);
        assert_eq!(rig.store().trx_sys.locks().names_in_use(), 0);
        rig.check_table();
    }
}

/// A transaction that could insert a key has seen that the key did not exist. If it is
/// serializable, it keeps that to its end. The row was the lock. It went with ROLLBACK TO
/// SAVEPOINT, or with the rest of an insert that met its second unique key. Another transaction
/// then inserted the key, and was read.
#[test]
fn a_rollback_to_a_savepoint_leaves_locked_what_was_free() {
    for (isolation, stays) in [(Serializable, true), (RepeatableRead, false)] {
        let rig = filled();
        let mut trx = rig.begin(isolation);
        let savepoint = rig.store().rollbacks().savepoint(&trx);
        rig.insert(&mut trx, &[4], &row(4, 40)).expect("insert");
        rig.update(&mut trx, &[3], &row(3, 30), &row(3, 50)).expect("update");
        rig.store()
            .rollbacks()
            .rollback_to(&mut trx, savepoint)
            .expect("rollback");
        let refused = rig.insert(&mut trx, &[7], &row(7, 10));
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
            let mut other = rig.begin(ReadCommitted);
            other.lock_wait_timeout_ms = 20;
            let expected = match stays && asked {
                true => Err(Error::LockWaitTimeout),
                false => Ok(()),
            };
            assert_eq!(
                rig.insert(&mut other, &[pk], &row(pk, tag)),
                expected,
                "{isolation:?}, row {pk}"
            );
            rollback(&rig, other);
        }
        commit(&rig, trx);
        let mut other = rig.begin(ReadCommitted);
        rig.insert(&mut other, &[4], &row(4, 40)).expect("free again");
        commit(&rig, other);
        rig.check_table();
    }
}

/// A transaction that goes on had put and undone two entries with the wanted value. The check
/// looked at one, then at the other, and at the first again, for ever.
#[test]
fn undone_entries_of_an_active_transaction_block_no_insert() {
    let rig = filled();
    let mut other = rig.begin(ReadCommitted);
    let savepoint = rig.store().rollbacks().savepoint(&other);
    for n in [1u8, 2] {
        rig.update(&mut other, &[n], &row(n, n as u16 * 10), &row(n, 99))
            .expect("update");
        rig.store()
            .rollbacks()
            .rollback_to(&mut other, savepoint)
            .expect("rollback");
        let lock = rig.table.layout().clustered.id;
        rig.store().trx_sys.locks().unlock(&mut other, lock, &[n]);
    }
    let mut trx = rig.begin(ReadCommitted);
    rig.insert(&mut trx, &[4], &row(4, 99)).expect("the value is free");
    commit(&rig, trx);
    commit(&rig, other);
    rig.check_table();
}
