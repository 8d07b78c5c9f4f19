//! A waiter hears of every holder that it waits for: of those at the wait's beginning, and of those
//! that came before it later. A replica's server acts on that, and so does the search for
//! deadlocks.
use super::locks::{begin_wait, lock_sys, take, trx, try_take, until, waiting};
use crate::base::Error;
use crate::txn::lock::sleep::HOLDERS_NOTED_MAX;
use crate::txn::lock::wait_flag::{decide, WAIT_CANCELLED, WAIT_DEADLOCK, WAIT_RECHECK_BLOCKERS};
use crate::txn::{Granted, LockMode, LockSys, ThreadWaiter, Trx, TrxShared, WaitOutcome, Waiter};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{mpsc, Arc};
use std::thread;

const S: LockMode = LockMode::Shared;
const X: LockMode = LockMode::Exclusive;

/// Notes the holders that it is about to wait for, and refuses to wait for one of them.
#[derive(Default)]
struct Listener {
    thread: ThreadWaiter,
    named: Mutex<Vec<usize>>,
    refused: usize,
}

impl Waiter for Listener {
    fn wait(&self, flag: &AtomicU32, timeout_us: u64) -> WaitOutcome {
        self.thread.wait(flag, timeout_us)
    }
    fn wake(&self) {
        self.thread.wake();
    }
    fn killed(&self) -> bool {
        false
    }
    fn about_to_wait(&self, holder: &dyn Waiter) -> bool {
        self.named.lock().push(holder.context());
        holder.context() != self.refused
    }
    fn context(&self) -> usize {
        self as *const Listener as usize
    }
}

/// The row was changed by `owner`, whose lock is implicit. A second transaction has just locked the
/// row and not looked at it yet, and a third waits for the second. Then the second looks, and
/// queues up again.
struct Row {
    locks: Arc<LockSys>,
    owner: Trx,
    passer: Trx,
    waiter: Arc<Listener>,
    shared: Arc<TrxShared>,
    sleeper: thread::JoinHandle<Result<Granted, Error>>,
}

fn made_explicit(refuses_owner: bool) -> Row {
    let locks = lock_sys();
    let (owner, mut passer) = (trx(12), trx(13));
    owner.shared.id.store(7, Ordering::Release);
    locks.accept_implicit(&owner.shared, 7);
    take(&locks, &mut passer, b"r", X).unwrap();
    let waiter = Arc::new(Listener {
        refused: if refuses_owner {
            owner.shared.waiter.context()
        } else {
            0
        },
        ..Listener::default()
    });
    let mut third = Trx::new(TrxShared::new(waiter.clone(), 10));
    third.lock_wait_timeout_ms = 20_000;
    let shared = third.shared.clone();
    let sleeper = begin_wait(&locks, third, |locks, trx| take(locks, trx, b"r", X));
    assert_eq!(*waiter.named.lock(), [passer.shared.waiter.context()]);
    let made = locks.make_explicit(&owner.shared, 7, 1, b"r").expect("a third waits");
    locks.unlock(&mut passer, 1, b"r");
    locks.search_after_explicit(made);
    Row {
        locks,
        owner,
        passer,
        waiter,
        shared,
        sleeper,
    }
}

/// Only the server knew that the owner waited for the sleeper's commit. The server did not hear of
/// the sleeper's wait, and both slept until the timeout.
#[test]
fn who_waits_already_hears_of_a_lock_made_explicit() {
    let mut row = made_explicit(false);
    let owner = row.owner.shared.waiter.context();
    until(|| row.waiter.named.lock().contains(&owner));
    assert!(waiting(&row.shared), "it waits for the owner now");
    assert_eq!(try_take(&row.locks, &mut row.passer, b"r", X), Err(Error::Locked));
    row.locks.release_all(&row.owner.shared);
    assert_eq!(row.sleeper.join().unwrap(), Ok(Granted::New));
    assert_eq!(row.locks.names_in_use(), 0);
    assert_eq!(row.locks.waits.counters.row_lock_waits.get(), 1, "it is one wait");
}

#[test]
fn who_must_not_wait_for_that_owner_gives_up() {
    let row = made_explicit(true);
    assert_eq!(row.sleeper.join().unwrap(), Err(Error::Deadlock));
    row.locks.release_all(&row.owner.shared);
    assert_eq!(row.locks.names_in_use(), 0);
}

