//! Child rows that follow their parent.
use super::family::*;
use crate::base::Error;
use crate::io::SimDisk;
use crate::table::ForeignAction;
use crate::txn::Isolation::{ReadCommitted, RepeatableRead};

fn two(on_delete: ForeignAction, on_update: ForeignAction) -> Family {
    let parent = Shape::new("p", "id ~word", "id");
    let child = Shape::new("c", "id ref? ~word", "id").index("ref");
    let child = child.foreign("f", "ref", "p id", on_delete, on_update);
    Family::create(SimDisk::new(1), &[parent, child])
}

#[test]
fn children_go_with_their_parent() {
    for buffered in [false, true] {
        let t = two(Cascade, Restrict);
        t.buffer(buffered);
        t.fill("p", &["1 a", "2 b"]);
        // More than are found at a time.
        let rows: Vec<String> = (0..250).map(|n| format!("{n} {} x", 1 + n % 2)).collect();
        t.fill("c", &rows.iter().map(String::as_str).collect::<Vec<_>>());
        let before = t.engine.counters().rows_deleted.get();
        let mut trx = t.begin();
        assert_eq!(why(t.delete(&mut trx, "p", "1 a")), "done");
        assert_eq!(t.rows_seen(&mut trx, "c").expect("scan").len(), 125);
        t.rollback(trx);
        assert_eq!((t.rows("p").len(), t.rows("c").len()), (2, 250));
        t.check();
        t.does(|trx| t.delete(trx, "p", "1 a")).expect("cascade");
        assert_eq!(t.engine.counters().rows_deleted.get() - before, 2 * 126);
        assert!(t.rows("c").iter().all(|row| row.contains(" 2 ")));
        t.check();
    }
}

#[test]
fn children_get_null() {
    for buffered in [false, true] {
        let t = two(SetNull, SetNull);
        t.buffer(buffered);
        t.fill("p", &["1 a", "2 b", "3 c"]);
        t.fill("c", &["10 1 x", "11 1 y", "12 2 z", "13 3 z"]);
        t.does(|trx| t.delete(trx, "p", "1 a")).expect("cascade");
        t.does(|trx| t.update(trx, "p", "3 c", "4 c")).expect("cascade");
        assert_eq!(t.rows("c"), ["10 - x", "11 - y", "12 2 z", "13 - z"]);
        t.check();
    }
}

#[test]
fn children_follow_the_key() {
    for buffered in [false, true] {
        let t = two(Restrict, Cascade);
        t.buffer(buffered);
        t.fill("p", &["1 a", "2 b"]);
        t.fill("c", &["10 1 x", "11 1 y", "12 2 z", "13 - z"]);
        t.does(|trx| t.update(trx, "p", "1 a", "5 a")).expect("cascade");
        t.does(|trx| t.update(trx, "p", "2 b", "1 b")).expect("cascade");
        assert_eq!(t.rows("c"), ["10 5 x", "11 5 y", "12 1 z", "13 - z"]);
        t.check();
        // There and back in one transaction.
        let mut trx = t.begin();
        t.update(&mut trx, "p", "5 a", "6 a").expect("cascade");
        t.update(&mut trx, "p", "6 a", "5 a").expect("cascade");
        t.update(&mut trx, "p", "1 b", "7 b").expect("cascade");
        t.commit(trx);
        assert_eq!(t.rows("c"), ["10 5 x", "11 5 y", "12 7 z", "13 - z"]);
        t.check();
    }
}

/// The child's clustered key has the foreign key's column: the rows move.
#[test]
fn children_move_with_the_key() {
    let parent = Shape::new("p", "id a", "id").unique("a");
    let child = Shape::new("c", "x id", "x id").index("id");
    let child = child.foreign("f", "x", "p a", Cascade, Cascade);
    let t = Family::create(SimDisk::new(1), &[parent, child]);
    t.fill("p", &["1 5", "2 6"]);
    t.fill("c", &["5 1", "5 2", "6 1"]);
    t.does(|trx| t.update(trx, "p", "1 5", "1 9")).expect("cascade");
    assert_eq!(t.rows("c"), ["6 1", "9 1", "9 2"]);
    t.does(|trx| t.delete(trx, "p", "1 9")).expect("cascade");
    assert_eq!(t.rows("c"), ["6 1"]);
    t.check();
}

