//! The bound of what is pending, when it is made smaller.
use super::change_buffer::*;
use super::rig::*;
use crate::io::sim::SimDisk;
use crate::table::Rounds;
use crate::txn::Isolation::ReadCommitted;

/// The bound was made smaller, or buffering switched off, and nobody comes who could help.
#[test]
fn what_is_beyond_the_bound_is_merged_however_busy_it_is() {
    let rig = Rig::create(SimDisk::new(1));
    let slow = rig
        .engine
        .set("io_capacity_max", 100)
        .and_then(|()| rig.engine.set("io_capacity", 100));
    slow.expect("set");
    let rows = |odd: u16| {
        let mut trx = rig.begin(ReadCommitted);
        for n in (0..24_000u16).filter(|n| n % 2 == odd) {
            rig.insert(&mut trx, &n.to_be_bytes(), &row(n as u8, n))
                .expect("insert");
        }
        commit(&rig, trx);
    };
    buffer(&rig, false);
    rows(0);
    buffer(&rig, true);
    rig.engine.set("change_buffer_test_mode", 3).expect("set");
    rig.engine.set("change_buffer_max_size", 50).expect("set");
    rows(1);
    let change = &rig.store().change;
    let filled = change.fill();
    let mut state = Rounds::default();
    let mut busy_round = || {
        rig.store().counters.rows_read.add(100_000);
        rig.store().merge_round(&mut state).expect("round")
    };
    busy_round();
    assert_eq!(busy_round(), 0, "{} thousandths are pending", change.fill());
    rig.engine.set("change_buffering", 0).expect("set");
    rig.engine.set("change_buffer_max_size", 0).expect("set");
    assert!(change.fill() > 1250, "{} of {filled}", change.fill());
    for n in 0.. {
        assert!(n < 100, "{} thousandths are pending", change.fill());
        if busy_round() == 0 {
            break;
        }
    }
    assert!((100..=1000).contains(&change.fill()), "{}", change.fill());
}

/// The user's own bound on disk; the memory's share may always wait, and the numbers of partitions last for ten times that.
#[test]
fn what_may_wait_on_disk_can_be_said() {
    let rig = Rig::create(SimDisk::new(1));
    let change = &rig.store().change;
    let set = |name: &str, value: u64| rig.engine.set(name, value).expect("set");
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
