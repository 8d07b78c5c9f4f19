//! Undo streams, views and positions, case by case; and what a small transaction costs.
use crate::base::ids::UNDO_FILE;
use crate::base::{Error, UndoPtr};
use crate::redo::FlushMode;
use crate::space;
use crate::txn::tests::{payload, Bed, Rng};
use crate::txn::*;
use std::collections::HashSet;

#[test]
fn records_come_back_whatever_their_size() {
    let bed = Bed::create(1);
    let mut rng = Rng(1);
    let mut trx = bed.trx();
    let mut written = Vec::new();
    for n in 0..400 {
        let max = if n % 10 == 0 { 60_000 } else { 200 };
        let bytes = payload(&mut rng, max);
        let prev = trx.undo_top();
        let at = bed.append(&mut trx, &bytes).unwrap();
        assert_eq!(trx.undo_top(), at);
        let record = UndoRecord {
            trx: trx.id(),
            prev,
            payload: bytes,
        };
        written.push((at, record));
    }
    for (at, record) in &written {
        assert_eq!(bed.sys.undo.read(*at).unwrap(), *record);
    }
    assert!(bed.sys.undo.read(UndoPtr { page: 0, offset: 99 }).is_err());
    bed.sys.commit(&mut trx);
    bed.check_pages();
}

#[test]
fn several_records_in_one_mini_transaction() {
    let bed = Bed::create(2);
    let mut trx = bed.trx();
    bed.sys.ensure_id(&mut trx).unwrap();
    bed.sys.reserve_undo(&mut trx, 50_000).unwrap();
    let mut mtr = bed.fixture.pool.begin();
    let at: Vec<UndoPtr> = (0..40u8)
        .map(|n| bed.sys.append_undo(&mut trx, &mut mtr, &[n; 1200]).unwrap())
        .collect();
    mtr.commit();
    for (n, at) in at.iter().enumerate() {
        assert_eq!(bed.sys.undo.read(*at).unwrap().payload, [n as u8; 1200]);
    }
    bed.sys.end_rollback(&mut trx).unwrap();
}

#[test]
fn small_transactions_share_pages() {
    let bed = Bed::create(3);
    let mut trx = bed.trx();
    let mut pages = HashSet::new();
    for n in 0..100u32 {
        bed.sys.start(&mut trx, Isolation::ReadCommitted, 1);
        pages.insert(bed.append(&mut trx, &n.to_le_bytes()).unwrap().page);
        assert!(bed.sys.commit(&mut trx) > 0);
    }
    assert_eq!(pages.len(), 1);
    assert_eq!(bed.sys.undo.history_length(), 100);
}

#[test]
fn the_log_carries_little_more_than_the_records() {
    let bed = Bed::create(4);
    let mut trx = bed.trx();
    bed.append(&mut trx, &[1; 50]).unwrap();
    let before = bed.fixture.pool.redo().lsn();
    for _ in 0..100 {
        bed.append(&mut trx, &[2; 50]).unwrap();
    }
    let overhead = (bed.fixture.pool.redo().lsn() - before) / 100 - 50;
    assert!(overhead <= 40, "{overhead} bytes a record");
}

#[test]
fn a_chain_passes_over_what_was_undone() {
    let bed = Bed::create(5);
    let mut trx = bed.trx();
    let a = bed.append(&mut trx, b"a").unwrap();
    bed.append(&mut trx, b"b").unwrap();
    bed.append(&mut trx, b"c").unwrap();
    bed.sys.rolled_back_to(&mut trx, a);
    let d = bed.append(&mut trx, b"d").unwrap();
    assert_eq!(bed.sys.undo.read(d).unwrap().prev, a);
    bed.flush();
    let id = trx.id();
    let bed = bed.crash(1);
    let loser = RecoveredTrx { id, xid: None };
    assert_eq!(bed.recovered.len(), 1);
    assert_eq!(bed.recovered[0], loser);
    assert!(bed.sys.is_active(id));
    let mut trx = bed.sys.adopt(&loser).unwrap();
    assert_eq!(trx.undo_top(), d);
    bed.sys.rolled_back_to(&mut trx, UndoPtr::NONE);
    bed.sys.end_rollback(&mut trx).unwrap();
    assert!(!bed.sys.is_active(id));
    assert!(matches!(bed.sys.adopt(&loser), Err(Error::NotFound)));
    let job = bed.sys.next_purge(100).unwrap().unwrap();
    let undone: Vec<_> = job.records.iter().map(|r| (r.record.payload[0], r.undone)).collect();
    assert_eq!(undone, [(b'a', true), (b'b', true), (b'c', true), (b'd', true)]);
    bed.sys.purged(job).unwrap();
    assert!(bed.sys.next_purge(1).unwrap().is_none());
}

