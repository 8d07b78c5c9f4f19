//! INFORMATION_SCHEMA shows the whole lock table: each lock once, and waits that fit the locks,
//! whatever goes on meanwhile.
use crate::txn::tests::Bed;
use crate::txn::{Isolation, LockDetail, LockKind, LockMode, LockPolicy, ThreadWaiter, Trx};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const S: LockMode = LockMode::Shared;
const X: LockMode = LockMode::Exclusive;

fn connection(bed: &Bed, number: u64) -> Trx {
    let mut trx = bed.sys.new_trx(Arc::new(ThreadWaiter::new()), number);
    bed.sys.start(&mut trx, Isolation::Serializable, 20_000);
    trx
}

fn until_waiting(bed: &Bed, waiters: u64) {
    while bed.sys.counters.row_lock_current_waits.get() != waiters {
        thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn queues_ranges_and_who_is_in_whose_way() {
    let bed = Bed::create(1);
    let locks = bed.sys.locks();
    let (mut a, mut b, mut c) = (connection(&bed, 11), connection(&bed, 12), connection(&bed, 13));
    locks.lock(&mut a, 7, b"row", S, LockPolicy::Wait).unwrap();
    locks.lock(&mut a, 7, b"quiet", X, LockPolicy::Wait).unwrap();
    locks.lock_range(&mut a, 9, b"d", Some(b"g"));
    locks.lock_range(&mut b, 9, b"x", None);
    thread::scope(|s| {
        let first = s.spawn(|| locks.lock(&mut b, 7, b"row", X, LockPolicy::Wait).unwrap());
        until_waiting(&bed, 1);
        let second = s.spawn(|| locks.check_insert(&mut c, 9, b"e").unwrap());
        until_waiting(&bed, 2);
        let report = bed.sys.lock_report(LockDetail::Locks);
        assert_eq!(
            report.transactions.iter().map(|t| t.connection).collect::<Vec<_>>(),
            [11, 12, 13]
        );
        assert_eq!(report.transactions[1].number(), (1 << 48) + 12);
        let shown = |at: usize| {
            let lock = &report.locks[at];
            (
                report.transactions[lock.trx].connection,
                lock.index,
                lock.key.as_slice(),
                lock.granted,
            )
        };
        let waits: Vec<_> = report.waits.iter().map(|(w, b)| (shown(*w), shown(*b))).collect();
        assert_eq!(
            waits,
            [
                ((12, 7, &b"row"[..], false), (11, 7, &b"row"[..], true)),
                ((13, 9, &b"e"[..], false), (11, 9, &b"d"[..], true)),
            ]
        );
        assert_eq!(
            report.requested,
            [None, Some(report.waits[0].0), Some(report.waits[1].0)]
        );
        assert_eq!(
            report.locks[report.waits[1].1].kind,
            LockKind::Range {
                to: Some(b"g".to_vec())
            }
        );
        // Besides: "quiet", and the other range.
        assert_eq!(report.locks.len(), 6);
        let ids: HashSet<String> = (0..6).map(|at| report.lock_id(at)).collect();
        assert_eq!(ids.len(), 6);
        // Only locks that a transaction waits for.
        assert_eq!(bed.sys.lock_report(LockDetail::Nothing).locks.len(), 4);
        let counted = bed.sys.lock_report(LockDetail::Indexes);
        assert_eq!(counted.locks.len(), 4);
        assert_eq!(counted.indexes, HashSet::from([(0, 7), (0, 9), (1, 9)]));
        locks.release_all(&a.shared);
        first.join().unwrap();
        second.join().unwrap();
    });
    assert_eq!(bed.sys.lock_report(LockDetail::Locks).waits, []);
}

/// Every report taken while transactions come, wait and go is one that could have been.
#[test]
fn reports_fit_together_under_load() {
    let bed = Bed::create(2);
    let stop = AtomicBool::new(false);
    thread::scope(|s| {
        for connection_no in 1..=6u64 {
            let (bed, stop) = (&bed, &stop);
            s.spawn(move || {
                let mut trx = connection(bed, connection_no);
                let mut n = connection_no;
                while !stop.load(Ordering::Relaxed) {
                    bed.sys.start(&mut trx, Isolation::ReadCommitted, 20_000);
                    // In ascending order: no deadlocks.
                    for key in 0..8u8 {
                        n = n.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                        if n >> 62 != 0 {
                            let mode = if n >> 61 & 1 == 0 { S } else { X };
                            bed.sys
                                .locks()
                                .lock(&mut trx, 1, &[key], mode, LockPolicy::Wait)
                                .unwrap();
                        }
                    }
                    bed.sys.commit(&mut trx);
                }
            });
        }
        let (mut waits, mut reports) = (0, 0);
        // On a busy machine the other threads may come late.
        while reports < 2_000 || (waits == 0 && reports < 1_000_000) {
            reports += 1;
            let report = bed.sys.lock_report(LockDetail::Locks);
            waits += report.waits.len();
            let mut exclusive = HashSet::new();
            for lock in report.locks.iter().filter(|lock| lock.granted && lock.mode == X) {
                assert!(exclusive.insert(lock.key.clone()), "two hold one row: {report:?}");
            }
            for (waiting, blocking) in &report.waits {
                let (w, b) = (&report.locks[*waiting], &report.locks[*blocking]);
                assert!(!w.granted && w.key == b.key && w.trx != b.trx && (w.mode == X || b.mode == X));
                assert_eq!(report.requested[w.trx], Some(*waiting));
            }
            let waiting = report.locks.iter().filter(|lock| !lock.granted).count();
            assert_eq!(
                waiting,
                report.requested.iter().flatten().count(),
                "one wait each: {report:?}"
            );
        }
        stop.store(true, Ordering::Relaxed);
        assert!(waits > 0, "nobody ever waited");
    });
}

/// What a report costs others: `cargo test --release lock_report -- --nocapture` prints it.
#[test]
fn a_report_of_many_locks_keeps_nobody_waiting() {
    let bed = Bed::create(3);
    let mut many = connection(&bed, 1);
    let count = if cfg!(debug_assertions) { 20_000u64 } else { 100_000 };
    for key in 0..count {
        bed.sys
            .locks()
            .lock(&mut many, 1, &key.to_be_bytes(), X, LockPolicy::Wait)
            .unwrap();
    }
    let stop = AtomicBool::new(false);
    thread::scope(|s| {
        let other = s.spawn(|| {
            let mut trx = connection(&bed, 2);
            let mut longest = Duration::ZERO;
            while !stop.load(Ordering::Relaxed) {
                let start = Instant::now();
                bed.sys.locks().lock(&mut trx, 2, b"k", X, LockPolicy::Wait).unwrap();
                bed.sys.locks().unlock(&mut trx, 2, b"k");
                longest = longest.max(start.elapsed());
            }
            longest
        });
        let start = Instant::now();
        for _ in 0..20 {
            let shown = bed.sys.lock_report(LockDetail::Locks).locks.len() as u64;
            assert!((count..=count + 1).contains(&shown), "{shown}");
        }
        let whole = start.elapsed() / 20;
        let start = Instant::now();
        for _ in 0..20 {
            assert_eq!(bed.sys.lock_report(LockDetail::Nothing).locks, []);
        }
        let waits_only = start.elapsed() / 20;
        stop.store(true, Ordering::Relaxed);
        let longest = other.join().unwrap();
        println!("{count} locks: report {whole:?}, waits only {waits_only:?}; longest lock and unlock of another {longest:?}");
    });
}
