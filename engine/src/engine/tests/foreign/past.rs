//! Foreign keys of tables with rows of the past, which are neither parents nor children.
use super::family::*;
use crate::base::{Error, Result};
use crate::io::SimDisk;
use crate::table::ForeignAction;
use crate::txn::{Isolation, Trx};

/// p (id, end) and c (id, ref, end), both with a past. `pk`: the clustered key, with `end` or
/// without it.
fn family(pk: &str, on_delete: ForeignAction, on_update: ForeignAction) -> Family {
    let parent = Shape::new("p", "id a end", pk).index("a").unique("id end").with_past();
    let child = Shape::new("c", "id ref? end", pk).index("ref").with_past();
    let child = child.foreign("f", "ref", "p a", on_delete, on_update);
    Family::create(SimDisk::new(1), &[parent, child])
}
const KEYS: [&str; 2] = ["id end", "id"];

fn update(t: &Family, table: &str, from: &str, to: &str) -> Result<()> {
    t.does(|trx| t.update(trx, table, from, to))
}

#[test]
fn a_row_of_the_past_is_no_parent() {
    for pk in KEYS {
        let t = family(pk, Restrict, Restrict);
        t.fill("p", &["1 1 5", "2 2 999"]);
        assert_eq!(
            why(t.does(|trx| t.insert(trx, "c", "1 1 999"))),
            "no parent: f of c",
            "{pk}"
        );
        t.fill("c", &["2 2 999"]);
        assert_eq!(why(update(&t, "c", "2 2 999", "2 1 999")), "no parent: f of c", "{pk}");
        // One that has been added since.
        t.fill("p", &["3 1 999"]);
        t.fill("c", &["1 1 999"]);
        t.check();
    }
}

/// Many of them are passed over, and none is locked.
#[test]
fn rows_of_the_past_are_passed_over() {
    let t = family("id end", Restrict, Cascade);
    for end in 10..310 {
        t.fill("p", &[&format!("1 1 {end}")]);
        t.fill("c", &[&format!("1 1 {end}")]);
    }
    t.fill("p", &["1 1 999"]);
    t.fill("c", &["1 1 999"]);
    t.check();
    assert_eq!(why(t.does(|trx| t.delete(trx, "p", "1 1 999"))), "children: f of c");
    update(&t, "p", "1 1 999", "1 2 999").expect("update");
    assert_eq!(t.rows("c").len(), 302);
    assert_eq!(t.rows("c").iter().filter(|row| row.contains(" 2 ")).count(), 1);
    let mut reader = t.begin_at(Isolation::Serializable);
    t.delete(&mut reader, "c", "1 1 14").expect("delete");
    NOW.set(8);
    update(&t, "p", "1 2 999", "1 3 999").expect("nothing of the past is waited for");
    t.rollback(reader);
    t.check();
}

#[test]
fn a_row_of_the_past_needs_no_parent() {
    for pk in KEYS {
        let t = family(pk, Restrict, Restrict);
        t.fill("c", &["1 1 5"]);
        t.fill("p", &["2 2 999"]);
        t.fill("c", &["2 2 999"]);
        update(&t, "c", "2 2 999", "2 2 6").expect("the child ends");
        update(&t, "p", "2 2 999", "2 2 7").expect("no child is left");
        assert_eq!(t.rows("c"), ["1 1 5", "2 2 6"]);
        assert_eq!(why(update(&t, "c", "2 2 6", "2 2 999")), "no parent: f of c", "{pk}");
        t.does(|trx| t.delete(trx, "c", "1 1 5")).expect("delete");
        t.check();
    }
}

#[test]
fn a_parent_that_ends_counts_as_deleted() {
    for pk in KEYS {
        let t = family(pk, Restrict, Cascade);
        t.fill("p", &["1 1 999"]);
        t.fill("c", &["1 1 999"]);
        assert_eq!(why(update(&t, "p", "1 1 999", "1 1 5")), "children: f of c", "{pk}");
        let t = family(pk, Cascade, Restrict);
        t.fill("p", &["1 1 3", "2 1 999", "3 3 999"]);
        t.fill("c", &["1 1 3", "2 1 999", "3 3 999"]);
        update(&t, "p", "2 1 999", "2 1 5").expect("update");
        assert_eq!(t.rows("c"), ["1 1 3", "2 1 7", "3 3 999"], "{pk}");
        // The rows of the past go without consequences.
        t.does(|trx| t.delete(trx, "p", "2 1 5")).expect("delete");
        t.does(|trx| t.delete(trx, "p", "1 1 3")).expect("delete");
        assert_eq!(t.rows("c").len(), 3, "{pk}");
        t.check();
    }
}

