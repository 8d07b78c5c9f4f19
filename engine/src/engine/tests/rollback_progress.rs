//! How far a rollback is: the number of changes that a transaction has left goes down as it is
//! undone (it stayed at its top). Users look at that number, and the choice of a deadlock's victim
//! uses it. The log reports a rollback that takes long.
use super::engine_log;
use super::fixture::*;
use crate::engine::steps::LoserRollback;
use crate::io::sim::SimDisk;
use crate::table::undo::progress::NOTE_EVERY;
use crate::txn::Isolation::ReadCommitted;
use crate::txn::Trx;
use std::sync::atomic::Ordering;
use std::sync::Arc;

const ROWS: u32 = 100;

fn insert(fixture: &TableFixture, trx: &mut Trx, from: u32) {
    for n in from..from + ROWS {
        let row = Row {
            group: (n % 7) as u8,
            shade: 0,
            tag: Some(n as u16),
            body: vec![1; 20],
        };
        fixture.insert(trx, &pk(n), &row).expect("insert");
    }
}

fn to_lose(trx: &Trx) -> [u64; 2] {
    [&trx.shared.undo_records, &trx.shared.undo_bytes].map(|n| n.load(Ordering::Relaxed))
}

#[test]
fn what_was_taken_back_is_not_there_to_lose() {
    let fixture = TableFixture::create(SimDisk::new(1));
    let mut trx = fixture.begin(ReadCommitted);
    insert(&fixture, &mut trx, 0);
    let before = to_lose(&trx);
    assert_eq!(before[0], u64::from(ROWS));
    let savepoint = fixture.store().rollbacks().savepoint(&trx);
    insert(&fixture, &mut trx, 1000);
    assert_eq!(to_lose(&trx)[0], 2 * u64::from(ROWS));
    assert_eq!(fixture.store().trx_sys.rollback_records_left(), 0);
    fixture
        .store()
        .rollbacks()
        .rollback_to(&mut trx, savepoint)
        .expect("rollback");
    assert_eq!(to_lose(&trx), before);
    fixture.engine.rollback(&mut trx).expect("rollback");
    assert_eq!(to_lose(&trx), [0, 0]);
    assert_eq!(fixture.engine.counters().rollback_records.get(), 2 * u64::from(ROWS));
}

#[test]
fn a_loser_counts_down_and_is_logged() {
    let disk = SimDisk::new(2);
    let fixture = TableFixture::create(disk.clone());
    let mut trx = fixture.begin(ReadCommitted);
    insert(&fixture, &mut trx, 0);
    let id = trx.id();
    fixture.engine.flush_log().expect("durable");
    std::mem::forget(trx); // as at a crash: it is not ended
    let disk = disk.crash(1);
    drop(fixture);
    let (engine, logged) = engine_log::open(disk.clone());
    let left = || engine.store().trx_sys.rollback_records_left();
    assert_eq!(left(), u64::from(ROWS), "the rollback has not begun");
    let mut losers = LoserRollback::new(engine.in_doubt.take_losers());
    let texts = || -> Vec<String> {
        let logged = logged.lock();
        let texts = logged.iter().map(|(_, text)| text.clone());
        texts.filter(|text| text.starts_with("roll")).collect()
    };
    losers.step(engine.store(), 16).expect("rollback");
    assert_eq!((left(), texts().len()), (84, 0));
    disk.advance_us(31_000_000);
    losers.step(engine.store(), 16).expect("rollback");
    let first = format!("rolling back transaction {id}: 32 of 100 undo records undone (32 %) in 31 s");
    assert_eq!((left(), texts()), (68, vec![first.clone()]));
    disk.advance_us(29_000_000);
    losers.step(engine.store(), 16).expect("rollback");
    assert_eq!(texts().len(), 1, "not yet again");
    while losers.step(engine.store(), 16).expect("rollback") {}
    let end = format!("rolled back transaction {id}: 100 undo records in 60 s");
    assert_eq!((left(), texts()), (0, vec![first, end]));
}

