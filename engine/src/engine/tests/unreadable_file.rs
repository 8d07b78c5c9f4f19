//! A data file that can be neither opened nor read for a while (rights, a failing disk, too many
//! open files). Nothing is known to be broken, and work that does not need the file goes on.
use super::damage::{filled, reopen, row, ROWS};
use super::fixture::{config, pk, TableFixture};
use crate::base::ids::{FIRST_TABLE_FILE, SYSTEM_FILE, UNDO_FILE};
use crate::base::{Error, FileId};
use crate::engine::{Close, Engine};
use crate::io::{Caching, Disk, Mode, SimDisk};
use crate::pool::PAGE_SIZE;
use crate::space::file_name;
use crate::txn::{Isolation::ReadCommitted, Trx};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SECOND_US: u64 = 1_000_000;

/// Table t with deletions that purge is to take out, and nothing of it in the buffer pool.
fn deleted(fixture: &TableFixture, keys: std::ops::Range<u32>) {
    fixture.purge_all();
    let mut trx = fixture.begin(ReadCommitted);
    for n in keys {
        fixture.delete(&mut trx, &pk(n), &row(n)).expect("delete");
    }
    fixture.engine.commit(&mut trx, true).expect("commit");
    fixture.engine.checkpoint().expect("checkpoint");
    fixture.store().pool.discard_file(FIRST_TABLE_FILE);
}

/// Steps of purge that fail before one succeeds, a second each.
fn steps_that_fail(fixture: &TableFixture, disk: &SimDisk) -> u32 {
    for failed in 0..100 {
        match fixture.store().purger().purge_step(50) {
            Ok(_) => return failed,
            Err(e) => assert!(matches!(e, Error::Io(_)), "{e}"),
        }
        fixture.store().pool.check_alive().expect("the engine goes on");
        disk.advance_us(SECOND_US);
    }
    panic!("purge waits for ever");
}

/// The oldest stream always came first: one bad sector held up all purge.
#[test]
fn purge_passes_over_what_cannot_be_read_for_long() {
    let disk = filled();
    let (fixture, logged) = reopen(&disk);
    deleted(&fixture, 0..200);
    disk.refuse(Some(&file_name(FIRST_TABLE_FILE)));
    assert!((3..30).contains(&steps_that_fail(&fixture, &disk)), "not at once");
    let passed_over = || fixture.engine.counters().purge_passed_over.get();
    assert_eq!(passed_over(), 50, "what meets the same failure does not wait again");
    assert_eq!(steps_that_fail(&fixture, &disk), 0);
    assert_eq!(passed_over(), 100);
    let said = logged.lock().join("\n");
    assert_eq!(said.matches("purge passes over").count(), 1, "{said}");
    assert!(
        said.contains("table t") && said.contains("ALTER TABLE ... FORCE"),
        "{said}"
    );
    disk.refuse(None);
    fixture.purge_all();
    assert_eq!((passed_over(), fixture.store().trx_sys.undo.history_length()), (100, 0));
    fixture.engine.close(Close::Slow).expect("close");
}

#[test]
fn a_failure_that_passes_costs_purge_nothing() {
    let disk = filled();
    let (fixture, logged) = reopen(&disk);
    deleted(&fixture, 0..200);
    // Again and again, but never for long.
    for _ in 0..20 {
        disk.refuse(Some(&file_name(FIRST_TABLE_FILE)));
        let failed = fixture.store().purger().purge_step(50);
        assert!(matches!(failed, Err(Error::Io(_))), "{failed:?}");
        disk.refuse(None);
        disk.advance_us(100 * SECOND_US);
    }
    fixture.purge_all();
    assert_eq!(fixture.engine.counters().purge_passed_over.get(), 0);
    assert!(!logged.lock().join("\n").contains("purge"), "{:?}", logged.lock());
    fixture.check_table();
}

