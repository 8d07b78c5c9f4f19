//! Keys for which a page is too small: rows and an index under them, beside a map. A crash, an
//! index built over them, and keys that are too long.
use super::basics::small;
use super::fixture::{change_of, Random};
use crate::base::Error;
use crate::btree::{KEY_MAX, WIDE_KEY_MAX};
use crate::engine::{Config, Database, Transaction};
use crate::io::sim::SimDisk;
use crate::table::{CheckLevel, Entry, EntryChange, IndexChange, IndexSpec, Table, TableSpec};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Clustered key: number of the value.
type Model = BTreeMap<Vec<u8>, u8>;

fn config() -> Config {
    Config {
        buffer_pool_size: 16 << 20,
        redo_log_capacity: 16 << 20,
        ..small()
    }
}

fn index(name: &str) -> IndexSpec {
    IndexSpec {
        name: name.into(),
        unique: false,
        wide: true,
        ..IndexSpec::default()
    }
}

/// Few differ before their last bytes.
fn pk(n: u64) -> Vec<u8> {
    let mut key = vec![b'p'; WIDE_KEY_MAX / 2 - 30];
    key.extend_from_slice(&[(n >> 8) as u8, n as u8, 1]);
    key
}

fn user_key(value: u8) -> Vec<u8> {
    let mut key = vec![value % 4; WIDE_KEY_MAX / 2 - 200 + value as usize % 100];
    key.extend_from_slice(&[value, 255]);
    key
}

fn entry_key(pk: &[u8], value: u8) -> Vec<u8> {
    [user_key(value), pk.to_vec()].concat()
}

fn entry<'a>(key: &'a [u8], pk: &[u8]) -> Entry<'a> {
    Entry {
        user_key_len: (key.len() - pk.len()) as u32,
        key,
        value: b"raw",
        ..Default::default()
    }
}

fn step(trx: &mut Transaction, table: &Table, model: &mut Model, random: &mut Random) {
    let pk = pk(random.below(150));
    let value = random.below(40) as u8;
    let new_key = entry_key(&pk, value);
    let Some(old) = model.get(&pk).copied() else {
        trx.insert(table, &pk, &[value], &[entry(&new_key, &pk)])
            .expect("insert");
        model.insert(pk, value);
        return;
    };
    let old_key = entry_key(&pk, old);
    if random.chance(40) {
        trx.delete(table, &pk, &[entry(&old_key, &pk)]).expect("delete");
        model.remove(&pk);
        return;
    }
    let change = EntryChange {
        user_key_len: (new_key.len() - pk.len()) as u32,
        old_key: &old_key,
        new_key: &new_key,
        new_value: b"raw",
        ..Default::default()
    };
    trx.update(table, &pk, &[value], &[change]).expect("update");
    model.insert(pk, value);
}

fn verify(db: &Database, model: &Model, ordinal: u32) {
    let table = db.table("t").expect("table");
    let mut trx = db.begin();
    let (mut rows, mut by_key) = (Vec::new(), Vec::new());
    trx.scan(&table, 0, b"", None, |f| {
        rows.push((f.pk.to_vec(), f.row[0]));
        true
    })
    .expect("scan");
    let expected: Vec<_> = model.iter().map(|(pk, value)| (pk.clone(), *value)).collect();
    assert!(rows == expected, "{} rows of {}", rows.len(), expected.len());
    trx.scan(&table, ordinal, b"", None, |f| {
        by_key.push(f.key.to_vec());
        true
    })
    .expect("scan");
    let mut expected: Vec<_> = model.iter().map(|(pk, value)| entry_key(pk, *value)).collect();
    expected.sort();
    assert!(by_key == expected, "{} entries of {}", by_key.len(), expected.len());
    let mut lines = Vec::new();
    let sound = db
        .engine()
        .store()
        .check_table(trx.trx(), &table, CheckLevel::Extended, &mut |line: &str| {
            lines.push(line.to_string())
        })
        .expect("check");
    assert!(sound, "{lines:#?}");
}

fn make() -> (Arc<SimDisk>, Database) {
    let disk = SimDisk::new(8);
    let db = Database::on(disk.clone(), config()).expect("open");
    let spec = TableSpec {
        wide_pk: true,
        indexes: vec![index("by_value")],
        ..Default::default()
    };
    db.create_table("t", &spec).expect("create");
    (disk, db)
}

#[test]
fn long_keys_are_rows_and_entries_like_any_others() {
    let (disk, db) = make();
    let table = db.table("t").expect("table");
    let mut random = Random(5);
    let mut model = Model::new();
    for round in 0..12 {
        let mut trx = db.begin();
        let mut meant = model.clone();
        for _ in 0..40 {
            step(&mut trx, &table, &mut meant, &mut random);
        }
        if round % 4 == 3 {
            trx.rollback().expect("rollback");
        } else {
            trx.commit().expect("commit");
            model = meant;
        }
        verify(&db, &model, 1);
    }
    // What is under way at a crash.
    let mut trx = db.begin();
    let mut lost = model.clone();
    for _ in 0..30 {
        step(&mut trx, &table, &mut lost, &mut random);
    }
    db.engine().flush_log().expect("durable");
    std::mem::forget(trx);
    let disk = disk.crash(3);
    let db = Database::on(disk, config()).expect("recovered");
    super::crash::wait_for_rollback(db.engine());
    verify(&db, &model, 1);
    build_over(&db, &model);
}

fn build_over(db: &Database, model: &Model) {
    let table = db.table("t").expect("table");
    let store = db.engine().store();
    let mut build = store.indexes().begin_build(&table, &index("again")).expect("begin");
    for (pk, value) in model {
        let key = entry_key(pk, *value);
        build.add(&key, key.len() - pk.len(), false, b"raw").expect("add");
    }
    let mut trx = db.begin();
    build.finish(trx.trx()).expect("build");
    let change = IndexChange {
        drop: vec!["by_value"],
        add: vec![&build],
        order: vec!["again"],
        ..change_of(&table)
    };
    trx.commit().expect("commit");
    store.indexes().alter_indexes(&[change]).expect("published");
    verify(db, model, 1);
    assert!(table.layout().freeing.is_empty(), "the old one is freed");
}

#[test]
fn a_key_that_is_too_long_is_refused_by_the_name_of_its_index() {
    let (_, db) = make();
    let spec = TableSpec {
        indexes: vec![IndexSpec {
            wide: false,
            ..index("short")
        }],
        ..Default::default()
    };
    db.create_table("narrow", &spec).expect("create");
    for (table, name, most) in [("t", "by_value", WIDE_KEY_MAX), ("narrow", "short", KEY_MAX)] {
        let table = db.table(table).expect("table");
        let mut trx = db.begin();
        for (len, is_taken) in [(most, true), (most + 1, false)] {
            let pk = [len as u8];
            let key = [&vec![7u8; len - 1][..], &pk].concat();
            let done = trx.insert(&table, &pk, b"", &[entry(&key, &pk)]);
            match done {
                Ok(()) => assert!(is_taken),
                Err(Error::TooBig(text)) => {
                    assert!(
                        !is_taken && text.contains(name) && text.contains(&most.to_string()),
                        "{text}"
                    );
                }
                Err(e) => panic!("{e}"),
            }
        }
    }
}
