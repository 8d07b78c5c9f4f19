//! What a row operation costs, without the server: `cargo test --release --lib bench -- --ignored
//! --nocapture`.
use super::fixture::*;
use crate::engine::Engine;
use crate::io::RealDisk;
use crate::table::{EntryChange, LockChoice, NewRow, TableSpec};
use crate::txn::{Isolation, LockMode};
use std::time::Instant;

const ROWS: u64 = 200_000;

fn row(n: u64) -> [u8; 120] {
    let mut row = [b'x'; 120];
    row[..8].copy_from_slice(&n.to_be_bytes());
    row
}

fn report(what: &str, start: Instant, n: u64) {
    println!("{what}: {} ns", start.elapsed().as_nanos() as u64 / n);
}

#[test]
#[ignore = "a measurement"]
fn row_operations() {
    let dir = std::env::temp_dir().join(format!("sluice-bench-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let mut config = config();
    config.buffer_pool_size = 512 << 20;
    config.redo_log_capacity = 512 << 20;
    let engine = Engine::open(RealDisk::open(&dir).expect("directory"), config).expect("engine");
    let spec = TableSpec {
        pk_fixed_len: 8,
        indexes: spec().indexes[..1].to_vec(),
        ..TableSpec::default()
    };
    engine.store().tables().create_table("t", &spec).expect("create");
    let table = engine.store().tables().open_table("t").expect("open");
    let fixture = TableFixture { engine, table };
    insert_all(&fixture);
    read_all(&fixture);
    change_all(&fixture);
    fixture.engine.close(crate::engine::Close::LogOnly).expect("close");
    let _ = std::fs::remove_dir_all(&dir);
}

fn key_of(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}
fn group_key(group: u64, n: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&group.to_be_bytes());
    key[8..].copy_from_slice(&key_of(n));
    key
}

fn insert_all(fixture: &TableFixture) {
    let store = fixture.store();
    let mut trx = fixture.begin(Isolation::RepeatableRead);
    let start = Instant::now();
    for n in 0..ROWS {
        let group = n.wrapping_mul(0x9e37_79b9) % 1000;
        let entry = crate::table::Entry {
            user_key_len: 8,
            key: &group_key(group, n),
            ..Default::default()
        };
        store
            .rows()
            .insert(
                &mut trx,
                &fixture.table,
                &NewRow::new(&key_of(n), &row(n), &[entry]),
                false,
            )
            .expect("insert");
    }
    report("insert, ascending key, one random secondary entry", start, ROWS);
    fixture.engine.commit(&mut trx, false).expect("commit");
    let start = Instant::now();
    for n in ROWS..ROWS + ROWS / 4 {
        let mut trx = fixture.begin(Isolation::RepeatableRead);
        let entry = crate::table::Entry {
            user_key_len: 8,
            key: &group_key(1, n),
            ..Default::default()
        };
        store
            .rows()
            .insert(
                &mut trx,
                &fixture.table,
                &NewRow::new(&key_of(n), &row(n), &[entry]),
                false,
            )
            .expect("insert");
        fixture.engine.commit(&mut trx, false).expect("commit");
    }
    report("begin, insert, commit (not synced)", start, ROWS / 4);
}

fn read_all(fixture: &TableFixture) {
    let mut trx = fixture.begin(Isolation::RepeatableRead);
    let mut cursor = fixture.store().cursor(fixture.table.clone());
    let start = Instant::now();
    for i in 0..ROWS {
        let n = i.wrapping_mul(0x9e37_79b9) % ROWS;
        assert!(cursor.get(&mut trx, &key_of(n), LockChoice::default()).expect("get"));
    }
    report("consistent point read", start, ROWS);
    let start = Instant::now();
    cursor.begin(&mut trx, 0, LockChoice::default(), false).expect("begin");
    let mut more = cursor.seek(&mut trx, crate::btree::Seek::First, &[]).expect("seek");
    let (mut bytes, mut rows) = (0, 0);
    while more {
        bytes += cursor.found().expect("row").row.len();
        rows += 1;
        more = cursor.next(&mut trx).expect("next");
    }
    assert!(bytes > 0);
    report("full scan, per row", start, rows);
    let start = Instant::now();
    cursor.begin(&mut trx, 1, LockChoice::default(), true).expect("begin");
    let mut more = cursor.seek(&mut trx, crate::btree::Seek::First, &[]).expect("seek");
    while more {
        more = cursor.next(&mut trx).expect("next");
    }
    report("covering index scan, per row", start, rows);
    fixture.engine.commit(&mut trx, false).expect("commit");
}

fn change_all(fixture: &TableFixture) {
    let store = fixture.store();
    let mut trx = fixture.begin(Isolation::RepeatableRead);
    let mut cursor = store.cursor(fixture.table.clone());
    let x = LockChoice {
        mode: Some(LockMode::Exclusive),
        ..Default::default()
    };
    let start = Instant::now();
    for i in 0..ROWS {
        let n = i.wrapping_mul(0x9e37_79b9) % ROWS;
        assert!(cursor.get(&mut trx, &key_of(n), x).expect("get"));
    }
    report("locking point read", start, ROWS);
    let start = Instant::now();
    for i in 0..ROWS {
        let n = i.wrapping_mul(0x9e37_79b9) % ROWS;
        store
            .rows()
            .update(&mut trx, &fixture.table, &key_of(n), &row(n + 1), &[], false)
            .expect("update");
    }
    report("update of a locked row, no index", start, ROWS);
    fixture.engine.commit(&mut trx, false).expect("commit");
    let mut trx = fixture.begin(Isolation::RepeatableRead);
    let start = Instant::now();
    for i in 0..ROWS {
        let n = i.wrapping_mul(0x9e37_79b9) % ROWS;
        let (old, new) = (
            group_key(n.wrapping_mul(0x9e37_79b9) % 1000, n),
            group_key(5000 + n % 77, n),
        );
        let change = EntryChange {
            user_key_len: 8,
            old_key: &old,
            new_key: &new,
            ..Default::default()
        };
        store
            .rows()
            .update(&mut trx, &fixture.table, &key_of(n), &row(n + 2), &[change], false)
            .expect("update");
    }
    report("update that moves one secondary entry", start, ROWS);
    let start = Instant::now();
    fixture.engine.rollback(&mut trx).expect("rollback");
    report("its rollback, per row", start, ROWS);
    let start = Instant::now();
    let before = fixture.engine.counters().purged_records.get();
    fixture.purge_all();
    report(
        "purge, per record",
        start,
        (fixture.engine.counters().purged_records.get() - before).max(1),
    );
}
