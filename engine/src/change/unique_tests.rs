//! A unique value that is there is never reported as lacking, while leaves come and go, are split,
//! merged into, and emptied. Against a map, one step at a time; and with threads against each
//! other.
use super::*;
use crate::btree::tests::fixture::Rng;
use crate::change::fixture::new_unique_index;
use crate::change::{drain, merge_leaf, submit, submit_checked, sweep_step, visit_value, Buffering};
use crate::index::secondary;
use crate::pool::testing::PoolFixture;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::Mutex;

/// Fewer frames than leaves for the values below.
const FRAMES: usize = 40;
const VALUES: u32 = 3000;

fn value_of(n: u32) -> Vec<u8> {
    // Some values are the beginning of another, and some end with the highest byte.
    let mut value = (n / 3).wrapping_mul(0x9e37_79b1).to_be_bytes().to_vec();
    value.resize(4 + (n % 3) as usize, 0xff);
    value
}
fn key_of(n: u32, pk: u32) -> Vec<u8> {
    [&value_of(n)[..], &pk.to_be_bytes()].concat()
}
fn entry_of(stamp: u64, pk_fixed_len: usize) -> Vec<u8> {
    let mut entry = Vec::new();
    secondary::encode(&mut entry, stamp, 4, pk_fixed_len, &[7; crate::pool::PAGE_SIZE / 40]);
    entry
}
/// Clustered keys of the entries that have the value.
fn found(pool: &Pool, index: &IndexTrees, n: u32) -> Vec<u32> {
    let value = value_of(n);
    let mut pks = Vec::new();
    visit_value(pool, index, &value, &mut |key, entry| {
        let pk_len = index.delta.as_ref().unwrap().summary.values.pk_len().unwrap_or(0);
        if key.len() == value.len() + secondary::decode(entry, pk_len).unwrap().pk_len {
            pks.push(u32::from_be_bytes(key[value.len()..].try_into().unwrap()));
        }
        Ok(true)
    })
    .unwrap();
    pks
}
fn lacks(pool: &Pool, index: &IndexTrees, n: u32, pk: u32) -> bool {
    lacks_value(pool, index, &key_of(n, pk), value_of(n).len()).unwrap()
}
fn put_seen(pool: &Pool, index: &IndexTrees, key: &[u8], value: &[u8]) {
    submit_checked(pool, index, Op::Put { key, value }).unwrap();
}
fn spared(pool: &Pool) -> u64 {
    pool.counters().change_buffer_unique_checks_spared.get()
}
/// Evicts every page that can be evicted.
fn flood(pool: &Pool, index: &IndexTrees) {
    pool.flush_all().unwrap();
    for n in 0..VALUES {
        found(pool, index, n);
    }
}

struct Steps {
    fixture: PoolFixture,
    index: IndexTrees,
    pk_len: usize,
    /// Value -> clustered key of its entry.
    model: BTreeMap<u32, u32>,
}

impl Steps {
    fn new(seed: u64, mode: u8, pk_len: usize) -> Steps {
        let fixture = PoolFixture::create(seed, FRAMES);
        let index = new_unique_index(&fixture.pool, mode, pk_len);
        index.delta.as_ref().unwrap().was_found(Presence::Absent, 100);
        Steps {
            fixture,
            index,
            pk_len,
            model: BTreeMap::new(),
        }
    }
    fn insert(&mut self, n: u32, pk: u32) {
        let (pool, index) = (&*self.fixture.pool, &self.index);
        let is_lacking = lacks(pool, index, n, pk);
        if let Some(there) = self.model.get(&n) {
            assert!(!is_lacking, "value {n} of row {there}");
            return;
        }
        let (key, value) = (key_of(n, pk), entry_of(1, self.pk_len));
        if is_lacking {
            assert!(put_unseen(pool, index, &key, &value).unwrap());
        } else {
            assert_eq!(found(pool, index, n), []);
            put_seen(pool, index, &key, &value);
        }
        self.model.insert(n, pk);
    }
    fn remove(&mut self, n: u32) {
        if let Some(pk) = self.model.remove(&n) {
            let key = &key_of(n, pk);
            let (if_stamp, marked) = (1, false);
            submit(&self.fixture.pool, &self.index, Op::Remove { key, if_stamp, marked }).unwrap();
        }
    }
    fn step(&mut self, rng: &mut Rng) {
        let n = rng.below(VALUES as usize) as u32;
        match rng.below(100) {
            0..=64 => self.insert(n, rng.below(1000) as u32),
            65..=89 => self.remove(n),
            90..=93 => drop(merge_leaf(&self.fixture.pool, &self.index, &value_of(n)).unwrap()),
            94 => drop(sweep_step(&self.fixture.pool, &self.index, 8).unwrap()),
            95 => self.index.delta.as_ref().unwrap().begin_partition(),
            96 => self.fixture.pool.flush_all().unwrap(),
            97 => self.index.delta.as_ref().unwrap().buffer().set_buffering(match n % 4 {
                0 => Buffering::None,
                1 => Buffering::Purges,
                _ => Buffering::All,
            }),
            _ => {
                for n in n..(n + 40).min(VALUES) {
                    let expected: Vec<u32> = self.model.get(&n).copied().into_iter().collect();
                    assert_eq!(found(&self.fixture.pool, &self.index, n), expected);
                }
            }
        }
    }
}

