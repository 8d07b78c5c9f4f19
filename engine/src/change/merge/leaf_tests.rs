//! What other threads do to a leaf, and to what is pending for it, between two mini-transactions of
//! one merge.
use super::*;
use crate::base::sync_point::at;
use crate::base::PageNo;
use crate::btree::tests::fixture::check;
use crate::btree::ENTRY_OVERHEAD;
use crate::change::delta::key::delta_key;
use crate::change::fixture::new_index;
use crate::change::{drain, get, submit, visit_prefix, Buffering, Op};
use crate::index::secondary;
use crate::pool::testing::PoolFixture;
use std::sync::mpsc::channel;

fn value_of(len: usize) -> Vec<u8> {
    stamped(1, len)
}
fn stamped(stamp: u64, len: usize) -> Vec<u8> {
    let mut value = Vec::new();
    secondary::encode(&mut value, stamp, 4, 4, &vec![7; len]);
    value
}
fn put(pool: &Pool, index: &IndexTrees, key: &[u8], value: &[u8]) {
    submit(pool, index, Op::Put { key, value }).unwrap();
}
fn free_at(pool: &Pool, index: &IndexTrees, key: &[u8]) -> usize {
    let mut mtr = pool.begin();
    let leaf = index.tree.leaf_for_write(&mut mtr, key, Intent::Leaf, None).unwrap();
    leaf.free(&mtr)
}

/// A merge found no room for a key, and came back to split the leaf for as many bytes as it had
/// seen. Meanwhile a longer value had been put for the key, and purge had made room for the shorter
/// one. So the parent was unlatched, and the split without it panicked.
#[test]
fn a_key_that_needs_more_room_than_was_asked_for_asks_again() {
    let fixture = PoolFixture::create(5, 256);
    let (pool, index) = (&*fixture.pool, new_index(&fixture.pool, 0));
    let delta = index.delta.as_ref().unwrap();
    delta.buffer().set_buffering(Buffering::None);
    for n in 0..400u32 {
        put(pool, &index, &(n << 8).to_be_bytes(), &value_of(100));
    }
    assert!(check(pool, &index.tree, false).leaf_pages > 2);
    // The leaf has room for the first value, but not for the one that is pending now.
    let key = (200u32 << 8 | 255).to_be_bytes();
    let (first, now) = (20, value_of(200));
    let mut n = 200 << 8;
    while free_at(pool, &index, &key) >= ENTRY_OVERHEAD + key.len() + now.len() {
        n += 1;
        put(pool, &index, &u32::to_be_bytes(n), &value_of(100));
    }
    while free_at(pool, &index, &key) >= ENTRY_OVERHEAD + first + 40 {
        n += 1;
        put(pool, &index, &u32::to_be_bytes(n), &value_of(0));
    }
    assert!(free_at(pool, &index, &key) >= ENTRY_OVERHEAD + first);
    delta.buffer().set_buffering(Buffering::All);
    delta.buffer().set_test_mode(1);
    put(pool, &index, &key, &now);

    let mut merge = LeafMerge::new(pool, &index.tree, delta, false);
    let mut at = key.to_vec();
    let next = merge.step(&mut at, Next::Grow(first)).unwrap();
    assert_eq!((next, merge.batch.entries), (Next::Grow(key.len() + now.len()), 0));
    assert_eq!(at, key);
    merge.step(&mut at, next).unwrap();
    assert_eq!(merge.batch.entries, 1);
    drain(pool, &index).unwrap();
    let mut found = Vec::new();
    assert!(get(pool, &index, &key, &mut found).unwrap() && found == now);
    check(pool, &index.tree, false);
}

