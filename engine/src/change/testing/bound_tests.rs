//! Several threads at the bound, each with keys of its own and a model of them, while other threads
//! sweep, close and begin partitions. Then everything is read again: after a drain, or after a
//! crash.
use super::fixture::{found_again, new_index};
use crate::base::bytes::{get_u48, put_u48};
use crate::btree::tests::fixture::checkpoint;
use crate::change::{drain, get, merge_at_random, submit, sweep_step, visit_prefix, IndexTrees, Op};
use crate::entry::secondary::{encode, DELETE_MARK};
use crate::pool::testing::PoolFixture;
use crate::pool::Pool;
use crate::redo::FlushMode;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

const THREADS: u32 = 8;
const CHANGES: u32 = 1500;
const KEYS: u32 = 600;

type Model = BTreeMap<u32, Vec<u8>>;

fn random(of: &[u32]) -> u32 {
    of.iter().fold(0, |crc, n| crc32c::crc32c_append(crc, &n.to_be_bytes()))
}
fn value(stamp: u64) -> Vec<u8> {
    let len = [20, 300, 900, 1500][stamp as usize % 4];
    let mut value = Vec::new();
    encode(&mut value, stamp, 4, 4, &vec![stamp as u8; len]);
    value
}
fn set_head(value: &mut [u8], flags: u8, stamp: u64) {
    value[0] = flags;
    put_u48(value, 1, stamp);
}

/// One change of a key, and of its model.
fn change(pool: &Pool, index: &IndexTrees, model: &mut Model, k: u32, stamp: u64, random: u32) {
    let key = &k.to_be_bytes();
    let old = model.get(&k).map(|v| (v[0] & DELETE_MARK != 0, get_u48(v, 1)));
    let submit = |op| {
        submit(pool, index, op).unwrap();
    };
    match (old, random % 4) {
        (None, _) | (Some(_), 0) => {
            let value = value(stamp);
            submit(Op::Put { key, value: &value });
            model.insert(k, value);
        }
        (Some((false, _)), 1) => {
            submit(Op::Mark { key, stamp });
            set_head(model.get_mut(&k).unwrap(), DELETE_MARK, stamp);
        }
        (Some((true, if_stamp)), 2) => {
            submit(Op::Unmark {
                key,
                if_stamp,
                stamp,
                value: None,
            });
            set_head(model.get_mut(&k).unwrap(), 0, stamp);
        }
        (Some((marked, if_stamp)), _) => {
            submit(Op::Remove { key, if_stamp, marked });
            model.remove(&k);
        }
    }
}
fn change_many(pool: &Pool, index: &IndexTrees, seed: u32, thread: u32) -> Model {
    let (mut model, mut out) = (Model::new(), Vec::new());
    for n in 0..CHANGES {
        let random = [random(&[seed, n, thread]), random(&[thread, seed, n])];
        let [k, other] = random.map(|random| random % KEYS * THREADS + thread);
        change(pool, index, &mut model, k, n as u64 + 1, random[0] >> 16);
        for k in [k, other] {
            let there = get(pool, index, &k.to_be_bytes(), &mut out).unwrap();
            assert_eq!(
                there.then_some(&out),
                model.get(&k),
                "seed {seed}, thread {thread}, change {n}, key {k}"
            );
        }
    }
    model
}
/// The work of the worker, and of checkpoints.
fn others(pool: &Pool, index: &IndexTrees, done: &AtomicBool) {
    let delta = index.delta.as_deref().unwrap();
    for n in 0.. {
        if done.load(Ordering::Relaxed) {
            return;
        }
        match random(&[n]) % 4 {
            0 => drop(sweep_step(pool, index, 1 + n as usize % 40).unwrap()),
            1 => delta.close_if_idle(),
            2 if n % 16 == 0 => delta.begin_partition(),
            _ => drop(merge_at_random(pool, index, random(&[n, n]) as u64 * 77_777).unwrap()),
        }
        if pool.redo().age() > pool.redo().capacity() / 4 {
            checkpoint(pool);
        }
        sleep(Duration::from_micros(300));
    }
}
fn compare(pool: &Pool, index: &IndexTrees, models: &[Model]) {
    let mut seen = 0;
    visit_prefix(pool, index, &[], &mut |key, value| {
        let k = u32::from_be_bytes(key.try_into().unwrap());
        let model = &models[(k % THREADS) as usize];
        assert_eq!(model.get(&k).map(|v| &v[..]), Some(value), "key {k}");
        seen += 1;
        Ok(true)
    })
    .unwrap();
    assert_eq!(seen, models.iter().map(BTreeMap::len).sum::<usize>());
}

#[test]
fn at_the_bound_nothing_is_lost_doubled_or_overtaken() {
    for seed in 0..4 {
        let frames = [96, 200][seed as usize / 2];
        let fixture = PoolFixture::create(100 + seed as u64, frames);
        let (pool, index) = (&*fixture.pool, &new_index(&fixture.pool, 1));
        let delta = index.delta.as_deref().unwrap();
        delta.buffer().set_max_size(0, pool.size());
        let done = &AtomicBool::new(false);
        let models: Vec<Model> = std::thread::scope(|scope| {
            let others = scope.spawn(move || others(pool, index, done));
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| scope.spawn(move || change_many(pool, index, seed, thread)))
                .collect();
            let ends: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
            done.store(true, Ordering::Relaxed);
            others.join().unwrap();
            ends.into_iter().map(|end| end.unwrap()).collect()
        });
        let helped = pool.counters().change_buffer_throttled.get();
        assert!(helped > 100, "{helped} leaves were merged by appenders");
        let in_tree = delta.tree.verify(pool, &mut |_, _| None).unwrap().entries;
        assert_eq!(delta.entries(), in_tree);
        compare(pool, index, &models);
        if seed % 2 == 1 {
            drain(pool, index).unwrap();
            let buffer = delta.buffer();
            let totals = (buffer.bytes(), buffer.totals.newest_bytes(), buffer.totals.idle_bytes());
            assert_eq!((delta.entries(), delta.bytes(), totals), (0, 0, (0, 0, 0)));
            compare(pool, index, &models);
            continue;
        }
        pool.redo().flush(pool.redo().lsn(), FlushMode::Sync).unwrap();
        let again = PoolFixture::recover(fixture.disk.crash(seed as u64), frames, &mut |_, _| ());
        let found = found_again(&again.pool, index, 1);
        compare(&again.pool, &found, &models);
        drain(&again.pool, &found).unwrap();
        assert!(found.delta.as_ref().unwrap().is_empty());
        compare(&again.pool, &found, &models);
    }
}
