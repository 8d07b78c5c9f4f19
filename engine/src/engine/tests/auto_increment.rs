//! The AUTO_INCREMENT counter and a crash: no value of a row that is there is given again.
use super::fixture::*;
use crate::base::sync_point::at;
use crate::base::SyncPoint;
use crate::io::sim::SimDisk;
use crate::txn::Isolation::ReadCommitted;
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::sync::Arc;
use std::time::Duration;

fn row(n: u8) -> Row {
    Row {
        group: n,
        shade: 0,
        tag: Some(n as u16),
        body: vec![n; 300],
    }
}

/// Two transactions take values. The one with the greater value writes the counter for both, and
/// the other ends first. Its commit was durable, but no log had the counter: after a crash at that
/// point its value was given again.
#[test]
fn a_counter_that_is_found_saved_is_in_the_log() {
    let fixture = Arc::new(TableFixture::create(SimDisk::new(1)));
    let mut first = fixture.begin(ReadCommitted);
    for n in 10..200u8 {
        fixture.insert(&mut first, &[n], &row(n)).expect("insert");
    }
    fixture.engine.commit(&mut first, true).expect("commit");
    let (mut trx, mut others) = (fixture.begin(ReadCommitted), fixture.begin(ReadCommitted));
    fixture.insert(&mut trx, &[251], &row(251)).expect("it has undo");
    fixture.insert(&mut others, &[2], &row(2)).expect("it has undo");
    fixture.table.autoinc_raise(1025); // the other's
    let (other, (done, is_done)) = (fixture.clone(), channel());
    let (signal, thread) = channel();
    at(SyncPoint::CounterWritten, move || {
        let writing = std::thread::spawn(move || {
            other.insert(&mut others, &[1], &row(1)).expect("another leaf");
            other.engine.commit(&mut others, true).expect("commit");
            let _ = done.send(()); // the receiver has ended, as it should have
        });
        let early = is_done.recv_timeout(Duration::from_millis(200));
        assert_eq!(early, Err(RecvTimeoutError::Timeout), "the counter is not in the log");
        signal.send(writing).expect("the other thread listens");
    });
    fixture.table.autoinc_raise(1026);
    fixture.insert(&mut trx, &[250], &row(250)).expect("insert");
    thread.recv().expect("the moment came").join().expect("no panic");
    fixture.engine.commit(&mut trx, false).expect("commit");
    fixture.check_table();
}

/// The value of a refused row is given again, unless another statement has taken a greater one
/// meanwhile.
#[test]
fn a_raise_is_taken_back_only_by_itself() {
    let fixture = TableFixture::create(SimDisk::new(1));
    fixture.table.autoinc_raise(5);
    let before = fixture.table.autoinc_raise(9);
    assert_eq!(before, 5);
    fixture.table.autoinc_take_back(9, before);
    assert_eq!(fixture.table.autoinc(), 5);
    let before = fixture.table.autoinc_raise(9);
    fixture.table.autoinc_raise(12); // another's
    fixture.table.autoinc_take_back(9, before);
    assert_eq!(fixture.table.autoinc(), 12);
}