/// The new spelling reaches the children, whose keys stay.
#[test]
fn children_follow_the_spelling() {
    let parent = Shape::new("p", "~a ~b", "a");
    let child = Shape::new("c", "id ~x", "id").index("x");
    let child = child.foreign("f", "x", "p a", Restrict, Cascade);
    let t = Family::create(SimDisk::new(1), &[parent, child]);
    t.fill("p", &["ann k", "bob l"]);
    t.fill("c", &["1 ann", "2 Ann", "3 bob"]);
    t.does(|trx| t.update(trx, "p", "ann k", "Ann k")).expect("cascade");
    assert_eq!(t.rows("c"), ["1 Ann", "2 Ann", "3 bob"]);
    t.check();
    // Beside another column of the index, children follow too.
    let parent = Shape::new("p", "id ~a ~b", "id").unique("a b");
    let child = Shape::new("c", "id ~x", "id").index("x");
    let child = child.foreign("f", "x", "p a", Restrict, Cascade);
    let t = Family::create(SimDisk::new(1), &[parent, child]);
    t.fill("p", &["1 ann k"]);
    t.fill("c", &["1 ann"]);
    t.does(|trx| t.update(trx, "p", "1 ann k", "1 Ann k")).expect("cascade");
    t.does(|trx| t.update(trx, "p", "1 Ann k", "1 Ann K"))
        .expect("nothing to do");
    assert_eq!(t.rows("c"), ["1 Ann"]);
    t.check();
}

/// p <- c <- g: grandchildren, by different actions.
fn three(of_child: ForeignAction, of_grandchild: ForeignAction) -> Family {
    let parent = Shape::new("p", "id", "id");
    let child = Shape::new("c", "id ref", "id").index("ref");
    let child = child.foreign("f", "ref", "p id", of_child, Restrict);
    let grandchild = Shape::new("g", "id ref?", "id").index("ref");
    let grandchild = grandchild.foreign("g", "ref", "c id", of_grandchild, Restrict);
    let t = Family::create(SimDisk::new(1), &[parent, child, grandchild]);
    t.fill("p", &["1", "2"]);
    t.fill("c", &["10 1", "11 1", "12 2"]);
    t.fill("g", &["20 10", "21 11", "22 12"]);
    t
}

#[test]
fn grandchildren_follow() {
    let t = three(Cascade, Cascade);
    t.does(|trx| t.delete(trx, "p", "1")).expect("cascade");
    assert_eq!((t.rows("c"), t.rows("g")), (vec!["12 2".into()], vec!["22 12".into()]));
    t.check();
    let t = three(Cascade, SetNull);
    t.does(|trx| t.delete(trx, "p", "1")).expect("cascade");
    assert_eq!(t.rows("g"), ["20 -", "21 -", "22 12"]);
    t.check();
}

/// A grandchild refuses: nothing of the cascade stays, and the transaction goes on.
#[test]
fn a_cascade_that_fails_is_undone_as_a_whole() {
    for buffered in [false, true] {
        let t = three(Cascade, Restrict);
        t.buffer(buffered);
        let mut trx = t.begin();
        t.delete(&mut trx, "g", "20 10").expect("one grandchild");
        assert_eq!(why(t.delete(&mut trx, "p", "1")), "children: g of g");
        assert_eq!(t.rows_seen(&mut trx, "c").expect("scan").len(), 3);
        t.commit(trx);
        assert_eq!((t.rows("p").len(), t.rows("c").len(), t.rows("g").len()), (2, 3, 2));
        t.check();
    }
}

