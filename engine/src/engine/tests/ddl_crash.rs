//! DDL cut short by a crash at any write has happened or has not; files and catalog agree, and
//! nothing leaks.
use super::crash::wait_for_rollback;
use super::fixture::*;
use crate::base::{Error, Result};
use crate::engine::Engine;
use crate::io::sim::SimDisk;
use crate::table::{IndexBuild, IndexSpec, NewRow, Table, TableSpec};
use crate::txn::Isolation;
use std::sync::Arc;

/// The clustered keys of a table's rows, and the number of its indexes.
type TableState = (Vec<Vec<u8>>, usize);
type Tables = std::collections::BTreeMap<String, TableState>;

fn tables_of(engine: &Arc<Engine>) -> Tables {
    let store = engine.store();
    let one = |name: String| {
        let table = store.tables().open_table(&name).expect("open");
        let indexes = table.layout().secondary.len();
        let fixture = TableFixture {
            engine: engine.clone(),
            table,
        };
        let mut trx = fixture.begin(Isolation::ReadCommitted);
        let rows = fixture.scan(&mut trx, 0, false, false, None).expect("scan");
        fixture.engine.commit(&mut trx, false).expect("commit");
        (name, (rows.into_iter().map(|r| r.pk).collect(), indexes))
    };
    store.catalog.names().into_iter().map(one).collect()
}

/// One statement; on success `tables` is as it should be then.
fn ddl(engine: &Arc<Engine>, random: &mut Random, tables: &mut Tables, next: &mut u32) -> Result<()> {
    let store = engine.store();
    let names: Vec<String> = tables.keys().cloned().collect();
    if names.is_empty() || random.chance(30) {
        *next += 1;
        let name = format!("t{next}");
        store.tables().create_table(
            &name,
            &TableSpec {
                indexes: vec![],
                ..spec()
            },
        )?;
        tables.insert(name.clone(), (vec![], 0));
        return fill(engine, &name, tables);
    }
    let name = names[random.below(names.len() as u64) as usize].clone();
    match random.below(4) {
        0 => {
            store.tables().drop_table(&name)?;
            tables.remove(&name);
        }
        1 => {
            *next += 1;
            let to = format!("r{next}");
            store.tables().rename_table(&name, &to)?;
            let was = tables.remove(&name).expect("known");
            tables.insert(to, was);
        }
        2 => {
            store.tables().truncate_table(&name)?;
            tables.get_mut(&name).expect("known").0.clear();
        }
        _ => add_or_drop_index(engine, &name, tables)?,
    }
    Ok(())
}

fn fill(engine: &Arc<Engine>, name: &str, tables: &mut Tables) -> Result<()> {
    let table = engine.store().tables().open_table(name)?;
    let fixture = TableFixture {
        engine: engine.clone(),
        table,
    };
    let mut trx = fixture.begin(Isolation::ReadCommitted);
    for n in 0..40u32 {
        let key = n.to_be_bytes();
        let new = NewRow::new(&key, &[7; 300], &[]);
        if let Err(e) = fixture.store().rows().insert(&mut trx, &fixture.table, &new, false) {
            std::mem::forget(trx);
            return Err(e);
        }
    }
    fixture.engine.commit(&mut trx, true)?;
    tables.get_mut(name).expect("known").0 = (0..40u32).map(|n| n.to_be_bytes().to_vec()).collect();
    Ok(())
}

fn add_or_drop_index(engine: &Arc<Engine>, name: &str, tables: &mut Tables) -> Result<()> {
    let store = engine.store();
    let table = store.tables().open_table(name)?;
    let known = tables.get_mut(name).expect("known");
    if known.1 > 0 {
        let mut change = change_of(&table);
        change.drop = vec!["i"];
        store.indexes().alter_indexes(&[change])?;
        known.1 = 0;
        return Ok(());
    }
    let build = built(engine, &table, &known.0)?;
    let mut change = change_of(&table);
    (change.add, change.order) = (vec![&build], vec!["i"]);
    store.indexes().alter_indexes(&[change])?;
    known.1 = 1;
    Ok(())
}

/// A finished build of an index "i" over rows of these keys.
fn built(engine: &Arc<Engine>, table: &Arc<Table>, keys: &[Vec<u8>]) -> Result<IndexBuild> {
    let mut build = engine.store().indexes().begin_build(
        table,
        &IndexSpec {
            name: "i".into(),
            unique: true,
            wide: false,
            ..IndexSpec::default()
        },
    )?;
    for pk in keys.iter().rev() {
        let key = [&[b'k', !pk[3]], &pk[..]].concat();
        build.add(&key, 2, true, b"raw")?;
    }
    let fixture = TableFixture {
        engine: engine.clone(),
        table: table.clone(),
    };
    let mut trx = fixture.begin(Isolation::ReadCommitted);
    build.finish(&trx)?;
    fixture.engine.commit(&mut trx, false)?;
    Ok(build)
}

