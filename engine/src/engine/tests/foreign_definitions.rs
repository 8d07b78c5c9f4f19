//! Definitions of foreign keys: what CREATE, DROP, RENAME, TRUNCATE and changes of indexes make of
//! them, and what a restart finds.
use crate::base::Error;
use crate::engine::Engine;
use crate::index::key_shape::{PartImage, PartShape};
use crate::io::SimDisk;
use crate::table::{CreateMode, ForeignAction, ForeignKeySpec, IndexChange, IndexSpec, KeyChange, KeyPart};
use crate::table::{RenameKind, RenameMode, TableSpec, Tables};
use std::sync::Arc;

use super::fixture::{change_of, config};

fn open(disk: &Arc<SimDisk>) -> Arc<Engine> {
    Engine::open(disk.clone(), config()).expect("open")
}
fn part(column: &str, domain: &str) -> KeyPart {
    KeyPart {
        column: column.into(),
        domain: domain.into(),
        is_whole: true,
        shape: PartShape {
            nullable: column.starts_with("n_"),
            inverted: false,
            image: PartImage::Fixed(4),
        },
    }
}
fn ints(columns: &[&str]) -> Vec<KeyPart> {
    columns.iter().map(|column| part(column, "int")).collect()
}
/// A clustered index by `id`, and one secondary index for each list of columns.
fn spec(indexes: &[&[&str]]) -> TableSpec {
    let index = |(i, columns): (usize, &&[&str])| IndexSpec {
        name: format!("i{i}"),
        parts: ints(columns),
        ..IndexSpec::default()
    };
    TableSpec {
        pk_parts: ints(&["id"]),
        indexes: indexes.iter().enumerate().map(index).collect(),
        ..TableSpec::default()
    }
}
fn key(name: &str, columns: &[&str], parent: &str, parent_columns: &[&str]) -> ForeignKeySpec {
    let names = |of: &[&str]| of.iter().map(|name| name.to_string()).collect();
    ForeignKeySpec {
        name: name.into(),
        columns: names(columns),
        parent: parent.into(),
        parent_columns: names(parent_columns),
        ..ForeignKeySpec::default()
    }
}
fn child(keys: Vec<ForeignKeySpec>) -> TableSpec {
    TableSpec {
        foreign: keys,
        ..spec(&[&["a", "b"], &["n_c"]])
    }
}
/// Names of the foreign keys in which `table` is the child, with "!" if bound to no parent; then
/// those in which it is the parent.
fn bound(tables: &Tables, table: &str) -> (Vec<String>, Vec<String>) {
    let table = tables.open_table(table).expect("there");
    let keys = table.foreign();
    tables.close_table(&table);
    let Some(keys) = keys.as_ref() else {
        return (vec![], vec![]);
    };
    let name = |key: &Arc<crate::table::ForeignKey>| match key.parent {
        Some(_) => key.spec.name.clone(),
        None => format!("{}!", key.spec.name),
    };
    (
        keys.references.iter().map(name).collect(),
        keys.referenced.iter().map(name).collect(),
    )
}
fn why(result: Result<(), Error>) -> String {
    match result.expect_err("refused") {
        Error::ForeignDefinition(refusal) | Error::ForeignUnfit(refusal) => refusal.why,
        error => format!("{error:?}"),
    }
}

#[test]
fn a_foreign_key_is_bound_to_the_first_index_that_fits() {
    let disk = SimDisk::new(1);
    {
        let engine = open(&disk);
        let tables = engine.store().tables();
        tables.create_table("p", &spec(&[&["x", "y"]])).expect("create");
        let keys = vec![key("f", &["A"], "p", &["ID"]), key("g", &["a", "b"], "p", &["x", "y"])];
        tables.create_table("c", &child(keys)).expect("create");
        assert_eq!(bound(tables, "c"), (vec!["f".into(), "g".into()], vec![]));
        assert_eq!(bound(tables, "p"), (vec![], vec!["f".into(), "g".into()]));
        engine.close(crate::engine::Close::Fast).expect("close");
    }
    let engine = open(&disk);
    let tables = engine.store().tables();
    assert_eq!(
        bound(tables, "p"),
        (vec![], vec!["f".into(), "g".into()]),
        "after a restart"
    );
    tables.truncate_table("c").expect("truncated");
    let parent = tables.open_table("p").expect("there");
    let c = tables.open_table("c").expect("there");
    let keys = parent.foreign();
    let bound = &keys.as_ref().expect("some").referenced[0];
    assert_eq!(bound.child.table, c.layout().id, "bound to the new incarnation");
}

