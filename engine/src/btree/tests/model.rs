//! A tree is a sorted map: random changes and reads against a BTreeMap. The whole tree is checked
//! in between.
use super::fixture::*;
use crate::btree::{Intent, Seek, Tree, TreeRemover, ENTRY_MAX};
use crate::pool::testing::PoolFixture;
use crate::pool::Pool;
use std::collections::BTreeMap;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Kinds of keys and values: each makes other cases of the node format likely.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// Dense numbers, small rows: many entries in a page.
    Numbers,
    /// Short keys over few letters: prefixes of each other, equal heads.
    Letters,
    /// Keys up to the longest that share nearly all their bytes: long fences, deep trees.
    LongKeys,
    /// Long keys in groups.
    LongGroups,
    /// Values up to the largest, changing their length.
    LongValues,
}

impl Shape {
    fn key(self, rng: &mut Rng, tree: &Tree) -> Vec<u8> {
        match self {
            Shape::Numbers => (rng.below(5000) as u64).to_be_bytes().to_vec(),
            Shape::LongValues => (rng.below(300) as u32).to_be_bytes().to_vec(),
            Shape::Letters => {
                let n = rng.below(9);
                (0..n).map(|_| b"\0ab\xff"[rng.below(4)]).collect()
            }
            Shape::LongKeys => {
                let spread = if rng.below(3) == 0 { tree.key_max() - 9 } else { 9 };
                let mut key = vec![b'k'; tree.key_max() - rng.below(spread)];
                let from = key.len() - 8;
                key[from..].copy_from_slice(&(rng.below(2000) as u64).to_be_bytes());
                key
            }
            Shape::LongGroups => {
                // Keys of a group share a long beginning, and groups differ in their first bytes:
                // fences are long, and differ much from each other.
                let (group, n) = (rng.below(12) as u8, rng.below(60) as u64);
                let mut key = vec![b'a' + group; tree.key_max() - rng.below(40)];
                let from = key.len() - 8;
                key[from..].copy_from_slice(&n.to_be_bytes());
                key
            }
        }
    }
    fn value(self, rng: &mut Rng, tree: &Tree, key: &[u8]) -> Vec<u8> {
        let room = tree.entry_max() - key.len();
        let often = rng.below(4);
        let n = match self {
            Shape::Numbers => 20 + rng.below(30),
            Shape::Letters => rng.below(300),
            Shape::LongKeys | Shape::LongGroups if often > 0 => rng.below(room.min(50) + 1),
            Shape::LongValues if often > 1 => rng.below(400),
            Shape::LongKeys | Shape::LongGroups | Shape::LongValues => rng.below(room + 1),
        };
        vec![rng.below(256) as u8; n]
    }
}

fn run(seed: u64, shape: Shape, rounds: usize, steps: usize) {
    run_in(fixture_with_tree(seed, 256), seed, shape, rounds, steps);
}

fn run_wide(seed: u64, shape: Shape, rounds: usize, steps: usize) {
    run_in(fixture_with_wide_tree(seed, 512), seed, shape, rounds, steps);
}

fn run_in((fixture, tree): (PoolFixture, Tree), seed: u64, shape: Shape, rounds: usize, steps: usize) {
    let pool = &*fixture.pool;
    let mut rng = Rng(seed);
    let mut model = Model::new();
    for round in 0..rounds {
        // Rounds in which the tree mostly grows, then rounds in which it mostly shrinks.
        let deletes = [10, 30, 50, 85, 95][round % 5];
        for n in 0..steps {
            step(pool, &tree, &mut model, &mut rng, shape, deletes);
            if tree.is_wide() && n % 50 == 0 {
                // No worker makes room in the log here.
                pool.flush_all().unwrap();
                pool.redo().write_checkpoint(pool.checkpoint_lsn(), &[]).unwrap();
            }
        }
        let report = check(pool, &tree, true);
        assert_eq!(report.entries as usize, model.len());
        compare(pool, &tree, &model);
    }
    while let Some((key, _)) = model.pop_first() {
        assert!(delete(pool, &tree, &key, Intent::Leaf));
        if tree.is_wide() && model.len() % 50 == 0 {
            pool.flush_all().unwrap();
            pool.redo().write_checkpoint(pool.checkpoint_lsn(), &[]).unwrap();
        }
    }
    let report = check(pool, &tree, true);
    assert!(
        report.entries == 0 && report.pages.len() < 8 * tree.node_pages() as usize,
        "{} pages of nothing",
        report.pages.len()
    );
    TreeRemover::new(pool, &tree).remove().unwrap();
    TreeRemover::new(pool, &tree).remove().unwrap();
    assert_eq!(crate::space::usage(pool, FILE).unwrap().used, 2);
}