/// The mark is no decision: no decision is lost because of it, and the first one stays.
#[test]
fn a_wait_that_is_to_look_again_can_still_be_decided() {
    let trx = trx(1);
    let flag = &trx.shared.wait_flag;
    flag.store(WAIT_RECHECK_BLOCKERS, Ordering::Release);
    assert!(decide(&trx.shared, WAIT_DEADLOCK));
    assert!(!decide(&trx.shared, WAIT_CANCELLED));
    assert_eq!(flag.load(Ordering::Acquire), WAIT_DEADLOCK);
}

/// A wait by a thread of its own, which is counted before it searches for deadlocks. Whichever
/// transaction of a circle searches last, the sleeper is not the victim: it has too much to lose.
struct Sleeper {
    waiter: Arc<Listener>,
    shared: Arc<TrxShared>,
    thread: thread::JoinHandle<Result<(), Error>>,
}

impl Sleeper {
    fn of(
        locks: &Arc<LockSys>,
        wait: impl FnOnce(&LockSys, &mut Trx) -> Result<(), Error> + Send + 'static,
    ) -> Sleeper {
        let waiter = Arc::new(Listener::default());
        let mut trx = Trx::new(TrxShared::new(waiter.clone(), 10));
        trx.lock_wait_timeout_ms = 20_000;
        let shared = trx.shared.clone();
        shared.undo_records.store(1000, Ordering::Relaxed);
        let thread = begin_wait(locks, trx, wait);
        Sleeper { waiter, shared, thread }
    }
    fn of_row(locks: &Arc<LockSys>, mode: LockMode) -> Sleeper {
        Sleeper::of(locks, move |locks, trx| take(locks, trx, b"r", mode).map(drop))
    }
    fn of_insert(locks: &Arc<LockSys>, key: &'static [u8]) -> Sleeper {
        Sleeper::of(locks, move |locks, trx| locks.check_insert(trx, 1, key))
    }
    fn heard_of(&self, trx: &TrxShared) -> bool {
        self.waiter.named.lock().contains(&trx.waiter.context())
    }
    fn heard(&self) -> usize {
        self.waiter.named.lock().len()
    }
}

/// Ends a wait, and so lets the transaction go on that has come before those after it.
fn cancel(locks: &LockSys, sleeper: Sleeper) {
    locks.cancel_wait(&sleeper.shared);
    assert_eq!(sleeper.thread.join().unwrap(), Err(Error::Interrupted));
}

/// The holder did not wait when it came before the reader: it finds the circle when it waits.
#[test]
fn a_circle_through_a_lock_that_was_raised_is_found_at_once() {
    let locks = lock_sys();
    let mut holder = trx(1);
    take(&locks, &mut holder, b"r", S).unwrap();
    let writer = Sleeper::of_row(&locks, X);
    let reader = Sleeper::of(&locks, |locks, trx| {
        take(locks, trx, b"k", X).unwrap();
        take(locks, trx, b"r", S).map(drop)
    });
    take(&locks, &mut holder, b"r", X).unwrap();
    cancel(&locks, writer);
    assert_eq!(take(&locks, &mut holder, b"k", X), Err(Error::Deadlock));
    locks.release_all(&holder.shared);
    assert_eq!(reader.thread.join().unwrap(), Ok(()));
}

/// The third waits for the reader last; between them stands a transaction that waits to upgrade.
#[test]
fn a_circle_through_a_waiting_upgrade_is_found_at_once() {
    let locks = lock_sys();
    let mut third = trx(1);
    take(&locks, &mut third, b"r", S).unwrap();
    let (raise, may_raise) = mpsc::channel();
    let upgrade = thread::spawn({
        let locks = locks.clone();
        move || {
            let mut trx = trx(2);
            trx.shared.undo_records.store(1000, Ordering::Relaxed);
            take(&locks, &mut trx, b"r", S).unwrap();
            may_raise.recv().unwrap();
            let outcome = take(&locks, &mut trx, b"r", X);
            locks.release_all(&trx.shared);
            outcome
        }
    });
    until(|| !locks.is_free(&third, 1, b"r", X));
    let writer = Sleeper::of_row(&locks, X);
    let reader = Sleeper::of(&locks, |locks, trx| {
        take(locks, trx, b"k", X).unwrap();
        take(locks, trx, b"r", S).map(drop)
    });
    raise.send(()).unwrap();
    until(|| locks.waits.counters.row_lock_current_waits.get() == 3);
    cancel(&locks, writer);
    assert_eq!(take(&locks, &mut third, b"k", X), Err(Error::Deadlock));
    locks.release_all(&third.shared);
    assert_eq!(upgrade.join().unwrap(), Ok(Granted::Upgraded));
    assert_eq!(reader.thread.join().unwrap(), Ok(()));
}