#[test]
fn a_prepared_transaction_survives_until_decided() {
    let bed = Bed::create(6);
    let xid = Xid {
        format_id: 1,
        gtrid_len: 3,
        bqual_len: 2,
        data: b"gtrbq".to_vec(),
    };
    let mut trx = bed.trx();
    assert_eq!(bed.sys.prepare(&mut trx, &xid).unwrap(), 0, "it has written nothing");
    let top = bed.append(&mut trx, b"x").unwrap();
    bed.append(&mut trx, b"undone").unwrap();
    bed.sys.rolled_back_to(&mut trx, top);
    let lsn = bed.sys.prepare(&mut trx, &xid).unwrap();
    bed.fixture.pool.redo().flush(lsn, FlushMode::Sync).unwrap();
    let id = trx.id();
    let bed = bed.crash(2).crash(3);
    let prepared = bed.recovered[0].clone();
    assert_eq!(
        prepared,
        RecoveredTrx {
            id,
            xid: Some(xid.clone())
        }
    );
    let mut trx = bed.sys.adopt(&prepared).unwrap();
    assert!(trx.is_prepared());
    assert_eq!(trx.undo_top(), top);
    let mut reader = bed.trx();
    assert!(!bed.sys.visibility.open_view(&mut reader).sees(id));
    bed.sys.commit(&mut trx);
    bed.sys.visibility.close_view(&mut reader);
    assert!(bed.sys.visibility.open_view(&mut reader).sees(id));
    bed.flush();
    let bed = bed.crash(4);
    assert_eq!(bed.recovered, []);
    let job = bed.sys.next_purge(10).unwrap().unwrap();
    let undone: Vec<bool> = job.records.iter().map(|r| r.undone).collect();
    assert_eq!(undone, [false, true]);
}

#[test]
fn views_see_commits_in_their_order() {
    let bed = Bed::create(7);
    let (mut a, mut b, mut reader) = (bed.trx(), bed.trx(), bed.trx());
    let (ida, idb) = (bed.sys.ensure_id(&mut a).unwrap(), bed.sys.ensure_id(&mut b).unwrap());
    bed.append(&mut a, b"a").unwrap();
    assert_eq!(bed.sys.visibility.all_see_below(), ida);
    let view = bed.sys.visibility.open_view(&mut reader);
    bed.sys.commit(&mut a);
    assert!(!bed.sys.is_active(ida) && bed.sys.is_active(idb));
    assert!(!view.sees(ida) && !view.sees(idb) && !view.sees(idb + 1));
    assert!(bed.sys.next_purge(1).unwrap().is_none(), "the view holds it back");
    assert_eq!(bed.sys.visibility.all_see_below(), ida);
    assert_eq!(bed.sys.visibility.oldest_view().1, 1);
    // Its own id is given after the view was made.
    let own = bed.sys.ensure_id(&mut reader).unwrap();
    assert!(bed.sys.visibility.open_view(&mut reader).sees(own));
    bed.sys.commit(&mut reader);
    assert_eq!(bed.sys.visibility.all_see_below(), idb);
    let job = bed.sys.next_purge(1).unwrap().unwrap();
    assert_eq!(job.records.len(), 1);
    bed.sys.undo.purge_failed(job, &Error::Full(String::new()));
    let job = bed.sys.next_purge(1).unwrap().unwrap();
    assert_eq!(job.records.len(), 1);
    bed.sys.purged(job).unwrap();
    bed.sys.end_rollback(&mut b).unwrap();
    assert!(bed.sys.visibility.all_see_below() > own);
}

#[test]
fn positions_outlive_purge_and_crash() {
    let mut bed = Bed::create(8);
    for round in 0..3u8 {
        for n in 0..200u8 {
            let mut trx = bed.trx();
            bed.append(&mut trx, &[n; 300]).unwrap();
            trx.set_position(vec![round, n]);
            bed.sys.commit(&mut trx);
            if n > 150 {
                while let Some(job) = bed.sys.next_purge(50).unwrap() {
                    bed.sys.purged(job).unwrap();
                }
            }
        }
        bed.flush();
        bed = bed.crash(round as u64);
        assert_eq!(bed.sys.position(), [round, 199]);
        bed.check_pages();
    }
}

