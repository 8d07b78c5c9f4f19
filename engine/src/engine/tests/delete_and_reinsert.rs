//! Rows that are deleted and put back: what the insert and purge look at, and what they leave.
use super::fixture::*;
use crate::engine::Engine;
use crate::io::sim::SimDisk;
use crate::txn::{Isolation, Trx};

const KEY: &[u8] = &[1];

fn row(n: u8) -> Row {
    Row {
        group: n,
        shade: 0,
        tag: Some(n as u16),
        body: vec![n; 20],
    }
}

/// A table with one row, and nothing to purge.
fn fixture() -> TableFixture {
    let engine = Engine::open_still(SimDisk::new(1), config()).expect("engine");
    let fixture = TableFixture::with(engine);
    fixture.steady();
    let mut trx = fixture.begin(Isolation::ReadCommitted);
    fixture.insert(&mut trx, KEY, &row(1)).expect("insert");
    fixture.engine.commit(&mut trx, true).expect("commit");
    fixture.purge_all();
    fixture
}

fn page_requests(fixture: &TableFixture) -> u64 {
    fixture.store().pool.update_gauges();
    fixture.store().pool.counters().buffer_pool_read_requests.get()
}

/// Of a transaction that does this, and of its purge, all in one job.
fn requests(fixture: &TableFixture, change: impl FnOnce(&TableFixture, &mut Trx)) -> (u64, u64) {
    let start = page_requests(fixture);
    let mut trx = fixture.begin(Isolation::ReadCommitted);
    change(fixture, &mut trx);
    fixture.engine.commit(&mut trx, true).expect("commit");
    let committed = page_requests(fixture);
    while fixture.store().purger().purge_step(100).expect("purge") {}
    (committed - start, page_requests(fixture) - committed)
}
fn requests_of_purge(fixture: &TableFixture, change: impl FnOnce(&TableFixture, &mut Trx)) -> u64 {
    requests(fixture, change).1
}

fn clustered_entries(fixture: &TableFixture) -> u64 {
    fixture.entries_in_tree(0)
}

#[test]
fn a_row_that_was_put_back_is_not_looked_at() {
    let fixture = fixture();
    let put_back = requests_of_purge(&fixture, |fixture, trx| {
        fixture.delete(trx, KEY, &row(1)).expect("delete");
        fixture.insert(trx, KEY, &row(1)).expect("insert");
    });
    let (mut model, mut reader) = (Model::new(), fixture.begin(Isolation::RepeatableRead));
    model.insert(KEY.to_vec(), row(1));
    fixture.check_view(&mut reader, &model, "put back");
    fixture.engine.commit(&mut reader, false).expect("commit");
    fixture.check_table();
    let deleted = requests_of_purge(&fixture, |fixture, trx| {
        fixture.delete(trx, KEY, &row(1)).expect("delete")
    });
    assert!(put_back < deleted, "{put_back} and {deleted} page requests");
    assert_eq!(clustered_entries(&fixture), 0);
    fixture.check_table();
}

/// By a statement that was rolled back: it is still deleted.
#[test]
fn a_mark_stays_to_be_removed_if_the_row_was_put_back_in_vain() {
    let fixture = fixture();
    requests_of_purge(&fixture, |fixture, trx| {
        fixture.delete(trx, KEY, &row(1)).expect("delete");
        let savepoint = fixture.store().rollbacks().savepoint(trx);
        fixture.insert(trx, KEY, &row(2)).expect("insert");
        fixture
            .store()
            .rollbacks()
            .rollback_to(trx, savepoint)
            .expect("rollback");
    });
    assert_eq!(clustered_entries(&fixture), 0);
    fixture.check_table();
}

/// Deleted, put back, deleted: the first mark belongs to no deletion any more, the second is
/// removed.
#[test]
fn the_last_mark_of_several_is_removed() {
    let fixture = fixture();
    requests_of_purge(&fixture, |fixture, trx| {
        for n in [2, 3, 4] {
            fixture.delete(trx, KEY, &row(n - 1)).expect("delete");
            fixture.insert(trx, KEY, &row(n)).expect("insert");
        }
        fixture.delete(trx, KEY, &row(4)).expect("delete");
    });
    assert_eq!(clustered_entries(&fixture), 0);
    fixture.check_table();
}

/// The undo records tell that there is nothing of its own under the new keys.
#[test]
fn an_index_is_not_looked_at_for_keys_that_the_transaction_never_left() {
    let fixture = fixture();
    let replace = |by: u8| {
        move |fixture: &TableFixture, trx: &mut Trx| {
            fixture.delete(trx, KEY, &row(1)).expect("delete");
            fixture.insert(trx, KEY, &row(by)).expect("insert");
            fixture.update(trx, KEY, &row(by), &row(1)).expect("update");
        }
    };
    // The update leads back to the keys that the deletion left.
    let (there_and_back, _) = requests(&fixture, replace(2));
    let (mut model, mut reader) = (Model::new(), fixture.begin(Isolation::RepeatableRead));
    model.insert(KEY.to_vec(), row(1));
    fixture.check_view(&mut reader, &model, "put back");
    fixture.engine.commit(&mut reader, false).expect("commit");
    let (away, _) = requests(&fixture, |fixture, trx| {
        fixture.delete(trx, KEY, &row(1)).expect("delete");
        fixture.insert(trx, KEY, &row(2)).expect("insert");
        fixture.update(trx, KEY, &row(2), &row(3)).expect("update");
    });
    assert!(away < there_and_back, "{away} and {there_and_back} page requests");
    fixture.check_table();
}

/// Without snapshot isolation a transaction may change a row that another changed since its
/// snapshot. It gave the row its old key, and then went back from that change. The old entry was
/// then dead by the transaction's own stamp. Its own reads, which see the row as it was, passed the
/// entry over.
#[test]
fn an_old_entry_that_the_reader_has_killed_leads_to_the_row_still() {
    let fixture = fixture();
    fixture.engine.set("snapshot_isolation", 0).expect("set");
    let mut reader = fixture.begin(Isolation::RepeatableRead);
    assert_eq!(fixture.scan(&mut reader, 0, false, false, None).expect("scan").len(), 1);
    let mut other = fixture.begin(Isolation::ReadCommitted);
    fixture.update(&mut other, KEY, &row(1), &row(2)).expect("update");
    fixture.engine.commit(&mut other, true).expect("commit");
    let savepoint = fixture.store().rollbacks().savepoint(&reader);
    let back = Row {
        body: vec![9; 20],
        ..row(1)
    };
    fixture.update(&mut reader, KEY, &row(2), &back).expect("update");
    fixture
        .store()
        .rollbacks()
        .rollback_to(&mut reader, savepoint)
        .expect("rollback");
    for (index, covering) in [
        (0, false),
        (BY_GROUP, false),
        (BY_GROUP, true),
        (BY_TAG, false),
        (BY_TAG, true),
    ] {
        let found = fixture.scan(&mut reader, index, false, covering, None).expect("scan");
        assert_eq!(found.len(), 1, "index {index}, covering {covering}");
        if !covering {
            assert_eq!(Row::decode(&found[0].row), row(1), "index {index}");
        }
    }
    fixture.engine.commit(&mut reader, true).expect("commit");
    let mut young = fixture.begin(Isolation::RepeatableRead);
    let found = fixture.scan(&mut young, BY_GROUP, false, false, None).expect("scan");
    assert_eq!((found.len(), Row::decode(&found[0].row)), (1, row(2)));
}
