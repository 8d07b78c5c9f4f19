//! A delta tree and its filters as it fills and empties, and where the index lives.
use super::*;
use crate::base::sync_point::at;
use crate::base::SyncPoint;
use crate::change::fixture::new_index;
use crate::change::{drain, merge_leaf, submit, IndexTrees};
use crate::entry::secondary::encode;
use crate::pool::testing::PoolFixture;
use crate::pool::{Presence, PAGE_SIZE};

fn put(pool: &Pool, index: &IndexTrees, key: &[u8]) {
    let mut value = Vec::new();
    encode(&mut value, 1, 4, 4, b"raw");
    submit(pool, index, Op::Put { key, value: &value }).unwrap();
}

/// A merge has taken entries out of the tree and not counted them down when the filter grows. The
/// late count down must not hide entries that came meanwhile.
#[test]
fn a_filter_that_grows_beside_a_merge_knows_all_that_is_pending() {
    let fixture = PoolFixture::create(3, 512);
    let (pool, index) = (&*fixture.pool, new_index(&fixture.pool, 1));
    let delta = index.delta.clone().unwrap();
    (0..20).for_each(|n| put(pool, &index, format!("a{n}").as_bytes()));
    let (other_pool, other) = (fixture.pool.clone(), index.clone());
    at(SyncPoint::MergedToBeCounted, move || {
        (0..3000).for_each(|n| put(&other_pool, &other, format!("b{n}").as_bytes()));
    });
    let before = delta.buffer().filter_memory().1;
    assert_eq!(merge_leaf(pool, &index, b"a").unwrap(), 20);
    assert!(delta.buffer().filter_memory().1 > before);
    assert_eq!(delta.entries(), 3000);
    assert!((0..3000).all(|n| delta.maybe_pending(format!("b{n}").as_bytes())));
    drain(pool, &index).unwrap();
    assert!(delta.is_empty());
    assert_eq!(delta.buffer().filter_memory(), (0, 0));
}

