//! A merged scan against a sorted map: entries in the base or pending at random, both directions,
//! turns, batch sizes. Changes, appends, new partitions and merges happen between fills. Point and
//! prefix reads return the same. Then all of that at once, in threads.
use super::Direction::{Backward, Forward};
use super::{Batch, Direction, Limit, Scan};
use crate::btree::tests::fixture::Rng;
use crate::btree::Tree;
use crate::change::fixture::new_index;
use crate::change::{self, Delta, Op, DENSE_READS_PER_MERGE};
use crate::index::secondary;
use crate::index::Index;
use crate::pool::testing::PoolFixture;
use crate::pool::Pool;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::atomic::{AtomicBool, Ordering};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const SPREAD: usize = 3000;

fn key(n: usize) -> Vec<u8> {
    format!("k{n:05}{}", "x".repeat(n % 7)).into_bytes()
}
fn value(stamp: u64, len: usize) -> Vec<u8> {
    let mut value = Vec::new();
    secondary::encode(&mut value, stamp, 1, 1, &vec![b'v'; len]);
    value
}
struct Run {
    fixture: PoolFixture,
    index: Index,
    model: Model,
    rng: Rng,
}

impl Run {
    fn new(seed: u64) -> Run {
        let fixture = PoolFixture::create(seed, 512);
        let trees = new_index(&fixture.pool, 0);
        let index = Index::new("i", false, trees.tree, trees.delta);
        let (model, rng) = (Model::new(), Rng(seed));
        Run {
            fixture,
            index,
            model,
            rng,
        }
    }
    fn delta(&self) -> &Delta {
        self.index.delta.as_ref().unwrap()
    }
    fn key(&mut self) -> Vec<u8> {
        key(self.rng.below(SPREAD))
    }
    /// Puts, marks or removes the entry of a random key; buffered or not.
    fn change(&mut self) -> Vec<u8> {
        let key = self.key();
        let buffered = self.rng.below(2) as u8;
        self.delta().buffer().set_test_mode(buffered);
        let new = value(self.rng.below(9) as u64 + 1, self.rng.below(60));
        let (kind, stamp) = (self.rng.below(3), self.rng.below(9) as u64 + 1);
        let old = self.model.get(&key).cloned();
        let op = match (&old, kind) {
            (Some(old), 0) => {
                let old = secondary::decode(old, 1).unwrap();
                self.model.remove(&key);
                Op::Remove {
                    key: &key,
                    if_stamp: old.stamp,
                    marked: old.marked,
                }
            }
            (Some(old), 1) => {
                let mut marked = value(stamp, 0);
                marked[0] = secondary::DELETE_MARK;
                marked.extend_from_slice(&old[marked.len()..]);
                self.model.insert(key.clone(), marked);
                Op::Mark { key: &key, stamp }
            }
            _ => {
                self.model.insert(key.clone(), new.clone());
                Op::Put { key: &key, value: &new }
            }
        };
        change::submit(&self.fixture.pool, &self.index, op).unwrap();
        key
    }
    /// The entry that must come next.
    fn next(&self, last: Option<&[u8]>, lo: &[u8], hi: Option<&[u8]>, way: Direction) -> Option<(&Vec<u8>, &Vec<u8>)> {
        if hi.is_some_and(|hi| hi <= lo) {
            return None;
        }
        let below = hi.map_or(Unbounded, Excluded);
        match (way, last) {
            (Forward, Some(last)) => self.model.range::<[u8], _>((Excluded(last), Unbounded)).next(),
            (Forward, None) => self.model.range::<[u8], _>((Included(lo), Unbounded)).next(),
            (Backward, Some(last)) => self.model.range::<[u8], _>((Unbounded, Excluded(last))).next_back(),
            (Backward, None) => self.model.range::<[u8], _>((Unbounded, below)).next_back(),
        }
        .filter(|(key, _)| key[..] >= *lo && hi.is_none_or(|hi| key[..] < *hi))
    }
    fn scan(&mut self, what: &str) {
        let pool = self.fixture.pool.clone();
        let lo = if self.rng.below(4) == 0 { Vec::new() } else { self.key() };
        let hi = (self.rng.below(4) > 0).then(|| self.key());
        let hi = hi.as_deref();
        let mut scan = Scan::new(&self.index, &lo, hi);
        let mut way = if self.rng.below(2) == 0 { Forward } else { Backward };
        let mut last: Option<Vec<u8>> = None;
        let entries = [1, 3, 50, 1000][self.rng.below(4)];
        let mut batch = Batch::new();
        loop {
            let bytes = if self.rng.below(3) == 0 { 100 } else { 1 << 20 };
            let n = scan.fill(&pool, &mut batch, way, Limit { entries, bytes }).unwrap();
            assert!(n <= entries && n == batch.len());
            for i in 0..n {
                let expected = self.next(last.as_deref(), &lo, hi, way);
                let found = (batch.key(i).to_vec(), batch.value(i).to_vec());
                assert_eq!(Some((&found.0, &found.1)), expected, "{what}");
                last = Some(found.0);
            }
            if n == 0 {
                assert_eq!(self.next(last.as_deref(), &lo, hi, way), None, "{what}");
                return;
            }
            match self.rng.below(40) {
                0 => way = if way == Forward { Backward } else { Forward },
                1 => {
                    // Only a part of the batch was used.
                    last = Some(batch.key(self.rng.below(n)).to_vec());
                    scan.go_on_from(last.as_ref().unwrap(), false);
                }
                2..=20 => {
                    let changed = self.change();
                    let at = (0..n).find(|i| batch.key(*i) == changed);
                    if let Some(i) = at.filter(|i| scan.is_unchanged(&pool, &batch, *i)) {
                        assert_eq!(self.model.get(&changed).map(Vec::as_slice), Some(batch.value(i)));
                    }
                }
                21..=25 => {
                    let key = self.key();
                    change::merge_leaf(&pool, &self.index, &key).unwrap();
                }
                26 => self.delta().begin_partition(),
                27 if self.rng.below(10) == 0 => {
                    // Nothing is pending: the scan continues by the plain way.
                    change::drain(&pool, &self.index).unwrap();
                    assert!(self.delta().is_empty());
                }
                _ => {}
            }
        }
    }
    fn point_reads(&mut self, what: &str) {
        let pool = self.fixture.pool.clone();
        let mut value = Vec::new();
        for _ in 0..100 {
            let key = self.key();
            let found = change::get(&pool, &self.index, &key, &mut value).unwrap();
            assert_eq!(found.then_some(&value), self.model.get(&key), "{what}");
            let prefix = &key[..2 + self.rng.below(key.len() - 1)];
            let mut seen = Vec::new();
            let each = &mut |key: &[u8], value: &[u8]| {
                seen.push((key.to_vec(), value.to_vec()));
                Ok(seen.len() < 100)
            };
            change::visit_prefix(&pool, &self.index, prefix, each).unwrap();
            let of_model = self.model.range::<[u8], _>((Included(prefix), Unbounded));
            let expected = of_model.take_while(|(k, _)| k.starts_with(prefix)).take(100);
            assert!(seen.iter().map(|(k, v)| (k, v)).eq(expected), "{what}: {prefix:?}");
        }
        change::check(&pool, &self.index, &mut || Ok(()), &mut |finding| {
            panic!("{what}: {finding}")
        })
        .unwrap();
    }
}

