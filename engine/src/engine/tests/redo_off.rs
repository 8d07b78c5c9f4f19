//! The log off and on. After a crash at any write while the log is off, the start is refused by
//! name. At any other write nothing is lost. A shutdown is fine.
use super::fixture::*;
use crate::base::{Error, Result};
use crate::engine::{Close, Engine};
use crate::io::sim::SimDisk;
use crate::io::Disk;
use crate::table::{NewRow, TableSpec};
use crate::txn::Isolation;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::Arc;

fn start(disk: Arc<SimDisk>) -> TableFixture {
    let engine = Engine::open(disk, config()).expect("fresh engine");
    let plain = TableSpec {
        indexes: vec![],
        ..spec()
    };
    engine.store().tables().create_table("t", &plain).expect("create");
    let table = engine.store().tables().open_table("t").expect("open");
    TableFixture { engine, table }
}

/// One transaction.
fn put(fixture: &TableFixture, keys: std::ops::Range<u32>) -> Result<()> {
    let mut trx = fixture.begin(Isolation::ReadCommitted);
    for n in keys {
        let put = fixture.store().rows().insert(
            &mut trx,
            &fixture.table,
            &NewRow::new(&n.to_be_bytes(), &[n as u8; 300], &[]),
            false,
        );
        if let Err(e) = put {
            std::mem::forget(trx);
            return Err(e);
        }
    }
    let done = fixture.engine.commit(&mut trx, true);
    if done.is_err() {
        std::mem::forget(trx);
    }
    done
}

fn keys_of(fixture: &TableFixture) -> Vec<u32> {
    let mut trx = fixture.begin(Isolation::ReadCommitted);
    let rows = fixture.scan(&mut trx, 0, false, false, None).expect("scan");
    fixture.engine.commit(&mut trx, false).expect("commit");
    let number = |pk: &[u8]| u32::from_be_bytes(pk.try_into().expect("four bytes"));
    rows.iter().map(|r| number(&r.pk)).collect()
}

/// How far a life came: steps that returned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Step {
    Logged,
    TurnedOff,
    ChangedUnlogged,
    TurnedOn,
    ChangedLogged,
}

/// (last step that returned, rows acknowledged)
fn live(fixture: &TableFixture) -> (Step, u32) {
    if fixture.engine.set_redo_log(false).is_err() {
        return (Step::Logged, 20);
    }
    let mut rows = 20;
    for _ in 0..6 {
        if put(fixture, rows..rows + 20).is_err() {
            return (Step::TurnedOff, rows);
        }
        rows += 20;
        let _ = fixture.store().pool.flusher().step(4);
    }
    if fixture.engine.set_redo_log(true).is_err() {
        return (Step::ChangedUnlogged, rows);
    }
    if put(fixture, rows..rows + 20).is_err() {
        return (Step::TurnedOn, rows);
    }
    (Step::ChangedLogged, rows + 20)
}

#[test]
fn a_crash_while_off_is_refused_and_any_other_loses_nothing() {
    let mut seen = std::collections::BTreeSet::new();
    let mut n = 1;
    loop {
        let disk = SimDisk::new(n);
        let fixture = start(disk.clone());
        put(&fixture, 0..20).expect("logged");
        disk.crash_at(disk.changes() + n);
        let (step, rows) = live(&fixture);
        let crashed = disk.is_dead();
        let after = disk.crash(n * 7);
        drop(fixture);
        let refused = match Engine::open(after.clone(), config()) {
            Err(Error::Corrupt(why)) => {
                assert!(
                    why.contains("redo log was off") && why.contains("00000001.slu") && why.contains("backup"),
                    "crash {n}: {why}"
                );
                // It stays so: nothing was touched.
                assert!(Engine::open(after.clone(), config()).is_err());
                true
            }
            Err(e) => panic!("crash {n} after {step:?}: {e}"),
            Ok(engine) => {
                let table = engine.store().tables().open_table("t").expect("open");
                let fixture = TableFixture { engine, table };
                fixture.engine.start_background();
                super::crash::wait_for_rollback(&fixture.engine);
                let found = keys_of(&fixture);
                let in_doubt: Vec<u32> = (0..rows + 20).collect();
                assert!(
                    found == (0..rows).collect::<Vec<_>>() || (crashed && found == in_doubt),
                    "crash {n} after {step:?}: {} rows found, {rows} acknowledged",
                    found.len()
                );
                fixture.check_table();
                false
            }
        };
        match step {
            Step::TurnedOff => assert!(refused, "crash {n}: the mark was durable"),
            Step::TurnedOn | Step::ChangedLogged => assert!(!refused, "crash {n}: it was on"),
            // The mark's own write, or the one that took it away, may have come or not.
            Step::Logged | Step::ChangedUnlogged => {}
        }
        seen.insert((step, refused));
        if !crashed {
            break;
        }
        n += 1;
    }
    assert!(n > 30, "only {n} writes");
    assert!(seen.len() >= 5, "{seen:?}");
}

