//! What foreign keys refuse, and what they let pass.
use super::family::*;
use crate::base::Error;
use crate::io::SimDisk;
use crate::table::{ForeignKeySpec, Table};
use crate::txn::Isolation::{ReadCommitted, RepeatableRead};
use std::sync::Arc;

/// p (id) <- c (id, ref), by an index on ref.
fn two(on_delete: crate::table::ForeignAction, on_update: crate::table::ForeignAction) -> Family {
    let parent = Shape::new("p", "id ~word", "id");
    let child = Shape::new("c", "id ref?", "id").index("ref");
    let child = child.foreign("f", "ref", "p id", on_delete, on_update);
    Family::create(SimDisk::new(1), &[parent, child])
}

#[test]
fn a_child_needs_its_parent() {
    for buffered in [false, true] {
        let t = two(Restrict, Restrict);
        t.buffer(buffered);
        t.fill("p", &["1 a", "2 b"]);
        t.fill("c", &["10 1", "11 -"]);
        let mut trx = t.begin();
        assert_eq!(why(t.insert(&mut trx, "c", "12 3")), "no parent: f of c");
        assert_eq!(why(t.update(&mut trx, "c", "10 1", "10 3")), "no parent: f of c");
        assert_eq!(why(t.update(&mut trx, "c", "11 -", "11 3")), "no parent: f of c");
        assert_eq!(why(t.update(&mut trx, "c", "10 1", "13 3")), "no parent: f of c");
        assert_eq!(why(t.update(&mut trx, "c", "10 1", "10 2")), "done");
        assert_eq!(why(t.update(&mut trx, "c", "11 -", "14 2")), "done");
        assert_eq!(why(t.update(&mut trx, "c", "10 2", "10 -")), "done");
        t.insert(&mut trx, "p", "3 c").expect("parent");
        assert_eq!(why(t.insert(&mut trx, "c", "12 3")), "done");
        t.commit(trx);
        assert_eq!(t.rows("c"), ["10 -", "12 3", "14 2"]);
        t.check();
    }
}

#[test]
fn a_parent_with_children_stays() {
    for (action, buffered) in [(Restrict, false), (NoAction, false), (Restrict, true)] {
        let t = two(action, action);
        t.buffer(buffered);
        t.fill("p", &["1 a", "2 b", "3 c"]);
        t.fill("c", &["10 1", "11 2", "12 2"]);
        let mut trx = t.begin();
        assert_eq!(why(t.delete(&mut trx, "p", "1 a")), "children: f of c");
        assert_eq!(why(t.update(&mut trx, "p", "1 a", "4 a")), "children: f of c");
        assert_eq!(why(t.update(&mut trx, "p", "1 a", "1 z")), "done");
        assert_eq!(why(t.delete(&mut trx, "p", "3 c")), "done");
        t.delete(&mut trx, "c", "11 2").expect("one of two");
        assert_eq!(why(t.delete(&mut trx, "p", "2 b")), "children: f of c");
        t.update(&mut trx, "c", "12 2", "12 1").expect("the other");
        assert_eq!(why(t.delete(&mut trx, "p", "2 b")), "done");
        t.commit(trx);
        assert_eq!(
            (t.rows("p"), t.rows("c")),
            (vec!["1 z".into()], vec!["10 1".into(), "12 1".into()])
        );
        t.check();
    }
}

/// The statement's error is that of the index that comes first.
#[test]
fn a_duplicate_of_an_earlier_index_comes_before_a_missing_parent() {
    let parent = Shape::new("p", "id", "id");
    let child = Shape::new("c", "id early late ref", "id")
        .unique("early")
        .index("ref")
        .unique("late");
    let child = child.foreign("f", "ref", "p id", Restrict, Restrict);
    let t = Family::create(SimDisk::new(1), &[parent, child]);
    t.fill("p", &["1"]);
    t.fill("c", &["10 20 30 1"]);
    let mut trx = t.begin();
    let index = |done| match done {
        Err(Error::Duplicate { index, .. }) => index,
        other => panic!("{other:?}"),
    };
    assert_eq!(index(t.insert(&mut trx, "c", "10 21 31 9")), 0);
    assert_eq!(index(t.insert(&mut trx, "c", "11 20 31 9")), 1);
    assert_eq!(why(t.insert(&mut trx, "c", "11 21 30 9")), "no parent: f of c");
    assert_eq!(index(t.insert(&mut trx, "c", "11 21 30 1")), 3);
    t.commit(trx);
    t.check();
}