#[test]
fn any_range_direction_and_batch_with_changes_pending() {
    for seed in 1..=4 {
        let mut run = Run::new(seed);
        for round in 0..100 {
            for _ in 0..50 {
                run.change();
            }
            run.scan(&format!("seed {seed}, round {round}"));
            run.point_reads(&format!("seed {seed}, round {round}"));
        }
    }
}

/// Entries are pending where the base has a single empty leaf, and after its last entry.
#[test]
fn pending_entries_of_an_empty_base_are_found_from_both_ends() {
    let mut run = Run::new(1);
    let pool = run.fixture.pool.clone();
    run.delta().buffer().set_test_mode(1);
    for n in 0..10 {
        let (key, value) = (key(n), value(3, n));
        let op = Op::Put {
            key: &key,
            value: &value,
        };
        change::submit(&pool, &run.index, op).unwrap();
        run.model.insert(key, value);
    }
    assert_eq!(run.index.tree.stats(&pool).unwrap().leaf_pages, 1);
    for way in [Forward, Backward] {
        let mut scan = Scan::new(&run.index, &[], None);
        let mut batch = Batch::new();
        let limit = Limit {
            entries: 3,
            bytes: 1000,
        };
        let mut seen = 0;
        while scan.fill(&pool, &mut batch, way, limit).unwrap() > 0 {
            assert!((0..batch.len()).all(|i| batch.place(i).is_none()));
            seen += batch.len();
        }
        assert_eq!(seen, 10);
    }
    let estimate = run.delta().estimate_range(&pool, Some(&key(2)), Some(&key(7))).unwrap();
    assert_eq!(estimate, 5);
}