#[test]
fn a_value_that_is_there_is_never_reported_as_lacking() {
    let mut unseen = 0;
    for (seed, mode, pk_len) in [(1, 0, 4), (2, 1, 4), (3, 2, 4), (4, 0, 4), (5, 2, 0)] {
        let mut rng = Rng(seed);
        let mut steps = Steps::new(seed, mode, pk_len);
        for _ in 0..12_000 {
            steps.step(&mut rng);
        }
        for n in 0..VALUES {
            assert!(!(steps.model.contains_key(&n) && lacks(&steps.fixture.pool, &steps.index, n, 5)));
        }
        assert_eq!(
            spared(&steps.fixture.pool) > 100,
            pk_len > 0,
            "seed {seed}: {}",
            spared(&steps.fixture.pool)
        );
        unseen += spared(&steps.fixture.pool);
    }
    assert!(unseen > 1000, "{unseen}");
}

/// Each thread takes a value's mutex, looks, and puts. In the end no value is there twice.
#[test]
fn of_two_threads_with_one_value_one_finds_the_others() {
    const THREADS: u32 = 4;
    for pk_len in [4, 0] {
        let Steps { fixture, index, .. } = Steps::new(9, 0, pk_len);
        let guards: Vec<Mutex<()>> = (0..16).map(|_| Mutex::new(())).collect();
        let (done, puts) = (AtomicBool::new(false), AtomicU64::new(0));
        let (pool, index, guards, done, puts) = (&*fixture.pool, &index, &guards, &done, &puts);
        std::thread::scope(|scope| {
            let insert = |thread: u32| {
                let mut rng = Rng(100 + thread as u64);
                for _ in 0..6000 {
                    let n = rng.below(VALUES as usize) as u32;
                    let (key, value) = (key_of(n, thread), entry_of(1, pk_len));
                    let _guard = guards[n as usize % guards.len()].lock().unwrap();
                    if lacks(pool, index, n, thread) {
                        assert!(put_unseen(pool, index, &key, &value).unwrap());
                    } else if found(pool, index, n).is_empty() {
                        put_seen(pool, index, &key, &value);
                    } else {
                        continue;
                    }
                    puts.fetch_add(1, Ordering::Relaxed);
                    if rng.below(3) == 0 {
                        let key = &key[..];
                        let (if_stamp, marked) = (1, false);
                        submit(pool, index, Op::Remove { key, if_stamp, marked }).unwrap();
                    }
                }
            };
            let inserters: Vec<_> = (0..THREADS).map(|t| scope.spawn(move || insert(t))).collect();
            let others = [
                scope.spawn(move || {
                    while !done.load(Ordering::Relaxed) {
                        sweep_step(pool, index, 2).unwrap();
                        pool.flusher().step(0).unwrap();
                    }
                }),
                scope.spawn(move || {
                    let mut rng = Rng(7);
                    while !done.load(Ordering::Relaxed) {
                        let pks = found(pool, index, rng.below(VALUES as usize) as u32);
                        assert!(pks.len() <= 1, "{pks:?}");
                    }
                }),
            ];
            inserters.into_iter().for_each(|t| t.join().unwrap());
            done.store(true, Ordering::Relaxed);
            others.into_iter().for_each(|t| t.join().unwrap());
        });
        let all: Vec<Vec<u32>> = (0..VALUES).map(|n| found(pool, index, n)).collect();
        assert!(all.iter().all(|pks| pks.len() <= 1));
        let there = all.iter().filter(|pks| !pks.is_empty()).count() as u64;
        assert!(there > VALUES as u64 / 3 && there <= puts.load(Ordering::Relaxed));
        assert_eq!(spared(pool) > 0, pk_len > 0);
    }
}

/// U1: after a merge between the two questions the entry is in the leaf, and the leaf in the pool.
#[test]
fn an_entry_that_a_merge_brings_to_its_leaf_is_found() {
    let mut steps = Steps::new(3, 1, 4);
    (0..VALUES).step_by(2).for_each(|n| steps.insert(n, n));
    drain(&steps.fixture.pool, &steps.index).unwrap();
    flood(&steps.fixture.pool, &steps.index);
    let (pool, index) = (&*steps.fixture.pool, &steps.index);
    let n = (1..VALUES)
        .step_by(2)
        .find(|n| lacks(pool, index, *n, 1))
        .expect("the index lacks one of them");
    put_unseen(pool, index, &key_of(n, 1), &entry_of(1, 4)).unwrap();
    assert!(!lacks(pool, index, n, 2), "it is pending");
    merge_leaf(pool, index, &key_of(n, 1)).unwrap();
    assert!(!lacks(pool, index, n, 2), "its leaf is in the pool");
    drain(pool, index).unwrap();
    assert!(index.delta.as_ref().unwrap().is_empty());
    // The leaf is evicted again, with the entry.
    flood(pool, index);
    assert!(!lacks(pool, index, n, 2), "the leaf holds it");
    assert_eq!(found(pool, index, n), [1]);
}

#[test]
fn of_an_empty_index_or_a_single_leaf_every_value_is_looked_up() {
    let mut steps = Steps::new(4, 1, 4);
    assert!(!lacks(&steps.fixture.pool, &steps.index, 1, 1));
    steps.insert(1, 1);
    assert!(!lacks(&steps.fixture.pool, &steps.index, 2, 1));
    steps.index.delta.as_ref().unwrap().discard();
    assert!(!lacks(&steps.fixture.pool, &steps.index, 3, 1));
}
