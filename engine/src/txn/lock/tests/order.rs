//! Transactions with a place in a cluster's order, which commit in that order (C1). A local
//! transaction that makes one wait hears of it, and is aborted by its server. Here the place in a
//! queue and the choice of a victim are tested.
use super::locks::{begin_wait, lock_sys, take, trx, try_take, until, waiting};
use crate::base::Error;
use crate::txn::{Granted, LockMode, Trx};
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread;

const S: LockMode = LockMode::Shared;
const X: LockMode = LockMode::Exclusive;
/// Undo records of a transaction that is no victim by its weight.
const HEAVY: u64 = 1000;

fn placed(place: u64) -> Trx {
    let mut trx = trx(place);
    trx.set_place(place);
    trx
}

#[test]
fn a_place_passes_those_that_have_none_or_a_later_one() {
    let locks = lock_sys();
    let mut holder = trx(0);
    take(&locks, &mut holder, b"k", X).unwrap();
    let (sender, order) = mpsc::channel();
    let mut threads = Vec::new();
    // 0: none.
    for (request, place) in [(1, 0), (2, 9), (3, 0), (4, 7), (5, 9)] {
        let mut trx = trx(request);
        trx.set_place(place);
        let (shared, locks, sender) = (trx.shared.clone(), locks.clone(), sender.clone());
        threads.push(thread::spawn(move || {
            take(&locks, &mut trx, b"k", X).unwrap();
            sender.send(request).unwrap();
            locks.release_all(&trx.shared);
        }));
        until(|| waiting(&shared));
    }
    locks.release_all(&holder.shared);
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(order.try_iter().collect::<Vec<_>>(), [4, 2, 5, 1, 3]);
    assert_eq!(locks.names_in_use(), 0);
}

/// The holders do not stop it, and those that wait have to.
#[test]
fn a_place_is_granted_what_others_wait_for() {
    let locks = lock_sys();
    let (mut holder, mut first, mut late) = (trx(1), placed(5), trx(2));
    take(&locks, &mut holder, b"k", S).unwrap();
    let writer = begin_wait(&locks, trx(3), |locks, trx| take(locks, trx, b"k", X));
    assert_eq!(try_take(&locks, &mut late, b"k", S), Err(Error::Locked));
    assert_eq!(try_take(&locks, &mut first, b"k", S), Ok(Granted::New));
    locks.release_all(&holder.shared);
    assert!(!writer.is_finished(), "it waits for the one that passed it");
    assert_eq!(try_take(&locks, &mut holder, b"k", S), Err(Error::Locked));
    locks.release_all(&first.shared);
    assert_eq!(writer.join().unwrap(), Ok(Granted::New));
    assert_eq!(locks.names_in_use(), 0);
}

/// Whichever wait closes the circle, and whatever the other has to lose.
#[test]
fn a_place_is_no_victim() {
    for closed_by_place in [true, false] {
        let locks = lock_sys();
        let (mut decided, mut local) = (placed(5), trx(1));
        local.shared.undo_records.store(HEAVY, Ordering::Relaxed);
        take(&locks, &mut decided, b"a", X).unwrap();
        take(&locks, &mut local, b"b", X).unwrap();
        let waits_for_a = |locks: &crate::txn::LockSys, trx: &mut Trx| take(locks, trx, b"a", X);
        let waits_for_b = |locks: &crate::txn::LockSys, trx: &mut Trx| take(locks, trx, b"b", X);
        if closed_by_place {
            let local = begin_wait(&locks, local, waits_for_a);
            assert_eq!(waits_for_b(&locks, &mut decided), Ok(Granted::New));
            assert_eq!(local.join().unwrap(), Err(Error::Deadlock));
            locks.release_all(&decided.shared);
        } else {
            let decided = begin_wait(&locks, decided, waits_for_b);
            assert_eq!(waits_for_a(&locks, &mut local), Err(Error::Deadlock));
            locks.release_all(&local.shared);
            assert_eq!(decided.join().unwrap(), Ok(Granted::New));
        }
        assert_eq!(locks.names_in_use(), 0);
    }
}

/// It does not happen as long as their certification keys keep them apart.
#[test]
fn of_two_places_the_later_is_the_victim() {
    for (held_first, held_second) in [(5, 6), (6, 5)] {
        let locks = lock_sys();
        let (mut first, mut second) = (placed(held_first), placed(held_second));
        first.shared.undo_records.store(HEAVY, Ordering::Relaxed);
        take(&locks, &mut first, b"a", X).unwrap();
        take(&locks, &mut second, b"b", X).unwrap();
        let first = begin_wait(&locks, first, |locks, trx| take(locks, trx, b"b", X));
        let outcome = take(&locks, &mut second, b"a", X);
        locks.release_all(&second.shared);
        let expected = match held_first < held_second {
            true => (Ok(Granted::New), Err(Error::Deadlock)),
            false => (Err(Error::Deadlock), Ok(Granted::New)),
        };
        assert_eq!((first.join().unwrap(), outcome), expected);
    }
}

/// The next transaction of the same object is an ordinary one.
#[test]
fn a_place_ends_with_its_transaction() {
    let mut first = placed(5);
    first.end();
    assert!(!first.shared.goes_ahead_of(&trx(1).shared));
    assert!(placed(6).shared.goes_ahead_of(&first.shared));
}
