//! A load that is taken back while others' rows lie among its own: they stay, whatever its transaction did with them.
use super::bulk_insert::{commit, fill, shuffled};
use super::load::{open, row};
use super::rig::*;
use crate::base::Error;
use crate::io::sim::SimDisk;
use crate::txn::Isolation::{ReadCommitted, ReadUncommitted, RepeatableRead};
use crate::txn::Trx;

#[test]
fn what_others_insert_outlives_the_rollback() {
    let rig = open(SimDisk::new(7), 0);
    let rows = shuffled(2000);
    let mut trx = rig.begin(ReadCommitted);
    fill(&rig, &mut trx, &rows).expect("load");
    let mut model = Model::new();
    for n in 0..30u32 {
        let mut other = rig.begin(ReadCommitted);
        let (pk, row) = (
            format!("{:x}-other", n * 140).into_bytes(),
            Row {
                tag: Some(62_000 + n as u16),
                ..row(n)
            },
        );
        rig.insert(&mut other, &pk, &row).expect("between the rows of the load");
        commit(&rig, other);
        model.insert(pk, row);
    }
    // A row of the load is locked by its maker, and so is a unique value of it.
    let mut other = rig.begin(ReadCommitted);
    other.lock_wait_timeout_ms = 1;
    let taken = rows.iter().find(|(_, row)| row.tag.is_some()).expect("a tag");
    let refused = rig.insert(&mut other, &taken.0, &row(4));
    assert_eq!(refused, Err(Error::LockWaitTimeout));
    let refused = rig.insert(&mut other, b"new", &taken.1);
    assert_eq!(refused, Err(Error::LockWaitTimeout));
    rig.engine.rollback(&mut other).expect("rollback");
    rig.engine.rollback(&mut trx).expect("rollback");
    let mut trx = rig.begin(ReadUncommitted);
    rig.check_view(&mut trx, &model, "the others' rows");
    commit(&rig, trx);
    rig.check_table();
}

fn tagged(n: u32) -> Row {
    let tag = Some(62_000 + n as u16);
    Row { tag, ..row(n) }
}
fn insert_as_another(rig: &Rig, pk: &[u8], row: &Row) {
    let mut other = rig.begin(ReadCommitted);
    rig.insert(&mut other, pk, row).expect("behind the load");
    commit(rig, other);
}

/// Purge and merges change nothing, and leave a sound table.
fn check_to_the_end(rig: &Rig, model: &Model) {
    for _ in 0..2 {
        let mut reader = rig.begin(ReadUncommitted);
        rig.check_view(&mut reader, model, "the others' rows");
        commit(rig, reader);
        rig.check_table();
        rig.purge_all();
        rig.store().drain_changes().expect("drain");
    }
}

/// One index is left alone, or both are, or the entry keeps its key and changes in its raw bytes; then the row is deleted.
fn change_and_delete(rig: &Rig, trx: &mut Trx, (pk, old): (&[u8], &Row), how: u32) {
    let mut changed = old.clone();
    changed.body = vec![7; 30];
    match how {
        0 => {}
        1 => changed.group ^= 1,
        2 => changed.tag = Some(63_000),
        _ => changed.shade ^= 1,
    }
    let longer = Row {
        body: vec![8; 60],
        ..changed.clone()
    };
    rig.update(trx, pk, old, &changed).expect("update");
    rig.update(trx, pk, &changed, &longer).expect("update");
    rig.delete(trx, pk, &longer).expect("delete");
}

/// Seed 1795350480081590: the loader updated and deleted a row that another had inserted behind the load; taken back, the entries that the
/// update had left alone bore the loader's stamp, and went with the load.
#[test]
fn others_rows_that_the_loader_changed_outlive_the_rollback() {
    for to_savepoint in [true, false] {
        let rig = open(SimDisk::new(8), 0);
        let mut trx = rig.begin(ReadCommitted);
        let savepoint = rig.store().savepoint(&trx);
        fill(&rig, &mut trx, &shuffled(300)).expect("load");
        let model: Model = (0..8).map(|n| (vec![b'~', n], tagged(n as u32))).collect();
        for (how, (pk, row)) in (0..).zip(&model) {
            insert_as_another(&rig, pk, row);
            change_and_delete(&rig, &mut trx, (pk, row), how % 4);
            if how >= 4 {
                rig.insert(&mut trx, pk, row).expect("put back");
            }
        }
        if to_savepoint {
            rig.store().rollback_to(&mut trx, savepoint).expect("rollback");
            commit(&rig, trx);
        } else {
            rig.engine.rollback(&mut trx).expect("rollback");
        }
        check_to_the_end(&rig, &model);
    }
}

/// The loader gave a row a value that it had had before, and which an old view reads: the entry is dead afterwards, not gone.
#[test]
fn an_old_view_keeps_an_entry_that_the_loader_used_again() {
    let rig = open(SimDisk::new(9), 0);
    let mut trx = rig.begin(ReadCommitted);
    fill(&rig, &mut trx, &shuffled(300)).expect("load");
    let pk = vec![b'~'];
    let (first, mut second) = (tagged(0), tagged(1));
    second.group = first.group ^ 1;
    insert_as_another(&rig, &pk, &first);
    let mut reader = rig.begin(RepeatableRead);
    let seen = Model::from([(pk.clone(), first.clone())]);
    rig.check_view(&mut reader, &seen, "before");
    let mut other = rig.begin(ReadCommitted);
    rig.update(&mut other, &pk, &first, &second).expect("update");
    commit(&rig, other);
    rig.update(&mut trx, &pk, &second, &first).expect("update back");
    rig.engine.rollback(&mut trx).expect("rollback");
    rig.check_view(&mut reader, &seen, "after");
    commit(&rig, reader);
    check_to_the_end(&rig, &Model::from([(pk, second)]));
}
