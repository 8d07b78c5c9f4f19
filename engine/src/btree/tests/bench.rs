//! What the basic operations cost, in memory. Smoke size by default, so that it never rots; for figures:
//! `cargo test --release -p sluice btree::tests::bench -- --ignored --nocapture`
use super::kit::*;
use crate::btree::{begin, Intent, Tree};
use crate::index::scan::{Batch, Direction, Limit, Scan};
use crate::pool::Pool;
use std::hint::black_box;
use std::time::Instant;

fn key(n: u64) -> [u8; 9] {
    // As the codec makes a BIGINT: a byte for NULL, sign bit turned.
    let mut key = [1; 9];
    key[1..].copy_from_slice(&(n ^ 1 << 63).to_be_bytes());
    key
}
fn per_op(what: &str, n: u64, each: impl FnOnce()) {
    let start = Instant::now();
    each();
    println!("{what:34} {:8.0} ns", start.elapsed().as_nanos() as f64 / n as f64);
}
fn insert(pool: &Pool, tree: &Tree, key: &[u8], value: &[u8]) {
    for intent in [Intent::Leaf, Intent::Grow(key.len() + value.len())] {
        let mut mtr = begin(pool).unwrap();
        let at = tree.leaf_for_write(&mut mtr, key, intent, None).unwrap();
        if !at.found && tree.insert(&mut mtr, &at, key, value).unwrap() == crate::btree::Placed::NoRoom {
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
    let value = [7u8; 100];
    let (rig, tree) = rig_with_tree(1, frames);
    let pool = &*rig.pool;
    let inserts = |tree: &Tree, shuffled: bool| {
        let mut dice = Dice(5);
        for i in 0..n {
            let n = if shuffled { dice.next() >> 12 } else { i * 2 };
            insert(pool, tree, &key(n), &value);
            if i % 20_000 == 19_999 {
                settle(pool);
            }
        }
    };
    let log = || pool.counters().redo_log_bytes.get();
    let before = log();
    per_op("insert, ascending (100-byte value)", n, || inserts(&tree, false));
    println!("{:34} {:8} bytes of log", "", (log() - before) / n);
    let other = add_tree(pool, 6);
    let before = log();
    per_op("insert, random", n, || inserts(&other, true));
    println!("{:34} {:8} bytes of log", "", (log() - before) / n);
    println!("{:?}", tree.stats(pool).unwrap());
    let mut dice = Dice(9);
    per_op("get, random keys", n, || {
        for _ in 0..n {
            let n = dice.below(n as usize) as u64 * 2;
            black_box(tree.get(pool, &key(n)).unwrap().unwrap().value()[0]);
        }
    });
    per_op("get, one leaf", n, || {
        for i in 0..n {
            black_box(tree.get(pool, &key(i % 50 * 2)).unwrap().unwrap().value()[0]);
        }
    });
    let mut batch = Batch::new();
    let limit = Limit {
        entries: 128,
        bytes: 1 << 20,
    };
    for direction in [Direction::Forward, Direction::Backward] {
        per_op(&format!("scan, {direction:?}, per entry"), n, || {
            let mut scan = Scan::new(tree, &[], None);
            let mut seen = 0;
            while scan.fill(pool, &mut batch, direction, limit).unwrap() > 0 {
                seen += batch.len() as u64;
            }
            assert_eq!(seen, n);
        });
    }
    let mut changed = value;
    per_op("set_value, same length", n, || {
        for i in 0..n {
            let mut mtr = begin(pool).unwrap();
            let at = tree
                .leaf_for_write(&mut mtr, &key(dice.below(n as usize) as u64 * 2), Intent::Leaf, None)
                .unwrap();
            changed[50] = i as u8;
            tree.set_value(&mut mtr, &at, &changed).unwrap();
            mtr.commit();
            if i % 20_000 == 19_999 {
                settle(pool);
            }
        }
    });
    per_op("remove", n, || {
        for i in 0..n {
            delete(pool, &tree, &key(i * 2), Intent::Leaf);
            if i % 20_000 == 19_999 {
                settle(pool);
            }
        }
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
