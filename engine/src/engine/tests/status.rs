//! What SHOW ENGINE STATUS reports of locks: a user must find the table, the index and the other
//! transaction in it.
use super::fixture::*;
use crate::base::{Counters, Error};
use crate::engine::Close;
use crate::io::sim::SimDisk;
use crate::pool::PAGE_SIZE;
use crate::txn::{Isolation, LockDetail, LockMode, ThreadWaiter, Trx};
use std::sync::Arc;
use std::time::Duration;

/// The simulated disk's clock begins on the 14th, in UTC.
const DAY: &str = "2023-11-1";

fn row(group: u8) -> Row {
    Row {
        group,
        shade: 0,
        tag: None,
        body: vec![group; 20],
    }
}

fn connection(fixture: &TableFixture, number: u64) -> Trx {
    let mut trx = fixture.engine.new_trx(Arc::new(ThreadWaiter::default()), number);
    fixture.engine.start(&mut trx, Isolation::ReadCommitted, 60_000);
    trx
}

fn line<'a>(text: &'a str, start: &str) -> &'a str {
    let found = text.lines().find(|line| line.trim_start().starts_with(start));
    found.unwrap_or_else(|| panic!("no line starts with {start:?}:\n{text}"))
}

/// The text named indexes by number and printed a wait as the source code of a struct.
#[test]
fn waits_and_deadlocks_are_reported_by_name() {
    let fixture = TableFixture::create(SimDisk::new(1));
    let mut first = connection(&fixture, 11);
    fixture.insert(&mut first, &[1], &row(1)).expect("insert");
    let mut second = connection(&fixture, 12);
    fixture.insert(&mut second, &[2], &row(2)).expect("insert");
    fixture.insert(&mut second, &[3], &row(3)).expect("insert");
    std::thread::scope(|s| {
        let fixture = &fixture;
        let waiting = s.spawn(move || {
            fixture.insert(&mut second, &[1], &row(1)).expect_err("taken");
            fixture.engine.rollback(&mut second).expect("rollback");
        });
        while fixture.engine.counters().row_lock_current_waits.get() == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let text = fixture.engine.status_text();
        let wait = line(&text, "waits for");
        assert!(wait.contains("table t, clustered index, key 01"), "{wait}");
        assert!(wait.contains("in the way: transaction"), "{wait}");
        assert!(wait.contains("(connection 11)"), "{wait}");
        assert_eq!(fixture.insert(&mut first, &[2], &row(2)), Err(Error::Deadlock));
        let text = fixture.engine.status_text();
        let account = text.split("LATEST DETECTED DEADLOCK").nth(1).expect("an account");
        assert!(line(account, "(1)").contains("connection 11"), "{account}");
        assert!(line(account, "(2)").contains("connection 12"), "{account}");
        assert!(account.contains("table t, clustered index, key 02"), "{account}");
        line(account, "holds the exclusive lock of table t, clustered index, key 01");
        line(account, "holds the exclusive lock of table t, clustered index, key 02");
        line(account, "Rolled back: (1)");
        line(account, DAY);
        // In the words of when it was found.
        fixture.store().tables().rename_table("t", "renamed").expect("rename");
        let text = fixture.engine.status_text();
        let account = text.split("LATEST DETECTED DEADLOCK").nth(1).expect("an account");
        assert!(account.contains("table t, clustered index, key 02"), "{account}");
        fixture.engine.commit(&mut first, false).expect("commit");
        waiting.join().expect("second");
    });
}

/// Text copied out of a terminal had no time, and a transaction that had only locked rows was
/// "TRANSACTION 0".
#[test]
fn it_says_when_and_makes_up_no_number() {
    let fixture = TableFixture::create(SimDisk::new(1));
    let mut maker = connection(&fixture, 10);
    fixture.insert(&mut maker, &[1], &row(1)).expect("insert");
    fixture.engine.commit(&mut maker, false).expect("commit");
    let mut reader = connection(&fixture, 11);
    fixture
        .get(&mut reader, &[1], Some(LockMode::Exclusive))
        .expect("locked");
    let text = fixture.engine.status_text();
    assert!(line(&text, DAY).ends_with(" SLUICE STATUS"), "{text}");
    line(&text, "---TRANSACTION without a number yet, connection 11, ");
    fixture.engine.commit(&mut reader, false).expect("commit");
}

