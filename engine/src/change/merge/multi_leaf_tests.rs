//! Full leaves with something pending for each of them are redistributed over their neighbours, not
//! split one by one.
use super::leaf::merge_at;
use super::multi_leaf::{read_stretch, REDISTRIBUTED};
use crate::base::sync_point::at;
use crate::base::{PageId, SyncPoint};
use crate::btree::tests::fixture::{check, checkpoint, FILE};
use crate::btree::Seek;
use crate::change::delta::key::delta_key;
use crate::change::delta::op_list;
use crate::change::fixture::{found_again, new_index};
use crate::change::{drain, submit, visit_prefix, Buffering, IndexTrees, Op};
use crate::entry::secondary::encode;
use crate::io::SimDisk;
use crate::pool::testing::PoolFixture;
use crate::pool::{page, Pool, Presence, PAGE_SIZE};
use crate::redo::FlushMode;
use crate::space::file_name;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::channel;

const KEYS: u32 = if cfg!(feature = "tiny-pages") { 4_000 } else { 16_000 };

fn value(stamp: u64, n: u32) -> Vec<u8> {
    let mut value = Vec::new();
    encode(&mut value, stamp, 4, 4, &n.to_le_bytes());
    value
}
fn put_raw(pool: &Pool, index: &IndexTrees, key: &[u8], value: &[u8]) {
    submit(pool, index, Op::Put { key, value }).unwrap();
}
fn put(pool: &Pool, index: &IndexTrees, model: &mut BTreeMap<Vec<u8>, Vec<u8>>, n: u32, stamp: u64) {
    let (key, value) = (n.to_be_bytes(), value(stamp, n));
    put_raw(pool, index, &key, &value);
    model.insert(key.to_vec(), value);
}
fn assert_same(pool: &Pool, index: &IndexTrees, model: &BTreeMap<Vec<u8>, Vec<u8>>, what: &str) {
    let mut expected = model.iter();
    let each = &mut |key: &[u8], value: &[u8]| {
        let next = expected.next().expect("an entry too many");
        assert_eq!((&next.0[..], &next.1[..]), (key, value), "{what}");
        Ok(true)
    };
    visit_prefix(pool, index, &[], each).unwrap();
    assert!(expected.next().is_none(), "{what}: an entry is missing");
}

/// Makes full leaves for `keys` keys. Returns their number.
fn full(pool: &Pool, index: &IndexTrees, model: &mut BTreeMap<Vec<u8>, Vec<u8>>, keys: u32) -> u64 {
    let buffer = index.delta.as_ref().unwrap().buffer();
    buffer.set_buffering(Buffering::None);
    (0..keys).for_each(|n| put(pool, index, model, 10 * n, 1));
    let leaves = check(pool, &index.tree, false).leaf_pages;
    assert!(leaves > keys as u64 / 1000, "{leaves} leaves");
    leaves
}
/// Makes something pending for each leaf of the index that `full` made, in several partitions.
fn bring_each_a_little(pool: &Pool, index: &IndexTrees, model: &mut BTreeMap<Vec<u8>, Vec<u8>>, keys: u32) {
    let delta = index.delta.as_ref().unwrap();
    delta.buffer().set_buffering(Buffering::All);
    delta.buffer().set_test_mode(1);
    for n in 0..keys {
        match n % 20 {
            3 | 13 => put(pool, index, model, 10 * n + 5, 2),
            // A new value, a mark, and a marked entry that is removed.
            7 => put(pool, index, model, 10 * n, 3),
            9 | 11 => {
                let key = (10 * n).to_be_bytes();
                submit(pool, index, Op::Mark { key: &key, stamp: 4 }).unwrap();
                let marked = model.get_mut(&key[..]).unwrap();
                op_list::apply(&Op::Mark { key: &key, stamp: 4 }, &mut true, marked).unwrap();
                if n % 20 == 11 {
                    let (if_stamp, marked) = (4, true);
                    let remove = Op::Remove {
                        key: &key,
                        if_stamp,
                        marked,
                    };
                    submit(pool, index, remove).unwrap();
                    model.remove(&key[..]);
                }
            }
            _ => {}
        }
        if n % (keys / 4) == 0 {
            delta.begin_partition();
        }
    }
}

