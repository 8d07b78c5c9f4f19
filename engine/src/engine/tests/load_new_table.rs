//! Loads of new tables: the table holds exactly the loaded rows, in any order of the input. A load
//! that fails or crashes leaves a table that can be dropped without a trace. No transaction sees
//! half of a load.
use super::fixture::*;
use crate::base::{Error, Result};
use crate::engine::{Config, Engine};
use crate::io::sim::SimDisk;
use crate::io::Disk;
use crate::space;
use crate::table::{StoreConfig, TableLoad};
use crate::txn::Isolation;
use std::sync::Arc;

pub type Rows = Vec<(Vec<u8>, Row)>;

fn config_with(bulk_load_min: u64) -> Config {
    Config {
        store: StoreConfig {
            bulk_load_min,
            ..StoreConfig::default()
        },
        // Several runs, and rows that go to pages before the last one has come.
        sort_buffer_size: 64 << 10,
        ..config()
    }
}

pub fn open(disk: Arc<SimDisk>, bulk_load_min: u64) -> TableFixture {
    let engine = Engine::open(disk, config_with(bulk_load_min)).expect("engine");
    if engine.store().tables().open_table("t").is_err() {
        engine.store().tables().create_table("t", &spec()).expect("create");
    }
    let table = engine.store().tables().open_table("t").expect("open");
    TableFixture { engine, table }
}

pub fn row(n: u32) -> Row {
    Row {
        group: (n % 7) as u8,
        shade: (n % 3) as u8,
        tag: (n % 4 != 0).then_some(n as u16),
        // Some are longer than a page.
        body: vec![n as u8; if n % 97 == 5 { 20_000 } else { (n % 300) as usize }],
    }
}

fn add(load: &mut TableLoad, pk: &[u8], row: &Row) -> Result<()> {
    with_entries(pk, row, |entries| load.add(pk, &row.encode(), entries))
}

pub fn load_all(fixture: &TableFixture, rows: &[(Vec<u8>, Row)]) -> Result<()> {
    let mut trx = fixture.begin(Isolation::ReadCommitted);
    let mut load = fixture
        .store()
        .loads()
        .begin_load(&fixture.table)?
        .expect("an empty table");
    let mut done = Ok(());
    for (pk, row) in rows {
        done = done.and_then(|()| add(&mut load, pk, row));
    }
    done = done.and_then(|()| load.finish(&mut trx));
    match &done {
        Ok(()) => fixture.engine.commit(&mut trx, true)?,
        Err(Error::Duplicate { .. }) => {
            load.abort()?;
            fixture.engine.rollback(&mut trx)?;
        }
        Err(_) => std::mem::forget(trx),
    }
    done
}

/// In the order of the keys; in none; almost in order.
pub fn orders(n: u32) -> Vec<(&'static str, Rows)> {
    let shuffled: Vec<_> = (0..n).map(|i| (pk(i), row(i))).collect();
    let mut sorted = shuffled.clone();
    sorted.sort_by(|a, b| a.0.cmp(&b.0));
    let mut late = sorted.clone();
    for at in [n as usize / 3, n as usize / 2].into_iter().filter(|_| n > 2) {
        let moved = late.remove(at);
        late.push(moved);
    }
    vec![("shuffled", shuffled), ("sorted", sorted), ("late", late)]
}

