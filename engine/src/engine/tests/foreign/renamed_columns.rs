//! A table is rebuilt, and columns of foreign keys get new names with it. The foreign keys of the
//! table and of its children follow, all of them or none.
use super::family::*;
use super::rebuild::Renamed;
use crate::base::Error;
use crate::io::SimDisk;
use crate::table::CreateMode;
use std::sync::Arc;

/// p (id, a), c (id, ref -> p.a, p2 -> p.id), s (id, up -> s.id). `swapped`: columns of p and of s
/// have each other's names.
fn shapes(swapped: bool) -> [Shape; 3] {
    let (id, a, up) = if swapped { ("a", "id", "id") } else { ("id", "a", "up") };
    let s_id = if swapped { "up" } else { "id" };
    let parent = Shape::new("p", &format!("{id} {a}"), id).unique(a);
    let child = Shape::new("c", "id ref? p2?", "id").index("ref").index("p2");
    let child = child.foreign("f", "ref", &format!("p {a}"), Cascade, Cascade);
    let child = child.foreign("g", "p2", &format!("p {id}"), Restrict, Cascade);
    let own = Shape::new("s", &format!("{s_id} {up}?"), s_id).index(up);
    [
        parent,
        child,
        own.foreign("h", up, &format!("s {s_id}"), Cascade, Restrict),
    ]
}

const P: Renamed<'static> = &[("id", "a"), ("A", "id")];
const S: Renamed<'static> = &[("id", "up"), ("up", "id")];

fn family(disk: &Arc<SimDisk>) -> Family {
    let t = Family::create(disk.clone(), &shapes(false));
    t.fill("p", &["1 10", "2 20"]);
    t.fill("c", &["1 10 2", "2 20 -", "3 - 1"]);
    t.fill("s", &["1 -", "2 1", "3 2"]);
    t
}

/// The family as it is after the rebuilds.
fn rebuilt(t: &Family) -> Family {
    let [p, _, s] = shapes(true);
    t.rebuild(&p, P, &t.rows("p"), false).expect("rebuilt");
    t.rebuild(&s, S, &t.rows("s"), false).expect("rebuilt");
    Family::of(t.engine.clone(), &shapes(true))
}

fn works(t: &Family) {
    assert_eq!(t.misnamed(), None);
    assert_eq!(why(t.does(|trx| t.insert(trx, "c", "9 11 -"))), "no parent: f of c");
    assert_eq!(why(t.does(|trx| t.insert(trx, "c", "9 - 11"))), "no parent: g of c");
    t.does(|trx| t.update(trx, "p", "1 10", "1 11")).expect("followed");
    assert_eq!(t.rows("c"), ["1 11 2", "2 20 -", "3 - 1"]);
    assert_eq!(why(t.does(|trx| t.delete(trx, "p", "2 20"))), "children: g of c");
    t.does(|trx| t.delete(trx, "s", "1 -")).expect("followed");
    assert_eq!(t.rows("s"), [] as [String; 0]);
    t.check();
}

#[test]
fn foreign_keys_follow_a_rebuild_to_new_names() {
    let disk = SimDisk::new(1);
    let t = rebuilt(&family(&disk));
    works(&t);
    let disk = disk.crash(1);
    drop(t);
    let t = Family::reopen(disk, &shapes(true)).expect("reopen");
    assert_eq!(t.misnamed(), None, "after a crash");
    assert_eq!(why(t.does(|trx| t.insert(trx, "c", "9 10 -"))), "no parent: f of c");
    t.check();
}

/// A child's own columns.
#[test]
fn a_child_gets_new_names() {
    let t = family(&SimDisk::new(2));
    let mut after = shapes(false);
    let child = Shape::new("c", "id up? other?", "id").index("up").index("other");
    let child = child.foreign("f", "up", "p a", Cascade, Cascade);
    after[1] = child.foreign("g", "other", "p id", Restrict, Cascade);
    let renamed: Renamed<'_> = &[("ref", "up"), ("p2", "other")];
    t.rebuild(&after[1], renamed, &t.rows("c"), false).expect("rebuilt");
    works(&Family::of(t.engine.clone(), &after));
}

/// Also those of a table that another ALTER TABLE is making. The same columns in other letters are
/// carried over.
#[test]
fn a_copy_of_a_child_follows() {
    let t = family(&SimDisk::new(3));
    let tables = t.store().tables();
    let mut copy = t.shapes["c"].clone();
    for spec in &mut copy.foreign {
        spec.parent_columns = spec.parent_columns.iter().map(|name| name.to_uppercase()).collect();
    }
    let mode = CreateMode {
        replaces: Some("c"),
        ..CreateMode::default()
    };
    tables.create_table_as("copy", &copy.spec(), mode).expect("created");
    let [p, ..] = shapes(true);
    t.rebuild(&p, P, &t.rows("p"), false).expect("rebuilt");
    let copy = t.table("copy");
    let columns = Vec::from_iter(copy.layout().foreign.iter().map(|spec| spec.parent_columns[0].clone()));
    assert_eq!(columns, ["id", "a"]);
    let keys = copy.foreign();
    assert!(keys
        .as_ref()
        .expect("some")
        .references
        .iter()
        .all(|key| key.is_carried_over));
}

