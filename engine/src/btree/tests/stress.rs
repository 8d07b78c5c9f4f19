//! Threads on one tree in a pool much smaller than the tree: writers with own keys and with shared
//! keys, scanners in both directions, readers.
//!
//! Every scan and read sees the stable keys at any time. At the end the tree is sound and holds the
//! entries that its writers expect.
use super::fixture::*;
use crate::btree::{Intent, Seek, Tree, ENTRY_MAX, KEY_MAX};
use crate::index::scan::{Batch, Direction, Limit, Scan};
use crate::pool::Pool;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

const KEYS: usize = 20_000;
/// One of so many keys is written once, before the threads begin.
const STABLE: usize = 16;
const WRITERS: usize = 4;
const STEPS: usize = 20_000;

fn key(n: usize) -> Vec<u8> {
    // Varying lengths, some long.
    let mut key = (n as u64).to_be_bytes().to_vec();
    key.resize(8 + n % 40 + if n % 50 == 1 { KEY_MAX / 6 } else { 0 }, b'.');
    key
}
fn value(n: usize, len: usize) -> Vec<u8> {
    let mut value = (n as u64).to_be_bytes().to_vec();
    value.resize(8 + len, n as u8);
    value
}
fn assert_belongs(key: &[u8], value: &[u8]) {
    assert!(value.len() >= 8 && value[..8] == key[..8], "another key's value");
    assert!(value[8..].iter().all(|b| *b == key[7]));
}

/// Writers 0 and 1 have own keys; writers 2 and 3 share theirs.
fn write(pool: &Pool, tree: &Tree, writer: usize) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut rng = Rng(writer as u64);
    let mut mine = BTreeMap::new();
    let class = writer.min(2);
    for step in 0..STEPS {
        let n = if step % 3 == 0 {
            step * 7 % KEYS
        } else {
            rng.below(KEYS)
        };
        let n = n / STABLE * STABLE + 1 + rng.below(5) * 3 + class;
        let mut key = key(n);
        // Waves of growth and of emptying.
        if rng.below(100) < [10, 95][step / 2000 % 2] {
            if let Some((near, _)) = mine.range(key.clone()..).next().or(mine.iter().next()) {
                key.clone_from(near);
            }
            let intent = if rng.below(8) == 0 { Intent::Merge } else { Intent::Leaf };
            let found = delete(pool, tree, &key, intent);
            let known = mine.remove(&key).is_some();
            assert!(class == 2 || found == known);
        } else {
            let long = if rng.below(20) == 0 {
                ENTRY_MAX / 2
            } else {
                ENTRY_MAX / 8
            };
            let value = value(n, rng.below(long));
            let new = put(pool, tree, &key, &value);
            let known = mine.insert(key, value).is_some();
            assert!(class == 2 || new != known);
        }
    }
    mine
}

fn scan(pool: &Pool, tree: &Tree, direction: Direction, seed: u64, stop: &AtomicBool) -> usize {
    let mut rng = Rng(seed);
    let mut batch = Batch::new();
    let mut rounds = 0;
    while !stop.load(SeqCst) {
        let (lo, hi) = (rng.below(KEYS / 2), KEYS / 2 + rng.below(KEYS / 2));
        let mut scan = Scan::new(&index_of(tree), &key(lo), Some(&key(hi)));
        let mut last: Option<Vec<u8>> = None;
        let mut stable = 0;
        let limit = Limit {
            entries: 1 + rng.below(500),
            bytes: 1 << 16,
        };
        while scan.fill(pool, &mut batch, direction, limit).unwrap() > 0 {
            for i in 0..batch.len() {
                let (key, value) = batch.entry(i);
                assert_belongs(key, value);
                if let Some(last) = &last {
                    assert!(if direction == Direction::Forward {
                        &last[..] < key
                    } else {
                        &last[..] > key
                    });
                }
                last = Some(key.to_vec());
                let n = u64::from_be_bytes(key[..8].try_into().unwrap()) as usize;
                stable += (n % STABLE == 0) as usize;
            }
        }
        let expected = (lo..hi).filter(|n| n % STABLE == 0).count();
        assert_eq!(stable, expected, "a stable key was passed over or met twice");
        rounds += 1;
    }
    rounds
}

