//! The leaf that ascending keys are appended to (`table/catalog/append_hint.rs`), and loads that
//! are rolled back: their leaves look like those of the tree.
use super::bulk_insert::{commit, fill, has_empty_trees};
use super::fixture::*;
use super::load_new_table::Rows;
use crate::base::sync_point::at;
use crate::base::{Error, PageId, PageNo, SyncPoint};
use crate::btree::Seek;
use crate::engine::{Config, Engine};
use crate::io::sim::SimDisk;
use crate::pool::page::{page_index, page_level, page_type};
use crate::pool::PageType;
use crate::space;
use crate::table::{IndexBuild, IndexSpec, LockChoice, StoreConfig};
use crate::txn::Isolation::ReadCommitted;
use crate::txn::LockMode;
use std::sync::Arc;

const ROWS: u32 = 4000;

fn key(n: u32) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

fn row(tag: Option<u16>) -> Row {
    Row {
        group: 1,
        shade: 0,
        tag,
        body: vec![7; 780],
    }
}

/// Every INSERT ... SELECT into the empty table is a load.
pub fn empty() -> TableFixture {
    let config = Config {
        buffer_pool_size: 64 << 20,
        redo_log_capacity: 64 << 20,
        store: StoreConfig {
            bulk_load_min: 0,
            ..Default::default()
        },
        ..config()
    };
    TableFixture::with(Engine::open(SimDisk::new(3), config).expect("engine"))
}

/// A table whose rows came one by one, in the order of their keys, and went again; and the leaf
/// that they came to last. It may be on disk as it was with them.
fn emptied(written: bool) -> (Arc<TableFixture>, PageNo) {
    let fixture = empty();
    let mut trx = fixture.begin(ReadCommitted);
    (0..ROWS).for_each(|n| fixture.insert(&mut trx, &key(n), &row(None)).expect("insert"));
    commit(&fixture, trx);
    let tree = fixture.table.layout().clustered.tree;
    let hinted = tree.leaf_number(&fixture.store().pool, &key(ROWS - 1)).expect("read");
    if written {
        fixture.engine.checkpoint().expect("checkpoint");
    }
    let mut trx = fixture.begin(ReadCommitted);
    (0..ROWS).for_each(|n| fixture.delete(&mut trx, &key(n), &row(None)).expect("delete"));
    commit(&fixture, trx);
    fixture.purge_all();
    fixture.store().merge_scheduler().drain_changes().expect("drain");
    fixture.purge_all();
    assert!(has_empty_trees(&fixture));
    (Arc::new(fixture), hinted)
}

/// A load of keys from `from` on. Two rows with one unique value, the first of them the `n`th: it
/// fails, and reads the leaf of one for its error.
fn fail_at(fixture: &TableFixture, from: u32, n: u32) {
    let mut rows: Rows = (from..from + 9000).map(|n| (key(n), row(None))).collect();
    rows[n as usize].1.tag = Some(60_001);
    rows[n as usize + 1].1.tag = Some(60_001);
    let mut trx = fixture.begin(ReadCommitted);
    let (error, _) = fill(fixture, &mut trx, &rows).expect_err("twice");
    assert!(matches!(error, Error::Duplicate { index: BY_TAG, .. }), "{error}");
    commit(fixture, trx);
    assert!(has_empty_trees(fixture));
}

/// The first key of page `no`, if the pool has it as a leaf of the clustered tree.
fn first_key(fixture: &TableFixture, no: PageNo) -> Option<u32> {
    let (layout, pool) = (fixture.table.layout(), &fixture.store().pool);
    let tree = layout.clustered.tree;
    let page = pool.read_resident(PageId::new(layout.id, no))?;
    let is_leaf = page_type(&page) == PageType::Tree as u8 && page_index(&page) == tree.index && page_level(&page) == 0;
    let version = page.version();
    drop(page);
    let leaf = is_leaf.then(|| tree.revisit(pool, no, version, 0))??;
    (!leaf.is_empty()).then(|| u32::from_be_bytes(leaf.key_at(0)[..4].try_into().expect("four bytes")))
}

/// Loads that fail until one of them has left a leaf in page `no`: where that one failed, and the
/// leaf's first key.
fn leave_leaf(fixture: &TableFixture, no: PageNo) -> (u32, u32) {
    // A leaf holds eighteen rows, and the first load's first leaf is the second extent's second
    // page.
    let about = (no - 65) * 18;
    for n in (about.saturating_sub(200)..about + 400).step_by(12) {
        fail_at(fixture, 0, n);
        if let Some(first) = first_key(fixture, no) {
            let page = PageId::new(fixture.table.layout().id, no);
            assert!(!space::is_used(&fixture.store().pool, page).expect("read"));
            return (n, first);
        }
    }
    panic!("no load comes to page {no}");
}

/// A key that belongs there, and that the load had not.
fn between((_, first): (u32, u32)) -> Vec<u8> {
    [key(first + 3), vec![1]].concat()
}

fn expect_row(fixture: &TableFixture, pk: &[u8]) {
    let mut trx = fixture.begin(ReadCommitted);
    assert!(
        fixture.get(&mut trx, pk, None).expect("read").is_some(),
        "a committed row is gone"
    );
    commit(fixture, trx);
    fixture.check_table();
}

