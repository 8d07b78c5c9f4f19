//! Row locks with real threads: conflicts, order, timeouts, deadlocks, ranges.
use crate::base::{Counters, Error};
use crate::io::sim::Rng;
use crate::txn::{Granted, LockMode, LockPolicy, LockSys, ThreadWaiter, Trx, TrxShared};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{mpsc, Arc};
use std::thread;
use std::time::{Duration, Instant};

const S: LockMode = LockMode::Shared;
const X: LockMode = LockMode::Exclusive;

pub(super) fn lock_sys() -> Arc<LockSys> {
    let start = Instant::now();
    let clock = move || start.elapsed().as_micros() as u64;
    Arc::new(LockSys::new(Arc::new(Counters::default()), Box::new(clock)))
}

pub(super) fn trx(connection: u64) -> Trx {
    let mut trx = Trx::new(TrxShared::new(Arc::new(ThreadWaiter::new()), connection));
    trx.lock_wait_timeout_ms = 20_000;
    trx
}

pub(super) fn take(locks: &LockSys, trx: &mut Trx, key: &[u8], mode: LockMode) -> Result<Granted, Error> {
    locks.lock(trx, 1, key, mode, LockPolicy::Wait)
}

pub(super) fn try_take(locks: &LockSys, trx: &mut Trx, key: &[u8], mode: LockMode) -> Result<Granted, Error> {
    locks.lock(trx, 1, key, mode, LockPolicy::NoWait)
}

pub(super) fn until(what: impl Fn() -> bool) {
    let start = Instant::now();
    while !what() {
        assert!(start.elapsed() < Duration::from_secs(10), "it never happened");
        thread::sleep(Duration::from_micros(200));
    }
}

pub(super) fn waiting(trx: &Arc<TrxShared>) -> bool {
    trx.waiting_on.load(Ordering::Acquire) != 0
}

/// A wait by a thread of its own, which holds nothing any more when it ends. The wait has begun
/// when this returns. Its search for deadlocks may be still to come, and make it the victim of a
/// circle that is closed meanwhile.
pub(super) fn begin_wait<T: Send + 'static>(
    locks: &Arc<LockSys>,
    mut trx: Trx,
    wait: impl FnOnce(&LockSys, &mut Trx) -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    let (shared, l) = (trx.shared.clone(), locks.clone());
    let before = locks.waits.counters.row_lock_current_waits.get();
    let waits = thread::spawn(move || {
        let outcome = wait(&l, &mut trx);
        l.release_all(&trx.shared);
        outcome
    });
    until(|| waiting(&shared) && locks.waits.counters.row_lock_current_waits.get() == before + 1);
    waits
}

#[test]
fn conflicts_upgrade_and_unlock() {
    let locks = lock_sys();
    let (mut a, mut b) = (trx(1), trx(2));
    assert_eq!(take(&locks, &mut a, b"k", S), Ok(Granted::New));
    assert_eq!(take(&locks, &mut a, b"k", S), Ok(Granted::Held));
    assert_eq!(try_take(&locks, &mut b, b"k", S), Ok(Granted::New));
    assert!(locks.is_free(&b, 1, b"k", S) && !locks.is_free(&b, 1, b"k", X));
    assert_eq!(try_take(&locks, &mut a, b"k", X), Err(Error::Locked));
    locks.unlock(&mut b, 1, b"k");
    assert_eq!(try_take(&locks, &mut a, b"k", X), Ok(Granted::Upgraded));
    assert_eq!(take(&locks, &mut a, b"k", S), Ok(Granted::Held));
    assert_eq!(try_take(&locks, &mut b, b"k", S), Err(Error::Locked));
    assert_eq!(try_take(&locks, &mut b, b"other", X), Ok(Granted::New));
    assert_eq!(locks.names_in_use(), 2);
    locks.release_all(&a.shared);
    assert_eq!(try_take(&locks, &mut b, b"k", X), Ok(Granted::New));
    locks.release_all(&b.shared);
    assert_eq!(locks.names_in_use(), 0);
}

