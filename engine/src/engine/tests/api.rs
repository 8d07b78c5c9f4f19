//! The crate's own interface: what it refuses, and with which error.
use super::basics::small;
use crate::base::{Error, Result};
use crate::engine::{Config, Database, Transaction};
use crate::io::sim::SimDisk;
use crate::table::{Entry, EntryChange, IndexSpec, Table, TableSpec};

fn spec(unique: bool) -> TableSpec {
    let name = "by_town".into();
    TableSpec {
        indexes: vec![IndexSpec {
            name,
            unique,
            wide: false,
            ..IndexSpec::default()
        }],
        ..Default::default()
    }
}

fn key(pk: &str, town: &str) -> Vec<u8> {
    [town.as_bytes(), b"\0", pk.as_bytes()].concat()
}

fn entry<'a>(key: &'a [u8], pk: &str) -> Entry<'a> {
    Entry {
        user_key_len: (key.len() - pk.len()) as u32,
        key,
        ..Default::default()
    }
}

fn put(trx: &mut Transaction, table: &Table, pk: &str, town: &str) -> Result<()> {
    let key = key(pk, town);
    trx.insert(table, pk.as_bytes(), town.as_bytes(), &[entry(&key, pk)])
}

/// Workers were gone, and calls went on saying Ok, until the log was full: then they waited for
/// ever.
#[test]
fn a_closed_database_refuses_every_call() {
    let db = Database::on(SimDisk::new(1), small()).expect("open");
    db.create_table("t", &spec(false)).expect("create");
    let table = db.table("t").expect("table");
    let mut writer = db.begin();
    put(&mut writer, &table, "ann", "oslo").expect("insert");
    let idle = db.begin();
    let other = db.clone();
    db.close().expect("close");

    assert_eq!(put(&mut writer, &table, "bob", "rome"), Err(Error::Closed));
    assert_eq!(writer.get(&table, b"ann"), Err(Error::Closed));
    assert_eq!(writer.get_for_update(&table, b"ann"), Err(Error::Closed));
    assert_eq!(writer.delete(&table, b"ann", &[]), Err(Error::Closed));
    assert_eq!(writer.scan(&table, 0, b"", None, |_| true), Err(Error::Closed));
    assert_eq!(writer.commit(), Err(Error::Closed));
    assert_eq!(idle.commit(), Err(Error::Closed));
    let mut late = other.begin();
    assert_eq!(put(&mut late, &table, "eve", "oslo"), Err(Error::Closed));
    drop(late);
    assert_eq!(other.create_table("u", &spec(false)), Err(Error::Closed));
    assert_eq!(other.drop_table("t"), Err(Error::Closed));
    assert_eq!(other.table("t").map(|_| ()), Err(Error::Closed));
    assert_eq!(other.drain_change_buffer(), Err(Error::Closed));
    assert_eq!(other.close(), Err(Error::Closed));
}

#[test]
fn a_transaction_at_work_when_a_database_is_closed_gets_an_error() {
    let disk = SimDisk::new(2);
    let config = Config {
        redo_log_capacity: 4 << 20,
        ..small()
    };
    let db = Database::on(disk.clone(), config.clone()).expect("open");
    db.create_table("t", &spec(false)).expect("create");
    let table = db.table("t").expect("table");
    let other = db.clone();
    let worker = std::thread::spawn(move || {
        for n in 0..1_000_000u32 {
            let mut trx = other.begin();
            let pk = n.to_string();
            let body = [7; 500];
            let key = key(&pk, "oslo");
            let put = trx.insert(&table, pk.as_bytes(), &body, &[entry(&key, &pk)]);
            if let Err(e) = put.and_then(|()| trx.commit()) {
                return (n, e);
            }
        }
        panic!("the engine sent no word");
    });
    while db.engine().counters().commits.get() < 100 {
        std::thread::yield_now();
    }
    db.close().expect("close");
    let (acknowledged, error) = worker.join().expect("it ends");
    assert_eq!(error, Error::Closed);
    // What was acknowledged is there.
    let db = Database::on(disk, config).expect("open again");
    let table = db.table("t").expect("table");
    let mut trx = db.begin();
    for n in 0..acknowledged {
        let found = trx.get(&table, n.to_string().as_bytes()).expect("get");
        assert!(found.is_some(), "row {n} of {acknowledged}");
    }
}

