//! A data file that can be neither opened nor read for a while (rights, a failing disk, too many open files): nothing is known to be broken, and
//! what need not have it goes on.
use super::damage::{filled, reopen, row, ROWS};
use super::rig::{config, pk, Rig};
use crate::base::ids::{FIRST_TABLE_FILE, SYSTEM_FILE, UNDO_FILE};
use crate::base::{Error, FileId};
use crate::engine::{Close, Engine};
use crate::io::{Disk, SimDisk};
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
        disk.advance_us(SECOND_US);
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

/// It ended at the first table that could not be read, without a word of what stayed.
#[test]
fn a_slow_close_purges_what_can_be_read_and_says_how_much_stays() {
    let disk = filled();
    let (rig, told) = reopen(&disk);
    rig.purge_all();
    let (mut of_t, mut of_u) = (rig.begin(ReadCommitted), rig.begin(ReadCommitted));
    rig.delete(&mut of_t, &pk(7), &row(7)).expect("delete");
    let other = Rig {
        engine: rig.engine.clone(),
        table: rig.store().open_table("u").expect("table"),
    };
    other.delete(&mut of_u, &pk(1), &row(1)).expect("delete");
    rig.engine.commit(&mut of_t, true).expect("commit");
    rig.engine.commit(&mut of_u, true).expect("commit");
    rig.engine.checkpoint().expect("checkpoint");
    rig.store().pool.discard_file(FIRST_TABLE_FILE);
    disk.refuse(Some(&file_name(FIRST_TABLE_FILE)));
    rig.engine.close(Close::Slow).expect("close");
    assert_eq!(rig.store().trx_sys.history_length(), 1);
    let said = told.lock().join("\n");
    assert_eq!(said.matches("purge: ").count(), 1, "{said}");
    assert!(said.contains("purge ends early: 1 transactions stay"), "{said}");
    disk.refuse(None);
    drop((rig, other));
    let (rig, told) = reopen(&disk);
    rig.engine.close(Close::Slow).expect("close");
    assert_eq!(rig.store().trx_sys.history_length(), 0);
    assert!(!told.lock().join("\n").contains("purge"), "{:?}", told.lock());
}

/// Undo that could not be read is let alone for some seconds; a slow close passed over it in that time.
#[test]
fn a_slow_close_tries_undo_that_could_not_be_read_once_more() {
    let disk = filled();
    let (rig, told) = reopen(&disk);
    deleted(&rig, 0..200);
    rig.store().pool.discard_file(UNDO_FILE);
    disk.refuse(Some(&file_name(UNDO_FILE)));
    let failed = rig.store().purge_step(50);
    assert!(matches!(failed, Err(Error::Io(_))), "{failed:?}");
    disk.refuse(None);
    assert_eq!(rig.store().purge_step(50), Ok(false), "it rests");
    rig.engine.close(Close::Slow).expect("close");
    assert_eq!(rig.store().trx_sys.history_length(), 0);
    assert!(!told.lock().join("\n").contains("purge"), "{:?}", told.lock());
}

/// One more is opened: with room for one, the others are closed.
fn close_files(rig: &Rig) {
    const NUMBER: FileId = 0x1000;
    let files = rig.store().pool.files();
    files.add(NUMBER, &file_name(SYSTEM_FILE), false);
    files.get(NUMBER).expect("opened");
    files.remove(NUMBER);
    assert_eq!(files.open_count(), 0);
}

/// Turning the log on syncs the files that were written while it was off, and has to open them for that. One that could not be opened left the
/// log half on, with the list of the others gone: the next try met an assertion, and so did the shutdown, which cost all tables.
#[test]
fn a_log_that_cannot_be_turned_on_stays_off_and_can_be_later() {
    for seed in 1..=8 {
        let disk = filled();
        let few = crate::engine::Config {
            open_files: 1,
            ..config()
        };
        let engine = Engine::open_still(disk.clone(), few).expect("opens");
        let table = engine.store().open_table("t").expect("table");
        let rig = Rig { engine, table };
        let other = Rig {
            engine: rig.engine.clone(),
            table: rig.store().open_table("u").expect("table"),
        };
        let file = file_name(other.table.layout().id);
        rig.engine.set_redo_log(false).expect("off");
        let put = |from: u32| {
            let mut trx = rig.begin(ReadCommitted);
            for n in from..from + 50 {
                rig.insert(&mut trx, &pk(n), &row(n)).expect("insert");
                other.insert(&mut trx, &pk(n), &row(n)).expect("insert");
            }
            rig.engine.commit(&mut trx, true).expect("commit");
        };
        put(ROWS);
        if seed % 2 == 0 {
            // Writes the pages, and syncs nothing.
            rig.engine.checkpoint().expect("pages");
        }
        close_files(&rig);
        let mut segments: Vec<_> = disk.list().expect("list");
        segments.retain(|name| name.starts_with("redo_") && name[5..].starts_with('0'));
        segments.sort();
        for _ in 0..2 {
            disk.refuse(Some(&file));
            let refused = rig.engine.set_redo_log(true);
            assert!(matches!(refused, Err(Error::Io(_))), "{refused:?}");
            rig.store().pool.check_alive().expect("the engine goes on");
            assert!(
                !rig.engine.redo_log_is_on() && rig.store().redo.is_off(),
                "as it was before"
            );
            disk.refuse(None);
        }
        put(ROWS + 50);
        // A segment is not needed.
        disk.refuse(Some(&segments[seed as usize % 2]));
        rig.engine.set_redo_log(true).expect("now it can");
        disk.refuse(None);
        put(ROWS + 100);
        let disk = disk.crash(seed);
        drop((rig, other));
        let rig = Rig::reopen(disk).expect("nothing is refused");
        let rows = |table: &str| {
            let table = rig.store().open_table(table).expect("table");
            super::damage::count(&rig, &table, 0).expect("it can be read")
        };
        assert_eq!((rows("t"), rows("u")), (ROWS as u64 + 150, 151), "seed {seed}");
        rig.check_table();
    }
}