#[test]
fn cycles_of_deletes_end() {
    let a = Shape::new("a", "id ref?", "id").index("ref");
    let b = Shape::new("b", "id ref?", "id").index("ref");
    let a = a.foreign("fa", "ref", "b id", Cascade, Cascade);
    let b = b.foreign("fb", "ref", "a id", Cascade, Cascade);
    let t = Family::create(SimDisk::new(1), &[a, b]);
    t.fill("a", &["1 -", "2 -"]);
    t.fill("b", &["1 1", "2 2"]);
    t.does(|trx| {
        t.update(trx, "a", "1 -", "1 2")?;
        t.update(trx, "a", "2 -", "2 1")
    })
    .expect("a circle");
    t.does(|trx| t.delete(trx, "a", "1 2")).expect("all go");
    assert!(t.rows("a").is_empty() && t.rows("b").is_empty());
    t.check();
    // An update must not come back to a table that it changes already.
    t.fill("a", &["1 -"]);
    t.fill("b", &["5 1"]);
    t.does(|trx| t.update(trx, "a", "1 -", "1 5")).expect("a circle");
    assert_eq!(why(t.does(|trx| t.update(trx, "a", "1 5", "3 5"))), "done");
    assert_eq!((t.rows("a"), t.rows("b")), (vec!["3 5".into()], vec!["5 3".into()]));
    t.check();
}

#[test]
fn updates_do_not_cascade_into_their_own_table() {
    for action in [Cascade, SetNull] {
        let shape = Shape::new("t", "id ref?", "id").index("ref");
        let t = Family::create(SimDisk::new(1), &[shape.foreign("f", "ref", "t id", action, action)]);
        t.fill("t", &["1 -", "2 1", "3 2"]);
        assert_eq!(why(t.does(|trx| t.update(trx, "t", "1 -", "9 -"))), "children: f of t");
        assert_eq!(why(t.does(|trx| t.update(trx, "t", "3 2", "9 2"))), "done");
        t.does(|trx| t.delete(trx, "t", "1 -")).expect("a delete may");
        let left: Vec<String> = t.rows("t");
        match action {
            Cascade => assert!(left.is_empty(), "{left:?}"),
            _ => assert_eq!(left, ["2 -", "9 2"]),
        }
        t.check();
    }
}

/// As in InnoDB, a chain has 15 rows, the first included.
#[test]
fn a_chain_has_a_limit() {
    let shape = Shape::new("t", "id ref?", "id").index("ref");
    let t = Family::create(SimDisk::new(1), &[shape.foreign("f", "ref", "t id", Cascade, Cascade)]);
    let rows: Vec<String> = (1..16).map(|n| format!("{n} {}", n - 1)).collect();
    t.fill("t", &["0 0"]);
    t.fill("t", &rows.iter().map(String::as_str).collect::<Vec<_>>());
    let refused = t.does(|trx| t.delete(trx, "t", "0 0"));
    assert!(matches!(refused, Err(Error::ForeignDepth(_, 15))), "{refused:?}");
    assert_eq!(t.rows("t").len(), 16);
    t.does(|trx| t.delete(trx, "t", "15 14")).expect("the last one");
    t.does(|trx| t.delete(trx, "t", "0 0")).expect("cascade");
    assert!(t.rows("t").is_empty());
    t.check();
}

