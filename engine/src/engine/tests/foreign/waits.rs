//! Children and parents of several transactions.
use super::family::*;
use crate::base::sync_point::at;
use crate::base::{Error, SyncPoint};
use crate::io::SimDisk;
use crate::table::ForeignAction;
use crate::txn::Trx;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

const BUSY: std::result::Result<(), Error> = Err(Error::LockWaitTimeout);

/// By the parent's clustered index, or by a secondary one.
fn two(on_delete: ForeignAction, secondary: bool) -> Family {
    let parent = Shape::new("p", "id a", "id").unique("a");
    let child = Shape::new("c", "id ref?", "id").index("ref");
    let to = if secondary { "p a" } else { "p id" };
    let child = child.foreign("f", "ref", to, on_delete, Cascade);
    let t = Family::create(SimDisk::new(1), &[parent, child]);
    t.fill("p", &["1 1", "2 2"]);
    t
}

fn each(body: impl Fn(Family)) {
    for secondary in [false, true] {
        for buffered in [false, true] {
            let t = two(Restrict, secondary);
            t.buffer(buffered);
            body(t);
        }
    }
}

#[test]
fn a_child_waits_for_who_deletes_its_parent() {
    each(|t| {
        for commits in [false, true] {
            let mut deleter = t.begin();
            t.delete(&mut deleter, "p", "1 1").expect("delete");
            let mut child = t.begin();
            assert_eq!(t.insert(&mut child, "c", "10 1"), BUSY);
            match commits {
                true => t.commit(deleter),
                false => t.rollback(deleter),
            }
            let result = if commits { "no parent: f of c" } else { "done" };
            assert_eq!(why(t.insert(&mut child, "c", "10 1")), result);
            t.commit(child);
            t.does(|trx| t.delete(trx, "c", "10 1")).unwrap_or_default();
            t.check();
        }
    });
}

#[test]
fn a_deleter_waits_for_who_makes_children() {
    each(|t| {
        for commits in [false, true] {
            let mut child = t.begin();
            t.insert(&mut child, "c", "10 1").expect("insert");
            let mut deleter = t.begin();
            assert_eq!(t.delete(&mut deleter, "p", "1 1"), BUSY);
            assert_eq!(t.delete(&mut deleter, "p", "2 2"), Ok(()));
            match commits {
                true => t.commit(child),
                false => t.rollback(child),
            }
            let result = if commits { "children: f of c" } else { "done" };
            assert_eq!(why(t.delete(&mut deleter, "p", "1 1")), result);
            t.rollback(deleter);
            t.check();
        }
    });
}

/// A child that is deleted may come back: its parent waits.
#[test]
fn a_deleter_waits_for_who_deletes_the_last_child() {
    each(|t| {
        t.fill("c", &["10 1"]);
        for commits in [false, true] {
            let mut other = t.begin();
            t.delete(&mut other, "c", "10 1").expect("delete");
            let mut deleter = t.begin();
            assert_eq!(t.delete(&mut deleter, "p", "1 1"), BUSY);
            match commits {
                true => t.commit(other),
                false => t.rollback(other),
            }
            let result = if commits { "done" } else { "children: f of c" };
            assert_eq!(why(t.delete(&mut deleter, "p", "1 1")), result);
            t.rollback(deleter);
            t.check();
        }
    });
}

/// A child that stays refuses the deletion at once, also while a transaction has locked its row or
/// changed other columns.
#[test]
fn a_change_of_other_columns_of_a_child_is_not_waited_for() {
    for secondary in [false, true] {
        let parent = Shape::new("p", "id a", "id").unique("a");
        let to = if secondary { "p a" } else { "p id" };
        let child = Shape::new("c", "id ref? x", "id").index("ref");
        let child = child.foreign("f", "ref", to, Restrict, Cascade);
        let t = Family::create(SimDisk::new(1), &[parent, child]);
        t.fill("p", &["1 1"]);
        t.fill("c", &["10 1 5"]);
        let mut other = t.begin();
        t.update(&mut other, "c", "10 1 5", "10 1 6").expect("update");
        assert_eq!(why(t.does(|trx| t.delete(trx, "p", "1 1"))), "children: f of c");
        // The child was not locked.
        let mut deleter = t.begin();
        assert_eq!(why(t.delete(&mut deleter, "p", "1 1")), "children: f of c");
        t.update(&mut other, "c", "10 1 6", "10 1 7").expect("update");
        // Its key changes: it may stay a child.
        t.update(&mut other, "c", "10 1 7", "10 - 7").expect("update");
        assert_eq!(t.delete(&mut deleter, "p", "1 1"), BUSY);
        t.commit(other);
        assert_eq!(why(t.delete(&mut deleter, "p", "1 1")), "done");
        t.commit(deleter);
        t.check();
    }
}

/// At the next entry that a search meets. Its leaf is latched there: what is pending needs it not.
fn roll_back_at_an_entry(t: &Family, other: Trx) {
    let shared = t.clone();
    at(SyncPoint::ForeignEntryMet, move || {
        thread::spawn(move || shared.rollback(other))
            .join()
            .expect("rolled back");
    });
}

/// The rollback of a child's deletion comes after the entries were collected, and before their
/// maker is looked at.
#[test]
fn a_deletion_that_is_rolled_back_meanwhile_hides_no_child() {
    for secondary in [false, true] {
        let t = two(Restrict, secondary);
        t.buffer(true);
        t.fill("c", &["10 1"]);
        let mut other = t.begin();
        t.delete(&mut other, "c", "10 1").expect("delete");
        roll_back_at_an_entry(&t, other);
        assert_eq!(why(t.does(|trx| t.delete(trx, "p", "1 1"))), "children: f of c");
        t.check();
    }
}