/// Fills three tables, changes several of them by `change`, and crashes at each write of the change
/// in turn. `count` of every table is then as `before`, or of every table as `after`. It is `after`
/// if the change had returned.
fn crash_in_one_change_of_many(
    names: [&str; 3],
    change: impl Fn(&Arc<Engine>, &Tables) -> Result<()>,
    count: impl Fn(&TableState) -> usize,
    [before, after]: [[usize; 3]; 2],
) {
    for stop in 1.. {
        let disk = SimDisk::new(stop);
        let engine = Engine::open(disk.clone(), config()).expect("fresh");
        let mut tables = Tables::new();
        let spec = TableSpec {
            indexes: vec![],
            ..spec()
        };
        for name in names {
            engine.store().tables().create_table(name, &spec).expect("created");
            tables.insert(name.into(), (vec![], 0));
            fill(&engine, name, &mut tables).expect("filled");
        }
        engine.checkpoint().expect("a short way to go");
        disk.crash_at(disk.changes() + stop);
        let done = change(&engine, &tables);
        let disk = disk.crash(stop);
        drop(engine);
        let engine = Engine::open(disk.clone(), config()).expect("recovered");
        engine.start_background();
        wait_for_rollback(&engine);
        check_all(&engine, &disk);
        let found = tables_of(&engine);
        let counts = names.map(|name| count(&found[name]));
        assert!(counts == before || counts == after, "stop {stop}: {counts:?}");
        if done.is_ok() {
            assert_eq!(counts, after);
            assert!(stop > 3, "it was cut short often enough");
            return;
        }
    }
}

/// The partitions of a table are altered together. Once they were altered one by one, and a crash
/// in between left a table that no .frm described.
#[test]
fn tables_altered_at_once_are_all_altered_or_none() {
    let indexes = |table: &TableState| table.1;
    crash_in_one_change_of_many(["p0", "p1", "p2"], add_to_all, indexes, [[0; 3], [1; 3]]);
}

fn add_to_all(engine: &Arc<Engine>, tables: &Tables) -> Result<()> {
    let mut builds = Vec::new();
    for (name, (keys, _)) in tables {
        let table = engine.store().tables().open_table(name)?;
        let build = built(engine, &table, keys)?;
        builds.push((table, build));
    }
    let changes = builds.iter().map(|(table, build)| {
        let mut change = change_of(table);
        (change.add, change.order) = (vec![build], vec!["i"]);
        change
    });
    engine.store().indexes().alter_indexes(&changes.collect::<Vec<_>>())
}

/// A table and the graph of its vector index are truncated together. With one of them full, a
/// search would find nothing, or rows that are gone.
#[test]
fn tables_truncated_at_once_are_all_empty_or_none() {
    let truncate = |engine: &Arc<Engine>, _: &Tables| {
        let tables = engine.store().tables();
        tables.truncate_tables(&["main", "graph"], &|_| false)
    };
    let rows = |table: &TableState| table.0.len();
    let names = ["main", "graph", "other"];
    crash_in_one_change_of_many(names, truncate, rows, [[40; 3], [0, 0, 40]]);
}

/// A name that one action of an ALTER gives up is free for another one.
#[test]
fn indexes_change_their_names_at_once() {
    let engine = Engine::open(SimDisk::new(1), config()).expect("fresh");
    let index = |name: &str| IndexSpec {
        name: name.into(),
        unique: false,
        wide: false,
        ..IndexSpec::default()
    };
    let spec = TableSpec {
        indexes: vec![index("a"), index("b"), index("c")],
        ..spec()
    };
    engine.store().tables().create_table("t", &spec).expect("created");
    let table = engine.store().tables().open_table("t").expect("there");
    let names = || -> Vec<(String, u32)> {
        let all = table.layout().secondary.iter();
        all.map(|s| (s.index.name.clone(), s.index.id)).collect()
    };
    let was = names();
    let mut change = change_of(&table);
    change.drop = vec!["a"];
    change.rename = vec![("b", "c"), ("c", "a")];
    change.order = vec!["c", "a"];
    engine.store().indexes().alter_indexes(&[change]).expect("altered");
    assert_eq!(names(), [("c".into(), was[1].1), ("a".into(), was[2].1)]);
    let mut twice = change_of(&table);
    twice.rename = vec![("c", "a")];
    twice.order = vec!["a", "a"];
    assert!(engine.store().indexes().alter_indexes(&[twice]).is_err());
    assert_eq!(names().len(), 2);
}

