//! K6: the child of a foreign key has lost the index that served it.
use super::family::*;
use crate::base::Error;
use crate::engine::tests::fixture::config;
use crate::engine::{Close, Engine};
use crate::io::SimDisk;
use crate::table::{CreateMode, ForeignAction};

fn shapes(action: ForeignAction) -> [Shape; 2] {
    let parent = Shape::new("p", "id ~word", "id");
    let child = Shape::new("c", "id ref? n", "id").index("n").index("ref");
    [parent, child.foreign("f", "ref", "p id", action, action)]
}
/// The same child, without its index on ref.
fn without_index(action: ForeignAction) -> [Shape; 2] {
    let [parent, _] = shapes(action);
    let child = Shape::new("c", "id ref? n", "id").index("n");
    [parent, child.foreign("f", "ref", "p id", action, action)]
}

/// p has 1, 2 and 3; c refers to 1 and 2, and has lost its index.
fn without(action: ForeignAction) -> Family {
    let t = Family::create(SimDisk::new(1), &shapes(action));
    t.fill("p", &["1 a", "2 b", "3 c"]);
    t.fill("c", &["10 1 0", "11 2 0", "12 - 0"]);
    assert!(matches!(
        t.drop_last_index("c", false),
        Err(Error::ForeignNeedsIndex(_))
    ));
    t.drop_last_index("c", true).expect("dropped");
    Family::of(t.engine.clone(), &without_index(action))
}

fn add_index(t: &Family, action: ForeignAction) -> Family {
    let with = Family::of(t.engine.clone(), &shapes(action));
    with.add_last_index("c", &t.rows("c")).expect("added");
    with
}

#[test]
fn children_need_their_parents_and_parents_stay() {
    for action in [Restrict, NoAction, Cascade, SetNull] {
        let t = without(action);
        let mut trx = t.begin();
        let no_parent = "no parent: f of c";
        assert_eq!(why(t.insert(&mut trx, "c", "13 9 0")), no_parent);
        assert_eq!(why(t.insert(&mut trx, "c", "10 9 0")), no_parent, "before a duplicate");
        assert_eq!(why(t.update(&mut trx, "c", "10 1 0", "10 9 0")), no_parent);
        assert_eq!(why(t.update(&mut trx, "c", "10 1 0", "14 9 0")), no_parent);
        assert!(matches!(
            t.insert(&mut trx, "c", "10 1 0"),
            Err(Error::Duplicate { .. })
        ));
        t.insert(&mut trx, "c", "13 1 0").expect("a parent");
        t.insert(&mut trx, "c", "14 - 0").expect("no reference");
        t.update(&mut trx, "c", "10 1 0", "10 2 5").expect("a parent");
        t.update(&mut trx, "c", "11 2 0", "15 1 0").expect("a parent");
        let children = "children: f of c";
        assert_eq!(why(t.delete(&mut trx, "p", "1 a")), children);
        assert_eq!(why(t.delete(&mut trx, "p", "3 c")), children, "as in InnoDB");
        assert_eq!(why(t.update(&mut trx, "p", "1 a", "4 a")), children);
        t.update(&mut trx, "p", "1 a", "1 z").expect("the key stays");
        t.insert(&mut trx, "p", "4 d").expect("a parent");
        t.delete(&mut trx, "c", "12 - 0").expect("no check");
        t.commit(trx);
        assert_eq!(t.rows("c"), ["10 2 5", "13 1 0", "14 - 0", "15 1 0"]);
        assert_eq!(t.orphan(), None);
    }
}

/// The lock that the parent row gets keeps it until the child is there.
#[test]
fn the_parent_is_locked() {
    let t = without(Restrict);
    let mut maker = t.begin();
    t.insert(&mut maker, "c", "13 3 0").expect("a parent");
    let mut trx = t.begin();
    trx.foreign_key_checks = false;
    assert_eq!(t.delete(&mut trx, "p", "3 c"), Err(Error::LockWaitTimeout), "K1");
    t.delete(&mut trx, "p", "2 b").expect("no check");
    assert_eq!(t.insert(&mut maker, "c", "14 2 0"), Err(Error::LockWaitTimeout));
    t.rollback(trx);
    t.commit(maker);
}