/// A forgotten prepared transaction holds its locks for ever. It looked like any other, and like
/// one just begun after a restart. Transactions that waited for it were shown the number of a
/// connection that had gone.
#[test]
fn a_prepared_transaction_is_reported_as_such() {
    let disk = SimDisk::new(1);
    let fixture = TableFixture::create(disk.clone());
    let mut trx = connection(&fixture, 11);
    fixture.insert(&mut trx, &[1], &row(1)).expect("insert");
    assert!(!fixture.engine.status_text().contains("prepared"));
    let xid = xid(b"x");
    fixture.engine.prepare(&mut trx, &xid).expect("prepare");
    let shared = trx.shared.clone();
    fixture.engine.in_doubt.keep(xid.clone(), trx);
    let line_of = |fixture: &TableFixture| line(&fixture.engine.status_text(), "---TRANSACTION").to_string();
    let text = line_of(&fixture);
    assert!(
        text.contains(", connection 11, ") && text.contains(&format!(", XA {xid}, prepared")),
        "{text}"
    );
    shared.detach();
    let text = line_of(&fixture);
    assert!(
        text.contains(", without a connection, ") && text.contains(&format!(", XA {xid}, prepared")),
        "{text}"
    );
    std::thread::scope(|s| {
        let mut other = connection(&fixture, 12);
        let fixture = &fixture;
        let shared = other.shared.clone();
        let waiting = s.spawn(move || {
            fixture.insert(&mut other, &[1], &row(1)).expect_err("taken");
            fixture.engine.rollback(&mut other).expect("rollback");
        });
        while fixture.engine.counters().row_lock_current_waits.get() == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let wait = line(&fixture.engine.status_text(), "waits for").to_string();
        assert!(wait.ends_with(&format!("(XA {xid}, without a connection)")), "{wait}");
        let report = fixture.engine.named_locks(LockDetail::Nothing).report;
        let holder = report
            .transactions
            .iter()
            .find(|trx| trx.prepared)
            .expect("it is shown");
        assert_eq!((holder.connection, holder.xid.as_ref()), (0, Some(&xid)));
        fixture.store().trx_sys.locks().cancel_wait(&shared);
        waiting.join().expect("second");
    });
    fixture.engine.close(Close::LogOnly).expect("close");
    let fixture = TableFixture::reopen(disk).expect("open");
    let text = line_of(&fixture);
    assert!(
        text.contains(&format!(", found at start, XA {xid}, prepared")),
        "{text}"
    );
    fixture.engine.decide(&xid, true).expect("commit");
    assert!(!fixture.engine.status_text().contains("---TRANSACTION"));
}

/// A transaction that held only ranges, or a snapshot, had no line, though others, or purge, waited
/// for it.
#[test]
fn every_holder_of_something_has_a_line() {
    let fixture = TableFixture::create(SimDisk::new(1));
    let mut locker = connection(&fixture, 11);
    locker.isolation = Isolation::Serializable;
    assert_eq!(fixture.get(&mut locker, &[7], Some(LockMode::Shared)), Ok(None));
    assert_eq!(fixture.get(&mut locker, &[9], Some(LockMode::Shared)), Ok(None));
    let mut reader = connection(&fixture, 12);
    fixture.store().trx_sys.visibility.open_view(&mut reader);
    let idle = fixture.engine.new_trx(Arc::new(ThreadWaiter::default()), 13);
    let text = fixture.engine.status_text();
    let of_locker = line(&text, "---TRANSACTION without a number yet, connection 11, ");
    assert!(of_locker.ends_with("row locks 0, range locks 2"), "{of_locker}");
    let of_reader = line(&text, "---TRANSACTION without a number yet, connection 12, ");
    assert!(of_reader.ends_with(", snapshot 0 s old"), "{of_reader}");
    assert_eq!(text.matches("---TRANSACTION").count(), 2, "{text}");
    let report = fixture.engine.named_locks(LockDetail::Locks).report;
    let shown: Vec<u64> = report.transactions.iter().map(|trx| trx.connection).collect();
    assert_eq!(shown, [11, 12], "as in the tables");
    assert_eq!(report.transactions[0].range_locks, report.locks.len() as u64);
    for mut trx in [locker, reader, idle] {
        fixture.engine.commit(&mut trx, false).expect("commit");
    }
    assert!(!fixture.engine.status_text().contains("---TRANSACTION"));
    assert_eq!(fixture.engine.named_locks(LockDetail::Locks).report.locks, []);
}

/// The file's length was noted once a second, the pages in use were counted at once: more were in
/// use than there were.
#[test]
fn no_more_undo_is_in_use_than_its_file_has() {
    let fixture = TableFixture::create(SimDisk::new(1));
    let mut trx = connection(&fixture, 11);
    let version = |n: u8| Row {
        body: vec![n; PAGE_SIZE / 5],
        ..row(1)
    };
    fixture.insert(&mut trx, &[1], &version(0)).expect("insert");
    let place = |name: &str| Counters::NAMES.iter().position(|n| *n == name).expect("a counter");
    let (used, all, bytes) = (place("undo_pages"), place("undo_file_pages"), place("undo_bytes"));
    let mut used_before = 0;
    for n in 0..60 {
        fixture
            .update(&mut trx, &[1], &version(n), &version(n + 1))
            .expect("update");
        let now = fixture.engine.counter_values();
        assert!(
            now[used] >= used_before && now[used] <= now[all],
            "{} of {}",
            now[used],
            now[all]
        );
        assert_eq!(now[bytes], now[used] * PAGE_SIZE as u64);
        used_before = now[used];
    }
    assert!(used_before >= 12, "{used_before}");
    fixture.engine.commit(&mut trx, false).expect("commit");
}
