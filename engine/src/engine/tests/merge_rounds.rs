//! The rounds of the change worker: how much they come to.
use super::change_buffer::*;
use super::fixture::*;
use crate::change::{self, Buffering, Op};
use crate::index::Index;
use crate::io::sim::SimDisk;
use crate::table::{IndexSpec, Rounds, TableSpec};
use crate::txn::Isolation::ReadCommitted;

/// An entry of by_group that no row has.
pub(super) fn put(fixture: &TableFixture, n: u32) {
    put_into(fixture, &fixture.table.layout().secondary[0].index, n);
}
fn put_into(fixture: &TableFixture, index: &Index, n: u32) {
    let mut value = Vec::new();
    crate::index::secondary::encode(&mut value, 1, 4, 0, &[7; 400]);
    let key = &n.to_be_bytes();
    let op = Op::Put { key, value: &value };
    change::submit(&fixture.store().pool, index, op).expect("put");
}

/// The leaves of a round were only for the tables that the round visited. Of a thousand tables, one
/// of which was written, three rounds of four merged nothing.
#[test]
fn one_table_of_many_gets_the_leaves_of_every_round() {
    let fixture = TableFixture::create(SimDisk::new(1));
    fixture.store().change.set_buffering(Buffering::None);
    (0..6000).for_each(|n| put(&fixture, n << 8));
    for n in 0..1023 {
        let spec = TableSpec::default();
        fixture
            .store()
            .tables()
            .create_table(&format!("a{n:04}"), &spec)
            .expect("create");
    }
    buffer(&fixture, true);
    (0..6000).for_each(|n| put(&fixture, n << 8 | 1));
    fixture.engine.set("io_capacity", 10).expect("set");
    fixture.engine.set("io_capacity_max", 20).expect("set");
    fixture.engine.set("change_buffer_drain", 1).expect("set");
    let mut state = Rounds::default();
    let merge = |state: &mut Rounds| fixture.store().merge_scheduler().merge_round(state).expect("round");
    // Once round.
    for _ in 0..5 {
        merge(&mut state);
    }
    let leaves: usize = (0..40).map(|_| merge(&mut state)).sum();
    assert!(pending(&fixture) > 0, "there was enough to do");
    assert!((75..=100).contains(&leaves), "{leaves} leaves in 40 rounds of two");
    fixture.engine.set("io_capacity_max", 2000).expect("set");
    let mut rounds = 0;
    while fixture.store().change.is_draining() {
        merge(&mut state);
        rounds += 1;
        assert!(rounds < 40);
    }
    assert_eq!(pending(&fixture), 0);
}

/// A calm engine merged its dense leaves on top of what was due: a drain came to more than
/// io_capacity_max.
#[test]
fn a_calm_engine_merges_at_twice_its_io_capacity() {
    for (read, drains, most, each) in [
        (0, false, 160, 8),
        (1000, false, 160, 8),
        (1000, false, 60, 6),
        (0, true, 80, 8),
        (1000, true, 80, 8),
    ] {
        let disk = SimDisk::new(1);
        let fixture = TableFixture::create(disk.clone());
        let groups = 6000;
        fixture.store().change.set_buffering(Buffering::None);
        (0..groups).for_each(|n| put(&fixture, n << 8));
        buffer(&fixture, true);
        (1..=2).for_each(|low| (0..groups).for_each(|n| put(&fixture, n << 8 | low)));
        // Of a round: four leaves.
        fixture.engine.set("io_capacity", 40).expect("set");
        fixture.engine.set("io_capacity_max", most).expect("set");
        let mut state = Rounds::default();
        let mut round = || {
            disk.advance_us(100_000);
            fixture.engine.counters().rows_read.add(read);
            fixture
                .store()
                .merge_scheduler()
                .merge_round(&mut state)
                .expect("round")
        };
        // Until it is known that nothing comes.
        for _ in 0..20 {
            round();
        }
        if drains {
            fixture.engine.set("change_buffer_drain", 1).expect("set");
        }
        let rounds = 5;
        let leaves: usize = (0..rounds).map(|_| round()).sum();
        // The last leaf of a round may be spread over its neighbours.
        let expected = rounds * each..=rounds * (each + 2);
        assert!(
            expected.contains(&leaves),
            "{leaves} leaves, {read} rows read a round; at most {most}; a drain: {drains}"
        );
    }
}