#[test]
fn what_cannot_be_a_foreign_key_is_refused_with_the_reason() {
    let engine = open(&SimDisk::new(2));
    let tables = engine.store().tables();
    tables.create_table("p", &spec(&[&["x", "y"]])).expect("create");
    tables.create_table("old", &TableSpec::default()).expect("create");
    let mut other = spec(&[]);
    other.pk_parts = vec![part("id", "text")];
    tables.create_table("other", &other).expect("create");
    let try_key = |key| why(tables.create_table("c", &child(vec![key])));
    assert!(try_key(key("d/f", &["b"], "p", &["id"]))
        .contains("foreign key f: the table has no index whose first columns are (b)"));
    assert!(try_key(key("d/f", &["a"], "q", &["id"])).contains("the parent table q does not exist"));
    assert!(try_key(key("d/f", &["a"], "p", &["y"]))
        .contains("the parent table p has no index whose first columns are (y)"));
    assert!(
        try_key(key("d/f", &["a"], "other", &["id"])).contains("column a (int) has another type than column id (text)")
    );
    assert!(try_key(key("d/f", &["a"], "old", &["id"])).contains("ALTER TABLE old FORCE"));
    assert!(try_key(key("d/f", &["a"], "p", &["x", "y"])).contains("as many columns"));
    let mut nulls = key("d/f", &["a"], "p", &["id"]);
    nulls.on_delete = ForeignAction::SetNull;
    assert!(try_key(nulls.clone()).contains("column a is NOT NULL"));
    nulls.columns = vec!["n_c".into()];
    tables.create_table("c", &child(vec![nulls])).expect("n_c may be NULL");
    let taken = tables.create_table("c2", &child(vec![key("D/F", &["a"], "p", &["id"])]));
    assert_eq!(taken, Err(Error::ForeignNameTaken("D/F".into())));
    assert!(tables.open_table("c2").is_err(), "nothing is left of it");
}

#[test]
fn a_child_may_come_before_its_parent_without_checks() {
    let engine = open(&SimDisk::new(3));
    let tables = engine.store().tables();
    let unchecked = CreateMode {
        unchecked: true,
        ..CreateMode::default()
    };
    let keys = vec![key("f", &["a"], "p", &["id"])];
    tables.create_table_as("c", &child(keys), unchecked).expect("create");
    assert_eq!(bound(tables, "c").0, ["f!"]);
    let mut wrong = spec(&[]);
    wrong.pk_parts = vec![part("id", "text")];
    assert!(why(tables.create_table("p", &wrong)).contains("has another type"));
    tables.create_table("p", &spec(&[])).expect("it fits");
    assert_eq!(bound(tables, "c").0, ["f"]);
    let referenced = tables.drop_table("p");
    assert!(matches!(referenced, Err(Error::TableIsReferenced(_))), "{referenced:?}");
    let referenced = tables.truncate_table("p");
    assert!(matches!(referenced, Err(Error::TableIsReferenced(_))), "{referenced:?}");
    tables.drop_table_as("p", &|child| child == "c").expect("dropped");
    assert_eq!(bound(tables, "c").0, ["f!"]);
    tables.drop_table("c").expect("dropped");
}

#[test]
fn foreign_keys_follow_a_new_name() {
    let disk = SimDisk::new(4);
    let engine = open(&disk);
    let tables = engine.store().tables();
    tables.create_table("p", &spec(&[])).expect("create");
    let keys = vec![key("f", &["a"], "p", &["id"]), key("self", &["a"], "c", &["id"])];
    tables.create_table("c", &child(keys)).expect("create");
    tables.rename_table("p", "q").expect("renamed");
    let names = RenameMode {
        foreign_names: &["g".into(), "h".into()],
        ..RenameMode::default()
    };
    tables.rename_table_as("c", "d", &names).expect("renamed");
    assert_eq!(bound(tables, "d"), (vec!["g".into(), "h".into()], vec!["h".into()]));
    assert_eq!(bound(tables, "q").1, ["g"]);
    drop(engine);
    let engine = open(&disk);
    assert_eq!(bound(engine.store().tables(), "q").1, ["g"], "after a crash");
}

