//! Prepared transactions hold purge back by what they have changed, not by what they once read: the
//! decision may take days.
use super::fixture::*;
use super::isolation::{commit, filled, row};
use crate::txn::Isolation::{ReadCommitted, RepeatableRead};
use crate::txn::Trx;

/// It has read from a snapshot, then changed row 1.
fn prepared(fixture: &TableFixture) -> Trx {
    let mut trx = fixture.begin(RepeatableRead);
    assert_eq!(fixture.get(&mut trx, &[1], None), Ok(Some(row(1, 10))));
    fixture
        .update(&mut trx, &[1], &row(1, 10), &row(5, 10))
        .expect("update");
    assert!(
        fixture.store().trx_sys.visibility.oldest_view().0.is_some(),
        "it reads from a snapshot"
    );
    fixture.engine.prepare(&mut trx, &xid(&[7])).expect("prepare");
    trx
}

/// Others change row 2 many times: purge gets rid of all old versions. Then the prepared one can
/// still be decided.
fn holds_nothing_back(fixture: &TableFixture, leave: impl FnOnce(Trx)) {
    fixture.purge_all();
    assert_eq!(fixture.store().trx_sys.undo.history_length(), 0);
    leave(prepared(fixture));
    let mut now = row(2, 20);
    for n in 0..100u8 {
        let mut trx = fixture.begin(ReadCommitted);
        let new = row(n, 20);
        fixture.update(&mut trx, &[2], &now, &new).expect("update");
        commit(fixture, trx);
        now = new;
    }
    fixture.purge_all();
    assert!(
        fixture.store().trx_sys.visibility.oldest_view().0.is_none(),
        "no transaction reads"
    );
    assert_eq!(fixture.store().trx_sys.undo.history_length(), 0);
}

fn is_decided(fixture: &TableFixture) {
    let mut reader = fixture.begin(RepeatableRead);
    assert_eq!(fixture.get(&mut reader, &[1], None), Ok(Some(row(5, 10))));
    commit(fixture, reader);
    fixture.check_table();
}

#[test]
fn one_whose_connection_has_gone() {
    let fixture = filled();
    holds_nothing_back(&fixture, |trx| fixture.engine.in_doubt.keep(xid(&[7]), trx));
    fixture.engine.decide(&xid(&[7]), true).expect("commit");
    is_decided(&fixture);
}

#[test]
fn one_whose_connection_waits_for_the_decision() {
    let fixture = filled();
    let mut kept = None;
    holds_nothing_back(&fixture, |mut trx| {
        fixture.engine.in_doubt.may_outlive_connection(&mut trx);
        kept = Some(trx);
    });
    commit(&fixture, kept.expect("it is prepared"));
    is_decided(&fixture);
}