/// As in InnoDB, such a row is its own child, too.
#[test]
fn a_row_may_be_its_own_parent() {
    for buffered in [false, true] {
        let shape = Shape::new("t", "id ref?", "id").index("ref");
        let t = Family::create(
            SimDisk::new(1),
            &[shape.foreign("f", "ref", "t id", Restrict, Restrict)],
        );
        t.buffer(buffered);
        t.fill("t", &["1 1", "2 1", "3 2"]);
        let mut trx = t.begin();
        assert_eq!(why(t.insert(&mut trx, "t", "4 5")), "no parent: f of t");
        assert_eq!(why(t.delete(&mut trx, "t", "2 1")), "children: f of t");
        assert_eq!(why(t.update(&mut trx, "t", "3 2", "3 3")), "done");
        assert_eq!(why(t.update(&mut trx, "t", "3 3", "4 4")), "children: f of t");
        assert_eq!(why(t.update(&mut trx, "t", "3 3", "5 -")), "children: f of t");
        assert_eq!(why(t.delete(&mut trx, "t", "3 3")), "children: f of t");
        assert_eq!(why(t.update(&mut trx, "t", "3 3", "3 -")), "done");
        assert_eq!(why(t.delete(&mut trx, "t", "3 -")), "done");
        assert_eq!(why(t.delete(&mut trx, "t", "1 1")), "children: f of t");
        t.delete(&mut trx, "t", "2 1").expect("a leaf");
        assert_eq!(why(t.update(&mut trx, "t", "1 1", "1 -")), "done");
        assert_eq!(why(t.delete(&mut trx, "t", "1 -")), "done");
        t.commit(trx);
        assert!(t.rows("t").is_empty());
        t.check();
    }
}

/// Index by index, an index's children before its parents and before duplicates.
#[test]
fn the_first_reason_is_the_error() {
    let p = Shape::new("p", "id", "id");
    let m = Shape::new("m", "id ref u", "id").index("ref").unique("u");
    let g = Shape::new("g", "id x", "id").index("x");
    for (to, action) in [("m id", Restrict), ("m u", Restrict), ("m u", Cascade)] {
        let m = m.clone().foreign("f", "ref", "p id", Restrict, Restrict);
        let g = g.clone().foreign("g", "x", to, Restrict, action);
        let t = Family::create(SimDisk::new(1), &[p.clone(), m, g]);
        t.fill("p", &["1"]);
        t.fill("m", &["1 1 1", "2 1 2"]);
        t.fill("g", &["10 1"]);
        let mut trx = t.begin();
        let mut update = |new| why(t.update(&mut trx, "m", "1 1 1", new));
        if to == "m id" {
            assert_eq!(update("3 9 1"), "children: g of g");
            assert_eq!(update("2 1 1"), "children: g of g");
            assert_eq!(update("1 9 2"), "no parent: f of m");
        } else {
            assert_eq!(update("1 9 5"), "no parent: f of m", "its index comes first");
            let expected = if action == Cascade { "done" } else { "children: g of g" };
            assert_eq!(update("3 1 5"), expected);
        }
        t.rollback(trx);
        assert_eq!((t.rows("m").len(), t.rows("g")), (2, vec!["10 1".into()]));
        t.check();
    }
}

#[test]
fn without_checks_everything_passes() {
    let t = two(Cascade, Cascade);
    t.fill("p", &["1 a"]);
    t.fill("c", &["10 1"]);
    let mut trx = t.begin();
    trx.foreign_key_checks = false;
    t.insert(&mut trx, "c", "11 9").expect("an orphan");
    t.delete(&mut trx, "p", "1 a").expect("no cascade");
    t.commit(trx);
    assert_eq!(t.rows("c"), ["10 1", "11 9"]);
    let mut trx = t.begin();
    // What stays as it is is not checked.
    t.update(&mut trx, "c", "11 9", "11 -").expect("no reference");
    assert_eq!(why(t.update(&mut trx, "c", "10 1", "12 1")), "no parent: f of c");
    t.rollback(trx);
}