#[test]
fn what_was_loaded_is_there_whatever_the_order() {
    for (n, bulk_load_min) in [(0, 0), (1, 0), (3000, 0), (3000, 100 << 10), (3000, u64::MAX)] {
        for (order, rows) in orders(n).into_iter().take(if n < 3000 { 1 } else { 3 }) {
            let disk = SimDisk::new(n as u64);
            let fixture = open(disk.clone(), bulk_load_min);
            load_all(&fixture, &rows).expect(order);
            let model: Model = rows.iter().cloned().collect();
            let what = format!("{n} rows, {order}, minimum {bulk_load_min}");
            // Durable without a word from the commit, and a table like any other.
            let after = disk.crash(1);
            drop(fixture);
            let fixture = open(after, bulk_load_min);
            let mut trx = fixture.begin(Isolation::RepeatableRead);
            fixture.check_view(&mut trx, &model, &what);
            fixture.engine.commit(&mut trx, false).expect("commit");
            fixture.check_table();
            assert!(
                fixture
                    .store()
                    .loads()
                    .begin_load(&fixture.table)
                    .expect("look")
                    .is_none()
                    || n == 0
            );
            for (i, (pk, old)) in model.iter().enumerate().step_by(5) {
                let mut trx = fixture.begin(Isolation::RepeatableRead);
                match i % 2 {
                    0 => fixture.delete(&mut trx, pk, old).expect("delete"),
                    _ => fixture.update(&mut trx, pk, old, &row(i as u32 * 4)).expect("update"),
                }
                fixture.engine.rollback(&mut trx).expect("rollback");
            }
            let mut trx = fixture.begin(Isolation::RepeatableRead);
            fixture.check_view(&mut trx, &model, &what);
            fixture.engine.commit(&mut trx, false).expect("commit");
        }
    }
}

/// The load's pages were pages of other rows before, and the log after the checkpoint still has
/// images of these. A recovery that takes the images for newer puts the dead rows in the load's
/// place. In the crash set the second load of a workload hardly ever gets the extents of the first
/// one. So the crash set did not notice a recovery that forgot which extents had been given away.
#[test]
fn a_load_outlives_what_its_pages_held_before() {
    let config = || Config {
        redo_log_capacity: 64 << 20,
        ..config_with(0)
    };
    let disk = SimDisk::new(4);
    let fixture = TableFixture::with(Engine::open_still(disk.clone(), config()).expect("engine"));
    let sized = |n: u32, len: usize| Row {
        body: vec![n as u8; len],
        ..row(n)
    };
    let dead: Rows = (0..9000).map(|n| (pk(n), sized(n, 400))).collect();
    for (pk, row) in &dead {
        let mut trx = fixture.begin(Isolation::ReadCommitted);
        fixture.insert(&mut trx, pk, row).expect("insert");
        fixture.engine.commit(&mut trx, false).expect("commit");
    }
    let usage = || space::usage(&fixture.store().pool, fixture.table.layout().id).expect("usage");
    assert!(
        usage().used > 4 * space::EXTENT_PAGES,
        "whole extents become free later"
    );
    for (pk, row) in &dead {
        let mut trx = fixture.begin(Isolation::ReadCommitted);
        fixture.delete(&mut trx, pk, row).expect("delete");
        fixture.engine.commit(&mut trx, false).expect("commit");
    }
    for _ in 0..10 {
        while fixture.store().purger().purge_step(1000).expect("purge") {}
        fixture.store().merge_scheduler().drain_changes().expect("merge");
    }
    assert!(
        fixture
            .store()
            .loads()
            .has_empty_trees(fixture.table.layout())
            .expect("look"),
        "{:?}",
        usage()
    );
    let size = usage().pages;
    let rows: Rows = (0..9000).map(|n| (pk(n + 20_000), sized(n, 200))).collect();
    load_all(&fixture, &rows).expect("load");
    assert_eq!(usage().pages, size, "the load got what the dead rows had");
    assert!(
        fixture.store().redo.checkpoint_lsn() < 1 << 20,
        "no checkpoint has passed the dead rows' changes"
    );
    let after = disk.crash(1);
    drop(fixture);
    let engine = Engine::open_still(after, config()).expect("open");
    let table = engine.store().tables().open_table("t").expect("table");
    let fixture = TableFixture { engine, table };
    let mut trx = fixture.begin(Isolation::RepeatableRead);
    fixture.check_view(&mut trx, &rows.into_iter().collect(), "after the crash");
    fixture.engine.commit(&mut trx, false).expect("commit");
    fixture.check_table();
}

