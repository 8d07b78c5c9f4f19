//! Threads against each other: no update is lost, every snapshot is whole, and unique values stay
//! unique. In the end the secondary indexes agree with the clustered one.
use super::fixture::*;
use crate::base::{Error, Result};
use crate::engine::Close;
use crate::io::sim::SimDisk;
use crate::txn::{Isolation, LockMode, Trx};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

const ACCOUNTS: u32 = 24;
const EACH: u64 = 1000;

fn account(balance: u64, changes: u64) -> Row {
    let mut body = balance.to_be_bytes().to_vec();
    body.extend_from_slice(&changes.to_be_bytes());
    Row {
        group: (balance % 6) as u8,
        shade: (changes % 3) as u8,
        tag: None,
        body,
    }
}
fn parts(row: &Row) -> (u64, u64) {
    let word = |b: &[u8]| u64::from_be_bytes(b.try_into().expect("eight bytes"));
    (word(&row.body[..8]), word(&row.body[8..16]))
}

/// Moves money between two accounts; the second row is locked by a scan of its group, so that both
/// access paths meet.
fn transfer(fixture: &TableFixture, random: &mut Random, isolation: Isolation, commits: &AtomicU64) -> Result<()> {
    let mut trx = fixture.begin(isolation);
    let result = transfer_in(fixture, random, &mut trx);
    match result {
        Ok(()) if random.chance(90) => {
            fixture.engine.commit(&mut trx, false)?;
            commits.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        other => {
            fixture.engine.rollback(&mut trx)?;
            other
        }
    }
}

fn transfer_in(fixture: &TableFixture, random: &mut Random, trx: &mut Trx) -> Result<()> {
    let from = random.below(ACCOUNTS as u64) as u32;
    let to = (from + 1 + random.below(ACCOUNTS as u64 - 1) as u32) % ACCOUNTS;
    let x = Some(LockMode::Exclusive);
    let (from, to) = (pk(from), pk(to));
    let a = fixture.get(trx, &from, x)?.ok_or(Error::NotFound)?;
    let b = fixture.get(trx, &to, x)?.ok_or(Error::NotFound)?;
    let ((a_money, a_changes), (b_money, b_changes)) = (parts(&a), parts(&b));
    let amount = random.below(a_money.min(50) + 1);
    fixture.update(trx, &from, &a, &account(a_money - amount, a_changes + 1))?;
    fixture.update(trx, &to, &b, &account(b_money + amount, b_changes + 1))
}

fn sum(fixture: &TableFixture, index: u32, isolation: Isolation) -> (u64, u64, usize) {
    let mut trx = fixture.begin(isolation);
    let found = fixture.scan(&mut trx, index, false, false, None).expect("scan");
    fixture.engine.commit(&mut trx, false).expect("commit");
    let rows = found.iter().map(|f| parts(&Row::decode(&f.row)));
    let (money, changes) = rows.fold((0, 0), |(m, c), (money, changes)| (m + money, c + changes));
    (money, changes, found.len())
}

#[test]
fn money_is_neither_made_nor_lost() {
    let fixture = TableFixture::create(SimDisk::new(5));
    fixture.engine.start_background();
    let mut trx = fixture.begin(Isolation::ReadCommitted);
    for i in 0..ACCOUNTS {
        fixture.insert(&mut trx, &pk(i), &account(EACH, 0)).expect("insert");
    }
    fixture.engine.commit(&mut trx, false).expect("commit");
    let total = EACH * ACCOUNTS as u64;
    let (commits, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let levels = [
        Isolation::ReadCommitted,
        Isolation::RepeatableRead,
        Isolation::Serializable,
    ];
    std::thread::scope(|s| {
        let writers: Vec<_> = (0..4u64)
            .map(|n| {
                let (fixture, commits) = (&fixture, &commits);
                s.spawn(move || {
                    let mut random = Random(n + 77);
                    for i in 0..600 {
                        match transfer(fixture, &mut random, levels[(n as usize + i) % 3], commits) {
                            Ok(()) | Err(Error::Deadlock | Error::Conflict) => {}
                            Err(e) => panic!("a transfer failed: {e}"),
                        }
                    }
                })
            })
            .collect();
        for n in 0..2 {
            let (fixture, done) = (&fixture, &done);
            s.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let (money, _, rows) = sum(fixture, n, Isolation::RepeatableRead);
                    assert_eq!((money, rows), (total, ACCOUNTS as usize), "a snapshot by index {n}");
                }
            });
        }
        for writer in writers {
            writer.join().expect("a writer");
        }
        done.store(true, Ordering::Relaxed);
    });
    let commits = commits.load(Ordering::Relaxed);
    assert!(commits > 100, "most transfers go through: {commits}");
    assert_eq!(
        sum(&fixture, 0, Isolation::ReadCommitted),
        (total, commits * 2, ACCOUNTS as usize)
    );
    fixture.check_table();
    fixture.engine.finish(Close::Slow).expect("close");
    let left = [0, BY_GROUP, BY_TAG].map(|i| fixture.entries_in_tree(i));
    assert_eq!(left, [ACCOUNTS as u64; 3]);
}