#[test]
fn a_child_that_is_changed_leaves_a_row_of_the_past() {
    let t = family("id end", SetNull, Cascade);
    t.fill("p", &["1 1 999"]);
    t.fill("c", &["1 1 999"]);
    update(&t, "p", "1 1 999", "1 2 999").expect("update");
    assert_eq!(t.rows("c"), ["1 1 7", "1 2 999"]);
    t.check();
    t.does(|trx| t.delete(trx, "c", "1 1 7")).expect("delete");
    t.does(|trx| t.delete(trx, "p", "1 2 999")).expect("delete");
    assert_eq!(t.rows("c"), ["1 2 7", "1 - 999"]);
    t.check();
}

/// A row of the past with the key is there already: the child goes without a trace.
#[test]
fn a_child_that_ends_twice_at_a_time_is_deleted() {
    let t = family("id end", Cascade, Restrict);
    t.fill("p", &["1 1 999"]);
    t.fill("c", &["1 1 7", "1 1 999"]);
    t.does(|trx| t.delete(trx, "p", "1 1 999")).expect("delete");
    assert_eq!(t.rows("c"), ["1 1 7"]);
    t.check();
}

/// What an active transaction has made of the past may become the present again.
#[test]
fn an_end_that_may_be_rolled_back_is_waited_for() {
    let blocked = |done: Result<()>| assert_eq!(done, Err(Error::LockWaitTimeout));
    for pk in KEYS {
        let t = family(pk, Restrict, Restrict);
        t.fill("p", &["1 1 999"]);
        t.fill("c", &["1 1 999"]);
        let mut ender = t.begin();
        t.update(&mut ender, "c", "1 1 999", "1 1 5").expect("update");
        blocked(t.does(|trx| t.delete(trx, "p", "1 1 999")));
        t.rollback(ender);
        assert_eq!(
            why(t.does(|trx| t.delete(trx, "p", "1 1 999"))),
            "children: f of c",
            "{pk}"
        );
        let mut ender = t.begin();
        t.update(&mut ender, "c", "1 1 999", "1 1 5").expect("update");
        t.commit(ender);
        let mut ender = t.begin();
        t.update(&mut ender, "p", "1 1 999", "1 1 6").expect("update");
        blocked(t.does(|trx| t.insert(trx, "c", "2 1 999")));
        t.rollback(ender);
        t.fill("c", &["2 1 999"]);
        t.check();
    }
}

#[test]
fn buffered_entries_and_crashes_keep_what_is_past() {
    let disk = SimDisk::new(3);
    let shapes = {
        let parent = Shape::new("p", "id a end", "id end").index("a").with_past();
        let child = Shape::new("c", "id ref? end", "id end").index("ref").with_past();
        [parent, child.foreign("f", "ref", "p a", Cascade, SetNull)]
    };
    let t = Family::create(disk.clone(), &shapes);
    t.buffer(true);
    t.fill("p", &["1 1 999", "2 2 999"]);
    t.fill("c", &["1 1 999", "2 2 999", "3 1 5"]);
    update(&t, "p", "1 1 999", "1 1 4").expect("update");
    update(&t, "p", "2 2 999", "2 3 999").expect("update");
    let rows = ["1 1 7", "2 2 7", "2 - 999", "3 1 5"];
    assert_eq!(t.rows("c"), rows);
    drop(t);
    let t = Family::reopen(disk.crash(1), &shapes).expect("open");
    assert_eq!(t.rows("c"), rows);
    assert_eq!(why(t.does(|trx| t.insert(trx, "c", "9 1 999"))), "no parent: f of c");
    t.fill("c", &["9 3 999"]);
    t.check();
}