/// Ten rounds were taken for a second, however long they took. On a slow disk an engine with next
/// to nothing to do counted as busy.
#[test]
fn a_second_is_a_second_however_long_the_rounds_take() {
    for (changes, merges) in [(5, true), (100, false)] {
        let disk = SimDisk::new(1);
        let fixture = TableFixture::create(disk.clone());
        buffer(&fixture, true);
        let (mut state, mut n) = (Rounds::default(), 0u16);
        let mut merged = 0;
        for _ in 0..12 {
            for _ in 0..changes {
                let mut trx = fixture.begin(ReadCommitted);
                fixture
                    .insert(&mut trx, &n.to_be_bytes(), &row(n as u8, n))
                    .expect("insert");
                commit(&fixture, trx);
                n += 1;
            }
            disk.advance_us(5_000_000);
            merged += fixture
                .store()
                .merge_scheduler()
                .merge_round(&mut state)
                .expect("round");
        }
        assert_eq!(merged > 0, merges, "{changes} changes in five seconds");
    }
}

/// Changes that are too old are swept in equal shares. The order was turned twice: by the tables
/// that the round before had left, which that round had turned, and by the shares. Of three tables
/// one never came first.
#[test]
fn where_leaves_do_not_suffice_each_old_index_has_its_turn() {
    for number in 2..=7 {
        turns_come_to_all(number, 1);
        turns_come_to_all(1, number);
    }
    turns_come_to_all(2, 2);
    turns_come_to_all(3, 2);
}
fn turns_come_to_all(tables: usize, indexes: usize) {
    let disk = SimDisk::new(1);
    let fixture = TableFixture::create(disk.clone());
    let index = |n| IndexSpec {
        name: format!("i{n}"),
        ..IndexSpec::default()
    };
    let spec = TableSpec {
        indexes: (0..indexes).map(index).collect(),
        ..TableSpec::default()
    };
    let table = |n| {
        let name = format!("u{n}");
        fixture.store().tables().create_table(&name, &spec).expect("create");
        fixture.store().tables().open_table(&name).expect("open")
    };
    let tables: Vec<_> = (0..tables).map(table).collect();
    let all: Vec<_> = tables.iter().flat_map(|table| &table.layout().secondary).collect();
    let put_all = |low| {
        let put = |index: &Index| (0..1200u32).for_each(|n| put_into(&fixture, index, n << 8 | low));
        all.iter().for_each(|s| put(&s.index));
    };
    fixture.store().change.set_buffering(Buffering::None);
    put_all(0);
    buffer(&fixture, true);
    put_all(1);
    // Of a round: one leaf.
    fixture.engine.set("io_capacity", 10).expect("set");
    fixture.engine.set("io_capacity_max", 20).expect("set");
    fixture.engine.set("change_buffer_max_age", 1).expect("set");
    disk.advance_us(2_000_000);
    let mut state = Rounds::default();
    let rounds = 10 * all.len();
    for _ in 0..rounds {
        fixture
            .store()
            .merge_scheduler()
            .merge_round(&mut state)
            .expect("round");
    }
    let merged = |index: &Index| index.delta.as_ref().expect("one").progress.merged();
    let merged: Vec<u64> = all.iter().map(|s| merged(&s.index)).collect();
    let (least, most) = (merged.iter().min().expect("some"), merged.iter().max().expect("some"));
    assert!(
        *least * 2 >= *most,
        "{} tables, {indexes} indexes: {merged:?} in {rounds} rounds",
        tables.len()
    );
}