#[test]
fn full_leaves_stay_full_when_each_gets_a_little() {
    let fixture = PoolFixture::create(3, 600);
    let (pool, index) = (&*fixture.pool, new_index(&fixture.pool, 0));
    let mut model = BTreeMap::new();
    let before = full(pool, &index, &mut model, KEYS);
    bring_each_a_little(pool, &index, &mut model, KEYS);
    assert_same(pool, &index, &model, "pending");
    drain(pool, &index).unwrap();
    assert_same(pool, &index, &model, "merged");
    let after = check(pool, &index.tree, false).leaf_pages;
    assert!(after <= before + before / 4, "{before} leaves became {after}");
}

/// A stretch whose merge had not latched the newer partition's leaf was merged again, and its Marks
/// of missing entries were counted again. With more entries stuck than there were, sweeps did not
/// merge what came later.
#[test]
fn stuck_entries_of_a_stretch_that_is_met_again_are_counted_once() {
    let fixture = PoolFixture::create(3, 600);
    let (pool, index) = (&*fixture.pool, new_index(&fixture.pool, 0));
    let delta = index.delta.as_ref().unwrap();
    let mut model = BTreeMap::new();
    delta.buffer().set_buffering(Buffering::None);
    (0..KEYS).for_each(|n| put(pool, &index, &mut model, 10 * n, 1));
    delta.buffer().set_buffering(Buffering::All);
    delta.buffer().set_test_mode(1);
    let key = &3u32.to_be_bytes();
    submit(pool, &index, Op::Mark { key, stamp: 4 }).unwrap();
    // Many more entries than a stretch takes: the merge does not come to the newest partition's
    // leaf.
    (0..KEYS)
        .step_by(4)
        .for_each(|n| put(pool, &index, &mut model, 10 * n + 5, 2));
    delta.begin_partition();
    put(pool, &index, &mut model, 17, 3);
    let newest = delta_key(1, &[]);
    let (held, is_held) = channel();
    let (merged, is_merged) = channel();
    let (released, is_released) = channel();
    let stuck = std::thread::scope(|scope| {
        let (pool, tree) = (fixture.pool.clone(), delta.tree);
        scope.spawn(move || {
            let leaf = tree.seek(&pool, Seek::Ge, &newest).unwrap();
            held.send(()).unwrap();
            is_merged.recv().unwrap();
            drop(leaf);
            released.send(()).unwrap();
        });
        is_held.recv().unwrap();
        at(SyncPoint::MergedToBeCounted, move || {
            merged.send(()).unwrap();
            is_released.recv().unwrap();
        });
        let before = delta.entries();
        let merged = merge_at(&fixture.pool, &index.tree, delta, &[], true).unwrap();
        assert!(merged.leaves > 1 && merged.whole && before > delta.entries());
        merged.stuck
    });
    assert_eq!(stuck, 1);
    assert_eq!(
        fixture.pool.counters().change_buffer_missing.get(),
        2,
        "it was met twice"
    );
}

