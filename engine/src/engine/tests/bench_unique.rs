//! What random unique values cost, in a table larger than the pool and in one that is in memory.
//! Run with `cargo test --release --lib bench_unique -- --ignored --nocapture`.
use super::fixture::{config, TableFixture};
use crate::base::Counters;
use crate::engine::{Close, Config, Engine};
use crate::io::RealDisk;
use crate::table::{Entry, IndexSpec, NewRow, TableSpec};
use crate::txn::{Isolation, Trx};
use std::sync::atomic::Ordering;
use std::time::Instant;

const POOL: u64 = 12 << 20;
/// The unique index takes some three times the pool.
const ROWS: u64 = 800_000;
const NEW: u64 = 40_000;

fn value(n: u64) -> [u8; 8] {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}
fn insert(fixture: &TableFixture, trx: &mut Trx, n: u64) {
    let pk = n.to_be_bytes();
    let key = [value(n), pk].concat();
    let entry = Entry {
        index: 0,
        user_key_len: 8,
        has_null: false,
        key: &key,
        value: &[],
    };
    fixture
        .store()
        .rows()
        .insert(trx, &fixture.table, &NewRow::new(&pk, &[b'x'; 40], &[entry]), false)
        .expect("insert");
}
fn insert_all(fixture: &TableFixture, from: u64, to: u64) {
    for from in (from..to).step_by(500) {
        let mut trx = fixture.begin(Isolation::ReadCommitted);
        (from..to.min(from + 500)).for_each(|n| insert(fixture, &mut trx, n));
        fixture.engine.commit(&mut trx, false).expect("commit");
    }
}
fn figures(fixture: &TableFixture) -> Vec<u64> {
    fixture.store().pool.update_gauges();
    (0..Counters::NAMES.len())
        .map(|i| fixture.engine.counters().value(i))
        .collect()
}
fn report(fixture: &TableFixture, what: &str, before: &[u64], n: u64, start: Instant) {
    let now = figures(fixture);
    let of = |name: &str| {
        let at = Counters::NAMES.iter().position(|n| *n == name);
        at.map_or(0, |at| now[at].wrapping_sub(before[at])) as f64 / n as f64
    };
    println!(
        "{what:22} {:6.3} page requests, {:6.3} reads, {:6.3} pages read ahead, {:6.3} written, {:6.3} spared, {:6.3} looked for, {:5.1} us an insert",
        of("buffer_pool_read_requests"),
        of("buffer_pool_reads"),
        of("buffer_pool_read_ahead"),
        of("buffer_pool_pages_flushed"),
        of("change_buffer_unique_checks_spared"),
        of("change_buffer_unique_checks_read"),
        start.elapsed().as_micros() as f64 / n as f64,
    );
}

#[test]
#[ignore = "a measurement"]
fn random_unique_values() {
    measure("sluice-unique", POOL, ROWS);
}

#[test]
#[ignore = "a measurement"]
fn random_unique_values_in_memory() {
    measure("sluice-unique-memory", 40 * POOL, ROWS / 2);
}

fn measure(name: &str, pool: u64, rows: u64) {
    let dir = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let mut config = Config {
        buffer_pool_size: pool,
        redo_log_capacity: 64 << 20,
        ..config()
    };
    config.verify = false;
    let engine = Engine::open(RealDisk::open(&dir).expect("directory"), config).expect("engine");
    let spec = TableSpec {
        pk_fixed_len: 8,
        indexes: vec![IndexSpec {
            name: "by_value".into(),
            unique: true,
            wide: false,
            ..IndexSpec::default()
        }],
        ..TableSpec::default()
    };
    engine.store().tables().create_table("t", &spec).expect("create");
    let table = engine.store().tables().open_table("t").expect("open");
    engine.start_background();
    let fixture = TableFixture { engine, table };
    assert!(!fixture.store().verify.load(Ordering::Relaxed));
    let mut at = 0;
    for (what, n) in [("filled", rows), ("more", NEW), ("more", NEW), ("more", NEW)] {
        let (before, start) = (figures(&fixture), Instant::now());
        insert_all(&fixture, at, at + n);
        at += n;
        report(&fixture, what, &before, n, start);
    }
    let (before, start) = (figures(&fixture), Instant::now());
    fixture.store().merge_scheduler().drain_changes().expect("drain");
    report(&fixture, "merging the rest (each)", &before, 3 * NEW, start);
    fixture.engine.close(Close::LogOnly).expect("close");
    let _ = std::fs::remove_dir_all(&dir);
}
