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

fn write(rig: &TableFixture, n: u32) {
    let mut trx = rig.begin(ReadCommitted);
    rig.update(&mut trx, &pk(1), &row(n - 1), &row(n)).expect("update");
    rig.engine.commit(&mut trx, false).expect("commit");
}

fn reader(rig: &TableFixture) -> Trx {
    let mut trx = rig.begin(RepeatableRead);
    rig.store().trx_sys.visibility.open_view(&mut trx);
    trx
}

#[test]
fn an_older_reader_leaves_a_younger_one_over_a_long_history() {
    let engine = Engine::open_still(SimDisk::new(3), config()).expect("engine");
    let rig = TableFixture::with(engine);
    let mut trx = rig.begin(ReadCommitted);
    rig.insert(&mut trx, &pk(1), &row(0)).expect("insert");
    rig.engine.commit(&mut trx, false).expect("commit");
    rig.purge_all();
    let mut older = reader(&rig);
    write(&rig, 1);
    let mut younger = reader(&rig);
    for n in 2..=4200 {
        write(&rig, n);
    }
    rig.engine.commit(&mut older, false).expect("commit");
    rig.purge_all();
    let seen = rig.get(&mut younger, &pk(1), None).expect("get").expect("it is there");
    assert!(seen == row(1), "the younger reader's row");
    assert_eq!(rig.store().trx_sys.undo.history_length(), 4199);
    rig.engine.commit(&mut younger, false).expect("commit");
    rig.purge_all();
    assert_eq!(rig.store().trx_sys.undo.history_length(), 0);
    rig.check_table();
}