#[test]
fn a_row_goes_to_no_leaf_of_a_load_that_was_taken_back() {
    let (fixture, hinted) = emptied(false);
    let pk = between(leave_leaf(&fixture, hinted));
    let mut trx = fixture.begin(ReadCommitted);
    fixture.insert(&mut trx, &pk, &row(None)).expect("insert");
    commit(&fixture, trx);
    expect_row(&fixture, &pk);

    // The same, with the loads between the look at what is remembered and the leaf's latch.
    let (fixture, hinted) = emptied(false);
    let shared_fixture = fixture.clone();
    let mut trx = fixture.begin(ReadCommitted);
    let expected = pk.clone();
    at(SyncPoint::AppendHintRead, move || {
        assert_eq!(between(leave_leaf(&shared_fixture, hinted)), expected)
    });
    fixture.insert(&mut trx, &pk, &row(None)).expect("insert");
    commit(&fixture, trx);
    expect_row(&fixture, &pk);
}

/// The leaf of a row was remembered; the row was locked, and undone with its transaction's
/// savepoint. Then its key belonged to a load that failed, and later to the row of another
/// transaction.
#[test]
fn a_change_goes_to_no_leaf_of_a_load_that_was_taken_back() {
    const FROM: u32 = 1_000_000;
    let fixture = empty();
    let last = key(FROM + ROWS - 1);
    let mut trx = fixture.begin(ReadCommitted);
    let savepoint = fixture.store().rollbacks().savepoint(&trx);
    (FROM..FROM + ROWS).for_each(|n| fixture.insert(&mut trx, &key(n), &row(None)).expect("insert"));
    assert!(fixture
        .get(&mut trx, &last, Some(LockMode::Exclusive))
        .expect("read")
        .is_some());
    let tree = fixture.table.layout().clustered.tree;
    let leaf = tree.leaf_number(&fixture.store().pool, &last).expect("read");
    fixture
        .store()
        .rollbacks()
        .rollback_to(&mut trx, savepoint)
        .expect("rollback");
    fixture.store().merge_scheduler().drain_changes().expect("drain");
    fixture.purge_all();
    assert!(has_empty_trees(&fixture));

    let (n, first) = leave_leaf(&fixture, leaf);
    fail_at(&fixture, FROM + ROWS - 1 - (first + 3), n);
    let left = first_key(&fixture, leaf).expect("the same load, of other keys");
    assert_eq!(left + 3, FROM + ROWS - 1);
    let mut other = fixture.begin(ReadCommitted);
    fixture.insert(&mut other, &last, &row(None)).expect("insert");
    commit(&fixture, other);

    let mut scan = fixture.store().cursor(fixture.table.clone());
    let lock = LockChoice {
        mode: Some(LockMode::Exclusive),
        ..Default::default()
    };
    scan.begin(&mut trx, 0, lock, false).expect("begin");
    assert_eq!(scan.seek(&mut trx, Seek::Ge, &last), Ok(true));
    let new = Row { group: 2, ..row(None) };
    fixture.update(&mut trx, &last, &row(None), &new).expect("update");
    commit(&fixture, trx);
    let mut look = fixture.begin(ReadCommitted);
    let found = fixture.get(&mut look, &last, None).expect("read").expect("a row");
    assert_eq!(found.group, 2, "an update is lost");
    commit(&fixture, look);
    fixture.check_table();
}

/// Entries of an index build past the pool, the last two with the same value. The pages that the
/// build got before it failed stay the build's until it is aborted.
pub fn failed_build(fixture: &TableFixture, entries: u32) -> IndexBuild {
    let spec = IndexSpec {
        name: "built".into(),
        unique: true,
        wide: false,
        ..IndexSpec::default()
    };
    let mut build = fixture
        .store()
        .indexes()
        .begin_build(&fixture.table, &spec)
        .expect("begin");
    for n in 0..entries {
        let value = [key(n.min(entries - 2)), vec![7; 780]].concat();
        build
            .add(&[&value[..], &key(n)].concat(), value.len(), true, &[])
            .expect("add");
    }
    let mut trx = fixture.begin(ReadCommitted);
    let failed = build.finish(&trx);
    assert!(matches!(failed, Err(Error::Duplicate { .. })), "{failed:?}");
    fixture.engine.commit(&mut trx, false).expect("commit");
    build
}

/// The leaf's page belonged to an index build that failed. A reader of all pages brought back what
/// the disk had of that page.
#[test]
fn a_row_goes_to_no_page_of_an_index_build_that_failed() {
    let (fixture, hinted) = emptied(true);
    let page = PageId::new(fixture.table.layout().id, hinted);
    let comes_back = (500..8000).step_by(300).any(|entries| {
        let build = failed_build(&fixture, entries);
        let used = space::is_used(&fixture.store().pool, page).expect("read");
        let _ = fixture.store().pool.read(page);
        let is_leaf = used && first_key(&fixture, hinted).is_some();
        build.abort().expect("abort");
        is_leaf
    });
    assert!(comes_back, "no build comes to page {hinted}");
    let pk = key(ROWS);
    let mut trx = fixture.begin(ReadCommitted);
    // The leaf may be nearly full.
    let small = Row {
        body: vec![7; 10],
        ..row(None)
    };
    fixture.insert(&mut trx, &pk, &small).expect("insert");
    commit(&fixture, trx);
    expect_row(&fixture, &pk);
}
