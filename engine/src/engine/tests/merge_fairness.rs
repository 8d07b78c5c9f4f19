//! How merge rounds share their work: every table and every index has its turn.
use super::change_buffer::*;
use super::change_buffer_control::{of_index, report, rounds, rows};
use super::fixture::*;
use crate::base::IndexId;
use crate::change::{self, Op};
use crate::engine::Close;
use crate::index::Index;
use crate::io::sim::SimDisk;
use crate::table::{IndexSpec, Rounds, TableSpec};

/// An entry that no row has.
fn put(fixture: &TableFixture, index: &Index, n: u32) {
    let key = n.to_be_bytes();
    let mut value = Vec::new();
    crate::index::secondary::encode(&mut value, 1, 4, 0, &[]);
    let op = Op::Put {
        key: &key,
        value: &value,
    };
    change::submit(&fixture.store().pool, index, op).expect("put");
}

/// A drain looked at no more tables than a round does, if all had been clean before.
#[test]
fn a_drain_reaches_every_table() {
    let fixture = TableFixture::create(SimDisk::new(1));
    buffer(&fixture, true);
    for n in 0..300 {
        let spec = TableSpec::default();
        fixture
            .store()
            .tables()
            .create_table(&format!("a{n:03}"), &spec)
            .expect("create");
    }
    let mut state = Rounds::default();
    for _ in 0..5 {
        rows(&fixture, 0..0);
        fixture
            .store()
            .merge_scheduler()
            .merge_round(&mut state)
            .expect("round");
    }
    rows(&fixture, 0..10);
    fixture.engine.set("change_buffer_drain", 1).expect("set");
    for _ in 0..20 {
        fixture
            .store()
            .merge_scheduler()
            .merge_round(&mut state)
            .expect("round");
    }
    assert_eq!((report(&fixture).entries, report(&fixture).draining), (0, false));
}

/// After a restart every delta tree's root has to be read before its changes can be merged. Of a
/// thousand indexes at four a round, the last one's turn came after half a minute.
#[test]
fn old_debt_is_found_soon_among_many_indexes() {
    let disk = SimDisk::new(1);
    let fixture = TableFixture::create(disk.clone());
    for n in 0..200 {
        fixture
            .store()
            .tables()
            .create_table(&format!("a{n:03}"), &spec())
            .expect("create");
    }
    buffer(&fixture, true);
    rows(&fixture, 0..10);
    fixture.engine.close(Close::Fast).expect("closed");
    let fixture = TableFixture::reopen(disk).expect("opened");
    assert_eq!(report(&fixture).uncounted, 402);
    assert!(!of_index(&fixture, "by_tag").counted);
    rounds(&fixture, 30);
    assert_eq!((report(&fixture).uncounted, report(&fixture).entries), (0, 0));
    assert_eq!(fixture.entries_in_tree(BY_GROUP), 10);
}

/// Under pressure a round ended with the first index of a table, if that always had enough to do.
#[test]
fn every_index_of_a_table_has_its_turn() {
    let fixture = TableFixture::create(SimDisk::new(1));
    buffer(&fixture, true);
    fixture.engine.set("io_capacity_max", 10).expect("set");
    fixture.engine.set("io_capacity", 10).expect("set");
    let many = TableSpec {
        indexes: (0..4)
            .map(|n| IndexSpec {
                name: format!("i{n}"),
                ..IndexSpec::default()
            })
            .collect(),
        ..TableSpec::default()
    };
    fixture.store().tables().create_table("many", &many).expect("create");
    let table = fixture.store().tables().open_table("many").expect("open");
    fixture.engine.set("change_buffer_drain", 1).expect("set");
    let mut state = Rounds::default();
    let mut merged = std::collections::BTreeSet::<IndexId>::new();
    for n in 0..40 {
        for s in &table.layout().secondary {
            put(&fixture, &s.index, n);
        }
        fixture
            .store()
            .merge_scheduler()
            .merge_round(&mut state)
            .expect("round");
        let done = table
            .layout()
            .secondary
            .iter()
            .filter(|s| s.index.delta.as_ref().is_some_and(|d| d.progress.merged() > 0));
        merged.extend(done.map(|s| s.index.id));
    }
    assert_eq!(merged.len(), 4);
}

/// One that is written hard had every leaf of a drain, and what waited for the others grew old
/// without an end.
#[test]
fn an_index_that_is_written_hard_leaves_the_others_their_turn() {
    let fixture = TableFixture::create(SimDisk::new(1));
    buffer(&fixture, true);
    fixture.engine.set("io_capacity", 10).expect("set");
    fixture.engine.set("io_capacity_max", 10).expect("set");
    let named = |name: &str| IndexSpec {
        name: name.into(),
        unique: false,
        wide: false,
        ..IndexSpec::default()
    };
    let two = TableSpec {
        indexes: vec![named("hard"), named("little")],
        ..TableSpec::default()
    };
    fixture.store().tables().create_table("two", &two).expect("create");
    let table = fixture.store().tables().open_table("two").expect("open");
    let [hard, little] = [0, 1].map(|n: usize| &table.layout().secondary[n].index);
    fixture.engine.set("change_buffer_drain", 1).expect("set");
    let mut state = Rounds::default();
    let mut n = 0;
    let mut round = || {
        for _ in 0..200 {
            n += 1;
            put(&fixture, hard, n);
        }
        fixture
            .store()
            .merge_scheduler()
            .merge_round(&mut state)
            .expect("round");
    };
    round();
    (0..5).for_each(|n| put(&fixture, little, n));
    round();
    round();
    let merged = |index: &Index| index.delta.as_ref().expect("delta").progress.merged();
    assert_eq!(merged(little), 5);
    assert!(merged(hard) > 0);
}
