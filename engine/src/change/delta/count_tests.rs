//! The count of a delta tree's content after a restart.
use super::*;
use crate::change::fixture::{found_again, new_index, new_unique_index};
use crate::change::{drain, submit, IndexTrees, Op};
use crate::entry::secondary::encode;
use crate::pool::testing::PoolFixture;

fn put(pool: &Pool, index: &IndexTrees, key: &[u8]) {
    let mut value = Vec::new();
    encode(&mut value, 1, 4, 4, b"raw");
    submit(pool, index, Op::Put { key, value: &value }).unwrap();
}

/// The last number but one stood for "all partitions must be counted". So entries that came after
/// the restart were counted twice, and the index was never empty again.
#[test]
fn after_a_restart_at_the_last_number_entries_are_counted_once() {
    for last in [u16::MAX - 2, u16::MAX - 1, u16::MAX] {
        let fixture = PoolFixture::create(1, 128);
        let (pool, index) = (&*fixture.pool, new_index(&fixture.pool, 1));
        index.delta.as_ref().unwrap().summary.partitions.set_range(last, last);
        put(pool, &index, b"old");
        let index = found_again(pool, &index, 1);
        put(pool, &index, b"old");
        put(pool, &index, b"new");
        let delta = index.delta.as_ref().unwrap();
        delta.count_all(pool).unwrap();
        let in_tree = delta.tree.verify(pool, &mut |_, _| None).unwrap().entries;
        assert_eq!(
            (delta.entries(), delta.buffer().entries()),
            (in_tree, in_tree),
            "{last}"
        );
        drain(pool, &index).unwrap();
        assert!(delta.is_empty() && !delta.maybe_pending(b"new"));
    }
}

/// The estimate of what a restart found shrinks with the count, and goes with the index.
#[test]
fn what_is_not_counted_is_estimated_and_forgotten_with_the_index() {
    let fixture = PoolFixture::create(7, 512);
    let (pool, index) = (&*fixture.pool, new_index(&fixture.pool, 1));
    (0..5000).for_each(|n| put(pool, &index, format!("{n:05}").as_bytes()));
    let bytes = index.delta.as_ref().unwrap().bytes();
    for discards in [false, true] {
        let found = found_again(pool, &index, 1);
        let delta = found.delta.as_ref().unwrap();
        let uncounted = || delta.buffer().totals.uncounted();
        assert_eq!(uncounted(), 0);
        delta.load(pool).unwrap();
        assert!((bytes * 3 / 4..bytes * 5 / 4).contains(&uncounted()), "{}", uncounted());
        let estimate = uncounted();
        assert!(!delta.count_step(pool, 3).unwrap());
        assert_eq!(uncounted() + delta.bytes(), estimate);
        if discards {
            delta.discard();
            assert_eq!((uncounted(), delta.buffer().bytes()), (0, 0));
        }
        delta.count_all(pool).unwrap();
        assert_eq!((uncounted(), delta.bytes()), (0, bytes));
    }
}

/// With all partition numbers in use a restart begins none, and counts the newest with the others.
/// Its bytes were not counted as those of the newest, but taken away as such. Its Bloom filter did
/// not grow meanwhile.
#[test]
fn after_a_restart_with_all_partitions_the_newest_is_counted_as_newest() {
    let fixture = PoolFixture::create(9, 512);
    let (pool, index) = (&*fixture.pool, new_unique_index(&fixture.pool, 1, 4));
    let last = PARTITIONS_MAX as u16 - 1;
    let delta = index.delta.as_ref().unwrap();
    (0..9000u32).for_each(|n| put(pool, &index, &[n.to_be_bytes(), [0; 4]].concat()));
    let first_bytes = delta.bytes();
    assert_eq!(delta.summary.partitions.range(), (0, 0));
    delta.summary.partitions.set_range(0, last);
    (9000..9100u32).for_each(|n| put(pool, &index, &[n.to_be_bytes(), [0; 4]].concat()));
    let newest_bytes = delta.bytes() - first_bytes;

    let index = found_again(pool, &index, 1);
    let delta = index.delta.as_ref().unwrap();
    delta.set_unique(4);
    delta.load(pool).unwrap();
    assert!(delta.is_known());
    assert_eq!((delta.summary.partitions.range(), delta.entries()), ((0, last), 9100));
    let newest = || delta.summary.sums.newest_bytes();
    assert_eq!((newest(), delta.bytes()), (newest_bytes, first_bytes + newest_bytes));
    assert!(
        delta.buffer().filter_memory().0 > 32 << 10,
        "the Bloom filters have grown"
    );
    drain(pool, &index).unwrap();
    assert_eq!((newest(), delta.bytes()), (0, 0));
}