/// As of a DDL statement of a cluster: they come between those of transactions, and are the newest
/// until the next one. A lost one leaves the one before.
#[test]
fn positions_without_a_change_outlive_purge_and_crash() {
    let mut bed = Bed::create(15);
    for round in 0..4u8 {
        for n in 0..100u8 {
            if n % 3 == round % 3 {
                let mut trx = bed.trx();
                bed.append(&mut trx, &[n; 300]).unwrap();
                trx.set_position(vec![round, n]);
                bed.sys.commit(&mut trx);
            } else {
                bed.sys.set_position(&[round, n]).unwrap();
            }
            assert_eq!(bed.sys.position(), [round, n]);
            if n % 10 == 0 {
                while let Some(job) = bed.sys.next_purge(50).unwrap() {
                    bed.sys.purged(job).unwrap();
                }
            }
        }
        bed.flush();
        bed.sys.set_position(&[round, 255]).unwrap();
        bed = bed.crash(round as u64);
        let found = bed.sys.position();
        assert!(found == [round, 99] || found == [round, 255], "{found:?}");
        bed.check_pages();
    }
}

/// A transaction that changes what needs no undo (a loaded table) has its position all the same.
#[test]
fn a_transaction_without_undo_can_have_a_position() {
    let bed = Bed::create(16);
    let mut trx = bed.trx();
    bed.sys.begin_writing(&mut trx).unwrap();
    trx.set_position(vec![4; POSITION_MAX]);
    assert!(bed.sys.commit(&mut trx) > 0);
    let mut refused = bed.trx();
    bed.sys.begin_writing(&mut refused).unwrap();
    refused.set_position(vec![5]);
    bed.sys.end_rollback(&mut refused).unwrap();
    bed.flush();
    let bed = bed.crash(1);
    assert_eq!(bed.sys.position(), [4; POSITION_MAX]);
}

#[test]
fn numbers_never_repeat() {
    let mut bed = Bed::create(9);
    let mut last = 0;
    for round in 0..4 {
        // The log is flushed in some rounds only. Ids that were given and lost must not come again
        // once anything durable has them. The bound's own group is flushed with the first of them.
        for n in 0..40_000u64 {
            let mut trx = bed.trx();
            let id = bed.sys.ensure_id(&mut trx).unwrap();
            assert!(id > last, "{id} after {last}");
            last = id;
            if n % 1000 == 0 {
                bed.append(&mut trx, b"x").unwrap();
            }
            bed.sys.commit(&mut trx);
        }
        bed.flush();
        bed = bed.crash(round);
    }
}

#[test]
fn a_full_disk_fails_the_statement_and_not_the_commit() {
    let bed = Bed::create(10);
    let (mut a, mut b) = (bed.trx(), bed.trx());
    bed.append(&mut a, b"a").unwrap();
    bed.append(&mut b, b"b").unwrap();
    bed.fixture.disk.set_space(Some(0));
    let mut n = 0;
    let full = loop {
        match bed.append(&mut a, &vec![1; 3000 + n % 2]) {
            Ok(_) => n += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, Error::Full(_)), "{full}");
    assert!(n < 1000);
    assert!(matches!(bed.append(&mut a, &[1; 20_001]), Err(Error::Full(_))));
    assert!(matches!(bed.append(&mut a, &[1; 20_000]), Err(Error::Full(_))));
    a.set_position(vec![7; POSITION_MAX]);
    assert!(bed.sys.commit(&mut a) > 0);
    bed.sys.end_rollback(&mut b).unwrap();
    bed.fixture.pool.check_alive().unwrap();
}

#[test]
fn a_commit_on_a_poisoned_engine_is_seen_but_never_confirmed() {
    let bed = Bed::create(12);
    let (mut a, mut b, mut reader) = (bed.trx(), bed.trx(), bed.trx());
    let ida = bed.append(&mut a, b"a").map(|_| a.id()).unwrap();
    let idb = bed.append(&mut b, b"b").map(|_| b.id()).unwrap();
    bed.fixture.pool.poison("a test");
    let lsn = bed.sys.commit(&mut a);
    for mode in [FlushMode::Write, FlushMode::Sync] {
        let flushed = bed.fixture.pool.redo().flush(lsn, mode);
        assert!(matches!(flushed, Err(Error::Poisoned(_))));
    }
    assert!(matches!(bed.sys.end_rollback(&mut b), Err(Error::Poisoned(_))));
    assert!(
        bed.sys.is_active(idb),
        "its rows stay locked until recovery undoes them"
    );
    let view = bed.sys.visibility.open_view(&mut reader);
    assert!(view.sees(ida) && !view.sees(idb));
    assert!(matches!(bed.sys.ensure_id(&mut reader), Err(Error::Poisoned(_))));
}

