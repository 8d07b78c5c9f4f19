//! What others do to a leaf, and to what is pending for it, between two mini-transactions of one merge.
use super::super::kit::new_index;
use super::super::{drain, get, submit, Buffering, Index, Op};
use super::*;
use crate::btree::tests::kit::check;
use crate::btree::ENTRY_OVERHEAD;
use crate::pool::tests::Rig;

fn value_of(len: usize) -> Vec<u8> {
    let mut value = Vec::new();
    super::super::entry::encode(&mut value, 1, 4, 4, &vec![7; len]);
    value
}
fn put(pool: &Pool, index: &Index, key: &[u8], value: &[u8]) {
    submit(pool, index, Op::Put { key, value }).unwrap();
}
fn free_at(pool: &Pool, index: &Index, key: &[u8]) -> usize {
    let mut mtr = pool.begin();
    let leaf = index.tree.leaf_for_write(&mut mtr, key, Intent::Leaf, None).unwrap();
    index.tree.leaf_free(&mtr, &leaf)
}

/// A merge found no room for a key, and came back to split the leaf for as many bytes as it had seen. Meanwhile a longer value had been put for
/// the key, and purge had made room for the shorter one: the parent was let go, and its absence took the engine down.
#[test]
fn a_key_that_needs_more_room_than_was_asked_for_asks_again() {
    let rig = Rig::create(5, 256);
    let (pool, index) = (&*rig.pool, new_index(&rig.pool, 0));
    let delta = index.delta.as_ref().unwrap();
    delta.buffer().set_buffering(Buffering::None);
    for n in 0..400u32 {
        put(pool, &index, &(n << 8).to_be_bytes(), &value_of(100));
    }
    assert!(check(pool, &index.tree, false).leaf_pages > 2);
    // Some room is left in the leaf: for the value that was there first, and not for the one that is pending now.
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

    let mut merge = Merge::new(pool, &index.tree, delta, false);
    let mut at = key.to_vec();
    let next = merge.step(&mut at, Next::Grow(first)).unwrap();
    assert_eq!((next, merge.entries), (Next::Grow(key.len() + now.len()), 0));
    assert_eq!(at, key);
    merge.step(&mut at, next).unwrap();
    assert_eq!(merge.entries, 1);
    drain(pool, &index).unwrap();
    let mut found = Vec::new();
    assert!(get(pool, &index, &key, &mut found).unwrap() && found == now);
    check(pool, &index.tree, false);
}