fn read(pool: &Pool, tree: &Tree, stop: &AtomicBool) {
    let mut rng = Rng(99);
    while !stop.load(SeqCst) {
        let n = rng.below(KEYS) / STABLE * STABLE;
        let leaf = tree.get(pool, &key(n)).unwrap().expect("a stable key is always there");
        assert_belongs(leaf.key(), leaf.value());
        drop(leaf);
        let leaf = tree.seek(pool, Seek::Lt, &key(n + 1)).unwrap().unwrap();
        assert!(leaf.key() <= &key(n)[..] || leaf.key() < &key(n + 1)[..]);
        drop(leaf);
        tree.estimate_range(pool, Some(&key(n / 2)), Some(&key(n))).unwrap();
    }
}

#[test]
fn writers_scanners_and_readers() {
    let (fixture, tree) = fixture_with_tree(1, 64);
    let pool = &*fixture.pool;
    for n in (0..KEYS).step_by(STABLE) {
        put(pool, &tree, &key(n), &value(n, 50));
    }
    let stop = AtomicBool::new(false);
    let running = AtomicUsize::new(WRITERS);
    let kept: Vec<_> = std::thread::scope(|s| {
        let (stop, running, tree) = (&stop, &running, &tree);
        for (seed, direction) in [Direction::Forward, Direction::Backward].into_iter().enumerate() {
            s.spawn(move || assert!(scan(pool, tree, direction, seed as u64, stop) > 0));
        }
        s.spawn(move || read(pool, tree, stop));
        s.spawn(move || {
            while !stop.load(SeqCst) {
                pool.flusher().step(32).unwrap();
                pool.redo().write_checkpoint(pool.checkpoint_lsn(), &[]).unwrap();
                // A finding beside writers would be a false alarm.
                let report = tree.verify(pool, &mut |_, _| None).unwrap();
                assert!(report.findings.is_empty(), "{:?}", report.findings);
            }
        });
        let writers: Vec<_> = (0..WRITERS)
            .map(|w| {
                s.spawn(move || {
                    let mine = write(pool, tree, w);
                    running.fetch_sub(1, SeqCst);
                    mine
                })
            })
            .collect();
        let kept = writers.into_iter().map(|w| w.join()).collect();
        stop.store(true, SeqCst);
        kept
    });
    let report = check(pool, &tree, true);
    assert!(report.height >= 2);
    for mine in kept.into_iter().take(2) {
        for (key, value) in mine.unwrap() {
            assert_eq!(
                tree.get(pool, &key).unwrap().expect("a key of one writer").value(),
                value
            );
        }
    }
    let counters = pool.counters();
    let (splits, merges) = (counters.page_splits.get(), counters.page_merges.get());
    let evicted = counters.buffer_pool_pages_evicted.get();
    assert!(
        splits > 100 && merges > 50 && evicted > 1000,
        "the test must move pages: {splits} splits, {merges} merges, {evicted} evictions"
    );
}

#[test]
fn one_hot_spot() {
    // All threads at the right end: the descent races with root and leaf splits.
    for round in 0..8u64 {
        let (fixture, tree) = fixture_with_tree(round, 256);
        let pool = &*fixture.pool;
        let next = AtomicUsize::new(0);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| loop {
                    let n = next.fetch_add(1, SeqCst);
                    if n >= 4000 {
                        break;
                    }
                    assert!(put(pool, &tree, &(n as u64).to_be_bytes(), &value(n, 100 + n % 200)));
                });
            }
        });
        assert_eq!(check(pool, &tree, true).entries, 4000);
    }
}
