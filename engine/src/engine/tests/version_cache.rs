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
fn changed(rig: &TableFixture, groups: [u8; 2], commits: bool) -> Option<Trx> {
    let mut trx = rig.begin(ReadCommitted);
    let mut now = groups;
    for n in 0..CHANGES {
        for (pk, now) in [1u8, 2].into_iter().zip(&mut now) {
            let new = 100 + n;
            rig.update(&mut trx, &[pk], &row(*now, pk as u16 * 10), &row(new, pk as u16 * 10))
                .expect("update");
            *now = new;
        }
    }
    match commits {
        true => {
            commit(rig, trx);
            None
        }
        false => Some(trx),
    }
}

fn built(rig: &TableFixture, look: impl FnOnce() -> Result<()>) -> (Result<()>, u64) {
    let before = rig.store().counters.versions_built.get();
    let result = look();
    (result, rig.store().counters.versions_built.get() - before)
}

#[test]
fn each_version_is_gone_back_once() {
    for commits in [true, false] {
        let rig = filled();
        let mut old = rig.begin(RepeatableRead);
        let before = rig.scan(&mut old, BY_GROUP, false, false, None).expect("scan");
        let groups = [1u8, 2].map(|pk| {
            let found = before.iter().find(|f| f.pk == [pk]).expect("there");
            Row::decode(&found.row).group
        });
        let writer = changed(&rig, groups, commits);
        for descending in [false, true] {
            let (looked, versions) = built(&rig, || {
                let found = rig.scan(&mut old, BY_GROUP, descending, false, None)?;
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
            let (looked, versions) = built(&rig, || rig.scan(&mut old, BY_GROUP, false, false, X).map(drop));
            assert_eq!(looked, Err(Error::Conflict));
            assert!(versions <= 5 * CHANGES as u64, "{versions}");
        }
        if let Some(mut trx) = writer {
            rig.engine.rollback(&mut trx).expect("rollback");
        }
        rig.engine.rollback(&mut old).expect("rollback");
    }
}

fn insert_all(rig: &TableFixture, rows: u8, row: impl Fn(u8) -> Row) {
    let mut trx = rig.begin(ReadCommitted);
    for n in 0..rows {
        rig.insert(&mut trx, &[n], &row(n)).expect("insert");
    }
    commit(rig, trx);
}
/// In one transaction, from one row to the other.
fn update_all(rig: &TableFixture, rows: u8, change: impl Fn(u8) -> [Row; 2]) {
    let mut trx = rig.begin(ReadCommitted);
    for n in 0..rows {
        let [from, to] = change(n);
        rig.update(&mut trx, &[n], &from, &to).expect("update");
    }
    commit(rig, trx);
}

/// What UPDATE t SET k = k + 1 does, again and again: the index has each row's entries among those
/// of all others.
#[test]
fn rows_that_change_together_are_gone_back_once_too() {
    const ROWS: u8 = 200;
    let rig = TableFixture::create(SimDisk::new(1));
    let plain = |group: u8, n: u8| row(group, n as u16);
    insert_all(&rig, ROWS, |n| plain(0, n));
    let mut old = rig.begin(RepeatableRead);
    let count = |old: &mut Trx| rig.scan(old, BY_GROUP, false, false, None).map(|found| found.len());
    assert_eq!(count(&mut old), Ok(ROWS as usize));
    for change in 0..CHANGES {
        update_all(&rig, ROWS, |n| [plain(change, n), plain(change + 1, n)]);
    }
    let (looked, versions) = built(&rig, || {
        assert_eq!(count(&mut old)?, ROWS as usize);
        Ok(())
    });
    assert_eq!(looked, Ok(()));
    assert!(versions <= 2 * ROWS as u64 * CHANGES as u64, "{versions}");
    rig.engine.rollback(&mut old).expect("rollback");
}

/// Each row costs many steps, and there are fewer rows than a scan passes between two looks.
#[test]
fn a_scan_hears_a_kill_on_the_way_back() {
    const ROWS: u8 = 200;
    const LONG: u16 = 500;
    for index in [0, BY_TAG, BY_GROUP] {
        let rig = TableFixture::create(SimDisk::new(1));
        let plain = |shade: u16, n: u8| Row {
            body: shade.to_be_bytes().to_vec(),
            ..row(7, n as u16)
        };
        insert_all(&rig, ROWS, |n| plain(0, n));
        let waiter = Arc::new(ThreadWaiter::new());
        let mut old = rig.engine.new_trx(waiter.clone(), 0);
        rig.engine.start(&mut old, RepeatableRead, 1000);
        rig.scan(&mut old, 0, false, false, None).expect("scan");
        for change in 0..LONG {
            update_all(&rig, ROWS, |n| [plain(change, n), plain(change + 1, n)]);
        }
        waiter.kill();
        let (looked, versions) = built(&rig, || rig.scan(&mut old, index, false, false, None).map(drop));
        assert_eq!(looked, Err(Error::Interrupted), "index {index}");
        assert!(versions <= 20 * LONG as u64, "index {index}: {versions}");
        waiter.clear_kill();
        rig.engine.rollback(&mut old).expect("rollback");
    }
}