/// A parent that is made anew may have columns of another type: no row of the child fits.
#[test]
fn a_parent_of_another_type_has_no_children() {
    let t = without(Restrict);
    let tables = t.store().tables();
    tables.drop_table_as("p", &|_| true).expect("drop");
    assert_eq!(why(t.does(|trx| t.insert(trx, "c", "13 1 0"))), "no parent: f of c");
    let parent = Shape::new("p", "~id", "id");
    tables.create_table("p", &parent.spec()).expect("create");
    let [_, child] = without_index(Restrict);
    let t = Family::of(t.engine.clone(), &[parent, child]);
    t.fill("p", &["1"]);
    assert_eq!(why(t.does(|trx| t.insert(trx, "c", "13 1 0"))), "no parent: f of c");
    assert_eq!(why(t.does(|trx| t.delete(trx, "p", "1"))), "children: f of c");
}

/// Without checks rows are written as ever. The index finds them when it is there again.
#[test]
fn the_foreign_key_works_again_with_the_index() {
    let t = without(Cascade);
    let mut trx = t.begin();
    trx.foreign_key_checks = false;
    t.insert(&mut trx, "c", "13 9 0").expect("no check");
    t.delete(&mut trx, "p", "2 b").expect("no check");
    t.commit(trx);
    assert_eq!(t.orphans_of("c", &mut |_| ()), ["db/f NoChildIndex 0: "]);
    let t = add_index(&t, Cascade);
    assert_eq!(t.orphans_of("c", &mut |_| ()), ["db/f NoParentRow 2: 11 2 0, 13 9 0"]);
    assert_eq!(why(t.does(|trx| t.insert(trx, "c", "14 8 0"))), "no parent: f of c");
    t.fill("p", &["2 b", "9 e"]);
    t.fill("c", &["14 9 0"]);
    t.does(|trx| t.delete(trx, "p", "9 e")).expect("a cascade");
    assert_eq!(t.rows("c"), ["10 1 0", "11 2 0", "12 - 0"]);
    t.check();
}

#[test]
fn a_start_binds_it_without_its_index() {
    let disk = SimDisk::new(1);
    let t = Family::create(disk.clone(), &shapes(Restrict));
    t.fill("p", &["1 a"]);
    t.fill("c", &["10 1 0"]);
    t.drop_last_index("c", true).expect("dropped");
    t.engine.close(Close::Fast).expect("close");
    drop(t);
    let engine = Engine::open(disk, config()).expect("open");
    let t = Family::of(engine, &without_index(Restrict));
    assert_eq!(why(t.does(|trx| t.insert(trx, "c", "11 9 0"))), "no parent: f of c");
    t.fill("c", &["11 1 0"]);
    assert_eq!(why(t.does(|trx| t.delete(trx, "p", "1 a"))), "children: f of c");
}

/// The rows that cascades of another foreign key make need their parents, too.
#[test]
fn other_foreign_keys_of_the_child_still_act() {
    let parent = |name: &str| Shape::new(name, "id", "id");
    let child = |columns: &str| {
        let shape = Shape::new("c", "id a? b?", "id").index(columns);
        let shape = shape.foreign("fa", "a", "p id", SetNull, Cascade);
        shape.foreign("fb", "a b", "q id id2", Cascade, Cascade)
    };
    let q = || Shape::new("q", "id id2", "id id2");
    let mut with = child("a").index("a b");
    let t = Family::create(SimDisk::new(1), &[parent("p"), q(), with.clone()]);
    t.fill("p", &["1", "2", "3"]);
    t.fill("q", &["1 1"]);
    t.fill("c", &["10 1 1", "11 2 -"]);
    t.drop_last_index("c", true).expect("the index on (a, b) goes");
    with = child("a");
    let t = Family::of(t.engine.clone(), &[parent("p"), q(), with]);
    let mut trx = t.begin();
    assert_eq!(why(t.update(&mut trx, "p", "1", "5")), "no parent: fb of c");
    t.update(&mut trx, "p", "2", "4").expect("no reference by fb");
    t.delete(&mut trx, "p", "1").expect("no reference by fb");
    assert_eq!(t.rows_seen(&mut trx, "c").expect("scan"), ["10 - 1", "11 4 -"]);
    assert_eq!(why(t.delete(&mut trx, "q", "1 1")), "children: fb of c");
    t.rollback(trx);
}