/// Rows that all refer to each other. The row at the end of the chain has the others as children,
/// unless their entries go first. They go first if the child's index is the older one.
#[test]
fn a_chain_that_comes_back_has_the_limit_too() {
    for (older, newer, limit) in [("code", "ref", 14), ("ref", "code", 15)] {
        let shape = Shape::new("t", "id code ref?", "id").index(older).index(newer);
        let t = Family::create(
            SimDisk::new(1),
            &[shape.foreign("f", "ref", "t code", Cascade, Cascade)],
        );
        let fill = |count: i32| {
            t.fill("t", &["1 5 -"]);
            t.does(|trx| t.update(trx, "t", "1 5 -", "1 5 5")).expect("itself");
            let rows: Vec<String> = (2..=count).map(|n| format!("{n} 5 5")).collect();
            t.fill("t", &rows.iter().map(String::as_str).collect::<Vec<_>>());
        };
        fill(limit);
        t.does(|trx| t.delete(trx, "t", "1 5 5")).expect("as deep as it may be");
        assert!(t.rows("t").is_empty());
        fill(limit + 1);
        let refused = t.does(|trx| t.delete(trx, "t", "1 5 5"));
        assert!(matches!(refused, Err(Error::ForeignDepth(_, 15))), "{refused:?}");
        assert_eq!(t.rows("t").len() as i32, limit + 1);
        t.check();
    }
}

/// A row whose deletion cascades to its own parent is still the parent's child, because the index
/// of that reference comes later. As in InnoDB, RESTRICT then refuses.
#[test]
fn a_cascade_to_the_parent_of_the_first_row_is_refused() {
    for order in [["code", "ref"], ["ref", "code"]] {
        let p = Shape::new("p", "id code ref?", "id").index(order[0]).index(order[1]);
        let p = p.foreign("fp", "ref", "q id", Restrict, Restrict);
        let q = Shape::new("q", "id up?", "id").index("up");
        let q = q.foreign("fq", "up", "p code", Cascade, Cascade);
        let t = Family::create(SimDisk::new(1), &[q, p]);
        t.fill("p", &["1 7 -"]);
        t.fill("q", &["5 7"]);
        t.does(|trx| t.update(trx, "p", "1 7 -", "1 7 5")).expect("a circle");
        let done = why(t.does(|trx| t.delete(trx, "p", "1 7 5")));
        match order[0] {
            "code" => assert_eq!(done, "children: fp of p"),
            _ => assert_eq!(done, "done"),
        }
        assert_eq!(
            (t.rows("p").len(), t.rows("q").len()),
            if done == "done" { (0, 0) } else { (1, 1) }
        );
        t.check();
    }
}

#[test]
fn a_duplicate_in_a_cascade_is_an_error_of_its_own() {
    let parent = Shape::new("p", "id a", "id").index("a");
    let child = Shape::new("c", "id x", "id").unique("x");
    let child = child.foreign("f", "x", "p a", Cascade, Cascade);
    let t = Family::create(SimDisk::new(1), &[parent, child]);
    t.fill("p", &["1 5", "2 6"]);
    t.fill("c", &["1 5", "2 6"]);
    let mut trx = t.begin();
    assert_eq!(why(t.update(&mut trx, "p", "1 5", "1 6")), "duplicate: f of c");
    t.commit(trx);
    assert_eq!(t.rows("p"), ["1 5", "2 6"]);
    t.check();
}

/// Another foreign key over the same column must hold, too.
#[test]
fn a_cascade_checks_the_other_foreign_keys() {
    let p = Shape::new("p", "id", "id");
    let q = Shape::new("q", "id", "id");
    let child = Shape::new("c", "id x", "id").index("x");
    let child = child.foreign("f", "x", "p id", Cascade, Cascade);
    let child = child.foreign("g", "x", "q id", Restrict, Restrict);
    let t = Family::create(SimDisk::new(1), &[p, q, child]);
    t.fill("p", &["1", "2"]);
    t.fill("q", &["1", "3"]);
    t.fill("c", &["10 1"]);
    assert_eq!(why(t.does(|trx| t.update(trx, "p", "1", "4"))), "no parent: g of c");
    assert_eq!(why(t.does(|trx| t.update(trx, "p", "1", "3"))), "done");
    assert_eq!(t.rows("c"), ["10 3"]);
    t.check();
}