#[test]
fn an_unbound_foreign_key_lets_no_child_in() {
    let t = two(Restrict, Restrict);
    t.fill("p", &["1 a"]);
    t.store().tables().drop_table_as("p", &|_| true).expect("drop");
    let mut trx = t.begin();
    assert_eq!(why(t.insert(&mut trx, "c", "10 1")), "no parent: f of c");
    assert_eq!(why(t.insert(&mut trx, "c", "11 -")), "done");
    t.commit(trx);
    let parent = &t.shapes["p"];
    t.store().tables().create_table("p", &parent.spec()).expect("create");
    t.fill("p", &["1 a"]);
    t.fill("c", &["10 1"]);
    assert_eq!(why(t.does(|trx| t.delete(trx, "p", "1 a"))), "children: f of c");
    t.check();
}

/// Parts that are NULL end the check, and so MATCH SIMPLE wants it.
#[test]
fn composite_keys_convert_null_bytes_and_order() {
    let parent = Shape::new("p", "id a b?", "id").unique("-a b");
    let child = Shape::new("c", "id x? y? z", "id").index("x -y z");
    let child = child.foreign("f", "x y", "p a b", Restrict, Restrict);
    let t = Family::create(SimDisk::new(1), &[parent, child]);
    t.fill("p", &["1 5 6", "2 5 7", "3 6 -"]);
    t.fill("c", &["10 5 6 0", "11 - 9 0", "12 9 - 0", "13 5 7 1", "14 5 7 2"]);
    let mut trx = t.begin();
    assert_eq!(why(t.insert(&mut trx, "c", "15 6 6 0")), "no parent: f of c");
    assert_eq!(why(t.insert(&mut trx, "c", "15 -5 6 0")), "no parent: f of c");
    assert_eq!(why(t.insert(&mut trx, "c", "15 6 - 0")), "done");
    assert_eq!(why(t.delete(&mut trx, "p", "3 6 -")), "done");
    assert_eq!(why(t.delete(&mut trx, "p", "1 5 6")), "children: f of c");
    assert_eq!(why(t.update(&mut trx, "p", "2 5 7", "2 5 -")), "children: f of c");
    assert_eq!(why(t.update(&mut trx, "p", "2 5 7", "9 5 7")), "done");
    // Of the child's index, a column that is no part of the foreign key.
    assert_eq!(why(t.update(&mut trx, "c", "13 5 7 1", "13 5 7 3")), "done");
    t.commit(trx);
    t.check();
}

/// A parent's index need not be unique. As in InnoDB, one parent of several may not go.
#[test]
fn parents_by_an_index_that_is_not_unique() {
    for buffered in [false, true] {
        let parent = Shape::new("p", "id a ~b", "id").index("a b");
        let child = Shape::new("c", "x id", "x id");
        let child = child.foreign("f", "x", "p a", Restrict, Restrict);
        let t = Family::create(SimDisk::new(1), &[parent, child]);
        t.buffer(buffered);
        t.fill("p", &["1 5 k", "2 5 l", "3 6 m"]);
        t.fill("c", &["5 1", "5 2"]);
        let mut trx = t.begin();
        assert_eq!(why(t.insert(&mut trx, "c", "7 1")), "no parent: f of c");
        assert_eq!(why(t.delete(&mut trx, "p", "1 5 k")), "children: f of c");
        assert_eq!(why(t.update(&mut trx, "p", "1 5 k", "1 5 z")), "done");
        assert_eq!(why(t.update(&mut trx, "p", "3 6 m", "3 5 m")), "done");
        assert_eq!(why(t.insert(&mut trx, "c", "6 1")), "no parent: f of c");
        t.commit(trx);
        t.check();
    }
}