fn step(pool: &Pool, tree: &Tree, model: &mut Model, rng: &mut Rng, shape: Shape, deletes: usize) {
    let key = match model.range(shape.key(rng, tree)..).next() {
        Some((key, _)) if rng.below(3) == 0 => key.clone(),
        _ => shape.key(rng, tree),
    };
    if rng.below(100) < deletes {
        let intent = if rng.below(2) == 0 { Intent::Leaf } else { Intent::Merge };
        assert_eq!(delete(pool, tree, &key, intent), model.remove(&key).is_some());
    } else {
        let value = shape.value(rng, tree, &key);
        assert_eq!(put(pool, tree, &key, &value), model.insert(key, value).is_none());
    }
    probe(pool, tree, model, &shape.key(rng, tree));
}

/// Every way to find an entry, for one key.
fn probe(pool: &Pool, tree: &Tree, model: &Model, key: &[u8]) {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let owned = |e: Option<(&Vec<u8>, &Vec<u8>)>| e.map(|(k, v)| (k.clone(), v.clone()));
    let found = |seek: Seek| {
        let leaf = tree.seek(pool, seek, key).unwrap();
        leaf.map(|l| (l.key().to_vec(), l.value().to_vec()))
    };
    let range = |b: (std::ops::Bound<&[u8]>, std::ops::Bound<&[u8]>)| model.range::<[u8], _>(b);
    assert_eq!(found(Seek::Ge), owned(range((Included(key), Unbounded)).next()));
    assert_eq!(found(Seek::Gt), owned(range((Excluded(key), Unbounded)).next()));
    assert_eq!(found(Seek::Le), owned(range((Unbounded, Included(key))).next_back()));
    assert_eq!(found(Seek::Lt), owned(range((Unbounded, Excluded(key))).next_back()));
    let got = tree.get(pool, key).unwrap().map(|l| l.value().to_vec());
    assert_eq!(got.as_ref(), model.get(key));
}

/// The whole tree, by leaf steps in both directions.
fn compare(pool: &Pool, tree: &Tree, model: &Model) {
    let mut expected = model.iter();
    let mut at = tree.seek(pool, Seek::First, &[]).unwrap();
    while let Some(leaf) = at {
        for slot in leaf.slot()..leaf.len() {
            let (key, value) = expected.next().unwrap();
            assert_eq!(leaf.entry_at(slot), (&key[..], &value[..]));
        }
        at = tree.next_leaf(pool, leaf).unwrap();
    }
    assert!(expected.next().is_none());
    let mut expected = model.iter().rev();
    let mut at = tree.seek(pool, Seek::Last, &[]).unwrap();
    while let Some(leaf) = at {
        for slot in (0..=leaf.slot()).rev() {
            assert_eq!(leaf.key_at(slot), &expected.next().unwrap().0[..]);
        }
        at = tree.prev_leaf(pool, leaf).unwrap();
    }
    assert!(expected.next().is_none());
}

#[test]
fn numbers() {
    for seed in 0..3 {
        run(seed, Shape::Numbers, 10, 3000);
    }
}
#[test]
fn letters() {
    for seed in 10..13 {
        run(seed, Shape::Letters, 10, 1000);
    }
}
#[test]
fn long_keys() {
    for seed in 20..26 {
        run(seed, Shape::LongKeys, 10, 150);
    }
}
#[test]
fn long_keys_in_groups() {
    for seed in 40..43 {
        run(seed, Shape::LongGroups, 10, 150);
    }
}
#[test]
fn wide_trees_are_maps_too() {
    for seed in 50..52 {
        run_wide(seed, Shape::LongKeys, 10, 150);
        run_wide(seed, Shape::LongGroups, 10, 150);
    }
    run_wide(60, Shape::Letters, 5, 600);
    run_wide(61, Shape::Numbers, 5, 1500);
    run_wide(62, Shape::LongValues, 5, 300);
}
#[test]
fn long_values() {
    for seed in 30..34 {
        run(seed, Shape::LongValues, 10, 400);
    }
}

#[test]
fn ascending_and_descending_loads_leave_full_pages() {
    for descending in [false, true] {
        let (fixture, tree) = fixture_with_tree(1, 512);
        let n = 20_000u64;
        for i in 0..n {
            let key = if descending { n - i } else { i };
            put(&fixture.pool, &tree, &key.to_be_bytes(), &[1; 60]);
        }
        let report = check(&fixture.pool, &tree, true);
        let bytes = n as usize * (10 + 8 + 60);
        let fill = bytes as f64 / (report.leaf_pages as usize * crate::btree::node::CAPACITY) as f64;
        assert!(fill > 0.97, "descending {descending}: leaves are {fill:.2} full");
    }
}