fn lost(disk: Arc<SimDisk>, rows: u32) -> Arc<SimDisk> {
    let fixture = TableFixture::create(disk.clone());
    let mut trx = fixture.begin(ReadCommitted);
    for from in (0..rows).step_by(ROWS as usize) {
        insert(&fixture, &mut trx, from);
    }
    fixture.engine.flush_log().expect("durable");
    std::mem::forget(trx);
    disk.crash(1)
}

/// Each start began at the newest record again: where crashes come faster than a rollback ends, it
/// never did.
#[test]
fn a_rollback_goes_on_where_a_crash_cut_it_short() {
    const RECORDS: u64 = 3000;
    const STEP: usize = 700;
    let mut disk = lost(SimDisk::new(3), RECORDS as u32);
    let mut found = RECORDS;
    for life in 1.. {
        let (engine, _) = engine_log::open(disk.clone());
        let left = engine.store().trx_sys.rollback_records_left();
        assert!(left <= found, "life {life}: {left} records, {found} were left");
        found = left;
        let mut losers = LoserRollback::new(engine.in_doubt.take_losers());
        let more = losers.step(engine.store(), STEP).expect("rollback");
        let undone = engine.counters().rollback_records.get();
        assert!(undone <= STEP as u64);
        engine.flush_log().expect("durable");
        std::mem::forget(losers);
        drop(engine);
        disk = disk.crash(life);
        if !more {
            break;
        }
        // All but what was undone after the last log line.
        found = found - undone + u64::from(NOTE_EVERY);
        assert!(life < 9, "{found} records left");
    }
    let fixture = super::load_new_table::open(disk, 0);
    assert!(fixture.engine.in_doubt.take_losers().is_empty(), "it has ended");
    let mut trx = fixture.begin(ReadCommitted);
    fixture.check_view(&mut trx, &Model::new(), "rolled back");
    fixture.engine.commit(&mut trx, true).expect("commit");
    fixture.check_table();
    // Purge passes over the notes.
    fixture.purge_all();
}

/// What a rollback to a savepoint has noted holds for the transaction that goes on.
#[test]
fn a_note_of_a_rollback_to_a_savepoint_is_passed_over() {
    for commits in [true, false] {
        let disk = SimDisk::new(4);
        let fixture = TableFixture::create(disk.clone());
        let mut trx = fixture.begin(ReadCommitted);
        insert(&fixture, &mut trx, 0);
        let savepoint = fixture.store().rollbacks().savepoint(&trx);
        for from in (1000..3000).step_by(ROWS as usize) {
            insert(&fixture, &mut trx, from);
        }
        fixture
            .store()
            .rollbacks()
            .rollback_to(&mut trx, savepoint)
            .expect("rollback");
        insert(&fixture, &mut trx, 5000);
        let mut model = Model::new();
        if commits {
            let mut reader = fixture.begin(crate::txn::Isolation::ReadUncommitted);
            for n in (0..ROWS).chain(5000..5000 + ROWS) {
                let row = fixture.get(&mut reader, &pk(n), None).expect("get").expect("a row");
                model.insert(pk(n), row);
            }
            fixture.engine.commit(&mut reader, true).expect("commit");
            fixture.engine.commit(&mut trx, true).expect("commit");
        } else {
            fixture.engine.flush_log().expect("durable");
            std::mem::forget(trx);
        }
        let disk = disk.crash(1);
        drop(fixture);
        let fixture = super::load_new_table::open(disk, 0);
        let mut losers = LoserRollback::new(fixture.engine.in_doubt.take_losers());
        while losers.step(fixture.store(), 100).expect("rollback") {}
        fixture.purge_all();
        let mut trx = fixture.begin(ReadCommitted);
        fixture.check_view(&mut trx, &model, "after the crash");
        fixture.engine.commit(&mut trx, true).expect("commit");
        fixture.check_table();
    }
}