/// The parent's key is the beginning of its clustered key, and the child's too.
#[test]
fn clustered_keys_at_both_ends() {
    let parent = Shape::new("p", "a b", "a b");
    let child = Shape::new("c", "x y z", "x y");
    let child = child.foreign("f", "x", "p a", Restrict, Restrict);
    let t = Family::create(SimDisk::new(1), &[parent, child]);
    t.fill("p", &["1 1", "1 2", "2 1"]);
    t.fill("c", &["1 1 0", "1 2 0"]);
    let mut trx = t.begin();
    assert_eq!(why(t.insert(&mut trx, "c", "3 1 0")), "no parent: f of c");
    assert_eq!(why(t.delete(&mut trx, "p", "1 1")), "children: f of c");
    assert_eq!(why(t.update(&mut trx, "p", "1 1", "1 3")), "done");
    assert_eq!(why(t.update(&mut trx, "c", "1 1 0", "2 1 0")), "done");
    assert_eq!(why(t.delete(&mut trx, "p", "2 1")), "children: f of c");
    t.delete(&mut trx, "c", "2 1 0").expect("delete");
    assert_eq!(why(t.delete(&mut trx, "p", "2 1")), "done");
    t.commit(trx);
    t.check();
}

/// 'a' becomes 'A': the key stays, and the columns do not.
#[test]
fn another_spelling_of_a_referenced_key() {
    let parent = |pk: &str| Shape::new("p", "~a ~b", pk).unique("a");
    let child = Shape::new("c", "id ~x", "id").index("x");
    for pk in ["a", "b"] {
        let child = child.clone().foreign("f", "x", "p a", Restrict, Restrict);
        let t = Family::create(SimDisk::new(1), &[parent(pk), child]);
        t.fill("p", &["ann k", "bob l"]);
        t.fill("c", &["1 ANN"]);
        let mut trx = t.begin();
        assert_eq!(why(t.update(&mut trx, "p", "ann k", "Ann k")), "children: f of c");
        assert_eq!(why(t.update(&mut trx, "p", "bob l", "Bob l")), "done");
        t.rollback(trx);
        t.check();
    }
    // Beside another column, whose spelling may be what changed, it is not known.
    let parent = Shape::new("p", "id ~a ~b", "id").unique("a b");
    let child = child.foreign("f", "x", "p a", Restrict, Restrict);
    let t = Family::create(SimDisk::new(1), &[parent, child]);
    t.fill("p", &["1 ann k"]);
    t.fill("c", &["1 ANN"]);
    assert_eq!(why(t.does(|trx| t.update(trx, "p", "1 ann k", "1 ann K"))), "done");
    t.check();
}

#[test]
fn a_statement_that_fails_leaves_the_others_of_its_transaction() {
    let t = two(Restrict, Restrict);
    t.fill("p", &["1 a", "2 b"]);
    let mut trx = t.begin();
    t.insert(&mut trx, "c", "10 1").expect("insert");
    let savepoint = t.store().rollbacks().savepoint(&trx);
    t.insert(&mut trx, "c", "11 2").expect("insert");
    assert_eq!(why(t.delete(&mut trx, "p", "2 b")), "children: f of c");
    t.store()
        .rollbacks()
        .rollback_to(&mut trx, savepoint)
        .expect("rollback");
    assert_eq!(why(t.delete(&mut trx, "p", "2 b")), "done");
    assert_eq!(why(t.insert(&mut trx, "c", "11 2")), "no parent: f of c");
    t.commit(trx);
    assert_eq!((t.rows("p"), t.rows("c")), (vec!["1 a".into()], vec!["10 1".into()]));
    t.check();
}

/// The newest rows count, whatever the snapshot shows.
#[test]
fn checks_do_not_read_by_the_snapshot() {
    let t = two(Restrict, Restrict);
    t.fill("p", &["1 a", "2 b"]);
    let mut old = t.begin_at(RepeatableRead);
    assert_eq!(t.rows_seen(&mut old, "c").expect("scan").len(), 0);
    t.fill("p", &["3 c"]);
    t.fill("c", &["10 1"]);
    t.does(|trx| t.delete(trx, "p", "2 b")).expect("delete");
    assert_eq!(why(t.insert(&mut old, "c", "11 3")), "done");
    assert_eq!(why(t.insert(&mut old, "c", "12 2")), "no parent: f of c");
    assert_eq!(why(t.delete(&mut old, "p", "1 a")), "children: f of c");
    t.commit(old);
    t.check();
}

