//! Foreign keys after a crash: what was prepared holds its parents, what was cut short goes.
use super::family::*;
use crate::base::Error;
use crate::engine::steps::LoserRollback;
use crate::engine::tests::fixture::xid;
use crate::io::SimDisk;
use std::sync::Arc;

fn shapes() -> [Shape; 2] {
    let parent = Shape::new("p", "id", "id");
    let child = Shape::new("c", "id ref?", "id").index("ref");
    [parent, child.foreign("f", "ref", "p id", Cascade, Cascade)]
}

fn after_crash(t: Family, disk: &Arc<SimDisk>) -> Family {
    t.engine.flush_log().expect("flush");
    let after = disk.crash(7);
    drop(t);
    Family::reopen(after, &shapes()).expect("reopen")
}

/// The prepared child's lock on its parent is gone, as all SHARED locks are. Its entry is there,
/// and its maker is active: the parent's deleter waits for it.
#[test]
fn a_prepared_child_keeps_its_parent() {
    for commits in [false, true] {
        let disk = SimDisk::new(1);
        let t = Family::create(disk.clone(), &shapes());
        t.buffer(true);
        t.fill("p", &["1"]);
        let mut trx = t.begin();
        t.insert(&mut trx, "c", "10 1").expect("insert");
        t.engine.prepare(&mut trx, &xid(&[1])).expect("prepare");
        t.engine.in_doubt.keep(xid(&[1]), trx);
        let t = after_crash(t, &disk);
        let mut deleter = t.begin();
        assert_eq!(t.delete(&mut deleter, "p", "1"), Err(Error::LockWaitTimeout));
        t.engine.decide(&xid(&[1]), commits).expect("decide");
        t.delete(&mut deleter, "p", "1").expect("cascade");
        t.commit(deleter);
        assert!(t.rows("c").is_empty());
        t.check();
    }
}

/// A prepared cascade is decided after the crash.
#[test]
fn a_prepared_cascade_is_decided() {
    for commits in [false, true] {
        let disk = SimDisk::new(1);
        let t = Family::create(disk.clone(), &shapes());
        t.buffer(true);
        t.fill("p", &["1"]);
        t.fill("c", &["10 1", "11 1"]);
        let mut trx = t.begin();
        t.update(&mut trx, "p", "1", "2").expect("cascade");
        t.engine.prepare(&mut trx, &xid(&[1])).expect("prepare");
        t.engine.in_doubt.keep(xid(&[1]), trx);
        let t = after_crash(t, &disk);
        let mut other = t.begin();
        assert_eq!(t.insert(&mut other, "c", "12 1"), Err(Error::LockWaitTimeout));
        assert_eq!(t.insert(&mut other, "c", "12 2"), Err(Error::LockWaitTimeout));
        t.engine.decide(&xid(&[1]), commits).expect("decide");
        let (there, gone) = if commits { ("12 2", "13 1") } else { ("12 1", "13 2") };
        assert_eq!(why(t.insert(&mut other, "c", gone)), "no parent: f of c");
        assert_eq!(why(t.insert(&mut other, "c", there)), "done");
        t.commit(other);
        t.check();
    }
}

/// A cascade that the crash cut short is undone as a whole.
#[test]
fn a_cascade_that_was_cut_short_is_undone() {
    let disk = SimDisk::new(1);
    let t = Family::create(disk.clone(), &shapes());
    t.fill("p", &["1", "2"]);
    let rows: Vec<String> = (0..150).map(|n| format!("{n} {}", 1 + n % 2)).collect();
    t.fill("c", &rows.iter().map(String::as_str).collect::<Vec<_>>());
    let mut trx = t.begin();
    t.delete(&mut trx, "p", "1").expect("cascade");
    t.engine.flush_log().expect("flush");
    std::mem::forget(trx);
    let t = after_crash(t, &disk);
    assert_eq!((t.rows("p").len(), t.rows("c").len()), (2, 150));
    let mut deleter = t.begin();
    assert_eq!(t.delete(&mut deleter, "p", "1"), Err(Error::LockWaitTimeout));
    let mut losers = LoserRollback::new(t.engine.in_doubt.take_losers());
    while losers.step(t.store(), 10).expect("rollback") {}
    t.delete(&mut deleter, "p", "1").expect("cascade");
    t.commit(deleter);
    assert_eq!(t.rows("c").len(), 75);
    t.check();
}