/// K8: an ALTER TABLE of a child takes long. Meanwhile its parent gets another name, or its columns
/// do. What the ALTER keeps of the child's foreign keys has the new names.
#[test]
fn a_parent_gets_new_names_while_a_child_is_altered() {
    let disk = SimDisk::new(6);
    let t = family(&disk);
    let read = t.foreign_of("c");
    let [p, ..] = shapes(true);
    t.rebuild(&p, P, &t.rows("p"), false).expect("rebuilt");
    let mut after = shapes(false);
    after[0] = p;
    let child = Shape::new("c", "id up? p2?", "id")
        .index("up")
        .index("p2")
        .index("up p2");
    let child = child.foreign("f", "up", "p id", Cascade, Cascade);
    after[1] = child.foreign("g", "p2", "p a", Restrict, Cascade);
    let t = Family::of(t.engine.clone(), &after);
    let renamed: Renamed<'_> = &[("ref", "up")];
    t.add_index_renaming("c", &t.rows("c"), read.clone(), renamed)
        .expect("added");
    works(&t);
    // A rebuild, and a copy.
    t.store().tables().rename_table("p", "q").expect("renamed");
    let mut stale = after[1].clone();
    stale.foreign = read;
    for in_place in [true, false] {
        let mode = CreateMode {
            replaces: Some("c"),
            renamed_columns: renamed,
            in_place,
            kept_foreign: 2,
            unchecked: false,
        };
        let tables = t.store().tables();
        tables.create_table_as("new", &stale.spec(), mode).expect("created");
        assert_eq!(t.foreign_of("new"), t.foreign_of("c"));
        tables.drop_table("new").expect("dropped");
    }
    assert_eq!(t.foreign_of("c")[0].parent, "q");
    // The parent gets another name while the copy is filled.
    let mode = CreateMode {
        replaces: Some("c"),
        renamed_columns: renamed,
        in_place: false,
        kept_foreign: 2,
        unchecked: false,
    };
    let tables = t.store().tables();
    tables.create_table_as("new", &stale.spec(), mode).expect("created");
    let mut load = t.begin_load("new");
    tables.rename_table("q", "r").expect("renamed");
    t.does(|trx| load.finish(trx)).expect("filled");
    for table in ["c", "new"] {
        assert_eq!(t.foreign_of(table)[0].parent, "r", "{table}");
    }
}

/// Without the new names, the children would lose their parent.
#[test]
fn a_column_that_is_not_renamed_must_stay() {
    let t = family(&SimDisk::new(4));
    let [p, ..] = shapes(false);
    let other = Shape::new("p", "id b", "id").unique("b");
    let refused = t.rebuild(&other, &[], &t.rows("p"), false);
    assert!(matches!(refused, Err(Error::ForeignUnfit(_))), "{refused:?}");
    t.drop_rebuilt().expect("it was not made");
    t.rebuild(&p, &[], &t.rows("p"), false).expect("rebuilt");
    works(&t);
}

#[test]
fn a_crash_leaves_all_of_the_new_names_or_none() {
    let mut outcomes = [0, 0];
    for stop in 1.. {
        let disk = SimDisk::new(stop);
        let t = family(&disk);
        let [p, ..] = shapes(true);
        t.begin_rebuild(&p, P, &t.rows("p"), false).expect("made");
        t.engine.checkpoint().expect("a short way to go");
        disk.crash_at(disk.changes() + stop);
        let (table, tables) = (t.table("p"), t.store().tables());
        let done = tables.replace_table(&table, super::rebuild::REBUILT, false);
        let disk = disk.crash(stop);
        drop(table);
        drop(t);
        let mut swapped = shapes(false);
        let t = Family::reopen(disk, &swapped).expect("reopen");
        let is_renamed = t.table("p").layout().pk_parts[0].column == "a";
        if is_renamed {
            let [p, c, _] = shapes(true);
            (swapped[0], swapped[1]) = (p, c);
        }
        t.drop_rebuilt().expect("gone");
        let t = Family::of(t.engine.clone(), &swapped);
        outcomes[is_renamed as usize] += 1;
        works(&t);
        if done.is_ok() {
            assert!(is_renamed, "durable on return");
            break;
        }
    }
    assert!(outcomes[0] > 1, "it was cut short: {outcomes:?}");
}