/// The leaves were read one after the other under their parent's X latch, which held up every
/// thread that needed a page below it.
#[test]
fn the_leaves_of_a_stretch_are_read_before_it_is_latched() {
    let fixture = PoolFixture::create(8, 256);
    let index = new_index(&fixture.pool, 0);
    index.delta.as_ref().unwrap().buffer().set_buffering(Buffering::None);
    let key = |n: u32| (n << 8).to_be_bytes();
    let long = |n: u32| {
        let mut value = Vec::new();
        encode(&mut value, 1, 4, 4, &[n as u8; 100]);
        value
    };
    (0..2000).for_each(|n| put_raw(&fixture.pool, &index, &key(n), &long(n)));
    checkpoint(&fixture.pool);
    let fixture = PoolFixture::recover(fixture.disk.crash(1), 256, &mut |_, _| ());
    let (pool, index) = (&*fixture.pool, found_again(&fixture.pool, &index, 1));
    (0..2000).for_each(|n| put_raw(pool, &index, &key(n), &long(n)));
    let delta = index.delta.as_ref().unwrap();
    delta.count_all(pool).unwrap();
    let mut ids = Vec::new();
    let mut from = Vec::new();
    while ids.len() < 5 {
        let (id, end) = index.tree.leaf_place(pool, &from).unwrap().unwrap();
        ids.push(id);
        from = end.unwrap();
    }
    let absent = || {
        ids[1..]
            .iter()
            .filter(|id| pool.presence(**id) == Presence::Absent)
            .count()
    };
    assert_eq!(absent(), 4);
    assert_eq!(read_stretch(pool, &index.tree, delta, &[], 5).unwrap(), 5);
    assert_eq!(absent(), 0);
}

/// Pages of the index's file that are broken in place, and have no copy in the doublewrite file.
fn torn_without_copy(disk: &SimDisk) -> usize {
    let pages = |name: &str| disk.bytes(name).unwrap_or_default();
    let copies: BTreeSet<PageId> = (pages("doublewrite").chunks_exact(PAGE_SIZE))
        .filter(|page| page::check(page, page::page_id(page)).is_ok())
        .map(page::page_id)
        .collect();
    let is_torn = |(no, bytes): &(usize, &[u8])| {
        let id = PageId::new(FILE, *no as u32);
        bytes.iter().any(|b| *b != 0) && page::check(bytes, id).is_err() && !copies.contains(&id)
    };
    let file = pages(&file_name(FILE));
    file.chunks_exact(PAGE_SIZE).enumerate().filter(is_torn).count()
}

/// The pages of a stretch are written without a copy in the doublewrite file: the log of each torn
/// page begins with its image. Here the crash comes at each access of the disk while they are
/// written.
#[test]
fn torn_pages_of_a_stretch_come_back_from_the_log() {
    let (mut torn, mut after) = (0, 0);
    let mut died = true;
    while died {
        after += 1;
        let fixture = PoolFixture::create(after, 600);
        let (pool, index) = (&*fixture.pool, new_index(&fixture.pool, 0));
        let mut model = BTreeMap::new();
        full(pool, &index, &mut model, KEYS / 2);
        bring_each_a_little(pool, &index, &mut model, KEYS / 2);
        pool.flush_all().unwrap();
        fixture.checkpoint();
        let (stretches, leaves) = REDISTRIBUTED.get();
        drain(pool, &index).unwrap();
        let (stretches, leaves) = (REDISTRIBUTED.get().0 - stretches, REDISTRIBUTED.get().1 - leaves);
        assert!(stretches > 0 && leaves > 4 * stretches, "{leaves} in {stretches}");
        // Some pages are changed after their image, too.
        index.delta.as_ref().unwrap().buffer().set_test_mode(0);
        index.delta.as_ref().unwrap().buffer().set_buffering(Buffering::None);
        for n in (0..KEYS / 2).step_by(500) {
            put(pool, &index, &mut model, 10 * n + 6, 5);
        }
        pool.redo().flush(pool.redo().lsn(), FlushMode::Sync).unwrap();
        fixture.disk.crash_at(fixture.disk.changes() + after);
        died = pool.flush_all().is_err();
        let disk = fixture.disk.crash(after);
        drop(fixture);
        torn += torn_without_copy(&disk);
        let fixture = PoolFixture::recover(disk, 600, &mut |_, _| {});
        let index = found_again(&fixture.pool, &index, 1);
        assert_same(&fixture.pool, &index, &model, "recovered");
        drain(&fixture.pool, &index).unwrap();
        assert_same(&fixture.pool, &index, &model, "merged");
        check(&fixture.pool, &index.tree, false);
    }
    assert!(after > 5 && torn > 5, "{torn} torn pages in {after} crashes");
}
