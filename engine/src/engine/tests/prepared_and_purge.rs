//! Prepared transactions hold purge back by what they have changed, not by what they once read: the
//! decision may take days.
use super::fixture::*;
use super::isolation::{commit, filled, row};
use crate::txn::Isolation::{ReadCommitted, RepeatableRead};
use crate::txn::Trx;

/// It has read from a snapshot, then changed row 1.
fn prepared(rig: &TableFixture) -> Trx {
    let mut trx = rig.begin(RepeatableRead);
    assert_eq!(rig.get(&mut trx, &[1], None), Ok(Some(row(1, 10))));
    rig.update(&mut trx, &[1], &row(1, 10), &row(5, 10)).expect("update");
    assert!(
        rig.store().trx_sys.visibility.oldest_view().0.is_some(),
        "it reads from a snapshot"
    );
    rig.engine.prepare(&mut trx, &xid(&[7])).expect("prepare");
    trx
}

/// Others change row 2 many times: purge gets rid of all old versions. Then the prepared one can
/// still be decided.
fn holds_nothing_back(rig: &TableFixture, leave: impl FnOnce(Trx)) {
    rig.purge_all();
    assert_eq!(rig.store().trx_sys.undo.history_length(), 0);
    leave(prepared(rig));
    let mut now = row(2, 20);
    for n in 0..100u8 {
        let mut trx = rig.begin(ReadCommitted);
        let new = row(n, 20);
        rig.update(&mut trx, &[2], &now, &new).expect("update");
        commit(rig, trx);
        now = new;
    }
    rig.purge_all();
    assert!(
        rig.store().trx_sys.visibility.oldest_view().0.is_none(),
        "no transaction reads"
    );
    assert_eq!(rig.store().trx_sys.undo.history_length(), 0);
}

fn is_decided(rig: &TableFixture) {
    let mut reader = rig.begin(RepeatableRead);
    assert_eq!(rig.get(&mut reader, &[1], None), Ok(Some(row(5, 10))));
    commit(rig, reader);
    rig.check_table();
}

#[test]
fn one_whose_connection_has_gone() {
    let rig = filled();
    holds_nothing_back(&rig, |trx| rig.engine.in_doubt.keep(xid(&[7]), trx));
    rig.engine.decide(&xid(&[7]), true).expect("commit");
    is_decided(&rig);
}

#[test]
fn one_whose_connection_waits_for_the_decision() {
    let rig = filled();
    let mut kept = None;
    holds_nothing_back(&rig, |mut trx| {
        rig.engine.in_doubt.may_outlive_connection(&mut trx);
        kept = Some(trx);
    });
    commit(&rig, kept.expect("it is prepared"));
    is_decided(&rig);
}