#[test]
fn a_shutdown_while_off_keeps_everything_and_the_next_start_logs() {
    for how in [Close::LogOnly, Close::Fast, Close::Slow] {
        let disk = SimDisk::new(5);
        let fixture = start(disk.clone());
        fixture.engine.set_redo_log(false).expect("off");
        assert!(!fixture.engine.redo_log_is_on());
        put(&fixture, 0..500).expect("unlogged");
        fixture.engine.close(how).expect("close");
        drop(fixture);
        let fixture = TableFixture::reopen(disk.crash(1)).expect("open");
        assert!(fixture.engine.redo_log_is_on());
        assert_eq!(keys_of(&fixture), (0..500).collect::<Vec<_>>(), "{how:?}");
        put(&fixture, 500..600).expect("logged");
        fixture.check_table();
    }
}

#[test]
fn nothing_is_logged_while_off() {
    let disk = SimDisk::new(6);
    let fixture = start(disk.clone());
    fixture.engine.set_redo_log(false).expect("off");
    let before = fixture.engine.counters().redo_log_written.get();
    // Several times the log's capacity, and no thread waits for a checkpoint.
    for n in 0..40 {
        put(&fixture, n * 1000..n * 1000 + 1000).expect("unlogged");
    }
    let counters = fixture.engine.counters();
    assert_eq!(counters.redo_log_written.get(), before);
    assert_eq!((counters.redo_log_waits.get(), fixture.store().redo.age()), (0, 0));
    fixture.engine.set_redo_log(true).expect("on");
    put(&fixture, 40_000..40_100).expect("logged");
    assert!(counters.redo_log_written.get() > before);
    let after = disk.crash(9);
    drop(fixture);
    let fixture = TableFixture::reopen(after).expect("open");
    assert_eq!(keys_of(&fixture).len(), 40_100);
}

/// Writers go on while the log is turned off and on under them: what was acknowledged before it was
/// last on, or later, is there.
#[test]
fn writers_do_not_notice() {
    let disk = SimDisk::new(7);
    let fixture = start(disk.clone());
    fixture.engine.start_background();
    let stop = AtomicBool::new(false);
    let next = AtomicU32::new(0);
    let acknowledged = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut mine = Vec::new();
                    while !stop.load(Ordering::Relaxed) {
                        let n = next.fetch_add(10, Ordering::Relaxed);
                        put(&fixture, n..n + 10).expect("commit");
                        mine.extend(n..n + 10);
                    }
                    mine
                })
            })
            .collect();
        for _ in 0..6 {
            fixture.engine.set_redo_log(false).expect("off");
            std::thread::sleep(std::time::Duration::from_millis(20));
            fixture.engine.set_redo_log(true).expect("on");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        stop.store(true, Ordering::Relaxed);
        writers
            .into_iter()
            .flat_map(|w| w.join().expect("writer"))
            .collect::<Vec<u32>>()
    });
    let names = disk.list().expect("list").len();
    let after = disk.crash(3);
    drop(fixture);
    let fixture = TableFixture::reopen(after).expect("open");
    let found: std::collections::BTreeSet<u32> = keys_of(&fixture).into_iter().collect();
    let lost: Vec<_> = acknowledged.iter().filter(|n| !found.contains(n)).collect();
    assert!(
        lost.is_empty(),
        "{} of {} rows lost, {names} files",
        lost.len(),
        acknowledged.len()
    );
    fixture.check_table();
}

/// The log's capacity changes under load: the limit holds at once, the segments follow, a crash
/// loses nothing.
#[test]
fn the_log_grows_and_shrinks_online() {
    let disk = SimDisk::new(8);
    let fixture = start(disk.clone());
    fixture.engine.start_background();
    let segments = || {
        let names = disk.list().expect("list");
        names.iter().filter(|n| n.starts_with("redo_0")).count() as u64
    };
    let mut rows = 0;
    for (capacity, at_most) in [(1u64 << 20, 8 << 20), (16 << 20, 24 << 20), (2 << 20, 8 << 20)] {
        fixture.engine.set("redo_log_capacity", capacity).expect("resize");
        for _ in 0..60 {
            put(&fixture, rows..rows + 200).expect("commit");
            rows += 200;
            assert!(
                fixture.store().redo.age() <= at_most,
                "age {}",
                fixture.store().redo.age()
            );
        }
        fixture.engine.publish_gauges();
        assert_eq!(fixture.engine.counters().redo_log_capacity.get(), capacity);
        fixture.engine.checkpoint().expect("checkpoint");
    }
    let size = 512 << 10; // a sixteenth of the capacity that the ring was made with
    assert!(segments() * size <= 8 << 20, "{} segments for 2 MiB", segments());
    let after = disk.crash(2);
    drop(fixture);
    let fixture = TableFixture::reopen(after).expect("open");
    assert_eq!(keys_of(&fixture).len() as u32, rows);
}
