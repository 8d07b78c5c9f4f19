//! A data file that can be neither opened nor read for a while (rights, a failing disk, too many open files): nothing is known to be broken, and
//! what need not have it goes on.
use super::damage::{filled, reopen, row};
use super::rig::{pk, Rig};
use crate::base::ids::FIRST_TABLE_FILE;
use crate::base::Error;
use crate::engine::Close;
use crate::io::SimDisk;
use crate::space::file_name;
use crate::txn::Isolation::ReadCommitted;
use std::time::{Duration, Instant};

const SECOND_US: u64 = 1_000_000;

/// Table t with deletions that purge is to take out, and nothing of it in the buffer pool.
fn deleted(rig: &Rig, keys: std::ops::Range<u32>) {
    rig.purge_all();
    let mut trx = rig.begin(ReadCommitted);
    for n in keys {
        rig.delete(&mut trx, &pk(n), &row(n)).expect("delete");
    }
    rig.engine.commit(&mut trx, true).expect("commit");
    rig.engine.checkpoint().expect("checkpoint");
    rig.store().pool.discard_file(FIRST_TABLE_FILE);
}

/// Steps of purge that fail before one succeeds, a second each.
fn steps_that_fail(rig: &Rig, disk: &SimDisk) -> u32 {
    for failed in 0..100 {
        match rig.store().purge_step(50) {
            Ok(_) => return failed,
            Err(e) => assert!(matches!(e, Error::Io(_)), "{e}"),
        }
        rig.store().pool.check_alive().expect("the engine goes on");
        disk.advance_us(SECOND_US);
    }
    panic!("purge waits for ever");
}

/// The oldest stream always came first: one bad sector held up all purge.
#[test]
fn purge_passes_over_what_cannot_be_read_for_long() {
    let disk = filled();
    let (rig, told) = reopen(&disk);
    deleted(&rig, 0..200);
    disk.refuse(Some(&file_name(FIRST_TABLE_FILE)));
    assert!((3..30).contains(&steps_that_fail(&rig, &disk)), "not at once");
    let passed_over = || rig.engine.counters().purge_passed_over.get();
    assert_eq!(passed_over(), 50, "what meets the same failure does not wait again");
    assert_eq!(steps_that_fail(&rig, &disk), 0);
    assert_eq!(passed_over(), 100);
    let said = told.lock().join("\n");
    assert_eq!(said.matches("purge passes over").count(), 1, "{said}");
    assert!(
        said.contains("table t") && said.contains("ALTER TABLE ... FORCE"),
        "{said}"
    );
    disk.refuse(None);
    rig.purge_all();
    assert_eq!((passed_over(), rig.store().trx_sys.history_length()), (100, 0));
    rig.engine.close(Close::Slow).expect("close");
}

#[test]
fn a_failure_that_passes_costs_purge_nothing() {
    let disk = filled();
    let (rig, told) = reopen(&disk);
    deleted(&rig, 0..200);
    // Again and again, but never for long.
    for _ in 0..20 {
        disk.refuse(Some(&file_name(FIRST_TABLE_FILE)));
        let failed = rig.store().purge_step(50);
        assert!(matches!(failed, Err(Error::Io(_))), "{failed:?}");
        disk.refuse(None);
        disk.advance_us(100 * SECOND_US);
    }
    rig.purge_all();
    assert_eq!(rig.engine.counters().purge_passed_over.get(), 0);
    assert!(!told.lock().join("\n").contains("purge"), "{:?}", told.lock());
    rig.check_table();
}

/// The purge thread took the failure for its own end, and the engine's.
#[test]
fn the_purge_thread_outlives_a_file_that_cannot_be_read() {
    let disk = filled();
    let rig = Rig::reopen(disk.clone()).expect("open");
    deleted(&rig, 0..200);
    disk.refuse(Some(&file_name(FIRST_TABLE_FILE)));
    let struck = disk.struck();
    rig.engine.start_background();
    let until = Instant::now() + Duration::from_secs(60);
    while disk.struck() < struck + 2 {
        rig.store().pool.check_alive().expect("the engine goes on");
        assert!(Instant::now() < until, "purge does not come");
        std::thread::sleep(Duration::from_millis(10));
    }
    disk.refuse(None);
    while rig.store().trx_sys.history_length() > 0 {
        assert!(Instant::now() < until, "purge does not go on");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(rig.engine.counters().purge_passed_over.get(), 0);
    rig.check_table();
    // A close that has no time for it is none the worse.
    deleted(&rig, 200..300);
    disk.refuse(Some(&file_name(FIRST_TABLE_FILE)));
    rig.engine.close(Close::Slow).expect("purge ends early");
    disk.refuse(None);
    drop(rig);
    let rig = Rig::reopen(disk).expect("open");
    rig.purge_all();
    rig.check_table();
}
