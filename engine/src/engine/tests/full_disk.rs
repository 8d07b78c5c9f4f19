//! A full disk, where changes of secondary indexes are buffered.
//!
//! The delta tree could not grow, so the statement failed. Its rollback appended the inverse
//! change, and failed as well. The transaction lost what it had done before, and waited for space
//! with its rows locked. Purge, which would have freed space, waited too.
use super::change_buffer::{buffer, drain, pending};
use super::fixture::*;
use crate::base::ids::FIRST_TABLE_FILE;
use crate::base::{Error, Result};
use crate::io::SimDisk;
use crate::table::Rounds;
use crate::txn::Isolation::ReadCommitted;
use crate::txn::Trx;
use std::sync::Arc;

const ROWS: u32 = 1500;
/// A transaction ends after so many statements that failed.
const FAILED_MAX: u32 = 5;

fn row(n: u32, group: u8) -> Row {
    Row {
        group,
        shade: 0,
        tag: Some(n as u16),
        body: vec![n as u8; 20],
    }
}
/// A table of rows with nothing pending; what follows is buffered, and there is no free page, in
/// its file or on the disk.
fn full() -> (TableFixture, Arc<SimDisk>, Model) {
    let disk = SimDisk::new(9);
    let fixture = TableFixture::create(disk.clone());
    buffer(&fixture, true);
    let mut model = Model::new();
    let mut trx = fixture.begin(ReadCommitted);
    for n in 0..ROWS {
        fixture.insert(&mut trx, &pk(n), &row(n, n as u8 % 7)).expect("insert");
        model.insert(pk(n), row(n, n as u8 % 7));
    }
    fixture.engine.commit(&mut trx, true).expect("commit");
    // There is room for undo.
    let mut trx = fixture.begin(ReadCommitted);
    for (pk, row) in &model {
        let body = vec![1; row.body.len()];
        fixture
            .update(&mut trx, pk, row, &Row { body, ..row.clone() })
            .expect("update");
        fixture.update(&mut trx, pk, row, row).expect("update");
    }
    fixture.engine.commit(&mut trx, true).expect("commit");
    fixture.purge_all();
    drain(&fixture);
    fixture.engine.checkpoint().expect("checkpoint");
    disk.set_space(Some(disk.used()));
    let mut mtr = fixture.store().pool.begin();
    while crate::space::allocate(&mut mtr, FIRST_TABLE_FILE, 0).is_ok() {}
    mtr.commit();
    (fixture, disk, model)
}
fn remove(fixture: &TableFixture, trx: &mut Trx, model: &mut Model, n: u32) -> Result<()> {
    fixture.delete(trx, &pk(n), &row(n, n as u8 % 7))?;
    model.remove(&pk(n));
    Ok(())
}
fn change(fixture: &TableFixture, trx: &mut Trx, model: &mut Model, n: u32) -> Result<()> {
    fixture.update(trx, &pk(n), &row(n, n as u8 % 7), &row(n, 9))?;
    model.insert(pk(n), row(n, 9));
    Ok(())
}
fn add(fixture: &TableFixture, trx: &mut Trx, model: &mut Model, n: u32) -> Result<()> {
    fixture.insert(trx, &pk(ROWS + n), &row(ROWS + n, 5))?;
    model.insert(pk(ROWS + n), row(ROWS + n, 5));
    Ok(())
}

#[test]
fn a_full_disk_costs_a_statement_and_no_transaction() {
    for (what, statement) in [
        ("DELETE", remove as fn(&_, &mut _, &mut _, u32) -> _),
        ("UPDATE", change),
        ("INSERT", add),
    ] {
        for commits in [true, false] {
            let (fixture, disk, before) = full();
            let mut model = before.clone();
            let mut trx = fixture.begin(ReadCommitted);
            let mut failed = 0;
            for n in 0..ROWS {
                match statement(&fixture, &mut trx, &mut model, n) {
                    Ok(()) => {}
                    Err(Error::Full(_)) => failed += 1,
                    Err(e) => panic!("{what} {n}: {e}"),
                }
                if failed == FAILED_MAX {
                    break;
                }
            }
            assert!(pending(&fixture) > 0, "{what}: nothing was buffered");
            if commits {
                fixture.engine.commit(&mut trx, true).expect(what);
            } else {
                fixture.engine.rollback(&mut trx).expect(what);
                model = before;
            }
            assert_eq!(fixture.store().rollbacks().rollbacks_waiting(), 0, "{what}");
            // The log may want a new file.
            while let Ok(true) = fixture.store().purger().purge_step(7) {}
            let mut trx = fixture.begin(ReadCommitted);
            fixture.check_view(&mut trx, &model, what);
            fixture.engine.commit(&mut trx, true).expect("commit");
            disk.set_space(None);
            fixture.purge_all();
            drain(&fixture);
            let mut trx = fixture.begin(ReadCommitted);
            fixture.check_view(&mut trx, &model, what);
            fixture.engine.commit(&mut trx, true).expect("commit");
        }
    }
}

/// An index that had just been found to need space was left alone for ten seconds. A drain
/// requested meanwhile was reported as done.
#[test]
fn a_drain_begins_with_what_failed_a_moment_ago() {
    let (fixture, disk, mut model) = full();
    let mut trx = fixture.begin(ReadCommitted);
    for n in 0..ROWS {
        // All of one group: more than its leaf has room for.
        change(&fixture, &mut trx, &mut model, n).ok();
    }
    fixture.engine.commit(&mut trx, true).expect("commit");
    let mut rounds = Rounds::default();
    for _ in 0..100 {
        fixture.engine.set("change_buffer_drain", 1).expect("set");
        fixture
            .store()
            .merge_scheduler()
            .merge_round(&mut rounds)
            .expect("round");
    }
    fixture.engine.set("change_buffer_drain", 0).expect("set");
    fixture
        .store()
        .merge_scheduler()
        .merge_round(&mut rounds)
        .expect("round");
    assert!(pending(&fixture) > 0, "there is room");
    disk.set_space(None);
    fixture.engine.set("change_buffer_drain", 1).expect("set");
    let mut n = 0;
    while fixture.store().change.is_draining() {
        fixture
            .store()
            .merge_scheduler()
            .merge_round(&mut rounds)
            .expect("round");
        n += 1;
        assert!(n < 1000, "{} pending", pending(&fixture));
    }
    assert_eq!(pending(&fixture), 0);
}
