//! What an append and a merge cost, in memory. Smoke size by default; for figures:
//! `cargo test --release -p sluice change::testing::bench_tests -- --ignored --nocapture`
use crate::btree::build::Builder;
use crate::btree::tests::fixture::{checkpoint, fixture_with_tree, Rng, FILE};
use crate::btree::Tree;
use crate::change::{drain, submit, Buffering, ChangeBuffer, Delta, IndexTrees, Op, DELTA_BIT};
use crate::entry::secondary::encode;
use crate::pool::Pool;
use std::sync::Arc;

/// CPU nanoseconds of this thread. Other work on the machine does not count.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse().unwrap()
}
fn key(n: u64) -> [u8; 17] {
    let mut key = [1; 17];
    key[1..9].copy_from_slice(&(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_be_bytes());
    key[9..].copy_from_slice(&n.to_be_bytes());
    key
}
fn value() -> Vec<u8> {
    let mut value = Vec::new();
    encode(&mut value, 77, 8, 8, &[]);
    value
}
fn flush_and_checkpoint(pool: &Pool) {
    let lsn = pool.redo().lsn();
    pool.redo().flush(lsn, crate::redo::FlushMode::Write).unwrap();
    checkpoint(pool);
}
/// Appends `n` puts of new keys; CPU time each.
fn put_all(pool: &Pool, index: &IndexTrees, from: u64, n: u64, what: &str) {
    let value = value();
    let log = pool.counters().redo_log_bytes.get();
    let mut spent = 0;
    for at in (0..n).step_by(20_000) {
        let start = cpu_ns();
        for i in at..n.min(at + 20_000) {
            submit(
                pool,
                index,
                Op::Put {
                    key: &key(from + i),
                    value: &value,
                },
            )
            .unwrap();
        }
        spent += cpu_ns() - start;
        flush_and_checkpoint(pool);
    }
    let log = pool.counters().redo_log_bytes.get() - log;
    println!("{what:34} {:8} ns {:6} bytes of log", spent / n, log / n);
}

fn run(rows: u64, appends: u64, frames: usize) {
    let (fixture, tree) = fixture_with_tree(1, frames);
    let pool = &*fixture.pool;
    // A built index: leaves are nearly full, as after CREATE INDEX.
    let mut keys: Vec<_> = (0..rows).map(key).collect();
    keys.sort_unstable();
    let mut builder = Builder::new(pool, tree, 94);
    let value = value();
    for key in &keys {
        builder.push(key, &value).unwrap();
    }
    builder.finish().unwrap();
    flush_and_checkpoint(pool);
    let mut mtr = pool.begin();
    let delta = Tree::create(&mut mtr, FILE, tree.index | DELTA_BIT).unwrap();
    mtr.commit();
    let buffer = Arc::new(ChangeBuffer::new(Buffering::All, 50, pool.size(), 1));
    let with = |delta: Option<Arc<Delta>>| IndexTrees { tree, delta };
    let index = with(Some(Arc::new(Delta::fresh(delta, &buffer))));
    let leaves = tree.stats(pool).unwrap().leaf_pages;
    let mut at = rows;
    for round in 1..=2 {
        put_all(pool, &index, at, appends, "append");
        at += appends;
        let (log, start) = (pool.counters().redo_log_bytes.get(), cpu_ns());
        let entries = drain(pool, &index).unwrap() as u64;
        let spent = cpu_ns() - start;
        let log = pool.counters().redo_log_bytes.get() - log;
        flush_and_checkpoint(pool);
        println!(
            "merge, round {round}: {leaves} leaves, {:.1} entries a leaf: {:.1} us a leaf, {} ns and {} bytes of log an entry",
            entries as f64 / leaves as f64,
            spent as f64 / leaves as f64 / 1000.0,
            spent / entries,
            log / entries,
        );
    }
    // The same changes to the leaves themselves: without a delta tree, and with one that lets them
    // pass.
    put_all(pool, &with(None), at, appends, "direct, without a delta tree");
    let near = Arc::new(ChangeBuffer::new(Buffering::All, 50, pool.size(), 0));
    let passing = with(Some(Arc::new(Delta::fresh(delta, &near))));
    put_all(
        pool,
        &passing,
        at + appends,
        appends,
        "direct, past an empty delta tree",
    );
    let mut rng = Rng(3);
    let start = cpu_ns();
    for _ in 0..appends {
        let key = key(rng.below(at as usize) as u64);
        submit(pool, &passing, Op::Mark { key: &key, stamp: 99 }).unwrap();
    }
    println!("{:34} {:8} ns", "direct mark", (cpu_ns() - start) / appends);
}

#[test]
fn smoke() {
    run(5000, 1500, 512);
}

#[test]
#[ignore = "a measurement"]
fn figures() {
    run(1_000_000, 200_000, 16_384);
}
