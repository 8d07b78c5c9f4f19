//! The cost of the basic operations, in memory. Smoke size by default, so that the code keeps
//! working. For figures: `cargo test --release -p sluice btree::tests::bench -- --ignored
//! --nocapture`
use super::fixture::*;
use crate::btree::pages::begin;
use crate::btree::{Intent, Tree};
use crate::index::scan::{Batch, Direction, Limit, Scan};
use crate::pool::Pool;
use std::hint::black_box;

fn key(n: u64) -> [u8; 9] {
    // A BIGINT as the codec encodes it: a byte for NULL, sign bit inverted.
    let mut key = [1; 9];
    key[1..].copy_from_slice(&(n ^ 1 << 63).to_be_bytes());
    key
}
/// CPU nanoseconds of this thread: other work on the machine does not count.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse().unwrap()
}
/// CPU time for each operation, without the checkpoints in between.
fn per_op(pool: &Pool, what: &str, n: u64, mut each: impl FnMut(u64)) {
    let mut spent = 0;
    for from in (0..n).step_by(20_000) {
        let start = cpu_ns();
        (from..n.min(from + 20_000)).for_each(&mut each);
        spent += cpu_ns() - start;
        settle(pool);
    }
    println!("{what:34} {:8.0} ns", spent as f64 / n as f64);
}
fn insert(pool: &Pool, tree: &Tree, key: &[u8], value: &[u8]) {
    for intent in [Intent::Leaf, Intent::Grow(key.len() + value.len())] {
        let mut mtr = begin(pool).unwrap();
        let at = tree.leaf_for_write(&mut mtr, key, intent, None).unwrap();
        if !at.found && at.insert(&mut mtr, key, value).unwrap() == crate::btree::Placed::NoRoom {
            continue;
        }
        mtr.commit();
        return;
    }
}
fn settle(pool: &Pool) {
    let lsn = pool.redo().lsn();
    pool.redo().flush(lsn, crate::redo::FlushMode::Write).unwrap();
    checkpoint(pool);
}

fn run(n: u64, frames: usize) {
    let (fixture, tree) = fixture_with_tree(1, frames);
    let pool = &*fixture.pool;
    writes(pool, &tree, n);
    reads(pool, &tree, n);
    changes(pool, &tree, n);
}

fn writes(pool: &Pool, tree: &Tree, n: u64) {
    let other = add_tree(pool, 6);
    let mut rng = Rng(5);
    let log = || pool.counters().redo_log_bytes.get();
    let before = log();
    per_op(pool, "insert, ascending (100-byte value)", n, |i| {
        insert(pool, tree, &key(i * 2), &[7; 100])
    });
    println!("{:34} {:8} bytes of log", "", (log() - before) / n);
    let before = log();
    per_op(pool, "insert, random", n, |_| {
        insert(pool, &other, &key(rng.next() >> 12), &[7; 100])
    });
    println!("{:34} {:8} bytes of log", "", (log() - before) / n);
    println!("{:?}", tree.stats(pool).unwrap());
}

fn reads(pool: &Pool, tree: &Tree, n: u64) {
    let mut rng = Rng(9);
    let get = |n: u64| black_box(tree.get(pool, &key(n * 2)).unwrap().unwrap().value()[0]);
    per_op(pool, "get, random keys", n, |_| {
        get(rng.below(n as usize) as u64);
    });
    per_op(pool, "get, one leaf", n, |i| _ = get(i % 50));
    let limit = Limit {
        entries: 128,
        bytes: 1 << 20,
    };
    let mut batch = Batch::new();
    for direction in [Direction::Forward, Direction::Backward] {
        let mut scan = Scan::new(&index_of(tree), &[], None);
        per_op(pool, &format!("scan, {direction:?}, 128 entries"), n / 128, |_| {
            assert_eq!(scan.fill(pool, &mut batch, direction, limit).unwrap(), 128);
        });
    }
}

fn changes(pool: &Pool, tree: &Tree, n: u64) {
    let mut rng = Rng(9);
    per_op(pool, "set_value, same length", n, |i| {
        let key = key(rng.below(n as usize) as u64 * 2);
        let mut mtr = begin(pool).unwrap();
        let at = tree.leaf_for_write(&mut mtr, &key, Intent::Leaf, None).unwrap();
        let mut changed = [7; 100];
        changed[50] = i as u8;
        at.set_value(&mut mtr, &changed).unwrap();
        mtr.commit();
    });
    per_op(pool, "remove", n, |i| {
        delete(pool, tree, &key(i * 2), Intent::Leaf);
    });
}

#[test]
fn smoke() {
    run(2000, 256);
}

#[test]
#[ignore]
fn figures() {
    run(500_000, 16_384);
}