/// A child refers to the same parent row by two foreign keys, whose columns lie in one index. Both
/// keys of the parent change at once.
#[test]
fn two_keys_of_a_parent_change_at_once() {
    let parent = Shape::new("p", "id code", "id").unique("code");
    let child = Shape::new("c", "id ref? code?", "id").index("code ref");
    let child = child.foreign("f", "ref", "p id", Cascade, Cascade).index("ref");
    let child = child.foreign("g", "code", "p code", Cascade, Cascade);
    let t = Family::create(SimDisk::new(1), &[parent, child]);
    t.fill("p", &["1 5", "2 6"]);
    t.fill("c", &["10 1 5", "20 2 5"]);
    assert_eq!(why(t.does(|trx| t.update(trx, "p", "1 5", "1 7"))), "done");
    assert_eq!(t.rows("c"), ["10 1 7", "20 2 7"]);
    assert_eq!(why(t.does(|trx| t.update(trx, "p", "1 7", "3 8"))), "done");
    assert_eq!(t.rows("c"), ["10 3 8", "20 2 8"]);
    t.check();
}

#[test]
fn a_cascade_needs_a_row_maker() {
    let t = two(Cascade, Cascade);
    t.fill("p", &["1 a", "2 b"]);
    t.fill("c", &["10 1 x"]);
    let mut trx = t.begin();
    trx.row_maker = None;
    let done = t.delete(&mut trx, "p", "1 a");
    assert!(
        matches!(&done, Err(Error::Unsupported(what)) if what.contains("db/f")),
        "{done:?}"
    );
    assert_eq!(why(t.delete(&mut trx, "p", "2 b")), "done");
    t.commit(trx);
    assert_eq!((t.rows("p"), t.rows("c")), (vec!["1 a".into()], vec!["10 1 x".into()]));
}

/// The next transaction of an owner whose last one goes on without it has the owner's settings.
#[test]
fn the_row_maker_stays_with_its_owner() {
    let t = two(Cascade, Cascade);
    t.fill("p", &["1 a", "2 b"]);
    t.fill("c", &["10 1 x", "20 2 y"]);
    let mut trx = t.begin();
    trx.foreign_key_checks = false;
    t.delete(&mut trx, "p", "1 a").expect("delete");
    let left = t.store().trx_sys.leave(&mut trx);
    assert!(left.is_started() && left.row_maker.is_none() && !trx.is_started() && !trx.foreign_key_checks);
    t.rollback(left);
    trx.foreign_key_checks = true;
    t.engine.start(&mut trx, ReadCommitted, 0);
    t.delete(&mut trx, "p", "2 b").expect("delete");
    t.commit(trx);
    assert_eq!((t.rows("p"), t.rows("c")), (vec!["1 a".into()], vec!["10 1 x".into()]));
}

/// Rows that are longer than a page.
#[test]
fn long_children_follow() {
    let parent = Shape::new("p", "id", "id");
    let child = Shape::new("c", "id ref? *body", "id").index("ref");
    let child = child.foreign("f", "ref", "p id", SetNull, Cascade);
    let t = Family::create(SimDisk::new(1), &[parent, child]);
    t.fill("p", &["1"]);
    let body = "b".repeat(40_000);
    t.fill("c", &[&format!("10 1 {body}")]);
    t.does(|trx| t.update(trx, "p", "1", "2")).expect("cascade");
    assert_eq!(t.rows("c"), [format!("10 2 {body}")]);
    t.does(|trx| t.delete(trx, "p", "2")).expect("cascade");
    assert_eq!(t.rows("c"), [format!("10 - {body}")]);
    t.check();
}

/// A child that came after the snapshot is a conflict, and is not skipped (K4).
#[test]
fn a_child_newer_than_the_snapshot_is_a_conflict() {
    let t = two(Cascade, Cascade);
    t.fill("p", &["1 a", "2 b"]);
    let mut old = t.begin_at(RepeatableRead);
    assert_eq!(t.rows_seen(&mut old, "c").expect("scan").len(), 0);
    t.fill("c", &["10 1 x"]);
    assert_eq!(t.delete(&mut old, "p", "1 a"), Err(Error::Conflict));
    assert_eq!(why(t.delete(&mut old, "p", "2 b")), "done");
    t.rollback(old);
    assert_eq!((t.rows("p").len(), t.rows("c").len()), (2, 1));
    t.check();
}

