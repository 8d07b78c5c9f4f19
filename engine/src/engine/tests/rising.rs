//! The leaf that rising keys come to (`table/rising.rs`), and loads that are taken back: their leaves look as the tree's own.
use super::bulk_insert::{commit, fill, is_bare};
use super::load::Rows;
use super::rig::*;
use crate::base::moment::at;
use crate::base::{Error, Moment, PageId, PageNo};
use crate::engine::{Config, Engine};
use crate::io::sim::SimDisk;
use crate::pool::page::{page_index, page_level, page_type};
use crate::pool::PageType;
use crate::space;
use crate::table::StoreConfig;
use crate::txn::Isolation::ReadCommitted;
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

/// A table whose rows came one by one, in the order of their keys, and went again; and the leaf that they came to last.
fn emptied() -> (Arc<Rig>, PageNo) {
    let config = Config {
        buffer_pool_size: 64 << 20,
        redo_log_capacity: 64 << 20,
        store: StoreConfig {
            bulk_load_min: 0,
            ..Default::default()
        },
        ..config()
    };
    let rig = Rig::with(Engine::open(SimDisk::new(3), config).expect("engine"));
    let mut trx = rig.begin(ReadCommitted);
    (0..ROWS).for_each(|n| rig.insert(&mut trx, &key(n), &row(None)).expect("insert"));
    commit(&rig, trx);
    let tree = rig.table.layout().clustered.tree;
    let rising = tree.leaf_number(&rig.store().pool, &key(ROWS - 1)).expect("read");
    let mut trx = rig.begin(ReadCommitted);
    (0..ROWS).for_each(|n| rig.delete(&mut trx, &key(n), &row(None)).expect("delete"));
    commit(&rig, trx);
    rig.purge_all();
    rig.store().drain_changes().expect("drain");
    rig.purge_all();
    assert!(is_bare(&rig));
    (Arc::new(rig), rising)
}

/// Two rows with one unique value, the first of them the `n`th: the load fails, and reads the leaf of one for its error.
fn fail_at(rig: &Rig, n: u32) {
    let mut rows: Rows = (0..9000).map(|n| (key(n), row(None))).collect();
    rows[n as usize].1.tag = Some(60_001);
    rows[n as usize + 1].1.tag = Some(60_001);
    let mut trx = rig.begin(ReadCommitted);
    let (error, _) = fill(rig, &mut trx, &rows).expect_err("twice");
    assert!(matches!(error, Error::Duplicate { index: BY_TAG, .. }), "{error}");
    commit(rig, trx);
    assert!(is_bare(rig));
}

/// The first key of page `no`, if the pool has it as a leaf of the clustered tree.
fn first_key(rig: &Rig, no: PageNo) -> Option<u32> {
    let (layout, pool) = (rig.table.layout(), &rig.store().pool);
    let tree = layout.clustered.tree;
    let page = pool.read_resident(PageId::new(layout.id, no))?;
    let is_leaf = page_type(&page) == PageType::Tree as u8 && page_index(&page) == tree.index && page_level(&page) == 0;
    let version = page.version();
    drop(page);
    let leaf = is_leaf.then(|| tree.revisit(pool, no, version, 0))??;
    (!leaf.is_empty()).then(|| u32::from_be_bytes(leaf.key_at(0)[..4].try_into().expect("four bytes")))
}

/// Loads that fail until one of them has left a leaf in page `rising`; a key that belongs there.
fn leave_leaf(rig: &Rig, rising: PageNo) -> Vec<u8> {
    // A leaf holds eighteen rows, and the first load's first leaf is the second extent's second page.
    let about = (rising - 65) * 18;
    for n in (about.saturating_sub(200)..about + 400).step_by(12) {
        fail_at(rig, n);
        if let Some(first) = first_key(rig, rising) {
            let page = PageId::new(rig.table.layout().id, rising);
            assert!(!space::is_used(&rig.store().pool, page).expect("read"));
            return [key(first + 3), vec![1]].concat();
        }
    }
    panic!("no load comes to page {rising}");
}

fn expect_row(rig: &Rig, pk: &[u8]) {
    let mut trx = rig.begin(ReadCommitted);
    assert!(
        rig.get(&mut trx, pk, None).expect("read").is_some(),
        "a committed row is gone"
    );
    commit(rig, trx);
    rig.check_table();
}

#[test]
fn a_row_goes_to_no_leaf_of_a_load_that_was_taken_back() {
    let (rig, rising) = emptied();
    let pk = leave_leaf(&rig, rising);
    let mut trx = rig.begin(ReadCommitted);
    rig.insert(&mut trx, &pk, &row(None)).expect("insert");
    commit(&rig, trx);
    expect_row(&rig, &pk);

    // The same, with the loads between the look at what is remembered and the leaf's latch.
    let (rig, rising) = emptied();
    let his = rig.clone();
    let mut trx = rig.begin(ReadCommitted);
    let expected = pk.clone();
    at(Moment::RisingLeafKnown, move || {
        assert_eq!(leave_leaf(&his, rising), expected)
    });
    rig.insert(&mut trx, &pk, &row(None)).expect("insert");
    commit(&rig, trx);
    expect_row(&rig, &pk);
}