#[test]
fn ddl_is_all_or_nothing() {
    for seed in seeds(25) {
        let mut random = Random(seed * 31);
        let mut disk = SimDisk::new(seed);
        let mut tables = Tables::new();
        let mut next = 0;
        let config = || {
            let mut config = config();
            // Half of the indexes are loaded past the log.
            config.store.bulk_load_min = if seed % 2 == 0 { 0 } else { u64::MAX };
            config
        };
        let mut engine = Engine::open(disk.clone(), config()).expect("fresh");
        engine.start_background();
        for life in 0..4 {
            disk.crash_at(disk.changes() + 1 + random.below(250));
            let mut before = tables.clone();
            for _ in 0..200 {
                before = tables.clone();
                if ddl(&engine, &mut random, &mut tables, &mut next).is_err() {
                    break;
                }
            }
            let after = disk.crash(seed * 77 + life);
            drop(engine);
            disk = after;
            engine = Engine::open(disk.clone(), config()).unwrap_or_else(|e| panic!("seed {seed} life {life}: {e}"));
            engine.start_background();
            wait_for_rollback(&engine);
            let found = tables_of(&engine);
            // The interrupted statement: not begun, done, or (CREATE and its rows) done but for the
            // rows.
            let what = || format!("seed {seed} life {life}\nbefore {before:?}\nafter {tables:?}\nfound {found:?}");
            let done = find_done(&before, &tables, &found);
            assert!(done, "{}", what());
            tables = found;
            check_all(&engine, &disk);
        }
    }
}

/// `tables` was changed as far as the interrupted statement got; it may have got one step further
/// on disk.
fn find_done(before: &Tables, tables: &Tables, found: &Tables) -> bool {
    if found == before || found == tables {
        return true;
    }
    // One table differs from `tables`: created, dropped, renamed, emptied, filled, or with one
    // index more or less.
    let gone: Vec<_> = tables.iter().filter(|(n, t)| found.get(*n) != Some(t)).collect();
    let new: Vec<_> = found.iter().filter(|(n, t)| tables.get(*n) != Some(t)).collect();
    match (&gone[..], &new[..]) {
        ([], [(_, (rows, 0))]) => rows.is_empty(),
        ([_], []) => true,
        ([(_, was)], [(_, is)]) => is == was || is.0.is_empty() || was.0.is_empty() || is.0 == was.0,
        _ => false,
    }
}

fn check_all(engine: &Arc<Engine>, disk: &SimDisk) {
    let mut files = vec!["00000001.slu".to_string(), "00000002.slu".to_string()];
    for table in engine.store().catalog.tables() {
        let fixture = TableFixture {
            engine: engine.clone(),
            table,
        };
        fixture.check_table();
        files.push(crate::space::file_name(fixture.table.layout().id));
    }
    files.sort();
    let mut found: Vec<String> = crate::io::Disk::list(disk).expect("list");
    found.retain(|n| n.ends_with(".slu") || n.starts_with("tmp_"));
    found.sort();
    assert_eq!(found, files, "files and catalog agree");
}

/// A definition of several pieces found room for the first and none for the next: this used to stop
/// the engine. DROP needs no room.
#[test]
fn a_definition_that_finds_no_room_changes_nothing() {
    let disk = SimDisk::new(1);
    let fixture = TableFixture::create(disk.clone());
    let store = fixture.store();
    let mut schema = Vec::new();
    let refused = loop {
        let longer = vec![b's'; schema.len() + 3000];
        disk.set_space(Some(disk.used()));
        let done = store.tables().set_table_schema("t", &longer);
        store.pool.check_alive().expect("the engine goes on");
        match done {
            Ok(()) => schema = longer,
            Err(e) => break e,
        }
    };
    assert!(matches!(refused, Error::Full(_)), "{refused}");
    assert!(schema.len() > 3000, "some had room");
    assert_eq!(fixture.table.layout().schema, schema);
    store.tables().rename_table("t", "renamed").expect("this has room");
    store.tables().rename_table("renamed", "t").expect("and this");
    let after = disk.crash(1);
    drop(fixture);
    let fixture = TableFixture::reopen(after.clone()).expect("open");
    assert_eq!(fixture.table.layout().schema, schema);
    after.set_space(Some(after.used()));
    fixture.store().tables().close_table(&fixture.table);
    fixture
        .store()
        .tables()
        .drop_table("t")
        .expect("what takes no room is done");
}
