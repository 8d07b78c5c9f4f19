//! Loads of new tables that refer to parents, or to themselves.
use super::family::*;
use crate::base::{Error, Result};
use crate::io::SimDisk;
use crate::table::{BulkInsert, CreateMode, TableLoad};

impl Family {
    /// A load of the empty table `name`.
    pub fn begin_load(&self, name: &str) -> TableLoad {
        let begun = self.store().loads().begin_load(&self.table(name));
        begun.expect("the table is read").expect("it is empty")
    }
    /// The same for INSERT … SELECT.
    pub fn begin_bulk_insert(&self, name: &str) -> BulkInsert {
        let begun = self.store().loads().begin_bulk_insert(&self.table(name));
        begun.expect("the table is read").expect("it is empty")
    }
}

fn family() -> Family {
    let parent = Shape::new("p", "id a", "id").unique("-a");
    let child = Shape::new("c", "id ref?", "id").index("ref");
    let child = child.foreign("f", "ref", "p a", Restrict, Restrict);
    let t = Family::create(SimDisk::new(1), &[parent, child]);
    t.fill("p", &["1 1", "2 2"]);
    t
}

/// Loads these rows into the empty table `name`.
fn load(t: &Family, name: &str, checks: bool, rows: &[&str]) -> Result<()> {
    let mut trx = t.begin();
    trx.foreign_key_checks = checks;
    let mut load = t.begin_load(name);
    let added = rows.iter().try_for_each(|row| t.add_to_load(&mut load, name, row));
    let done = added.and_then(|()| load.finish(&mut trx));
    match done {
        Ok(()) => t.commit(trx),
        Err(_) => t.rollback(trx),
    }
    done
}

#[test]
fn each_row_needs_its_parent() {
    assert_eq!(why(load(&family(), "c", true, &["1 1", "2 -", "3 1", "4 2"])), "done");
    assert_eq!(why(load(&family(), "c", true, &["1 1", "3 3"])), "no parent: f of c");
    assert_eq!(why(load(&family(), "c", false, &["1 1", "3 3"])), "done");
    let t = family();
    load(&t, "c", true, &["1 1"]).expect("load");
    assert_eq!(why(t.does(|trx| t.delete(trx, "p", "1 1"))), "children: f of c");
    t.check();
}

/// The parents stay until the loader's transaction ends.
#[test]
fn parents_are_locked() {
    let t = family();
    let mut deleter = t.begin();
    t.delete(&mut deleter, "p", "1 1").expect("delete");
    assert_eq!(load(&t, "c", true, &["1 1"]), Err(Error::LockWaitTimeout));
    t.rollback(deleter);
}

/// A table that is to replace another one, as ALTER TABLE makes it: foreign keys that it had before
/// need no check.
#[test]
fn what_is_carried_over_is_not_checked() {
    let mut t = family();
    let mut trx = t.begin();
    trx.foreign_key_checks = false;
    t.insert(&mut trx, "c", "1 9").expect("an orphan");
    t.commit(trx);
    let mode = || CreateMode {
        replaces: Some("c"),
        ..CreateMode::default()
    };
    let add = |t: &mut Family, shape: Shape| {
        let made = t.store().tables().create_table_as(&shape.name, &shape.spec(), mode());
        made.expect("create");
        std::sync::Arc::make_mut(&mut t.shapes).insert(shape.name.clone(), shape);
    };
    let copy = Shape::new("c1", "id ref?", "id").index("ref");
    add(&mut t, copy.foreign("f", "ref", "p a", Restrict, Restrict));
    assert_eq!(why(load(&t, "c1", true, &["1 9"])), "done");
    let take_away = |t: &mut Family, name: &str| {
        t.store().tables().drop_table(name).expect("drop");
        std::sync::Arc::make_mut(&mut t.shapes).remove(name);
    };
    take_away(&mut t, "c1");
    // One that is new, and refers to the table itself: to the rows of the copy.
    let copy = Shape::new("c2", "id ref?", "id").index("ref");
    let copy = copy.foreign("f", "ref", "p a", Restrict, Restrict);
    add(&mut t, copy.clone().foreign("g", "ref", "c id", Restrict, Restrict));
    assert_eq!(why(load(&t, "c2", true, &["1 9", "9 1"])), "done");
    take_away(&mut t, "c2");
    add(&mut t, copy.foreign("g", "ref", "c id", Restrict, Restrict));
    assert_eq!(why(load(&t, "c2", true, &["1 9", "8 1"])), "no parent: g of c2");
}