/// A dense leaf that is read repeatedly is reported once. The scan continues after its merge.
#[test]
fn a_dense_leaf_is_reported_once() {
    let run = Run::new(1);
    let pool = &*run.fixture.pool;
    run.delta().buffer().set_test_mode(1);
    for n in 0..40 {
        let (key, value) = (key(n), value(3, n));
        let op = Op::Put {
            key: &key,
            value: &value,
        };
        change::submit(pool, &run.index, op).unwrap();
    }
    let mut value = Vec::new();
    assert!(change::get(pool, &run.index, &key(3), &mut value).unwrap());
    assert!(!run.delta().is_empty(), "a point read merges nothing");
    let mut scan = Scan::new(&run.index, &[], None);
    let mut batch = Batch::new();
    let limit = Limit {
        entries: 5,
        bytes: 1000,
    };
    for reads in 1..DENSE_READS_PER_MERGE {
        let mut scan = Scan::new(&run.index, &[], None);
        assert_eq!(scan.fill(pool, &mut Batch::new(), Forward, limit).unwrap(), 5);
        assert!(!run.delta().is_empty(), "{reads} reads merge nothing");
    }
    assert_eq!(scan.fill(pool, &mut batch, Forward, limit).unwrap(), 5);
    let dense = scan.take_dense().expect("40 are pending for one leaf");
    assert_eq!(scan.take_dense(), None);
    change::merge_leaf(pool, &run.index, &dense).unwrap();
    assert!(run.delta().is_empty());
    assert_eq!(scan.fill(pool, &mut batch, Forward, limit).unwrap(), 5);
    assert_eq!(batch.key(0), key(5));
}

