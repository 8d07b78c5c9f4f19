//! Appenders at the bound, several at once.
use super::*;
use crate::base::sync_point::at;
use crate::base::SyncPoint;
use crate::btree::tests::fixture::{checkpoint, FILE};
use crate::change::delta::tree::delta_key;
use crate::change::testing::fixture::new_index;
use crate::change::{submit, sweep_step, Buffering, Op};
use crate::pool::testing::PoolFixture;
use crate::pool::PAGE_SIZE;
use crate::space::file_name;
use std::sync::atomic::AtomicBool;

const KEYS: u32 = 100_000;
const THREADS: u32 = 8;
const LONG: usize = 800;

fn value(len: usize) -> Vec<u8> {
    let mut value = Vec::new();
    crate::entry::secondary::encode(&mut value, 1, 4, 4, &vec![7; len]);
    value
}
/// Of a key in each of so many stretches of the index, the `n`th.
fn key(stretch: u32, of: u32, n: u32) -> [u8; 5] {
    let base = KEYS / of * stretch + n;
    let mut key = [1; 5];
    key[..4].copy_from_slice(&base.to_be_bytes());
    key
}
fn put(pool: &Pool, index: &IndexTrees, key: &[u8], len: usize) {
    let value = value(len);
    submit(pool, index, Op::Put { key, value: &value }).unwrap();
}
/// An index of many leaves, with a bound that is soon reached.
fn large(rig: &PoolFixture) -> IndexTrees {
    let (pool, index) = (&*rig.pool, new_index(&rig.pool, 1));
    let buffer = index.delta.as_ref().unwrap().buffer();
    buffer.set_buffering(Buffering::None);
    (0..KEYS).for_each(|n| put(pool, &index, &n.to_be_bytes(), 4));
    buffer.set_buffering(Buffering::All);
    buffer.set_max_size(0, pool.size());
    index
}
/// As if much had come before the bound was made smaller: nobody helps meanwhile. Some for each stretch; so many at most.
fn fill(pool: &Pool, index: &IndexTrees, stretches: u32, len: usize) -> u32 {
    let delta = index.delta.as_deref().unwrap();
    for each in 0.. {
        for stretch in 0..stretches {
            let (key, value) = (key(stretch, stretches, each), value(len));
            let op = Op::Put {
                key: &key,
                value: &value,
            };
            assert!(delta.append(pool, &op).unwrap());
            if delta.buffer().help_every() == 1 {
                return each + 1;
            }
        }
    }
    0
}

/// All went to the leaf that the sweep stood at: one merged it, and the others waited for it, found nothing left and had appended an entry each.
#[test]
fn appenders_that_help_at_once_merge_a_leaf_each() {
    let rig = PoolFixture::create(1, 1024);
    let (pool, index) = (&*rig.pool, large(&rig));
    let delta = index.delta.as_deref().unwrap();
    let each = fill(pool, &index, 100, 300);
    assert!(each > 5);
    let counters = pool.counters();
    let (entries, buffered) = (delta.entries(), counters.change_buffer_buffered_inserts.get());
    let first = delta.next_key(pool, &[]).unwrap().expect("something is pending");
    std::thread::scope(|scope| {
        let latched = index.tree.leaf_owning(pool, &first).unwrap();
        for thread in 0..THREADS {
            let index = &index;
            scope.spawn(move || put(pool, index, &key(50 + thread, 100, each), 300));
        }
        while counters.change_buffer_buffered_inserts.get() < buffered + THREADS as u64 {
            std::thread::yield_now();
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
        drop(latched);
    });
    let helped = counters.change_buffer_throttled.get();
    assert_eq!(
        (helped, counters.change_buffer_merged_leaves.get()),
        (THREADS as u64, helped)
    );
    let left = entries + THREADS as u64 - delta.entries();
    assert!(left >= (each * THREADS) as u64 / 2, "{left} entries were merged");
    assert!(
        delta.expected_yield() > each as u64 / 2,
        "{} expected",
        delta.expected_yield()
    );
}

/// Each leaf got less than there were appenders: what was pending grew without an end. A sweep does as the worker does.
#[test]
fn however_many_append_the_bound_holds() {
    let rig = PoolFixture::create(2, 1024);
    let (pool, index) = (&*rig.pool, large(&rig));
    let (delta, done) = (index.delta.as_deref().unwrap(), AtomicBool::new(false));
    let each = fill(pool, &index, 1000, LONG);
    let (most, before) = (delta.buffer().bytes_max(), delta.bytes());
    let room = before / delta.entries() * 2 * THREADS as u64;
    let a_while = || std::thread::sleep(std::time::Duration::from_millis(1));
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let index = &index;
                scope.spawn(move || {
                    for n in 0..300 {
                        let dice = crc32c::crc32c(&(n * THREADS + thread).to_be_bytes());
                        // As long as a page takes to be read.
                        at(SyncPoint::MergedToBeCounted, a_while);
                        put(pool, index, &key(dice % 1000, 1000, each + dice / 1000 % 60), LONG);
                        let bytes = delta.bytes();
                        assert!(bytes <= most + room, "{bytes} of {most}, append {n} of thread {thread}");
                    }
                })
            })
            .collect();
        let sweeper = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                sweep_step(pool, &index, 64).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
        });
        let ends: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        done.store(true, Ordering::Relaxed);
        sweeper.join().unwrap();
        ends.into_iter().for_each(|end| end.unwrap());
    });
    assert!(before >= most / 100 * 99 && pool.counters().change_buffer_throttled.get() > 0);
}

/// The cursor stood at what a broken leaf of the delta tree holds, and whoever helped came back with its error and nothing done: for ever.
#[test]
fn a_delta_leaf_that_cannot_be_read_keeps_no_helper_from_the_others() {
    let rig = PoolFixture::create(3, 1024);
    let (pool, index) = (&*rig.pool, large(&rig));
    let delta = index.delta.as_deref().unwrap();
    let each = fill(pool, &index, 100, LONG);
    checkpoint(pool);
    let (oldest, newest) = delta.range();
    assert!(newest > oldest + 2, "{oldest} {newest}");
    let broken = delta_key(oldest, &key(20, 100, 0));
    let broken = delta.tree.leaf_number(pool, &broken).unwrap();
    pool.flush_all().unwrap();
    pool.discard_file(FILE);
    rig.disk
        .flip(&file_name(FILE), broken as u64 * PAGE_SIZE as u64 + 500, 4);
    let (most, before) = (delta.buffer().bytes_max(), delta.entries());
    for n in 0..4000u32 {
        put(pool, &index, &key(60 + n % 40, 100, each + n / 40), LONG);
        let bytes = delta.bytes();
        assert!(bytes <= most + most / 4, "{bytes} of {most}, append {n}");
    }
    let merged = before + 4000 - delta.entries();
    assert!(merged > 2000, "{merged} entries were merged");
    assert!(delta.next_key(pool, &key(20, 100, 0)).is_err(), "it is broken still");
}
