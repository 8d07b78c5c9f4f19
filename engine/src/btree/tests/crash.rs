//! Crashes at any disk access, in the middle of splits, merges, builds and frees.
//!
//! After recovery the tree is sound. It holds exactly the changes up to a point in the log, which
//! is not before the durable point.
use super::fixture::*;
use crate::base::{Lsn, Result};
use crate::btree::build::Builder;
use crate::btree::{Intent, Tree, TreeRemover, ENTRY_MAX};
use crate::io::SimDisk;
use crate::pool::testing::PoolFixture;
use crate::pool::Pool;
use crate::redo::{FlushMode, Redo};
use crate::space;
use std::collections::BTreeMap;
use std::sync::Arc;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// The changes, in log order: (end of the change in the log, key, new value).
type History = Vec<(Lsn, Vec<u8>, Option<Vec<u8>>)>;

/// The change failed: it may be in the log or not.
const UNKNOWN: Lsn = Lsn::MAX;

const FRAMES: usize = 48;
/// A wide node takes four.
const WIDE_FRAMES: usize = 160;

fn change(pool: &Pool, tree: &Tree, rng: &mut Rng, deletes: usize, history: &mut History) -> Result<()> {
    let n = rng.below(600);
    let mut key = (n as u32).to_be_bytes().to_vec();
    key.resize(4 + [0, 30, tree.key_max() / 4][n % 3], b'.');
    let value = (rng.below(100) >= deletes).then(|| vec![rng.below(256) as u8; rng.below(tree.entry_max() / 3)]);
    history.push((UNKNOWN, key.clone(), value.clone()));
    let lsn = match value {
        Some(value) => try_put(pool, tree, &key, &value)?.1,
        None => try_delete(pool, tree, &key, Intent::Leaf)?.1,
    };
    history.last_mut().unwrap().0 = lsn;
    Ok(())
}

/// Random changes, flushes and checkpoints until all is done or the disk dies.
fn work(fixture: &PoolFixture, tree: &Tree, seed: u64, history: &mut History, durable: &mut Lsn) -> Result<()> {
    let pool = &*fixture.pool;
    let mut rng = Rng(seed);
    for step in 0..1500 {
        change(pool, tree, &mut rng, [10, 85][step / 400 % 2], history)?;
        match rng.below(40) {
            0..=3 => {
                let lsn = pool.redo().lsn();
                pool.redo().flush(lsn, FlushMode::Sync)?;
                *durable = lsn;
            }
            4 => {
                pool.flusher().step(8)?;
            }
            5 => pool.redo().write_checkpoint(pool.checkpoint_lsn(), &[])?,
            _ => {}
        }
    }
    Ok(())
}

fn recover(disk: Arc<SimDisk>) -> (PoolFixture, Lsn) {
    // Changes before the checkpoint are in place: recovery does not read them.
    let mut end = Redo::read_checkpoint(&*disk).unwrap().0;
    let fixture = PoolFixture::recover(disk, WIDE_FRAMES, &mut |lsn, _| end = end.max(lsn));
    (fixture, end)
}

fn started(seed: u64) -> (PoolFixture, Tree) {
    begun(fixture_with_tree(seed, FRAMES))
}
fn begun((fixture, tree): (PoolFixture, Tree)) -> (PoolFixture, Tree) {
    let lsn = fixture.pool.redo().lsn();
    fixture.pool.redo().flush(lsn, FlushMode::Sync).unwrap();
    (fixture, tree)
}

/// A change without effect is not in the log, and its LSN is 0. It is skipped: the crash may have
/// lost the state that it found.
fn replay(history: &History, counts: impl Fn(Lsn) -> bool) -> Model {
    let mut model = Model::new();
    for (_, key, value) in history.iter().filter(|change| change.0 != 0 && counts(change.0)) {
        match value {
            Some(value) => drop(model.insert(key.clone(), value.clone())),
            None => drop(model.remove(key)),
        }
    }
    model
}

fn crash_in_changes(seed: u64, wide: bool, at: Option<u64>) -> u64 {
    let (fixture, tree) = match wide {
        false => started(seed),
        true => begun(fixture_with_wide_tree(seed, WIDE_FRAMES)),
    };
    let before = fixture.disk.changes();
    if let Some(at) = at {
        fixture.disk.crash_at(before + at);
    }
    let (mut history, mut durable) = (History::new(), 0);
    let outcome = work(&fixture, &tree, seed, &mut history, &mut durable);
    let changes = fixture.disk.changes() - before;
    assert_eq!(outcome.is_err(), fixture.disk.is_dead());
    let disk = fixture.disk.crash(seed ^ 0xC0FFEE);
    drop(fixture);
    let (fixture, end) = recover(disk);
    let end = end.max(durable);
    let model = replay(&history, |lsn| lsn <= end);
    let other = replay(&history, |lsn| lsn <= end || lsn == UNKNOWN);
    let mut found = Model::new();
    let report = tree
        .verify(&fixture.pool, &mut |k, v| {
            found.insert(k.to_vec(), v.to_vec());
            None
        })
        .unwrap();
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    assert!(
        found == model || found == other,
        "seed {seed}, crash at {at:?}: {} of {} entries",
        found.len(),
        model.len()
    );
    assert_eq!(
        space::usage(&fixture.pool, FILE).unwrap().used as usize,
        report.pages.len() + 2
    );
    // The tree still takes changes.
    let mut history = History::new();
    for _ in 0..50 {
        change(&fixture.pool, &tree, &mut Rng(seed), 30, &mut history).unwrap();
    }
    check(&fixture.pool, &tree, true);
    changes
}

#[test]
fn changes_survive_a_crash_anywhere() {
    for (seed, wide) in [(0, false), (1, false), (2, false), (3, true), (4, true)] {
        let total = crash_in_changes(seed, wide, None);
        assert!(total > 50, "{total} disk changes");
        let mut rng = Rng(seed);
        for _ in 0..20 {
            crash_in_changes(seed, wide, Some(1 + rng.below(total as usize) as u64));
        }
    }
}

#[test]
fn a_build_cut_short_by_a_crash_can_be_freed() {
    let build = |fixture: &PoolFixture, tree: Tree| -> Result<()> {
        let mut builder = Builder::new(&fixture.pool, tree, 95);
        for n in 0..4000u64 {
            builder.push(&n.to_be_bytes(), &[n as u8; ENTRY_MAX / 8])?;
        }
        builder.finish()?;
        TreeRemover::new(&fixture.pool, &tree).remove()
    };
    let (fixture, tree) = started(1);
    let before = fixture.disk.changes();
    build(&fixture, tree).unwrap();
    let total = fixture.disk.changes() - before;
    for at in (1..total).step_by((total / 12).max(1) as usize) {
        let (fixture, tree) = started(1);
        fixture.disk.crash_at(fixture.disk.changes() + at);
        assert!(build(&fixture, tree).is_err());
        let disk = fixture.disk.crash(at);
        drop(fixture);
        let (fixture, _) = recover(disk);
        TreeRemover::new(&fixture.pool, &tree).remove().unwrap();
        assert_eq!(space::usage(&fixture.pool, FILE).unwrap().used, 2, "crash at {at}");
    }
}