/// The purge thread took the failure for its own end, and the engine's.
#[test]
fn the_purge_thread_outlives_a_file_that_cannot_be_read() {
    let disk = filled();
    let fixture = TableFixture::reopen(disk.clone()).expect("open");
    deleted(&fixture, 0..200);
    disk.refuse(Some(&file_name(FIRST_TABLE_FILE)));
    let struck = disk.struck();
    fixture.engine.start_background();
    let until = Instant::now() + Duration::from_secs(60);
    while disk.struck() < struck + 2 {
        fixture.store().pool.check_alive().expect("the engine goes on");
        assert!(Instant::now() < until, "purge does not come");
        std::thread::sleep(Duration::from_millis(10));
    }
    disk.refuse(None);
    while fixture.store().trx_sys.undo.history_length() > 0 {
        assert!(Instant::now() < until, "purge does not go on");
        disk.advance_us(SECOND_US);
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(fixture.engine.counters().purge_passed_over.get(), 0);
    fixture.check_table();
    // A close that has no time for it is none the worse.
    deleted(&fixture, 200..300);
    disk.refuse(Some(&file_name(FIRST_TABLE_FILE)));
    fixture.engine.close(Close::Slow).expect("purge ends early");
    disk.refuse(None);
    drop(fixture);
    let fixture = TableFixture::reopen(disk).expect("open");
    fixture.purge_all();
    fixture.check_table();
}

/// It ended at the first table that could not be read, without a word of what stayed.
#[test]
fn a_slow_close_purges_what_can_be_read_and_says_how_much_stays() {
    let disk = filled();
    let (fixture, logged) = reopen(&disk);
    fixture.purge_all();
    let (mut of_t, mut of_u) = (fixture.begin(ReadCommitted), fixture.begin(ReadCommitted));
    fixture.delete(&mut of_t, &pk(7), &row(7)).expect("delete");
    let other = TableFixture {
        engine: fixture.engine.clone(),
        table: fixture.store().tables().open_table("u").expect("table"),
    };
    other.delete(&mut of_u, &pk(1), &row(1)).expect("delete");
    fixture.engine.commit(&mut of_t, true).expect("commit");
    fixture.engine.commit(&mut of_u, true).expect("commit");
    fixture.engine.checkpoint().expect("checkpoint");
    fixture.store().pool.discard_file(FIRST_TABLE_FILE);
    disk.refuse(Some(&file_name(FIRST_TABLE_FILE)));
    fixture.engine.close(Close::Slow).expect("close");
    assert_eq!(fixture.store().trx_sys.undo.history_length(), 1);
    let said = logged.lock().join("\n");
    assert_eq!(said.matches("purge: ").count(), 1, "{said}");
    assert!(said.contains("purge ends early: 1 transactions stay"), "{said}");
    disk.refuse(None);
    drop((fixture, other));
    let (fixture, logged) = reopen(&disk);
    fixture.engine.close(Close::Slow).expect("close");
    assert_eq!(fixture.store().trx_sys.undo.history_length(), 0);
    assert!(!logged.lock().join("\n").contains("purge"), "{:?}", logged.lock());
}

/// Undo that could not be read is let alone for some seconds; a slow close passed over it in that
/// time.
#[test]
fn a_slow_close_tries_undo_that_could_not_be_read_once_more() {
    let disk = filled();
    let (fixture, logged) = reopen(&disk);
    deleted(&fixture, 0..200);
    fixture.store().pool.discard_file(UNDO_FILE);
    disk.refuse(Some(&file_name(UNDO_FILE)));
    let failed = fixture.store().purger().purge_step(50);
    assert!(matches!(failed, Err(Error::Io(_))), "{failed:?}");
    disk.refuse(None);
    assert_eq!(fixture.store().purger().purge_step(50), Ok(false), "it rests");
    fixture.engine.close(Close::Slow).expect("close");
    assert_eq!(fixture.store().trx_sys.undo.history_length(), 0);
    assert!(!logged.lock().join("\n").contains("purge"), "{:?}", logged.lock());
}

/// One more is opened: with room for one, the others are closed.
fn close_files(fixture: &TableFixture) {
    const NUMBER: FileId = 0x1000;
    let files = fixture.store().pool.files();
    files.add(NUMBER, &file_name(SYSTEM_FILE), false);
    files.get(NUMBER).expect("opened");
    files.remove(NUMBER);
    assert_eq!(files.open_count(), 0);
}

/// Turning the log on syncs the files that were written while it was off, and has to open them for
/// that. One that could not be opened left the log half on, with the list of the others gone. The
/// next try met an assertion, and so did the shutdown, which cost all tables.
#[test]
fn a_log_that_cannot_be_turned_on_stays_off_and_can_be_later() {
    for seed in 1..=8 {
        let disk = filled();
        let few = crate::engine::Config {
            open_files: 1,
            ..config()
        };
        let engine = Engine::open_still(disk.clone(), few).expect("opens");
        let table = engine.store().tables().open_table("t").expect("table");
        let fixture = TableFixture { engine, table };
        let other = TableFixture {
            engine: fixture.engine.clone(),
            table: fixture.store().tables().open_table("u").expect("table"),
        };
        let file = file_name(other.table.layout().id);
        fixture.engine.set_redo_log(false).expect("off");
        let put = |from: u32| {
            let mut trx = fixture.begin(ReadCommitted);
            for n in from..from + 50 {
                fixture.insert(&mut trx, &pk(n), &row(n)).expect("insert");
                other.insert(&mut trx, &pk(n), &row(n)).expect("insert");
            }
            fixture.engine.commit(&mut trx, true).expect("commit");
        };
        put(ROWS);
        if seed % 2 == 0 {
            // Writes the pages, and syncs nothing.
            fixture.engine.checkpoint().expect("pages");
        }
        close_files(&fixture);
        let mut segments: Vec<_> = disk.list().expect("list");
        segments.retain(|name| name.starts_with("redo_") && name[5..].starts_with('0'));
        segments.sort();
        for _ in 0..2 {
            disk.refuse(Some(&file));
            let refused = fixture.engine.set_redo_log(true);
            assert!(matches!(refused, Err(Error::Io(_))), "{refused:?}");
            fixture.store().pool.check_alive().expect("the engine goes on");
            assert!(
                !fixture.engine.redo_log_is_on() && fixture.store().redo.is_off(),
                "as it was before"
            );
            disk.refuse(None);
        }
        put(ROWS + 50);
        // A segment is not needed.
        disk.refuse(Some(&segments[seed as usize % 2]));
        fixture.engine.set_redo_log(true).expect("now it can");
        disk.refuse(None);
        put(ROWS + 100);
        let disk = disk.crash(seed);
        drop((fixture, other));
        let fixture = TableFixture::reopen(disk).expect("nothing is refused");
        let rows = |table: &str| {
            let table = fixture.store().tables().open_table(table).expect("table");
            super::damage::count(&fixture, &table, 0).expect("it can be read")
        };
        assert_eq!((rows("t"), rows("u")), (ROWS as u64 + 150, 151), "seed {seed}");
        fixture.check_table();
    }
}

/// A transaction that has deleted rows 0 to 49, with nothing of the table in the buffer pool.
fn half_done(fixture: &TableFixture) -> Trx {
    fixture.purge_all();
    let mut trx = fixture.begin(ReadCommitted);
    for n in 0..50 {
        fixture.delete(&mut trx, &pk(n), &row(n)).expect("delete");
    }
    fixture.engine.checkpoint().expect("checkpoint");
    fixture.store().pool.discard_file(FIRST_TABLE_FILE);
    trx
}

fn assert_undone(fixture: &TableFixture) {
    while fixture.store().rollbacks().retry_rollback(64).expect("it can go on") {}
    assert_eq!(fixture.store().rollbacks().rollbacks_waiting(), 0);
    let rows = super::damage::count(fixture, &fixture.table, 0).expect("it can be read");
    assert_eq!(rows, ROWS as u64);
    fixture.check_table();
}

/// ROLLBACK, or that of a statement, met a failing read or no descriptor: that stopped the engine.
#[test]
fn a_rollback_waits_for_what_cannot_be_read() {
    for (partial, out_of_files) in [(false, false), (true, false), (false, true)] {
        let disk = filled();
        let (fixture, logged) = super::damage::reopen_with(&disk, 1);
        let savepoint = fixture.store().rollbacks().savepoint(&fixture.begin(ReadCommitted));
        let mut trx = half_done(&fixture);
        if out_of_files {
            close_files(&fixture);
            disk.set_handles(Some(0));
        } else {
            disk.refuse(Some(&file_name(FIRST_TABLE_FILE)));
        }
        if partial {
            let failed = fixture.store().rollbacks().rollback_to(&mut trx, savepoint);
            assert!(matches!(failed, Err(Error::Io(_))), "{failed:?}");
            assert!(trx.is_doomed(), "half a statement is not committed");
        }
        let failed = fixture.engine.rollback(&mut trx);
        assert!(matches!(failed, Err(Error::Io(_))), "{failed:?}");
        for _ in 0..3 {
            fixture.store().pool.check_alive().expect("the engine goes on");
            assert_eq!(fixture.store().rollbacks().rollbacks_waiting(), 1);
            assert_eq!(fixture.store().rollbacks().retry_rollback(64), Ok(false));
        }
        let said = logged.lock().join("\n");
        for word in ["waits: ", "table t", "clustered index", "if that lasts"] {
            assert!(said.contains(word), "{word} is missing in: {said}");
        }
        disk.set_handles(None);
        disk.refuse(None);
        assert_undone(&fixture);
        drop((trx, fixture));
        reopen(&disk.crash(1)).0.check_table();
    }
}

/// A record was undone but for a split that failed, again and again: each time its row was counted
/// off the table.
#[test]
fn a_row_is_counted_once_however_often_its_rollback_is_tried() {
    let disk = SimDisk::new(5);
    let fixture = TableFixture::create(disk.clone());
    let long = |n: u32| super::fixture::Row {
        body: vec![n as u8; 1000],
        ..row(n)
    };
    let each = |act: &dyn Fn(&mut Trx, u32)| {
        let mut trx = fixture.begin(ReadCommitted);
        (0..10).for_each(|n| act(&mut trx, n));
        trx
    };
    let commit = |mut trx: Trx| fixture.engine.commit(&mut trx, true).expect("commit");
    commit(each(&|trx, n| fixture.insert(trx, &pk(n), &long(n)).expect("insert")));
    commit(each(&|trx, n| fixture.delete(trx, &pk(n), &long(n)).expect("delete")));
    // Short ones in their place, and no room left beside.
    let mut trx = each(&|trx, n| fixture.insert(trx, &pk(n), &row(n)).expect("insert"));
    commit(each(&|trx, n| {
        fixture
            .insert(trx, &[&pk(n)[..], &[1]].concat(), &long(n + 100))
            .expect("insert")
    }));
    fixture.engine.checkpoint().expect("checkpoint");
    fixture.store().pool.discard_file(FIRST_TABLE_FILE);
    // The header, without which no page is given out.
    disk.set_bad(Some((&file_name(FIRST_TABLE_FILE), 100)));
    assert!(matches!(fixture.engine.rollback(&mut trx), Err(Error::Io(_))));
    for _ in 0..3 {
        assert_eq!(fixture.store().rollbacks().retry_rollback(64), Ok(false));
    }
    disk.set_bad(None);
    while fixture.store().rollbacks().retry_rollback(64).expect("it can go on") {}
    assert_eq!(fixture.table.statistics.counts.rows(), 10);
    fixture.check_table();
}

/// It waited for a broken page, and the first failing read of a later try stopped the engine.
#[test]
fn a_rollback_that_waits_for_a_broken_page_outlives_a_failing_read() {
    let disk = filled();
    let (fixture, _) = reopen(&disk);
    let leaf = fixture.table.layout().clustered.tree.get(&fixture.store().pool, &pk(3));
    let at = leaf.expect("read").expect("there").page_no() as u64 * PAGE_SIZE as u64 + 5000;
    let name = file_name(FIRST_TABLE_FILE);
    let mut trx = half_done(&fixture);
    disk.flip(&name, at, 1);
    assert!(fixture.engine.rollback(&mut trx).is_err_and(|e| e.is_corrupt()));
    disk.set_bad(Some((&name, at)));
    assert_eq!(fixture.store().rollbacks().retry_rollback(64), Ok(false));
    fixture.store().pool.check_alive().expect("the engine goes on");
    disk.set_bad(None);
    disk.flip(&name, at, 1);
    assert_undone(&fixture);
}

/// A secondary leaf on a bad sector kept its table's losers from being undone for good. Not at
/// once: it may pass.
#[test]
fn an_index_that_cannot_be_read_for_long_is_quarantined() {
    for passes in [true, false] {
        let disk = filled();
        let (fixture, logged) = reopen(&disk);
        let index = fixture.table.layout().secondary[0].index.tree;
        let leaf = index.get(&fixture.store().pool, &row(3).group_key(&pk(3)));
        let at = leaf.expect("read").expect("there").page_no() as u64 * PAGE_SIZE as u64 + 5000;
        let mut trx = half_done(&fixture);
        disk.set_bad(Some((&file_name(FIRST_TABLE_FILE), at)));
        assert!(matches!(fixture.engine.rollback(&mut trx), Err(Error::Io(_))));
        let is_quarantined = || fixture.table.layout().secondary[0].quarantined;
        let mut tries = 0;
        while fixture.store().rollbacks().rollbacks_waiting() > 0 {
            let _ = fixture
                .store()
                .rollbacks()
                .retry_rollback(64)
                .expect("the engine goes on");
            tries += 1;
            assert!(tries < 30, "it is waited for without end");
            if passes && tries == 5 {
                disk.set_bad(None);
            }
            disk.advance_us(SECOND_US);
        }
        assert_eq!(is_quarantined(), !passes);
        let said = logged.lock().join("\n");
        assert_eq!(
            said.matches("REPAIR TABLE rebuilds the index; the index is quarantined")
                .count(),
            !passes as usize,
            "{said}"
        );
        if passes {
            fixture.check_table();
            continue;
        }
        assert!((3..30).contains(&tries), "not at once");
        assert_eq!(super::damage::count(&fixture, &fixture.table, 0), Ok(ROWS as u64));
        super::damage::rebuild_by_group(&fixture);
        fixture.check_table();
    }
}

/// Row 3 was changed, and its page not written; and where that is.
fn changed() -> (Arc<SimDisk>, u32) {
    let disk = filled();
    let (fixture, _) = reopen(&disk);
    let mut trx = fixture.begin(ReadCommitted);
    fixture
        .update(&mut trx, &pk(3), &row(3), &changed_row())
        .expect("update");
    fixture.engine.commit(&mut trx, true).expect("commit");
    let leaf = fixture.table.layout().clustered.tree.get(&fixture.store().pool, &pk(3));
    let no = leaf.expect("read").expect("there").page_no();
    (disk.crash(1), no)
}

/// The log has changes of a page that cannot be read. Left out it would be a lost write as soon as
/// it can: the start is refused by name, and loses nothing. A copy of the file without what cannot
/// be read is a way out.
#[test]
fn a_start_that_cannot_read_a_page_keeps_the_log() {
    for copied in [false, true] {
        let (disk, no) = changed();
        let name = file_name(FIRST_TABLE_FILE);
        let at = no as u64 * PAGE_SIZE as u64 + 5000;
        for _ in 0..2 {
            disk.set_bad(Some((&name, at)));
            let refused = Engine::open_still(disk.clone(), config()).err().expect("refused");
            assert!(matches!(refused, Error::Io(_)), "{refused}");
            let said = refused.to_string();
            for word in [
                &name,
                &format!("(page {no})"),
                "nothing is lost",
                "if that lasts",
                "ddrescue",
            ] {
                assert!(said.contains(word), "{word} is missing in: {said}");
            }
        }
        disk.set_bad(None);
        if !copied {
            let (fixture, _) = reopen(&disk);
            assert_eq!(
                fixture.get(&mut fixture.begin(ReadCommitted), &pk(3), None),
                Ok(Some(changed_row()))
            );
            fixture.check_table();
            continue;
        }
        // As dd conv=noerror,sync makes it.
        let file = disk.open(&name, Mode::Open, Caching::Buffered).expect("open");
        file.write_at(&[0; 4096], at / 4096 * 4096).expect("write");
        file.sync().expect("sync");
        for start in 0..2 {
            let (fixture, logged) = reopen(&disk);
            let said = logged.lock().join("\n");
            let is_named = said.contains("recovery: table t") && said.contains(&format!("page {no}"));
            assert!(is_named || start > 0, "{said}");
            let mut trx = fixture.begin(ReadCommitted);
            assert!(fixture.get(&mut trx, &pk(3), None).is_err_and(|e| e.is_corrupt()));
            assert!(fixture.get(&mut trx, &pk(ROWS - 1), None).is_ok());
            drop(trx);
            fixture.engine.close(Close::Fast).expect("close");
        }
    }
}
fn changed_row() -> super::fixture::Row {
    super::fixture::Row { shade: 9, ..row(3) }
}

/// A read that fails for a moment.
#[test]
fn a_start_asks_again_for_a_page() {
    let (disk, no) = changed();
    disk.set_bad(Some((
        &file_name(FIRST_TABLE_FILE),
        no as u64 * PAGE_SIZE as u64 + 5000,
    )));
    let (healed, struck) = (disk.clone(), disk.struck());
    let healer = std::thread::spawn(move || {
        let until = Instant::now() + Duration::from_secs(60);
        while healed.struck() < struck + 2 && Instant::now() < until {
            std::thread::yield_now();
        }
        healed.set_bad(None);
    });
    let (fixture, _) = reopen(&disk);
    healer.join().expect("joined");
    assert_eq!(
        fixture.get(&mut fixture.begin(ReadCommitted), &pk(3), None),
        Ok(Some(changed_row()))
    );
}