/// F5: a lookup holds no lock. While filters come, grow and go, pending entries are never denied.
#[test]
fn what_is_pending_is_never_denied_while_others_append_and_merge() {
    let fixture = PoolFixture::create(4, 512);
    let (pool, index) = (&*fixture.pool, new_index(&fixture.pool, 1));
    let delta = index.delta.as_ref().unwrap();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3u8)
            .map(|own| {
                let index = &index;
                scope.spawn(move || {
                    for round in 0..60 {
                        let keys: Vec<_> = (0..40).map(|n| [own, n]).collect();
                        for (n, key) in keys.iter().enumerate() {
                            put(pool, index, key);
                            // With the leaf latched no entry that is found is merged.
                            let _leaf = index.tree.leaf_owning(pool, &[own]).unwrap();
                            let mut found = Pending::default();
                            delta.pending_in(pool, &[own], Some(&[own + 1]), &mut found).unwrap();
                            let denied = (0..found.len()).find(|i| !delta.maybe_pending(found.key(*i)));
                            assert_eq!(denied, None, "thread {own}, round {round}, key {n}");
                        }
                        drain(pool, index).unwrap();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    drain(pool, &index).unwrap();
    assert!(delta.is_empty());
    assert_eq!(delta.buffer().filter_memory(), (0, 0));
}

/// Of two first appends at once neither found itself the only one. So the index had no age, and was
/// never too old.
#[test]
fn of_two_first_appends_at_once_one_takes_the_age() {
    let fixture = PoolFixture::create(5, 128);
    let (pool, index) = (&*fixture.pool, new_index(&fixture.pool, 1));
    let delta = index.delta.as_ref().unwrap();
    fixture.disk.advance_us(1_000_000);
    // The other append has counted, and written nothing yet.
    {
        let _open = delta.summary.partitions.hold_open();
        delta.summary.count_up(pool, b"other", 0);
    }
    put(pool, &index, b"key");
    assert_eq!(delta.entries(), 2);
    fixture.disk.advance_us(7_000_000);
    assert_eq!(delta.age_us(pool.disk().now_us()) / 1_000_000, 7);
}

/// A stuck slot answered "perhaps" for its keys until the index was empty. So each change of them
/// was appended although buffering was off, and the index was never empty while it was written.
#[test]
fn a_wrong_perhaps_is_checked_where_buffering_is_off() {
    let fixture = PoolFixture::create(6, 128);
    let (pool, index) = (&*fixture.pool, new_index(&fixture.pool, 1));
    let delta = index.delta.as_ref().unwrap();
    let names: Vec<_> = (0..20).map(|n| format!("{n}")).collect();
    (0..20).for_each(|n| put(pool, &index, names[n].as_bytes()));
    for name in &names {
        (0..70_000).for_each(|_| delta.summary.keys.up(name.as_bytes(), &delta.buffer().slots));
    }
    delta.buffer().set_buffering(Buffering::None);
    put(pool, &index, b"0");
    assert_eq!(delta.entries(), 20, "I3: something is pending for this key");
    assert_eq!(merge_leaf(pool, &index, b"").unwrap(), 20);
    assert!(delta.is_empty() && !delta.maybe_pending(b"0"));

    // One key stays pending, of all that the filter knows.
    delta.buffer().set_buffering(Buffering::All);
    put(pool, &index, b"left");
    for name in &names {
        (0..70_000).for_each(|_| delta.summary.keys.up(name.as_bytes(), &delta.buffer().slots));
    }
    delta.buffer().set_buffering(Buffering::None);
    for name in &names {
        assert!(delta.maybe_pending(name.as_bytes()));
        put(pool, &index, name.as_bytes());
        assert_eq!(delta.entries(), 1, "{name} went to its leaf");
    }
    drain(pool, &index).unwrap();
    assert!(delta.is_empty());

    // A drain of an index that lives in memory.
    delta.buffer().set_buffering(Buffering::All);
    put(pool, &index, b"left");
    delta.summary.keys.up(b"0", &delta.buffer().slots);
    put(pool, &index, b"0");
    assert_eq!(delta.entries(), 2, "no drain waits");
    delta.summary.keys.up(b"1", &delta.buffer().slots);
    delta.buffer().set_test_mode(0);
    delta.buffer().set_draining(true);
    assert!(delta.lives_in_memory());
    put(pool, &index, b"1");
    assert_eq!(delta.entries(), 2, "it went to its leaf");
}

/// With a filter that answers "perhaps" for every key each change was appended without a look at
/// its leaf. That the index had come to live in memory was never noticed.
#[test]
fn appends_without_a_choice_show_where_the_index_lives() {
    let fixture = PoolFixture::create(8, 128);
    let (pool, index) = (&*fixture.pool, new_index(&fixture.pool, 1));
    let delta = index.delta.as_ref().unwrap();
    let names: Vec<_> = (0..40).map(|n| format!("{n}")).collect();
    names.iter().for_each(|name| put(pool, &index, name.as_bytes()));
    for name in &names {
        delta.summary.keys.up(name.as_bytes(), &delta.buffer().slots);
    }
    delta.buffer().set_test_mode(0);
    for turns in [false, true] {
        delta.was_found(Presence::Absent, 100);
        assert!(!delta.lives_in_memory());
        let (times, entries) = (if turns { 200 } else { 1 }, delta.entries());
        for name in (0..times).flat_map(|_| &names) {
            put(pool, &index, name.as_bytes());
        }
        assert_eq!(delta.entries(), entries, "the changes were folded");
        assert_eq!(delta.lives_in_memory(), turns);
    }
}

/// Keys and values were counted. The pages of small entries took two and a half times as much of
/// the pool as they may.
#[test]
fn bytes_are_nearly_those_of_pages() {
    let fixture = PoolFixture::create(13, 4096);
    let (pool, index) = (&*fixture.pool, new_index(&fixture.pool, 1));
    let delta = index.delta.as_ref().unwrap();
    for len in [8, 24, 120] {
        for n in 0..20_000u32 {
            let key = [&crc32c::crc32c(&n.to_be_bytes()).to_be_bytes()[..], &vec![0; len - 4]].concat();
            put(pool, &index, &key);
        }
        let in_pages = delta.tree.verify(pool, &mut |_, _| None).unwrap().leaf_pages * PAGE_SIZE as u64;
        let share = delta.bytes() as f64 / in_pages as f64;
        assert!((0.75..1.25).contains(&share), "keys of {len} bytes: {share}");
        drain(pool, &index).unwrap();
        assert_eq!(delta.bytes(), 0);
    }
}