/// The steps of ALTER TABLE by copy, for a parent and for a child.
#[test]
fn a_table_that_replaces_another_gets_its_children() {
    let engine = open(&SimDisk::new(5));
    let tables = engine.store().tables();
    tables.create_table("p", &spec(&[])).expect("create");
    let keys = vec![key("f", &["a"], "p", &["id"])];
    tables.create_table("c", &child(keys.clone())).expect("create");
    let replacing = |replaces| CreateMode {
        replaces: Some(replaces),
        ..CreateMode::default()
    };
    let mode = |kind| RenameMode {
        kind,
        ..RenameMode::default()
    };
    let mut unfit = spec(&[]);
    unfit.pk_parts = ints(&["other"]);
    assert!(why(tables.create_table_as("new", &unfit, replacing("p"))).contains("has no index"));
    tables
        .create_table_as("new", &spec(&[&["z"]]), replacing("p"))
        .expect("create");
    tables
        .rename_table_as("p", "aside", &mode(RenameKind::OutOfPlace))
        .expect("renamed");
    assert_eq!(bound(tables, "c").0, ["f"], "bound to the table that was moved");
    assert_eq!(bound(tables, "aside").1, ["f"]);
    tables
        .rename_table_as("new", "p", &mode(RenameKind::IntoPlace))
        .expect("renamed");
    assert_eq!(
        (bound(tables, "p").1, bound(tables, "aside").1),
        (vec!["f".to_string()], vec![])
    );
    tables.drop_table("aside").expect("no child is left");

    tables
        .create_table_as("new", &child(keys), replacing("c"))
        .expect("the name is its own");
    assert_eq!(bound(tables, "p").1, ["f"], "the copy is no child yet");
    let made = tables.open_table("new").expect("there");
    assert!(made.foreign().as_ref().expect("some").references[0].is_carried_over);
    tables
        .rename_table_as("c", "aside", &mode(RenameKind::OutOfPlace))
        .expect("renamed");
    tables
        .rename_table_as("new", "c", &mode(RenameKind::IntoPlace))
        .expect("renamed");
    tables.drop_table("aside").expect("dropped");
    assert_eq!(bound(tables, "p").1, ["f"]);
    assert!(!made.foreign().as_ref().expect("some").references[0].is_carried_over);
}

/// A crash between the copy and its way into place, under another name: only the copy's definition
/// knows which table it replaces.
#[test]
fn children_follow_a_copy_to_another_name_after_a_crash() {
    for old_is_dropped in [false, true] {
        let disk = SimDisk::new(7);
        let engine = open(&disk);
        let tables = engine.store().tables();
        tables.create_table("p", &spec(&[])).expect("create");
        let to_itself = key("own", &["a"], "p", &["id"]);
        let parent = child(vec![to_itself]);
        tables
            .create_table("c", &child(vec![key("f", &["a"], "p", &["id"])]))
            .expect("create");
        let replacing = CreateMode {
            replaces: Some("p"),
            ..CreateMode::default()
        };
        tables.create_table_as("new", &parent, replacing).expect("create");
        drop(engine);
        let engine = open(&disk);
        let tables = engine.store().tables();
        assert_eq!(bound(tables, "p").1, ["f"], "the copy is no child yet");
        if old_is_dropped {
            tables.drop_table_as("p", &|_| true).expect("dropped");
            assert_eq!(bound(tables, "c").0, ["f!"]);
        }
        let mode = RenameMode {
            kind: RenameKind::IntoPlace,
            unchecked: true,
            ..RenameMode::default()
        };
        tables.rename_table_as("new", "q", &mode).expect("renamed");
        assert_eq!(bound(tables, "q").1, ["f", "own"]);
        drop(engine);
        let engine = open(&disk);
        let tables = engine.store().tables();
        assert_eq!(bound(tables, "q").1, ["f", "own"], "after another crash");
        let renamed = tables.open_table("q").expect("there");
        assert!(renamed.layout().replaces.is_none());
        tables.close_table(&renamed);
    }
}