/// Writers, mergers and readers at once: every scan meets each entry that is never removed once, in
/// order, with a value that the entry had.
#[test]
fn readers_meet_every_entry_once_while_all_else_moves() {
    const STABLE: usize = 600;
    let run = Run::new(5);
    let (pool, index) = (&*run.fixture.pool, &run.index);
    let delta = run.delta();
    delta.buffer().set_test_mode(2);
    let put = |n: usize, stamp: u64| {
        let (key, value) = (key(n), value(stamp, n % 50));
        let op = Op::Put {
            key: &key,
            value: &value,
        };
        change::submit(pool, index, op).unwrap();
    };
    (0..STABLE).for_each(|n| put(n * 2, 1));
    let stop = AtomicBool::new(false);
    let going = || !stop.load(Ordering::Relaxed);
    std::thread::scope(|s| {
        for writer in 0..2usize {
            s.spawn(move || {
                let mut rng = Rng(writer as u64);
                while going() {
                    // Each key has one writer, as it has one owner of its row's lock.
                    let n = rng.below(STABLE) / 2 * 2 + writer;
                    match rng.below(3) {
                        0 => put(n * 2, 1 + rng.below(9) as u64),
                        1 => put(n * 2 + 1, 1),
                        _ => {
                            let (key, marked) = (key(n * 2 + 1), false);
                            let op = Op::Remove {
                                key: &key,
                                if_stamp: 1,
                                marked,
                            };
                            change::submit(pool, index, op).unwrap();
                        }
                    }
                }
            });
        }
        s.spawn(|| {
            let mut rng = Rng(9);
            while going() {
                match rng.below(3) {
                    0 => drop(change::merge_leaf(pool, index, &key(rng.below(STABLE * 2))).unwrap()),
                    1 => drop(change::sweep_step(pool, index, 2).unwrap()),
                    _ => delta.begin_partition(),
                }
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        let readers: Vec<_> = [Forward, Backward]
            .map(|way| s.spawn(move || (0..60).for_each(|n| read_stable(pool, index, way, STABLE, 1 + n * 7))))
            .into();
        let ended: Vec<_> = readers.into_iter().map(|r| r.join()).collect();
        stop.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok));
    });
    change::check(pool, index, &mut || Ok(()), &mut |finding| panic!("{finding}")).unwrap();
    change::drain(pool, index).unwrap();
    assert!(delta.is_empty());
    read_stable(pool, index, Forward, STABLE, 100);
}

fn read_stable(pool: &Pool, index: &Index, way: Direction, stable: usize, entries: usize) {
    let expected: Vec<_> = (0..stable).map(|n| key(n * 2)).collect();
    let mut scan = Scan::new(index, &[], None);
    let (mut batch, mut seen) = (Batch::new(), Vec::new());
    let limit = Limit {
        entries,
        bytes: 1 << 16,
    };
    while scan.fill(pool, &mut batch, way, limit).unwrap() > 0 {
        for i in 0..batch.len() {
            let n: usize = std::str::from_utf8(&batch.key(i)[1..6]).unwrap().parse().unwrap();
            if n % 2 == 0 {
                let found = secondary::decode(batch.value(i), 1).unwrap();
                assert!(!found.marked && found.raw.len() == n % 50);
                seen.push(batch.key(i).to_vec());
            }
        }
    }
    if way == Backward {
        seen.reverse();
    }
    assert!(seen == expected, "{way:?}: {} of {stable}", seen.len());
}

/// A scan of ten entries took batches of 1, 4 and 16. Each time it descended the delta tree once
/// for each partition, and collected all pending entries of the rest of the leaf.
#[test]
fn a_short_range_looks_once_into_each_partition() {
    let run = Run::new(1);
    let pool = run.fixture.pool.clone();
    run.delta().buffer().set_test_mode(1);
    let put_all = |part: usize| {
        for n in (0..SPREAD).filter(|n| n % 3 == part) {
            let (key, value) = (key(n), value(3, 20));
            let op = Op::Put {
                key: &key,
                value: &value,
            };
            change::submit(&pool, &run.index, op).unwrap();
        }
    };
    put_all(0);
    change::drain(&pool, &run.index).unwrap();
    put_all(1);
    run.delta().begin_partition();
    put_all(2);
    let mut scan = Scan::new(&run.index, &key(600), None);
    let limit = Limit {
        entries: scan.least_batch(),
        bytes: 1000,
    };
    let mut batch = Batch::new();
    let requests = || {
        pool.update_gauges();
        pool.counters().buffer_pool_read_requests.get()
    };
    let before = requests();
    assert!(scan.fill(&pool, &mut batch, Forward, limit).unwrap() >= 10);
    let asked = requests() - before;
    assert!((0..batch.len()).all(|i| batch.key(i) == key(600 + i)));
    let height = |tree: &Tree| tree.stats(&pool).unwrap().height as u64;
    let descents = height(&run.index.tree) + 2 * height(&run.delta().tree);
    assert!(
        asked <= descents + 1,
        "{asked} page requests, {descents} for the ways down"
    );
}
