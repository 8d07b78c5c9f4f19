//! The engine as its users meet it: tables, rows, transactions, restarts.
use crate::base::{Error, Result};
use crate::engine::{Config, Database, Transaction};
use crate::io::sim::SimDisk;
use crate::table::{Entry, IndexSpec, Table, TableSpec};

pub fn small() -> Config {
    Config {
        buffer_pool_size: 4 << 20,
        redo_log_capacity: 8 << 20,
        redo_log_buffer_size: 1 << 20,
        read_io_threads: 0,
        io_capacity: 200,
        io_capacity_max: 2000,
        flush_method: crate::engine::FlushMethod::Buffered,
        ..Config::default()
    }
}

fn spec() -> TableSpec {
    TableSpec {
        indexes: vec![IndexSpec {
            name: "by_value".into(),
            unique: false,
            wide: false,
            ..IndexSpec::default()
        }],
        ..Default::default()
    }
}

fn put(trx: &mut Transaction, table: &Table, pk: &str, value: &str) -> Result<()> {
    let key = [value.as_bytes(), b"\0", pk.as_bytes()].concat();
    let entry = Entry {
        index: 0,
        user_key_len: value.len() as u32 + 1,
        has_null: false,
        key: &key,
        value: b"",
    };
    trx.insert(table, pk.as_bytes(), value.as_bytes(), &[entry])
}

fn all(db: &Database, table: &str, index: u32) -> Vec<(String, String)> {
    let table = db.table(table).expect("it exists");
    let mut trx = db.begin();
    let mut out = Vec::new();
    trx.scan(&table, index, b"", None, |f| {
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        out.push((text(f.pk), text(f.row)));
        true
    })
    .expect("scan");
    out
}

#[test]
fn rows_survive_commit_and_crash_and_not_rollback() {
    let disk = SimDisk::new(1);
    let db = Database::on(disk.clone(), small()).expect("fresh");
    db.create_table("t", &spec()).expect("create");
    let table = db.table("t").expect("open");
    let mut trx = db.begin();
    for (pk, value) in [("b", "2"), ("a", "3"), ("c", "1")] {
        put(&mut trx, &table, pk, value).expect("insert");
    }
    trx.commit().expect("commit");
    let mut trx = db.begin();
    put(&mut trx, &table, "d", "0").expect("insert");
    assert_eq!(all(&db, "t", 0).len(), 3, "others do not see it");
    trx.rollback().expect("rollback");
    let by_key = all(&db, "t", 0);
    assert_eq!(
        by_key,
        [("a", "3"), ("b", "2"), ("c", "1")].map(|(a, b)| (a.into(), b.into()))
    );
    let by_value = all(&db, "t", 1);
    assert_eq!(
        by_value,
        [("c", "1"), ("b", "2"), ("a", "3")].map(|(a, b)| (a.into(), b.into()))
    );

    let mut lost = db.begin();
    put(&mut lost, &table, "e", "5").expect("insert");
    let after = disk.crash(7);
    std::mem::forget(lost);
    drop(db);
    let db = Database::on(after, small()).expect("recovery");
    assert_eq!(all(&db, "t", 0), by_key);
    assert_eq!(all(&db, "t", 1), by_value);
    db.close().expect("close");
}

#[test]
fn a_point_read_locks_and_reads_its_own_write() {
    let db = Database::on(SimDisk::new(2), small()).expect("fresh");
    db.create_table("t", &spec()).expect("create");
    let table = db.table("t").expect("open");
    let mut trx = db.begin();
    put(&mut trx, &table, "k", "v").expect("insert");
    assert_eq!(trx.get(&table, b"k").expect("get"), Some(b"v".to_vec()));
    assert_eq!(trx.get_for_update(&table, b"k").expect("get"), Some(b"v".to_vec()));
    assert_eq!(trx.get(&table, b"x").expect("get"), None);
    let duplicate = put(&mut trx, &table, "k", "w");
    assert_eq!(
        duplicate,
        Err(Error::Duplicate {
            index: 0,
            pk: b"k".to_vec()
        })
    );
    trx.commit().expect("commit");
}
