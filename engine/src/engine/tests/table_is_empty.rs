//! Whether a table is empty, asked while its pending changes are merged. Entries of a row that is
//! gone may be pending for an empty clustered tree: purge visits the transactions' streams in any
//! order.
use super::bulk_insert::commit;
use super::fixture::*;
use super::load_new_table::open;
use crate::base::sync_point::at;
use crate::base::SyncPoint;
use crate::change;
use crate::io::sim::SimDisk;
use crate::txn::Isolation::ReadCommitted;
use std::sync::Arc;

fn row(group: u8, tag: u16) -> Row {
    Row {
        group,
        shade: 0,
        tag: Some(tag),
        body: vec![b'x'; 20],
    }
}

fn opened() -> Arc<TableFixture> {
    let fixture = Arc::new(open(SimDisk::new(1), 0));
    fixture.buffer_by(0);
    fixture.engine.set("change_buffer_test_mode", 4).expect("set");
    fixture
}

fn merge_all(fixture: &TableFixture, secondary: usize) {
    let layout = fixture.table.layout();
    change::drain(&fixture.store().pool, &layout.secondary[secondary].index).expect("drain");
}

/// Leaves an entry of a row that is gone, to which purge has not come yet, in the delta tree of
/// by_group. The deletion lies in the stream with the older end, so that it is purged first.
fn leave_entry(fixture: &TableFixture) {
    let (moved, beside, kept) = ([1u8], [2u8], [3u8]);
    let mut trx = fixture.begin(ReadCommitted);
    fixture.insert(&mut trx, &moved, &row(1, 10)).expect("insert");
    commit(fixture, trx);
    let mut first = fixture.begin(ReadCommitted);
    fixture.insert(&mut first, &beside, &row(5, 50)).expect("insert");
    let mut second = fixture.begin(ReadCommitted);
    fixture
        .update(&mut second, &moved, &row(1, 10), &row(2, 10))
        .expect("update");
    commit(fixture, first);
    commit(fixture, second);
    let mut undone = fixture.begin(ReadCommitted);
    fixture.insert(&mut undone, &kept, &row(6, 60)).expect("insert");
    let mut last = fixture.begin(ReadCommitted);
    fixture.delete(&mut last, &moved, &row(2, 10)).expect("delete");
    fixture.delete(&mut last, &beside, &row(5, 50)).expect("delete");
    commit(fixture, last);
    fixture.engine.rollback(&mut undone).expect("rollback");
    assert!(fixture.store().purger().purge_step(1000).expect("purge"));
    merge_all(fixture, 1);
    let tree = fixture.table.layout().clustered.tree;
    assert!(tree.is_empty(&fixture.store().pool).expect("read"));
}

#[test]
fn an_entry_that_is_merged_meanwhile_is_met() {
    for merged_before in [false, true] {
        let fixture = opened();
        leave_entry(&fixture);
        let shared_fixture = fixture.clone();
        if merged_before {
            at(SyncPoint::NothingPending, || ());
        }
        at(SyncPoint::NothingPending, move || merge_all(&shared_fixture, 0));
        assert!(!fixture
            .store()
            .loads()
            .has_empty_trees(fixture.table.layout())
            .expect("look"));
        merge_all(&fixture, 0);
        assert!(!fixture
            .store()
            .loads()
            .has_empty_trees(fixture.table.layout())
            .expect("look"));
    }
}

/// What appears between the looks of a load, and is merged within the last of them: the load goes
/// one by one.
#[test]
fn a_load_meets_what_was_left_pending_between_its_looks() {
    let fixture = opened();
    let mut trx = fixture.begin(ReadCommitted);
    let begun = fixture.store().loads().begin_bulk_insert(&fixture.table).expect("look");
    let mut bulk = begun.expect("an empty table");
    at(SyncPoint::NothingPending, || ());
    let shared_fixture = fixture.clone();
    at(SyncPoint::NothingPending, move || leave_entry(&shared_fixture));
    let shared_fixture = fixture.clone();
    at(SyncPoint::NothingPending, move || merge_all(&shared_fixture, 0));
    for n in 0..5u8 {
        let (pk, row) = ([n + 10], row(n, 100 + n as u16));
        with_entries(&pk, &row, |entries| bulk.add(&mut trx, &pk, &row.encode(), entries)).expect("add");
    }
    let done = bulk.finish(&mut trx);
    bulk.end(&mut trx);
    done.expect("finish");
    commit(&fixture, trx);
    fixture.purge_all();
    fixture.check_table();
}
