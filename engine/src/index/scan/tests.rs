//! A plain scan against a sorted map: any range, direction and batch size, turns, changes between
//! batches.
use super::{Batch, Direction, Limit, Scan};
use crate::btree::tests::fixture::{delete, fixture_with_tree, index_of, put, Rng};
use crate::btree::Intent;
use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Included, Unbounded};
use Direction::{Backward, Forward};

type Keys = BTreeSet<Vec<u8>>;

fn key(n: usize) -> Vec<u8> {
    format!("k{n:05}{}", "x".repeat(n % 7)).into_bytes()
}

/// The key that the scan must return next.
fn next<'a>(keys: &'a Keys, last: Option<&[u8]>, lo: &[u8], hi: Option<&[u8]>, way: Direction) -> Option<&'a Vec<u8>> {
    let below = hi.map_or(Unbounded, Excluded);
    if hi.is_some_and(|hi| hi <= lo) {
        return None;
    }
    match (way, last) {
        (Forward, Some(last)) => keys.range::<[u8], _>((Excluded(last), Unbounded)).next(),
        (Forward, None) => keys.range::<[u8], _>((Included(lo), Unbounded)).next(),
        (Backward, Some(last)) => keys.range::<[u8], _>((Unbounded, Excluded(last))).next_back(),
        (Backward, None) => keys.range::<[u8], _>((Unbounded, below)).next_back(),
    }
    .filter(|key| key[..] >= *lo && hi.is_none_or(|hi| key[..] < *hi))
}

#[test]
fn any_range_direction_and_batch() {
    const SPREAD: usize = 6000;
    let (fixture, tree) = fixture_with_tree(1, 512);
    let pool = &*fixture.pool;
    let mut rng = Rng(1);
    let mut keys = Keys::new();
    for _ in 0..4000 {
        let key = key(rng.below(SPREAD));
        put(pool, &tree, &key, &key);
        keys.insert(key);
    }
    let mut batch = Batch::new();
    for round in 0..400 {
        let lo = if rng.below(4) == 0 {
            Vec::new()
        } else {
            key(rng.below(SPREAD))
        };
        let hi = (rng.below(4) > 0).then(|| key(rng.below(SPREAD)));
        let mut scan = Scan::new(&index_of(&tree), &lo, hi.as_deref());
        let mut way = if round % 2 == 0 { Forward } else { Backward };
        let mut last: Option<Vec<u8>> = None;
        let entries = [1, 3, 50, 1000][rng.below(4)];
        loop {
            let bytes = if rng.below(3) == 0 { 100 } else { 1 << 20 };
            let n = scan.fill(pool, &mut batch, way, Limit { entries, bytes }).unwrap();
            assert!(n <= entries && n == batch.len());
            for i in 0..n {
                let expected = next(&keys, last.as_deref(), &lo, hi.as_deref(), way);
                assert_eq!(Some(&batch.key(i).to_vec()), expected, "round {round}");
                assert_eq!(batch.value(i), batch.key(i));
                let place = batch.place(i).unwrap();
                let leaf = tree.revisit(pool, place.page, place.version, place.slot).unwrap();
                assert_eq!(leaf.key(), batch.key(i));
                drop(leaf);
                assert!(scan.is_unchanged(pool, &batch, i));
                last = Some(batch.key(i).to_vec());
            }
            if n == 0 {
                assert_eq!(
                    next(&keys, last.as_deref(), &lo, hi.as_deref(), way),
                    None,
                    "round {round}"
                );
                break;
            }
            match rng.below(40) {
                0 => way = if way == Forward { Backward } else { Forward },
                1 => {
                    // Only a part of the batch was used.
                    last = Some(batch.key(rng.below(n)).to_vec());
                    scan.go_on_from(last.as_ref().unwrap(), false);
                }
                2..=8 => {
                    let key = key(rng.below(SPREAD));
                    if keys.remove(&key) {
                        delete(pool, &tree, &key, Intent::Leaf);
                    } else {
                        put(pool, &tree, &key, &key);
                        keys.insert(key);
                    }
                }
                _ => {}
            }
        }
    }
}

#[test]
fn go_on_from_may_include_the_key() {
    let (fixture, tree) = fixture_with_tree(1, 64);
    let pool = &*fixture.pool;
    for n in 0..100 {
        put(pool, &tree, &key(n), b"");
    }
    let mut batch = Batch::new();
    let mut scan = Scan::new(&index_of(&tree), &key(10), Some(&key(90)));
    let mut first = |scan: &mut Scan, way| {
        let n = scan
            .fill(pool, &mut batch, way, Limit { entries: 1, bytes: 1 })
            .unwrap();
        (n > 0).then(|| batch.key(0).to_vec())
    };
    for (way, inclusive, expected) in [
        (Forward, true, 50),
        (Forward, false, 51),
        (Backward, true, 50),
        (Backward, false, 49),
    ] {
        scan.go_on_from(&key(50), inclusive);
        assert_eq!(first(&mut scan, way), Some(key(expected)));
    }
    scan.go_on_from(&key(89), false);
    assert_eq!(first(&mut scan, Forward), None);
    assert_eq!(first(&mut scan, Forward), None);
    scan.restart(&key(20), None);
    assert_eq!(first(&mut scan, Backward), Some(key(99)));
}

#[test]
fn a_long_scan_reads_ahead() {
    let (fixture, tree) = fixture_with_tree(1, 64);
    let pool = &*fixture.pool;
    for n in 0..20_000usize {
        put(pool, &tree, &(n as u64).to_be_bytes(), &[1; 100]);
    }
    for way in [Forward, Backward] {
        let mut batch = Batch::new();
        let mut scan = Scan::new(&index_of(&tree), &[], None);
        let limit = Limit {
            entries: 100,
            bytes: 1 << 20,
        };
        let mut seen = 0;
        while scan.fill(pool, &mut batch, way, limit).unwrap() > 0 {
            seen += batch.len();
        }
        assert_eq!(seen, 20_000);
    }
    assert!(tree.read_ahead(pool, Some(&key(3)), false, 64).is_ok());
    let none: &[u8] = &[];
    assert_eq!(tree.read_ahead(pool, Some(none), false, 10).unwrap(), 10);
    assert_eq!(tree.read_ahead(pool, None, true, 10).unwrap(), 10);
    assert_eq!(tree.read_ahead(pool, Some(none), true, 10).unwrap(), 0);
}
