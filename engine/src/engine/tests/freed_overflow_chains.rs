//! Chains of long rows that were freed, and whose pages a load got before the disk knew of it.
//!
//! A chain's head was freed in the pool alone. The chain's extent was given to an index build,
//! which discarded that change, needed two pages, and gave the rest back unwritten. On disk the
//! chain was alive for ever. The position of purge in its stream is made durable only now and then.
//! After a restart, purge therefore came to the old version again and freed the chain once more: a
//! false report of damage at best.
use super::change_buffer::rebuild_by_group;
use super::fixture::*;
use crate::base::sync_point::at;
use crate::base::SyncPoint;
use crate::btree::overflow;
use crate::engine::{Close, Config, Engine};
use crate::index::ChainRef;
use crate::io::SimDisk;
use crate::pool::PAGE_SIZE;
use crate::space;
use crate::table::StoreConfig;
use crate::txn::Isolation::ReadCommitted;
use std::sync::Arc;

fn config_of_loads() -> Config {
    Config {
        buffer_pool_size: 16 << 20,
        store: StoreConfig {
            bulk_load_min: 0,
            ..StoreConfig::default()
        },
        ..config()
    }
}
fn row(n: u32, len: usize) -> Row {
    Row {
        group: (n % 7) as u8,
        shade: 0,
        tag: Some(n as u16),
        body: vec![n as u8; len],
    }
}
fn open(disk: &Arc<SimDisk>) -> TableFixture {
    let engine = Engine::open_still(disk.clone(), config_of_loads()).expect("opens");
    let table = engine.store().tables().open_table("t").expect("table");
    TableFixture { engine, table }
}

/// Rows that are long at first: their chains take whole extents, in which no leaf is.
const LONG_ROWS: u32 = 60;
const LONG: usize = 100_000;
/// And short ones, so that an index has several leaves.
const ROWS: u32 = 2000;

/// As purge does that comes to the old versions once more: it can only find that there is nothing
/// left to do.
fn free_again(fixture: &TableFixture, chains: &[ChainRef]) {
    let (pool, file) = (&fixture.store().pool, fixture.table.layout().id);
    let used = space::usage(pool, file).expect("usage").used;
    for chain in chains {
        let freed = overflow::free(pool, file, chain.first, chain.owner);
        assert_eq!(freed, Ok(()), "page {}", chain.first);
    }
    assert_eq!(space::usage(pool, file).expect("usage").used, used);
}

/// Long rows, on disk, that are short now; their chains are freed, and the disk does not know it.
/// What the rows are, and what the chains were.
fn freed(disk: &Arc<SimDisk>) -> (TableFixture, Model, Vec<ChainRef>) {
    let engine = Engine::open(disk.clone(), config_of_loads()).expect("fresh engine");
    let fixture = TableFixture::with(engine);
    let mut trx = fixture.begin(ReadCommitted);
    for n in 0..LONG_ROWS {
        fixture.insert(&mut trx, &pk(n), &row(n, LONG)).expect("insert");
    }
    let mut model = Model::new();
    for n in LONG_ROWS..ROWS {
        fixture.insert(&mut trx, &pk(n), &row(n, 10)).expect("insert");
        model.insert(pk(n), row(n, 10));
    }
    fixture.engine.commit(&mut trx, true).expect("commit");
    fixture.engine.close(Close::Slow).expect("close");
    drop(fixture);
    let fixture = open(disk);
    let tree = fixture.table.layout().clustered.tree;
    let chain_of = |n: u32| {
        let leaf = tree.get(&fixture.store().pool, &pk(n)).expect("read").expect("there");
        ChainRef::of(leaf.value()).expect("a long row")
    };
    let chains: Vec<_> = (0..LONG_ROWS).map(chain_of).collect();
    let mut trx = fixture.begin(ReadCommitted);
    for n in 0..LONG_ROWS {
        fixture
            .update(&mut trx, &pk(n), &row(n, LONG), &row(n, 10))
            .expect("update");
        model.insert(pk(n), row(n, 10));
    }
    fixture.engine.commit(&mut trx, true).expect("commit");
    fixture.purge_all();
    (fixture, model, chains)
}