#[test]
fn views_are_older_or_see_every_row() {
    let fixture = open(SimDisk::new(3), 0);
    let mut old = fixture.begin(Isolation::RepeatableRead);
    fixture.store().trx_sys.visibility.open_view(&mut old);
    let rows = orders(2000).swap_remove(2).1;
    load_all(&fixture, &rows).expect("load");
    let seen = fixture.scan(&mut old, 0, false, false, None);
    assert_eq!(seen.expect_err("half of the truth"), Error::TableChanged);
    fixture.engine.commit(&mut old, false).expect("commit");
    let mut new = fixture.begin(Isolation::RepeatableRead);
    assert_eq!(fixture.scan(&mut new, 0, false, false, None).expect("scan").len(), 2000);
    fixture.engine.commit(&mut new, false).expect("commit");
}

#[test]
fn a_duplicate_is_named_and_leaves_nothing() {
    for bulk_load_min in [0, 100 << 10, u64::MAX] {
        for (order, mut rows) in orders(2500) {
            // What long rows have beside the tree goes with the file.
            rows.iter_mut().for_each(|(_, row)| row.body.truncate(300));
            for index in [0, 2] {
                let fixture = open(SimDisk::new(9), bulk_load_min);
                let used = space::usage(&fixture.store().pool, fixture.table.layout().id)
                    .expect("usage")
                    .used;
                let original = rows[40].clone();
                let second = if order == "sorted" { 41 } else { 2000 };
                if index == 0 {
                    rows.insert(second, original.clone());
                } else {
                    rows[2000].1.tag = Some(60_001);
                    rows[700].1.tag = Some(60_001);
                }
                match load_all(&fixture, &rows) {
                    Err(Error::Duplicate { index: found, pk }) => {
                        assert_eq!(found, index, "{order}");
                        let named = [&rows[2000].0, &rows[700].0, &original.0];
                        assert!(named.contains(&&pk), "{order}: {pk:?}");
                    }
                    other => panic!("{order}: {other:?}"),
                }
                if index == 0 {
                    rows.remove(second);
                    // Nothing was linked or built page by page: not a page is lost. (Else they go
                    // with the file.)
                    if order == "sorted" || (order == "shuffled" && bulk_load_min == 100 << 10) {
                        let left = space::usage(&fixture.store().pool, fixture.table.layout().id)
                            .expect("usage")
                            .used;
                        assert_eq!(left, used, "{order}, minimum {bulk_load_min}");
                    }
                }
                fixture.store().tables().close_table(&fixture.table);
                fixture.store().tables().drop_table("t").expect("drop");
            }
        }
    }
}

/// Cut short at any write: the table is empty or whole, and can be dropped. The rollback's work on
/// long rows is done.
#[test]
fn a_crash_at_any_write_loses_the_load_or_nothing() {
    let rows = orders(1500).swap_remove(2).1;
    let (mut n, mut whole, mut empty) = (1, 0, 0);
    loop {
        let disk = SimDisk::new(n);
        let fixture = open(disk.clone(), 0);
        fixture.engine.checkpoint().expect("checkpoint");
        disk.crash_at(disk.changes() + n);
        let done = load_all(&fixture, &rows);
        let crashed = disk.is_dead();
        let after = disk.crash(n * 3);
        drop(fixture);
        let fixture = open(after.clone(), 0);
        fixture.engine.start_background();
        super::crash::wait_for_rollback(&fixture.engine);
        let mut trx = fixture.begin(Isolation::RepeatableRead);
        let found = fixture.scan(&mut trx, 0, false, false, None).expect("scan").len();
        if done.is_ok() {
            fixture.check_view(&mut trx, &rows.iter().cloned().collect(), "an acknowledged load");
        }
        fixture.engine.commit(&mut trx, false).expect("commit");
        assert!(
            done.is_err() || found == rows.len(),
            "crash {n}: {found} rows of an acknowledged load"
        );
        whole += (found == rows.len()) as u32;
        empty += (found == 0) as u32;
        fixture.store().tables().close_table(&fixture.table);
        fixture.store().tables().drop_table("t").expect("drop");
        let files = after.list().expect("list");
        assert_eq!(
            files.iter().filter(|f| f.ends_with(".slu")).count(),
            2,
            "crash {n}: {files:?}"
        );
        if !crashed {
            break;
        }
        n += 1;
    }
    assert!(whole >= 1 && empty >= 5, "{whole} whole, {empty} empty");
}