/// A merge counts down after its mini-transaction, which empties the index. Meanwhile another
/// thread has latched the leaf and learned that partition 1 holds something. Before it looks there,
/// two changes of one key come. Numbers began at 0 again, so it met the younger change in partition
/// 1, and knew nothing of the older one. `body`: what that thread does.
fn while_the_index_is_emptied(younger: Op<'static>, body: impl FnOnce(&Pool, &IndexTrees)) {
    let fixture = PoolFixture::create(6, 256);
    let index = new_index(&fixture.pool, 1);
    index.delta.as_ref().unwrap().begin_partition();
    put(&fixture.pool, &index, b"before", &value_of(1));
    let (merged, is_merged) = channel();
    let (may_count, counting) = channel::<()>();
    let (counted, is_counted) = channel();
    std::thread::scope(|scope| {
        let (pool, other) = (fixture.pool.clone(), index.clone());
        scope.spawn(move || {
            at(SyncPoint::MergedToBeCounted, move || {
                merged.send(()).unwrap();
                counting.recv().unwrap();
            });
            merge_leaf(&pool, &other, b"").unwrap();
            counted.send(()).unwrap();
        });
        is_merged.recv().unwrap();
        let (pool, other) = (fixture.pool.clone(), index.clone());
        at(SyncPoint::PartitionsLearned, move || {
            may_count.send(()).unwrap();
            is_counted.recv().unwrap();
            assert!(other.delta.as_ref().unwrap().is_empty());
            put(&pool, &other, b"key", &value_of(1));
            other.delta.as_ref().unwrap().begin_partition();
            submit(&pool, &other, younger).unwrap();
        });
        body(&fixture.pool, &index);
    });
    drain(&fixture.pool, &index).unwrap();
    let mut found = Vec::new();
    assert!(get(&fixture.pool, &index, b"key", &mut found).unwrap());
    let found = secondary::decode(&found, 4).unwrap();
    assert_eq!(found.stamp, 2, "the younger change is there");
}
#[test]
fn a_merge_while_the_index_is_emptied_takes_no_younger_entry_before_an_older() {
    let value = stamped(2, 1).leak();
    while_the_index_is_emptied(Op::Put { key: b"key", value }, |pool, index| {
        merge_leaf(pool, index, b"").unwrap();
    });
}
#[test]
fn a_reader_while_the_index_is_emptied_meets_no_younger_entry_without_the_older() {
    let (key, stamp) = (b"key", 2);
    while_the_index_is_emptied(Op::Mark { key, stamp }, |pool, index| {
        visit_prefix(pool, index, b"", &mut |_, _| Ok(true)).unwrap();
    });
}

/// A merge could not latch the younger partition, and found no room for a key. It went on after
/// that key and reported that nothing was left. A change too long for the delta tree then went to
/// the leaf directly, before an older mark. The row was missing by that index.
#[test]
fn what_cannot_be_buffered_is_not_overtaken_by_what_is_pending_for_its_key() {
    let fixture = PoolFixture::create(7, 256);
    let (pool, index) = (&*fixture.pool, new_index(&fixture.pool, 0));
    let delta = index.delta.as_ref().unwrap();
    delta.buffer().set_buffering(Buffering::None);
    // A leaf without room, and leaves after it.
    let long = vec![b'b'; 2400];
    let key = &long[..];
    put(pool, &index, key, &stamped(1, 8));
    (0..60).for_each(|n| put(pool, &index, format!("x{n:04}").as_bytes(), &value_of(1000)));
    let mut n = 0;
    while n < 20 || free_at(pool, &index, b"d") > 200 {
        n += 1;
        put(pool, &index, format!("c{n:04}").as_bytes(), &value_of(100));
    }
    assert_eq!(leaf_of(pool, &index.tree, key), leaf_of(pool, &index.tree, b"d"));
    delta.buffer().set_buffering(Buffering::All);
    delta.buffer().set_test_mode(1);
    put(pool, &index, b"d", &value_of(400));
    (0..60).for_each(|n| put(pool, &index, format!("y{n:04}").as_bytes(), &value_of(1000)));
    delta.begin_partition();
    submit(pool, &index, Op::Mark { key, stamp: 1 }).unwrap();
    let (older, younger) = match delta.partitions()[..] {
        [older, younger] => (delta_key(older, b"d"), delta_key(younger, key)),
        ref other => panic!("{other:?}"),
    };
    assert_ne!(leaf_of(pool, &delta.tree, &older), leaf_of(pool, &delta.tree, &younger));

    let value = stamped(2, 8);
    let op = Op::Put { key, value: &value };
    assert!(!delta.fits(&op));
    let (held, is_held) = channel();
    let (give_back, is_given) = channel::<()>();
    std::thread::scope(|scope| {
        let (delta, younger) = (delta.clone(), younger);
        scope.spawn(move || {
            let leaf = delta.tree.leaf_owning(pool, &younger).unwrap();
            held.send(()).unwrap();
            is_given.recv().unwrap();
            drop(leaf);
        });
        is_held.recv().unwrap();
        at(SyncPoint::MergedToBeCounted, move || give_back.send(()).unwrap());
        submit(pool, &index, op).unwrap();
    });
    drain(pool, &index).unwrap();
    let mut found = Vec::new();
    assert!(get(pool, &index, key, &mut found).unwrap());
    assert!(found == value, "the younger change is there");
    check(pool, &index.tree, false);
}
fn leaf_of(pool: &Pool, tree: &Tree, key: &[u8]) -> PageNo {
    tree.leaf_number(pool, key).unwrap()
}