/// The flag in the inserted entry decided, and its default was: not unique.
#[test]
fn a_unique_index_is_unique_whatever_the_entry_says() {
    let db = Database::on(SimDisk::new(3), small()).expect("open");
    db.create_table("t", &spec(true)).expect("create");
    db.create_table("u", &spec(false)).expect("create");
    let (table, plain) = (db.table("t").expect("table"), db.table("u").expect("table"));
    let mut trx = db.begin();
    put(&mut trx, &table, "ann", "oslo").expect("insert");
    let duplicate = |pk: &str| {
        let pk = pk.as_bytes().to_vec();
        Err(Error::Duplicate { index: 1, pk })
    };
    assert_eq!(put(&mut trx, &table, "bob", "oslo"), duplicate("ann"));
    put(&mut trx, &table, "bob", "rome").expect("another value");
    let (old_key, new_key) = (key("bob", "rome"), key("bob", "oslo"));
    let change = EntryChange {
        user_key_len: 5,
        old_key: &old_key,
        new_key: &new_key,
        ..Default::default()
    };
    assert_eq!(trx.update(&table, b"bob", b"oslo", &[change]), duplicate("ann"));
    // NULL is no value.
    for pk in ["x", "y"] {
        let key = key(pk, "");
        let null = Entry {
            has_null: true,
            ..entry(&key, pk)
        };
        trx.insert(&table, pk.as_bytes(), b"", &[null]).expect("NULL");
    }
    for pk in ["ann", "bob"] {
        put(&mut trx, &plain, pk, "oslo").expect("not unique");
    }
    trx.commit().expect("commit");
}

#[test]
fn a_dropped_table_is_no_such_table() {
    let db = Database::on(SimDisk::new(4), small()).expect("open");
    db.create_table("people", &spec(false)).expect("create");
    let table = db.table("people").expect("table");
    let mut trx = db.begin();
    db.drop_table("people").expect("drop");
    let gone = Error::NoSuchTable("people, which was dropped".into());
    assert_eq!(put(&mut trx, &table, "ann", "oslo"), Err(gone.clone()));
    assert_eq!(trx.get(&table, b"ann"), Err(gone.clone()));
    assert_eq!(trx.scan(&table, 1, b"", None, |_| true), Err(gone));
    trx.commit().expect("nothing is wrong with the transaction");
    assert_eq!(db.table("people").map(|_| ()), Err(Error::NoSuchTable("people".into())));
}

#[test]
fn impossible_names_are_reported_as_such() {
    let db = Database::on(SimDisk::new(5), small()).expect("open");
    for name in ["", "a\0b"] {
        let refused = db.create_table(name, &spec(false)).expect_err("refused");
        assert!(
            matches!(&refused, Error::Invalid(text) if text.contains("table name")),
            "{refused}"
        );
    }
    let long = "n".repeat(1 << 15);
    let refused = db.create_table(&long, &spec(false)).expect_err("refused");
    assert!(
        matches!(&refused, Error::TooBig(text) if text.contains("32768 bytes")),
        "{refused}"
    );
    db.create_table("t", &spec(false)).expect("create");
    assert_eq!(db.create_table("t", &spec(false)), Err(Error::Exists("table t".into())));
}

#[test]
fn a_directory_in_use_is_reported_as_such() {
    let dir = std::env::temp_dir().join(format!("sluice-api-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let db = Database::open(&dir, small()).expect("open");
    let second = Database::open(&dir, small()).map(|_| ());
    assert!(
        matches!(&second, Err(Error::InUse(text)) if text.contains("is locked")),
        "{second:?}"
    );
    db.close().expect("close");
    Database::open(&dir, small())
        .expect("it is free again")
        .close()
        .expect("close");
    let _ = std::fs::remove_dir_all(&dir);
}