#[test]
fn loads_check_rows_of_the_present() {
    let load = |rows: &[&str]| {
        let t = family("id end", Restrict, Restrict);
        t.fill("p", &["1 1 999", "2 2 5"]);
        let mut trx = t.begin();
        let mut load = t.begin_load("c");
        let added = rows.iter().try_for_each(|row| t.add_to_load(&mut load, "c", row));
        let done = added.and_then(|()| load.finish(&mut trx));
        t.rollback(trx);
        why(done)
    };
    assert_eq!(load(&["1 1 999", "2 2 5", "3 9 4"]), "done");
    assert_eq!(load(&["1 2 5", "2 2 6", "3 2 999"]), "no parent: f of c");
    let many = Vec::from_iter((0..700).map(|end| format!("1 2 {end}")));
    let mut many = Vec::from_iter(many.iter().map(String::as_str));
    assert_eq!(load(&many), "done");
    many.push("2 2 999");
    assert_eq!(load(&many), "no parent: f of c");
}

#[test]
fn a_check_passes_rows_of_the_past_over() {
    let t = family("id end", Restrict, Restrict);
    let unchecked = |body: &dyn Fn(&mut Trx) -> Result<()>| {
        let all = |trx: &mut Trx| {
            trx.foreign_key_checks = false;
            body(trx)
        };
        t.does(all).expect("insert");
    };
    t.fill("p", &["1 1 3", "1 1 999", "2 2 5"]);
    t.fill("c", &["1 1 999", "2 9 4"]);
    assert_eq!(t.orphans_of("c", &mut |_| ()), [] as [String; 0]);
    unchecked(&|trx| t.insert(trx, "c", "3 2 999"));
    assert_eq!(t.orphans_of("c", &mut |_| ()), ["db/f NoParentRow 1: 3 2 999"]);
}

/// A chain: the grandchildren of a parent that ends.
#[test]
fn chains_go_on_below_a_child_that_ends() {
    let grandchild = Shape::new("g", "id ref?", "id").index("ref");
    let shapes = [
        Shape::new("p", "id", "id"),
        Shape::new("c", "id ref? end", "id end")
            .index("ref")
            .with_past()
            .foreign("f", "ref", "p id", Cascade, Cascade),
        grandchild.foreign("g", "ref", "c id", Cascade, Restrict),
    ];
    let t = Family::create(SimDisk::new(1), &shapes);
    t.fill("p", &["1", "2"]);
    t.fill("c", &["1 1 3", "1 1 999", "2 2 999"]);
    t.fill("g", &["1 1", "2 2"]);
    t.does(|trx| t.update(trx, "p", "2", "3")).expect("update");
    assert_eq!(t.rows("c"), ["1 1 3", "1 1 999", "2 2 7", "2 3 999"]);
    t.does(|trx| t.delete(trx, "p", "1")).expect("delete");
    assert_eq!(t.rows("c"), ["1 1 3", "1 1 7", "2 2 7", "2 3 999"]);
    assert_eq!(t.rows("g"), ["2 2"]);
    t.check();
}

/// A row that is its own parent. As in InnoDB, it ends if it keeps its clustered key: all of its
/// entries are of the past at once then. Else its entry in the child's index goes too late.
#[test]
fn a_row_that_is_its_own_parent_ends_in_place() {
    for action in [Restrict, SetNull, Cascade] {
        for pk in ["n end", "n"] {
            let own = Shape::new("s", "n id up? end", pk).index("id").index("up").with_past();
            let t = Family::create(SimDisk::new(1), &[own.foreign("f", "up", "s id", action, action)]);
            t.fill("s", &["1 5 5 999"]);
            let ended = why(update(&t, "s", "1 5 5 999", "1 5 5 7"));
            match (pk, action) {
                ("n end", Restrict) => assert_eq!(ended, "children: f of s"),
                _ => assert_eq!(ended, "done", "{pk}"),
            }
            if ended == "done" {
                assert_eq!(t.rows("s"), ["1 5 5 7"], "{pk}");
            }
            t.fill("s", &["2 6 6 999", "3 6 6 999"]);
            let shared = why(update(&t, "s", "2 6 6 999", "2 6 6 8"));
            match action {
                Restrict => assert_eq!(shared, "children: f of s", "{pk}: of another row"),
                // The row of the past that the child leaves has no clustered key of its own.
                SetNull if pk == "n" => assert_eq!(shared, "duplicate: f of s"),
                _ => assert_eq!(shared, "done", "{pk}"),
            }
            t.check();
        }
    }
}