/// A quarantined index cannot say whether there is a child, or a parent.
#[test]
fn a_quarantined_index_answers_nothing() {
    let quarantine = |t: &Family, table: &str| {
        let opened: Arc<Table> = t.table(table);
        let index = opened.layout().secondary[0].index.id;
        let tables = t.store().tables();
        tables
            .quarantine_index(&opened, index, &Error::corrupt("planted"))
            .expect("quarantine");
    };
    let t = two(Restrict, Restrict);
    t.fill("p", &["1 a"]);
    quarantine(&t, "c");
    assert!(t.does(|trx| t.delete(trx, "p", "1 a")).is_err_and(|e| e.is_corrupt()));
    let parent = Shape::new("p", "id a", "id").unique("a");
    let child = Shape::new("c", "id ref", "id").index("ref");
    let child = child.foreign("f", "ref", "p a", Restrict, Restrict);
    let t = Family::create(SimDisk::new(1), &[parent, child]);
    t.fill("p", &["1 5"]);
    quarantine(&t, "p");
    assert!(t.does(|trx| t.insert(trx, "c", "1 5")).is_err_and(|e| e.is_corrupt()));
}

/// `INSERT ... SELECT` into an empty child goes row by row.
#[test]
fn a_bulk_insert_is_checked() {
    // Each in a family of its own: changes that a rollback leaves buffered keep a table from being
    // loaded.
    for (row, checks, result) in [("10 9", true, "no parent: f of c"), ("10 9", false, "done")] {
        let t = two(Restrict, Restrict);
        t.fill("p", &["1 a"]);
        let mut trx = t.begin();
        trx.foreign_key_checks = checks;
        let mut bulk = t.begin_bulk_insert("c");
        let done = t
            .add_to(&mut bulk, &mut trx, "c", row)
            .and_then(|()| bulk.finish(&mut trx));
        assert_eq!(why(done), result);
        bulk.end(&mut trx);
        t.rollback(trx);
    }
    let t = two(Restrict, Restrict);
    t.fill("p", &["1 a"]);
    let mut trx = t.begin_at(ReadCommitted);
    let mut bulk = t.begin_bulk_insert("c");
    t.add_to(&mut bulk, &mut trx, "c", "10 1").expect("add");
    bulk.finish(&mut trx).expect("finish");
    bulk.end(&mut trx);
    // The parent is locked.
    let mut other = t.begin();
    assert_eq!(t.delete(&mut other, "p", "1 a"), Err(Error::LockWaitTimeout));
    t.rollback(other);
    t.commit(trx);
    t.check();
}

/// Several foreign keys over one index, and over columns that overlap.
#[test]
fn each_foreign_key_is_checked() {
    let p = Shape::new("p", "id", "id");
    let q = Shape::new("q", "a b", "a b");
    let child = Shape::new("c", "id x y", "id").index("x y");
    let child = child.foreign("f", "x", "p id", Restrict, Restrict);
    let child = child.foreign("g", "x y", "q a b", Restrict, Restrict);
    let spec: &ForeignKeySpec = &child.foreign[1];
    assert_eq!(spec.parent_columns, ["a", "b"]);
    let t = Family::create(SimDisk::new(1), &[p, q, child]);
    t.fill("p", &["1", "2"]);
    t.fill("q", &["1 1", "2 1", "3 1"]);
    let mut trx = t.begin();
    assert_eq!(why(t.insert(&mut trx, "c", "1 1 2")), "no parent: g of c");
    assert_eq!(why(t.insert(&mut trx, "c", "1 3 1")), "no parent: f of c");
    t.insert(&mut trx, "c", "1 1 1").expect("both");
    assert_eq!(why(t.delete(&mut trx, "p", "1")), "children: f of c");
    assert_eq!(why(t.delete(&mut trx, "q", "1 1")), "children: g of c");
    assert_eq!(why(t.update(&mut trx, "c", "1 1 1", "1 2 1")), "done");
    assert_eq!(why(t.delete(&mut trx, "q", "1 1")), "done");
    t.commit(trx);
    t.check();
}