#[test]
fn two_interleaved_ascending_runs_leave_full_pages() {
    let (fixture, tree) = fixture_with_tree(1, 512);
    let n = 10_000u64;
    for run in [0u64, 1 << 40] {
        for i in 0..n {
            put(&fixture.pool, &tree, &(run + i).to_be_bytes(), &[1; 60]);
        }
    }
    // A run in the middle, before existing keys.
    for i in 0..n {
        put(&fixture.pool, &tree, &((1 << 30) + i).to_be_bytes(), &[1; 60]);
    }
    let report = check(&fixture.pool, &tree, true);
    let fill = (3 * n as usize * 78) as f64 / (report.leaf_pages as usize * crate::btree::node::CAPACITY) as f64;
    assert!(fill > 0.95, "leaves are {fill:.2} full");
}

/// Under one parent; the tree has a root and leaves.
#[test]
fn estimates_of_short_ranges_are_exact() {
    let (fixture, tree) = fixture_with_tree(7, 1024);
    let mut rng = Rng(7);
    let mut keys: Vec<[u8; 8]> = (0..8_000).map(|_| (rng.next() >> 20).to_be_bytes()).collect();
    keys.sort_unstable();
    keys.dedup();
    for key in &keys {
        put(&fixture.pool, &tree, key, &[1; 40]);
    }
    let pool = &*fixture.pool;
    let borders: Vec<Vec<u8>> = {
        let mut leaf = tree.seek(pool, Seek::First, &[]).unwrap();
        std::iter::from_fn(|| {
            let at = leaf.take()?;
            let fence = at.upper_fence()?.to_vec();
            leaf = tree.next_leaf(pool, at).unwrap();
            Some(fence)
        })
        .collect()
    };
    let count = |lo: Option<&[u8]>, hi: Option<&[u8]>| {
        let inside = |k: &&[u8; 8]| lo.is_none_or(|lo| &k[..] >= lo) && hi.is_none_or(|hi| &k[..] < hi);
        keys.iter().filter(inside).count() as u64
    };
    let estimate = |lo: Option<&[u8]>, hi: Option<&[u8]>| tree.estimate_range(pool, lo, hi).unwrap();
    for (i, border) in borders.iter().enumerate() {
        for leaves in [0, 1, 2, 4] {
            let Some(end) = borders.get(i + leaves) else { break };
            let beyond = [&end[..], &[0]].concat();
            for hi in [end, &beyond] {
                assert_eq!(
                    estimate(Some(border), Some(hi)),
                    count(Some(border), Some(hi)),
                    "{border:?}..{hi:?}"
                );
            }
        }
    }
    for near in [3, 150, 400] {
        let (lo, hi) = (&keys[near][..], &keys[keys.len() - near][..]);
        assert_eq!(estimate(None, Some(lo)), count(None, Some(lo)), "..{lo:?}");
        assert_eq!(estimate(Some(hi), None), count(Some(hi), None), "{hi:?}..");
    }
    for _ in 0..2_000 {
        let from = rng.next() as usize % keys.len();
        let to = (from + rng.next() as usize % 300).min(keys.len() - 1);
        let (lo, hi) = (Some(&keys[from][..]), Some(&keys[to][..]));
        assert_eq!(estimate(lo, hi), count(lo, hi), "{lo:?}..{hi:?}");
    }
}

#[test]
fn estimates_are_near() {
    let (fixture, tree) = fixture_with_tree(7, 1024);
    let mut rng = Rng(7);
    let n = 40_000u64;
    for _ in 0..n {
        put(&fixture.pool, &tree, &(rng.next() >> 20).to_be_bytes(), &[1; 40]);
    }
    let pool = &*fixture.pool;
    let key = |share: f64| ((share * (1u64 << 44) as f64) as u64).to_be_bytes();
    for (lo, hi) in [(0.0, 1.0), (0.1, 0.2), (0.5, 0.9), (0.3, 0.301), (0.7, 0.7001)] {
        let estimate = tree.estimate_range(pool, Some(&key(lo)), Some(&key(hi))).unwrap() as f64;
        let mut truth = 0.0;
        tree.verify(pool, &mut |k, _| {
            truth += (k >= &key(lo)[..] && k < &key(hi)[..]) as u32 as f64;
            None
        })
        .unwrap();
        assert!(
            (estimate - truth).abs() <= truth * 0.3 + 2.0,
            "{lo}..{hi}: {estimate}, true {truth}"
        );
    }
    let all = tree.estimate_range(pool, None, None).unwrap() as f64;
    assert!((all / n as f64 - 1.0).abs() < 0.15, "{all}");
    assert_eq!(tree.estimate_range(pool, Some(&key(0.4)), Some(&key(0.4))).unwrap(), 0);
    for _ in 0..20 {
        assert!(!tree.random_leaf(pool).unwrap().unwrap().is_empty());
    }
}

