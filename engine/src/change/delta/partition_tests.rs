//! The end of the partition numbers, and when partitions are closed.
use super::*;
use crate::base::sync_point::at;
use crate::change::fixture::new_index;
use crate::change::policy::DISK_TIMES;
use crate::change::{drain, submit, Buffering, ChangeBuffer, Delta, IndexTrees, Op};
use crate::entry::secondary::encode;
use crate::pool::testing::PoolFixture;
use crate::pool::Pool;
use std::sync::Arc;

fn put(pool: &Pool, index: &IndexTrees, key: &[u8]) {
    let mut value = Vec::new();
    encode(&mut value, 1, 4, 4, b"raw");
    submit(pool, index, Op::Put { key, value: &value }).unwrap();
}

/// An index that was never empty had no number left for another partition. The newest partition was
/// not closed any more, and grew out of memory.
#[test]
fn an_index_whose_numbers_are_used_up_takes_no_more_until_it_is_empty() {
    let fixture = PoolFixture::create(2, 128);
    let (pool, index) = (&*fixture.pool, new_index(&fixture.pool, 1));
    let delta = index.delta.as_ref().unwrap();
    delta.summary.partitions.set_range(u16::MAX - 1, u16::MAX - 1);
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
    assert_eq!((delta.entries(), delta.summary.partitions.range()), (0, (0, 0)));
    assert!(!delta.takes_no_more());
    put(pool, &index, b"new");
    assert_eq!(delta.entries(), 1);
}

/// Several appenders found the newest partition full, and each began one more, although the first
/// had made room. Soon there was no number left, and the newest partition was not closed any more.
#[test]
fn of_several_appenders_at_a_full_partition_one_begins_the_next() {
    let fixture = PoolFixture::create(10, 512);
    let (pool, index) = (&*fixture.pool, new_index(&fixture.pool, 1));
    let delta = index.delta.clone().unwrap();
    let other = delta.clone();
    at(SyncPoint::PartitionDue, move || other.begin_partition());
    let mut n = 0u32;
    while delta.summary.partitions.range().1 == 0 {
        put(pool, &index, &n.to_be_bytes());
        n += 1;
    }
    assert_eq!(delta.summary.partitions.range(), (0, 1));
    assert!(delta.summary.sums.newest_bytes() < delta.bytes() / 100);
}

/// `number` indexes that share the memory for newest partitions. Their figures need no pages.
fn sharing(fixture: &PoolFixture, number: usize) -> (Arc<ChangeBuffer>, Vec<Delta>) {
    let index = new_index(&fixture.pool, 1);
    let first = index.delta.as_ref().unwrap();
    let all = (0..number).map(|_| Delta::fresh(first.tree, first.buffer()));
    (first.buffer().clone(), all.collect())
}

/// From the seventeenth written index on only the bound on disk held the newest partitions: five
/// times what they may have.
#[test]
fn the_newest_partitions_of_many_indexes_keep_to_their_memory() {
    for number in [1, 3, 40, 300] {
        let (buffer, all) = sharing(&PoolFixture::create(11, 512), number);
        let (most, mut largest) = (buffer.memory_max(), 0);
        let step = most / (20 * number as u64);
        // As much as may be pending in all.
        for turn in 0..DISK_TIMES * 20 * number as u64 {
            let delta = &all[turn as usize % number];
            delta.summary.sums.grow(step as i64, true);
            delta.summary.partitions.begin_if_due(&delta.summary.sums);
            largest = largest.max(buffer.totals.newest_bytes() as u64);
        }
        assert!(largest <= most + number as u64 * step, "{number}: {largest} of {most}");
        let partitions = all
            .iter()
            .map(|delta| delta.summary.partitions.range().1)
            .max()
            .unwrap();
        assert!(partitions < PARTITIONS_MAX as u16 / 2 - 1, "{number}: {partitions}");
    }
}

/// The newest partitions of indexes that were not written any more filled the memory. So each small
/// partition of the written index was closed.
#[test]
fn what_is_not_written_any_more_does_not_close_the_partitions_of_others() {
    let (buffer, all) = sharing(&PoolFixture::create(12, 512), 20);
    let most = buffer.memory_max() as i64;
    for delta in &all[1..] {
        delta.summary.sums.grow(most / 18, true);
    }
    assert!(buffer.totals.newest_bytes() >= most);
    for _ in 0..2 {
        all.iter().for_each(Delta::close_if_idle);
    }
    assert!(buffer.totals.newest_bytes() < most / 2);
    let (hot, closed) = (
        &all[0],
        all[1..]
            .iter()
            .filter(|delta| delta.summary.partitions.range().1 == 1)
            .count(),
    );
    assert!(closed > 0, "some of them");
    for _ in 0..DISK_TIMES * 100 {
        hot.summary.sums.grow(most / 100, true);
        hot.summary.partitions.begin_if_due(&hot.summary.sums);
        all.iter().for_each(Delta::close_if_idle);
    }
    assert!(
        hot.summary.partitions.range().1 < PARTITIONS_MAX as u16 / 2 - 1,
        "{:?}",
        hot.summary.partitions.range()
    );
    assert!(all[1..].iter().all(|delta| delta.summary.partitions.range().1 <= 1));
    // The totals are as without these trees.
    all.iter().for_each(|delta| assert!(delta.discard() < 1));
    assert_eq!(
        (
            buffer.totals.newest_bytes(),
            buffer.totals.newest_count(),
            buffer.totals.idle_bytes()
        ),
        (0, 1, 0)
    );
}

/// After each burst the partition was closed, although that made hardly any room. Soon there was no
/// number left, and every read of a leaf looked into thirty partitions.
#[test]
fn an_index_that_is_written_in_bursts_keeps_its_numbers() {
    // The part of the memory that each idle index has: next to nothing, or nearly as much as idle
    // partitions may have.
    for part in [i64::MAX, 450] {
        let (buffer, all) = sharing(&PoolFixture::create(14, 512), 202);
        let most = buffer.memory_max() as i64;
        let (hot, bursts, others) = (&all[0], &all[1], &all[2..]);
        others
            .iter()
            .for_each(|delta| delta.summary.sums.grow((most / part).max(1), true));
        hot.summary.sums.grow(most * 6 / 10, true);
        for _ in 0..40 {
            bursts.summary.sums.grow(most / 700, true);
            for _ in 0..2 {
                hot.summary.sums.grow(1, true);
                all.iter().for_each(Delta::close_if_idle);
            }
        }
        let most_used = all.iter().map(|delta| delta.summary.partitions.range().1).max();
        assert!(most_used < Some(8), "{most_used:?}");
        assert_eq!(hot.summary.partitions.range().1, 0);
    }
}