/// ... and so a parent's.
#[test]
fn a_deletion_that_is_rolled_back_meanwhile_hides_no_parent() {
    let t = two(Restrict, true);
    t.buffer(true);
    let mut other = t.begin();
    t.delete(&mut other, "p", "1 1").expect("delete");
    roll_back_at_an_entry(&t, other);
    assert_eq!(why(t.does(|trx| t.insert(trx, "c", "10 1"))), "done");
    t.check();
}

/// A child row that its maker took back to a savepoint is no child, although the maker goes on.
#[test]
fn what_is_taken_back_to_a_savepoint_is_in_no_way() {
    each(|t| {
        t.fill("c", &["10 2"]);
        let mut other = t.begin();
        let savepoint = t.store().rollbacks().savepoint(&other);
        t.update(&mut other, "c", "10 2", "10 1").expect("update");
        t.insert(&mut other, "c", "11 1").expect("insert");
        t.store()
            .rollbacks()
            .rollback_to(&mut other, savepoint)
            .expect("rollback");
        let mut deleter = t.begin();
        // The parent is locked still.
        assert_eq!(t.delete(&mut deleter, "p", "1 1"), BUSY);
        t.rollback(other);
        assert_eq!(why(t.delete(&mut deleter, "p", "1 1")), "done");
        t.commit(deleter);
        t.check();
    });
}

/// The child's check has found the parent; the parent's deleter comes then.
#[test]
fn a_parent_that_was_found_cannot_go_before_the_child_is_there() {
    each(|t| {
        let (sender, receiver) = channel();
        let shared = t.clone();
        at(SyncPoint::ParentLookedFor, move || {
            let mut deleter = shared.begin();
            sender.send(shared.delete(&mut deleter, "p", "1 1")).expect("send");
            shared.rollback(deleter);
        });
        t.does(|trx| t.insert(trx, "c", "10 1")).expect("insert");
        assert_eq!(receiver.recv().expect("it ran"), BUSY);
        t.check();
    });
}

/// The parent is changed, and its children are not looked for yet; a child comes then.
#[test]
fn a_child_cannot_come_between_the_change_and_the_search() {
    for action in [Restrict, Cascade, SetNull] {
        let t = two(action, true);
        let (sender, receiver) = channel();
        let shared = t.clone();
        at(SyncPoint::ChildrenToBeFound, move || {
            let mut child = shared.begin();
            sender.send(shared.insert(&mut child, "c", "10 1")).expect("send");
            shared.rollback(child);
        });
        t.does(|trx| t.delete(trx, "p", "1 1")).expect("delete");
        assert_eq!(receiver.recv().expect("it ran"), BUSY);
        t.check();
    }
}

/// A cascade waits for the rows that it changes, and acts on what they become.
#[test]
fn a_cascade_waits_for_who_changes_a_child() {
    for (action, commits) in [(Cascade, false), (Cascade, true), (SetNull, false), (SetNull, true)] {
        let t = two(action, true);
        t.fill("c", &["10 1", "11 1"]);
        let mut other = t.begin();
        t.update(&mut other, "c", "10 1", "10 2").expect("update");
        let (begun, go_on) = channel();
        let shared = t.clone();
        let deleter = thread::spawn(move || {
            let mut trx: Trx = shared.begin();
            trx.lock_wait_timeout_ms = 20_000;
            begun.send(()).expect("send");
            shared.delete(&mut trx, "p", "1 1").expect("cascade");
            shared.commit(trx);
        });
        go_on.recv().expect("begun");
        thread::sleep(Duration::from_millis(30));
        match commits {
            true => t.commit(other),
            false => t.rollback(other),
        }
        deleter.join().expect("no panic");
        let expected: &[&str] = match (action, commits) {
            (Cascade, true) => &["10 2"],
            (Cascade, false) => &[],
            (_, true) => &["10 2", "11 -"],
            (_, false) => &["10 -", "11 -"],
        };
        assert_eq!(t.rows("c"), expected);
        t.check();
    }
}

/// Many threads make children and delete parents: no orphan is left.
#[test]
fn no_orphan_by_a_race() {
    for action in [Restrict, Cascade, SetNull] {
        let t = two(action, true);
        t.buffer(true);
        let work = |seed: u64| {
            let t = t.clone();
            thread::spawn(move || {
                let mut random = crate::engine::tests::fixture::Random(seed);
                for n in 0..150u64 {
                    let parent = 1 + random.below(2);
                    let mut trx = t.begin();
                    trx.lock_wait_timeout_ms = 200;
                    let row = format!("{parent} {parent}");
                    let done = match random.below(3) {
                        0 => t.delete(&mut trx, "p", &row),
                        1 => t.insert(&mut trx, "p", &row),
                        _ => t.insert(&mut trx, "c", &format!("{} {parent}", seed * 1000 + n)),
                    };
                    match done {
                        Ok(()) if random.chance(80) => t.commit(trx),
                        _ => t.rollback(trx),
                    }
                }
            })
        };
        let threads: Vec<_> = (1..=4).map(work).collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        t.check();
    }
}

/// The foreign key is bound anew while a row is inserted: the operation runs again (K5).
#[test]
fn a_check_against_another_parent_runs_again() {
    let t = two(Restrict, false);
    let shared = t.clone();
    at(SyncPoint::ParentLookedFor, move || {
        let tables = shared.store().tables();
        tables.drop_table_as("p", &|_| true).expect("drop");
        tables.create_table("p", &shared.shapes["p"].spec()).expect("create");
    });
    assert_eq!(why(t.does(|trx| t.insert(trx, "c", "10 1"))), "no parent: f of c");
    t.check();
}