#[test]
fn waiters_come_in_the_order_of_their_requests() {
    let locks = lock_sys();
    let mut holder = trx(0);
    take(&locks, &mut holder, b"k", X).unwrap();
    let (sender, order) = mpsc::channel();
    let mut threads = Vec::new();
    for connection in 1..=6u64 {
        let mut trx = trx(connection);
        let shared = trx.shared.clone();
        let (locks, sender) = (locks.clone(), sender.clone());
        threads.push(thread::spawn(move || {
            take(&locks, &mut trx, b"k", X).unwrap();
            sender.send(connection).unwrap();
            locks.release_all(&trx.shared);
        }));
        until(|| waiting(&shared));
    }
    locks.release_all(&holder.shared);
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(order.try_iter().collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(locks.names_in_use(), 0);
    assert_eq!(locks.waits.counters.row_lock_waits.get(), 6);
    assert_eq!(locks.waits.counters.row_lock_current_waits.get(), 0);
}

#[test]
fn a_wait_times_out_and_lets_those_behind_it_go_on() {
    let locks = lock_sys();
    let (mut holder, mut impatient, mut reader) = (trx(1), trx(2), trx(3));
    take(&locks, &mut holder, b"k", S).unwrap();
    impatient.lock_wait_timeout_ms = 60;
    let waits = begin_wait(&locks, impatient, |locks, trx| take(locks, trx, b"k", X));
    // After the exclusive request, until that gives up.
    assert_eq!(try_take(&locks, &mut reader, b"k", S), Err(Error::Locked));
    assert_eq!(take(&locks, &mut reader, b"k", S), Ok(Granted::New));
    assert_eq!(waits.join().unwrap(), Err(Error::LockWaitTimeout));
    assert_eq!(locks.waits.counters.lock_wait_timeouts.get(), 1);
}

/// The request was queued for an instant. The search found a deadlock that the timeout was about to
/// end, and took a victim.
#[test]
fn who_may_not_wait_is_in_no_queue_and_in_no_deadlock() {
    let locks = lock_sys();
    let (mut a, mut b) = (trx(1), trx(2));
    take(&locks, &mut a, b"a", X).unwrap();
    locks.lock_range(&mut a, 7, b"k", None);
    take(&locks, &mut b, b"b", X).unwrap();
    let waits = begin_wait(&locks, a, |locks, trx| take(locks, trx, b"b", X));
    b.lock_wait_timeout_ms = 0;
    assert_eq!(take(&locks, &mut b, b"a", X), Err(Error::LockWaitTimeout));
    assert_eq!(locks.check_insert(&mut b, 7, b"m"), Err(Error::LockWaitTimeout));
    assert_eq!(locks.wait_for_whole(&mut b, 7), Err(Error::LockWaitTimeout));
    assert_eq!(locks.check_insert(&mut b, 7, b"a"), Ok(()));
    assert_eq!(take(&locks, &mut b, b"c", X), Ok(Granted::New));
    locks.release_all(&b.shared);
    assert_eq!(waits.join().unwrap(), Ok(Granted::New));
    let counters = &locks.waits.counters;
    let counted = [
        &counters.deadlocks,
        &counters.row_lock_waits,
        &counters.lock_wait_timeouts,
    ];
    assert_eq!(counted.map(|counter| counter.get()), [0, 1, 3]);
    assert_eq!(locks.names_in_use(), 0);
}

/// The lock of a waiter was made explicit while it waited for that very row. The lock stood twice
/// on its list, and giving it back twice broke the shard's chains.
#[test]
fn a_waiters_implicit_lock_is_made_explicit_meanwhile() {
    let locks = lock_sys();
    let (mut holder, owner) = (trx(1), trx(2));
    take(&locks, &mut holder, b"k", X).unwrap();
    owner.shared.id.store(77, Ordering::Release);
    locks.accept_implicit(&owner.shared, 77);
    let shared = owner.shared.clone();
    let waits = begin_wait(&locks, owner, |locks, trx| take(locks, trx, b"k", X));
    locks.make_explicit(&shared, 77, 1, b"k");
    locks.release_all(&holder.shared);
    assert_eq!(waits.join().unwrap(), Ok(Granted::Held));
    assert_eq!(locks.names_in_use(), 0);
    assert_eq!(shared.lock_count.load(Ordering::Relaxed), 0);
}

#[test]
fn a_wait_can_be_cancelled() {
    let locks = lock_sys();
    let (mut holder, victim) = (trx(1), trx(2));
    take(&locks, &mut holder, b"k", X).unwrap();
    let shared = victim.shared.clone();
    let waits = begin_wait(&locks, victim, |locks, trx| take(locks, trx, b"k", X));
    let wait = locks.table.info(&shared, 0).wait.unwrap();
    assert_eq!(wait.key, b"k");
    let blockers: Vec<_> = wait.blockers.iter().map(|b| (b.id, b.connection)).collect();
    assert_eq!(blockers, [(0, 1)]);
    locks.cancel_wait(&shared);
    assert_eq!(waits.join().unwrap(), Err(Error::Interrupted));
    locks.release_all(&holder.shared);
    assert_eq!(locks.names_in_use(), 0);
}

/// `n` transactions each hold one key and want the next one's: exactly one must give up, and all
/// end.
fn circle(n: usize) -> Arc<LockSys> {
    let locks = lock_sys();
    let barrier = Arc::new(std::sync::Barrier::new(n));
    let threads: Vec<_> = (0..n)
        .map(|i| {
            let (locks, barrier) = (locks.clone(), barrier.clone());
            thread::spawn(move || {
                let mut trx = trx(i as u64);
                take(&locks, &mut trx, &[i as u8], X).unwrap();
                barrier.wait();
                let outcome = take(&locks, &mut trx, &[((i + 1) % n) as u8], X);
                locks.release_all(&trx.shared);
                outcome
            })
        })
        .collect();
    let outcomes: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    let deadlocks = outcomes.iter().filter(|o| **o == Err(Error::Deadlock)).count();
    assert_eq!(deadlocks, 1, "{outcomes:?}");
    assert!(outcomes.iter().all(|o| o.is_ok() || *o == Err(Error::Deadlock)));
    assert_eq!(locks.waits.counters.deadlocks.get(), 1);
    assert_eq!(locks.names_in_use(), 0);
    locks
}

#[test]
fn deadlocks_of_two_and_more_cost_one_victim() {
    for n in 2..=8 {
        let locks = circle(n);
        let account = locks.latest_deadlocks().remove(0);
        assert_eq!(account.circle.len(), n, "{account:?}");
        for (i, party) in account.circle.iter().enumerate() {
            let wait = party.trx.wait.as_ref().expect("everybody in the circle waits");
            let next = &account.circle[(i + 1) % n];
            let held = next.holds.as_ref().expect("everybody in the circle holds");
            assert_eq!(
                (held.index, &held.key, held.mode, held.granted),
                (1, &wait.key, Some(X), true)
            );
            let next = next.trx.connection;
            assert_eq!((wait.index, wait.mode), (1, Some(X)), "{account:?}");
            assert_eq!(wait.key, [next as u8], "{account:?}");
            assert!(wait.blockers.iter().any(|b| b.connection == next), "{account:?}");
        }
    }
}

/// Both transactions of a circle queue up before either searches. The first to search was to give
/// up, and still stood in its queue. The second to search found the same circle, and gave up too.
#[test]
fn a_circle_that_two_search_for_costs_one_of_them() {
    let locks = lock_sys();
    let (mut a, mut b) = (trx(1), trx(2));
    // Whichever of them searches first, `a` is the victim.
    b.shared.undo_records.store(1000, Ordering::Relaxed);
    take(&locks, &mut a, b"a", X).unwrap();
    take(&locks, &mut b, b"b", X).unwrap();
    let second = b.shared.clone();
    let waits = begin_wait(&locks, b, |locks, trx| take(locks, trx, b"a", X));
    let weak = Arc::downgrade(&locks);
    let heard = AtomicI32::new(0);
    // By the thread of the first, between its search and its leaving the queue.
    locks.on_deadlock(Box::new(move |_| {
        if heard.fetch_add(1, Ordering::SeqCst) == 0 {
            let locks = weak.upgrade().unwrap();
            locks.waits.find_deadlock(&locks.table, &second);
        }
    }));
    assert_eq!(take(&locks, &mut a, b"b", X), Err(Error::Deadlock));
    assert_eq!(locks.waits.counters.deadlocks.get(), 1);
    locks.release_all(&a.shared);
    assert_eq!(waits.join().unwrap(), Ok(Granted::New));
    assert_eq!(locks.names_in_use(), 0);
}

#[test]
fn two_upgrades_of_one_row_are_a_deadlock() {
    let locks = lock_sys();
    let (mut a, mut b) = (trx(1), trx(2));
    // Whichever of them searches last, `b` is the victim.
    a.shared.undo_records.store(1000, Ordering::Relaxed);
    take(&locks, &mut a, b"k", S).unwrap();
    take(&locks, &mut b, b"k", S).unwrap();
    let waits = begin_wait(&locks, a, |locks, trx| take(locks, trx, b"k", X));
    assert_eq!(take(&locks, &mut b, b"k", X), Err(Error::Deadlock));
    locks.release_all(&b.shared);
    assert_eq!(waits.join().unwrap(), Ok(Granted::Upgraded));
}

#[test]
fn the_much_lighter_transaction_is_the_victim() {
    let locks = lock_sys();
    let (mut heavy, mut light) = (trx(1), trx(2));
    heavy.shared.undo_records.store(1000, Ordering::Relaxed);
    take(&locks, &mut heavy, b"a", X).unwrap();
    take(&locks, &mut light, b"b", X).unwrap();
    let waits = begin_wait(&locks, light, |locks, trx| take(locks, trx, b"a", X));
    assert_eq!(take(&locks, &mut heavy, b"b", X), Ok(Granted::New));
    assert_eq!(waits.join().unwrap(), Err(Error::Deadlock));
}

#[test]
fn a_transaction_whose_changes_stay_is_no_victim() {
    let locks = lock_sys();
    let (mut staying, mut heavy) = (trx(1), trx(2));
    staying.note_changes_that_stay();
    heavy.shared.undo_records.store(1000, Ordering::Relaxed);
    take(&locks, &mut staying, b"a", X).unwrap();
    take(&locks, &mut heavy, b"b", X).unwrap();
    let waits = begin_wait(&locks, heavy, |locks, trx| take(locks, trx, b"a", X));
    assert_eq!(take(&locks, &mut staying, b"b", X), Ok(Granted::New));
    assert_eq!(waits.join().unwrap(), Err(Error::Deadlock));
}

#[test]
fn an_implicit_lock_is_made_explicit_only_while_its_owner_lives() {
    let locks = lock_sys();
    let (owner, mut other) = (trx(1), trx(2));
    locks.make_explicit(&owner.shared, 7, 1, b"k");
    assert_eq!(locks.names_in_use(), 0, "it has no id yet");
    locks.accept_implicit(&owner.shared, 7);
    locks.make_explicit(&owner.shared, 7, 1, b"k");
    assert_eq!(try_take(&locks, &mut other, b"k", S), Err(Error::Locked));
    locks.release_all(&owner.shared);
    locks.make_explicit(&owner.shared, 7, 1, b"k");
    assert_eq!(try_take(&locks, &mut other, b"k", X), Ok(Granted::New));
    locks.accept_implicit(&owner.shared, 8);
    locks.make_explicit(&owner.shared, 7, 1, b"q");
    assert_eq!(locks.names_in_use(), 1, "the object serves another transaction by now");
}

#[test]
fn a_range_stops_the_inserts_of_others_until_its_owner_ends() {
    let locks = lock_sys();
    let (mut scanner, mut writer) = (trx(1), trx(2));
    locks.lock_range(&mut scanner, 1, b"c", Some(b"f"));
    locks.lock_range(&mut writer, 1, b"a", None);
    locks.release_all(&writer.shared);
    assert!(locks.insert_is_free(&scanner, 1, b"d"));
    assert!(locks.insert_is_free(&writer, 1, b"b") && locks.insert_is_free(&writer, 1, b"f"));
    assert!(locks.insert_is_free(&writer, 2, b"d"));
    assert!(!locks.insert_is_free(&writer, 1, b"c"));
    writer.lock_wait_timeout_ms = 10;
    assert_eq!(locks.check_insert(&mut writer, 1, b"d"), Err(Error::LockWaitTimeout));
    writer.lock_wait_timeout_ms = 20_000;
    let waits = begin_wait(&locks, writer, |locks, trx| locks.check_insert(trx, 1, b"d"));
    locks.release_all(&scanner.shared);
    assert_eq!(waits.join().unwrap(), Ok(()));
    assert!(!locks.table.ranges.any(1));
}

#[test]
fn a_prepared_transaction_keeps_exclusive_locks_alone() {
    let locks = lock_sys();
    let (mut prepared, mut other) = (trx(1), trx(2));
    take(&locks, &mut prepared, b"read", S).unwrap();
    take(&locks, &mut prepared, b"changed", X).unwrap();
    locks.lock_range(&mut prepared, 1, b"", None);
    locks.release_reads(&prepared.shared);
    assert_eq!(try_take(&locks, &mut other, b"read", X), Ok(Granted::New));
    assert_eq!(try_take(&locks, &mut other, b"changed", S), Err(Error::Locked));
    assert!(locks.insert_is_free(&other, 1, b"d"));
    locks.release_all(&prepared.shared);
    locks.release_all(&other.shared);
    assert_eq!(locks.names_in_use(), 0);
}

#[test]
fn a_range_and_a_row_make_a_deadlock() {
    let locks = lock_sys();
    let (mut a, mut b) = (trx(1), trx(2));
    // Whichever of them searches last, `b` is the victim.
    a.shared.undo_records.store(1000, Ordering::Relaxed);
    locks.lock_range(&mut a, 1, b"", None);
    locks.lock_range(&mut b, 1, b"", None);
    let waits = begin_wait(&locks, a, |locks, trx| locks.check_insert(trx, 1, b"x"));
    assert_eq!(locks.check_insert(&mut b, 1, b"y"), Err(Error::Deadlock));
    locks.release_all(&b.shared);
    assert_eq!(waits.join().unwrap(), Ok(()));
}

/// -1: a writer, n: readers.
type Users = AtomicI32;

/// Random locks on rows, each counted in and out of its row's users. Returns how many deadlocks
/// there were.
fn lock_at_random(locks: &LockSys, rows: &[Users], number: u64) -> u64 {
    let (mut rng, mut trx, mut deadlocks) = (Rng(number), trx(number), 0);
    for _ in 0..800 {
        let mut held: Vec<(usize, LockMode)> = Vec::new();
        for _ in 0..1 + rng.below(5) {
            let row = rng.below(rows.len());
            let mode = if rng.below(3) == 0 { S } else { X };
            match take(locks, &mut trx, &[row as u8], mode) {
                Err(Error::Deadlock) => {
                    deadlocks += 1;
                    break;
                }
                outcome => outcome.unwrap(),
            };
            let known = held.iter().position(|(r, _)| *r == row);
            let users = &rows[row];
            match (known, mode) {
                (None, S) => assert!(users.fetch_add(1, Ordering::SeqCst) >= 0),
                (None, X) => assert_eq!(users.swap(-1, Ordering::SeqCst), 0),
                (Some(at), X) if held[at].1 == S => {
                    assert_eq!(users.swap(-1, Ordering::SeqCst), 1);
                    held[at].1 = X;
                }
                _ => {}
            }
            if known.is_none() {
                held.push((row, mode));
            }
            if rng.below(4) == 0 {
                thread::yield_now();
            }
        }
        for (row, mode) in held {
            match mode {
                S => assert!(rows[row].fetch_sub(1, Ordering::SeqCst) >= 1),
                X => assert_eq!(rows[row].swap(0, Ordering::SeqCst), -1),
            }
        }
        locks.release_all(&trx.shared);
    }
    deadlocks
}

/// Eight threads take random locks on 16 rows. Each row counts its readers and writers: no thread
/// is ever there beside a writer. All threads come to an end, and nothing is left in the table.
#[test]
fn exclusion_holds_under_stress() {
    let (locks, rows) = (&lock_sys(), &[const { Users::new(0) }; 16]);
    let deadlocks: u64 = thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|n| scope.spawn(move || lock_at_random(locks, rows, n)))
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).sum()
    });
    assert_eq!(locks.names_in_use(), 0);
    assert_eq!(
        locks.waits.counters.lock_wait_timeouts.get(),
        0,
        "a missed deadlock ends in a timeout"
    );
    assert!(deadlocks > 0, "the test is too tame");
}