/// A table that replaces the child may lack the index, too, and so keep the foreign key.
#[test]
fn a_rebuild_may_go_without_the_index() {
    let t = without(Restrict);
    let tables = t.store().tables();
    let checked = CreateMode {
        replaces: Some("c"),
        ..CreateMode::default()
    };
    tables
        .create_table_as("new", &t.shapes["c"].spec(), checked)
        .expect("as before");
    let u = Family::create(SimDisk::new(2), &shapes(Restrict));
    let tables = u.store().tables();
    let [_, lacking] = without_index(Restrict);
    let refused = tables.create_table_as("new", &lacking.spec(), checked);
    assert!(matches!(refused, Err(Error::ForeignDefinition(_))), "{refused:?}");
    let unchecked = CreateMode {
        unchecked: true,
        ..checked
    };
    tables
        .create_table_as("new", &lacking.spec(), unchecked)
        .expect("without checks");
}

/// A parent that has lost the index of its children is rebuilt in place, with or without it.
#[test]
fn a_parent_may_lack_the_index_again() {
    let lacking = Shape::new("p", "id n x", "id").unique("x");
    let parent = lacking.clone().index("n");
    let child = || {
        let child = Shape::new("c", "id ref?", "id").index("ref");
        child.foreign("f", "ref", "p n", Restrict, Cascade)
    };
    let t = Family::create(SimDisk::new(1), &[parent.clone(), child()]);
    t.fill("p", &["1 5 1", "2 6 2"]);
    t.fill("c", &["1 5"]);
    t.drop_last_index("p", true).expect("dropped");
    let has_children = || t.table("p").foreign().as_ref().is_some_and(|keys| keys.has_children());
    assert!(has_children(), "a DROP TABLE or another engine must know");
    let rows = t.rows("p");
    t.rebuild(&lacking, &[], &rows, false).expect("as before");
    assert!(has_children());
    assert_eq!(why(t.does(|trx| t.insert(trx, "c", "2 6"))), "no parent: f of c");
    let copy = CreateMode {
        replaces: Some("p"),
        ..CreateMode::default()
    };
    let refused = t.store().tables().create_table_as("copy", &lacking.spec(), copy);
    assert!(
        matches!(refused, Err(Error::ForeignUnfit(_))),
        "as in InnoDB: {refused:?}"
    );
    let renamed = Shape::new("p", "id m x", "id").unique("x");
    t.rebuild(&renamed, &[("n", "m")], &rows, false)
        .expect("with a new name");
    assert_eq!(t.foreign_of("c")[0].parent_columns, ["m"]);
    t.rebuild(&parent, &[("m", "n")], &rows, false).expect("with the index");
    t.does(|trx| t.insert(trx, "c", "2 6")).expect("it fits again");
    assert_eq!(why(t.does(|trx| t.delete(trx, "p", "1 5 1"))), "children: f of c");
    let refused = t.rebuild(&lacking, &[], &rows, false);
    assert!(matches!(refused, Err(Error::ForeignUnfit(_))), "it had it: {refused:?}");
    t.drop_rebuilt().expect("it was not made");
    t.check();
}

#[test]
fn parents_with_a_null_have_no_children() {
    let parent = || Shape::new("p", "id a? b", "id").unique("a b");
    let child = || Shape::new("c", "id ref? n?", "id");
    let foreign = |child: Shape| child.foreign("f", "ref n", "p a b", Restrict, Restrict);
    let created = Family::create(SimDisk::new(1), &[parent(), foreign(child().index("ref n"))]);
    created.fill("p", &["1 - 0", "2 5 0", "3 - 0"]);
    created.drop_last_index("c", true).expect("dropped");
    let t = Family::of(created.engine.clone(), &[parent(), foreign(child())]);
    t.does(|trx| t.delete(trx, "p", "1 - 0"))
        .expect("no row refers to NULL");
    t.does(|trx| t.update(trx, "p", "3 - 0", "3 7 0"))
        .expect("no row refers to NULL");
    assert_eq!(why(t.does(|trx| t.delete(trx, "p", "3 7 0"))), "children: f of c");
    assert_eq!(t.rows("p"), ["2 5 0", "3 7 0"]);
}
