//! A delta tree whose partition numbers have come to their end; its filters as it fills and empties.
use super::*;
use crate::base::sync_point::at;
use crate::change::policy::change_buffer::DISK_TIMES;
use crate::change::testing::fixture::{found_again, new_index, new_unique_index};
use crate::change::{drain, merge_leaf, submit, IndexTrees};
use crate::pool::testing::PoolFixture;
use crate::pool::PAGE_SIZE;

fn put(pool: &Pool, index: &IndexTrees, key: &[u8]) {
    let mut value = Vec::new();
    crate::entry::secondary::encode(&mut value, 1, 4, 4, b"raw");
    submit(pool, index, Op::Put { key, value: &value }).unwrap();
}

/// The last number but one was taken for "all partitions are to be counted", and what came after the restart was counted twice: the index was
/// never empty again.
#[test]
fn behind_a_restart_at_the_last_number_entries_are_counted_once() {
    for last in [u16::MAX - 2, u16::MAX - 1, u16::MAX] {
        let rig = PoolFixture::create(1, 128);
        let (pool, index) = (&*rig.pool, new_index(&rig.pool, 1));
        index.delta.as_ref().unwrap().set_range(last, last);
        put(pool, &index, b"old");
        let index = found_again(pool, &index, 1);
        put(pool, &index, b"old");
        put(pool, &index, b"new");
        let delta = index.delta.as_ref().unwrap();
        delta.know(pool).unwrap();
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

/// An index that was never once empty had no number left for another partition: the newest was not closed any more, and grew out of memory.
#[test]
fn an_index_whose_numbers_are_used_up_takes_no_more_until_it_is_empty() {
    let rig = PoolFixture::create(2, 128);
    let (pool, index) = (&*rig.pool, new_index(&rig.pool, 1));
    let delta = index.delta.as_ref().unwrap();
    delta.set_range(u16::MAX - 1, u16::MAX - 1);
    put(pool, &index, b"old");
    assert!(!delta.takes_no_more());
    delta.begin_partition();
    assert!(delta.takes_no_more());
    for own in [None, Some(Buffering::All)] {
        delta.set_buffering(own);
        assert_eq!(delta.buffering(), own);
        put(pool, &index, b"new");
        assert_eq!(delta.entries(), 1, "it went to its leaf");
    }
    put(pool, &index, b"old");
    assert_eq!(delta.entries(), 2, "I3: something is pending for this key");
    drain(pool, &index).unwrap();
    assert_eq!((delta.entries(), delta.range()), (0, (0, 0)));
    assert!(!delta.takes_no_more());
    put(pool, &index, b"new");
    assert_eq!(delta.entries(), 1);
}

/// A merge has taken entries out of the tree and not counted them down, and the filter grows: whatever it counts down after must not stand for
/// what came meanwhile.
#[test]
fn a_filter_that_grows_beside_a_merge_knows_all_that_is_pending() {
    let rig = PoolFixture::create(3, 512);
    let (pool, index) = (&*rig.pool, new_index(&rig.pool, 1));
    let delta = index.delta.clone().unwrap();
    (0..20).for_each(|n| put(pool, &index, format!("a{n}").as_bytes()));
    let (other_pool, other) = (rig.pool.clone(), index.clone());
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

/// Who asks holds no lock: while filters come, grow and go, what he knows to be pending is never said not to be.
#[test]
fn what_is_pending_is_never_denied_while_others_append_and_merge() {
    let rig = PoolFixture::create(4, 512);
    let (pool, index) = (&*rig.pool, new_index(&rig.pool, 1));
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
                            // With the leaf latched nothing of what is found is merged.
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

/// Of two first appends at once neither found itself the only one: the index had no age, and was never too old.
#[test]
fn of_two_first_appends_at_once_one_takes_the_age() {
    let rig = PoolFixture::create(5, 128);
    let (pool, index) = (&*rig.pool, new_index(&rig.pool, 1));
    let delta = index.delta.as_ref().unwrap();
    rig.disk.advance_us(1_000_000);
    // The other has counted, and written nothing yet.
    delta.count_up(pool, b"other", 0);
    put(pool, &index, b"key");
    assert_eq!(delta.entries(), 2);
    rig.disk.advance_us(7_000_000);
    assert_eq!(delta.age_us(pool.disk().now_us()) / 1_000_000, 7);
}

/// A slot that had reached the top said "perhaps" for its keys until the index was empty; so each change of them was appended, though buffering had
/// been switched off, and the index was never empty while it was written.
#[test]
fn what_only_the_filter_takes_for_pending_goes_to_its_leaf_where_buffering_is_off() {
    let rig = PoolFixture::create(6, 128);
    let (pool, index) = (&*rig.pool, new_index(&rig.pool, 1));
    let delta = index.delta.as_ref().unwrap();
    let names: Vec<_> = (0..20).map(|n| format!("{n}")).collect();
    (0..20).for_each(|n| put(pool, &index, names[n].as_bytes()));
    for name in &names {
        (0..70_000).for_each(|_| delta.filter.up(name.as_bytes(), &delta.buffer.filters));
    }
    delta.buffer().set_buffering(Buffering::None);
    put(pool, &index, b"0");
    assert_eq!(delta.entries(), 20, "I3: something is pending for this key");
    assert_eq!(merge_leaf(pool, &index, b"").unwrap(), 20);
    assert!(delta.is_empty() && !delta.maybe_pending(b"0"));

    // One key is left behind, of all that the filter knows.
    delta.buffer().set_buffering(Buffering::All);
    put(pool, &index, b"left");
    for name in &names {
        (0..70_000).for_each(|_| delta.filter.up(name.as_bytes(), &delta.buffer.filters));
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
    delta.filter.up(b"0", &delta.buffer.filters);
    put(pool, &index, b"0");
    assert_eq!(delta.entries(), 2, "nobody waits");
    delta.filter.up(b"1", &delta.buffer.filters);
    delta.buffer().set_test_mode(0);
    delta.buffer().set_draining(true);
    assert!(delta.lives_in_memory());
    put(pool, &index, b"1");
    assert_eq!(delta.entries(), 2, "it went to its leaf");
}

/// The estimate of what a restart found goes as it is counted, and with the index.
#[test]
fn what_is_not_counted_is_estimated_and_forgotten_with_the_index() {
    let rig = PoolFixture::create(7, 512);
    let (pool, index) = (&*rig.pool, new_index(&rig.pool, 1));
    (0..5000).for_each(|n| put(pool, &index, format!("{n:05}").as_bytes()));
    let bytes = index.delta.as_ref().unwrap().bytes();
    for discards in [false, true] {
        let found = found_again(pool, &index, 1);
        let delta = found.delta.as_ref().unwrap();
        let uncounted = || delta.buffer().uncounted.load(Ordering::Relaxed);
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
        delta.know(pool).unwrap();
        assert_eq!((uncounted(), delta.bytes()), (0, bytes));
    }
}

/// With a filter that says "perhaps" of every key each change was appended unasked: that the index had come to live in memory was never noticed.
#[test]
fn what_is_appended_anyhow_tells_where_the_index_lives() {
    let rig = PoolFixture::create(8, 128);
    let (pool, index) = (&*rig.pool, new_index(&rig.pool, 1));
    let delta = index.delta.as_ref().unwrap();
    let names: Vec<_> = (0..40).map(|n| format!("{n}")).collect();
    names.iter().for_each(|name| put(pool, &index, name.as_bytes()));
    for name in &names {
        delta.filter.up(name.as_bytes(), &delta.buffer.filters);
    }
    delta.buffer().set_test_mode(0);
    for turns in [false, true] {
        delta.was_found(Presence::Absent, 100);
        assert!(!delta.lives_in_memory());
        let (times, entries) = (if turns { 200 } else { 1 }, delta.entries());
        for name in (0..times).flat_map(|_| &names) {
            put(pool, &index, name.as_bytes());
        }
        assert_eq!(delta.entries(), entries, "they were folded");
        assert_eq!(delta.lives_in_memory(), turns);
    }
}

/// So many partitions that a restart begins none: the newest is counted with the others. Its bytes were not counted as its own, but taken away as such;
/// and its filter of values did not grow meanwhile.
#[test]
fn behind_a_restart_with_all_partitions_the_newest_is_counted_as_that() {
    let rig = PoolFixture::create(9, 512);
    let (pool, index) = (&*rig.pool, new_unique_index(&rig.pool, 1, 4));
    let last = PARTITIONS_MAX as u16 - 1;
    let delta = index.delta.as_ref().unwrap();
    (0..9000u32).for_each(|n| put(pool, &index, &[n.to_be_bytes(), [0; 4]].concat()));
    let first_bytes = delta.bytes();
    assert_eq!(delta.range(), (0, 0));
    delta.set_range(0, last);
    (9000..9100u32).for_each(|n| put(pool, &index, &[n.to_be_bytes(), [0; 4]].concat()));
    let newest_bytes = delta.bytes() - first_bytes;

    let index = found_again(pool, &index, 1);
    let delta = index.delta.as_ref().unwrap();
    delta.set_unique(4);
    delta.load(pool).unwrap();
    assert!(delta.is_known());
    assert_eq!((delta.range(), delta.entries()), ((0, last), 9100));
    let newest = || delta.newest_bytes.load(Ordering::Relaxed);
    assert_eq!((newest(), delta.bytes()), (newest_bytes, first_bytes + newest_bytes));
    assert!(delta.buffer().filter_memory().0 > 32 << 10, "the values' have grown");
    drain(pool, &index).unwrap();
    assert_eq!((newest(), delta.bytes()), (0, 0));
}

/// Several appenders found the newest partition full, and each began one more, all but the first of them for next to nothing: soon there was no
/// number left, and the newest one was not closed any more.
#[test]
fn of_several_who_find_a_partition_full_one_begins_the_next() {
    let rig = PoolFixture::create(10, 512);
    let (pool, index) = (&*rig.pool, new_index(&rig.pool, 1));
    let delta = index.delta.clone().unwrap();
    let other = delta.clone();
    at(SyncPoint::PartitionDue, move || other.begin_partition());
    let mut n = 0u32;
    while delta.range().1 == 0 {
        put(pool, &index, &n.to_be_bytes());
        n += 1;
    }
    assert_eq!(delta.range(), (0, 1));
    assert!(delta.newest_bytes.load(Ordering::Relaxed) < delta.bytes() / 100);
}

/// `number` indexes that share the memory for newest partitions. What is told about them needs no pages.
fn sharing(rig: &PoolFixture, number: usize) -> (Arc<ChangeBuffer>, Vec<Delta>) {
    let index = new_index(&rig.pool, 1);
    let first = index.delta.as_ref().unwrap();
    let all = (0..number).map(|_| Delta::fresh(first.tree, first.buffer()));
    (first.buffer().clone(), all.collect())
}

/// From the seventeenth index on that was written nothing but the bound on disk held the newest partitions: five times what they may have.
#[test]
fn the_newest_partitions_of_many_indexes_keep_to_their_memory() {
    for number in [1, 3, 40, 300] {
        let (buffer, all) = sharing(&PoolFixture::create(11, 512), number);
        let (most, mut largest) = (buffer.memory_max(), 0);
        let step = most / (20 * number as u64);
        // As much as may be pending in all.
        for turn in 0..DISK_TIMES * 20 * number as u64 {
            let delta = &all[turn as usize % number];
            delta.grow(step as i64, true);
            delta.begin_partition_if_due();
            largest = largest.max(buffer.newest_bytes.load(Ordering::Relaxed));
        }
        assert!(largest <= most + number as u64 * step, "{number}: {largest} of {most}");
        let partitions = all.iter().map(|delta| delta.range().1).max().unwrap();
        assert!(partitions < PARTITIONS_MAX as u16 / 2 - 1, "{number}: {partitions}");
    }
}

/// The newest partitions of indexes that nobody writes any more filled the memory, and of the one that was written each small piece was closed.
#[test]
fn what_is_not_written_any_more_does_not_close_the_partitions_of_others() {
    let (buffer, all) = sharing(&PoolFixture::create(12, 512), 20);
    let most = buffer.memory_max() as i64;
    for delta in &all[1..] {
        delta.grow(most / 18, true);
    }
    assert!(buffer.newest_sum() >= most);
    for _ in 0..2 {
        all.iter().for_each(Delta::close_if_idle);
    }
    assert!(buffer.newest_sum() < most / 2);
    let (hot, closed) = (&all[0], all[1..].iter().filter(|delta| delta.range().1 == 1).count());
    assert!(closed > 0, "some of them");
    for _ in 0..DISK_TIMES * 100 {
        hot.grow(most / 100, true);
        hot.begin_partition_if_due();
        all.iter().for_each(Delta::close_if_idle);
    }
    assert!(hot.range().1 < PARTITIONS_MAX as u16 / 2 - 1, "{:?}", hot.range());
    assert!(all[1..].iter().all(|delta| delta.range().1 <= 1));
    // All of them together again as when they go.
    all.iter().for_each(|delta| assert!(delta.discard() < 1));
    assert_eq!(
        (buffer.newest_sum(), buffer.newest_count(), buffer.idle.bytes()),
        (0, 1, 0)
    );
}

/// After each burst its partition was closed, though that made no room to speak of: soon there was no number left, and whoever read a leaf
/// looked into each of thirty partitions.
#[test]
fn an_index_that_is_written_in_bursts_keeps_its_numbers() {
    // What others have and do not write: next to nothing, or nearly as much as idle ones may have.
    for part in [i64::MAX, 450] {
        let (buffer, all) = sharing(&PoolFixture::create(14, 512), 202);
        let most = buffer.memory_max() as i64;
        let (hot, bursts, others) = (&all[0], &all[1], &all[2..]);
        others.iter().for_each(|delta| delta.grow((most / part).max(1), true));
        hot.grow(most * 6 / 10, true);
        for _ in 0..40 {
            bursts.grow(most / 700, true);
            for _ in 0..2 {
                hot.grow(1, true);
                all.iter().for_each(Delta::close_if_idle);
            }
        }
        let most_used = all.iter().map(|delta| delta.range().1).max();
        assert!(most_used < Some(8), "{most_used:?}");
        assert_eq!(hot.range().1, 0);
    }
}

/// Keys and values were counted, and the pages of small ones took two and a half times as much of the pool as they may.
#[test]
fn bytes_are_those_of_pages_about() {
    let rig = PoolFixture::create(13, 4096);
    let (pool, index) = (&*rig.pool, new_index(&rig.pool, 1));
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
