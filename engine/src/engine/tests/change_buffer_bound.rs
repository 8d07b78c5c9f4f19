//! The bound of what is pending: when it comes near, and when it is made smaller.
use super::change_buffer::*;
use super::fixture::*;
use super::merge_rounds::put;
use crate::io::sim::SimDisk;
use crate::table::Rounds;
use crate::txn::Isolation::ReadCommitted;
use std::sync::Arc;

/// The bound was made smaller, or buffering switched off, and no writer comes that could help to
/// merge.
#[test]
fn what_is_beyond_the_bound_is_merged_however_busy_it_is() {
    let fixture = TableFixture::create(SimDisk::new(1));
    let slow = fixture
        .engine
        .set("io_capacity_max", 100)
        .and_then(|()| fixture.engine.set("io_capacity", 100));
    slow.expect("set");
    let rows = |odd: u16| {
        let mut trx = fixture.begin(ReadCommitted);
        for n in (0..24_000u16).filter(|n| n % 2 == odd) {
            fixture
                .insert(&mut trx, &n.to_be_bytes(), &row(n as u8, n))
                .expect("insert");
        }
        commit(&fixture, trx);
    };
    buffer(&fixture, false);
    rows(0);
    buffer(&fixture, true);
    fixture.engine.set("change_buffer_test_mode", 3).expect("set");
    fixture.engine.set("change_buffer_max_size", 50).expect("set");
    rows(1);
    let change = &fixture.store().change;
    let filled = change.fill();
    let mut state = Rounds::default();
    let mut busy_round = || {
        fixture.store().counters.rows_read.add(100_000);
        fixture
            .store()
            .merge_scheduler()
            .merge_round(&mut state)
            .expect("round")
    };
    busy_round();
    assert_eq!(busy_round(), 0, "{} thousandths are pending", change.fill());
    fixture.engine.set("change_buffering", 0).expect("set");
    fixture.engine.set("change_buffer_max_size", 0).expect("set");
    assert!(change.fill() > 1250, "{} of {filled}", change.fill());
    for n in 0.. {
        assert!(n < 100, "{} thousandths are pending", change.fill());
        if busy_round() == 0 {
            break;
        }
    }
    assert!((100..=1000).contains(&change.fill()), "{}", change.fill());
}

/// The user's own bound on disk; the memory's share may always wait, and the numbers of partitions
/// last for ten times that.
#[test]
fn what_may_wait_on_disk_can_be_said() {
    let fixture = TableFixture::create(SimDisk::new(1));
    let change = &fixture.store().change;
    let set = |name: &str, value: u64| fixture.engine.set(name, value).expect("set");
    set("change_buffer_max_size", 50);
    let memory = change.memory_max();
    assert_eq!(change.bytes_max(), memory * 10);
    set("change_buffer_max_disk_size", memory * 3);
    assert_eq!(change.bytes_max(), memory * 3);
    set("change_buffer_max_disk_size", 1);
    assert_eq!(change.bytes_max(), memory);
    set("change_buffer_max_disk_size", u64::MAX);
    assert_eq!(change.bytes_max(), memory * 10);
    set("change_buffer_max_disk_size", 0);
    assert_eq!(change.bytes_max(), memory * 10);
}

/// Groups that fill the base, newest partitions bounded to so many bytes, and two leaves of a
/// round.
fn held_back(groups: u32, memory: u64) -> (Arc<SimDisk>, TableFixture) {
    let disk = SimDisk::new(1);
    let fixture = TableFixture::create(disk.clone());
    buffer(&fixture, false);
    (0..groups).for_each(|n| put(&fixture, n << 8));
    buffer(&fixture, true);
    fixture.store().change.set_memory_max(memory);
    fixture.engine.set("io_capacity", 20).expect("set");
    fixture.engine.set("io_capacity_max", 20).expect("set");
    (disk, fixture)
}
/// The worker's next round, of a busy engine.
fn busy_round(disk: &SimDisk, fixture: &TableFixture, rounds: &mut Rounds) -> usize {
    disk.advance_us(100_000);
    fixture.store().counters.rows_read.add(100_000);
    fixture.store().merge_scheduler().merge_round(rounds).expect("round")
}

/// The worker stood at io_capacity_max, with time left, and the writers merged what was beyond it.
#[test]
fn writers_are_left_alone_while_the_worker_has_time() {
    // Leaves of the base have room for some thirty entries; ten wait for each.
    let (disk, fixture) = held_back(6000, 128 << 10);
    let mut state = Rounds::default();
    let (mut fullest, mut merged) = (0, 0);
    for round in 0..150 {
        // Multiplied so, numbers are spread evenly over the groups.
        (0..60).for_each(|n| put(&fixture, (((round * 60 + n) * 3709 % 6000) << 8) + 1 + round / 100));
        let fill = fixture.store().change.fill();
        fullest = fullest.max(fill);
        let leaves = busy_round(&disk, &fixture, &mut state);
        assert!(leaves <= 3 || fill > 750, "{leaves} leaves at {fill} thousandths");
        merged += leaves;
    }
    assert!(merged > 150 * 3, "{merged} leaves in 150 rounds");
    assert!((800..875).contains(&fullest), "{fullest} thousandths");
    assert_eq!(fixture.engine.counters().change_buffer_throttled.get(), 0);
}

/// Beyond io_capacity_max the worker goes on for the time of one round, not for as long as it
/// takes: a request to stop would wait.
#[test]
fn beyond_its_limit_a_round_ends_with_its_time() {
    let groups = 30_000;
    let (disk, fixture) = held_back(groups, 320 << 10);
    let mut state = Rounds::default();
    let mut round = |numbers: std::ops::Range<u32>| {
        numbers.for_each(|n| put(&fixture, ((n * 3709 % groups) << 8) + 1));
        busy_round(&disk, &fixture, &mut state)
    };
    // Until it is known what a leaf takes.
    round(0..4_000);
    round(4_000..4_100);
    disk.set_read_us(1000);
    let leaves = round(4_100..5_000);
    // A read or two each, and some between two looks at the clock.
    assert!((2..=116).contains(&leaves), "{leaves} leaves");
    disk.set_read_us(0);
    let leaves = round(5_000..5_500);
    assert!(leaves > 100, "{leaves} leaves where no time goes by");
}
