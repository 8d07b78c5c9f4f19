//! Two readers of different age over a stream whose ends were thinned. The heap knew the stream by
//! its first end, and thinning dropped that end. When the older reader had gone, purge took the
//! stream. It found no end below the younger reader's horizon, and the engine stopped.
use super::fixture::*;
use crate::engine::Engine;
use crate::io::sim::SimDisk;
use crate::txn::Isolation::{ReadCommitted, RepeatableRead};
use crate::txn::Trx;

fn row(n: u32) -> Row {
    Row {
        group: (n % 7) as u8,
        shade: 0,
        tag: None,
        body: n.to_be_bytes().to_vec(),
    }
}

fn write(fixture: &TableFixture, n: u32) {
    let mut trx = fixture.begin(ReadCommitted);
    fixture.update(&mut trx, &pk(1), &row(n - 1), &row(n)).expect("update");
    fixture.engine.commit(&mut trx, false).expect("commit");
}

fn reader(fixture: &TableFixture) -> Trx {
    let mut trx = fixture.begin(RepeatableRead);
    fixture.store().trx_sys.visibility.open_view(&mut trx);
    trx
}

#[test]
fn an_older_reader_leaves_a_younger_one_over_a_long_history() {
    let engine = Engine::open_still(SimDisk::new(3), config()).expect("engine");
    let fixture = TableFixture::with(engine);
    let mut trx = fixture.begin(ReadCommitted);
    fixture.insert(&mut trx, &pk(1), &row(0)).expect("insert");
    fixture.engine.commit(&mut trx, false).expect("commit");
    fixture.purge_all();
    let mut older = reader(&fixture);
    write(&fixture, 1);
    let mut younger = reader(&fixture);
    for n in 2..=4200 {
        write(&fixture, n);
    }
    fixture.engine.commit(&mut older, false).expect("commit");
    fixture.purge_all();
    let seen = fixture
        .get(&mut younger, &pk(1), None)
        .expect("get")
        .expect("it is there");
    assert!(seen == row(1), "the younger reader's row");
    assert_eq!(fixture.store().trx_sys.undo.history_length(), 4199);
    fixture.engine.commit(&mut younger, false).expect("commit");
    fixture.purge_all();
    assert_eq!(fixture.store().trx_sys.undo.history_length(), 0);
    fixture.check_table();
}
