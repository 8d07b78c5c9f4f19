//! The replication position: it is in the log record of the commit that it belongs to, so a crash
//! keeps both or neither (G6).
use super::fixture::*;
use super::isolation::row;
use crate::engine::Engine;
use crate::io::sim::hooked::{Call, HookedDisk};
use crate::io::SimDisk;
use crate::txn::Isolation::ReadCommitted;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

#[test]
fn a_position_without_changes_is_durable_when_it_is_given() {
    for seed in 0..20 {
        let disk = SimDisk::new(seed);
        let fixture = TableFixture::create(disk.clone());
        let mut trx = fixture.begin(ReadCommitted);
        fixture.insert(&mut trx, &pk(1), &row(1, 1)).expect("insert");
        trx.set_position(b"first".to_vec());
        fixture.engine.commit(&mut trx, false).expect("commit");
        fixture.engine.set_position(b"second").expect("position");
        let fixture = TableFixture::reopen(disk.crash(seed)).expect("opens");
        assert_eq!(fixture.store().trx_sys.position(), b"second");
        let mut reader = fixture.begin(ReadCommitted);
        let found = fixture.get(&mut reader, &pk(1), None);
        assert_eq!(found, Ok(Some(row(1, 1))), "what came before the position is there");
    }
}

/// Twenty commits with positions, all lazy but perhaps the seventh; then a crash. Each row is there
/// if its position is, and no other.
fn crash_among_commits(seed: u64, position_of: fn(u8) -> u8, after: fn(&TableFixture, u8)) {
    const DURABLE: u8 = 7;
    let disk = SimDisk::new(seed);
    let fixture = TableFixture::create(disk.clone());
    fixture.engine.set_position(&[0]).expect("position");
    for n in 1..=20u8 {
        let mut trx = fixture.begin(ReadCommitted);
        fixture
            .insert(&mut trx, &pk(n.into()), &row(n, n.into()))
            .expect("insert");
        trx.set_position(vec![position_of(n)]);
        fixture
            .engine
            .commit(&mut trx, seed % 2 == 0 && n == DURABLE)
            .expect("commit");
        after(&fixture, n);
    }
    let fixture = TableFixture::reopen(disk.crash(seed)).expect("opens");
    let position = fixture.store().trx_sys.position()[0];
    assert!(
        seed % 2 != 0 || position >= position_of(DURABLE),
        "a durable commit is there, with its position"
    );
    let mut reader = fixture.begin(ReadCommitted);
    for n in 1..=20u8 {
        let expected = (position_of(n) <= position).then(|| row(n, n.into()));
        let found = fixture.get(&mut reader, &pk(n.into()), None);
        assert_eq!(found, Ok(expected), "row {n}, position {position}");
    }
}

#[test]
fn a_crash_keeps_a_commit_with_its_position() {
    for seed in 0..40 {
        crash_among_commits(seed, |n| n, |_, _| ());
    }
}

/// A position without a transaction, which is not made durable at once.
#[test]
fn a_crash_keeps_a_lazy_position_with_what_came_before() {
    for seed in 0..40 {
        crash_among_commits(
            seed,
            |n| 2 * n,
            |fixture, n| fixture.engine.set_position_lazily(&[2 * n + 1]).expect("position"),
        );
    }
}

/// Found prepared after a crash, and committed with the position that its name stands for.
#[test]
fn a_commit_of_a_transaction_in_doubt_has_its_position() {
    let disk = SimDisk::new(1);
    let fixture = TableFixture::create(disk.clone());
    let mut trx = fixture.begin(ReadCommitted);
    fixture.insert(&mut trx, &pk(1), &row(1, 1)).expect("insert");
    fixture.engine.prepare(&mut trx, &xid(&[7])).expect("prepare");
    let disk = disk.crash(2);
    let fixture = TableFixture::reopen(disk.clone()).expect("opens");
    fixture.engine.decide_at(&xid(&[7]), true, b"seven").expect("commit");
    let fixture = TableFixture::reopen(disk.crash(3)).expect("opens");
    assert_eq!(fixture.store().trx_sys.position(), b"seven");
    let mut reader = fixture.begin(ReadCommitted);
    assert_eq!(fixture.get(&mut reader, &pk(1), None), Ok(Some(row(1, 1))));
}

/// A donor's server copies the files, whatever the engine answers.
#[test]
fn writes_are_held_off_also_without_a_checkpoint() {
    let held = Arc::new(AtomicBool::new(false));
    let seen = held.clone();
    let disk = HookedDisk::new(SimDisk::new(1), move |call| {
        if let Call::Hold(hold) = call {
            seen.store(hold, Ordering::SeqCst);
        }
        Ok(())
    });
    let engine = Engine::open_still(disk, config()).expect("engine");
    engine.poison("a test");
    assert!(engine.hold_writes(true).is_err(), "there is no checkpoint");
    assert!(held.load(Ordering::SeqCst));
    engine.hold_writes(false).expect("writes go on");
    assert!(!held.load(Ordering::SeqCst));
}