#[test]
fn a_circle_through_a_range_over_a_waiting_insert_is_found_at_once() {
    let locks = lock_sys();
    let (mut first, mut second) = (trx(1), trx(2));
    locks.lock_range(&mut first, 1, b"", None);
    let insert = Sleeper::of(&locks, |locks, trx| {
        take(locks, trx, b"k", X).unwrap();
        locks.check_insert(trx, 1, b"m")
    });
    locks.lock_range(&mut second, 1, b"l", Some(b"n"));
    assert_eq!(take(&locks, &mut second, b"k", X), Err(Error::Deadlock));
    locks.release_all(&second.shared);
    locks.release_all(&first.shared);
    assert_eq!(insert.thread.join().unwrap(), Ok(()));
}

/// The reader waits for the writer only, until the holder of the shared lock in the writer's way
/// wants to write, too.
#[test]
fn a_waiting_reader_hears_of_a_holder_that_upgrades() {
    for another_holder in [false, true] {
        let locks = lock_sys();
        let (mut holder, mut other) = (trx(1), trx(2));
        take(&locks, &mut holder, b"r", S).unwrap();
        if another_holder {
            take(&locks, &mut other, b"r", S).unwrap();
        }
        let writer = Sleeper::of_row(&locks, X);
        let reader = Sleeper::of_row(&locks, S);
        let heard = writer.heard();
        assert!(writer.heard_of(&holder.shared) && !reader.heard_of(&holder.shared));
        let shared = holder.shared.clone();
        let upgrade = |trx: &mut Trx| assert_eq!(take(&locks, trx, b"r", X), Ok(Granted::Upgraded));
        if another_holder {
            thread::scope(|scope| {
                let upgrade = scope.spawn(|| upgrade(&mut holder));
                until(|| locks.waits.counters.row_lock_current_waits.get() == 3);
                until(|| reader.heard_of(&shared));
                locks.release_all(&other.shared);
                upgrade.join().unwrap();
            });
        } else {
            upgrade(&mut holder);
        }
        until(|| reader.heard_of(&shared));
        assert_eq!(writer.heard(), heard, "it has heard of the holder when its wait began");
        assert!(waiting(&reader.shared) && waiting(&writer.shared));
        locks.release_all(&holder.shared);
        assert_eq!(writer.thread.join().unwrap(), Ok(()));
        assert_eq!(reader.thread.join().unwrap(), Ok(()));
        assert_eq!(locks.names_in_use(), 0);
    }
}

#[test]
fn a_waiting_insert_hears_of_a_range_that_is_locked_over_it() {
    let locks = lock_sys();
    let (mut first, mut second, mut third) = (trx(1), trx(2), trx(3));
    locks.lock_range(&mut first, 1, b"", None);
    locks.lock_range(&mut second, 1, b"a", Some(b"c"));
    let insert = Sleeper::of_insert(&locks, b"m");
    let load = Sleeper::of(&locks, |locks, trx| locks.wait_for_whole(trx, 1));
    assert!(!insert.heard_of(&second.shared) && load.heard_of(&second.shared));
    let heard = load.heard();
    // Beside its key, and over it.
    locks.lock_range(&mut second, 1, b"n", Some(b"p"));
    locks.lock_range(&mut second, 1, b"m", Some(b"n"));
    until(|| insert.heard_of(&second.shared));
    locks.lock_range(&mut second, 1, b"l", Some(b"q"));
    assert_eq!(insert.heard(), 3, "the first range's owner, then both, once");
    assert_eq!(load.heard(), heard, "it waits for an owner, not for his ranges");
    locks.lock_whole(&mut third, 1);
    until(|| insert.heard_of(&third.shared) && load.heard_of(&third.shared));
    for trx in [&first, &second, &third] {
        assert!(waiting(&insert.shared) && waiting(&load.shared));
        locks.release_all(&trx.shared);
    }
    assert_eq!(insert.thread.join().unwrap(), Ok(()));
    assert_eq!(load.thread.join().unwrap(), Ok(()));
}

#[test]
fn a_waiter_hears_of_every_holder_however_many_there_are() {
    let locks = lock_sys();
    let mut holders: Vec<Trx> = (0..3 * HOLDERS_NOTED_MAX as u64).map(trx).collect();
    for holder in &mut holders {
        take(&locks, holder, b"r", S).unwrap();
    }
    let writer = Sleeper::of_row(&locks, X);
    let all: Vec<usize> = holders.iter().map(|holder| holder.shared.waiter.context()).collect();
    assert_eq!(*writer.waiter.named.lock(), all);
    holders.iter().for_each(|holder| locks.release_all(&holder.shared));
    assert_eq!(writer.thread.join().unwrap(), Ok(()));
}