#[test]
fn a_hint_finds_the_leaf_or_is_ignored() {
    let (fixture, tree) = fixture_with_tree(8, 256);
    let pool = &*fixture.pool;
    for i in 0..3000u64 {
        put(pool, &tree, &i.to_be_bytes(), &[1; 60]);
    }
    let page = tree.get(pool, &100u64.to_be_bytes()).unwrap().unwrap().page_no();
    for (key, hint) in [
        (100u64, page),
        (101, page),
        (2500, page),
        (100, tree.root),
        (100, 0),
        (100, 1),
        (100, 9999),
    ] {
        let mut mtr = pool.begin();
        let at = tree
            .leaf_for_write(&mut mtr, &key.to_be_bytes(), Intent::Leaf, Some(hint))
            .unwrap();
        assert!(at.found);
        assert_eq!(at.key(&mtr), key.to_be_bytes());
        mtr.commit();
    }
}

#[test]
fn revisit_finds_only_what_is_unchanged() {
    let (fixture, tree) = fixture_with_tree(9, 256);
    let pool = &*fixture.pool;
    for i in 0..3000u64 {
        put(pool, &tree, &i.to_be_bytes(), &[1; 60]);
    }
    let place = |key: u64| {
        let leaf = tree.get(pool, &key.to_be_bytes()).unwrap().unwrap();
        (leaf.page_no(), leaf.version(), leaf.slot())
    };
    let (page, version, slot) = place(1500);
    assert_eq!(
        tree.revisit(pool, page, version, slot).unwrap().key(),
        1500u64.to_be_bytes()
    );
    put(pool, &tree, &1501u64.to_be_bytes(), &[2; 60]);
    assert!(tree.revisit(pool, page, version, slot).is_none());
    // The right page of a merge is freed: no cursor comes back to it.
    let (page, version, slot) = place(1500);
    for i in 0..3000u64 {
        if i != 1500 {
            delete(pool, &tree, &i.to_be_bytes(), Intent::Leaf);
        }
    }
    assert!(tree.revisit(pool, page, version, slot).is_none());
    assert_eq!(check(pool, &tree, true).height, 1);
}

#[test]
fn a_full_file_fails_before_anything_changes() {
    const BIG: usize = ENTRY_MAX / 2;
    let (fixture, tree) = fixture_with_tree(10, 256);
    let pool = &*fixture.pool;
    let mut n = 0u64;
    let full = loop {
        let key = n.to_be_bytes();
        let mut mtr = pool.begin();
        let at = tree
            .leaf_for_write(&mut mtr, &key, Intent::Grow(8 + BIG), None)
            .unwrap();
        match at.insert(&mut mtr, &key, &[3; BIG]) {
            Ok(_) => mtr.commit(),
            Err(e) => {
                assert!(!mtr.has_changes());
                break e;
            }
        };
        n += 1;
        if n % 100 == 0 {
            checkpoint(pool);
        }
        if n == 10_000 {
            leave_space(&fixture.disk, 1 << 20);
        }
        assert!(n < 20_000);
    };
    assert!(matches!(full, crate::base::Error::Full(_)), "{full}");
    assert_eq!(check(pool, &tree, true).entries, n);
    assert!(delete(pool, &tree, &5u64.to_be_bytes(), Intent::Leaf));
    put(pool, &tree, &5u64.to_be_bytes(), &[3; BIG / 2]);
}

#[test]
fn damage_is_found_and_named() {
    let (fixture, tree) = fixture_with_tree(11, 256);
    let pool = &*fixture.pool;
    for i in 0..3000u64 {
        put(pool, &tree, &i.to_be_bytes(), &[1; 60]);
    }
    let leaf = tree.get(pool, &1500u64.to_be_bytes()).unwrap().unwrap().page_no();
    let key_at = {
        let page = pool.read(tree.page_id(leaf)).unwrap();
        crate::btree::node::Node::new(&page).value_at(3) - 1
    };
    let spoil = |no: u32, at: usize, byte: u8| {
        let mut mtr = pool.begin();
        let page = mtr.write(tree.page_id(no)).unwrap();
        let old = mtr.bytes(page)[at];
        mtr.edit(page, at, &[byte]);
        mtr.commit();
        old
    };
    // A right link, a common prefix, a fence, a key in the heap, a page type.
    for at in [52, 40, 46, key_at, 24] {
        let old = spoil(leaf, at, 0xF3);
        let findings = tree.verify(pool, &mut |_, _| None).unwrap().findings;
        assert!(
            findings.iter().any(|f| f.contains(&format!("page {leaf}:"))),
            "byte {at}: {findings:?}"
        );
        spoil(leaf, at, old);
    }
    let mut mtr = pool.begin();
    crate::space::free(&mut mtr, &[tree.page_id(leaf)]).unwrap();
    mtr.commit();
    let findings = tree.verify(pool, &mut |_, _| None).unwrap().findings;
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].contains("marked free"));
}
