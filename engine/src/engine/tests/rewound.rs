//! A row with many versions, met entry by entry by a scan of a secondary index: each version is gone back once.
use super::isolation::{commit, filled, row};
use super::rig::*;
use crate::base::{Error, Result};
use crate::txn::Isolation::{ReadCommitted, RepeatableRead};
use crate::txn::{LockMode, Trx};

const X: Option<LockMode> = Some(LockMode::Exclusive);
const CHANGES: u8 = 100;

/// Rows 1 and 2 change their group `CHANGES` times, in turns. Returns whether they are still active.
fn changed(rig: &Rig, groups: [u8; 2], commits: bool) -> Option<Trx> {
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

fn built(rig: &Rig, look: impl FnOnce() -> Result<()>) -> (Result<()>, u64) {
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