/// Rows that a cascade changed are locked as those of a statement are.
#[test]
fn rows_of_a_cascade_are_locked() {
    let t = two(Cascade, Cascade);
    t.fill("p", &["1 a", "2 b"]);
    t.fill("c", &["10 1 x", "11 2 y"]);
    let mut trx = t.begin();
    t.delete(&mut trx, "p", "1 a").expect("cascade");
    t.update(&mut trx, "p", "2 b", "3 b").expect("cascade");
    let mut other = t.begin();
    for row in ["10 1 x", "11 2 y"] {
        assert_eq!(t.delete(&mut other, "c", row), Err(Error::LockWaitTimeout), "{row}");
    }
    t.rollback(other);
    t.commit(trx);
    assert_eq!(t.rows("c"), ["11 3 y"]);
    t.check();
}

/// In a table that refers to itself, an UPDATE cascade is refused. It once was refused also if the
/// columns of the foreign key stayed, but their index got another entry.
#[test]
fn a_key_that_stays_changes_no_child_of_its_own_table() {
    let other_column = Shape::new("t", "id n ~s?", "id").index("s n");
    let other_column = other_column.foreign("f", "s", "t s", NoAction, Cascade);
    let clustered = Shape::new("u", "id ~s?", "id").index("s");
    let clustered = clustered.foreign("g", "s", "u s", NoAction, Cascade);
    let t = Family::create(SimDisk::new(1), &[other_column, clustered]);
    let mut trx = t.begin();
    // No row is its own parent by one index.
    trx.foreign_key_checks = false;
    for row in ["1 1 a", "2 2 a", "3 3 -"] {
        t.insert(&mut trx, "t", row).expect("insert");
    }
    for row in ["1 a", "2 A"] {
        t.insert(&mut trx, "u", row).expect("insert");
    }
    t.commit(trx);
    let update = |table: &str, from: &str, to: &str| why(t.does(|trx| t.update(trx, table, from, to)));
    assert_eq!(update("t", "1 1 a", "1 5 a"), "done");
    assert_eq!(update("t", "1 5 a", "9 5 a"), "done");
    assert_eq!(
        update("t", "9 5 a", "9 5 A"),
        "children: f of t",
        "other bytes are a change"
    );
    assert_eq!(update("u", "1 a", "7 a"), "done");
    assert_eq!(t.rows("u"), ["2 A", "7 a"], "the child's spelling stays");
    assert_eq!(update("u", "7 a", "7 A"), "children: g of u");
    t.check();
}

/// A cascade writes the index entry of a row without a parent anew: it needs one now, as in InnoDB.
#[test]
fn an_orphan_under_a_cascade_needs_its_parent() {
    let parent = Shape::new("p", "id a", "id").unique("a");
    let child = Shape::new("c", "id ref? other", "id").index("ref").index("other ref");
    let child = child.foreign("f", "ref", "p id", Cascade, Cascade);
    let child = child.foreign("g", "other", "p a", Restrict, Restrict);
    let t = Family::create(SimDisk::new(1), &[parent, child]);
    t.fill("p", &["1 1", "2 2"]);
    let mut trx = t.begin();
    trx.foreign_key_checks = false;
    t.insert(&mut trx, "c", "10 1 9").expect("an orphan");
    t.commit(trx);
    t.fill("c", &["11 2 2"]);
    let update = |from, to| why(t.does(|trx| t.update(trx, "p", from, to)));
    assert_eq!(update("1 1", "3 1"), "no parent: g of c");
    assert_eq!(update("2 2", "4 2"), "done", "the row above was the parent");
    assert_eq!(t.rows("c"), ["10 1 9", "11 4 2"]);
}
