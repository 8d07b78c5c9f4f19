//! What the simulation found: one test for each bug, with its story.
use super::op::Op;
use super::run::run;
use super::schedule::Schedule;
use super::setup::{Setup, REDO_CAPACITY};
use super::xid;
use crate::base::Error;
use crate::engine::steps::LoserRollback;
use crate::engine::tests::fixture::*;
use crate::engine::Engine;
use crate::io::sim::{Fault, SimDisk};
use crate::txn::Isolation;

/// Seed 5: a failed write of the log at COMMIT poisoned the log, but not the buffer pool above it.
/// The engine went on answering reads, and showed the rows of a commit that had failed and was gone
/// after the next start.
#[test]
fn a_log_that_cannot_be_written_ends_reads_too() {
    let disk = SimDisk::new(1);
    let fixture = TableFixture::create(disk.clone());
    let mut trx = fixture.begin(Isolation::ReadCommitted);
    fixture.insert(&mut trx, b"a\0", &Random(1).row(9)).expect("insert");
    disk.fail_change(disk.changes() + 1, Fault::Eio);
    assert!(fixture.engine.commit(&mut trx, true).is_err());
    let mut reader = fixture.begin(Isolation::ReadCommitted);
    let seen = fixture.get(&mut reader, b"a\0", None);
    assert!(matches!(seen, Err(Error::Poisoned(_))), "{seen:?}");
}

/// Workload "prepared transactions": a crash in XA ROLLBACK left the transaction prepared with some
/// of its changes undone. XA COMMIT after the restart then committed the other half.
#[test]
fn a_prepared_transaction_is_whole_or_not_prepared() {
    let disk = SimDisk::new(1);
    let fixture = TableFixture::create(disk.clone());
    let mut trx = fixture.begin(Isolation::ReadCommitted);
    for key in [b"a\0", b"b\0", b"c\0"] {
        let row = Row {
            tag: None,
            ..Random(1).row(1)
        };
        fixture.insert(&mut trx, key, &row).expect("insert");
    }
    fixture.engine.prepare(&mut trx, &xid(1)).expect("prepare");
    fixture.store().trx_sys.resume(&mut trx).expect("the rollback begins");
    assert!(!fixture
        .store()
        .rollbacks()
        .rollback_step(&mut trx, 1)
        .expect("one step of it"));
    fixture.engine.flush_log().expect("the step becomes durable");
    let disk = disk.crash(1);
    drop(fixture);
    let engine = Engine::open_still(disk, config()).expect("open");
    assert!(engine.in_doubt.prepared().is_empty());
    let mut losers = LoserRollback::new(engine.in_doubt.take_losers());
    while losers.step(engine.store(), 1).expect("rollback") {}
    let table = engine.store().tables().open_table("t").expect("table");
    let fixture = TableFixture { engine, table };
    let mut reader = fixture.begin(Isolation::ReadCommitted);
    assert!(fixture
        .scan(&mut reader, 0, false, false, None)
        .expect("scan")
        .is_empty());
}

/// Seed 5021: a long row's first overflow page was taken, the page for its undo record could not be
/// read, and the statement failed. The overflow page stayed taken for ever. Here any read from the
/// first on fails, while long rows are put.
#[test]
fn a_long_row_that_fails_leaves_no_page() {
    for after in 1..12 {
        let fill = |(trx, table, key, rows, len)| Op::Fill {
            trx,
            table,
            key,
            rows,
            len,
        };
        let mut ops = vec![Op::Create { kinds: 1 }];
        // More tables than frames, so that undo pages have to be read again.
        for table in 0..4 {
            ops.push(Op::Create { kinds: 7 });
            ops.push(fill((table, table, 0, 6, 1100)));
            ops.push(Op::Flush { pages: 100 });
        }
        ops.push(Op::FailRead { after });
        ops.extend((0..4).map(|trx| fill((trx, trx, 40, 2, 9000))));
        finds_nothing(after, ops);
    }
}

/// Seed 1795305833000926: purge had removed a long row, and a page that the freeing of its chain
/// needs could not be read. The key was used again, and the purge that came again left the chain
/// taken for ever.
#[test]
fn a_purge_that_comes_again_frees_the_chain_of_a_key_that_is_used_again() {
    for after in 1..12 {
        let row = |len| Op::Fill {
            trx: 0,
            table: 0,
            key: 0,
            rows: 1,
            len,
        };
        let mut ops = vec![Op::Create { kinds: 1 }, row(5000), Op::Commit { trx: 0, flush: 1 }];
        ops.push(Op::Clear {
            trx: 0,
            table: 0,
            key: 0,
            rows: 1,
        });
        ops.push(Op::Commit { trx: 0, flush: 1 });
        // Others' pages take the frames.
        ops.push(Op::Create { kinds: 1 });
        ops.push(Op::Fill {
            trx: 1,
            table: 1,
            key: 0,
            rows: 24,
            len: 1100,
        });
        ops.push(Op::Commit { trx: 1, flush: 1 });
        ops.push(Op::Flush { pages: 101 });
        ops.push(Op::FailRead { after });
        ops.push(Op::Purge { records: 20 });
        ops.push(row(10));
        ops.push(Op::Commit { trx: 0, flush: 1 });
        finds_nothing(after, ops);
    }
}

/// Seed 1795321319060366: a row was deleted, and its key taken by another transaction, so that the
/// deletion's purge found nothing to remove. That one was rolled back, while one older than the
/// deletion was active. Its own purge took the mark for too young, and the row stayed for ever.
#[test]
fn a_mark_that_a_rollback_restores_is_purged_beside_an_old_transaction() {
    let fixture = TableFixture::create(SimDisk::new(1));
    let row = Random(1).row(9);
    let mut first = fixture.begin(Isolation::ReadCommitted);
    fixture.insert(&mut first, b"a\0", &row).expect("insert");
    fixture.engine.commit(&mut first, true).expect("commit");
    let mut second = fixture.begin(Isolation::ReadCommitted);
    let mut old = fixture.begin(Isolation::ReadCommitted);
    let own = Row {
        tag: None,
        ..Random(1).row(1)
    };
    fixture.insert(&mut old, b"b\0", &own).expect("insert");
    fixture.delete(&mut second, b"a\0", &row).expect("delete");
    fixture.engine.commit(&mut second, true).expect("commit");
    let mut third = fixture.begin(Isolation::ReadCommitted);
    fixture.insert(&mut third, b"a\0", &row).expect("insert");
    fixture.purge_all();
    fixture.engine.rollback(&mut third).expect("rollback");
    fixture.purge_all();
    for index in 0..=2 {
        assert_eq!(fixture.entries_in_tree(index), 1, "the old one's, of index {index}");
    }
    fixture.engine.rollback(&mut old).expect("rollback");
}

/// With few frames. Read `after` fails.
fn finds_nothing(after: u64, ops: Vec<Op>) {
    let setup = Setup {
        seed: after,
        frames: 24,
        redo_capacity: REDO_CAPACITY,
        sector: 4096,
        doublewrite: true,
        direct_io: true,
        buffer: 0,
        buffer_memory: 0,
        load_past: false,
    };
    assert_eq!(run(&Schedule { setup, ops }).finding, None, "read {after} fails");
}