/// Many waiters on one row, each of which searches for a deadlock.
#[test]
fn many_waiters_on_one_row_all_get_their_turn() {
    let locks = lock_sys();
    let mut holder = trx(0);
    take(&locks, &mut holder, b"hot", X).unwrap();
    let threads: Vec<_> = (1..=200u64)
        .map(|n| {
            let locks = locks.clone();
            thread::spawn(move || {
                let mut trx = trx(n);
                // Holding something makes the wait worth a search.
                take(&locks, &mut trx, &n.to_be_bytes(), X).unwrap();
                take(&locks, &mut trx, b"hot", X).unwrap();
                locks.release_all(&trx.shared);
            })
        })
        .collect();
    until(|| locks.waits.counters.row_lock_current_waits.get() == 200);
    locks.release_all(&holder.shared);
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(locks.waits.counters.deadlocks.get(), 0);
    assert_eq!(locks.names_in_use(), 0);
}

/// Run with `--release --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn bench_lock_and_release() {
    let locks = lock_sys();
    let mut trx = trx(1);
    let n = 2_000_000u64;
    for per_transaction in [1, 10, 100] {
        let start = Instant::now();
        for i in 0..n {
            locks
                .lock(&mut trx, 3, &(i * 7).to_be_bytes(), X, LockPolicy::Wait)
                .unwrap();
            if i % per_transaction == per_transaction - 1 {
                locks.release_all(&trx.shared);
            }
        }
        locks.release_all(&trx.shared);
        let ns = start.elapsed().as_nanos() as f64 / n as f64;
        println!("{per_transaction} locks a transaction: {ns:.0} ns for lock and release");
    }
}
