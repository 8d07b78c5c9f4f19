//! A load that is rolled back in steps, and a definition that changes between two of them. No table
//! is locked for a transaction that a crash cut short. An index or a table may be dropped or moved:
//! nothing of the load stays.
use super::bulk_insert::{commit, fill};
use super::fixture::*;
use super::load_new_table::open;
use crate::engine::steps::LoserRollback;
use crate::io::sim::SimDisk;
use crate::table::IndexChange;
use crate::txn::Isolation::{ReadCommitted, ReadUncommitted};

const ROWS: u32 = 6000;

/// Long keys: each index has more leaves than the half of what one step takes.
fn rows() -> Vec<(Vec<u8>, Row)> {
    let one = |n: u32| {
        let row = Row {
            group: (n % 7) as u8,
            shade: (n % 3) as u8,
            tag: Some(n as u16),
            body: vec![n as u8; 60],
        };
        ([&n.to_be_bytes()[..], &[b'k'; 110]].concat(), row)
    };
    (0..ROWS).map(one).collect()
}

/// Tables t and u, loaded in this order (u: if wanted) by a transaction that a crash cut short. Its
/// rollback has made its first step.
fn half_way(with_u: bool) -> (TableFixture, LoserRollback) {
    let disk = SimDisk::new(31);
    let fixture = open(disk.clone(), 0);
    let mut trx = fixture.begin(ReadCommitted);
    fill(&fixture, &mut trx, &rows()).expect("load");
    if with_u {
        fixture.store().tables().create_table("u", &spec()).expect("create");
        let table = fixture.store().tables().open_table("u").expect("open");
        let other = TableFixture {
            engine: fixture.engine.clone(),
            table,
        };
        fill(&other, &mut trx, &rows()).expect("load");
    }
    fixture.engine.flush_log().expect("flush");
    std::mem::forget(trx);
    let after = disk.crash(1);
    drop(fixture);
    let fixture = open(after, 0);
    let losers = fixture.engine.in_doubt.take_losers();
    let mut losers = LoserRollback::new(losers);
    assert_eq!(losers.step(fixture.store(), 1), Ok(true));
    (fixture, losers)
}

fn finish(fixture: &TableFixture, mut losers: LoserRollback) {
    while losers.step(fixture.store(), 1).expect("nothing is in the way") {}
    fixture.purge_all();
    fixture.store().merge_scheduler().drain_changes().expect("drain");
    let mut trx = fixture.begin(ReadUncommitted);
    let mut left = 0;
    for index in 0..=fixture.table.layout().secondary.len() as u32 {
        left += fixture
            .scan(&mut trx, index, false, index > 0, None)
            .expect("scan")
            .len();
    }
    commit(fixture, trx);
    assert_eq!(left, 0, "rows and entries");
    fixture.check_table();
    assert!(fixture
        .store()
        .loads()
        .has_empty_trees(fixture.table.layout())
        .expect("look"));
}

fn set_indexes(fixture: &TableFixture, drop: &[&str], order: &[&str]) {
    let change = IndexChange {
        drop: drop.to_vec(),
        order: order.to_vec(),
        ..change_of(&fixture.table)
    };
    fixture.store().indexes().alter_indexes(&[change]).expect("published");
}

/// The position in the first table was taken for one in the second. The second table's indexes were
/// passed over, and so were its rows below the position.
#[test]
fn a_table_dropped_half_way_leaves_no_place_to_the_next() {
    for truncate in [false, true] {
        let (fixture, mut losers) = half_way(true);
        // Its indexes are done, its rows are in work.
        assert_eq!(losers.step(fixture.store(), 1), Ok(true));
        if truncate {
            fixture.store().tables().truncate_table("u").expect("truncate");
        } else {
            fixture.store().tables().drop_table("u").expect("drop");
        }
        finish(&fixture, losers);
    }
}

/// A position was the number of an index in the table's order. With the first index gone it was
/// that of the rows, and those below stayed.
#[test]
fn an_index_dropped_half_way_moves_no_place() {
    for dropped in ["by_group", "by_tag"] {
        let (fixture, losers) = half_way(false);
        let stays = if dropped == "by_tag" { "by_group" } else { "by_tag" };
        set_indexes(&fixture, &[dropped], &[stays]);
        finish(&fixture, losers);
    }
    let (fixture, losers) = half_way(false);
    set_indexes(&fixture, &["by_group", "by_tag"], &[]);
    finish(&fixture, losers);
}

#[test]
fn a_load_is_removed_from_indexes_reordered_half_way() {
    let (fixture, losers) = half_way(false);
    set_indexes(&fixture, &[], &["by_tag", "by_group"]);
    finish(&fixture, losers);
}
