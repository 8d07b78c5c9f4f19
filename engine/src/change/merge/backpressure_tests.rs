//! H1: appenders at the bound, several at once.
use super::*;
use crate::base::sync_point::at;
use crate::btree::tests::fixture::{checkpoint, FILE};
use crate::change::delta::key::delta_key;
use crate::change::fixture::new_index;
use crate::change::{submit, sweep_step, Buffering, Op};
use crate::entry::secondary::encode;
use crate::pool::testing::PoolFixture;
use crate::pool::PAGE_SIZE;
use crate::space::file_name;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::yield_now;

const KEYS: u32 = 100_000;
const THREADS: u32 = 8;
const LONG: usize = 800;
/// Appends between two steps of a sweep.
const SWEEP_EVERY: u64 = 300;

fn value(len: usize) -> Vec<u8> {
    let mut value = Vec::new();
    encode(&mut value, 1, 4, 4, &vec![7; len]);
    value
}
/// The `n`th key of a stretch, of `of` stretches of the index.
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
fn large(fixture: &PoolFixture) -> IndexTrees {
    let (pool, index) = (&*fixture.pool, new_index(&fixture.pool, 1));
    let buffer = index.delta.as_ref().unwrap().buffer();
    buffer.set_buffering(Buffering::None);
    (0..KEYS).for_each(|n| put(pool, &index, &n.to_be_bytes(), 4));
    buffer.set_buffering(Buffering::All);
    buffer.set_max_size(0, pool.size());
    index
}
/// Fills the buffer up to the bound, without backpressure, with some changes for each stretch.
/// Returns the largest number of changes in a stretch.
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
            if delta.buffer().appends_per_merge() == 1 {
                return each + 1;
            }
        }
    }
    0
}

/// All appenders went to the leaf of the sweep. One merged it; the others waited, found nothing
/// left, and had appended an entry each. Here every appender has taken its leaf before one merges.
#[test]
fn appenders_at_once_merge_a_leaf_each() {
    let fixture = PoolFixture::create(1, 1024);
    let (pool, index) = (&*fixture.pool, large(&fixture));
    let delta = index.delta.as_deref().unwrap();
    let each = fill(pool, &index, 100, 300);
    assert!(each > 5);
    let counters = pool.counters();
    let (entries, buffered) = (delta.entries(), counters.change_buffer_buffered_inserts.get());
    let taken = Arc::new(AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let index = &index;
            let taken = taken.clone();
            scope.spawn(move || {
                // No thread merges before each has taken a leaf.
                at(SyncPoint::LeafTaken, move || {
                    taken.fetch_add(1, Ordering::SeqCst);
                    while taken.load(Ordering::SeqCst) < THREADS as u64 {
                        yield_now();
                    }
                });
                put(pool, index, &key(50 + thread, 100, each), 300);
            });
        }
    });
    let appended = counters.change_buffer_buffered_inserts.get() - buffered;
    assert_eq!(appended, THREADS as u64);
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

/// The appends of several threads, one of which may wait for the others.
struct Appends {
    done: AtomicU64,
    /// Threads that append, and those of them that wait in `wait`.
    running: AtomicU64,
    waiting: AtomicU64,
}

impl Appends {
    /// Waits for an append of another thread, unless all wait.
    fn wait(&self) {
        let done = self.done.load(Ordering::SeqCst);
        self.waiting.fetch_add(1, Ordering::SeqCst);
        while self.done.load(Ordering::SeqCst) == done
            && self.waiting.load(Ordering::SeqCst) < self.running.load(Ordering::SeqCst)
        {
            yield_now();
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Each leaf got fewer entries than there were appenders, and what was pending grew without end.
/// Here each merge waits for an append of another thread before it counts. A sweep runs as the
/// worker's do.
#[test]
fn however_many_append_the_bound_holds() {
    let fixture = PoolFixture::create(2, 1024);
    let (pool, index) = (&*fixture.pool, large(&fixture));
    let (delta, done) = (index.delta.as_deref().unwrap(), AtomicBool::new(false));
    let each = fill(pool, &index, 1000, LONG);
    let (most, before) = (delta.buffer().bytes_max(), delta.bytes());
    let room = before / delta.entries() * 2 * THREADS as u64;
    let appends = Arc::new(Appends {
        done: AtomicU64::new(0),
        running: AtomicU64::new(THREADS as u64),
        waiting: AtomicU64::new(0),
    });
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (index, appends) = (&index, appends.clone());
                scope.spawn(move || {
                    for n in 0..300 {
                        let random = crc32c::crc32c(&(n * THREADS + thread).to_be_bytes());
                        let others = appends.clone();
                        at(SyncPoint::MergedToBeCounted, move || others.wait());
                        put(pool, index, &key(random % 1000, 1000, each + random / 1000 % 60), LONG);
                        let bytes = delta.bytes();
                        appends.done.fetch_add(1, Ordering::SeqCst);
                        assert!(bytes <= most + room, "{bytes} of {most}, append {n} of thread {thread}");
                    }
                    appends.running.fetch_sub(1, Ordering::SeqCst);
                })
            })
            .collect();
        let sweeper = scope.spawn(|| {
            let mut due = 0;
            while !done.load(Ordering::Relaxed) {
                if appends.done.load(Ordering::SeqCst) >= due {
                    sweep_step(pool, &index, 64).unwrap();
                    due = appends.done.load(Ordering::SeqCst) + SWEEP_EVERY;
                }
                yield_now();
            }
        });
        let ends: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        done.store(true, Ordering::Relaxed);
        sweeper.join().unwrap();
        ends.into_iter().for_each(|end| end.unwrap());
    });
    assert!(before >= most / 100 * 99 && pool.counters().change_buffer_throttled.get() > 0);
}

/// The cursor stood at entries in a broken leaf of the delta tree. Every appender that merged
/// returned with that error, and nothing was merged any more.
#[test]
fn a_broken_delta_leaf_keeps_no_appender_from_the_other_leaves() {
    let fixture = PoolFixture::create(3, 1024);
    let (pool, index) = (&*fixture.pool, large(&fixture));
    let delta = index.delta.as_deref().unwrap();
    let each = fill(pool, &index, 100, LONG);
    checkpoint(pool);
    let (oldest, newest) = delta.summary.partitions.range();
    assert!(newest > oldest + 2, "{oldest} {newest}");
    let broken = delta_key(oldest, &key(20, 100, 0));
    let broken = delta.tree.leaf_number(pool, &broken).unwrap();
    pool.flush_all().unwrap();
    pool.discard_file(FILE);
    fixture
        .disk
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
