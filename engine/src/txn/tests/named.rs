//! A waiter hears of everyone it waits for, whether they were there when the wait began or came before it later: a replica's server acts on it.
use super::locks::{lock_sys, take, trx, try_take, until, waiting};
use crate::base::Error;
use crate::txn::sleep::{decide, WAIT_CANCELLED, WAIT_DEADLOCK, WAIT_LOOK};
use crate::txn::{Granted, LockMode, LockSys, ThreadWaiter, Trx, TrxShared, WaitOutcome, Waiter};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::thread;

const X: LockMode = LockMode::Exclusive;

/// Notes whom it is about to wait for, and will not wait for one of them.
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

/// The row was changed by `owner`, whose lock is implicit. Somebody has just locked it and not looked at it yet, and a third waits behind him;
/// then he looks, and queues up again.
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
    let l = locks.clone();
    let sleeper = thread::spawn(move || {
        let granted = take(&l, &mut third, b"r", X);
        l.release_all(&third.shared);
        granted
    });
    until(|| waiting(&shared) && locks.counters.row_lock_current_waits.get() == 1);
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

/// Nobody but the server knew that the owner waited for the sleeper's commit, and it was not told: both slept until the timeout.
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
    assert_eq!(row.locks.counters.row_lock_waits.get(), 1, "it is one wait");
}

#[test]
fn who_must_not_wait_for_that_owner_gives_up() {
    let row = made_explicit(true);
    assert_eq!(row.sleeper.join().unwrap(), Err(Error::Deadlock));
    row.locks.release_all(&row.owner.shared);
    assert_eq!(row.locks.names_in_use(), 0);
}

/// The mark is no verdict: none is lost because of it, and the first one stays.
#[test]
fn a_wait_that_is_to_look_again_can_still_be_decided() {
    let trx = trx(1);
    let flag = &trx.shared.wait_flag;
    flag.store(WAIT_LOOK, Ordering::Release);
    assert!(decide(&trx.shared, WAIT_DEADLOCK));
    assert!(!decide(&trx.shared, WAIT_CANCELLED));
    assert_eq!(flag.load(Ordering::Acquire), WAIT_DEADLOCK);
}