/// Inserts, deletes and moves of rows that fight for few keys and tags.
fn fight(fixture: &TableFixture, random: &mut Random) -> Result<()> {
    let mut trx = fixture.begin(Isolation::ReadCommitted);
    let mut result = Ok(());
    for _ in 0..1 + random.below(4) {
        let savepoint = fixture.store().rollbacks().savepoint(&trx);
        let key = pk(random.below(12) as u32);
        let row = random.row(8);
        let step = match fixture.get(&mut trx, &key, Some(LockMode::Exclusive)) {
            Ok(None) => fixture.insert(&mut trx, &key, &row),
            Ok(Some(old)) if random.chance(40) => fixture.delete(&mut trx, &key, &old),
            Ok(Some(old)) => fixture.update(&mut trx, &key, &old, &row),
            Err(e) => Err(e),
        };
        match step {
            Ok(()) if random.chance(20) => fixture.store().rollbacks().rollback_to(&mut trx, savepoint)?,
            Ok(()) | Err(Error::Duplicate { .. }) => {}
            failed => {
                result = failed;
                break;
            }
        }
    }
    if result.is_ok() && random.chance(80) {
        fixture.engine.commit(&mut trx, false)
    } else {
        fixture.engine.rollback(&mut trx)?;
        result
    }
}

#[test]
fn unique_values_stay_unique() {
    let fixture = TableFixture::create(SimDisk::new(6));
    fixture.engine.start_background();
    std::thread::scope(|s| {
        for n in 0..4u64 {
            let fixture = &fixture;
            s.spawn(move || {
                let mut random = Random(n + 3);
                for _ in 0..500 {
                    match fight(fixture, &mut random) {
                        Ok(()) | Err(Error::Deadlock) => {}
                        Err(e) => panic!("a change failed: {e}\n{:#?}", fixture.store().trx_sys.transactions()),
                    }
                }
            });
        }
    });
    let mut trx = fixture.begin(Isolation::ReadCommitted);
    let rows = fixture.scan(&mut trx, 0, false, false, None).expect("scan");
    fixture.engine.commit(&mut trx, false).expect("commit");
    let mut tags = HashSet::new();
    for row in &rows {
        if let Some(tag) = Row::decode(&row.row).tag {
            assert!(tags.insert(tag), "tag {tag} twice");
        }
    }
    fixture.check_table();
    fixture.engine.finish(Close::Slow).expect("close");
    let left = [0, BY_GROUP, BY_TAG].map(|i| fixture.entries_in_tree(i));
    assert_eq!(left, [rows.len() as u64; 3], "purge leaves one entry for each row");
}

/// Rows that a group may have.
const MOST: usize = 3;

/// Counts a group, and adds the row `n` to it if it is small. Was it added?
fn add_if_small(fixture: &TableFixture, n: u32, group: u8) -> Result<bool> {
    let mut trx = fixture.begin(Isolation::Serializable);
    let row = Row {
        group,
        shade: 0,
        tag: None,
        body: vec![],
    };
    let result = fixture
        .scan(&mut trx, BY_GROUP, false, false, Some(LockMode::Shared))
        .and_then(|all| {
            let is_small = all.iter().filter(|f| f.key[1] == group).count() < MOST;
            if is_small {
                fixture.insert(&mut trx, &pk(n), &row)?;
            }
            Ok(is_small)
        });
    match result {
        Ok(_) => fixture.engine.commit(&mut trx, false).expect("commit"),
        Err(_) => fixture.engine.rollback(&mut trx).expect("rollback"),
    }
    result
}

/// Two SERIALIZABLE transactions each count a group and then add a row to it if it is small:
/// together they must not overfill it.
#[test]
fn serializable_counts_hold() {
    let fixture = TableFixture::create(SimDisk::new(8));
    fixture.engine.start_background();
    // By group: added, found large enough, given up for a deadlock.
    let ends: Vec<[AtomicUsize; 3]> = (0..6).map(|_| Default::default()).collect();
    std::thread::scope(|s| {
        for n in 0..4u32 {
            let (fixture, ends) = (&fixture, &ends);
            s.spawn(move || {
                let mut random = Random(n as u64 + 9);
                for i in 0..120 {
                    let group = random.below(6) as u8;
                    let end = match add_if_small(fixture, n * 1000 + i, group) {
                        Ok(was_added) => usize::from(!was_added),
                        Err(Error::Deadlock) => 2,
                        Err(e) => panic!("{e}"),
                    };
                    ends[group as usize][end].fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let count = |group: u8| {
        let mut trx = fixture.begin(Isolation::ReadCommitted);
        let all = fixture.scan(&mut trx, BY_GROUP, false, true, None).expect("scan");
        fixture.engine.commit(&mut trx, false).expect("commit");
        all.iter().filter(|f| f.key[1] == group).count()
    };
    for group in 0..6u8 {
        let [added, large, _] = &ends[group as usize];
        let found = count(group);
        assert_eq!(
            found,
            added.load(Ordering::Relaxed),
            "group {group}: what was committed is there; {ends:?}"
        );
        assert!(found <= MOST, "group {group} has {found} rows");
        // All hold what all wait for, so how many got through is luck; but no thread got through
        // with fewer locks than it asked for.
        assert!(
            found == MOST || large.load(Ordering::Relaxed) == 0,
            "group {group} was left with {found} rows; {ends:?}"
        );
        // Alone, a thread meets no conflict.
        for n in found..MOST {
            assert!(add_if_small(&fixture, 9000 + 10 * group as u32 + n as u32, group).expect("no rival"));
        }
        assert_eq!(count(group), MOST);
        assert!(!add_if_small(&fixture, 9999, group).expect("no rival"));
    }
    fixture.engine.close(Close::Fast).expect("close");
}
