//! A row with many versions, met entry by entry by a scan of a secondary index: each version is
//! gone back once.
use super::fixture::*;
use super::isolation::{commit, filled, row};
use crate::base::{Error, Result};
use crate::io::sim::SimDisk;
use crate::txn::Isolation::{ReadCommitted, RepeatableRead};
use crate::txn::{LockMode, ThreadWaiter, Trx};
use std::sync::Arc;

const X: Option<LockMode> = Some(LockMode::Exclusive);
const CHANGES: u8 = 100;

/// Rows 1 and 2 change their group `CHANGES` times, in turns. Returns whether they are still
/// active.
fn changed(fixture: &TableFixture, groups: [u8; 2], commits: bool) -> Option<Trx> {
    let mut trx = fixture.begin(ReadCommitted);
    let mut now = groups;
    for n in 0..CHANGES {
        for (pk, now) in [1u8, 2].into_iter().zip(&mut now) {
            let new = 100 + n;
            fixture
                .update(&mut trx, &[pk], &row(*now, pk as u16 * 10), &row(new, pk as u16 * 10))
                .expect("update");
            *now = new;
        }
    }
    match commits {
        true => {
            commit(fixture, trx);
            None
        }
        false => Some(trx),
    }
}

fn built(fixture: &TableFixture, look: impl FnOnce() -> Result<()>) -> (Result<()>, u64) {
    let before = fixture.store().counters.versions_built.get();
    let result = look();
    (result, fixture.store().counters.versions_built.get() - before)
}

#[test]
fn each_version_is_gone_back_once() {
    for commits in [true, false] {
        let fixture = filled();
        let mut old = fixture.begin(RepeatableRead);
        let before = fixture.scan(&mut old, BY_GROUP, false, false, None).expect("scan");
        let groups = [1u8, 2].map(|pk| {
            let found = before.iter().find(|f| f.pk == [pk]).expect("there");
            Row::decode(&found.row).group
        });
        let writer = changed(&fixture, groups, commits);
        for descending in [false, true] {
            let (looked, versions) = built(&fixture, || {
                let found = fixture.scan(&mut old, BY_GROUP, descending, false, None)?;
                assert_eq!(found.len(), before.len());
                assert!(before
                    .iter()
                    .all(|f| found.iter().any(|g| (&g.pk, &g.row) == (&f.pk, &f.row))));
                Ok(())
            });
            assert_eq!(looked, Ok(()));
            assert!(versions <= 5 * CHANGES as u64, "{versions}");
        }
        if commits {
            let (looked, versions) = built(&fixture, || fixture.scan(&mut old, BY_GROUP, false, false, X).map(drop));
            assert_eq!(looked, Err(Error::Conflict));
            assert!(versions <= 5 * CHANGES as u64, "{versions}");
        }
        if let Some(mut trx) = writer {
            fixture.engine.rollback(&mut trx).expect("rollback");
        }
        fixture.engine.rollback(&mut old).expect("rollback");
    }
}

fn insert_all(fixture: &TableFixture, rows: u8, row: impl Fn(u8) -> Row) {
    let mut trx = fixture.begin(ReadCommitted);
    for n in 0..rows {
        fixture.insert(&mut trx, &[n], &row(n)).expect("insert");
    }
    commit(fixture, trx);
}
/// In one transaction, from one row to the other.
fn update_all(fixture: &TableFixture, rows: u8, change: impl Fn(u8) -> [Row; 2]) {
    let mut trx = fixture.begin(ReadCommitted);
    for n in 0..rows {
        let [from, to] = change(n);
        fixture.update(&mut trx, &[n], &from, &to).expect("update");
    }
    commit(fixture, trx);
}

/// What UPDATE t SET k = k + 1 does, again and again: the index has each row's entries among those
/// of all others.
#[test]
fn rows_that_change_together_are_gone_back_once_too() {
    const ROWS: u8 = 200;
    let fixture = TableFixture::create(SimDisk::new(1));
    let plain = |group: u8, n: u8| row(group, n as u16);
    insert_all(&fixture, ROWS, |n| plain(0, n));
    let mut old = fixture.begin(RepeatableRead);
    let count = |old: &mut Trx| fixture.scan(old, BY_GROUP, false, false, None).map(|found| found.len());
    assert_eq!(count(&mut old), Ok(ROWS as usize));
    for change in 0..CHANGES {
        update_all(&fixture, ROWS, |n| [plain(change, n), plain(change + 1, n)]);
    }
    let (looked, versions) = built(&fixture, || {
        assert_eq!(count(&mut old)?, ROWS as usize);
        Ok(())
    });
    assert_eq!(looked, Ok(()));
    assert!(versions <= 2 * ROWS as u64 * CHANGES as u64, "{versions}");
    fixture.engine.rollback(&mut old).expect("rollback");
}

/// Each row costs many steps, and there are fewer rows than a scan passes between two looks.
#[test]
fn a_scan_hears_a_kill_on_the_way_back() {
    const ROWS: u8 = 200;
    const LONG: u16 = 500;
    for index in [0, BY_TAG, BY_GROUP] {
        let fixture = TableFixture::create(SimDisk::new(1));
        let plain = |shade: u16, n: u8| Row {
            body: shade.to_be_bytes().to_vec(),
            ..row(7, n as u16)
        };
        insert_all(&fixture, ROWS, |n| plain(0, n));
        let waiter = Arc::new(ThreadWaiter::new());
        let mut old = fixture.engine.new_trx(waiter.clone(), 0);
        fixture.engine.start(&mut old, RepeatableRead, 1000);
        fixture.scan(&mut old, 0, false, false, None).expect("scan");
        for change in 0..LONG {
            update_all(&fixture, ROWS, |n| [plain(change, n), plain(change + 1, n)]);
        }
        waiter.kill();
        let (looked, versions) = built(&fixture, || fixture.scan(&mut old, index, false, false, None).map(drop));
        assert_eq!(looked, Err(Error::Interrupted), "index {index}");
        assert!(versions <= 20 * LONG as u64, "index {index}: {versions}");
        waiter.clear_kill();
        fixture.engine.rollback(&mut old).expect("rollback");
    }
}