#[test]
fn a_chain_that_was_freed_stays_so_when_a_load_leaves_its_pages_alone() {
    for crash in [false, true] {
        let disk = SimDisk::new(1);
        let (fixture, model, chains) = freed(&disk);
        rebuild_by_group(&fixture, &fixture.table, &model);
        assert!(fixture.engine.counters().bulk_pages_written.get() > 0, "it was no load");
        let disk = match crash {
            true => disk.crash(1),
            false => {
                fixture.engine.close(Close::Fast).expect("close");
                disk
            }
        };
        let fixture = open(&disk);
        free_again(&fixture, &chains);
        fixture.purge_all();
        assert_eq!(fixture.engine.counters().purge_passed_over.get(), 0, "crash {crash}");
        fixture.check_table();
        let mut trx = fixture.begin(ReadCommitted);
        fixture.check_view(&mut trx, &model, "afterwards");
    }
}

/// The load was cut short: its extents are its own, and purge comes before they are given back.
#[test]
fn a_chain_that_was_freed_is_not_freed_under_a_load() {
    under_a_load(false);
}
/// And the power went while it wrote its pages, which no doublewrite has: they do not check, and
/// nothing is lost.
#[test]
fn a_chain_that_was_freed_is_no_damage_where_a_load_wrote() {
    under_a_load(true);
}
fn under_a_load(torn: bool) {
    let disk = SimDisk::new(1);
    let (fixture, model, chains) = freed(&disk);
    let layout = fixture.table.layout();
    let mut mtr = fixture.store().pool.begin();
    let index = layout.secondary[0].index.id;
    let list = crate::btree::extents::ExtentList::create(&mut mtr, layout.id, index, 77).expect("a list");
    mtr.commit();
    let mut load = crate::pool::direct::Direct::begin(&fixture.store().pool, layout.id).expect("load");
    let mut given = Vec::new();
    for _ in 0..6 {
        let (first, lsn) = list.allocate(&fixture.store().pool).expect("given");
        load.given(first, space::EXTENT_PAGES, lsn).expect("given");
        given.extend(first..first + space::EXTENT_PAGES);
    }
    let disk = disk.crash(1);
    let name = space::file_name(layout.id);
    let pages = (disk.bytes(&name).expect("there").len() / PAGE_SIZE) as u32;
    for no in given.into_iter().filter(|no| torn && *no < pages) {
        disk.flip(&name, no as u64 * PAGE_SIZE as u64 + 5000, 4);
    }
    let fixture = open(&disk);
    free_again(&fixture, &chains);
    fixture.purge_all();
    assert_eq!(fixture.engine.counters().purge_passed_over.get(), 0);
    list.free_all(&fixture.store().pool).expect("given back");
    // At later starts the log says nothing of the load any more.
    fixture.engine.close(Close::Fast).expect("close");
    let fixture = open(&disk);
    free_again(&fixture, &chains);
    fixture.check_table();
    let mut trx = fixture.begin(ReadCommitted);
    fixture.check_view(&mut trx, &model, "afterwards");
}

/// A thread that asks whether a page is written meets the flusher that has begun with it: the page
/// is on its way.
#[test]
fn a_page_on_its_way_is_not_taken_for_written() {
    let (fixture, _, chains) = freed(&SimDisk::new(1));
    let (pool, file) = (fixture.store().pool.clone(), fixture.table.layout().id);
    let head = crate::base::PageId::new(file, chains[3].first);
    assert!(
        !pool.flusher().is_past_written(head, 1),
        "the disk does not know that it is free"
    );
    let other = pool.clone();
    at(SyncPoint::PastAsked, move || other.flush_all().expect("flush"));
    assert!(!pool.flusher().is_past_written(head, 1), "it was asked for before");
    assert!(pool.flusher().is_past_written(head, 1));
}
