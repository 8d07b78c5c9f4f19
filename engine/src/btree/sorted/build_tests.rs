//! Sorted builds: the result is the tree that inserts would make, only fuller. An unfinished build
//! loses no page.
use crate::btree::build::Builder;
use crate::btree::node::CAPACITY;
use crate::btree::tests::fixture::*;
use crate::btree::{Seek, Tree, TreeRemover};
use crate::pool::testing::PoolFixture;
use crate::pool::Pool;
use crate::space;

fn build(pool: &Pool, tree: Tree, fill: u32, entries: &[(Vec<u8>, Vec<u8>)]) -> u64 {
    let mut builder = Builder::new(pool, tree, fill);
    for (key, value) in entries {
        builder.push(key, value).unwrap();
    }
    builder.finish().unwrap()
}

fn numbers(n: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
    (0..n)
        .map(|i| ((i * 3).to_be_bytes().to_vec(), vec![i as u8; 20 + (i % 50) as usize]))
        .collect()
}

#[test]
fn builds_of_every_size_are_sound() {
    for n in [0, 1, 2, 50, 150, 300, 500, 5000, 60_000] {
        let (fixture, tree) = fixture_with_tree(n, 1024);
        let entries = numbers(n);
        assert_eq!(build(&fixture.pool, tree, 100, &entries), n);
        assert_eq!(check(&fixture.pool, &tree, true).entries, n);
        for (key, value) in entries.iter().step_by(97) {
            assert_eq!(tree.get(&fixture.pool, key).unwrap().unwrap().value(), value);
        }
    }
}

#[test]
fn fill_is_kept_and_leaves_lie_in_order() {
    for fill in [50, 93, 100] {
        let (fixture, tree) = fixture_with_tree(1, 1024);
        let entries = numbers(50_000);
        build(&fixture.pool, tree, fill, &entries);
        let report = check(&fixture.pool, &tree, true);
        let bytes: usize = entries.iter().map(|(k, v)| 10 + k.len() + v.len()).sum();
        let is = 100.0 * bytes as f64 / (report.leaf_pages as usize * CAPACITY) as f64;
        assert!((is - fill as f64).abs() < 2.5, "{is:.1} instead of {fill}");
        let mut leaf = tree.seek(&fixture.pool, Seek::First, &[]).unwrap().unwrap();
        let (mut steps, mut neighbours) = (0, 0);
        loop {
            let no = leaf.page_no();
            let Some(next) = tree.next_leaf(&fixture.pool, leaf).unwrap() else {
                break;
            };
            steps += 1;
            neighbours += (next.page_no() == no + 1) as u32;
            leaf = next;
        }
        assert!(neighbours * 100 >= steps * 90, "{neighbours} of {steps}");
    }
}

#[test]
fn long_keys_and_values() {
    build_long(fixture_with_tree(3, 2048));
    build_long(fixture_with_wide_tree(3, 4096));
}

fn build_long((fixture, tree): (PoolFixture, Tree)) {
    let (key_max, entry_max) = (tree.key_max(), tree.entry_max());
    let mut entries = Vec::new();
    let mut rng = Rng(3);
    for i in 0..600u64 {
        let mut key = vec![b'k'; 8 + rng.below(key_max - 8)];
        if i % 3 == 0 {
            key.resize(key_max, b'k');
        }
        key.splice(0..0, []);
        let from = key.len() - 8;
        key[from..].copy_from_slice(&i.to_be_bytes());
        let value = vec![1; rng.below(entry_max - key.len() + 1)];
        entries.push((key, value));
    }
    entries.sort();
    build(&fixture.pool, tree, 100, &entries);
    assert_eq!(check(&fixture.pool, &tree, true).entries, 600);
    for (key, _) in &entries {
        put(&fixture.pool, &tree, key, &[9; 30]);
    }
    check(&fixture.pool, &tree, true);
}

#[test]
fn an_unfinished_build_leaves_a_tree_that_can_be_freed() {
    let (fixture, tree) = fixture_with_tree(4, 1024);
    let mut builder = Builder::new(&fixture.pool, tree, 100);
    for (key, value) in numbers(30_000) {
        builder.push(&key, &value).unwrap();
    }
    drop(builder);
    assert!(check(&fixture.pool, &tree, true).entries > 29_000);
    TreeRemover::new(&fixture.pool, &tree).remove().unwrap();
    assert_eq!(space::usage(&fixture.pool, FILE).unwrap().used, 2);
}
