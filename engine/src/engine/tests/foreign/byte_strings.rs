//! A BINARY column and a VARBINARY column refer to each other: bytes are compared, and nothing is
//! filled up.
use super::family::*;
use crate::io::SimDisk;

/// p (v VARBINARY), c (b BINARY(2) -> p.v); q (b BINARY(2)), d (v VARBINARY -> q.b).
fn family() -> Family {
    let p = Shape::new("p", "id +v?", "id").unique("-v");
    let c = Shape::new("c", "id =b?", "id").index("b");
    let q = Shape::new("q", "id =b", "b");
    let d = Shape::new("d", "id +v?", "id").index("-v");
    let c = c.foreign("f", "b", "p v", Cascade, Cascade);
    let d = d.foreign("g", "v", "q b", SetNull, Cascade);
    let t = Family::create(SimDisk::new(1), &[p, c, q, d]);
    t.fill("p", &["1 ab", "2 abc", "3 a", "4 -"]);
    t.fill("q", &["1 ab", "2 cd"]);
    t
}

#[test]
fn values_with_the_same_bytes_are_equal() {
    let t = family();
    t.fill("c", &["1 ab", "2 -", "3 ab"]);
    assert_eq!(why(t.does(|trx| t.insert(trx, "c", "4 bc"))), "no parent: f of c");
    t.fill("d", &["1 ab", "2 cd", "3 -"]);
    for longer in ["4 a", "4 abc", "4 abcd"] {
        assert_eq!(why(t.does(|trx| t.insert(trx, "d", longer))), "no parent: g of d");
    }
    t.check();
}

#[test]
fn cascades_find_children_of_the_other_form() {
    let t = family();
    t.fill("c", &["1 ab", "2 -", "3 ab"]);
    t.fill("d", &["1 ab", "2 cd", "3 -"]);
    for gone in ["2 abc", "3 a"] {
        t.does(|trx| t.delete(trx, "p", gone)).expect("no child can have it");
    }
    for unfit in ["1 a", "1 abcd"] {
        let refused = t.does(|trx| t.update(trx, "p", "1 ab", unfit));
        assert_eq!(why(refused), "children: f of c", "it is not filled up");
    }
    t.does(|trx| t.update(trx, "p", "1 ab", "1 xy")).expect("followed");
    assert_eq!(t.rows("c"), ["1 xy", "2 -", "3 xy"]);
    t.does(|trx| t.update(trx, "q", "1 ab", "1 zz")).expect("followed");
    t.does(|trx| t.delete(trx, "q", "2 cd")).expect("set to NULL");
    assert_eq!(t.rows("d"), ["1 zz", "2 -", "3 -"]);
    t.does(|trx| t.delete(trx, "p", "1 xy")).expect("followed");
    assert_eq!(t.rows("c"), ["2 -"]);
    t.check();
}

/// The row maker gives the child's values, then (K6).
#[test]
fn a_child_without_its_index_finds_its_parent() {
    let t = family();
    for child in ["c", "d"] {
        t.drop_last_index(child, true).expect("dropped");
    }
    let shapes = t.shapes.values().map(|shape| match &shape.name[..] {
        "c" | "d" => shape.clone().without_last_index(),
        _ => shape.clone(),
    });
    let shapes = Vec::from_iter(shapes);
    let t = Family::of(t.engine.clone(), &shapes);
    t.fill("c", &["1 ab", "2 -"]);
    t.fill("d", &["1 ab", "2 -"]);
    assert_eq!(why(t.does(|trx| t.insert(trx, "c", "3 bc"))), "no parent: f of c");
    for longer in ["3 a", "3 abc"] {
        assert_eq!(why(t.does(|trx| t.insert(trx, "d", longer))), "no parent: g of d");
    }
}

/// Those of a load are checked at its end. CHECK TABLE finds those without a parent.
#[test]
fn rows_without_a_parent_are_found() {
    let load = |name: &str, row: &str| {
        let t = family();
        let mut trx = t.begin();
        let mut load = t.begin_load(name);
        t.add_to_load(&mut load, name, row).expect("added");
        let done = load.finish(&mut trx);
        t.rollback(trx);
        done
    };
    assert_eq!(why(load("c", "1 bc")), "no parent: f of c");
    assert_eq!(why(load("d", "1 abc")), "no parent: g of d");
    assert_eq!(why(load("c", "1 ab")), "done");
    let t = family();
    let mut trx = t.begin();
    trx.foreign_key_checks = false;
    t.insert(&mut trx, "d", "1 abc").expect("unchecked");
    t.insert(&mut trx, "d", "2 ab").expect("unchecked");
    t.commit(trx);
    assert_eq!(t.orphans_of("d", &mut |_| ()), ["db/g NoParentRow 1: 1 abc"]);
}