#[test]
fn an_index_that_a_foreign_key_needs_stays() {
    let engine = open(&SimDisk::new(6));
    let (store, tables) = (engine.store(), engine.store().tables());
    tables.create_table("p", &spec(&[&["x"], &["x", "y"]])).expect("create");
    tables
        .create_table("c", &child(vec![key("f", &["a"], "p", &["x"])]))
        .expect("create");
    let change = |name: &str, drop, order, keys| {
        let table = tables.open_table(name).expect("there");
        store.indexes().alter_indexes(&[IndexChange {
            drop,
            order,
            keys,
            ..change_of(&table)
        }])
    };
    let needed = change("c", vec!["i0"], vec!["i1"], KeyChange::default());
    assert!(matches!(needed, Err(Error::ForeignNeedsIndex(_))), "{needed:?}");
    change("p", vec!["i0"], vec!["i1"], KeyChange::default()).expect("the other one fits");
    let needed = change("p", vec!["i1"], vec![], KeyChange::default());
    assert!(matches!(needed, Err(Error::ForeignNeedsIndex(_))), "{needed:?}");
    let renamed = KeyChange {
        parts: vec![ints(&["id"]), ints(&["new_x", "y"])],
        renamed_columns: vec![("x", "new_x")],
        ..KeyChange::default()
    };
    change("p", vec![], vec!["i1"], renamed).expect("renamed");
    assert_eq!(bound(tables, "c").0, ["f"]);
    let c = tables.open_table("c").expect("there");
    assert_eq!(c.layout().foreign[0].parent_columns, ["new_x"]);
    let none = KeyChange {
        foreign: Some(vec![]),
        ..KeyChange::default()
    };
    change("c", vec![], vec!["i0", "i1"], none).expect("dropped");
    assert_eq!(
        (bound(tables, "c"), bound(tables, "p")),
        ((vec![], vec![]), (vec![], vec![]))
    );
    change("p", vec!["i1"], vec![], KeyChange::default()).expect("no foreign key needs it");
}

/// An ALTER TABLE may put a younger index before an older one.
#[test]
fn the_oldest_index_serves() {
    let engine = open(&SimDisk::new(8));
    let (store, tables) = (engine.store(), engine.store().tables());
    tables.create_table("p", &spec(&[&["x"], &["x", "y"]])).expect("create");
    let table = tables.open_table("p").expect("there");
    let oldest = table.layout().secondary[0].index.id;
    let reordered = IndexChange {
        table: &table,
        drop: vec![],
        rename: vec![],
        add: vec![],
        order: vec!["i1", "i0"],
        change_buffering: None,
        schema: b"",
        keys: KeyChange::default(),
    };
    store.indexes().alter_indexes(&[reordered]).expect("reordered");
    assert_eq!(table.layout().secondary[1].index.id, oldest);
    tables
        .create_table("c", &child(vec![key("f", &["a"], "p", &["x"])]))
        .expect("create");
    let keys = table.foreign();
    let bound = &keys.as_ref().expect("some").referenced[0];
    assert_eq!(bound.parent.as_ref().map(|end| end.index), Some(oldest));
    tables.close_table(&table);
}

/// As in InnoDB: an index that the same ALTER TABLE makes does not serve.
#[test]
fn a_new_foreign_key_to_its_own_table_needs_an_index_that_is_there() {
    let engine = open(&SimDisk::new(9));
    let tables = engine.store().tables();
    let own = child(vec![key("own", &["n_c"], "p", &["a"])]);
    let replacing = CreateMode {
        replaces: Some("p"),
        ..CreateMode::default()
    };
    tables.create_table("p", &spec(&[])).expect("create");
    assert!(why(tables.create_table_as("new", &own, replacing)).contains("no index whose first columns are (a)"));
    tables.drop_table("p").expect("dropped");
    tables.create_table("p", &child(vec![])).expect("create");
    tables.create_table_as("new", &own, replacing).expect("it is there");
}
