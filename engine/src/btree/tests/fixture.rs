//! Shared by the tests of trees: makes a tree, changes it as the layers above do, and checks it.
use crate::base::{FileId, Lsn, Result};
use crate::btree::check::Report;
use crate::btree::pages::begin;
use crate::btree::{Intent, Placed, Tree, WIDE_BIT};
use crate::index::Index;
pub(crate) use crate::io::sim::Rng;
use crate::io::{Disk, SimDisk};
use crate::pool::testing::PoolFixture;
use crate::pool::Pool;
use crate::space;

pub(crate) const FILE: FileId = 16;
const INDEX: u32 = 5;

pub(crate) fn new_tree(pool: &Pool) -> Tree {
    space::create_file(pool, FILE, false).unwrap();
    add_tree(pool, INDEX)
}
/// Another tree in the same file.
pub(crate) fn add_tree(pool: &Pool, index: u32) -> Tree {
    let mut mtr = pool.begin();
    let tree = Tree::create(&mut mtr, FILE, index).unwrap();
    mtr.commit();
    tree
}
/// The tree as an index without a change buffer.
pub(crate) fn index_of(tree: &Tree) -> Index {
    Index::new("i", false, *tree, None)
}
pub(crate) fn fixture_with_tree(seed: u64, frames: usize) -> (PoolFixture, Tree) {
    let fixture = PoolFixture::create(seed, frames);
    let tree = new_tree(&fixture.pool);
    (fixture, tree)
}
pub(crate) fn fixture_with_wide_tree(seed: u64, frames: usize) -> (PoolFixture, Tree) {
    let fixture = PoolFixture::create(seed, frames);
    space::create_file(&fixture.pool, FILE, false).unwrap();
    let tree = add_tree(&fixture.pool, INDEX | WIDE_BIT);
    (fixture, tree)
}
/// Inserts or overwrites. True: the entry is new.
pub(crate) fn put(pool: &Pool, tree: &Tree, key: &[u8], value: &[u8]) -> bool {
    try_put(pool, tree, key, value).unwrap().0
}
/// As `put`; also returns the LSN of the change.
pub(crate) fn try_put(pool: &Pool, tree: &Tree, key: &[u8], value: &[u8]) -> Result<(bool, Lsn)> {
    for intent in [Intent::Leaf, Intent::Grow(key.len() + value.len())] {
        let mut mtr = begin(pool)?;
        let at = tree.leaf_for_write(&mut mtr, key, intent, None)?;
        let room = at.has_room(&mtr, key.len(), value.len());
        let placed = if at.found {
            at.set_value(&mut mtr, value)?
        } else {
            at.insert(&mut mtr, key, value)?
        };
        assert_eq!(room, placed == Placed::Done);
        let lsn = mtr.commit();
        if placed == Placed::Done {
            return Ok((!at.found, lsn));
        }
    }
    panic!("no room under Grow");
}
/// True: the entry existed.
pub(crate) fn delete(pool: &Pool, tree: &Tree, key: &[u8], intent: Intent) -> bool {
    try_delete(pool, tree, key, intent).unwrap().0
}
pub(crate) fn try_delete(pool: &Pool, tree: &Tree, key: &[u8], intent: Intent) -> Result<(bool, Lsn)> {
    let mut mtr = begin(pool)?;
    let at = tree.leaf_for_write(&mut mtr, key, intent, None)?;
    let sparse = at.found && at.remove(&mut mtr)?;
    let lsn = mtr.commit();
    if sparse {
        tree.try_merge_nodes(pool, key)?;
    }
    Ok((at.found, lsn))
}
/// The tree is sound, and (if it is alone in its file) every used page of the file is its own.
pub(crate) fn check(pool: &Pool, tree: &Tree, alone: bool) -> Report {
    let report = tree.verify(pool, &mut |_, _| None).unwrap();
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    let stats = tree.stats(pool).unwrap();
    assert_eq!(
        (stats.leaf_pages, stats.inner_pages, stats.height),
        (report.leaf_pages, report.inner_pages, report.height)
    );
    if alone {
        // Header and first bitmap.
        assert_eq!(
            space::usage(pool, tree.file).unwrap().used as usize,
            report.pages.len() + 2
        );
    }
    report
}
/// Writes a checkpoint, so that the log's segments can be reused.
pub(crate) fn checkpoint(pool: &Pool) {
    pool.flush_all().unwrap();
    pool.redo().write_checkpoint(pool.checkpoint_lsn(), &[]).unwrap();
}
/// From now on the disk takes only this many bytes more.
pub(crate) fn leave_space(disk: &SimDisk, bytes: u64) {
    let names = disk.list().unwrap();
    let used: usize = names.iter().map(|name| disk.bytes(name).unwrap().len()).sum();
    disk.set_space(Some(used as u64 + bytes));
}