/// Run with `--release --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn bench_small_transactions() {
    let bed = Bed::create(41);
    let n = 300_000u64;
    let mut trx = bed.trx();
    let start = std::time::Instant::now();
    for i in 0..n {
        bed.sys.start(&mut trx, Isolation::RepeatableRead, 1000);
        bed.append(&mut trx, &[i as u8; 60]).unwrap();
        bed.sys.commit(&mut trx);
    }
    println!("begin, append, commit: {} ns", start.elapsed().as_nanos() as u64 / n);
    let start = std::time::Instant::now();
    let mut records = 0;
    while let Some(job) = bed.sys.next_purge(300).unwrap() {
        records += job.records.len() as u64;
        bed.sys.purged(job).unwrap();
    }
    assert_eq!(records, n);
    println!("purge: {} ns a record", start.elapsed().as_nanos() as u64 / n);
    let start = std::time::Instant::now();
    for _ in 0..n {
        bed.sys.start(&mut trx, Isolation::RepeatableRead, 1000);
        bed.sys.visibility.open_view(&mut trx);
        bed.sys.commit(&mut trx);
    }
    println!("read-only with a view: {} ns", start.elapsed().as_nanos() as u64 / n);
}

/// Each try drew a number that was not reserved. A rollback that waited for its page for a day met
/// an assertion.
#[test]
fn an_end_that_cannot_be_written_uses_up_no_number() {
    let bed = Bed::create(8);
    let mut trx = bed.trx();
    let at = bed.append(&mut trx, &[1; 50]).unwrap();
    bed.flush();
    bed.fixture.pool.flush_all().unwrap();
    let place = at.page as u64 * crate::pool::PAGE_SIZE as u64 + 5000;
    bed.fixture.disk.flip(&space::file_name(UNDO_FILE), place, 1);
    bed.fixture.pool.discard_file(UNDO_FILE);
    let next = || bed.sys.visibility.next_number();
    let before = next();
    for _ in 0..10 {
        assert!(bed.sys.end_rollback(&mut trx).is_err_and(|e| e.is_corrupt()));
    }
    assert_eq!(next(), before);
    // Nor does it keep the horizon of later views down.
    let mut reader = bed.trx();
    assert_eq!(bed.sys.visibility.open_view(&mut reader).commit_no, before);
    bed.sys.commit(&mut reader);
    bed.fixture.disk.flip(&space::file_name(UNDO_FILE), place, 1);
    bed.sys.end_rollback(&mut trx).unwrap();
    assert_eq!(next(), before + 1);
}

/// A prepared transaction could use up the room that its rollback begins with.
#[test]
fn a_prepared_transaction_has_room_to_be_rolled_back() {
    let xid = Xid {
        format_id: 1,
        gtrid_len: 20,
        bqual_len: 0,
        data: vec![7; 20],
    };
    let mut prepared = 0;
    for spare in 100..220 {
        let bed = Bed::create(9);
        let (mut trx, mut filler) = (bed.trx(), bed.trx());
        bed.append(&mut trx, &[1; 50]).unwrap();
        bed.append(&mut filler, &[1; 50]).unwrap();
        bed.fixture.disk.set_space(Some(bed.fixture.disk.used()));
        while bed.append(&mut filler, &[2; 4001]).is_ok() {}
        // The last page of its stream: nothing more can be had.
        let left = |trx: &Trx| crate::pool::PAGE_SIZE - trx.active.as_ref().unwrap().stream.as_ref().unwrap().at;
        while left(&trx) > 700 {
            bed.append(&mut trx, &[3; 101]).unwrap();
        }
        let payload = vec![4; left(&trx) - 420 + spare];
        if bed.append(&mut trx, &payload).is_err() {
            continue;
        }
        if bed.sys.prepare(&mut trx, &xid).is_ok() {
            prepared += 1;
            bed.sys.resume(&mut trx).expect("it has room");
        }
        bed.sys.end_rollback(&mut trx).unwrap();
        bed.sys.end_rollback(&mut filler).unwrap();
    }
    assert!((1..120).contains(&prepared), "{prepared}: the edge is among them");
}
